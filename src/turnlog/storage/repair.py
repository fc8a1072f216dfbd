"""Repair a damaged log without discarding a byte.

A repaired log holds every complete record of the damaged one, byte for byte and in order, each on
its own line. Only records that JSON.parse rejects are rewritten: a byte order mark is removed,
control characters are escaped, NaN becomes null. Everything else goes to ``NAME.quarantine-TIME``,
one JSON object per range, and the damaged log becomes ``NAME.original-TIME``. Both are on disk, and
the new log has been read back and compared, before it replaces the old one in one step.

Repair is a dry run unless *write* is true. It holds the log's lock, and lines appended meanwhile by
a program that does not lock are carried over. Where hard links work, the original is the damaged
file itself, so later writes to it are not lost.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import msgspec
from msgspec import Struct, field

from turnlog.errors import NotALog
from turnlog.records.damage import Damage, Reason
from turnlog.records.lenient_json import to_strict
from turnlog.storage import system
from turnlog.storage.lines import LINE_CAP
from turnlog.storage.logger import logger
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.replace import Locked, NewFile, failed, locked
from turnlog.storage.sources import PlainSource, Source, open_source
from turnlog.storage.writer import LOCK_TIMEOUT


class Repair(Struct, kw_only=True):
    """What was, or would be, done to a log."""

    path: str
    written: bool = False
    records: int = 0
    salvaged: int = 0
    """Records among them found on a damaged line."""
    rewritten: int = 0
    """Records among them that JSON.parse rejected, rewritten so that it reads them."""
    blank: int = 0
    """Blank lines, which are removed."""
    quarantined: list[Damage] = field(default_factory=list)
    adds_newline: bool = False
    """The last record was complete but had no newline."""
    torn: bool = False
    """The last line was cut short."""
    original: str | None = None
    quarantine: str | None = None

    @property
    def needed(self) -> bool:
        """Whether there is anything to repair."""
        return bool(self.salvaged or self.rewritten or self.quarantined or self.adds_newline)

    @property
    def quarantined_bytes(self) -> int:
        """The number of bytes that were not records and went to the quarantine file."""
        return sum(damage.length for damage in self.quarantined)


def repair(
    path: str | os.PathLike[str],
    *,
    write: bool = False,
    cap: int = LINE_CAP,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> Repair:
    """Return how the log at *path* would be repaired; do it if *write* is true.

    Nothing is discarded: the damaged log and the bytes that were not records are kept in the files
    *original* and *quarantine*.
    """
    try:
        plan, is_archive = _plan(path, cap)
        if is_archive and write:
            raise NotALog(
                f"{os.fspath(path)} is compressed, and archives are never changed",
                path=path,
                hint="unpack it beside, and repair the unpacked log",
            )
        return _rewrite(Path(path), cap, lock_timeout) if write and plan.needed else plan
    except OSError as error:
        raise failed(error, "repair", path) from None


def _plan(path: str | os.PathLike[str], cap: int) -> tuple[Repair, bool]:
    """Read the log once; return the plan and whether the log is compressed."""
    plan = Repair(path=os.fspath(path))
    source = open_source(path)
    for _ in _survivors(plan, source, cap):
        pass
    return plan, not source.plain


def _survivors(plan: Repair, source: Source, cap: int) -> Iterator[bytes]:
    """Yield every complete record as a line, and count in *plan* what happened to the rest."""
    # Stubs are ordinary records here: their lines are not in this log.
    with Reader(plan.path, cap=cap, tail="seal", source=source, follow_blobs=False) as reader:
        for _, group in groupby(reader, key=attrgetter("line")):
            items = list(group)
            records = [item for item in items if isinstance(item, Placed)]
            damages = [item for item in items if isinstance(item, Damage)]
            plan.records += len(records)
            plan.quarantined += damages
            if damages or len(records) > 1:
                plan.salvaged += len(records)
            for item in records:
                line, refused = to_strict(item.record.raw)
                plan.rewritten += bool(refused)
                yield line
        plan.blank = reader.blank_lines
        if reader.pending is not None:
            plan.adds_newline = reader.pending.record is not None
            plan.torn = not plan.adds_newline


def _rewrite(path: Path, cap: int, lock_timeout: float | None) -> Repair:
    with locked(path, lock_timeout) as held:
        plan = _make(held, cap)
        held.take_place()
    logger.info("%s: repaired, %d records kept", path, plan.records)
    return plan


def _make(held: Locked, cap: int) -> Repair:
    """Write the new log, verify it, and quarantine what is not in it."""
    plan = Repair(path=str(held.path), written=True)
    what = "the repaired copy of"
    # A new mtime: with the same size and mtime, the two could be mistaken for each other.
    fd = held.make_fresh(_lines(held, plan, cap), what, is_as_old=False)
    if not _is_sound(held.fresh, PlainSource(fd, 0), plan.records, cap):
        raise held.unproved(what)
    held.keep_original()
    with NewFile(held.quarantine) as rest:
        for damage in plan.quarantined:
            rest.write(_quarantined(held.fd, damage, cap))
    plan.original, plan.quarantine = str(held.original), str(held.quarantine)
    return plan


def _lines(held: Locked, plan: Repair, cap: int) -> Iterator[bytes]:
    damaged = PlainSource(os.dup(held.fd), 0, end=held.size_bytes)
    for line in _survivors(plan, damaged, cap):
        yield line + b"\n"


def _is_sound(path: Path, source: Source, records: int, cap: int) -> bool:
    """Return whether a log has exactly *records* records and nothing else."""
    count = 0
    with Reader(path, cap=cap, source=source, follow_blobs=False) as reader:
        for item in reader:
            if not isinstance(item, Placed):
                return False
            count += 1
    return count == records


def _quarantined(fd: int, damage: Damage, cap: int) -> bytes:
    """Describe a damaged range, with its bytes unless they are all NULs or too many."""
    described = {
        "offset": damage.offset,
        "length": damage.length,
        "line": damage.line,
        "reason": damage.reason.value,
    }
    if damage.reason is not Reason.NUL_RUN and damage.length <= cap:
        data = system.read_at(fd, damage.length, damage.offset)
        try:
            described["text"] = data.decode("utf-8")
        except UnicodeDecodeError:
            described["base64"] = base64.b64encode(data).decode("ascii")
    return msgspec.json.encode(described) + b"\n"
