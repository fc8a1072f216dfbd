"""Entries: the records of a log as plain JSON objects, and how they compare with a store.

Lines are decoded in blocks. A block with anything unusual (a lone surrogate, a line moved to a
blob, damage) is decoded again line by line. Damage is skipped, never raised; complete records on a
damaged line are returned. Objects nested in a truncated record are not.

To transfer a session without duplicates, both directions compare with what is there. A record with
a uuid is there if its uuid is. Records without one are counted, since real logs repeat them: the
third copy is there only if three are.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from turnlog.errors import NotSerialisable
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
    """Return the uuid of an entry, or None if it has none and is always appended."""
    return _text(entry.get("uuid"))


class Entries(Closing):
    """Read the entries of a log once, from *start*, which is the offset of a line."""

    def __init__(
        self, path: str | os.PathLike[str], start: int = 0, *, source: Source | None = None
    ) -> None:
        self.path = os.fspath(path)
        self._source = source or open_source(path, start)
        self._splitter = Splitter(start)

    @property
    def offset(self) -> int:
        """The offset of the first line that was not read or has no newline yet."""
        return self._splitter.offset

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries of all lines with a newline, many at a time."""
        for block in self._blocks():
            yield self._read(block, _entries_of, lambda entry: entry)

    def rest(self) -> list[Entry]:
        """Return the entry after the last newline, if it is complete. Call it last."""
        if not self._splitter.pending_length or self._splitter.pending_too_long:
            return []
        return list(self._read_line(self._splitter.pending))

    def uuids(self) -> Iterator[str]:
        """Yield the uuids of all entries, several times faster than `batches`."""
        for block in self._blocks():
            names = self._read(block, _named_of, lambda entry: _Named(entry.get("uuid")))
            yield from (uuid for each in names if (uuid := _text(each.uuid)) is not None)
        yield from (uuid for each in self.rest() if (uuid := uuid_of(each)) is not None)

    def close(self) -> None:
        self._source.close()

    def _blocks(self) -> Iterator[bytes]:
        """Yield blocks of lines that end in a newline."""
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
            return  # Everything before the damage was yielded.

    def _read(
        self, block: bytes, decode_all: Callable[[bytes], list[T]], make: Callable[[Entry], T]
    ) -> list[T]:
        if STUB not in block:
            try:
                found = decode_all(block)
            except _REFUSALS:
                pass
            else:
                # The batch decoder accepts several objects on a line; that is damage.
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
    """Return all entries of the log at *path*."""
    all_entries: list[Entry] = []
    with Entries(path) as entries:
        for batch in entries.batches():
            all_entries += batch
        all_entries += entries.rest()
    return all_entries


class Difference(StrEnum):
    """The result of comparing a record with a store."""

    THERE = "there"
    MISSING = "missing"
    OTHER = "other"  # Its uuid is there with different content.


class SeenRecords:
    """Fingerprints of the records of a log or key."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.by_uuid: dict[str, list[bytes]] = {}
        self.counts: Counter[bytes] = Counter()
        self.compared: set[str] = set()
        for entry in entries:
            with suppress(NotSerialisable):  # Such a record cannot be transferred.
                self.add(entry)

    def add(self, entry: Entry) -> None:
        uuid = uuid_of(entry)
        if uuid is None:
            self.counts[_fingerprint(entry)] += 1
        else:
            self.by_uuid.setdefault(uuid, []).append(_fingerprint(entry))

    def comparison(self) -> LogComparison:
        """Return a comparison for a log, to be fed from its first record."""
        return LogComparison(self)

    def strangers(self) -> int:
        """Return the number of records with a uuid that no comparison has seen."""
        return len(self.by_uuid.keys() - self.compared)


class LogComparison:
    """Compare a log record by record; missing records are added to those seen."""

    def __init__(self, held: SeenRecords) -> None:
        self._held = held
        self._seen: Counter[bytes] = Counter()

    def take(self, entry: Entry) -> Difference:
        """Compare one entry; raise NotSerialisable if it is not valid JSON."""
        held = self._held
        uuid = uuid_of(entry)
        mark = _fingerprint(entry)
        if uuid is None:
            self._seen[mark] += 1
            is_there = self._seen[mark] <= held.counts[mark]
        else:
            held.compared.add(uuid)
            is_there = mark in held.by_uuid.get(uuid, ())
            if not is_there and uuid in held.by_uuid:
                return Difference.OTHER
        if is_there:
            return Difference.THERE
        held.add(entry)
        return Difference.MISSING


def _fingerprint(entry: Entry) -> bytes:
    try:
        # Sorted, since some stores reorder keys; ASCII, because of lone surrogates.
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise NotSerialisable(
            f"a record is not valid JSON: {why}", hint="skip it, or fix it at its source"
        ) from None
    return blake2b(text.encode("ascii"), digest_size=16).digest()
