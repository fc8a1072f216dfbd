"""What one log tells of API responses: the first stage of the index, and of every account.

Lines that cannot tell of usage are not looked at. What the place of a log tells of its records
(whose session, which subagent) is filled in where they do not say so themselves. What could not be
read, or not as it was written, is noted with its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from sys import intern
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from turnlog.errors import TurnlogError
from turnlog.formats.supported import DIALECTS
from turnlog.records.damage import Damage
from turnlog.records.dates import instant
from turnlog.records.record import SystemInit
from turnlog.records.usage_entries import (
    ASIDE,
    COPY,
    OWN,
    UsageEntry,
    UsageLine,
    supersedes,
    usage_entries_in,
    usage_entries_of,
    usual_response,
    usual_usage_entry,
)
from turnlog.storage.reader import Placed, pieces_of, read_log

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    from turnlog.formats import Home

    class Readable(Protocol):
        """A log, or a file beside the logs that is read like one."""

        @property
        def path(self) -> Path: ...
        @property
        def home(self) -> Home: ...
        @property
        def layout(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def session_id(self) -> str | None: ...
        @property
        def agent_id(self) -> str | None: ...
        @property
        def project_key(self) -> str | None: ...


_USAGE: Final = (b'"usage"',)
# The camelCase sibling of the orchestrator's dialect has its counters beside the content, and is
# found where Claude Code does not write.
_ANY_USAGE: Final = (*_USAGE, b'"inputTokens"', b'"outputTokens"')

# A mark of turnlog's own may stand before the record that names a flat log's model.
_FIRST_RECORDS: Final = 3

Why = Literal["damaged", "odd", "unreadable"]


class SkippedUsage(Struct, frozen=True, kw_only=True):
    """Something that was not counted, or not as it was written, and where it stands."""

    path: str
    offset: int
    why: Why
    detail: str


def needles_of(layout: str) -> tuple[bytes, ...]:
    """Return the bytes of which a line has at least one if it tells of usage."""
    return _USAGE if DIALECTS.get(layout) == "claude" else _ANY_USAGE


class UsageLines:
    """What the lines of one log tell, in their order; give it those that have a needle."""

    def __init__(self, log: Readable) -> None:
        self.path = os.fspath(log.path)
        self.skipped: list[SkippedUsage] = []
        self.told = 0
        """Records that told of a response, those included that the next one made superfluous."""
        self.pending = 0
        self._place = _LogPlace(log, self.path)
        self._held: UsageLine | None = None
        self._held_at: datetime | None = None
        self._held_offset = 0

    def take(
        self, line: bytes | Damage, offset: int, *, is_pending: bool = False
    ) -> Iterator[UsageEntry]:
        """Return what is told up to this line; of a usual one only when the next has not more."""
        told = None if isinstance(line, Damage) else usual_response(line)
        if told is None:
            yield from self.take_unusual(line, offset, is_pending=is_pending)
        else:
            sighting = self.take_told(told, instant(told.timestamp), offset)
            if sighting is not None:
                yield sighting

    def take_told(self, told: UsageLine, at: datetime | None, offset: int) -> UsageEntry | None:
        """Take a line for which ``is_told`` holds, and its instant."""
        self.told += 1
        before = None
        if self._held is not None and not supersedes(told, at, self._held, self._held_at):
            before = self._let_go(self._held)
        self._held, self._held_at, self._held_offset = told, at, offset
        return before

    def end(self) -> Iterator[UsageEntry]:
        """Return the entries that were held back."""
        if self._held is not None:
            yield self._let_go(self._held)
            self._held = None

    def _let_go(self, held: UsageLine) -> UsageEntry:
        return self._place.fill_in(usual_usage_entry(held, self._held_at), self._held_offset)

    def take_unusual(
        self, line: bytes | Damage, offset: int, *, is_pending: bool
    ) -> Iterator[UsageEntry]:
        """Return what an unusual line tells, damaged ones included; note what is lost with it."""
        found = line if isinstance(line, Damage) else usage_entries_in(line)
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

    def skip(self, offset: int, why: Why, detail: str) -> None:
        self.skipped.append(SkippedUsage(path=self.path, offset=offset, why=why, detail=detail))

    def _placed(self, found: Iterable[UsageEntry], offset: int) -> Iterator[UsageEntry]:
        for sighting in found:
            self.told += 1
            if sighting.odd:
                self.skip(offset, "odd", ", ".join(sighting.odd))
            yield self._place.fill_in(sighting, offset)


def _buffer() -> bytearray:
    from turnlog.storage.scan import BUFFER_BYTES  # noqa: PLC0415 - Only a scan searches.

    return bytearray(BUFFER_BYTES)


class LogScan(Struct):
    """The search of one log after another; keeps what they have in common."""

    skipped: list[SkippedUsage] = field(default_factory=list)
    logs: int = 0
    size_bytes: int = 0
    pending: int = 0
    told: int = 0
    buffer: bytearray = field(default_factory=_buffer)

    def sightings(self, log: Readable, *, start: int = 0) -> Iterator[UsageEntry]:
        """Return what *log* tells of responses, from *start* on; never raise for its state."""
        from turnlog.storage.scan import FoundLines  # noqa: PLC0415

        tellings = UsageLines(log)
        try:
            with FoundLines(
                tellings.path, *needles_of(log.layout), start=start, buffer=self.buffer
            ) as lines:
                for offset, line in lines:
                    told = None if isinstance(line, Damage) else usual_response(line)
                    if told is None:
                        yield from tellings.take_unusual(line, offset, is_pending=lines.is_pending)
                        continue
                    sighting = tellings.take_told(told, instant(told.timestamp), offset)
                    if sighting is not None:
                        yield sighting
                self.logs += 1
                self.size_bytes += lines.offset
        except (TurnlogError, OSError) as error:
            tellings.skip(0, "unreadable", str(error))
        yield from tellings.end()
        self.skipped += tellings.skipped
        self.pending += tellings.pending
        self.told += tellings.told


def _once(text: str | None) -> str | None:
    return text and intern(text)


class _LogPlace:
    """What the place of a log tells of its records where they do not say so themselves."""

    def __init__(self, log: Readable, path: str) -> None:
        self.path = path
        self._session = log.session_id
        self._subagent = log.agent_id
        self._is_main = log.kind == "session"
        self._is_subagent = log.kind == "subagent"
        self._is_flat = DIALECTS.get(log.layout) == "flat"
        self._model: str | None = None

    def fill_in(self, sighting: UsageEntry, offset: int) -> UsageEntry:
        sighting.log = self.path
        sighting.offset = offset
        # The same few texts again and again, held once.
        sighting.session = _once(sighting.session)
        sighting.model = _once(sighting.model)
        sighting.cwd = _once(sighting.cwd)
        sighting.service_tier = _once(sighting.service_tier)
        if sighting.session is None:
            sighting.session = self._session
        elif self._is_main and sighting.session != self._session:
            sighting.rank = COPY  # Another session's record, carried along.
        if self._is_subagent:
            sighting.is_sidechain = True
            sighting.subagent = sighting.subagent or self._subagent
            sighting.rank = ASIDE if sighting.rank == OWN else sighting.rank
        if sighting.model is None and self._is_flat:
            sighting.model = self._usual_model()
        return sighting

    def _usual_model(self) -> str | None:
        """Return the model that a flat log names once, at its beginning."""
        if self._model is None:
            self._model = ""
            with read_log(self.path) as reader:
                for item in islice(reader, _FIRST_RECORDS):
                    if isinstance(item, Placed) and isinstance(item.record, SystemInit):
                        self._model = item.record.model or ""
        return self._model or None
