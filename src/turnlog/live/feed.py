"""What the index has that it had not before.

For every log it is remembered how far it was told. After a refresh the records behind that are
new, in the order of time. A log that has become another one is compared with what it was, record
by record, so that those that only moved are not told again.

What happens, as it happens: the index is kept fresh, and tells what was new each time.

Whenever something in a home changes (``sessions.changes`` tells), the index is refreshed. What is
new is what the index has and had not before. So each record is told once, also if its log is
replaced by one that repeats it, and if another process refreshed the index first.
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
# Records behind the bookmark stand on a last line that has no newline yet.
_TAILS: Final = (
    "SELECT records.id FROM logs JOIN records ON records.id >= (logs.id << 40 | logs.text_offset)"
    " AND records.id < (logs.id + 1) << 40"
)
_ROWS: Final = (
    f"SELECT r.id, r.length, r.at, sessions.session, projects.path, {SUBAGENT},"  # noqa: S608 - Ours.
    " authors.name, types.name, l.path FROM records AS r"
    " JOIN logs AS l ON l.id = r.id >> 40"
    " LEFT JOIN sessions ON sessions.id = r.session"
    " LEFT JOIN projects ON projects.id = sessions.project"
    " LEFT JOIN names AS authors ON authors.id = r.author"
    " LEFT JOIN names AS types ON types.id = r.type"
    " WHERE l.kind IN ('session', 'subagent', 'day') AND "
)
# What a record is known by, wherever in its log it stands.
_MARKS: Final = (
    "SELECT records.length, types.name, records.uuid, records.parent, records.at, records.message"
    " FROM records LEFT JOIN names AS types ON types.id = records.type"
    " WHERE records.id >= ? AND records.id < ? ORDER BY records.id"
)


class FeedItem(NamedTuple):
    """A record that is new, and what is known of it. *record* is None if its log is gone since."""

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
    """What a refresh found. The records are read one by one, while whoever was told is at it."""

    refreshed: RefreshResult
    happened: Iterator[FeedItem]
    count: int

    @property
    def is_something(self) -> bool:
        """Return whether anything changed."""
        return bool(self.count or self.refreshed.read or self.refreshed.gone)


class _FeedPosition(NamedTuple):
    """How far a log was told."""

    id: int
    generation: int
    offset: int
    tail: frozenset[int]


class Feed(Closing):
    """Remembers what was told of the logs of *homes*."""

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = tuple(homes)
        self._told: dict[str, _FeedPosition] = {}
        self._file: tuple[int, int] | None = None
        self._looked_at = datetime.now(UTC)
        self._before: sqlite3.Connection | None = None
        """The index as it was. That it stays open also spares every refresh a checkpoint."""

    @contextmanager
    def begin(self, since: datetime | None) -> Iterator[FeedBatch]:
        """Refresh; what happened *since*, if that is given, is news, and nothing else."""
        try:
            done = refresh(self._homes)
        except IndexUnavailable as error:  # One that stays as it is has no news.
            done = make_temporary_index(self._homes, error)
        with open_fresh(self._homes, is_stale_allowed=True) as index:
            self._remember(_standing(index.db))
            rows: list[tuple[Any, ...]] = []
            if since is not None:
                rows = index.db.execute(
                    f"{_ROWS} r.at >= ? ORDER BY r.id", (microseconds(since),)
                ).fetchall()
            yield _change(index, done, rows)

    @contextmanager
    def look(self) -> Iterator[FeedBatch]:
        """Refresh; give what is new since the last look."""
        before = self._open_before()
        looked_at, is_other_file = datetime.now(UTC), False
        try:
            done = refresh(self._homes)
            with open_fresh(self._homes, is_stale_allowed=True) as index:
                is_other_file = self._file != _file_of(self._homes)
                standing = _standing(index.db)
                rows = self._new_rows(before, index.db, standing)
                self._remember(standing)
                yield _change(index, done, rows)
                self._looked_at = looked_at
        finally:
            if before is not None and before.in_transaction:
                before.execute("ROLLBACK")  # Else the write-ahead log could only grow.
            if is_other_file:
                self.close()

    def close(self) -> None:
        if self._before is not None:
            self._before.close()
            self._before = None

    def _open_before(self) -> sqlite3.Connection | None:
        """Hold on to the index as it is now, while it is refreshed."""
        if self._before is None:
            self._before = open_for_reading(self._homes)
        if self._before is not None:
            self._before.execute("BEGIN")
            self._before.execute("SELECT 1 FROM logs LIMIT 1").fetchone()
        return self._before

    def _remember(self, standing: dict[str, _FeedPosition]) -> None:
        self._told = standing
        self._file = _file_of(self._homes)

    def _new_rows(
        self,
        before: sqlite3.Connection | None,
        db: sqlite3.Connection,
        standing: dict[str, _FeedPosition],
    ) -> list[tuple[Any, ...]]:
        is_same_file = self._file == _file_of(self._homes)
        by_id = {told.id: told for told in self._told.values()} if is_same_file else {}
        rows: list[tuple[Any, ...]] = []
        for path, (log, generation, offset, tail) in standing.items():
            # A log that moved keeps its id; an index made anew knows only paths.
            told = by_id.get(log) if is_same_file else self._told.get(path)
            if told is None:
                rows += _rows(db, log)
            elif is_same_file and told.generation == generation:
                if told.offset != offset or told.tail or tail:
                    found = _rows(db, log, told.offset)
                    rows += (row for row in found if row[0] not in told.tail)
            elif before is not None and _generation(before, told.id) == told.generation:
                rows += _rows_besides(db, log, before, told.id)
            else:  # Somebody else refreshed first: what it was is lost, and time must tell.
                last = microseconds(self._looked_at) or 0
                rows += (row for row in _rows(db, log) if row[2] is not None and row[2] >= last)
        return rows


def _standing(db: sqlite3.Connection) -> dict[str, _FeedPosition]:
    """Tell, by path, how far each log is read now."""
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
    """Return the records of a log that became another one, without those it had before."""
    had = Counter(_marks(before, old))
    for mark, row in zip(_marks(db, log), _rows(db, log), strict=True):
        if had[mark] > 0:
            had[mark] -= 1
        else:
            yield row


def _marks(db: sqlite3.Connection, log: int) -> list[tuple[Any, ...]]:
    return db.execute(_MARKS, (log << OFFSET_BITS, (log + 1) << OFFSET_BITS)).fetchall()


def _change(index: Index, done: RefreshResult, rows: list[tuple[Any, ...]]) -> FeedBatch:
    return FeedBatch(done, _read(index, _in_time(rows)), len(rows))


def _in_time(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort by time; a record that tells none stays behind the one before it in its log."""
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
    """Return which file the index is now."""
    try:
        status = os.stat(index_path(homes))
    except OSError:
        return None
    return status.st_dev, status.st_ino


__all__ = ["FeedBatch", "watch"]

# What a refresh reads. Directories have no such end; a new one may hold logs already.
_ENDINGS: Final = ("", ".jsonl", ".gz", ".zst", ".json", ".md")


def watch(
    homes: Sequence[Home],
    *,
    on_change: Callable[[FeedBatch], None],
    poll: float | None = None,
    stop: threading.Event | None = None,
    since: datetime | None = None,
) -> None:
    """Keep the index of *homes* fresh until *stop* is set; tell *on_change* what was new.

    It is called once at the beginning, with what happened *since*, and then for every change. With
    *poll* the logs are looked at every so many seconds, and the system is not asked.
    """
    check_poll(poll)
    stop = stop or threading.Event()
    with Feed(homes) as news:
        with news.begin(since) as change:
            on_change(change)
        for is_time in changes(homes, stop=stop, poll=poll, matters=_matters):
            if not is_time:
                continue
            with news.look() as found:
                if found.is_something:
                    on_change(found)


def _matters(path: str) -> bool:
    return os.path.splitext(path)[1] in _ENDINGS
