"""Appending to a log so that nothing acknowledged is ever lost.

    with LogWriter(path) as log:
        log.append({"type": "user", ...})     # returns when the record is on the disk

One append, one batch: one ``write`` on an O_APPEND descriptor, under the lock, synced after the
lock is given back (a sync covers everything before it, so an acknowledgement does too).

What holds, and is tested by killing, starving and lying to this code:
- Acknowledged means durable, unless a weaker durability was chosen by name.
- Acknowledged bytes never move or change.
- A record that was not acknowledged is whole, absent, or a fragment. The next append starts with a
  newline if the log does not end in one, so a fragment never merges with a record.
- What cannot be written as JSON is refused before a byte is written.
- Threads, processes and forked children may all append to one log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from turnlog.errors import NotSerialisable, UsageError
from turnlog.log.closing import Closing
from turnlog.log.handle import LOCK_TIMEOUT, Handle
from turnlog.log.lines import LINE_CAP
from turnlog.log.reader import Reader
from turnlog.log.sources import PlainSource, open_regular
from turnlog.log.telling import logger
from turnlog.records.codec import encode
from turnlog.records.record import Record

Durability = Literal["fsync", "flush"]

_LAST_BYTES: Final = 256


class Appended(NamedTuple):
    """Where a record came to stand; *length* does not count its newline."""

    offset: int
    length: int


class News(NamedTuple):
    """What others appended since this writer last looked.

    *restarted* tells that the log is another than before and *items* begins at its start.
    """

    items: Reader
    restarted: bool


Decide = Callable[[News], Iterable[Record | Mapping[str, Any]]]


class LogWriter(Closing):
    """One handle for appending to one log.

    *head* is written before the first record of an empty log. *lock_timeout* is in seconds: 0
    fails at once with LogLocked, None waits for ever. *root* is a directory below which no symbolic
    link is followed. *seen* is the offset up to which the caller knows the log already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        durability: Durability = "fsync",
        head: bytes = b"",
        lock_timeout: float | None = LOCK_TIMEOUT,
        root: str | os.PathLike[str] | None = None,
        seen: int = 0,
        line_cap: int = LINE_CAP,
        allow_network_filesystem: bool = False,
    ) -> None:
        if durability not in ("fsync", "flush"):
            raise UsageError(
                f"no durability called {durability!r}",
                hint="choose 'fsync' or 'flush'; open_log also takes 'buffered'",
            )
        self.path = Path(os.path.abspath(path))  # The program may go elsewhere; the log does not.
        self.durability = durability
        self._synced = durability == "fsync"
        self.seen = seen
        self.written = 0
        """How many writes have succeeded, synced or not."""
        self.began = False
        """Whether the last write began the log, with its head."""
        self._head = head
        self._line_cap = line_cap
        self._handle = Handle(
            self.path,
            create=create,
            lock_timeout=lock_timeout,
            root=Path(root) if root is not None else None,
            allow_network_filesystem=allow_network_filesystem,
        )
        self._reopened = 0

    @property
    def seen(self) -> int:
        """The offset up to which this writer, or its caller, knows the log."""
        return self._seen

    @seen.setter
    def seen(self, offset: int) -> None:
        self._seen, self._last_seen = offset, b""

    def append(self, record: Record | Mapping[str, Any]) -> Appended:
        """Append one record; return when it is as durable as this writer promises."""
        return self.append_lines(self.lines_of((record,)))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> tuple[Appended, ...]:
        """Append *records* in one write. After a crash a prefix of them may stand."""
        return self.append_lines(self.lines_of(records))

    def append_after(self, decide: Decide) -> tuple[Appended, ...]:
        """Under the lock, let *decide* see what others appended and say what to write.

        This is the seam on which parents, idempotent retries and summaries stand: nobody can
        append between what *decide* read and what it wrote.
        """
        try:
            size = self._handle.lock()
            with self._news(size) as news:
                lines = self.lines_of(decide(news))
            data = _joined(lines)
            prefix = self._write(data, size) if lines else b""
            end = self._handle.release(sync=self._synced and bool(lines))
        except BaseException:
            self._handle.abandon()
            raise
        return self._placed(lines, size, prefix, end - len(data)) if lines else ()

    def lines_of(self, records: Iterable[Record | Mapping[str, Any]]) -> list[bytes]:
        """Encode *records*; raise NotSerialisable if one of them cannot be a line."""
        lines = [encode(record) for record in records]
        for line in lines:
            if len(line) > self._line_cap:
                raise NotSerialisable(
                    f"a record of {len(line):,} bytes is longer than the cap of {self._line_cap:,}",
                    hint="raise line_cap for writers and readers, or store the content elsewhere",
                )
            if b"\n" in line:  # JSON has no need of it: these are somebody's raw bytes.
                raise NotSerialisable(
                    "a record's bytes contain a newline", hint="pass the record as one line"
                )
        return lines

    def append_lines(self, lines: Sequence[bytes]) -> tuple[Appended, ...]:
        """Append what ``lines_of`` gave."""
        if not lines:
            return ()
        data = _joined(lines)
        try:
            # Others wait for this lock: whatever can be done before or after it is.
            size = self._handle.lock()
            prefix = self._write(data, size)
            end = self._handle.release(sync=self._synced)
        except BaseException:
            self._handle.abandon()
            raise
        return self._placed(lines, size, prefix, end - len(data))

    def sync(self) -> None:
        """Make durable what was appended with a weaker durability."""
        self._handle.sync()

    def close(self) -> None:
        """Close the log. Everything acknowledged is already where it should be."""
        self._handle.close()

    def _write(self, data: bytes, size: int) -> bytes:
        """Write *data*, under the lock; give what had to stand before it."""
        if size == 0:
            prefix = self._head
        elif self._handle.ends_in_newline(size):
            prefix = b""
        else:
            prefix = b"\n"  # A cut last line is sealed off: evidence is kept, nothing merges.
        self._handle.write(prefix + data if prefix else data, size)
        self.written += 1
        self.began = size == 0
        return prefix

    def _placed(
        self, lines: Sequence[bytes], size: int, prefix: bytes, offset: int
    ) -> tuple[Appended, ...]:
        """Say where *lines*, which begin at *offset*, came to stand."""
        if prefix and size:
            logger.warning("%s: the last line was cut short; sealed it at %d", self.path, size)
        strangers = offset != size + len(prefix) or self.seen != size
        placed = []
        for line in lines:
            placed.append(Appended(offset, len(line)))
            offset += len(line) + 1
        if not strangers:  # Else somebody wrote what this writer has not seen yet.
            self.seen = offset
            self._last_seen = (lines[-1] + b"\n")[-_LAST_BYTES:]
            self._reopened = self._handle.reopened
        logger.debug("%s: appended %d records at %d", self.path, len(lines), size)
        return tuple(placed)

    @contextmanager
    def _news(self, size: int) -> Iterator[News]:
        is_other = self._handle.reopened != self._reopened or self.seen > size
        restarted = is_other or not self._is_as_seen()
        start = 0 if restarted else self.seen
        # A descriptor of its own: a duplicate would share the lock with any child forked now.
        source = PlainSource(open_regular(self.path), start, end=size)
        with Reader(self.path, start=start, cap=self._line_cap, source=source) as reader:
            try:
                yield News(reader, restarted)
            except BaseException:
                self._saw(reader, reader.offset)  # What was told, and came to nothing, was told.
                raise
            self._saw(reader, size)

    def _saw(self, reader: Reader, end: int) -> None:
        """Note that the log is known up to *end*, or to a last line that is no record yet."""
        pending = reader.pending
        if pending is not None:
            end = pending.offset + (pending.length if pending.record is not None else 0)
        if end != self.seen or not self._last_seen:
            self.seen = end
            length = min(end, _LAST_BYTES)
            self._last_seen = self._handle.read_at(length, end - length)
        self._reopened = self._handle.reopened

    def _is_as_seen(self) -> bool:
        """Return whether the bytes before ``seen`` are those that were there.

        A log may be rolled back in place to an earlier state and grow again since.
        """
        last = self._last_seen
        return self._handle.read_at(len(last), self.seen - len(last)) == last


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
