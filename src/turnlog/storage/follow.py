"""Follow a log as it grows.

Following returns what is in the log, then whatever is appended, until it is stopped. If the log
shrinks, is replaced, or its tail is rewritten, a Restart is returned and reading begins again at
the start. A partial last line waits for its newline. Only plain logs grow; read a compressed one
with ``read_log``.

The file's size and identity are polled a few times a second. Polling works on every file system and
costs one ``stat`` each time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

from turnlog.errors import NotFound
from turnlog.records.damage import Damage
from turnlog.storage.lines import LINE_CAP
from turnlog.storage.logger import logger
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.sources import PlainSource, open_regular
from turnlog.storage.system import read_at

_POLL_SECONDS: Final = 0.2
_FINGERPRINT_BYTES: Final = 256
_SPAN_BYTES: Final = 1024 * 1024
_SEARCH_BYTES: Final = 64 * 1024


class Restart(NamedTuple):
    """The log was replaced or rewritten; the items that follow are read from its start."""

    reason: str


class LogFollower:
    """Reads a growing log in steps, when the caller polls."""

    def __init__(
        self, path: str | os.PathLike[str], *, start: int = 0, cap: int = LINE_CAP
    ) -> None:
        self.path = path
        self._cap = cap
        self._offset = start
        self._line = 0
        self._before = b""
        self._searched = 0
        self._before_searched = b""

    def look(self) -> list[Placed | Damage | Restart]:
        """Return what was added since the last look, a few megabytes at most."""
        try:
            fd = open_regular(self.path)
        except NotFound:  # Not created yet, or between a removal and a rename.
            return []
        found: list[Placed | Damage | Restart] = []
        try:
            reason = _changed(fd, self._offset, self._before)
            if reason:
                logger.warning("%s: %s; reading it from the start", os.fspath(self.path), reason)
                found.append(Restart(reason))
                self._offset, self._line, self._searched = 0, 0, 0
            items = self._next_items(fd)
            # Remember this before yielding anything: the consumer may take long over an item.
            self._before = _bytes_before(fd, self._offset)
        finally:
            os.close(fd)
        return [*found, *items]

    def _next_items(self, fd: int) -> list[Placed | Damage]:
        """Read the next few megabytes, or the next line if it is longer than that."""
        start = self._offset
        newline = self._next_newline(fd)
        if newline is None:
            return []
        source = PlainSource(os.dup(fd), start, end=max(start + _SPAN_BYTES, newline + 1))
        with Reader(
            self.path, start=start, line=self._line, cap=self._cap, tail="wait", source=source
        ) as reader:
            items = list(reader)
        self._offset, self._line = reader.offset, reader.line
        return items

    def _next_newline(self, fd: int) -> int | None:
        """Return where the next line ends. An unfinished line is not searched again."""
        place = self._offset
        if self._searched > place and _bytes_before(fd, self._searched) == self._before_searched:
            place = self._searched
        source = PlainSource(fd, place)
        while chunk := source.read(_SEARCH_BYTES):
            found = chunk.find(b"\n")
            if found >= 0:
                return place + found
            place += len(chunk)
        self._searched, self._before_searched = place, _bytes_before(fd, place)
        return None


def follow_log(
    path: str | os.PathLike[str],
    *,
    start: int = 0,
    stop: threading.Event | None = None,
    poll_seconds: float = _POLL_SECONDS,
    cap: int = LINE_CAP,
) -> Iterator[Placed | Damage | Restart]:
    """Yield items of the log at *path* as they are appended, until *stop* is set.

    Items already in the log after *start* come first. A missing log is waited for.
    """
    stop = stop or threading.Event()
    follower = LogFollower(path, start=start, cap=cap)
    while True:
        items = follower.look()
        yield from items
        if items and not stop.is_set():
            continue  # There may be more to read at once.
        if stop.wait(poll_seconds):
            return


def _changed(fd: int, offset: int, before: bytes) -> str:
    """Return why the bytes before *offset* are no longer those that were read, or ""."""
    if os.fstat(fd).st_size < offset:
        return "the log shrank"
    if before and _bytes_before(fd, offset) != before:
        return "the log was rewritten"
    return ""


def _bytes_before(fd: int, offset: int) -> bytes:
    """Return the last bytes that were read; uuids and timestamps make them unique."""
    size = min(offset, _FINGERPRINT_BYTES)
    return read_at(fd, size, offset - size)
