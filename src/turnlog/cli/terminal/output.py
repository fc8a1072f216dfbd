"""Results as JSON, CSV or tables."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import msgspec

from turnlog.cli.options import show_json
from turnlog.cli.terminal.console import at_most, console, safe, when
from turnlog.cli.terminal.tables import Need, cut_left, is_solid, widths_for
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDEST: Final = 400
_NARROWEST: Final = 8
_SESSION: Final = "session_id"
_PATHS: Final = ("file", "log", "project")


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table as wide as the terminal; the first columns are the most important."""
    from rich.cells import cell_len
    from rich.table import Table

    out = console()
    widest = at_most(_WIDEST, out.width)
    cells = [[inert(_cell(name, row.get(name), widest)) for name in columns] for row in rows]
    needs, numbers = [], []
    for place, name in enumerate(columns):
        texts = [line[place] for line in cells]
        width = max(map(cell_len, (name, *texts)))
        is_number = all(_is_number(row.get(name)) for row in rows)
        is_whole = is_number or name == _SESSION or is_solid(texts)
        needs.append(Need(width, width if is_whole else _NARROWEST, place))
        numbers.append(is_number)
    widths = widths_for(needs, out.width)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    shown = [place for place, width in enumerate(widths) if width]
    for place in shown:
        table.add_column(
            safe(columns[place]),
            no_wrap=True,
            overflow="ellipsis",
            width=widths[place],
            justify="right" if numbers[place] else "left",
        )
    for line in cells:
        table.add_row(
            *(
                safe(
                    cut_left(line[place], widths[place])
                    if columns[place] in _PATHS
                    else line[place]
                )
                for place in shown
            )
        )
    out.print(table)


def fixed_table(
    widths: Mapping[str, int], last: str, room: int, *, right: Collection[str] = (), least: int = 16
) -> Table:
    """Return a table with columns of fixed widths; the last column gets the rest of *room*.

    Rich would shrink all columns alike, down to nothing.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    for name, width in widths.items():
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    left = max(least, room - sum(widths.values()) - 2 * len(widths))
    table.add_column(last, no_wrap=True, overflow="ellipsis", max_width=left)
    return table


def print_rest(following: int | None, notes: Sequence[str] = ()) -> None:
    """Print on stderr how to fetch the next page, and any notes."""
    if following is not None:
        click.echo(f"… more; use --offset {following}", err=True)
    for note in notes:
        click.echo(f"note: {inert(note)}", err=True)


def _cell(name: str, value: Any, widest: int) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return when(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict | list):
        return _flat(value, widest)
    text = " ".join(str(value)[: widest * 4].split())[:widest]
    return text[:8] if name == _SESSION else text


def _flat(value: Any, widest: int) -> str:
    """Return the text values of an object without their keys, or *value* as JSON."""
    if isinstance(value, dict):
        texts = [each for each in value.values() if isinstance(each, str)]
        if texts:
            return _cell("", "  ".join(texts), widest)
    return _cell("", msgspec.json.encode(value).decode(errors="replace"), widest)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def show_data(
    document: Any,
    kind: type[msgspec.Struct],
    rows: Sequence[msgspec.Struct],
    *,
    as_json: bool,
    as_csv: bool,
) -> bool:
    """Print *document* as JSON or its *rows* as CSV, and return whether either was requested."""
    if as_json:
        show_json(document)
    elif as_csv:
        show_csv(kind, rows, more=getattr(document, "next", None))
    return as_json or as_csv


def show_more(out: Console, document: Any) -> None:
    """Print how many results are left, if *document* has a next page."""
    if document.next is not None:
        left = document.total - document.next
        out.print(f"[dim]… {left:,} more; use --offset {document.next}[/]")


def show_csv(
    kind: type[msgspec.Struct], rows: Sequence[msgspec.Struct], *, more: int | None = None
) -> None:
    """Print *rows* with their fields as columns; *more* is the offset of the next page."""
    names = (type(rows[0]) if rows else kind).__struct_fields__
    show_csv_cells(names, ([getattr(row, name) for name in names] for row in rows))
    note_truncation(more)


def show_csv_rows(
    names: Sequence[str], rows: Iterable[Mapping[str, Any]], *, more: int | None = None
) -> None:
    """Print mappings as CSV rows."""
    show_csv_cells(names, ([row.get(name) for name in names] for row in rows))
    note_truncation(more)


def show_csv_cells(names: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print sequences of values as CSV rows."""
    import csv

    from turnlog.export.csv_cells import cell

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell(name) for name in names])
    writer.writerows([cell(value) for value in row] for row in rows)
    sys.stdout.buffer.write(text.getvalue().encode("utf-8", "replace"))


def note_truncation(following: int | None) -> None:
    """Note on stderr that rows are missing: a spreadsheet would not show it."""
    if following is not None:
        click.echo(
            f"note: more rows: --limit 0 for all, --offset {following} for the next", err=True
        )
