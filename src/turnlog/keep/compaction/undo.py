"""Undo compactions: restore the original log, with whatever was appended since.

If the original of a log exists, the new log begins with its bytes, and what was appended to the
compacted log follows. Several compactions are undone one after the other. Lines in blobs are moved
back. An original that does not match the log (each line of the compacted log must be in it, in
order, up to the appended ones) is ignored, and so is what a repair left.

Before it replaces the log, the new one is checked to contain every line of the compacted one, in
order. A missing or altered blob is reported, and its stub stays. It is a dry run unless *write* is
true, works under the lock, and removes neither originals nor blobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.formats import LogFile
from turnlog.keep.activity import refuse_if_written
from turnlog.keep.compaction.compact import WAIT, each_log, plain_logs, refuse_running
from turnlog.sessions.session import Session
from turnlog.storage.blobs import STUB, whole_line
from turnlog.storage.replace import Locked, chunks, locked
from turnlog.storage.sources import LINE_CAP, opened_regular
from turnlog.storage.system import read_at
from turnlog.storage.writer import LOCK_TIMEOUT

_UUID: Final = b'"uuid":"'
_LONGEST_STUB: Final = 64 * 1024


class UndoneLog(Struct, kw_only=True):
    """What was, or would be, restored to one log."""

    path: str
    agent_id: str | None
    size_bytes: int
    new_size_bytes: int = 0
    lines: int = 0
    """Lines restored from originals."""
    blobs: int = 0
    """Lines restored from blobs alone."""
    originals: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Why a line cannot be restored from its blob."""
    written: bool = False

    @property
    def needed(self) -> bool:
        return bool(self.lines or self.blobs)


class CompactionUndo(Struct, kw_only=True):
    """What was, or would be, restored to the logs of a session."""

    session: str
    written: bool = False
    logs: list[UndoneLog] = field(default_factory=list)

    @property
    def needed(self) -> bool:
        return any(log.needed for log in self.logs)

    @property
    def lost(self) -> int:
        return sum(len(log.lost) for log in self.logs)


class _Range(NamedTuple):
    """Bytes of an open file."""

    fd: int
    start: int
    end: int


class _UndoLine(NamedTuple):
    """A line, without its newline. *key* is the digest of its content, or of its blob's."""

    place: _Range
    key: bytes
    has_uuid: bool
    is_stub: bool


