"""Records and their texts, read back from the logs where they stand.

The index stores no text. A search reads back what it shows, a record at a time, and does so within
a few milliseconds: what all of these records need is looked up once. A log that vanished or was
rewritten since gives nothing.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from turnlog.errors import TurnlogError
from turnlog.index.ids import BESIDE, OFFSET_BITS
from turnlog.index.side_files import texts_of_side
from turnlog.index.texts import Text, texts_of
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.storage.blobs import whole_line
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import Seekable, open_source

_OFFSET: Final = (1 << OFFSET_BITS) - 1
_MOST_OPEN: Final = 16


class ReadBack:
    """The logs of one index. Some stay open until they are let go: hits come from few logs."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._logs: dict[int, tuple[str, str, str]] = {}
        self._open: dict[int, Seekable] = {}

    def place(self, record: int) -> tuple[str, int]:
        """Return the log and the offset of a record."""
        return self._known(record >> OFFSET_BITS)[0], record & _OFFSET

    def raw(self, record: int, length: int | None = None) -> bytes | None:
        """Read a record's bytes from its log; None if they are not there any more."""
        length = self.length(record) if length is None else length
        if length is None:
            return None
        log, offset = record >> OFFSET_BITS, record & _OFFSET
        try:
            source = self._open.get(log) or self._opened(log)
            if source is None:  # No way into the middle of this one.
                return _unpacked_at(self._known(log)[0], offset)
            data = source.read_at(length, offset)
            whole = whole_line(self._known(log)[0], data) if len(data) == length else None
            return None if isinstance(whole, Damage) else whole
        except (TurnlogError, OSError):
            return None

    def length(self, record: int) -> int | None:
        """Return how long a record is; None if the index does not know it."""
        row = self._db.execute("SELECT length FROM records WHERE id = ?", (record,)).fetchone()
        return None if row is None else int(row[0])

    def texts_in(self, data: bytes, record: int) -> list[Text]:
        """Return the texts of a record's bytes."""
        _, layout, kind = self._known(record >> OFFSET_BITS)
        if layout == BESIDE:
            return texts_of_side(kind, data)
        found = decode(data)
        return [] if isinstance(found, Damage) else texts_of(found)

    def close(self) -> None:
        """Let go of the logs: whoever reads on opens them again, and sees what they are then."""
        for source in self._open.values():
            source.close()
        self._open.clear()

    def _known(self, log: int) -> tuple[str, str, str]:
        known = self._logs.get(log)
        if known is None:
            asked = "SELECT path, layout, kind FROM logs WHERE id = ?"
            row: Any = self._db.execute(asked, (log,)).fetchone()
            known = self._logs[log] = row or ("", "", "")
        return known

    def _opened(self, log: int) -> Seekable | None:
        if len(self._open) >= _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        source = open_source(self._known(log)[0])
        if not isinstance(source, Seekable):
            source.close()
            return None
        self._open[log] = source
        return source


def _unpacked_at(path: str, offset: int) -> bytes | None:
    with read_log(path, start=offset) as reader:
        item = next(reader, None)
    return item.record.raw if isinstance(item, Placed) and item.offset == offset else None
