"""Undo the last recovery of a session.

A recovery leaves the record ``recovered`` in the log, with what it appended and which logs it
rewrote. An undo removes exactly those lines and restores the rewritten logs, in a rewrite that
keeps the old log. Records appended since the recovery stay. If one of them has a parent that would
be removed, or a log was rewritten since, the undo is refused and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.errors import NotFound, UnsafeRecovery
from turnlog.formats.format import refuse_rewriting
from turnlog.records.codec import decode
from turnlog.records.record import Linked, Record, User
from turnlog.records.record_types import LastPrompt, Marker
from turnlog.sessions.recover import TouchedLog, digest_of, refuse_if_running
from turnlog.sessions.session import Session
from turnlog.sessions.state import Running
from turnlog.storage.atomic_files import size_at
from turnlog.storage.reader import Placed
from turnlog.storage.replace import Locked, Replacement, chunks, rewrite
from turnlog.storage.sources import opened_regular
from turnlog.storage.writer import LOCK_TIMEOUT


class UndoneRecovery(Struct, kw_only=True):
    """What undoing the last recovery of a session does, or did.

    `turnlog recover SESSION --undo --json` prints it.
    """

    id: str
    path: str
    written: bool = False
    recovered_at: str | None = None
    """When the session was recovered; null if there is nothing to undo."""
    removed: int = 0
    """Lines that the recovery appended."""
    restored: list[str] = []
    """Logs that the recovery rewrote."""
    originals: list[str] = []
    """Logs as they were before the undo."""

    @property
    def needed(self) -> bool:
        """Whether there is a recovery to undo."""
        return self.recovered_at is not None


def undo_recovery(
    session: Session,
    running: Running | None = None,
    *,
    write: bool = False,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> UndoneRecovery:
    """Return what undoing the last recovery of *session* does; do it if *write* is true.

    Raises UnsafeRecovery, with nothing written, if later records depend on the recovery.
    """
    done = UndoneRecovery(id=session.id, path=str(session.path))
    mark = None
    for item in session.items():
        if isinstance(item.record, Marker) and item.record.event == "recovered":
            mark = item
    if mark is None:
        return done
    refuse_if_running(session, running)
    refuse_rewriting(session.logs)
    undo = _Undo(session, mark)
    done.path = str(undo.path)
    done.recovered_at = mark.record.timestamp if isinstance(mark.record.timestamp, str) else ""
    done.removed = undo.check()
    done.restored = [str(path) for path, log in undo.logs.items() if log.original is not None]
    if write:
        # The log with the ``recovered`` record comes last: an interrupted undo can be repeated.
        for path in sorted(undo.logs, key=lambda each: each == undo.path):
            if not undo.is_restored(path):
                change = partial(undo.change, path)
                original = rewrite(path, change, "undoing", lock_timeout=lock_timeout)
                done.originals.append(str(original))
        done.written = True
    return done


class _Undo:
    """What a recovery did to the logs of *session*, from its record."""

    def __init__(self, session: Session, mark: Placed) -> None:
        self.session = session
        self.path = session.main_logs[mark.log].path
        fields = mark.record.fields
        try:
            touched = msgspec.convert(fields.get("logs"), list[TouchedLog])
            uuids = msgspec.convert(fields.get("appended"), list[str | None])
        except msgspec.ValidationError:
            raise self._unsafe("its mark does not say what was changed") from None
        self.process = fields.get("process")
        self.appended = {uuid for uuid in uuids if uuid is not None}
        # A log can contain anything; only this session's own files are changed.
        own = {os.path.relpath(log.path, self.path.parent): log.path for log in session.logs}
        if not {log.log for log in touched} <= own.keys():
            raise self._unsafe("its mark names a log of another session, or one that is gone")
        self.logs = {own[log.log]: log for log in touched}
        if self.path not in self.logs:
            raise self._unsafe("its mark does not say what was changed")

    def check(self) -> int:
        """Return how many lines would be removed; raise UnsafeRecovery if it cannot be undone."""
        for path in self.logs:
            if not self.is_restored(path):
                self._check_log(path)
        with opened_regular(self.path) as fd:
            ours, _ = self._sort(fd, os.fstat(fd).st_size)
        return len(ours)

    def is_restored(self, path: Path) -> bool:
        """Return whether an earlier, interrupted undo has already restored the log at *path*."""
        original = self._original(path)
        if path == self.path or original is None:
            return False
        size = size_at(original)
        return size == size_at(path) and digest_of(path, size) == digest_of(original, size)

    def change(self, path: Path, held: Locked) -> Iterator[Replacement]:
        """Return the change that undoes the recovery in the log at *path*."""
        self._check_log(path)
        log, original = self.logs[path], self._original(path)
        if path == self.path:
            _, kept = self._sort(held.fd, held.size_bytes)
        else:
            kept = b"".join(chunks(held.fd, log.size_bytes, held.size_bytes))
        head = path if original is None else original
        size = log.size_bytes if original is None else size_at(original)
        if kept and not _ends_with_newline(head, size):
            kept = b"\n" + kept
        start = log.size_bytes if original is None else 0
        pieces = () if original is None else _read(original, size)
        yield Replacement(start, held.size_bytes - start, (*pieces, kept))

    def _sort(self, fd: int, size: int) -> tuple[list[bytes], bytes]:
        """Return the lines that the recovery appended, and all others appended since it began."""
        data = b"".join(chunks(fd, self.logs[self.path].size_bytes, size))
        ours: list[bytes] = []
        others: list[bytes] = []
        left = set(self.appended)
        phase = ["opened", "recovered", "ended"]
        for line in BytesIO(data):
            record = decode(line.strip()) if line.strip() else None
            if isinstance(record, Record) and record.uuid in left:
                left.discard(record.uuid)
                ours.append(line)
            elif isinstance(record, Marker) and self._is_ours(record, phase):
                ours.append(line)
            elif line.strip():
                others.append(line)
                if isinstance(record, Record):
                    self._refuse_dependent(record)
        return ours, b"".join(others)

    def _is_ours(self, mark: Marker, phase: list[str]) -> bool:
        """Return whether a record was left by this recovery; they come in the order of *phase*."""
        fields = mark.fields
        if not phase or fields.get("sessionId") != self.session.id or mark.event != phase[0]:
            return False
        if fields.get("process") != self.process:
            return False
        phase.pop(0)
        return True

    def _refuse_dependent(self, record: Record) -> None:
        named: list[Any] = []
        if isinstance(record, Linked):
            named += [record.parent_uuid, record.logical_parent_uuid]
        if isinstance(record, User):
            named.append(record.source_tool_assistant_uuid)
        if isinstance(record, LastPrompt):
            named.append(record.leaf_uuid)
        if not self.appended.isdisjoint(named):
            raise self._unsafe("records that were appended since then depend on it")

    def _check_log(self, path: Path) -> None:
        log, original = self.logs[path], self._original(path)
        if original is not None and (original.is_symlink() or not original.is_file()):
            raise self._unsafe(f"{original.name} is gone")
        if size_at(path) < log.size_bytes or digest_of(path, log.size_bytes) != log.sha256:
            raise self._unsafe(f"{path.name} was rewritten since then")

    def _original(self, path: Path) -> Path | None:
        name = self.logs[path].original
        if name is None:
            return None
        if not name.startswith(f"{path.name}.original-") or os.sep in name:
            raise self._unsafe("its mark names a file that is not a log of this session")
        return path.with_name(name)

    def _unsafe(self, why: str) -> UnsafeRecovery:
        return UnsafeRecovery(
            f"the recovery of session {self.session.id} cannot be undone: {why}",
            hint="nothing was changed; logs that it rewrote are kept as NAME.original-TIME",
        )


def _read(path: Path, size: int) -> Iterator[bytes]:
    with suppress(NotFound), opened_regular(path) as fd:
        yield from chunks(fd, 0, size)


def _ends_with_newline(path: Path, size: int) -> bool:
    with opened_regular(path) as fd:
        return not size or b"".join(chunks(fd, size - 1, size)) == b"\n"