def undo(
    session: Session,
    *,
    write: bool = False,
    cap: int = LINE_CAP,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> CompactionUndo:
    """Return what compactions removed from the logs of *session*; restore it if *write* is true."""
    logs = plain_logs(session)
    if write:
        refuse_running(session, logs)

    def undone(log: LogFile) -> UndoneLog:
        work = _LogUndo(session, log, cap)
        return work.put_back(lock_timeout) if write else work.plan()

    found = each_log(logs, undone, "undoing")
    return CompactionUndo(session=session.id, written=any(log.written for log in found), logs=found)


class _LogUndo:
    """The undo of one log."""

    def __init__(self, session: Session, log: LogFile, cap: int) -> None:
        self.session = session
        self.path = log.path
        self.cap = cap
        self.done = UndoneLog(path=str(log.path), agent_id=log.agent_id, size_bytes=0)

    def plan(self) -> UndoneLog:
        with opened_regular(self.path) as fd, ExitStack() as opened:
            self._gather(opened, fd, os.fstat(fd).st_size)
        return self.done

    def put_back(self, lock_timeout: float | None) -> UndoneLog:
        with locked(self.path, lock_timeout) as held, ExitStack() as opened:
            refuse_if_written(self.session.id, self.path, hint=WAIT)
            ranges = self._gather(opened, held.fd, held.size_bytes)
            if self.done.needed:
                self._make(held, ranges)
                held.take_place()
                self.done.written = True
        return self.done

    def _gather(self, opened: ExitStack, fd: int, size: int) -> list[_Range]:
        """Return the parts of the new log, with stubs not yet resolved."""
        ranges = [_Range(fd, 0, size)]
        lines = list(_lines(ranges))
        for original in _originals(self.path):
            other = opened.enter_context(opened_regular(original))
            content = _Range(other, 0, os.fstat(other).st_size)
            theirs = list(_lines([content]))
            known = _belongs(theirs, lines)
            if known is not None:
                self.done.lines += _gain(theirs, lines[:known])
                self.done.originals.append(str(original))
                ranges = [content, *_beginning_with(lines[known:], ranges)]
                lines = theirs + lines[known:]
        self.done.size_bytes = size
        self.done.new_size_bytes = sum(each.end - each.start for each in ranges)
        for line in lines:
            if line.is_stub:
                self._look(line)
        return ranges

    def _look(self, line: _UndoLine) -> None:
        """Note whether the line of a stub is available."""
        stub = _bytes(line.place)
        found = whole_line(self.path, stub, cap=self.cap)
        if isinstance(found, bytes):
            self.done.blobs += 1
            self.done.new_size_bytes += len(found) - len(stub)
        else:
            self.done.lost.append(found.detail)

    def _make(self, held: Locked, ranges: Sequence[_Range]) -> None:
        what = "the log that is to replace"
        fd = held.make_fresh(self._pieces(ranges), what)
        try:
            now = _lines([_Range(held.fd, 0, held.size_bytes)])
            new = _lines([_Range(fd, 0, os.fstat(fd).st_size)])
            # Each line must be in the new log, in the same order.
            if not all(any(line.key == other.key for other in new) for line in now):
                raise held.unproved(what)
        finally:
            os.close(fd)

    def _pieces(self, ranges: Sequence[_Range]) -> Iterator[bytes]:
        """Yield the new log, with the lines from blobs."""
        last = b"\n"
        for each in ranges:
            if last[-1:] != b"\n":
                yield b"\n"
            done = each.start
            for line in _lines([each]):
                if line.is_stub:
                    original = whole_line(self.path, _bytes(line.place), cap=self.cap)
                    if isinstance(original, bytes):
                        yield from chunks(each.fd, done, line.place.start)
                        yield original
                        done = line.place.end
            yield from chunks(each.fd, done, each.end)
            last = read_at(each.fd, 1, each.end - 1) if each.end else last


def _originals(log: Path) -> list[Path]:
    """Return the originals that compactions left of *log*, newest first."""
    prefix = f"{log.name}.original-"
    names = [name for name in os.listdir(log.parent) if name.startswith(prefix)]
    stamps = sorted((name.removeprefix(prefix) for name in names), reverse=True)
    found = [log.with_name(prefix + stamp) for stamp in stamps]
    return [
        path
        for path, stamp in zip(found, stamps, strict=True)
        if path.is_file()
        and not path.is_symlink()
        and not log.with_name(f"{log.name}.quarantine-{stamp}").exists()
    ]


def _belongs(original: Sequence[_UndoLine], lines: Sequence[_UndoLine]) -> int | None:
    """Return how many of *lines* come from *original*; None if it does not match."""
    if not original or not lines or original[0].key != lines[0].key:
        return None
    rest = iter(original)
    known = 0
    for line in lines:
        if not any(line.key == each.key for each in rest):
            break
        known += 1
    # The last line is never removed: what follows it here was appended, and may repeat a title, but
    # no record. Otherwise a program continued writing to the original, and nothing is repeated.
    is_to_its_end = lines[known - 1].key == original[-1].key
    keys = {line.key for line in original if line.has_uuid or not is_to_its_end}
    # A line that comes later here than there means another history.
    is_other = any(line.key in keys for line in lines[known:])
    return None if is_other or not _gain(original, lines[:known]) else known


def _gain(original: Sequence[_UndoLine], lines: Sequence[_UndoLine]) -> int:
    """Return how many more lines, or complete ones, *original* has than *lines*."""
    stubs = sum(line.is_stub for line in lines) - sum(line.is_stub for line in original)
    return len(original) - len(lines) + max(0, stubs)


def _beginning_with(lines: Sequence[_UndoLine], ranges: Sequence[_Range]) -> list[_Range]:
    """Return the part of *ranges* that begins with the first of *lines*."""
    if not lines:
        return []
    first = lines[0].place
    for number, each in enumerate(ranges):
        if each.fd == first.fd and each.start <= first.start < each.end:
            return [each._replace(start=first.start), *ranges[number + 1 :]]
    raise AssertionError


def _lines(ranges: Iterable[_Range]) -> Iterator[_UndoLine]:
    """Yield the lines of some files, of any length, without blank ones."""
    for each in ranges:
        start, digest, head, has_uuid = each.start, sha256(), b"", False
        position = each.start
        for data in chunks(*each):
            parts = data.split(b"\n")
            for number, part in enumerate(parts):
                digest.update(part)
                has_uuid = has_uuid or _UUID in part
                head = head + part if len(head) < _LONGEST_STUB else head
                position += len(part)
                if number < len(parts) - 1:
                    if position > start:
                        place = _Range(each.fd, start, position)
                        yield _line(place, head, digest.digest(), has_uuid=has_uuid)
                    position += 1
                    start, digest, head, has_uuid = position, sha256(), b"", False
        if position > start:
            place = _Range(each.fd, start, position)
            yield _line(place, head, digest.digest(), has_uuid=has_uuid)


def _line(place: _Range, head: bytes, digest: bytes, *, has_uuid: bool) -> _UndoLine:
    named = _named(head) if head.startswith(STUB) and len(head) < _LONGEST_STUB else None
    return _UndoLine(place, named or digest, has_uuid, named is not None)


def _named(stub: bytes) -> bytes | None:
    """Return the digest in a stub; None if it is not a stub."""
    try:
        return bytes.fromhex(str(msgspec.json.decode(stub)["sha256"]))
    except (ValueError, KeyError, RecursionError):
        return None


def _bytes(place: _Range) -> bytes:
    return read_at(place.fd, place.end - place.start, place.start)
