"""What passes from the reading of logs to the writing of the index: work, and chunks of rows.

Plain data, so that it can pass from one process to another.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnlog.index.refresh.bookmarks import Bookmark
from turnlog.index.usage.entries import UsageRow, usage_row
from turnlog.index.usage.scan import SkippedUsage, UsageLines
from turnlog.records.responses import folded as both
from turnlog.records.responses import name_of, place_of
from turnlog.records.usage_entries import SYNTHETIC, UsageEntry

if TYPE_CHECKING:
    from turnlog.index.usage.scan import Readable


Unplaced = tuple[int, int, int, int, bytes]
"""A text that has no id yet: its second, its record, the number in that, the kind, and its words in
UTF-8."""


class Work(Struct, frozen=True):
    """A log to be read, and from where."""

    id: int
    log: Readable
    generation: int
    start: int
    usage_start: int
    """Up to here the ledger's rows are there already."""
    folded: bytes | None


class UsageChunk(Struct, array_like=True):
    """What a stretch of a log tells of responses."""

    log: int
    generation: int
    start: int
    """Where the bookmark must stand for the chunk to fit."""
    sightings: list[UsageRow]
    skipped: list[SkippedUsage]
    told: int
    synthetic: int
    tail_told: int
    tail_synthetic: int
    is_pending: bool
    bookmark: Bookmark
    device: int
    inode: int
    problem: str | None


class Chunk(UsageChunk, array_like=True):
    """A stretch of a log. Rows are named by the ids of their records."""

    usage_start: int
    """Where the ledger's bookmark must stand."""
    records: list[tuple[Any, ...]]
    """Record, length, type, author, session, uuid, parent, at, model, branch, message, flags."""
    carried: list[tuple[Any, ...]]
    """Record, and the uuid of the one that it says it is."""
    texts: list[Unplaced]
    calls: list[list[Any]]
    """Record, block, call id, tool, digest, path, action, and its answer if that is here as well:
    record, is error, duration, signature."""
    answers: list[tuple[Any, ...]]
    """Of earlier calls: record, is error, duration, signature, the call's record and block."""
    damages: list[tuple[Any, ...]]
    """Record, length, reason, detail, excerpt."""
    folded: bytes
    tail_folded: bytes | None
    session: str | None
    is_last: bool
    text_bytes: int


class ChunkUsage:
    """What the lines of one log tell of responses, folded by response and place."""

    def __init__(self, work: Work) -> None:
        self.tellings = UsageLines(work.log)
        self.synthetic = 0
        self._log = work.id
        self._seen: dict[tuple[str, tuple[Any, ...]], UsageEntry] = {}

    def take(self, sighting: UsageEntry) -> None:
        if sighting.model == SYNTHETIC and not sighting.counters.total:
            self.synthetic += 1
            return
        name = name_of(sighting) or f"nameless {self._log} {sighting.offset}"
        sighting.log = ""  # Its place is told by the log's id.
        key = (name, place_of(sighting))
        known = self._seen.get(key)
        self._seen[key] = sighting if known is None else both(known, sighting)

    def catch_up(self) -> None:
        """Take what was held back, so that everything up to here is counted."""
        for sighting in self.tellings.end():
            self.take(sighting)

    def rows(self) -> list[UsageRow]:
        """Return what was folded so far, and begin anew."""
        self.catch_up()
        rows = [
            usage_row(name, packed_place(place), each) for (name, place), each in self._seen.items()
        ]
        self._seen = {}
        return rows


def packed_place(place: tuple[Any, ...]) -> bytes:
    """Return a place as a few bytes that can be compared."""
    return blake2b(repr(place).encode(errors="replace"), digest_size=8).digest()
