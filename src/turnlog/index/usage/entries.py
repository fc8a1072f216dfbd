"""Usage entries as the index stores them: packed, since there are many.

The columns of a row (the response's name, session, directory and model) are not packed, and are
added when an entry is read.
"""

# Without postponed annotations, which msgspec would have to evaluate at every start.

import sqlite3
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from turnlog.index.database import utf8_safe_row
from turnlog.index.ids import OFFSET_BITS, Names, instant_at, microseconds
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import UsageEntry, folded
from turnlog.text import utf8_safe

SkipReason = Literal["damaged", "odd", "unreadable"]


class SkippedUsage(Struct, frozen=True, kw_only=True):
    """Usage that was not counted, or not as it was written, and where it is."""

    path: str
    offset: int
    why: SkipReason
    detail: str


class _UsageColumns(Struct, array_like=True, omit_defaults=True, gc=False):
    offset: int
    at: int | None
    counts: tuple[int, ...]
    request_id: str | None = None
    rank: int = 0
    is_sidechain: bool = False
    subagent: str | None = None
    last_at: int | None = None
    """None if equal to *at*."""
    message_id: str | None = None
    """None if equal to the response's name."""
    service_tier: str | None = None
    inference_geo: str | None = None
    speed: str | None = None
    record_id: str | None = None
    part: str = ""
    recorded_usd: str | None = None
    others: dict[str, int] | None = None
    odd: tuple[str, ...] = ()
    copy_of: str | None = None


_NO_MESSAGE: Final = ("request ", "record ", "nameless ")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(_UsageColumns).decode


class UsageRow(NamedTuple):
    """An entry as it is stored."""

    name: str
    place: bytes
    session: str | None
    cwd: str | None
    model: str | None
    packed: bytes


def usage_row(name: str, place: bytes, entry: UsageEntry) -> UsageRow:
    """Return the row for *entry*."""
    used = entry.counters
    at = microseconds(entry.at)
    last_at = None if entry.last_at == entry.at else microseconds(entry.last_at)
    columns = _UsageColumns(
        entry.offset,
        at,
        (
            used.input,
            used.output,
            used.cache_write_5m,
            used.cache_write_1h,
            used.cache_read,
            used.web_searches,
        ),
        entry.request_id,
        entry.rank,
        entry.is_sidechain,
        entry.subagent,
        last_at,
        None if entry.message_id == name else entry.message_id,
        entry.service_tier,
        entry.inference_geo,
        entry.speed,
        entry.record_id,
        entry.part,
        None if entry.recorded_usd is None else str(entry.recorded_usd),
        used.others or None,
        entry.odd,
        entry.copy_of,
    )
    name, session, cwd, model = utf8_safe_row((name, entry.session, entry.cwd, entry.model))
    return UsageRow(name, place, session, cwd, model, _packed(columns))


def usage_entry_of(row: Sequence[Any]) -> UsageEntry:
    """Return the entry of a row: name, log, session, directory, model, packed columns."""
    name, log, session, cwd, model, packed = row
    columns = _unpack(packed)
    at = instant_at(columns.at)
    return UsageEntry(
        message_id=_message_id(name, columns),
        request_id=columns.request_id,
        record_id=columns.record_id,
        copy_of=columns.copy_of,
        part=columns.part,
        session=session,
        subagent=columns.subagent,
        is_sidechain=columns.is_sidechain,
        rank=columns.rank,
        at=at,
        last_at=at if columns.last_at is None else instant_at(columns.last_at),
        model=model,
        counters=_counters(columns),
        speed=columns.speed,
        service_tier=columns.service_tier,
        inference_geo=columns.inference_geo,
        recorded_usd=None if columns.recorded_usd is None else Decimal(columns.recorded_usd),
        cwd=cwd,
        log=log,
        offset=columns.offset,
        odd=columns.odd,
    )


def message_of_one(row: Sequence[Any], names: Names) -> tuple[Any, ...]:
    """Return the row of a message that has one entry only, from that entry's row."""
    name, log, session, cwd, model, packed = row
    columns = _unpack(packed)
    return (
        name,
        _message_id(name, columns),
        columns.request_id,
        columns.part,
        session,
        columns.subagent,
        columns.is_sidechain,
        columns.at if columns.last_at is None else columns.last_at,
        model,
        names[columns.speed],
        names[columns.service_tier],
        names[columns.inference_geo],
        *columns.counts,
        msgspec.json.encode(columns.others).decode() if columns.others else None,
        columns.recorded_usd,
        cwd,
        cwd,
        log << OFFSET_BITS | columns.offset,
    )


def _message_id(name: str, columns: _UsageColumns) -> str | None:
    is_name = columns.message_id is None and not columns.part
    return name if is_name and not name.startswith(_NO_MESSAGE) else columns.message_id


SELECT: Final = (
    "SELECT usage_entries.name, logs.path, session_names.name, cwd_names.name, model_names.name,"
    " usage_entries.packed, usage_entries.log"
    " FROM usage_entries JOIN logs ON logs.id = usage_entries.log"
    " LEFT JOIN names AS session_names ON session_names.id = usage_entries.session"
    " LEFT JOIN names AS cwd_names ON cwd_names.id = usage_entries.cwd"
    " LEFT JOIN names AS model_names ON model_names.id = usage_entries.model"
)
"""Selects what ``usage_entry_of`` takes, and the log's id."""


def write_usage_rows(
    db: sqlite3.Connection, log: int, rows: Sequence[UsageRow], names: Names, *, is_more: bool
) -> None:
    """Write the usage of a log; if it *is_more*, folded into what the log had before."""
    if is_more:
        path = db.execute("SELECT path FROM logs WHERE id = ?", (log,)).fetchone()[0]
        rows = [_with_earlier(db, log, path, UsageRow(*row)) for row in rows]
    db.executemany(
        "INSERT OR REPLACE INTO usage_entries VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            (log, name, place, names[session], names[cwd], names[model], packed)
            for name, place, session, cwd, model, packed in rows
        ),
    )
    changed = rows if is_any_deduplicated(db) else rows[:1]
    db.executemany("INSERT OR IGNORE INTO pending_usage VALUES (?)", ((row[0],) for row in changed))


def is_any_deduplicated(db: sqlite3.Connection) -> bool:
    """Return whether a message exists; until then, one pending name represents all."""
    return bool(db.execute("SELECT EXISTS (SELECT 1 FROM messages)").fetchone()[0])


def _with_earlier(db: sqlite3.Connection, log: int, path: str, row: UsageRow) -> UsageRow:
    """Fold a row into an earlier one of the same log, name and place."""
    earlier = db.execute(
        f"{SELECT} WHERE usage_entries.name = ? AND usage_entries.log = ? AND place = ?",
        (row.name, log, row.place),
    ).fetchone()
    if earlier is None:
        return row
    later = usage_entry_of((row.name, path, row.session, row.cwd, row.model, row.packed))
    return usage_row(row.name, row.place, folded(usage_entry_of(earlier[:6]), later))


def _packed(columns: _UsageColumns) -> bytes:
    try:
        return _pack(columns)
    except UnicodeEncodeError:  # A lone surrogate.
        return _pack(utf8_safe(msgspec.to_builtins(columns)))


def _counters(columns: _UsageColumns) -> Counters:
    fresh, output, five_minutes, one_hour, read, searches = columns.counts
    return Counters(fresh, output, five_minutes, one_hour, read, searches, columns.others or {})
