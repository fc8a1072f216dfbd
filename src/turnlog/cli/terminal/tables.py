"""Tables that fit the terminal.

Widths are in cells: a wide character takes two. If a table is too wide, text is cut first; then the
least important columns are dropped. Numbers, ids, times and money are never cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table

GAP: Final = 2
"""The space between two columns."""
_TEXT_AT_LEAST: Final = 12
_IDS_AND_TIMES: Final = re.compile(
    r"(total|[0-9a-f]{8}|\d{4}(-\d\d){0,2}( \d\d:\d\d)?|\d+ (d|h|min) ago|now|)"
)


class Need(NamedTuple):
    """What a column needs."""

    width: int
    """The width of its longest cell."""
    least: int
    """The width to which it may be cut."""
    rank: int
    """The columns with the highest are dropped first."""


def widths_for(needs: Sequence[Need], room: int, gap: int = GAP) -> list[int]:
    """Return the widths of columns that fit into *room*; 0 for a dropped column.

    The most important column is kept even if it does not fit.
    """
    left = room + gap
    widths = [0] * len(needs)
    for rank, place in enumerate(sorted(range(len(needs)), key=lambda each: needs[each].rank)):
        least = min(needs[place].least, needs[place].width)
        if rank == 0 or least + gap <= left:
            widths[place] = least
            left -= least + gap
    while left > 0:
        # The narrowest of those that were cut grows first.
        cut = [place for place, width in enumerate(widths) if 0 < width < needs[place].width]
        if not cut:
            break
        widths[min(cut, key=lambda each: widths[each])] += 1
        left -= 1
    return widths


def is_solid(cells: Iterable[str]) -> bool:
    """Return whether *cells* are ids, times or money, which must not be cut."""
    return all("$" in cell or _IDS_AND_TIMES.fullmatch(cell) for cell in cells)


def cut_left(text: str, width: int) -> str:
    """Cut *text* on the left, as for paths, which are alike at their start."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    while text and cell_len(text) >= width:
        text = text[1:]
    return f"…{text}"


def cut_right(text: str, width: int) -> str:
    """Cut *text* on the right."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"


def fit(table: Table, out: Console) -> Table:
    """Return *table* with as many of its columns as fit on *out*.

    The first column, money and a last column of text are the most important, then from left to
    right.
    """
    if not table.show_header:  # Names with values, which are wrapped.
        return table
    gap = sum(table.padding[1::2])
    needs = [
        _need(column, out, is_last=place == len(table.columns) - 1, place=place)
        for place, column in enumerate(table.columns)
    ]
    if sum(need.width + gap for need in needs) - gap <= out.width:
        return table
    widths = widths_for(needs, out.width, gap)
    columns: list[Column] = []
    for column, width in zip(table.columns, widths, strict=True):
        if width:
            kept = column.copy()
            kept._index = len(columns)  # noqa: SLF001 - Rich has no way to drop a column.
            kept._cells = column._cells  # noqa: SLF001
            kept.width, kept.min_width, kept.max_width, kept.ratio = width, None, None, None
            kept.no_wrap, kept.overflow = True, "ellipsis"
            columns.append(kept)
    table.columns = columns
    return table


def _need(column: Column, out: Console, *, is_last: bool, place: int) -> Need:
    from rich.text import Text

    texts = [
        Text.from_markup(cell) if isinstance(cell, str) else cell
        for cell in (column.header, *column.cells)
    ]
    plain = [text.plain if isinstance(text, Text) else "?" for text in texts]
    longest = max((out.measure(text).maximum for text in texts), default=0)
    most = column.width or column.max_width or longest
    width = max(min(longest, most), column.width or column.min_width or 0)
    is_money = any("$" in cell for cell in plain[1:])
    if column.justify == "right" or is_money or is_solid(plain[1:]):
        return Need(width, width, 0 if place == 0 else 1 if is_money else 3 + place)
    return Need(width, _TEXT_AT_LEAST, 0 if place == 0 else 2 if is_last else 3 + place)
