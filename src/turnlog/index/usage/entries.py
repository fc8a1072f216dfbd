"""Sightings as the index stores them: small, since there are many and most are alike.

What stands beside them in their row (the response's name, the session, the directory, the model) is
left out and put back when they are read.
"""

# Annotations are no strings here: msgspec would have to evaluate them at every start.

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from turnlog.index.database import utf8_safe_row
from turnlog.index.ids import OFFSET_BITS, Names, instant_at, microseconds
from turnlog.records.responses import folded as both
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import UsageEntry
from turnlog.text import utf8_safe


class _UsageColumns(Struct, array_like=True, omit_defaults=True, gc=False):
    offset: int
    at: int | None
    counts: tuple[int, ...]
    request_id: str | None = None
    rank: int = 0
    is_sidechain: bool = False
    subagent: str | None = None
    last_at: int | None = None
    """None if it is the same as *at*."""
    message_id: str | None = None
    """None if it is the response's name."""
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    record_id: str | None = None
    part: str = ""
    recorded_usd: str | None = None
    others: dict[str, int] | None = None
    odd: tuple[str, ...] = ()
    copy_of: str | None = None


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_UsageColumns).decode


class UsageRow(NamedTuple):
    """A sighting that is ready to be stored."""

    name: str
    place: bytes
    session: str | None
    cwd: str | None
    model: str | None
    told: bytes


def usage_row(name: str, place: bytes, found: UsageEntry) -> UsageRow:
    """Make a sighting ready to be stored."""
    used = found.counters
    at = microseconds(found.at)
    last_at = None if found.last_at == found.at else microseconds(found.last_at)
    told = _UsageColumns(
        found.offset,
        at,
        (
            used.input,
            used.output,
            used.cache_write_5m,
            used.cache_write_1h,
            used.cache_read,
            used.web_searches,
        ),
        found.request_id,
        found.rank,
        found.is_sidechain,
        found.subagent,
        last_at,
        None if found.message_id == name else found.message_id,
        found.service_tier,
        found.inference_geo,
        found.speed,
        found.record_id,
        found.part,
        None if found.recorded_usd is None else str(found.recorded_usd),
        used.others or None,
        found.odd,
        found.copy_of,
    )
    name, session, cwd, model = utf8_safe_row((name, found.session, found.cwd, found.model))
    return UsageRow(name, place, session, cwd, model, _packed(told))


def usage_entry_of(row: Sequence[Any]) -> UsageEntry:
    """Return the sighting of a row: its name, log, session, directory, model, and the rest."""
    name, log, session, cwd, model, data = row
    told = _unpack(data)
    at = instant_at(told.at)
    return UsageEntry(
        message_id=_message_id(name, told),
        request_id=told.request_id,
        record_id=told.record_id,
        copy_of=told.copy_of,
        part=told.part,
        session=session,
        subagent=told.subagent,
        is_sidechain=told.is_sidechain,
        rank=told.rank,
        at=at,
        last_at=at if told.last_at is None else instant_at(told.last_at),
        model=model,
        counters=_counters(told),
        speed=told.speed,
        service_tier=told.service_tier,
        inference_geo=told.inference_geo,
        recorded_usd=None if told.recorded_usd is None else Decimal(told.recorded_usd),
        cwd=cwd,
        log=log,
        offset=told.offset,
        odd=told.odd,
    )


def message_of_one(row: Sequence[Any], names: Names) -> tuple[Any, ...]:
    """Return the row of the message that only one sighting tells of, from the sighting's own row.

    Its name, log, session, directory, model, and the rest; in the order of ``messages``.
    """
    name, log, session, cwd, model, data = row
    told = _unpack(data)
    return (
        name,
        _message_id(name, told),
        told.request_id,
        told.part,
        session,
        told.subagent,
        told.is_sidechain,
        told.at if told.last_at is None else told.last_at,
        model,
        names[told.speed],
        names[told.service_tier],
        names[told.inference_geo],
        *told.counts,
        msgspec.json.encode(told.others).decode() if told.others else None,
        told.recorded_usd,
        cwd,
        cwd,
        log << OFFSET_BITS | told.offset,
    )


def _message_id(name: str, told: _UsageColumns) -> str | None:
    is_name = told.message_id is None and not told.part
    return name if is_name and not name.startswith(_NO_MESSAGE) else told.message_id


SELECT: Final = (
    "SELECT sightings.name, logs.path, session_names.name, cwd_names.name, model_names.name,"
    " sightings.told, sightings.log FROM sightings JOIN logs ON logs.id = sightings.log"
    " LEFT JOIN names AS session_names ON session_names.id = sightings.session"
    " LEFT JOIN names AS cwd_names ON cwd_names.id = sightings.cwd"
    " LEFT JOIN names AS model_names ON model_names.id = sightings.model"
)
"""Gives what ``sighting_of`` takes, and the log's id."""


def write_usage_rows(
    db: sqlite3.Connection, log: int, found: Sequence[UsageRow], names: Names, *, is_more: bool
) -> None:
    """Write what a log tells of responses; if it *is_more*, folded into what it told before."""
    if is_more:
        path = db.execute("SELECT path FROM logs WHERE id = ?", (log,)).fetchone()[0]
        found = [_with_earlier(db, log, path, UsageRow(*each)) for each in found]
    db.executemany(
        "INSERT OR REPLACE INTO sightings VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (log, name, place, names[session], names[cwd], names[model], told)
            for name, place, session, cwd, model, told in found
        ),
    )
    changed = found if is_any_deduplicated(db) else found[:1]
    db.executemany("INSERT OR IGNORE INTO unsettled VALUES (?)", ((each[0],) for each in changed))


def is_any_deduplicated(db: sqlite3.Connection) -> bool:
    """Return whether a response was settled; as long as none was, one unsettled name means all."""
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM messages)").fetchone()[0])


def _with_earlier(db: sqlite3.Connection, log: int, path: str, found: UsageRow) -> UsageRow:
    """Fold a sighting into what its log told of the same before."""
    earlier = db.execute(
        f"{SELECT} WHERE sightings.name = ? AND sightings.log = ? AND place = ?",
        (found.name, log, found.place),
    ).fetchone()
    if earlier is None:
        return found
    later = usage_entry_of((found.name, path, found.session, found.cwd, found.model, found.told))
    return usage_row(found.name, found.place, both(usage_entry_of(earlier[:6]), later))


def _packed(told: _UsageColumns) -> bytes:
    try:
        return _pack(told)
    except UnicodeEncodeError:  # A lone surrogate.
        return _pack(utf8_safe(msgspec.to_builtins(told)))


def _counters(told: _UsageColumns) -> Counters:
    fresh, output, five_minutes, one_hour, read, searches = told.counts
    return Counters(fresh, output, five_minutes, one_hour, read, searches, told.others or {})


_NO_MESSAGE: Final = ("request ", "record ", "nameless ")
