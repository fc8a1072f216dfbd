"""The items of a session: a fold over its log, read from the end.

Popping an item or clearing a session appends a record; the items stay in the log as history:

    {"type":"openai-pop","popped":"…"}     removes the item in the record with this uuid
    {"type":"openai-clear"}                removes all items before this record
    {"type":"openai-cut"}                  removes the items of an addition cut short by a crash

An addition is visible as a whole or not at all: each record but the last says in ``openaiMore`` how
many follow. If the log ends before they do, the items before do not count, and the next writer
appends ``openai-cut``. Damaged lines are skipped; only their own content is lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from turnlog.errors import NotFound
from turnlog.integrations.openai_agents.items import ITEM
from turnlog.records.damage import Damage
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.sources import open_regular
from turnlog.storage.system import read_at
from turnlog.storage.tail import read_last

POP: Final = "openai-pop"
CLEAR: Final = "openai-clear"
CUT: Final = "openai-cut"
MORE: Final = "openaiMore"

# Every relevant record contains it, and searching bytes is cheap.
_NEEDLE: Final = b'"openai'
_FIRST_LOOK: Final = 64
_FURTHER: Final = 4
_FURTHEST: Final = 20_000
_REMEMBERED: Final = 1_000
_NEWS_BYTES: Final = 1024 * 1024
_MARK_BYTES: Final = 256


class History:
    """The current items of the end of a log, or of all of it if *is_whole*."""

    def __init__(self, *, is_whole: bool = False) -> None:
        self.is_whole = is_whole
        self.records = 0
        self._items: dict[str, dict[str, Any]] = {}
        self._unfinished: list[str] = []
        self._more = 0
        self._is_spoiled = False
        """True if a damaged line may have ended the last addition."""

    @property
    def is_cut(self) -> bool:
        """True if the last addition is incomplete."""
        return bool(self._unfinished) and not self._is_spoiled

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The items by the uuids of their records, newest last."""
        if not self.is_cut:
            return self._items
        cut = set(self._unfinished)
        return {uuid: item for uuid, item in self._items.items() if uuid not in cut}

    @property
    def tip(self) -> str | None:
        """The uuid of the newest item's record, or None."""
        return next(reversed(self.items), None)

    def read(self, found: Iterable[Placed | Damage]) -> None:
        """Fold in records in the order of the log."""
        for item in found:
            if isinstance(item, Placed):
                self.records += 1
                if _NEEDLE in item.record.raw:
                    self._take(item)
            else:  # A line with a newline, so not the end of the log.
                self._is_spoiled = True

    def forget_all_but(self, count: int) -> None:
        """Keep only the newest *count* items."""
        for uuid in list(self._items)[:-count]:
            del self._items[uuid]
            self.is_whole = False

    def _take(self, placed: Placed) -> None:
        fields = placed.record.fields
        kind, item = fields.get("type"), fields.get(ITEM)
        if isinstance(item, dict):
            uuid = placed.record.uuid or f"@{placed.offset}"
            self._items[uuid] = item
            self._note_more(uuid, fields.get(MORE))
        elif kind == POP:
            self._items.pop(str(fields.get("popped")), None)
        elif kind == CLEAR:
            self._items.clear()
            self._unfinished.clear()
            self.is_whole = True
        elif kind == CUT:
            for uuid in self._unfinished:
                self._items.pop(uuid, None)
            self._unfinished.clear()

    def _note_more(self, uuid: str, value: Any) -> None:
        """Update whether the addition of *uuid* is complete."""
        more = value if isinstance(value, int) and value > 0 else 0
        if more != self._more - 1:  # Another addition, or a record between them was damaged.
            self._unfinished.clear()
        self._more, self._is_spoiled = more, False
        if more:
            self._unfinished.append(uuid)
        else:
            self._unfinished.clear()


class Memory:
    """A cache of the end of a log's history. Use it under the log's lock.

    It is valid as long as the path names the same file with the same bytes before the end.
    """

    def __init__(self) -> None:
        self._history = History()
        self._file: tuple[int, int] | None = None
        self._end = 0
        self._mark = b""

    def recall(self, path: Path) -> History:
        """Return a history with at least the newest item of the log at *path*."""
        fd = open_regular(path)
        try:
            status = os.fstat(fd)
            file = (status.st_dev, status.st_ino)
            fits = file == self._file and self._marked(fd) == self._mark
            if fits and status.st_size - self._end <= _NEWS_BYTES:
                with read_log(path, start=self._end) as news:
                    self._history.read(news)
            else:
                self._history = look_back(path, 1)
            if not (self._history.items or self._history.is_whole):
                # All cached items were popped: read further back.
                self._history = look_back(path, 1, look=_FURTHER * self._history.records)
            self._history.forget_all_but(_REMEMBERED)
            self._file, self._end = file, status.st_size
            self._mark = self._marked(fd)
        finally:
            os.close(fd)
        return self._history

    def _marked(self, fd: int) -> bytes:
        """Read the bytes before the end of the cached part."""
        start = max(0, self._end - _MARK_BYTES)
        return read_at(fd, self._end - start, start)


def look_back(path: Path, enough: int | None = None, look: int = _FIRST_LOOK) -> History:
    """Return the history of the log at *path* with at least its newest *enough* items, or all.

    The log is read backwards, *look* records at first, then more, and finally all of it.
    """
    look += enough or 0
    try:
        while look <= _FURTHEST:
            history = History()
            history.read(read_last(path, look))
            history.is_whole |= history.records < look
            if history.is_whole or (enough is not None and len(history.items) >= enough):
                return history
            look *= _FURTHER
        history = History(is_whole=True)
        with read_log(path) as log:
            history.read(log)
    except NotFound:
        return History(is_whole=True)
    return history
