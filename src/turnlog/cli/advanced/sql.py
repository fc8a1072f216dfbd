"""``turnlog sql``: plain SQL over the views of the index, read only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli.index_access import no_refresh_option, open_index
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    limit_option,
    markdown_option,
    period_options,
    show_json,
)
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.api.sql import Cell, SchemaDocument, SqlDocument

# So much of a value must be seen on one line; else rows are shown one below the other.
_LEAST_WIDTH: Final = 24


@click.command(
    name="sql",
    epilog="""\b
Examples:
  turnlog sql --schema                  the views
  turnlog sql --schema v_calls          one of them, with its columns
  turnlog sql "SELECT tool, count(*) FROM v_calls GROUP BY tool ORDER BY 2 DESC"
  turnlog sql "SELECT at, text(log, offset) FROM v_prompts ORDER BY at DESC" --limit 5
  turnlog sql - --csv < question.sql
Exit code: 0 done, 1 no rows, 2 a mistake in the statement or no answer in time, 3 a failure.""",
)
@click.argument("statement", required=False)
@home_option
@json_option
@csv_option
@markdown_option
@click.option("--schema", "wants_schema", is_flag=True, help="Show the views, or the one named.")
@period_options
@limit_option(1000)
@click.option(
    "--seconds", default=10.0, show_default=True, type=float, help="How long it may take."
)
@no_refresh_option
def command(
    statement: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    as_markdown: bool,
    wants_schema: bool,
    limit: int,
    seconds: float,
    no_refresh: bool,
    **asked: Any,
) -> int:
    """Ask the index in SQL. STATEMENT is one SELECT; - reads it from stdin.

    It sees views (v_sessions, v_calls, v_messages …) with readable values, and cannot change
    anything. The index holds no text: text(log, offset) reads what a record says from its log.
    --schema describes the views.

    --since, --until and --project narrow the views before the statement sees them. v_logs and
    v_damages know no time, and are narrowed by --project only.
    """
    if wants_schema:
        return _schema(statement, as_json=as_json)
    if statement is None:
        raise UsageError("there is no statement", hint="turnlog sql --schema shows the views")
    from turnlog.api.sql import MOST_ROWS, run_sql
    from turnlog.formats import all_homes

    text = _typed() if statement == "-" else statement
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        answer = run_sql(index, text, limit=limit or MOST_ROWS, seconds=seconds, **asked)
    if as_json:
        show_json(answer)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv_cells

        show_csv_cells(answer.columns, answer.rows)
    elif as_markdown:
        _show_markdown(answer)
    else:
        _show(answer)
    if not as_json:
        for note in answer.notes:
            click.echo(f"notice: {note}", err=True)
    return 0 if answer.rows else 1


def _typed() -> str:
    """Read the statement from stdin, up to a little more than is allowed."""
    from turnlog.api.sql import MOST_STATEMENT_BYTES

    return sys.stdin.buffer.read(MOST_STATEMENT_BYTES + 1).decode("utf-8", "surrogateescape")


def _schema(name: str | None, *, as_json: bool) -> int:
    from turnlog.api.sql import schema

    found = schema(name)
    if as_json:
        show_json(found)
    else:
        _show_schema(found, is_one=name is not None)
    return 0


def _show_schema(found: SchemaDocument, *, is_one: bool) -> None:
    from rich.table import Table

    from turnlog.cli.terminal.console import console, safe

    out = console()
    for view in found.views:
        out.print(f"[bold]{view.name}[/]  {safe(view.about)}")
        if not is_one:
            names = ", ".join(column.name for column in view.columns)
            out.print(f"  [dim]{names}[/]\n")
            continue
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for column in view.columns:
            table.add_row(f"  [cyan]{column.name}[/]", safe(column.about))
        out.print(table)


def _show(answer: SqlDocument) -> None:
    from turnlog.cli.terminal.console import console, counted

    out = console()
    if not answer.rows:
        out.print("No rows.")
        return
    if sys.stdout.isatty() and _width(answer) > out.width:
        _show_below(answer)
    else:
        _show_table(answer)
    if sys.stdout.isatty():
        out.print(f"[dim]{counted(len(answer.rows), 'row')}[/]")


def _show_table(answer: SqlDocument) -> None:
    from rich.table import Table

    from turnlog.cli.terminal.console import console, safe

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(answer.columns):
        is_number = all(isinstance(row[number], int | float | None) for row in answer.rows)
        table.add_column(
            safe(column), justify="right" if is_number else "left", overflow="fold", no_wrap=False
        )
    for row in answer.rows:
        table.add_row(*(safe(_words(cell)) for cell in row))
    if sys.stdout.isatty():
        console().print(table)
        return
    from turnlog.cli.terminal.console import pipe_console

    pipe_console().print(
        table
    )  # Also if COLUMNS is set: many columns in few would be one letter each.


def _show_below(answer: SqlDocument) -> None:
    """Show rows that are too wide for a table, a line for each column."""
    from rich.table import Table

    from turnlog.cli.terminal.console import console, safe

    out = console()
    for number, row in enumerate(answer.rows):
        if number:
            out.print()
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(justify="right", no_wrap=True, style="cyan")
        table.add_column(overflow="fold")
        for column, cell in zip(answer.columns, row, strict=True):
            table.add_row(safe(column), safe(_words(cell)))
        out.print(table)


def _width(answer: SqlDocument) -> int:
    """Return how wide a table must be at least for its values to say something."""
    columns = zip(answer.columns, *answer.rows, strict=True)
    widths = (max(len(_words(cell)) for cell in column) for column in columns)
    return sum(min(width, _LEAST_WIDTH) + 2 for width in widths) - 2


def _show_markdown(answer: SqlDocument) -> None:
    from turnlog.text import inert

    def cell_of(cell: Cell) -> str:
        return inert(_words(cell)).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")

    lines: list[Sequence[Cell]] = [answer.columns, ["---"] * len(answer.columns), *answer.rows]
    for row in lines:
        click.echo(f"| {' | '.join(map(cell_of, row))} |")


def _words(cell: Cell) -> str:
    """Write a value on one line."""
    if cell is None:
        return ""
    return " ".join(cell.split()) if isinstance(cell, str) else str(cell)
