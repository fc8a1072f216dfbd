"""Check whether a session is open before changing any of its files.

The check is made twice: before anything is done, and again while the session's logs are locked. A
writer records under the log's lock that it has opened a log, so the second result stays true until
the lock is released; without it, a session may be opened right after the check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from turnlog.errors import LogLocked, NotFound
from turnlog.formats import Home, LogFile, Problem
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.file_moves import Spot, locked
from turnlog.sessions.state import marks_of, running_sessions

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
