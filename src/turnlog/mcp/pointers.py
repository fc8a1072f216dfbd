"""How rows point to records, so that the next call can open them.

A record is named by its session, the subagent in whose log it stands if it is one's, and its uuid;
one that has none by its place in the log, such as ``@1024``. Rows say what is known and leave out
what is not: an agent pays for every null.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from turnlog.api.index import Index
from turnlog.index.ids import OFFSET_BITS, SUBAGENT, instant_at, long_uuid

OFFSETS: Final = (1 << OFFSET_BITS) - 1
_PLACED: Final = (
    f"SELECT s.session, {SUBAGENT}, r.uuid, r.id FROM logs AS l"  # noqa: S608 - Ours.
    " JOIN records AS r ON r.id = l.id << 40 | :offset"
    " LEFT JOIN sessions AS s ON s.id = r.session WHERE l.path = :log AND l.layout <> 'beside'"
)


def extent(log: int) -> tuple[int, int]:
    """Return the first and the last id that a record of a log may have."""
    return log << OFFSET_BITS, log << OFFSET_BITS | OFFSETS


def record_name(uuid: bytes | str | None, record: int) -> str:
    """Name a record such that other tools find it; *record* is its id or its offset."""
    return long_uuid(uuid) or f"@{record & OFFSETS}"


def pointer(index: Index, log: str, offset: int) -> dict[str, Any]:
    """Point to the record at a place; to nothing if no record stands there."""
    row = index.db.execute(_PLACED, {"log": log, "offset": offset}).fetchone()
    if row is None:
        return {}
    session, subagent, uuid, record = row
    return sparse({"session": session, "subagent": subagent, "record": record_name(uuid, record)})


def instant_text(at: datetime | int | None) -> str | None:
    """Write an instant, or the index's microseconds, to the second."""
    if isinstance(at, int):
        at = instant_at(at)
    return None if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"


def sparse(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing: nulls, and empty texts and lists."""
    return {
        name: each for name, each in fields.items() if each is not None and each not in ("", [], {})
    }
