"""Mending a damaged log without throwing a byte away.

A repaired log holds every whole record of the damaged one, byte for byte and in order, each on its
own line. What is no record goes to ``NAME.quarantine-TIME``, one JSON object per range, and the log
as it was to ``NAME.original-TIME``. Both are on disk, and the new log has been read back and
compared, before it takes the old one's place in one step. A kill at any moment leaves the old log
or the new one.

Repair is a dry run unless told to write. It works under the log's lock; whatever a program that
knows no locks appends meanwhile is carried over.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct, field

from turnlog.errors import LogError, NotALog, StorageFull
from turnlog.log import system
from turnlog.log.handle import LOCK_TIMEOUT, Handle
from turnlog.log.lines import LINE_CAP
from turnlog.log.reader import Pending, Placed, Reader
from turnlog.log.sources import PlainSource, Source, open_regular, open_source
from turnlog.log.telling import logger
from turnlog.log.writer import LogWriter
from turnlog.records.damage import Damage, Reason

_COPY_BYTES: Final = 1024 * 1024


class Repair(Struct, kw_only=True):
    """What was, or would be, done to a log."""

    path: str
    written: bool = False
    records: int = 0
    salvaged: int = 0
    """Records among them that stood on a damaged line."""
    blank: int = 0
    """Blank lines, which a repaired log does not have."""
    quarantined: list[Damage] = field(default_factory=list)
    adds_newline: bool = False
    """The last record was whole but had no newline."""
    torn: bool = False
    """The last line was cut short."""
    original: str | None = None
    quarantine: str | None = None

    @property
    def needed(self) -> bool:
        return bool(self.salvaged or self.quarantined or self.adds_newline)

    @property
    def quarantined_bytes(self) -> int:
        return sum(damage.length for damage in self.quarantined)


def repair(
    path: str | os.PathLike[str],
    *,
    write: bool = False,
    cap: int = LINE_CAP,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> Repair:
    """Say how the log at *path* would be repaired; do it if *write* is true."""
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
        if isinstance(error, LogError):
            raise
        kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else LogError
        raise kind(
            f"repair of {os.fspath(path)} failed, the log is unchanged: {error.strerror or error}",
            path=path,
            errno=error.errno,
            hint="a repair needs room for twice the log's size, and leave to write beside it",
        ) from None


def _plan(path: str | os.PathLike[str], cap: int) -> tuple[Repair, bool]:
    """Read the log once and say what there is to do; tell whether it is an archive."""
    plan = Repair(path=os.fspath(path))
    source = open_source(path)
    for _ in _survivors(plan, source, cap):
        pass
    return plan, not source.plain


def _survivors(plan: Repair, source: Source, cap: int) -> Iterator[bytes]:
    """Give the bytes of every whole record, and note in *plan* what happened to the rest."""
    with Reader(plan.path, cap=cap, source=source) as reader:
        for _, group in groupby(reader, key=attrgetter("line")):
            items = list(group)
            records = [item for item in items if isinstance(item, Placed)]
            damages = [item for item in items if isinstance(item, Damage)]
            plan.records += len(records)
            plan.quarantined += damages
            if damages or len(records) > 1:
                plan.salvaged += len(records)
            yield from (item.record.raw for item in records)
        plan.blank = reader.blank_lines
        if reader.pending is not None:
            plan.adds_newline = reader.pending.record is not None
            plan.torn = not plan.adds_newline
            if plan.torn:
                plan.quarantined.append(_torn(reader.pending))


def _torn(pending: Pending) -> Damage:
    return Damage(
        reason=Reason.FRAGMENT,
        offset=pending.offset,
        length=pending.length,
        line=pending.line,
        detail="the last line was cut short",
        excerpt=pending.excerpt,
    )


def _rewrite(path: Path, cap: int, lock_timeout: float | None) -> Repair:
    handle = Handle(path, create=False, lock_timeout=lock_timeout)
    try:
        size = handle.lock()
        return _rewrite_locked(path, handle.fd, size, cap)
    finally:
        handle.abandon()
        handle.close()


def _rewrite_locked(path: Path, fd: int, size: int, cap: int) -> Repair:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    original = path.with_name(f"{path.name}.original-{stamp}")
    quarantine = path.with_name(f"{path.name}.quarantine-{stamp}")
    fresh = path.with_name(f".{path.name}.repair-{stamp}")
    plan = Repair(path=str(path), written=True, original=str(original), quarantine=str(quarantine))
    digest = hashlib.sha256()
    try:
        with _NewFile(original) as copy:
            for chunk in _chunks(fd, 0, size):
                copy.write(chunk)
        with _NewFile(fresh) as new:
            for line in _survivors(plan, PlainSource(open_regular(path), 0, end=size), cap):
                digest.update(line + b"\n")
                new.write(line + b"\n")
            new.belong_like(os.fstat(fd))
        with _NewFile(quarantine) as rest:
            for damage in plan.quarantined:
                rest.write(_quarantined(fd, damage, cap))
        _check(fresh, plan.records, digest.digest(), cap)
        _sync_parent(path)
        os.replace(fresh, path)
    except BaseException:
        for made in (fresh, quarantine, original):  # The log is as it was: nothing is lost.
            made.unlink(missing_ok=True)
        raise
    _sync_parent(path)
    _carry_over(path, fd, size)
    logger.info("%s: repaired, %d records kept", path, plan.records)
    return plan


class _NewFile:
    """A private file that must not exist yet, written whole and synced when the block ends."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file = os.fdopen(self._fd, "wb", buffering=_COPY_BYTES)
        self.write = self._file.write

    def belong_like(self, other: os.stat_result) -> None:
        """Take the owner and mode of the file this one will replace."""
        if sys.platform != "win32":
            os.fchmod(self._fd, other.st_mode & 0o777)
            if os.geteuid() == 0:
                os.fchown(self._fd, other.st_uid, other.st_gid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._file.flush()
            system.sync(self._fd)
        finally:
            self._file.close()


def _chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (chunk := system.read_at(fd, min(_COPY_BYTES, end - start), start)):
        yield chunk
        start += len(chunk)


def _quarantined(fd: int, damage: Damage, cap: int) -> bytes:
    """Describe a range of damage, with its bytes unless they say nothing or are too many."""
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


def _check(fresh: Path, records: int, digest: bytes, cap: int) -> None:
    """Read the new log back: the same records, the same bytes, nothing else."""
    found = hashlib.sha256()
    count = 0
    with Reader(fresh, cap=cap) as reader:
        for item in reader:
            if isinstance(item, Placed):
                found.update(item.record.raw + b"\n")
                count += 1
    if found.digest() != digest or count != records:
        raise LogError(
            f"the repaired copy of {fresh} does not read back as written",
            path=fresh,
            hint="the disk may be failing; the log itself was not touched",
        )


def _sync_parent(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        system.sync_directory(directory)
    finally:
        os.close(directory)


def _carry_over(path: Path, old_fd: int, size: int) -> None:
    """Append what somebody without a lock wrote to the old log while it was repaired."""
    late = b"".join(_chunks(old_fd, size, os.fstat(old_fd).st_size))
    lines = [line for line in late.split(b"\n") if line.strip()]
    if lines:
        with LogWriter(path, create=False) as log:
            log.append_lines(lines)
