"""New records, as they are written: `turnlog watch` and ``Store.watch``.

Whenever a file in a home changes, the index is refreshed. New records are those that the index did
not have before, in chronological order. For every log, the feed remembers the position up to which
it was reported. A log that was replaced is compared with its old records, so each record is
reported once, even if its log was rewritten or another process refreshed the index first.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.errors import IndexUnavailable
from turnlog.formats import Home
from turnlog.index.connection import Index, open_fresh
from turnlog.index.database import index_path, open_for_reading
from turnlog.index.fallback import make_temporary_index
from turnlog.index.ids import OFFSET_BITS, SUBAGENT, instant_at, microseconds
from turnlog.index.refresh.refresh import RefreshResult, refresh
from turnlog.records.record import Record
from turnlog.sessions.watcher import changes, check_poll
from turnlog.storage import Closing

_LOGS: Final = (
    "SELECT id, path, generation, text_offset FROM logs"
    " WHERE kind IN ('session', 'subagent', 'day')"
)
# Records after the bookmark are on a last line without a newline.
_TAILS: Final = (
    "SELECT records.id FROM logs JOIN records ON records.id >= (logs.id << 40 | logs.text_offset)"
    " AND records.id < (logs.id + 1) << 40"
)
_ROWS: Final = (
    f"SELECT r.id, r.length, r.at, sessions.session, projects.path, {SUBAGENT},"  # noqa: S608 - No user input.
    " authors.name, types.name, l.path FROM records AS r"
    " JOIN logs AS l ON l.id = r.id >> 40"
    " LEFT JOIN sessions ON sessions.id = r.session"
    " LEFT JOIN projects ON projects.id = sessions.project"
    " LEFT JOIN names AS authors ON authors.id = r.author"
    " LEFT JOIN names AS types ON types.id = r.type"
    " WHERE l.kind IN ('session', 'subagent', 'day') AND "
)
# What identifies a record, whatever its offset.
_MARKS: Final = (
    "SELECT records.length, types.name, records.uuid, records.parent, records.at, records.message"
    " FROM records LEFT JOIN names AS types ON types.id = records.type"
    " WHERE records.id >= ? AND records.id < ? ORDER BY records.id"
)


class FeedItem(NamedTuple):
    """A new record. *record* is None if its log was deleted meanwhile."""

    at: datetime | None
    session: str | None
    project: str | None
    subagent: str | None
    author: str
    type: str
    log: str
    offset: int
    record: Record | None


class FeedBatch(Struct):
    """The new records of a refresh, read while iterating."""

    refreshed: RefreshResult
    happened: Iterator[FeedItem]
    count: int

    @property
    def is_something(self) -> bool:
        """Whether anything changed."""
        return bool(self.count or self.refreshed.read or self.refreshed.gone)


class _FeedPosition(NamedTuple):
    """The position up to which a log was reported."""

    id: int
    generation: int
    offset: int
    tail: frozenset[int]


class Feed(Closing):
    """Finds new records in the logs of *homes*."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = tuple(homes)
        self._reported: dict[str, _FeedPosition] = {}
        self._file: tuple[int, int] | None = None
        self._looked_at = datetime.now(UTC)
        self._before: sqlite3.Connection | None = None
        """The index before a refresh. Keeping it open also avoids a checkpoint at every refresh."""

    @contextmanager
    def begin(self, since: datetime | None) -> Iterator[FeedBatch]:
        """Refresh, and yield the records *since* a time, or none."""
        try:
            done = refresh(self._homes)
        except IndexUnavailable as error:  # A stale index would have no new records.
            done = make_temporary_index(self._homes, error)
        with open_fresh(self._homes, is_stale_allowed=True) as index:
            self._remember(_positions(index.db))
            rows: list[tuple[Any, ...]] = []
            if since is not None:
                rows = index.db.execute(
                    f"{_ROWS} r.at >= ? ORDER BY r.id", (microseconds(since),)
                ).fetchall()
            yield _change(index, done, rows)

    @contextmanager
    def look(self) -> Iterator[FeedBatch]:
        """Refresh, and yield the records since the last look."""
        before = self._open_before()
        looked_at, is_other_file = datetime.now(UTC), False
        try:
            done = refresh(self._homes)
            with open_fresh(self._homes, is_stale_allowed=True) as index:
                is_other_file = self._file != _file_of(self._homes)
                positions = _positions(index.db)
                rows = self._new_rows(before, index.db, positions)
                self._remember(positions)
                yield _change(index, done, rows)
                self._looked_at = looked_at
        finally:
            if before is not None and before.in_transaction:
                before.execute("ROLLBACK")  # Otherwise the write-ahead log grows forever.
            if is_other_file:
                self.close()

    def close(self) -> None:
        if self._before is not None:
            self._before.close()
            self._before = None

    def _open_before(self) -> sqlite3.Connection | None:
        """Open a snapshot of the index as it is before a refresh."""
        if self._before is None:
            self._before = open_for_reading(self._homes)
        if self._before is not None:
            self._before.execute("BEGIN")
            self._before.execute("SELECT 1 FROM logs LIMIT 1").fetchone()
        return self._before

    def _remember(self, positions: dict[str, _FeedPosition]) -> None:
        self._reported = positions
        self._file = _file_of(self._homes)

    def _new_rows(
        self,
        before: sqlite3.Connection | None,
        db: sqlite3.Connection,
        positions: dict[str, _FeedPosition],
    ) -> list[tuple[Any, ...]]:
        is_same_file = self._file == _file_of(self._homes)
        by_id = {known.id: known for known in self._reported.values()} if is_same_file else {}
        rows: list[tuple[Any, ...]] = []
        for path, (log, generation, offset, tail) in positions.items():
            # A log that moved keeps its id; a rebuilt index has other ids.
            known = by_id.get(log) if is_same_file else self._reported.get(path)
            if known is None:
                rows += _rows(db, log)
            elif is_same_file and known.generation == generation:
                if known.offset != offset or known.tail or tail:
                    appended = _rows(db, log, known.offset)
                    rows += (row for row in appended if row[0] not in known.tail)
            elif before is not None and _generation(before, known.id) == known.generation:
                rows += _rows_besides(db, log, before, known.id)
            else:  # Another process refreshed first, so the old records are unknown.
                last = microseconds(self._looked_at) or 0
                rows += (row for row in _rows(db, log) if row[2] is not None and row[2] >= last)
        return rows


