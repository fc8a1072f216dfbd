"""Predict the agents' own cleanup: which sessions they will delete, and when.

Claude Code silently deletes at startup every log that has not changed for some time. File mtimes
count there, not records, so this differs from our retention. The prediction is meant as a warning,
so the shortest period that may apply counts. Nothing is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple, Self

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats import FORMATS, Home, LogFile, LogKind, Problem, find_logs
from turnlog.formats.format import CleanupPeriod
from turnlog.formats.home_files import HomeFile
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.dates import instant_of_ns
from turnlog.sessions.owners import is_subagent_log

_DAY_NS: Final = 86_400 * 1_000_000_000

IsKept = Callable[[Home, HomeFile], bool]
"""Returns whether the current version of a file is kept."""


class Loss(Struct, kw_only=True, frozen=True):
    """A session, or a subagent's log next to the sessions, that the cleanup would delete."""

    home: str
    id: str
    kind: LogKind
    path: str
    title: str | None = None
    size_bytes: int
    """Including the session's own directory."""
    changed_at: datetime | None
    deleted_at: datetime | None
    """When the agent's next start deletes it; null if out of the calendar's range."""
    is_due: bool
    """Whether it is due now: the next start deletes it."""
    is_kept: bool
    """Whether turnlog has a current copy of all of it."""


class LossCount(NamedTuple):
    """The number of sessions in some losses; copies of a session count once."""

    sessions: int
    subagents: int
    """Agents' logs next to the sessions."""

    @classmethod
    def of(cls, found: Iterable[Loss]) -> Self:
        """Count *found*."""
        found = list(found)
        sessions = {(loss.home, loss.id) for loss in found if loss.kind == "session"}
        return cls(len(sessions), sum(loss.kind != "session" for loss in found))


def cleanup_period(home: Home) -> CleanupPeriod | None:
    """Return after how many days an agent deletes sessions of *home*; None if none does."""
    periods = (each.cleanup_period(home) for each in FORMATS)
    return next((period for period in periods if period is not None), None)


def losses(
    homes: Iterable[Home],
    now: datetime,
    within_days: float = 7,
    *,
    is_kept: IsKept | None = None,
    title_of: Callable[[LogFile], str | None] | None = None,
    problems: list[Problem] | None = None,
) -> list[Loss]:
    """Return what the cleanup would delete until *within_days* from *now*, soonest first.

    *is_kept* tests whether a file is kept, by default with the catalog. Titles need a read of each
    log, so they come from *title_of*, if given.
    """
    if now.tzinfo is None:
        raise UsageError("the clock needs a time zone", hint="give an aware datetime")
    now_ns = int(now.timestamp() * 1_000_000_000)
    until_ns = now_ns + int(within_days * _DAY_NS)
    found = []
    for home in homes:
        period = cleanup_period(home)
        if period is None:
            continue
        period_ns = period.days * _DAY_NS
        kept = is_kept or _by_catalogue(home)
        for log, status in _old_logs(home, until_ns - period_ns, problems):
            files = [_described(home, str(log.path), status), *_side_files(home, log)]
            due_ns = status.st_mtime_ns + period_ns
            loss = Loss(
                home=str(home.path),
                id=log.session_id or log.agent_id or "",
                kind="subagent"
                if log.kind == "session" and is_subagent_log(log.path)
                else log.kind,
                path=str(log.path),
                title=title_of(log) if title_of is not None else None,
                size_bytes=sum(file.size_bytes for file in files),
                changed_at=instant_of_ns(status.st_mtime_ns),
                deleted_at=instant_of_ns(due_ns),
                is_due=due_ns <= now_ns,
                is_kept=all(kept(home, file) for file in files),
            )
            found.append((due_ns, loss.path, loss))
    return [loss for _, _, loss in sorted(found, key=lambda each: each[:2])]


def _old_logs(
    home: Home, until_ns: int, problems: list[Problem] | None
) -> Iterator[tuple[LogFile, os.stat_result]]:
    """Yield the logs that the cleanup checks and that have not changed after *until_ns*."""
    for log in find_logs(home, problems=problems):
        if log.is_kept or not log.format.is_cleaned(log):
            continue
        try:
            status = os.stat(log.path)
        except OSError:
            continue  # Gone since it was listed.
        if status.st_mtime_ns <= until_ns:
            yield log, status


def _side_files(home: Home, log: LogFile) -> Iterator[HomeFile]:
    """Yield the files in the session's own directory."""
    if log.kind != "session" or log.session_id is None:
        return
    for item in DirectoryWalk().files_beneath(str(log.path.parent / log.session_id)):
        try:
            yield _described(home, item.path, os.stat(item.path))
        except OSError:
            continue


def _described(home: Home, path: str, status: os.stat_result) -> HomeFile:
    name = os.path.relpath(path, home.path).replace(os.sep, "/")
    return HomeFile(name, path, status.st_size, status.st_mtime_ns)


def _by_catalogue(home: Home) -> IsKept:
    # Asking for the period only must not import what reads copies.
    from turnlog.keep.catalog import Catalogue  # noqa: PLC0415

    catalogue = Catalogue.of_home(home)

    def is_kept(_home: Home, file: HomeFile) -> bool:
        return catalogue.has_all_of(file.name, file.size_bytes, file.mtime_ns)

    return is_kept
