"""Read the end of a log: its last records, both its ends, or what is appended to it.

A log is read backwards in growing blocks until there are enough lines, so the cost depends on the
records requested, not on the log. Both ends are read to summarize logs by the hundred. A compressed
log without frames has no random access and is read completely.

Following returns what is in the log, then whatever is appended, until it is stopped. If the log
shrinks, is replaced, or its tail is rewritten, a Restart is returned and reading begins again at
the start. A partial last line waits for its newline. The file's size and identity are polled a few
times a second, which works on every file system and costs one ``stat`` each time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from turnlog.errors import NotFound
from turnlog.records.damage import Damage, Reason
from turnlog.records.record import Record
from turnlog.records.session_summary import QuickRecord, quick_decode, quick_run
from turnlog.storage.blobs import STUB, decode_line, whole_line
from turnlog.storage.reader import Placed, Reader, pieces_of
from turnlog.storage.sources import (
    ENDS_BYTES,
    LINE_CAP,
    PlainSource,
    Seekable,
    open_regular,
    open_source,
    too_long,
)
from turnlog.storage.system import read_at

_Path: TypeAlias = str | os.PathLike[str]

_FIRST_BLOCK: Final = 64 * 1024
_LARGEST_BLOCK: Final = 4 * 1024 * 1024
_POLL_SECONDS: Final = 0.2
_FINGERPRINT_BYTES: Final = 256
_SPAN_BYTES: Final = 1024 * 1024
_SEARCH_BYTES: Final = 64 * 1024


def read_last(
    path: str | os.PathLike[str], count: int, *, cap: int = LINE_CAP
) -> list[Placed | Damage]:
    """Return the last *count* records in log order, with the damage among them."""
    source = open_source(path)
    count = max(0, count)
    if not isinstance(source, Seekable):
        with Reader(path, cap=cap, source=source) as reader:
            return _last_of(reader, count)
    found: list[Placed | Damage] = []
    missing = count
    try:
        for number, (offset, line) in enumerate(_lines_backwards(source, cap)):
            if missing <= 0:
                break
            # The first holds what follows the last newline: a record, or one still being written.
            for item in reversed(_items(path, line, offset, is_complete=number > 0)):
                if missing > 0:
                    found.append(item)
                    missing -= isinstance(item, Placed)
    finally:
        source.close()
    found.reverse()
    return found


class Ends(NamedTuple):
    """The records at both ends of a log, partially decoded: for folding a summary only."""

    head: list[Record]
    """Records before the tail; empty if the log is short."""
    tail: Iterable[Record]
    is_whole: bool
    """Nothing is missing between head and tail."""
    size_bytes: int
    """The size of the log; for one that is read completely, its size on disk."""
    changed_at: float


def read_ends(path: _Path, size_bytes: int = ENDS_BYTES, *, with_cut_lines: bool = False) -> Ends:
    """Return the records in the first and in the last *size_bytes* of the log.

    *with_cut_lines* adds the line at the inner edge of each end, however long it is. A log without
    random access is read completely when its tail is iterated.
    """
    source = open_source(path)
    if not isinstance(source, Seekable):
        status = os.stat(path)
        reader = Reader(path, source=source)
        records = (item.record for item in reader if isinstance(item, Placed))
        return Ends([], records, True, status.st_size, status.st_mtime)
    try:
        changed_at = os.fstat(source.fd).st_mtime
        size = source.size_bytes
        end, start = size_bytes, size - size_bytes
        if start <= end:
            return _ends_of_short(path, source.read_at(size, 0), start, changed_at)
        if with_cut_lines:
            end = _end_of_line(source, end)
            start = _start_of_line(source, start, end)
        head = source.read_at(end, 0)
        # The byte before shows whether a line begins right there.
        tail = source.read_at(size - start + 1, start - 1)
    finally:
        source.close()
    end = head.rfind(b"\n") + 1
    cut = tail.find(b"\n") + 1 or len(tail)
    is_whole = start - 1 + cut <= end
    ends = _quick_records(path, head, end=end), _quick_records(path, tail, cut)
    return Ends(*ends, is_whole, size, changed_at)


def _ends_of_short(path: _Path, data: bytes, start: int, changed_at: float) -> Ends:
    # Without a newline after it, the last line begins before the tail and is all of the head.
    cut = (data.find(b"\n", start - 1) + 1 or len(data)) if start > 0 else 0
    ends = _quick_records(path, data, end=cut), _quick_records(path, data, cut)
    return Ends(*ends, True, len(data), changed_at)


def _end_of_line(source: Seekable, offset: int) -> int:
    """Return the end of the line that holds the byte before *offset*, or *offset* if too long."""
    position = offset - 1
    while position - offset < LINE_CAP and (chunk := source.read_at(_FIRST_BLOCK, position)):
        newline = chunk.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(chunk)
    return offset


def _start_of_line(source: Seekable, offset: int, after: int) -> int:
    """Return the start of the line with the byte before *offset*, but not before *after*."""
    position = offset - 1
    while position > after and offset - position < LINE_CAP:
        size = min(_FIRST_BLOCK, position - after)
        position -= size
        newline = source.read_at(size, position).rfind(b"\n")
        if newline >= 0:
            return position + newline + 1
    return after if position <= after else offset


def _quick_records(
    path: _Path, data: bytes, start: int = 0, end: int | None = None
) -> list[Record]:
    """Return the partially decoded lines from *start* to *end*; damaged ones are salvaged."""
    view = memoryview(data)
    end = len(data) if end is None else end
    found: list[Record] = []
    run: list[QuickRecord] = []
    while start < end:
        stop = data.find(b"\n", start)
        is_finished = stop >= 0
        line = view[start : stop if is_finished else end]
        original = whole_line(path, bytes(line)) if data.startswith(STUB, start) else line
        seen = original if isinstance(original, Damage) else quick_decode(original)
        if isinstance(seen, QuickRecord):
            run.append(seen)
        else:
            if run:
                found.append(quick_run(run))
                run = []
            if isinstance(seen, Record):
                found.append(seen)
            elif is_finished and seen.reason is not Reason.BLANK:
                items = pieces_of(bytes(line), seen, start, log=path)
                found += [item.record for item in items if isinstance(item, Placed)]
        start += len(line) + 1
    return [*found, quick_run(run)] if run else found


def _lines_backwards(source: Seekable, cap: int) -> Iterator[tuple[int, bytes | Damage]]:
    """Yield every line and its offset from last to first; blank ones only at the ends."""
    position = source.size_bytes
    block = _FIRST_BLOCK
    parts: deque[bytes] = deque()  # The pieces of a line whose beginning is not read yet.
    held = 0
    while position > 0:
        size = min(block, position)
        chunk = source.read_at(size, position - size)
        if len(chunk) < size:  # The log shrank under us: the rest has no known end.
            return
        position -= size
        block = min(block * 2, _LARGEST_BLOCK)
        lines = chunk.split(b"\n")
        end = position + size
        if len(lines) > 1:
            last = lines.pop()
            yield end - len(last), _joined(last, parts, held, cap)
            parts.clear()
            held = 0
            end -= len(last) + 1
            while len(lines) > 1:
                line = lines.pop()
                if len(line) > cap:
                    yield end - len(line), too_long(line, len(line))
                elif line.strip(b"\r\t "):
                    yield end - len(line), line
                end -= len(line) + 1
        held += len(lines[0])
        if held <= cap:
            parts.appendleft(lines[0])
        elif parts:
            parts.clear()
    if held:
        yield 0, _joined(b"", parts, held, cap)


def _joined(head: bytes, parts: deque[bytes], held: int, cap: int) -> bytes | Damage:
    if held + len(head) > cap:
        return too_long(head or b"?", held + len(head))
    return b"".join((head, *parts))


def _items(
    path: _Path, line: bytes | Damage, offset: int, *, is_complete: bool
) -> list[Placed | Damage]:
    """Return the records and damage of a line; one that is not complete is not damage yet."""
    if isinstance(line, Damage):
        return [line.moved(offset)]
    record = decode_line(path, line)
    if isinstance(record, Record):
        return [Placed(record, offset, len(line))]
    if not is_complete or record.reason is Reason.BLANK:
        return []
    return list(pieces_of(line, record, offset, log=path))


def _last_of(reader: Reader, count: int) -> list[Placed | Damage]:
    window: deque[Placed | Damage] = deque()
    records = 0
    for item in reader:
        window.append(item)
        records += isinstance(item, Placed)
        while window and (records > count or count == 0):
            records -= isinstance(window.popleft(), Placed)
    return list(window)


class Restart(NamedTuple):
    """The log was replaced or rewritten; the items that follow are read from its start."""

    reason: str


class LogFollower:
    """Reads a growing log in steps, when the caller polls."""

    def __init__(self, path: _Path, *, start: int = 0, cap: int = LINE_CAP) -> None:
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
                from turnlog.storage.logger import logger  # noqa: PLC0415 - Rarely needed.

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
