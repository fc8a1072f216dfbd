"""Read every record and every damaged range of a log.

    for item in read_log(path):
        match item:
            case Placed(record, offset): ...
            case Damage(reason=reason, line=line): ...

A reader accepts any bytes, also while the log grows, shrinks or is replaced. It holds one buffer
and one line, returns every complete record up to the line cap, reports every bad range, and never
writes. Damage is logged at WARNING. A line that was moved to a blob is read from there unless
*follow_blobs* is false; its offset and length are those of the stub.

``offset`` is where the next read should begin: after the last newline. What follows is ``pending``.
A pending line that is a complete record is returned as the last item. With ``tail="wait"`` it is
not, for callers that read on later; with ``tail="seal"`` it is read as if it had ended, for repair.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Literal, NamedTuple

from turnlog.errors import UsageError
from turnlog.records.codec import Envelope, decode, decode_envelope, envelope_decoder, is_complete
from turnlog.records.damage import EXCERPT_BYTES, Damage, Reason, damage_at
from turnlog.records.lenient_json import BOM
from turnlog.records.record import Record
from turnlog.storage import Closing
from turnlog.storage.blobs import STUB, decode_line
from turnlog.storage.sources import (
    LINE_CAP,
    BlankLines,
    BrokenArchive,
    Source,
    Splitter,
    open_source,
    split_lines,
    too_long,
)

Tail = Literal["take", "wait", "seal"]


class Placed(NamedTuple):
    """A record and its location. *line* counts from 1; 0 means unknown.

    *log* identifies the log where several are read as one.
    """

    record: Record
    offset: int
    length: int
    line: int = 0
    log: int = 0


class Pending(NamedTuple):
    """Bytes after the last newline: perhaps a record that is still being written."""

    offset: int
    length: int
    line: int
    record: Record | None
    excerpt: bytes


class Reader(Closing):
    """Reads one log forwards, once. Use it as a context manager, or iterate to its end."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        start: int = 0,
        line: int = 0,
        cap: int = LINE_CAP,
        tail: Tail = "take",
        source: Source | None = None,
        follow_blobs: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self.source = source or open_source(path, start)
        self.line = line or (1 if start == 0 else 0)
        self.blank_lines = 0
        self.lines = 0
        self.pending: Pending | None = None
        self._tail = tail
        self._cap = cap
        self._follow = follow_blobs
        self._splitter = Splitter(start, cap=cap)
        self._items = self._read()

    @property
    def offset(self) -> int:
        """Where the next read should begin."""
        return self._splitter.offset

    def __iter__(self) -> Iterator[Placed | Damage]:
        return self._items

    def __next__(self) -> Placed | Damage:
        return next(self._items)

    def close(self) -> None:
        """Close the log; nothing more is read."""
        self._items.close()
        self.source.close()

    def __del__(self) -> None:
        if "source" in self.__dict__:  # The caller may have stopped iterating without closing.
            self.source.close()

    def _read(self) -> Generator[Placed | Damage, None, None]:
        splitter = self._splitter
        try:
            while chunk := self.source.read(splitter.chunk_bytes):
                for data in splitter.feed(chunk):
                    offset = splitter.advance(data)
                    if isinstance(data, BlankLines):
                        self.blank_lines += data.lines
                        self.lines += data.lines
                        self.line += data.lines if self.line else 0
                        continue
                    number, self.line = self.line, self.line + 1 if self.line else 0
                    self.lines += 1
                    if isinstance(data, bytes):
                        record = self._decode(data)
                        if isinstance(record, Record):
                            yield Placed(record, offset, len(data), number)
                        elif record.reason is Reason.BLANK:
                            self.blank_lines += 1
                        else:
                            yield from self._pieces(data, record, offset, number)
                    else:
                        yield self._warn(data.moved(offset, number))
        except BrokenArchive as error:
            yield self._warn(
                Damage(
                    reason=Reason.BROKEN_ARCHIVE,
                    offset=splitter.offset + splitter.pending_length,
                    length=0,
                    line=self.line,
                    detail=str(error),
                )
            )
        yield from self._end()
        self.source.close()

    def _end(self) -> Iterator[Placed | Damage]:
        """Handle the bytes after the last newline."""
        splitter = self._splitter
        data, length = splitter.pending, splitter.pending_length
        if not length:
            return
        if splitter.pending_too_long and self._tail != "wait":
            yield self._warn(too_long(data, length).moved(self.offset, self.line))
            return
        record = None if splitter.pending_too_long else self._decode(data)
        complete = record if isinstance(record, Record) else None
        self.pending = Pending(self.offset, length, self.line, complete, data[:EXCERPT_BYTES])
        if complete is not None and self._tail != "wait":
            yield Placed(complete, self.offset, length, self.line)
        elif isinstance(record, Damage) and self._tail == "seal":
            if record.reason is Reason.BLANK:
                yield self._warn(record.moved(self.offset, self.line))
            else:
                yield from self._pieces(data, record, self.offset, self.line)

    def _pieces(
        self, data: bytes, damage: Damage, offset: int, line: int
    ) -> Iterator[Placed | Damage]:
        log = self.path if self._follow else None
        for item in pieces_of(data, damage, offset, line, log=log):
            yield self._warn(item) if isinstance(item, Damage) else item

    def _decode(self, data: bytes) -> Record | Damage:
        if self._follow and data.startswith(STUB):
            return decode_line(self.path, data, cap=self._cap)
        return decode(data)

    def _warn(self, damage: Damage) -> Damage:
        from turnlog.storage.logger import logger  # noqa: PLC0415
        from turnlog.text import inert_bytes  # noqa: PLC0415 - Most logs have no damage.

        logger.warning(
            "%s: line %s: %s (%d bytes at %d): %s",
            self.path,
            damage.line or "?",
            damage.reason,
            damage.length,
            damage.offset,
            inert_bytes(damage.excerpt),
        )
        return damage


