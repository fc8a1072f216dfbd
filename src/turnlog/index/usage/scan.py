"""The usage in one log: read by a scan that only looks at lines which may have usage.

Records inherit from the place of their log what they do not say themselves: session, subagent,
model. What could not be read, or not as it was written, is noted with its offset. A refresh for
costs has a bookmark of its own, so the text of the same log can be read later, or never.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from sys import intern
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from turnlog.errors import TurnlogError
from turnlog.formats.supported import dialect_of
from turnlog.index.refresh.chunks import Bookmark, UsageChunk, Work, fingerprint, length_of
from turnlog.index.usage.entries import SkippedUsage, SkipReason, UsageRow, usage_row
from turnlog.records.damage import Damage
from turnlog.records.dates import instant
from turnlog.records.dialects import BY_NAME
from turnlog.records.record import SystemInit
from turnlog.records.usage_entries import (
    ASIDE,
    COPY,
    OWN,
    SYNTHETIC,
    UsageEntry,
    UsageLine,
    UsageReader,
    folded,
    name_of,
    place_of,
    supersedes,
    usage_entries_in,
    usage_entries_of,
    usual_response,
    usual_usage_entry,
)
from turnlog.storage.reader import Placed, pieces_of, read_log

if TYPE_CHECKING:
    from turnlog.index.refresh.chunks import Readable

# A mark of turnlog may precede the record that names a flat log's model.
_FIRST_RECORDS: Final = 3
_BATCH_ENTRIES: Final = 20_000


def needles_of(layout: str) -> tuple[bytes, ...]:
    """Return bytes of which every line with usage has at least one."""
    return BY_NAME[dialect_of(layout) or "flat"].usage_marks


class UsageLines:
    """Collects the usage of one log from its lines with a needle, in order."""

    def __init__(self, log: Readable) -> None:
        self.path = os.fspath(log.path)
        self.skipped: list[SkippedUsage] = []
        self.count = 0
        """Records with usage, including those that the next one superseded."""
        self.pending = 0
        self._place = _LogPlace(log, self.path)
        self._spread = _SpreadUsage(log.layout, self.path) if _is_spread(log.layout) else None
        self._held: UsageLine | None = None
        self._held_at: datetime | None = None
        self._held_offset = 0

    def take(
        self, line: bytes | Damage, offset: int, *, is_pending: bool = False
    ) -> Iterator[UsageEntry]:
        """Yield the entries that are final after *line*; the next may supersede a usual one."""
        usual = None if isinstance(line, Damage) else usual_response(line)
        if usual is None:
            yield from self.take_unusual(line, offset, is_pending=is_pending)
        else:
            entry = self.take_usual(usual, instant(usual.timestamp), offset)
            if entry is not None:
                yield entry

    def take_usual(self, line: UsageLine, at: datetime | None, offset: int) -> UsageEntry | None:
        """Hold the entry of a usual line; return the one before it unless it was superseded."""
        self.count += 1
        before = None
        if self._held is not None and not supersedes(line, at, self._held, self._held_at):
            before = self._release(self._held)
        self._held, self._held_at, self._held_offset = line, at, offset
        return before

    def end(self) -> Iterator[UsageEntry]:
        """Yield the entry that was held back, if any."""
        if self._held is not None:
            yield self._release(self._held)
            self._held = None

    def _release(self, held: UsageLine) -> UsageEntry:
        return self._place.fill_in(usual_usage_entry(held, self._held_at), self._held_offset)

    def take_unusual(
        self, line: bytes | Damage, offset: int, *, is_pending: bool
    ) -> Iterator[UsageEntry]:
        """Yield the entries of any other line, also of a damaged one; note what is lost."""
        if isinstance(line, Damage):
            found: tuple[UsageEntry, ...] | Damage = line
        elif self._spread is not None:
            found = self._spread.take(line, offset)
        else:
            found = usage_entries_in(line)
        if not isinstance(found, Damage):
            yield from self._placed(found, offset)
        elif is_pending:
            self.pending += 1
        elif isinstance(line, Damage):
            self.skip(offset, "damaged", line.reason.value)
        else:
            for piece in pieces_of(line, found, offset):
                if isinstance(piece, Damage):
                    self.skip(piece.offset, "damaged", piece.reason.value)
                else:
                    yield from self._placed(usage_entries_of(piece.record), piece.offset)

    def skip(self, offset: int, why: SkipReason, detail: str) -> None:
        self.skipped.append(SkippedUsage(path=self.path, offset=offset, why=why, detail=detail))

    def _placed(self, entries: Iterable[UsageEntry], offset: int) -> Iterator[UsageEntry]:
        for entry in entries:
            self.count += 1
            if entry.odd:
                self.skip(offset, "odd", ", ".join(entry.odd))
            yield self._place.fill_in(entry, offset)


def _is_spread(layout: str) -> bool:
    """Return whether the usage of a response is in several lines."""
    return BY_NAME[dialect_of(layout) or "flat"].usage is not None


class _SpreadUsage:
    """Reads usage to which the lines before belong: all of them, wherever reading begins."""

    def __init__(self, layout: str, path: str) -> None:
        self._marks, self._path = needles_of(layout), path
        self._reader: UsageReader | None = None

    def take(self, line: bytes, offset: int) -> tuple[UsageEntry, ...] | Damage:
        """Return the entries in the line at *offset*."""
        if self._reader is None:
            self._reader = self._before(offset)
        return self._reader.take(line)

    def _before(self, offset: int) -> UsageReader:
        from turnlog.storage.scan import FoundLines  # noqa: PLC0415 - Few logs need it.

        reader = UsageReader()
        with FoundLines(self._path, *self._marks) as lines:
            for at, line in lines:
                if at >= offset:
                    break
                if isinstance(line, bytes):
                    reader.take(line)
        return reader


class _LogPlace:
    """What the place of a log says about records that do not say it themselves."""

    def __init__(self, log: Readable, path: str) -> None:
        self.path = path
        self._session = log.session_id
        self._subagent = log.agent_id
        self._is_main = log.kind == "session"
        self._is_subagent = log.kind == "subagent"
        self._is_flat = dialect_of(log.layout) == "flat"
        self._model: str | None = None

    def fill_in(self, entry: UsageEntry, offset: int) -> UsageEntry:
        entry.log = self.path
        entry.offset = offset
        # Store equal texts once.
        entry.session = entry.session and intern(entry.session)
        entry.model = entry.model and intern(entry.model)
        entry.cwd = entry.cwd and intern(entry.cwd)
        entry.service_tier = entry.service_tier and intern(entry.service_tier)
        if entry.session is None:
            entry.session = self._session
        elif self._is_main and entry.session != self._session:
            entry.rank = COPY  # Copied from another session.
        if self._is_subagent:
            entry.is_sidechain = True
            entry.subagent = entry.subagent or self._subagent
            entry.rank = ASIDE if entry.rank == OWN else entry.rank
        if entry.model is None and self._is_flat:
            entry.model = self._usual_model()
        return entry

    def _usual_model(self) -> str | None:
        """Return the model that a flat log names once, at its beginning."""
        if self._model is None:
            self._model = ""
            with read_log(self.path) as reader:
                for item in islice(reader, _FIRST_RECORDS):
                    if isinstance(item, Placed) and isinstance(item.record, SystemInit):
                        self._model = item.record.model or ""
        return self._model or None


def _buffer() -> bytearray:
    from turnlog.storage.scan import BUFFER_BYTES  # noqa: PLC0415 - Only a scan needs it.

    return bytearray(BUFFER_BYTES)


class LogScan(Struct):
    """Scans one log after another, and adds up what it skipped."""

    skipped: list[SkippedUsage] = field(default_factory=list)
    logs: int = 0
    size_bytes: int = 0
    pending: int = 0
    count: int = 0
    buffer: bytearray = field(default_factory=_buffer)

    def entries(self, log: Readable, *, start: int = 0) -> Iterator[UsageEntry]:
        """Yield the usage in *log* from *start* on; never raise for its state."""
        from turnlog.storage.scan import FoundLines  # noqa: PLC0415

        usage = UsageLines(log)
        try:
            with FoundLines(
                usage.path, *needles_of(log.layout), start=start, buffer=self.buffer
            ) as lines:
                for offset, line in lines:
                    usual = None if isinstance(line, Damage) else usual_response(line)
                    if usual is None:
                        yield from usage.take_unusual(line, offset, is_pending=lines.is_pending)
                        continue
                    entry = usage.take_usual(usual, instant(usual.timestamp), offset)
                    if entry is not None:
                        yield entry
                self.logs += 1
                self.size_bytes += lines.offset
        except (TurnlogError, OSError) as error:
            usage.skip(0, "unreadable", str(error))
        yield from usage.end()
        self.skipped += usage.skipped
        self.pending += usage.pending
        self.count += usage.count


class ChunkUsage:
    """The usage of one log for the index, folded by response and place."""

    def __init__(self, work: Work) -> None:
        self.lines = UsageLines(work.log)
        self.synthetic = 0
        self._log = work.id
        self._seen: dict[tuple[str, tuple[Any, ...]], UsageEntry] = {}

    def add(self, entry: UsageEntry) -> None:
        if entry.model == SYNTHETIC and not entry.counters.total:
            self.synthetic += 1
            return
        name = name_of(entry) or f"nameless {self._log} {entry.offset}"
        entry.log = ""  # The row has the log's id.
        key = (name, place_of(entry))
        known = self._seen.get(key)
        self._seen[key] = entry if known is None else folded(known, entry)

    def add_held(self) -> None:
        """Add the entry that was held back, so that everything up to here is counted."""
        for entry in self.lines.end():
            self.add(entry)

    def rows(self) -> list[UsageRow]:
        """Return the rows of what was added since the last call."""
        self.add_held()
        rows = [
            usage_row(name, _packed_place(place), entry)
            for (name, place), entry in self._seen.items()
        ]
        self._seen = {}
        return rows


def _packed_place(place: tuple[Any, ...]) -> bytes:
    """Return a place as a few bytes that can be compared."""
    return blake2b(repr(place).encode(errors="replace"), digest_size=8).digest()


def batched_usage(works: Iterable[Work]) -> Iterator[list[UsageChunk]]:
    """Yield the usage of all *works*, in batches for one transaction each."""
    buffer = _buffer()
    batch: list[UsageChunk] = []
    entries = 0
    for work in works:
        batch.append(read_usage(work, buffer))
        entries += len(batch[-1].usage_rows)
        if entries >= _BATCH_ENTRIES:
            yield batch
            batch, entries = [], 0
    if batch:
        yield batch


def read_usage(work: Work, buffer: bytearray) -> UsageChunk:
    """Return the usage of a log from its bookmark on; never raise for its state."""
    from turnlog.storage.scan import FoundLines  # noqa: PLC0415

    usage = ChunkUsage(work)
    path = usage.lines.path
    count = synthetic = 0
    is_pending = False
    now: os.stat_result | None = None
    offset, problem = work.start, None
    try:
        now = os.stat(path)
        with FoundLines(
            path, *needles_of(work.log.layout), start=work.start, buffer=buffer
        ) as lines:
            for at, line in lines:
                if lines.is_pending:
                    usage.add_held()
                    count, synthetic = usage.lines.count, usage.synthetic
                    is_pending = True
                for entry in usage.lines.take(line, at, is_pending=is_pending):
                    usage.add(entry)
            offset = lines.offset
    except (TurnlogError, OSError) as error:
        problem = str(error)
    rows = usage.rows()
    size_bytes = length_of(path, now) if now else 0
    if not is_pending:
        count, synthetic = usage.lines.count, usage.synthetic
    return UsageChunk(
        log=work.id,
        generation=work.generation,
        start=work.start,
        usage_rows=rows,
        skipped=usage.lines.skipped,
        usage_count=count,
        synthetic=synthetic,
        tail_usage_count=usage.lines.count - count,
        tail_synthetic=usage.synthetic - synthetic,
        is_pending=bool(usage.lines.pending),
        bookmark=Bookmark(
            offset,
            size_bytes,
            now.st_mtime_ns if now else 0,
            fingerprint(path, max(offset, size_bytes)),
        ),
        device=now.st_dev if now else 0,
        inode=now.st_ino if now else 0,
        problem=problem,
    )