def _positions(db: sqlite3.Connection) -> dict[str, _FeedPosition]:
    """Return how far each log has been read, by path."""
    tails: dict[int, set[int]] = {}
    for (record,) in db.execute(_TAILS):
        tails.setdefault(record >> OFFSET_BITS, set()).add(record)
    return {
        path: _FeedPosition(log, generation, offset, frozenset(tails.get(log, ())))
        for log, path, generation, offset in db.execute(_LOGS)
    }


def _generation(db: sqlite3.Connection, log: int) -> int | None:
    row = db.execute("SELECT generation FROM logs WHERE id = ?", (log,)).fetchone()
    return None if row is None else int(row[0])


def _rows(db: sqlite3.Connection, log: int, offset: int = 0) -> list[tuple[Any, ...]]:
    """Return the records of a log from *offset* on."""
    base = log << OFFSET_BITS
    within = (base | offset, base + (1 << OFFSET_BITS))
    query = f"{_ROWS} r.id >= ? AND r.id < ? ORDER BY r.id"
    return db.execute(query, within).fetchall()


def _rows_besides(
    db: sqlite3.Connection, log: int, before: sqlite3.Connection, old: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the records of a replaced log that it did not have before."""
    old_records = Counter(_marks(before, old))
    for mark, row in zip(_marks(db, log), _rows(db, log), strict=True):
        if old_records[mark] > 0:
            old_records[mark] -= 1
        else:
            yield row


def _marks(db: sqlite3.Connection, log: int) -> list[tuple[Any, ...]]:
    return db.execute(_MARKS, (log << OFFSET_BITS, (log + 1) << OFFSET_BITS)).fetchall()


def _change(index: Index, done: RefreshResult, rows: list[tuple[Any, ...]]) -> FeedBatch:
    return FeedBatch(done, _read(index, _in_time(rows)), len(rows))


def _in_time(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort by time; undated records stay after the one before them in their log."""
    last: dict[int, int] = {}
    keys = {}
    for row in rows:
        log = row[0] >> OFFSET_BITS
        last[log] = max(last.get(log, 0), row[2] or 0)
        keys[row[0]] = last[log]
    return sorted(rows, key=lambda row: (keys[row[0]], row[0]))


def _read(index: Index, rows: list[tuple[Any, ...]]) -> Iterator[FeedItem]:
    for record, length, at, session, project, subagent, author, kind, log in rows:
        yield FeedItem(
            at=instant_at(at),
            session=session,
            project=project,
            subagent=subagent,
            author=author,
            type=kind,
            log=log,
            offset=record & ((1 << OFFSET_BITS) - 1),
            record=index.record(record, length),
        )


def _file_of(homes: Sequence[Home]) -> tuple[int, int] | None:
    """Return the device and inode of the index."""
    try:
        status = os.stat(index_path(homes))
    except OSError:
        return None
    return status.st_dev, status.st_ino


# Suffixes that a refresh reads. A new directory may already hold logs.
_ENDINGS: Final = ("", ".jsonl", ".gz", ".zst", ".json", ".md")


def watch(
    homes: Sequence[Home],
    *,
    on_change: Callable[[FeedBatch], None],
    poll: float | None = None,
    stop: threading.Event | None = None,
    since: datetime | None = None,
) -> None:
    """Refresh the index of *homes* until *stop* is set; call *on_change* with new records.

    It is called once at the start with the records *since* a time, and then for every change. With
    *poll*, logs are checked at this interval in seconds instead of by file system events.
    """
    check_poll(poll)
    stop = stop or threading.Event()
    with Feed(homes) as feed:
        with feed.begin(since) as batch:
            on_change(batch)
        for is_time in changes(homes, stop=stop, poll=poll, matters=_matters):
            if not is_time:
                continue
            with feed.look() as batch:
                if batch.is_something:
                    on_change(batch)


def _matters(path: str) -> bool:
    return os.path.splitext(path)[1] in _ENDINGS