def pieces_of(
    data: bytes,
    damage: Damage,
    offset: int,
    line: int = 0,
    *,
    log: str | os.PathLike[str] | None = None,
) -> Iterator[Placed | Damage]:
    """Yield the records in a damaged line and the damage around them; follow the blobs of *log*."""
    if damage.reason in (Reason.NOT_AN_OBJECT, Reason.BROKEN_BLOB):
        yield damage.moved(offset, line)
        return
    from turnlog.storage.salvage import salvage  # noqa: PLC0415 - Most logs have no damage.

    for piece in salvage(data):
        part = data[piece.start : piece.end]
        if piece.record is not None:
            found = piece.record if log is None else decode_line(log, part, piece.record)
            if isinstance(found, Record):
                yield Placed(found, offset + piece.start, len(part), line)
            else:
                yield found.moved(offset + piece.start, line)
        elif piece.reason is not Reason.BLANK or BOM in part:
            # A BOM before a record is invisible, but the agent's own parser rejects the line.
            reason = Reason.NOT_JSON if piece.reason is Reason.BLANK else piece.reason
            at = offset + piece.start
            yield damage_at(part, reason, offset=at, line=line, detail=damage.detail)


def read_log(
    path: str | os.PathLike[str], *, start: int = 0, cap: int = LINE_CAP, tail: Tail = "take"
) -> Reader:
    """Return a reader of the log at *path* from *start*, the offset of a line."""
    if start < 0:
        raise UsageError(
            "bytes are counted from 0", hint="read_last gives the last records of a log"
        )
    return Reader(path, start=start, cap=cap, tail=tail)


def read_range(
    path: str | os.PathLike[str], first: int, stop: int, *, cap: int = LINE_CAP
) -> Iterator[Placed]:
    """Yield the records from number *first* up to *stop* (exclusive), counting from 0."""
    if first < 0 or stop < 0:
        raise UsageError(
            "records are counted from 0", hint="read_last gives the last ones of a log"
        )
    placed = (item for item in Reader(path, cap=cap) if isinstance(item, Placed))
    return islice(placed, first, stop)


def scan_log(
    path: str | os.PathLike[str], *, start: int = 0, cap: int = LINE_CAP
) -> Iterator[Envelope | Damage]:
    """Yield the envelope of every line, several times faster than full decoding.

    Damaged lines are reported as they are; nothing is salvaged from them.
    """
    source = open_source(path, start)
    splitter = Splitter(start, cap=cap)
    try:
        while chunk := source.read(splitter.chunk_bytes):
            first, block = splitter.feed_block(chunk)
            if first is not None:
                yield from _envelopes([first], splitter)
            try:
                batch = envelope_decoder.decode_lines(block)
            except (ValueError, RecursionError):
                batch = []
            # The batch decoder accepts several records on a line; we do not.
            if len(batch) == lines_of_objects(block) and all(map(is_complete, batch)):
                splitter.offset += len(block)
                yield from batch
            else:
                yield from _envelopes(split_lines(block), splitter)
    except BrokenArchive as error:
        yield Damage(
            reason=Reason.BROKEN_ARCHIVE, offset=splitter.offset, length=0, detail=str(error)
        )
    finally:
        source.close()
    if splitter.pending_length and not splitter.pending_too_long:
        last = decode_envelope(splitter.pending)
        if isinstance(last, Envelope):
            yield last


def lines_of_objects(block: bytes) -> int:
    """Return the number of lines in *block*, or -1 if one of them does not begin with an object."""
    count = start = 0
    end = block.find(b"\n")  # Four times as fast as bytes.count, which checks every byte.
    while end >= 0:
        if block[start] != 0x7B:
            return -1
        count += 1
        start = end + 1
        end = block.find(b"\n", start)
    return count


def _envelopes(
    lines: Iterable[bytes | BlankLines | Damage], splitter: Splitter
) -> Iterator[Envelope | Damage]:
    for data in lines:
        offset = splitter.advance(data)
        if isinstance(data, BlankLines):
            continue
        found = decode_envelope(data) if isinstance(data, bytes) else data
        if isinstance(found, Envelope):
            yield found
        elif found.reason is not Reason.BLANK:
            yield found.moved(offset)
