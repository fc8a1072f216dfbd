"""How the status line looks: its fields, the usual order of them, colours, and what fits.

What is not known is left out. When there is little room, the least needed goes first. All text
that others wrote is made inert: the only control characters are those of our own colours. Small on
purpose, and without imports that take time.
"""

from __future__ import annotations

import os
import re
import time
import unicodedata

from turnlog.cli.statusline.input import context_percent, model_name, session_id
from turnlog.costs.statusline_figures import number_of, text_of, within
from turnlog.text import inert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Piece = tuple[str, str]
    """A text and its colour."""

FIELDS = ("model", "session", "today", "block", "left", "burn", "context", "project", "age")
NOTHING = "turnlog: no figures yet"

_UNKNOWN = "-"
_FIELD = re.compile(r"\{([a-z]+)\}")
# The usual line: what stands before a field, and after it.
_USUAL = (
    ("model", "", ""),
    ("session", " · ", " session"),
    ("today", " · ", " today"),
    ("block", " · ", " block"),
    ("left", ", ", " left"),
    ("burn", ", ", ""),
    ("context", " · ", " context"),
    ("age", " · ", " old"),
)
_LEAST_NEEDED_FIRST = ("age", "burn", "left", "today", "block", "session", "context")
_DIM, _RED, _GREEN, _YELLOW, _CYAN = "2", "31", "32", "33", "36"
_BUSY_PERCENT, _FULL_PERCENT = 50, 80
_MOST_PERCENT = 999

_STALE_SECONDS = 60
_BLOCK_SECONDS = 5 * 3600
_SHORTEST_SECONDS = 60


def line_of(told: dict[str, Any], figures: dict[str, Any], pattern: str, now: float) -> str:
    """Draw the line: as *pattern* has it, or the usual one."""
    fields = _fields(told, figures, now)
    columns = _columns()
    pieces = _filled(pattern, fields) if pattern else _usual(fields, columns)
    if not any(text.strip() for text, _ in pieces):
        pieces = [(NOTHING, _DIM)]
    return _drawn(_cut(pieces, columns))


def _fields(told: dict[str, Any], figures: dict[str, Any], now: float) -> dict[str, Piece]:
    """Return each field that is known."""
    noted = within(figures, "sessions", session_id(told))
    is_today = figures.get("day") == time.strftime("%Y-%m-%d", time.localtime(now))
    found = {
        "model": (model_name(told), _CYAN),
        "session": (_shown(noted) or _claudes_own_cost(told), ""),
        "today": (_shown(figures.get("today")) if is_today else "", ""),
        **_block(figures.get("block"), now),
        "context": _context(told, number_of(within(noted, "context_tokens"))),
        "project": (_project(told), ""),
        "age": (_age(figures, now), _DIM),
    }
    return {name: (inert(text), colour) for name, (text, colour) in found.items() if text}


def _shown(figure: object) -> str:
    return text_of(within(figure, "shown"), 24)


def _claudes_own_cost(told: dict[str, Any]) -> str:
    cost = number_of(within(told, "cost", "total_cost_usd"))
    return "" if cost is None else f"${cost:,.2f}"


def _block(block: object, now: float) -> dict[str, Piece]:
    """Return the figures of the noted block if it is still running."""
    names = ("start_at", "end_at", "first_at", "last_at")
    times = [each for name in names if (each := number_of(within(block, name))) is not None]
    if len(times) < len(names):
        return {}
    start, end, first, last = times
    if not start <= now < end or now - last >= _BLOCK_SECONDS:
        return {}
    left = f"{int(end - now) // 3600}h {int(end - now) % 3600 // 60:02}m"
    found = {"block": (_shown(block), ""), "left": (left, "")}
    try:
        cost = number_of(float(text_of(within(block, "cost_usd"))))
    except ValueError:
        return found
    if cost is not None:
        hours = max(now - first, _SHORTEST_SECONDS) / 3600
        found["burn"] = (f"${cost / hours:,.2f}/h", "")
    return found


def _context(told: dict[str, Any], noted_tokens: float | None) -> Piece:
    percent = context_percent(told, noted_tokens)
    if percent is None:
        return "", ""
    colour = _RED if percent >= _FULL_PERCENT else _YELLOW if percent >= _BUSY_PERCENT else _GREEN
    return f"{min(percent, _MOST_PERCENT):.0f}%", colour


def _project(told: dict[str, Any]) -> str:
    places = (
        within(told, "workspace", "project_dir"),
        within(told, "workspace", "current_dir"),
        told.get("cwd"),
    )
    return next(
        (
            text_of(os.path.basename(each.rstrip("/\\")), 60)
            for each in places
            if isinstance(each, str) and each
        ),
        "",
    )


def _age(figures: dict[str, Any], now: float) -> str:
    """Return how old the figures are, once that matters."""
    noted_at = number_of(figures.get("noted_at"))
    if noted_at is None or now - noted_at < _STALE_SECONDS:
        return ""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if now - noted_at >= seconds:
            return f"{int((now - noted_at) // seconds)} {unit}"
    return ""


def _usual(fields: dict[str, Piece], columns: int) -> list[Piece]:
    """Return the usual line, without what there is no room for."""
    names = set(fields)
    pieces = _joined(fields, names)
    for name in _LEAST_NEEDED_FIRST:
        if not columns or sum(_cells(text) for text, _ in pieces) <= columns:
            break
        names.discard(name)
        pieces = _joined(fields, names)
    return pieces


def _joined(fields: dict[str, Piece], names: set[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for name, before, after in _USUAL:
        if name in names:
            text, colour = fields[name]
            if pieces:
                pieces.append((before, _DIM))
            pieces.append((text + after, colour))
    return pieces


def _filled(pattern: str, fields: dict[str, Piece]) -> list[Piece]:
    """Put the fields where *pattern* names them; what it names that is no field stays."""
    pieces: list[Piece] = []
    end = 0
    for found in _FIELD.finditer(pattern):
        if found[1] not in FIELDS:
            continue
        pieces.append((_plain(pattern[end : found.start()]), ""))
        text, colour = fields.get(found[1], (_UNKNOWN, _DIM))
        if found[1] == "block" and "left" in fields:
            text = f"{text} ({fields['left'][0]} left)"
        pieces.append((text, colour))
        end = found.end()
    return [*pieces, (_plain(pattern[end:]), "")]


def _plain(text: str) -> str:
    return inert(re.sub(r"[\r\n\t]+", " ", text))


def _columns() -> int:
    """Return how wide the line may be; 0 if nobody says."""
    told = os.environ.get("COLUMNS", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 6 else 0


def _cut(pieces: list[Piece], columns: int) -> list[Piece]:
    """Cut what reaches beyond *columns*."""
    if not columns or sum(_cells(text) for text, _ in pieces) <= columns:
        return pieces
    kept: list[Piece] = []
    room = columns - 1
    for text, colour in pieces:
        part = text
        while _cells(part) > room:
            part = part[:-1]
        kept.append((part, colour))
        room -= _cells(part)
        if part != text:
            break
    return [*kept, ("…", _DIM)]


def _cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _drawn(pieces: list[Piece]) -> str:
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return "".join(
        text if is_plain or not colour or not text else f"\x1b[{colour}m{text}\x1b[0m"
        for text, colour in pieces
    )
