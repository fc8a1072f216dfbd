"""Who used how many tokens, when and with which model? Told from the logs alone, without an index.

Only lines that may tell of usage are looked at, and of those only what concerns it. Each response
is counted once, over all logs of all homes, under the rules of ``records.responses``; what those
rules leave out, and what could not be read, is listed with its place. Reading changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from turnlog.errors import TurnlogError
from turnlog.layout import Home, LogFile, Problem, find_everywhere
from turnlog.log.find_lines import BUFFER_BYTES, find_lines
from turnlog.log.reader import Placed, pieces_of, read_log
from turnlog.questions.processes import Children, share_out
from turnlog.records.damage import Damage
from turnlog.records.record import SystemInit
from turnlog.records.responses import Response, Responses
from turnlog.records.sightings import (
    ASIDE,
    COPY,
    OWN,
    Sighting,
    sighting_told,
    sightings_in,
    sightings_of,
    supersedes,
    told_in,
)
from turnlog.records.usage_lines import ToldLine

_USAGE: Final = (b'"usage"',)
# The camelCase sibling of the orchestrator's dialect has its counters beside the content, and is
# found where Claude Code does not write.
_ANY_USAGE: Final = (*_USAGE, b'"inputTokens"', b'"outputTokens"')

# A mark of turnlog's own may stand before the record that names a flat log's model.
_FIRST_RECORDS: Final = 3

# Below this a second process costs more time than it saves.
_WORTH_SHARING_BYTES: Final = 64_000_000

Why = Literal["damaged", "odd", "unreadable"]


class Skipped(Struct, frozen=True, kw_only=True):
    """Something that was not counted, or not as it was written, and where it stands."""

    path: str
    offset: int
    why: Why
    detail: str


class UsageScan(Struct, kw_only=True):
    """The answer: every response once, and what was left out."""

    responses: list[Response]
    skipped: list[Skipped]
    logs: int
    size_bytes: int
    sightings: int
    """Records that told of a response, repeats included."""
    synthetic: int
    """Messages without tokens that agent programs made up themselves."""
    pending: int
    """Logs whose last line may still be being written, and was not counted."""

    @property
    def folded(self) -> int:
        """Records that repeated what another one told."""
        return self.sightings - len(self.responses)

    @property
    def undated(self) -> int:
        """Responses that no record dates."""
        return sum(response.at is None for response in self.responses)


class LogScan(Struct):
    """The search of one log after another; keeps what they have in common."""

    skipped: list[Skipped] = field(default_factory=list)
    logs: int = 0
    size_bytes: int = 0
    pending: int = 0
    told: int = 0
    """Records that told of a response, those included that the next one made superfluous."""
    buffer: bytearray = field(default_factory=lambda: bytearray(BUFFER_BYTES))

    def sightings(self, log: LogFile, *, start: int = 0) -> Iterator[Sighting]:
        """Give what *log* tells of responses, from *start* on; never raise for its state."""
        path = os.fspath(log.path)
        place = _Place(log, path)
        needles = _USAGE if log.layout == "claude" else _ANY_USAGE
        held: ToldLine | None = None
        held_at = 0
        try:
            with find_lines(path, *needles, start=start, buffer=self.buffer) as lines:
                for offset, line in lines:
                    told = None if isinstance(line, Damage) else told_in(line)
                    if told is None:
                        yield from self._others(line, offset, place, is_pending=lines.is_pending)
                        continue
                    self.told += 1
                    if held is not None and not supersedes(told, held):
                        yield place.fill_in(sighting_told(held), held_at)
                    held, held_at = told, offset
                self.logs += 1
                self.size_bytes += lines.offset
        except (TurnlogError, OSError) as error:
            self._skip(path, 0, "unreadable", str(error))
        if held is not None:
            yield place.fill_in(sighting_told(held), held_at)

    def _others(
        self, line: bytes | Damage, offset: int, place: _Place, *, is_pending: bool
    ) -> Iterator[Sighting]:
        """Give what an unusual line tells, damaged ones included; note what is lost with it."""
        found = line if isinstance(line, Damage) else sightings_in(line)
        if not isinstance(found, Damage):
            yield from self._placed(found, offset, place)
        elif is_pending:
            self.pending += 1
        elif isinstance(line, Damage):
            self._skip(place.path, offset, "damaged", line.reason.value)
        else:
            for piece in pieces_of(line, found, offset):
                if isinstance(piece, Damage):
                    self._skip(place.path, piece.offset, "damaged", piece.reason.value)
                else:
                    yield from self._placed(sightings_of(piece.record), piece.offset, place)

    def _placed(self, found: Iterable[Sighting], offset: int, place: _Place) -> Iterator[Sighting]:
        for sighting in found:
            self.told += 1
            if sighting.odd:
                self._skip(place.path, offset, "odd", ", ".join(sighting.odd))
            yield place.fill_in(sighting, offset)

    def _skip(self, path: str, offset: int, why: Why, detail: str) -> None:
        self.skipped.append(Skipped(path=path, offset=offset, why=why, detail=detail))


class _Place:
    """What the place of a log tells of its records where they do not say so themselves."""

    def __init__(self, log: LogFile, path: str) -> None:
        self.path = path
        self._session = log.session_id
        self._agent = log.agent_id
        self._is_main = log.kind == "session"
        self._is_agents = log.kind == "agent"
        self._is_flat = log.layout == "flat"
        self._model: str | None = None

    def fill_in(self, sighting: Sighting, offset: int) -> Sighting:
        sighting.log = self.path
        sighting.offset = offset
        if sighting.session is None:
            sighting.session = self._session
        elif self._is_main and sighting.session != self._session:
            sighting.rank = COPY  # Another session's record, carried along.
        if self._is_agents:
            sighting.is_sidechain = True
            sighting.agent = sighting.agent or self._agent
            sighting.rank = ASIDE if sighting.rank == OWN else sighting.rank
        if sighting.model is None and self._is_flat:
            sighting.model = self._usual_model()
        return sighting

    def _usual_model(self) -> str | None:
        """Give the model that a flat log names once, at its beginning."""
        if self._model is None:
            self._model = ""
            with read_log(self.path) as reader:
                for item in islice(reader, _FIRST_RECORDS):
                    if isinstance(item, Placed) and isinstance(item.record, SystemInit):
                        self._model = item.record.model or ""
        return self._model or None


class _Share(Struct, array_like=True):
    """What another process found in its share of the logs."""

    sightings: list[Sighting]
    skipped: list[Skipped]
    logs: int
    size_bytes: int
    told: int
    synthetic: int
    pending: int


def scan_usage(
    homes: Iterable[Home], *, workers: int = 1, problems: list[Problem] | None = None
) -> UsageScan:
    """Count what the sessions of *homes* used, with as many processes as there are *workers*.

    What kept a directory from being listed is added to *problems*.
    """
    return scan_logs(find_everywhere(homes, problems=problems), workers=workers)


def scan_logs(logs: Iterable[LogFile], *, workers: int = 1) -> UsageScan:
    """Count what *logs* tell of; each response once, whichever of them tell of it."""
    parts = [list(logs)]
    if workers > 1 and sum(map(_size_bytes, parts[0])) >= _WORTH_SHARING_BYTES:
        parts = share_out(parts[0], workers, _size_bytes)
    with Children(_scan_share, parts[1:]) as children:
        scan, folded = _scan(parts[0])
        for answer in children.answers():
            share = msgspec.msgpack.decode(answer, type=_Share)
            for sighting in share.sightings:
                folded.take(sighting)
            scan.skipped += share.skipped
            scan.logs += share.logs
            scan.size_bytes += share.size_bytes
            scan.told += share.told
            scan.pending += share.pending
            folded.synthetic += share.synthetic
    return UsageScan(
        responses=folded.settle(),
        skipped=scan.skipped,
        logs=scan.logs,
        size_bytes=scan.size_bytes,
        sightings=scan.told - folded.synthetic,
        synthetic=folded.synthetic,
        pending=scan.pending,
    )


def _scan(logs: Iterable[LogFile]) -> tuple[LogScan, Responses]:
    """Scan one log after the other, and fold what they tell."""
    scan, folded = LogScan(), Responses()
    for log in logs:
        for sighting in scan.sightings(log):
            folded.take(sighting)
    return scan, folded


def _scan_share(logs: Iterable[LogFile]) -> bytes:
    """Scan as another process does: give what was found in bytes."""
    scan, folded = _scan(logs)
    share = _Share(
        folded.held(),
        scan.skipped,
        scan.logs,
        scan.size_bytes,
        scan.told,
        folded.synthetic,
        scan.pending,
    )
    return msgspec.msgpack.encode(share)


def _size_bytes(log: LogFile) -> int:
    try:
        return os.stat(log.path).st_size
    except OSError:
        return 0  # It will be told when it cannot be read.
