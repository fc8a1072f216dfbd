"""``turnlog sql``: run a read-only SQL query against the index."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from turnlog.cli import options
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.api.query import Cell, SchemaDocument, SqlDocument

_LEAST_WIDTH: Final = 24
"""If columns would get narrower than this, rows are printed one column per line."""


@click.command(
    name="sql",
    epilog="""\b
Examples:
  turnlog sql --schema                  list the views
  turnlog sql --schema v_calls          describe the columns of a view
  turnlog sql "SELECT tool, count(*) FROM v_calls GROUP BY 1 ORDER BY 2 DESC"
  turnlog sql "SELECT at, text(log, offset) FROM v_prompts" --limit 5
  turnlog sql - --csv < query.sql
Exit codes: 0 success, 1 no rows, 2 invalid statement or timeout, 3 failure.""",
)
@click.argument("statement", required=False)
@options.report_options
@options.markdown_option
@click.option(
    "--schema",
    "wants_schema",
    is_flag=True,
    help="Describe all views, or the one given as STATEMENT.",
)
@options.period_options
@options.limit_option(1000)
@click.option(
    "--timeout",
    "seconds",
    default=10.0,
    show_default=True,
    type=float,
    metavar="SECONDS",
    help="Stop the statement after SECONDS.",
)
@options.no_refresh_option
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
    **filters: Any,
) -> int:
    """Run a read-only SQL query against the index. STATEMENT is one SELECT; - reads it from stdin.

    Query the views v_sessions, v_calls, v_messages …; --schema describes them. The index does not
    contain text: text(log, offset) reads the text of a record from its log.

    --since, --until and --project filter the views before the statement runs. v_logs and v_damages
    have no timestamps and are filtered by --project only.
    """
    if wants_schema:
        return _schema(statement, as_json=as_json)
    if statement is None:
        raise UsageError("no statement given", hint="turnlog sql --schema lists the views")
    from turnlog.api.homes import all_homes
    from turnlog.api.query import MOST_ROWS, MOST_STATEMENT_BYTES, run_sql

    if statement == "-":
        data = sys.stdin.buffer.read(MOST_STATEMENT_BYTES + 1)
        statement = data.decode("utf-8", "surrogateescape")
    with options.open_index(all_homes(homes), no_refresh=no_refresh) as index:
        answer = run_sql(index, statement, limit=limit or MOST_ROWS, seconds=seconds, **filters)
    if as_json:
        options.show_json(answer)
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


def _schema(name: str | None, *, as_json: bool) -> int:
    from turnlog.api.query import schema

    found = schema(name)
    if as_json:
        options.show_json(found)
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
        _show_records(answer)
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
        table.add_column(safe(column), justify="right" if is_number else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*(safe(_one_line(cell)) for cell in row))
    # A pipe has no width, even if COLUMNS is set: many columns would shrink to a letter each.
    console(has_width=sys.stdout.isatty()).print(table)


def _show_records(answer: SqlDocument) -> None:
    """Print rows that are too wide for a table, one line per column."""
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
            table.add_row(safe(column), safe(_one_line(cell)))
        out.print(table)


def _width(answer: SqlDocument) -> int:
    """Return the least width of a readable table."""
    columns = zip(answer.columns, *answer.rows, strict=True)
    widths = (max(len(_one_line(cell)) for cell in column) for column in columns)
    return sum(min(width, _LEAST_WIDTH) + 2 for width in widths) - 2


def _show_markdown(answer: SqlDocument) -> None:
    from turnlog.text import inert

    def cell_of(cell: Cell) -> str:
        return inert(_one_line(cell)).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")

    lines: list[Sequence[Cell]] = [answer.columns, ["---"] * len(answer.columns), *answer.rows]
    for row in lines:
        click.echo(f"| {' | '.join(map(cell_of, row))} |")


def _one_line(cell: Cell) -> str:
    if cell is None:
        return ""
    return " ".join(cell.split()) if isinstance(cell, str) else str(cell)
