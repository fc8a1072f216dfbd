"""Open the index for reading, refreshed first.

    with open_fresh(homes) as index:
        index.db.execute("SELECT …")
        index.texts(record)

An open index is one state, whatever is written meanwhile: an answer takes many statements, and they
must agree. Close it soon, since newer writes have to wait in the write-ahead log.

The index stores no text. Records are read from their logs; one whose log was deleted or rewritten
reads as None, and the next refresh notices.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from turnlog.errors import BrokenIndex, IndexUnavailable, TurnlogError
from turnlog.index.database import index_path, is_broken, open_for_reading
from turnlog.index.freshness import Freshness, changed_logs, has_leftovers
from turnlog.index.ids import BESIDE, OFFSET_BITS
from turnlog.index.texts import Text, texts_of
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.storage.blobs import whole_line
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import Seekable, open_source

if TYPE_CHECKING:  # Imported when needed: mostly the index is fresh.
    from typing import Self

    from turnlog.formats import Home
    from turnlog.index.fallback import Fallback
    from turnlog.index.refresh.refresh import Progress, RefreshResult, Stage
    from turnlog.records.record import Record

_OFFSETS: Final = (1 << OFFSET_BITS) - 1
_MOST_OPEN: Final = 16
_REBUILD: Final = "rebuild it"


class Index:
    """One state of an index; *refreshed* is the result of the refresh before it, if any.

    Some logs stay open once they were read from, since records are mostly read from few logs.
    """

    is_masked = False
    """Whether records are masked when they are read, so that words in the index may be secret."""

    def __init__(self, db: sqlite3.Connection, refreshed: RefreshResult | None = None) -> None:
        self.db = db
        self.refreshed = refreshed
        self._logs: dict[int, tuple[str, str, str]] = {}
        self._open: dict[int, Seekable] = {}

    def shown(self, text: str) -> str:
        """Return *text*, which is stored in the index, as it may be shown."""
        return text

    def place(self, record: int) -> tuple[str, int]:
        """Return the log and the offset of a record."""
        return self._log(record >> OFFSET_BITS)[0], record & _OFFSETS

    def length(self, record: int) -> int | None:
        """Return the length of a record, or None if the index does not have it."""
        row = self.db.execute("SELECT length FROM records WHERE id = ?", (record,)).fetchone()
        return None if row is None else int(row[0])

    def raw(self, record: int, length: int | None = None) -> bytes | None:
        """Read a record's bytes from its log; None if they are gone."""
        length = self.length(record) if length is None else length
        if length is None:
            return None
        log, offset = record >> OFFSET_BITS, record & _OFFSETS
        path = self._log(log)[0]
        try:
            source = self._open.get(log) or self._open_log(log, path)
            if source is None:
                return _read_unseekable(path, offset)
            data = source.read_at(length, offset)
            whole = whole_line(path, data) if len(data) == length else None
            return None if isinstance(whole, Damage) else whole
        except (TurnlogError, OSError):
            return None

    def record(self, record: int, length: int | None = None) -> Record | None:
        """Read a record from its log; None if it is gone."""
        data = self.raw(record, length)
        found = None if data is None else decode(data)
        return None if isinstance(found, Damage) else found

    def texts(self, record: int, length: int | None = None) -> list[Text]:
        """Read the texts of a record from its log."""
        data = self.raw(record, length)
        if data is None:
            return []
        _, layout, kind = self._log(record >> OFFSET_BITS)
        if layout == BESIDE:
            from turnlog.index.side_files import texts_of_side

            return texts_of_side(kind, data)
        found = decode(data)
        return [] if isinstance(found, Damage) else texts_of(found)

    def close_logs(self) -> None:
        """Close the logs that were read from; they are opened again when needed."""
        for source in self._open.values():
            source.close()
        self._open.clear()

    def close(self) -> None:
        self.close_logs()
        self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Close the index; raise BrokenIndex if it turned out to be broken while it was read."""
        broken = type(error) is sqlite3.DatabaseError and is_broken(error)
        path = self._path() if broken else ""
        self.close()
        if broken:
            raise BrokenIndex(
                f"the index is broken: {error}", path=path, hint=_REBUILD, code="index-broken"
            ) from error

    def _path(self) -> str:
        try:
            return str(self.db.execute("PRAGMA database_list").fetchone()[2])
        except sqlite3.Error:
            return ""

    def _log(self, log: int) -> tuple[str, str, str]:
        """Return the path, layout and kind of a log."""
        known = self._logs.get(log)
        if known is None:
            query = "SELECT path, layout, kind FROM logs WHERE id = ?"
            known = self._logs[log] = self.db.execute(query, (log,)).fetchone() or ("", "", "")
        return known

    def _open_log(self, log: int, path: str) -> Seekable | None:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        source = open_source(path)
        if not isinstance(source, Seekable):
            source.close()
            return None
        self._open[log] = source
        return source


def _read_unseekable(path: str, offset: int) -> bytes | None:
    with read_log(path, start=offset) as reader:
        item = next(reader, None)
    return item.record.raw if isinstance(item, Placed) and item.offset == offset else None


def open_fresh(
    homes: Sequence[Home],
    *,
    stage: Stage = "text",
    is_stale_allowed: bool = False,
    progress: Progress | None = None,
    fallback: Fallback = "made",
) -> Index:
    """Open the index of *homes*, refreshed; with *is_stale_allowed* as it is, if it exists.

    If the index cannot be written, *fallback* says what to use instead.
    """
    db = open_for_reading(homes)
    refreshed = changed = None
    if db is not None and not is_stale_allowed:
        try:
            if not has_leftovers(db):
                changed = changed_logs(db, usage_only=stage == "usage")
        except sqlite3.Error:
            changed = None  # The refresh will report it.
        if changed != []:
            db.close()
            db = None
    if db is None:
        refreshed = refresh_or_fall_back(
            homes, stage=stage, progress=progress, look=Freshness(changed), fallback=fallback
        )
        db = open_for_reading(homes)
    if db is None:
        raise IndexUnavailable(
            "the index cannot be read", path=index_path(homes), hint=_REBUILD, code="index-broken"
        )
    db.execute("BEGIN")  # One state until it is closed.
    return Index(db, refreshed)


def refresh_or_fall_back(
    homes: Sequence[Home],
    *,
    stage: Stage = "text",
    progress: Progress | None = None,
    look: Freshness | None = None,
    fallback: Fallback = "made",
) -> RefreshResult:
    """Refresh the index; if it cannot be written, provide the *fallback*."""
    from turnlog.index.refresh.refresh import refresh

    try:
        return refresh(homes, stage=stage, progress=progress, look=look)
    except IndexUnavailable as error:
        from turnlog.index.fallback import fall_back

        return fall_back(homes, error, stage=stage, fallback=fallback, progress=progress)
