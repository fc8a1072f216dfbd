"""Who used how many tokens, when and with which model? Told from the logs alone, without an index.

Only lines that may tell of usage are looked at, and of those only what concerns it. Each response
is counted once, over all logs of all homes, under the rules of ``records.responses``; what those
rules leave out, and what could not be read, is listed with its place. Reading changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from turnlog.formats import Home, LogFile, Problem, find_everywhere
from turnlog.index.processes import Children, can_fork, share_out
from turnlog.index.usage.scan import LogScan, SkippedUsage
from turnlog.records.responses import Response, Responses
from turnlog.records.usage_entries import UsageEntry

# Below this a second process costs more time than it saves.
_WORTH_SHARING_BYTES: Final = 64_000_000


class UsageScan(Struct, kw_only=True):
    """The answer: every response once, and what was left out."""

    responses: list[Response]
    skipped: list[SkippedUsage]
    logs: int
    size_bytes: int
    sightings: int
    """Records that told of a response, repeats included."""
    synthetic: int
    """Messages without tokens that agent programs made up themselves."""
    pending: int
    """Logs whose last line may still be being written, and was not counted."""
    counted: int | None = None
    """How many responses there are in all, if *responses* are not all, or are added up."""
    without_date: int | None = None

    @property
    def folded(self) -> int:
        """Records that repeated what another one told."""
        return self.sightings - (len(self.responses) if self.counted is None else self.counted)

    @property
    def undated(self) -> int:
        """Responses that no record dates."""
        if self.without_date is not None:
            return self.without_date
        return sum(response.at is None for response in self.responses)


class _Share(Struct, array_like=True):
    """What another process found in its share of the logs."""

    sightings: list[UsageEntry]
    skipped: list[SkippedUsage]
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
    mine, theirs = list(logs), []
    if workers > 1 and sum(map(_size_bytes, mine)) >= _WORTH_SHARING_BYTES and can_fork():
        mine, *theirs = share_out(mine, workers, _size_bytes)
    with Children(_scan_share, theirs) as children:
        scan, folded = _scan(mine)
        for share, message in children.messages():
            theirs.remove(share)
            _add(message, scan, folded)
    for share in theirs:  # Its child was killed or could not be started.
        for message in _scan_share(share):
            _add(message, scan, folded)
    return UsageScan(
        responses=folded.drain(),
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


def _scan_share(logs: Iterable[LogFile]) -> Iterator[bytes]:
    """Scan *logs* in a child; yield one message with what was found."""
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
    yield msgspec.msgpack.encode(share)


def _add(message: bytes, scan: LogScan, folded: Responses) -> None:
    """Add what ``_scan_share`` found."""
    share = msgspec.msgpack.decode(message, type=_Share)
    for sighting in share.sightings:
        folded.take(sighting)
    scan.skipped += share.skipped
    scan.logs += share.logs
    scan.size_bytes += share.size_bytes
    scan.told += share.told
    scan.pending += share.pending
    folded.synthetic += share.synthetic


def _size_bytes(log: LogFile) -> int:
    try:
        return os.stat(log.path).st_size
    except OSError:
        return 0  # It will be told when it cannot be read.
