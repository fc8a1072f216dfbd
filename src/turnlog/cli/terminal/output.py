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
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDEST: Final = 400
_NARROWEST: Final = 8
_SESSION: Final = "session_id"
_PATHS: Final = ("file", "log", "project")


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table as wide as the terminal; long values are cut, no column is dropped."""
    from rich.cells import cell_len
    from rich.table import Table

    out = console()
    widest = at_most(_WIDEST, out.width)
    cells = [[inert(_cell(name, row.get(name), widest)) for name in columns] for row in rows]
    widths = [
        max(cell_len(text) for text in (name, *(line[place] for line in cells)))
        for place, name in enumerate(columns)
    ]
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    fitting = fitted(widths, out.width - 2 * (len(columns) - 1))
    for name, width in zip(columns, fitting, strict=True):
        is_number = all(_is_number(row.get(name)) for row in rows)
        table.add_column(
            safe(name),
            no_wrap=True,
            overflow="ellipsis",
            width=width,
            justify="right" if is_number else "left",
        )
    for line in cells:
        table.add_row(*map(safe, map(_cut, columns, line, fitting)))
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


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Return *widths*, the widest reduced until all fit into *room* or are at their minimum."""
    fitting = list(widths)
    while sum(fitting) > room and max(fitting) > _NARROWEST:
        widest = max(fitting)
        second = max((width for width in fitting if width < widest), default=_NARROWEST)
        over = -(-(sum(fitting) - room) // fitting.count(widest))
        down = max(widest - over, second, _NARROWEST)
        fitting = [down if width == widest else width for width in fitting]
    # Rounding may have cut too much: return it to the last columns.
    left = room - sum(fitting)
    for place in reversed(range(len(fitting))):
        if fitting[place] < widths[place] and left > 0:
            more = min(left, widths[place] - fitting[place])
            fitting[place] += more
            left -= more
    return fitting


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


def _cut(name: str, text: str, width: int) -> str:
    """Cut a path on the left, where paths are alike; rich cuts other values on the right."""
    is_long = name in _PATHS and len(text) > width > 1
    return f"…{text[1 - width :]}" if is_long else text


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
