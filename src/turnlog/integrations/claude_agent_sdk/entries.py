"""Entries: the records of a log as the plain JSON objects that a framework gave, and gets back.

Whole blocks of lines are decoded at once. A block that holds anything out of the ordinary (a lone
surrogate, a line that was moved to a blob, damage) is read again line by line, with every
allowance that loses nothing. It promises no exception for any bytes: what is damaged is left out,
and what stands whole beside the damage on the same line is given. A record that was cut short is
left out whole: what lies nested in it was never a record of this log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from turnlog.records.codec import decode
from turnlog.records.damage import Damage, Reason
from turnlog.records.lenient_json import NotJson, loads
from turnlog.storage import Closing
from turnlog.storage.blobs import STUB, whole_line
from turnlog.storage.reader import Placed, lines_of_objects, pieces_of
from turnlog.storage.sources import BrokenArchive, Source, Splitter, open_source, split_lines

Entry = dict[str, Any]
T = TypeVar("T")

_REFUSALS: Final = (ValueError, RecursionError)
_LEFT_OUT: Final = (Reason.BLANK, Reason.FRAGMENT)


class _Named(Struct):
    uuid: Any = None


_entries_of: Callable[[bytes], list[Any]] = msgspec.json.Decoder().decode_lines
_named_of: Callable[[bytes], list[_Named]] = msgspec.json.Decoder(_Named).decode_lines


def uuid_of(entry: Entry) -> str | None:
    """Return what an entry is known by; None if it is written every time."""
    return _text(entry.get("uuid"))


class Entries(Closing):
    """Reads the entries of one log, once, from *start*: the offset at which a line begins."""

    def __init__(
        self, path: str | os.PathLike[str], start: int = 0, *, source: Source | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._source = source or open_source(path, start)
        self._splitter = Splitter(start)

    @property
    def offset(self) -> int:
        """Where the first line begins that was not read, or has no end yet."""
        return self._splitter.offset

    def batches(self) -> Iterator[list[Entry]]:
        """Return the entries of all lines that have an end, many at a time."""
        for block in self._blocks():
            yield self._read(block, _entries_of, lambda entry: entry)

    def rest(self) -> list[Entry]:
        """Return the entry that follows the last newline, if it is whole; for when all is read."""
        if not self._splitter.pending_length or self._splitter.pending_too_long:
            return []
        return list(self._read_line(self._splitter.pending))

    def uuids(self) -> Iterator[str]:
        """Return the uuids of all entries, at several times the speed of reading them whole."""
        for block in self._blocks():
            names = self._read(block, _named_of, lambda entry: _Named(entry.get("uuid")))
            yield from (uuid for each in names if (uuid := _text(each.uuid)) is not None)
        yield from (uuid for each in self.rest() if (uuid := uuid_of(each)) is not None)

    def close(self) -> None:
        self._source.close()

    def _blocks(self) -> Iterator[bytes]:
        """Return the lines that have an end, as many as were read at once in one piece."""
        splitter = self._splitter
        try:
            while chunk := self._source.read(splitter.chunk_bytes):
                first, block = splitter.feed_block(chunk)
                if first is not None:
                    splitter.advance(first)
                if isinstance(first, bytes):
                    yield first + b"\n"
                if block:
                    splitter.offset += len(block)
                    yield block
        except BrokenArchive:
            return  # What was unpacked before it broke has been given.

    def _read(
        self, block: bytes, decode_all: Callable[[bytes], list[T]], make: Callable[[Entry], T]
    ) -> list[T]:
        if STUB not in block:
            try:
                found = decode_all(block)
            except _REFUSALS:
                pass
            else:
                # The batch decoder does not insist on one object a line; we do.
                if len(found) == lines_of_objects(block):
                    return found
        lines = (line for line in split_lines(block) if isinstance(line, bytes))
        return [make(entry) for line in lines for entry in self._read_line(line)]

    def _read_line(self, line: bytes) -> Iterator[Entry]:
        whole = whole_line(self.path, line)
        if isinstance(whole, Damage):
            return
        try:
            value = loads(whole)
        except NotJson:
            yield from self._salvaged(line)
        else:
            if isinstance(value, dict):
                yield value

    def _salvaged(self, line: bytes) -> Iterator[Entry]:
        damage = decode(line)
        if not isinstance(damage, Damage) or damage.reason in _LEFT_OUT:
            return
        for piece in pieces_of(line, damage, 0, log=self.path):
            if isinstance(piece, Placed):
                yield piece.record.fields


def _text(uuid: object) -> str | None:
    return uuid if isinstance(uuid, str) and uuid else None


def entries_in(path: str | os.PathLike[str]) -> list[Entry]:
    """Read all entries of the log at *path*."""
    found: list[Entry] = []
    with Entries(path) as entries:
        for batch in entries.batches():
            found += batch
        found += entries.rest()
    return found
