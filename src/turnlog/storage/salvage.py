"""Recover records from a damaged line.

Typical damage: two writers glue two records (``}{``), one writer cuts into another's record, a
power failure leaves runs of NULs. The records in such a line are often intact. ``salvage`` finds
them and accounts for every byte: the pieces it yields are contiguous.

A complete object after a fragment might be part of the record that was cut. It counts as a record
only if it has fields that records have and their parts do not, so nothing is invented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from turnlog.records.codec import decode
from turnlog.records.damage import Reason
from turnlog.records.lenient_json import walk_object
from turnlog.records.record import Linked, Record, Summary, Unknown

_START: Final = re.compile(rb'\{[ \t\r]*"[A-Za-z_]')
# Keys that records begin with and the objects inside them do not.
_RECORD_START: Final = re.compile(
    rb'\{"(?:parentUuid|sessionId|uuid|isSidechain|logicalParentUuid|type|messageId)":'
)
_BLANKS: Final = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*+")
# Beyond this many runs of NULs in one fragment, they are not separated any more.
_MAX_RUBBLE: Final = 64
# Hostile input must take bounded time: after this many false starts the rest is one fragment.
_MAX_FALSE_STARTS: Final = 2_000
_MAX_ENDLESS: Final = 2  # Objects of a line with more tokens than the walker's budget.
_MAX_NESTED: Final = 16


class SalvagedPiece(Struct, frozen=True):
    """Bytes *start* to *end* of a line: a record, or the reason why they are not."""

    start: int
    end: int
    record: Record | None = None
    reason: Reason = Reason.FRAGMENT


def salvage(line: bytes) -> list[SalvagedPiece]:
    """Yield the records and fragments that *line* consists of."""
    pieces: list[SalvagedPiece] = []
    done = 0
    for start, end, record in _records(line):
        pieces += _fragments(line, done, start)
        pieces.append(SalvagedPiece(start, end, record))
        done = end
    pieces += _fragments(line, done, len(line))
    return pieces


def _records(line: bytes) -> Iterator[tuple[int, int, Record]]:
    done = search = endless = 0
    for _ in range(_MAX_FALSE_STARTS):
        # After an object without an end, only try what begins like a record.
        found = (_RECORD_START if endless else _START).search(line, search)
        if found is None:
            return
        start = found.start()
        walk = walk_object(line, start)
        if walk.whole:
            record = decode(line[start : walk.end])
            apart = _is_separate(line, done, start, walk.end)
            if isinstance(record, Record) and (apart or _is_surely_a_record(record)):
                yield start, walk.end, record
                done = walk.end
            search = walk.end
            continue
        if walk.gave_up:
            endless += 1
            if endless == _MAX_ENDLESS:
                return
        broke_at = walk.end
        # The record that interrupted this one begins at the last brace before the break.
        intruder = line.rfind(b'{"', start + 1, broke_at + 2)
        limit = intruder if intruder > 0 else broke_at
        for nested_start, nested_end, nested in _nested(line, start + 1, limit):
            yield nested_start, nested_end, nested
            done = search = nested_end
        search = max(search, intruder if intruder > 0 else max(broke_at, start + 1))


def _is_separate(line: bytes, done: int, start: int, end: int) -> bool:
    """Return whether an object has only blanks or other objects on both sides.

    NULs before it are not blanks: they replace lost bytes, perhaps its own beginning.
    """
    after = _BLANKS.match(line, end)
    follows = line[after.end() : after.end() + 1] if after else b""
    return bool(_BLANKS.fullmatch(line, done, start)) and follows in (b"", b"{", b"\x00")


def _nested(line: bytes, start: int, limit: int) -> Iterator[tuple[int, int, Record]]:
    """Yield complete records that a truncated one seems to contain as values."""
    position = start
    for _ in range(_MAX_NESTED):
        found = _RECORD_START.search(line, position, limit)
        if found is None:
            return
        walk = walk_object(line, found.start())
        record = decode(line[found.start() : walk.end]) if walk.whole else None
        if isinstance(record, Record) and _is_surely_a_record(record):
            yield found.start(), walk.end, record
            position = walk.end
        else:
            position = found.start() + 1


def _is_surely_a_record(record: Record) -> bool:
    """Return whether an object has fields that records have and parts of records do not."""
    if record.session_id is not None:
        # An unknown type needs more than a session id.
        is_dated = record.uuid is not None or record.timestamp is not None
        return bool(record.type) and (is_dated or not isinstance(record, Unknown))
    if isinstance(record, Summary):
        return record.leaf_uuid is not None
    if isinstance(record, Linked):
        # Echoes of an agent's messages have a uuid and timestamp, too, but no parent.
        placed = record.uuid is not None and record.parent_uuid is not None
        timed = record.timestamp is not None
        return timed and (placed or record.dialect != "claude")
    own = set(type(record).__struct_fields__) - set(Record.__struct_fields__)
    return any(getattr(record, name) is not None for name in own)


def _fragments(line: bytes, start: int, end: int) -> Iterator[SalvagedPiece]:
    """Yield the damage between records; runs of NULs are separated from fragments."""
    fragment = line[start:end]
    done = 0
    for run in islice(re.finditer(rb"\x00{8,}|\A\x00+|\x00+\Z", fragment), _MAX_RUBBLE):
        yield from _fragment(fragment, start, done, run.start())
        yield SalvagedPiece(start + run.start(), start + run.end(), reason=Reason.NUL_RUN)
        done = run.end()
    yield from _fragment(fragment, start, done, len(fragment))


def _fragment(fragment: bytes, base: int, start: int, end: int) -> Iterator[SalvagedPiece]:
    if start == end:
        return
    broken = Reason.FRAGMENT if b'"' in fragment[start:end] else Reason.NOT_JSON
    reason = Reason.BLANK if _BLANKS.fullmatch(fragment, start, end) else broken
    yield SalvagedPiece(base + start, base + end, reason=reason)
