"""When a session was last active, and whether it is running.

File times are unreliable: copying, repairing and touching change them. So the latest timestamp of
any record counts, and a file's mtime only if no record has one. Before a session is deleted, all
its records are read, not only the ends of its logs.

Before any file of a session is changed, ``refuse_if_running`` is called, and ``refuse_if_opened``
again while its logs are locked. A writer records under the log's lock that it has opened a log, so
the second result stays true until the lock is released.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.errors import LogLocked, NotFound
from turnlog.formats import Home, LogFile, Problem
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.file_moves import Spot, locked
from turnlog.records.record import Record
from turnlog.sessions.metadata import MetadataFold, TitleCandidates, read_head_tail, size_listed
from turnlog.sessions.owners import read_day
from turnlog.sessions.state import marks_of, running_sessions
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.tail import read_ends


class LastActivity(Struct, kw_only=True):
    """What a session's logs say about it."""

    last_active_at: datetime | None = None
    """None if neither a record nor a file has a time."""
    is_from_files: bool = False
    """Whether no record has a timestamp, and it is the newest mtime instead."""
    project: str | None = None
    title: str | None = None


def activity_from_ends(session_id: str, logs: Sequence[LogFile]) -> LastActivity:
    """Return what the ends of a session's logs say; shared days' logs are read completely.

    Without the title: see ``title_of``.
    """
    fold = _ActivityFold()
    for log in logs:
        if log.kind == "day":
            _take_day(session_id, log, fold)
        else:
            ends = read_ends(log.path)
            for record in chain(ends.head, ends.tail):
                fold.take(record, is_main=log.kind == "session")
    return fold.activity(logs)


def activity_of(session_id: str, logs: Sequence[LogFile]) -> LastActivity:
    """Return what all records of a session say, including those of its agents."""
    fold = _ActivityFold()
    for log in logs:
        if log.kind == "day":
            _take_day(session_id, log, fold)
            continue
        for item in read_log(log.path):
            if isinstance(item, Placed):
                fold.take(item.record, item.offset, is_main=log.kind == "session")
        if log.kind == "session":
            fold.facts.summary = fold.called.as_listed(fold.facts.summary, size_listed(log.path))
    found = fold.activity(logs)
    found.title = fold.facts.summary.title
    return found


def title_of(session_id: str, logs: Sequence[LogFile]) -> str | None:
    """Return a session's title; its logs are read as lists read them."""
    own = next((log for log in logs if log.kind == "session"), None)
    if own is not None:
        return read_head_tail(own.path).summary.title
    fold = _ActivityFold()
    for log in logs:
        if log.kind == "day":
            _take_day(session_id, log, fold)
    return fold.facts.summary.title


def _take_day(session_id: str, log: LogFile, fold: _ActivityFold) -> None:
    for dated in read_day(log):
        if dated.session_id == session_id:
            fold.take(dated.placed.record)


class _ActivityFold:
    def __init__(self) -> None:
        self.facts, self.called = MetadataFold(), TitleCandidates()
        self.last_at: datetime | None = None

    def take(self, record: Record, offset: int = 0, *, is_main: bool = True) -> None:
        if is_main:
            self.called.take(record, offset, self.facts)
        if record.at is not None:
            self.last_at = max(record.at, self.last_at or record.at)

    def activity(self, logs: Iterable[LogFile]) -> LastActivity:
        return LastActivity(
            last_active_at=self.last_at or _changed_at(logs),
            is_from_files=self.last_at is None,
            project=self.facts.summary.cwd,
        )


def _changed_at(logs: Iterable[LogFile]) -> datetime | None:
    """Return the newest mtime of *logs*."""
    times = []
    for log in logs:
        try:
            times.append(datetime.fromtimestamp(os.stat(log.path).st_mtime, UTC))
        except (OSError, ValueError, OverflowError):
            return None  # An inaccessible one may be the newest.
    return max(times, default=None)


_CLOSE: Final = "close it first; nothing was changed"


def refuse_if_running(session_id: str, logs: Sequence[LogFile], homes: Iterable[Home]) -> None:
    """Raise LogLocked if the session is open, or one of its logs is locked."""
    refuse_if_opened(session_id, logs, homes)
    for log in logs:
        if log.is_kept:
            continue
        try:
            with locked(Spot(log.path.parent, log.path.name)):
                pass
        except LogLocked as error:
            raise runs(session_id, error.holder, log.path) from None


def refuse_if_opened(session_id: str, logs: Iterable[LogFile], homes: Iterable[Home]) -> None:
    """Raise LogLocked if the session is open; its logs may be locked by the caller."""
    refuse_if_program_runs(session_id, homes)
    for log in logs:
        if log.is_kept or log.kind == "subagent":
            continue
        with suppress(NotFound):  # Gone meanwhile, so it is not open.
            refuse_if_written(session_id, log.path, is_shared=log.kind == "day")


def refuse_if_written(
    session_id: str, path: Path, *, is_shared: bool = False, hint: str = _CLOSE
) -> None:
    """Raise LogLocked if the records in a log name a writer that is or may be alive.

    *is_shared*: the log holds other sessions as well.
    """
    life = marks_of(path, session_id if is_shared else None)
    writer = next(iter(life.living), None)
    if writer is None:
        return
    if writer.is_alive:
        raise runs(session_id, writer.pid, path, hint=hint)
    raise LogLocked(
        f"session {session_id} may be running in process {writer.pid} on {writer.host},"
        " which cannot be seen from here",
        path=path,
        holder=writer.pid,
        hint="close it there; a program that is gone counts as alive until the session has been"
        " quiet for a day",
    )


def refuse_if_program_runs(session_id: str, homes: Iterable[Home], *, hint: str = _CLOSE) -> None:
    """Raise LogLocked if Claude Code runs the session, UnreadableHome if that is unknown."""
    problems: list[Problem] = []
    running = running_sessions(homes, problems=problems).get(session_id)
    if running is not None and running.is_alive:
        raise runs(session_id, running.pid, running.path, hint=hint)
    refuse_unreadable(problems)


def runs(session_id: str, pid: int | None, path: Path, *, hint: str = _CLOSE) -> LogLocked:
    """Return the LogLocked error for a running session."""
    who = f" in process {pid}" if pid else ""
    return LogLocked(
        f"session {session_id} is running{who}",
        path=path,
        holder=pid,
        hint=hint,
    )
