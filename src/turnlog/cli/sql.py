"""``turnlog sql``: plain SQL over the views of the index, read only."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.indexed import moment_here, no_refresh_option, open_index
from turnlog.cli.options import home_option, json_option, show_json
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.questions.sql import Cell, SchemaDocument, SqlDocument

# Below that a column says nothing: the rows are shown one below the other.
_LEAST_WIDTH: Final = 9


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
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--schema", "wants_schema", is_flag=True, help="Show the views, or the one named.")
@click.option("--since", metavar="WHEN", help="Only what happened since then: 7d, 2026-11-01 …")
@click.option("--project", metavar="DIR", help="Only sessions that worked in DIR or below it.")
@click.option("--limit", default=1000, show_default=True, help="How many rows to show.")
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
    since: str | None,
    project: str | None,
    limit: int,
    seconds: float,
    no_refresh: bool,
) -> int:
    """Ask the index in SQL. STATEMENT is one SELECT; - reads it from stdin.

    It sees views (v_sessions, v_calls, v_messages …) with readable values, and cannot change
    anything. The index holds no text: text(log, offset) reads what a record says from its log.
    docs/sql.md describes the views.

    --since and --project narrow the views before the statement sees them. v_logs and v_damages
    know no time, and are not narrowed by --since.
    """
    if as_json + as_csv + as_markdown > 1:
        raise UsageError("several formats", hint="choose one of --json, --csv and --markdown")
    if wants_schema:
        return _schema(statement, as_json=as_json)
    if statement is None:
        raise UsageError("there is no statement", hint="turnlog sql --schema shows the views")
    from turnlog.layout import all_homes
    from turnlog.questions.sql import run_sql

    asked = _typed() if statement == "-" else statement
    at = moment_here(since)
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        answer = run_sql(
            index, asked, limit=limit, seconds=seconds, since=at, project=_directory(project)
        )
    if as_json:
        show_json(answer)
    elif as_csv:
        _show_csv(answer)
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
    from turnlog.questions.sql_guard import MOST_STATEMENT_BYTES

    return sys.stdin.buffer.read(MOST_STATEMENT_BYTES + 1).decode("utf-8", "surrogateescape")


def _directory(project: str | None) -> str | None:
    if project is None:
        return None
    import os

    return os.path.abspath(os.path.expanduser(project))


def _schema(name: str | None, *, as_json: bool) -> int:
    from turnlog.questions.sql import schema

    found = schema(name)
    if as_json:
        show_json(found)
    else:
        _show_schema(found, is_one=name is not None)
    return 0


def _show_schema(found: SchemaDocument, *, is_one: bool) -> None:
    from rich.table import Table

    from turnlog.cli.terminal import console, safe

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
    from turnlog.cli.terminal import console, counted

    out = console()
    if not answer.rows:
        out.print("No rows.")
        return
    room = out.width // max(1, len(answer.columns))
    if room < _LEAST_WIDTH and sys.stdout.isatty():
        _show_below(answer)
    else:
        _show_table(answer)
    if sys.stdout.isatty():
        out.print(f"[dim]{counted(len(answer.rows), 'row')}[/]")


def _show_table(answer: SqlDocument) -> None:
    from rich.table import Table

    from turnlog.cli.terminal import console, safe

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(answer.columns):
        is_number = all(isinstance(row[number], int | float | None) for row in answer.rows)
        table.add_column(
            safe(column), justify="right" if is_number else "left", overflow="fold", no_wrap=False
        )
    for row in answer.rows:
        table.add_row(*(safe(_words(cell)) for cell in row))
    out = console()
    if not sys.stdout.isatty():  # A pipe has no width: nothing is cut or broken.
        out.width = max(out.width, out.measure(table).maximum)
    out.print(table)


def _show_below(answer: SqlDocument) -> None:
    """Show rows that are too wide for a table, a line for each column."""
    from turnlog.cli.terminal import console, safe

    out = console()
    longest = max(map(len, answer.columns))
    for number, row in enumerate(answer.rows):
        if number:
            out.print()
        for column, cell in zip(answer.columns, row, strict=True):
            out.print(f"[cyan]{safe(column.rjust(longest))}[/]  {safe(_words(cell))}")


def _show_csv(answer: SqlDocument) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(cell) for cell in row] for row in answer.rows)


def _show_markdown(answer: SqlDocument) -> None:
    from turnlog.inert import inert

    def cell_of(cell: Cell) -> str:
        return inert(_words(cell)).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")

    lines: list[Sequence[Cell]] = [answer.columns, ["---"] * len(answer.columns), *answer.rows]
    for row in lines:
        click.echo(f"| {' | '.join(map(cell_of, row))} |")


def _plain(cell: Cell) -> Cell:
    """Give a value for programs: whole, but inert."""
    from turnlog.inert import inert

    return inert(cell, keep="\n\t\r") if isinstance(cell, str) else cell


def _words(cell: Cell) -> str:
    """Write a value on one line."""
    if cell is None:
        return ""
    return " ".join(cell.split()) if isinstance(cell, str) else str(cell)
