"""The sessions that an ambiguous id may mean, one line each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from turnlog.cli.terminal.console import UNLIMITED, when
from turnlog.text import inert_line

if TYPE_CHECKING:
    from turnlog.errors import SessionChoice

_MOST: Final = 10
_SHORT_ID: Final = 8


def choice_lines(choices: Sequence[SessionChoice]) -> Iterator[str]:
    """Yield a line for each of the first *choices*: id, last activity, project and title."""
    from rich.cells import cell_len, set_cell_size

    from turnlog.api.homes import last_part

    ids = [choice[0] for choice in choices]
    id_width = _SHORT_ID
    while len({name[:id_width] for name in ids}) < len(ids):  # Enough of each id to type.
        id_width += 1
    rows = [
        [inert_line(name[:id_width]), when(at), inert_line(last_part(project or "?"))]
        for name, at, project, _ in choices[:_MOST]
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    most = shutil.get_terminal_size((UNLIMITED, 24)).columns
    for row, (*_, title) in zip(rows, choices, strict=False):
        cells = zip(row, widths, strict=True)
        line = "  ".join(set_cell_size(text, width) for text, width in cells)
        line = f"  {line}  {inert_line(title or 'untitled')}"
        yield line if cell_len(line) <= most else f"{set_cell_size(line, most - 1).rstrip()}…"
    if len(choices) > _MOST:
        yield f"  … and {len(choices) - _MOST:,} more"
