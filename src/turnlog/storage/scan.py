"""Find lines that contain a needle, without decoding the rest.

    for offset, line in FoundLines(path, b'"usage"'):
        ...

Most queries concern few lines of a log. The others are never split, counted or decoded: the log is
read into one reused buffer, which is searched as a whole. What a line means, and whether it is a
record, is up to the caller.

Every matching line is returned once, without its newline; one longer than the line cap is returned
as damage. Compressed logs and logs that change while being read work too. ``offset`` is where the
next search should begin: after the last newline. Of a line that was moved to a blob only the stub
is searched; callers that must not miss one also search for ``STUB`` and follow it. Usage records
and turnlog's own records are never moved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from functools import partial
from io import FileIO
from typing import Final

from turnlog.errors import LogError, UsageError
from turnlog.records.damage import EXCERPT_BYTES, Damage, Reason
from turnlog.storage import Closing
from turnlog.storage.reader import Tail
from turnlog.storage.sources import (
    LINE_CAP,
    BrokenArchive,
    FramedSource,
    PlainSource,
    Source,
    open_source,
    too_long,
)

# Fits a processor's cache between reading and searching.
BUFFER_BYTES: Final = 1024 * 1024
# Lowercased in small pieces: the allocator reuses small blocks, large ones cost a system call.
_PIECE_BYTES: Final = 64 * 1024

Found = tuple[int, bytes | Damage]
_Fill = Callable[[memoryview], int]


class FoundLines(Closing):
    """The lines of the log at *path*, from *start* on, that contain one of *needles*.

    Iterate once, to the end or until closed. Pass the same *buffer* for each of many logs. With
    *ignores_case* (ASCII only), needles must be lower case.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *needles: bytes,
        start: int = 0,
        cap: int = LINE_CAP,
        tail: Tail = "take",
        buffer: bytearray | None = None,
        ignores_case: bool = False,
    ) -> None:
        if not needles or any(not needle or b"\n" in needle for needle in needles):
            raise UsageError(
                "a needle has at least one byte and no newline",
                hint="pass the bytes to search for, such as a quoted key",
            )
        self.path = os.fspath(path)
        self.offset = start
        self.is_pending = False
        """Whether the last line returned had no newline: it may still be being written."""
        self._needles = needles
        self._cap = cap
        self._tail = tail
        self._buffer = buffer or bytearray(BUFFER_BYTES)
        self._ignores_case = ignores_case
        self._small: bytearray | None = None
        """Space for the lowercased buffer."""
        self._source = open_source(path, start)
        self._lines = self._find(_filler(self._source, start, self.path))

    def __iter__(self) -> Iterator[Found]:
        return self._lines

    def __next__(self) -> Found:
        return next(self._lines)

    def close(self) -> None:
        self._lines.close()
        self._source.close()

    def _find(self, fill: _Fill) -> Generator[Found, None, None]:
        try:
            with memoryview(self._buffer) as view:
                yield from self._all(fill, view)
        except BrokenArchive as error:
            at = self.offset
            why = Damage(reason=Reason.BROKEN_ARCHIVE, offset=at, length=0, detail=str(error))
            yield at, why
        for broken in self._source.broken if isinstance(self._source, FramedSource) else ():
            yield (
                broken.offset,
                Damage(
                    reason=Reason.BROKEN_ARCHIVE,
                    offset=broken.offset,
                    length=broken.length,
                    detail=broken.why,
                ),
            )
        self._source.close()

    def _all(self, fill: _Fill, view: memoryview) -> Generator[Found, None, None]:
        """Search the log one buffer at a time; bytes after the last newline are carried over."""
        buffer = self._buffer
        held = 0
        while count := fill(view[held:]):
            end = held + count
            cut = buffer.rfind(b"\n", held, end) + 1
            held = end
            if cut:
                held = yield from self._lines_before(cut, end, view)
            elif end == len(buffer):
                held = yield from self._long_line(fill, view)
        if held and self._tail == "take" and self._holds(line := bytes(view[:held])):
            yield self._line_or_damage(line, held, is_pending=True)

    def _lines_before(self, cut: int, end: int, view: memoryview) -> Generator[Found, None, int]:
        """Yield the matching lines that end before *cut*; return how much of the buffer is left."""
        buffer, base, cap = self._buffer, self.offset, self._cap
        find = _finder(self._searched(cut), self._needles)
        position = 0
        while (hit := find(position, cut)) >= 0:
            begin = buffer.rfind(b"\n", position, hit) + 1 or position
            stop = buffer.find(b"\n", hit, cut)
            line = bytes(view[begin:stop])
            at = base + begin
            yield at, (line if stop - begin <= cap else too_long(line, stop - begin, offset=at))
            position = stop + 1
        self.offset = base + cut
        left = end - cut
        view[:left] = view[cut:end]
        return left

    def _searched(self, cut: int) -> bytearray:
        """Return the buffer, or its first *cut* bytes in lower case if case is ignored."""
        if not self._ignores_case:
            return self._buffer
        small = self._small = self._small or bytearray(len(self._buffer))
        for at in range(0, cut, _PIECE_BYTES):
            stop = min(cut, at + _PIECE_BYTES)
            small[at:stop] = self._buffer[at:stop].lower()
        return small

    def _long_line(self, fill: _Fill, view: memoryview) -> Generator[Found, None, int]:
        """Read to the end of a line that fills the whole buffer.

        It is collected up to the cap and only searched beyond. The rest of the buffer is searched
        as well; returns how much of that is left.
        """
        buffer, cap = self._buffer, self._cap
        overlap = max(map(len, self._needles)) - 1
        line = bytearray(buffer)
        length = len(line)
        holds = self._holds(line)
        while count := fill(view):
            stop = buffer.find(b"\n", 0, count)
            piece = count if stop < 0 else stop
            seam = line[max(0, len(line) - overlap) :] + view[:piece]
            holds = holds or self._holds(seam)
            length += piece
            if length <= cap:
                line += view[:piece]
            else:
                # The head, for the report, and enough of the end for a needle that continues.
                line = line[:EXCERPT_BYTES] + seam[max(0, len(seam) - overlap) :]
            if stop >= 0:
                if holds:
                    yield self._line_or_damage(bytes(line), length, is_pending=False)
                self.offset += length + 1
                left = count - stop - 1
                view[:left] = view[stop + 1 : count]
                cut = buffer.rfind(b"\n", 0, left) + 1
                return (yield from self._lines_before(cut, left, view)) if cut else left
        if holds and self._tail == "take":
            yield self._line_or_damage(bytes(line), length, is_pending=True)
        return 0

    def _line_or_damage(self, line: bytes, length: int, *, is_pending: bool) -> Found:
        """Return a line of *length* bytes, or the damage that begins with *line*."""
        self.is_pending = is_pending
        at = self.offset
        return at, line if length <= self._cap else too_long(line, length, offset=at)

    def _holds(self, line: bytes | bytearray) -> bool:
        searched = line.lower() if self._ignores_case else line
        return any(needle in searched for needle in self._needles)


