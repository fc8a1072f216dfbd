"""Split chunks of bytes into lines.

A line ends at byte 0x0A and nowhere else: U+2028 inside a string does not end it. At most one line
and one chunk are in memory; a line longer than the cap is measured, not kept. The bytes after the
last newline are pending: they may be a record that is still being written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final, NamedTuple

from turnlog.records.damage import EXCERPT_BYTES, Damage, Reason

LINE_CAP: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
ENDS_BYTES: Final = 64 * 1024
"""How much of each end of a log is read to summarize it without reading all of it."""


_BLANK: Final = b"\n\r\t "
_BLANK_LINES: Final = re.compile(rb"(?:[\r\t ]*+\n)++")


class BlankLines(NamedTuple):
    """A run of blank lines, with their newlines."""

    lines: int
    length: int


class Splitter:
    """Collects chunks and returns the lines they complete.

    *offset* is where the first line not yet returned begins; feed at most *chunk_bytes* at a time.
    """

    def __init__(self, offset: int = 0, *, cap: int = LINE_CAP) -> None:
        self.offset = offset
        # With chunks no larger than the cap, every line below the cap spans at most two chunks.
        self.chunk_bytes = min(CHUNK_BYTES, cap)
        self._cap = cap
        self._carry = BytesIO()
        self._carried = 0  # Bytes of the pending line, kept or only measured.
        self._overlong = False

    @property
    def pending(self) -> bytes:
        """The bytes after the last newline, as far as they are kept."""
        return self._carry.getvalue()

    @property
    def pending_length(self) -> int:
        return self._carried

    @property
    def pending_too_long(self) -> bool:
        return self._overlong

    def feed(self, chunk: bytes) -> list[bytes | BlankLines | Damage]:
        """Add *chunk*; yield the lines it completes, without their newlines."""
        first, block = self.feed_block(chunk)
        return [*(() if first is None else (first,)), *split_lines(block)]

    def feed_block(self, chunk: bytes) -> tuple[bytes | Damage | None, bytes]:
        """Add *chunk*; yield the line it completes, then all further lines as one block."""
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._keep(chunk)
            return None, b""
        first: bytes | Damage | None = None
        after_first = 0
        if self._carried:
            after_first = chunk.find(b"\n") + 1
            first = self._complete(chunk[: after_first - 1])
        if cut < len(chunk):
            self._keep(chunk[cut:])
        return first, chunk[after_first:cut]

    def advance(self, line: bytes | BlankLines | Damage) -> int:
        """Move past *line* and return the offset where it began."""
        began = self.offset
        if isinstance(line, bytes):
            self.offset += len(line) + 1
        else:
            self.offset += line.length + (not isinstance(line, BlankLines))
        return began

    def _keep(self, data: bytes) -> None:
        self._carried += len(data)
        if self._overlong:
            return
        if self._carried > self._cap:
            head = self._carry.getvalue()[:EXCERPT_BYTES] or data[:EXCERPT_BYTES]
            self._carry = BytesIO(head)
            self._overlong = True
        else:
            self._carry.write(data)

    def _complete(self, data: bytes) -> bytes | Damage:
        self._keep(data)
        length, overlong = self._carried, self._overlong
        # getvalue returns the buffer itself: the line is not copied a second time.
        kept = self._carry.getvalue()
        self._carry = BytesIO()
        self._carried = 0
        self._overlong = False
        return too_long(kept, length) if overlong else kept


def split_lines(block: bytes) -> Iterator[bytes | BlankLines]:
    """Yield the lines of *block*, which ends with a newline; a run of blank lines is one item.

    A few kilobytes of gzip can decompress to millions of blank lines, so they are not handled one
    by one.
    """
    begin = 0
    # Finding newlines one by one is several times as fast as splitting, because lines are long.
    while (end := block.find(b"\n", begin)) >= 0:
        blank = _BLANK_LINES.match(block, begin) if block[begin] in _BLANK else None
        if blank is None:
            yield block[begin:end]
            begin = end + 1
        else:
            yield BlankLines(block.count(b"\n", begin, blank.end()), blank.end() - begin)
            begin = blank.end()


def too_long(head: bytes, length: int, *, offset: int = 0) -> Damage:
    """Return the damage for a line longer than the cap."""
    reason = Reason.TOO_LONG if head.strip(b"\x00") else Reason.NUL_RUN
    return Damage(reason=reason, offset=offset, length=length, excerpt=head[:EXCERPT_BYTES])
