"""How tables of queries, errors and patterns are drawn: within the terminal's width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from turnlog.cli.terminal.console import when

_WIDEST: Final = 400
_NARROWEST: Final = 8
_SESSION: Final = "session_id"
_PATHS: Final = ("file", "log", "project")


def show_table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw *rows*; a value that does not fit in its column is cut, a column never vanishes."""
    from rich.cells import cell_len
    from rich.table import Table

    from turnlog.cli.terminal.console import at_most, console, safe
    from turnlog.text import inert

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


def fitted(widths: Sequence[int], room: int) -> list[int]:
    """Cut the widest columns until all fit; none below what tells it from the others."""
    found = list(widths)
    while sum(found) > room and max(found) > _NARROWEST:
        widest = max(found)
        second = max((each for each in found if each < widest), default=_NARROWEST)
        many = found.count(widest)
        over = -(-(sum(found) - room) // many)
        down = max(widest - over, second, _NARROWEST)
        found = [down if each == widest else each for each in found]
    # What rounding cut too much goes to the last of the cut ones.
    left = room - sum(found)
    for place in range(len(found) - 1, -1, -1):
        if found[place] < widths[place] and left > 0:
            more = min(left, widths[place] - found[place])
            found[place] += more
            left -= more
    return found


def print_rest(following: int | None, notes: Sequence[str] = ()) -> None:
    """Say on stderr what is left to fetch, and what should be known."""
    import click

    from turnlog.text import inert

    if following is not None:
        click.echo(f"… and more; go on with --offset {following}", err=True)
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
    """Cut a path on the left, where paths are alike; rich cuts everything else on the right."""
    is_long = name in _PATHS and len(text) > width > 1
    return f"…{text[1 - width :]}" if is_long else text


def _flat(value: Any, widest: int) -> str:
    """Write an object's values in a line; their keys take more room than they are worth."""
    import msgspec

    if isinstance(value, dict):
        texts = [each for each in value.values() if isinstance(each, str)]
        if texts:
            return _cell("", "  ".join(texts), widest)
    return _cell("", msgspec.json.encode(value).decode(errors="replace"), widest)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