def _finder(buffer: bytearray, needles: tuple[bytes, ...]) -> Callable[[int, int], int]:
    """Return a function that returns the first position of any needle in a range, or -1.

    Each call must start after the previous one and have the same end.
    """
    if len(needles) == 1:
        return partial(buffer.find, needles[0])
    places = dict.fromkeys(needles, -1)  # Where each was found last.

    def find(start: int, end: int) -> int:
        for needle, place in places.items():
            if place < start:
                found = buffer.find(needle, start, end)
                places[needle] = end if found < 0 else found
        first = min(places.values())
        return first if first < end else -1

    return find


def _filler(source: Source, start: int, path: str) -> _Fill:
    """Return a function that reads *source* into a buffer and returns the number of bytes."""
    if not isinstance(source, PlainSource):

        def unpack(view: memoryview) -> int:
            data = source.read(len(view))
            view[: len(data)] = data
            return len(data)

        return unpack
    os.lseek(source.fd, start, os.SEEK_SET)
    file = FileIO(source.fd, closefd=False)  # It reads directly into the buffer.

    def read(view: memoryview) -> int:
        try:
            return file.readinto(view) or 0
        except OSError as error:
            raise LogError(
                f"reading failed: {error.strerror or error}",
                path=path,
                errno=error.errno,
                hint="the disk may be failing; copy what can be read",
            ) from None

    return read
