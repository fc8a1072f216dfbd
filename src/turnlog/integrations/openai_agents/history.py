"""Which items of a log still count: a fold over it, read from its end.

A log only grows, and so does this one. Whoever pops an item or clears a session appends a record
that says so; the items stay where they are, as history. Three types of records say something about
items, and none of them stands in the tree:

    {"type":"openai-pop","popped":"…"}     the item in the record of this uuid was taken back
    {"type":"openai-clear"}                so was every item before this record
    {"type":"openai-cut"}                  so were those of the addition that a crash cut short

One addition is seen whole or not at all: a record that more of it will follow tells how many, by
``openaiMore``. Where the log ends before they came, those before them do not count, and the next to
write says that they never will. Damaged lines are passed over: what they held is lost, and nothing
else, also if it was the end of an addition.
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

# Every record that matters here has it, and a bytes search is cheap.
_NEEDLE: Final = b'"openai'
_FIRST_LOOK: Final = 64
_FURTHER: Final = 4
_FURTHEST: Final = 20_000
_REMEMBERED: Final = 1_000
_NEWS_BYTES: Final = 1024 * 1024
_MARK_BYTES: Final = 256


class History:
    """The items that still count in the end of a log, or in all of it if *is_whole*."""

    def __init__(self, *, is_whole: bool = False) -> None:
        self.is_whole = is_whole
        self.records = 0
        self._items: dict[str, dict[str, Any]] = {}
        self._unfinished: list[str] = []
        self._more = 0
        self._is_spoiled = False
        """What is missing of the last addition may be what a damaged line held."""

    @property
    def is_cut(self) -> bool:
        """The last addition was not finished."""
        return bool(self._unfinished) and not self._is_spoiled

    @property
    def items(self) -> dict[str, dict[str, Any]]:
        """The items by the uuids of their records, the newest last."""
        if not self.is_cut:
            return self._items
        cut = set(self._unfinished)
        return {uuid: item for uuid, item in self._items.items() if uuid not in cut}

    @property
    def tip(self) -> str | None:
        """The record of the newest item, which the next one follows."""
        return next(reversed(self.items), None)

    def read(self, found: Iterable[Placed | Damage]) -> None:
        """Fold in what was read of a log, in its order."""
        for each in found:
            if isinstance(each, Placed):
                self.records += 1
                if _NEEDLE in each.record.raw:
                    self._take(each)
            else:  # A line with its end: what a crash cuts has none yet.
                self._is_spoiled = True

    def forget_all_but(self, count: int) -> None:
        """Keep only the newest *count* items; the history is one of the log's end then."""
        for uuid in list(self._items)[:-count]:
            del self._items[uuid]
            self.is_whole = False

    def _take(self, placed: Placed) -> None:
        said = placed.record.fields
        kind, item = said.get("type"), said.get(ITEM)
        if isinstance(item, dict):
            uuid = placed.record.uuid or f"@{placed.offset}"
            self._items[uuid] = item
            self._go_on(uuid, said.get(MORE))
        elif kind == POP:
            self._items.pop(str(said.get("popped")), None)
        elif kind == CLEAR:
            self._items.clear()
            self._unfinished.clear()
            self.is_whole = True
        elif kind == CUT:
            for uuid in self._unfinished:
                self._items.pop(uuid, None)
            self._unfinished.clear()

    def _go_on(self, uuid: str, said: Any) -> None:
        """Note whether the addition that *uuid* belongs to is finished."""
        more = said if isinstance(said, int) and said > 0 else 0
        if more != self._more - 1:  # Another addition, or a record between them was damaged.
            self._unfinished.clear()
        self._more, self._is_spoiled = more, False
        if more:
            self._unfinished.append(uuid)
        else:
            self._unfinished.clear()


class Memory:
    """The end of a log's history, remembered by those who change it, and only read on.

    To be asked under the log's lock. What it remembers holds as long as the path names the same
    file, and that has the same bytes where the reading ended.
    """

    def __init__(self) -> None:
        self._history = History()
        self._file: tuple[int, int] | None = None
        self._end = 0
        self._mark = b""

    def recall(self, path: Path) -> History:
        """Return a history of the log at *path* with at least its newest item, if there is any."""
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
                # All that was remembered is popped: look four times as far.
                self._history = look_back(path, 1, look=_FURTHER * self._history.records)
            self._history.forget_all_but(_REMEMBERED)
            self._file, self._end = file, status.st_size
            self._mark = self._marked(fd)
        finally:
            os.close(fd)
        return self._history

    def _marked(self, fd: int) -> bytes:
        """Read the bytes right before the end of what is remembered."""
        start = max(0, self._end - _MARK_BYTES)
        return read_at(fd, self._end - start, start)


def look_back(path: Path, enough: int | None = None, look: int = _FIRST_LOOK) -> History:
    """Return the history of the log at *path*, at least its newest *enough* items, or all of them.

    The log is read backwards, *look* records at first and then further and further, until enough is
    found or the session was cleared there; beyond a point it is cheaper to read all of it.
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
