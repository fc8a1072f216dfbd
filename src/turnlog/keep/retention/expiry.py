"""Find the expired sessions of a home, those that are old enough but spared, and orphans.

A session's age is that of its latest record; mtimes count only if no record has a timestamp. It has
expired when ``now - last >= days``. It is spared by a pin, a program that runs or writes it, a fork
that continues its log, files touched within the hour, a setting of its project, or an unreadable
log or place in its home. Sessions that share the logs of days expire together or not at all.

Orphans are files of a session that does not exist: todos, tasks, file history, environments, and
directories of subagents and tool results stay when an agent cleans up, or crashes before it writes
a log. A session exists if any home has a main log of it, or turnlog keeps a copy of one. Files
touched within a day, or of a running session, are not orphans yet: an agent creates them before its
log. Nothing is changed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.errors import LogLocked, TurnlogError
from turnlog.formats import Home, LogFile, Problem, find_logs, is_session_id
from turnlog.formats.home_files import project_directories, session_directories, side_directories
from turnlog.formats.projects import is_within
from turnlog.formats.walk import UnreadablePlace
from turnlog.keep.activity import LastActivity, activity_from_ends, activity_of, refuse_if_running
from turnlog.keep.retention.policy import Policy
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.delete import files_to_delete, home_name
from turnlog.records.dates import instant_of_ns
from turnlog.sessions.owners import owner_in, share_out

TOUCHED: Final = timedelta(hours=1)
UNMOUNTED: Final = "perhaps a volume is not mounted"


class ExpiredSession(Struct, kw_only=True):
    """A session that is, or would be, deleted, and why."""

    id: str
    home: str
    project: str | None
    title: str | None
    last_active_at: datetime
    is_from_files: bool
    """Whether no record has a timestamp, and file times were used."""
    age_days: int
    days: int
    """The number of days without a record after which it expires."""
    rule: str | None
    """The directory whose setting applies; null if none has one of its own."""
    files: int
    size_bytes: int
    trash: str | None = None
    """Its name in the trash, once it is there."""


class SparedSession(Struct, kw_only=True, frozen=True):
    """A session that is old enough but stays, and why."""

    id: str
    home: str
    title: str | None = None
    reason: str


class Candidate(Struct):
    """An expired session, its logs, and the files to delete with it."""

    row: ExpiredSession
    logs: list[LogFile]
    files: list[SessionFile]


class ExpiryFacts(Struct, frozen=True, kw_only=True):
    """What is known besides the logs when sessions are judged."""

    policy: Policy
    now: datetime
    pins: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    """Sessions that turnlog itself moved to the trash."""


class ExpiryReview:
    """The judged sessions of one home. *groups* have expired, and are deleted together."""

    def __init__(
        self, belongings: SessionFileIndex, facts: ExpiryFacts, project: str | None = None
    ) -> None:
        self.belongings = belongings
        self.groups: list[list[Candidate]] = []
        self.spared: list[SparedSession] = []
        self.young = 0
        self.problems: list[Problem] = []
        self._facts = facts
        self._project = project
        self._home = os.path.realpath(belongings.home)
        sessions = sessions_of(belongings.home, self.problems)
        unseen = unreadable_in(belongings, self.problems)
        found = {each: self._judge(each, logs) for each, logs in sessions.items()}
        for ids in sharers(sessions):
            group = [candidate for each in ids if (candidate := found[each]) is not None]
            if len(group) == len(ids) and not unseen:
                self.groups.append(group)
                continue
            for candidate in group:
                if unseen:
                    reason = f"{unseen[0].path} cannot be read: {unseen[0].reason}"
                else:
                    staying = next(each for each in ids if found[each] is None)
                    reason = f"it shares its logs with {staying}, which stays"
                self._spare(candidate.row.id, candidate.row.title, reason)

    def _judge(self, session_id: str, logs: list[LogFile]) -> Candidate | None:
        """Return the session if it has expired; None if it stays."""
        policy = self._facts.policy
        if all(log.is_kept for log in logs if log.kind != "subagent"):
            if not policy.with_kept:
                return None  # It is gone from its home; its kept copies stay.
            if session_id not in self._facts.deleted and not self._may_be_seen(logs):
                self._spare(session_id, None, f"where it was is empty: {UNMOUNTED}")
                return None
        try:
            activity = activity_from_ends(session_id, logs)
            if self._project is not None and not is_within(activity.project, self._project):
                return None
            # The ends of a log may be older than its middle: read it completely before deleting.
            if self._is_young(activity) or self._is_young(
                activity := activity_of(session_id, logs)
            ):
                self.young += 1
                return None
            reason = self._reason_to_spare(session_id, logs, activity)
        except (TurnlogError, OSError) as error:
            self._spare(session_id, None, f"it cannot be read: {error}")
            return None
        if reason is not None or activity.last_active_at is None:
            self._spare(
                session_id, activity.title, reason or "nothing says when it was last active"
            )
            return None
        files = files_to_delete(self.belongings, session_id, logs, with_kept=policy.with_kept)
        rule = policy.rule_of(activity.project)
        row = ExpiredSession(
            id=session_id,
            home=self._home,
            project=activity.project,
            title=activity.title,
            last_active_at=activity.last_active_at,
            is_from_files=activity.is_from_files,
            age_days=(self._facts.now - activity.last_active_at).days,
            days=policy.days_of(activity.project) or 0,
            rule=rule.directory if rule is not None else None,
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
        )
        return Candidate(row, logs, files)

    def _may_be_seen(self, logs: list[LogFile]) -> bool:
        """Return whether main logs would be found in the home if they existed."""
        mains = (log for log in logs if log.kind != "subagent")
        return all(self.belongings.has_any(home_name(log, self.belongings)) for log in mains)

    def _is_young(self, activity: LastActivity) -> bool:
        """Return whether a session was active within its period."""
        if activity.last_active_at is None:
            return False  # Unknown, and spared for that.
        days = self._facts.policy.days_of(activity.project) or self._facts.policy.days
        return self._facts.now - activity.last_active_at < timedelta(days=days)

    def _reason_to_spare(
        self, session_id: str, logs: list[LogFile], activity: LastActivity
    ) -> str | None:
        policy = self._facts.policy
        if policy.days_of(activity.project) is None:
            rule = policy.rule_of(activity.project)
            return f"sessions in {rule.directory if rule else 'its project'} never expire"
        if activity.project is None and policy.projects:
            return "its project is not known, and projects have settings of their own"
        if session_id in self._facts.pins:
            return "it is pinned"
        if session_id in self._facts.running:
            return "it is running"
        if session_id in self.belongings.forks:
            return "a fork continues it"
        if self._is_touched(session_id, logs):
            return "its files were touched within the last hour"
        try:
            refuse_if_running(session_id, logs, (self.belongings.home,))
        except LogLocked:
            return "it is being written"
        return None

    def _is_touched(self, session_id: str, logs: list[LogFile]) -> bool:
        now_ns = int(self._facts.now.timestamp() * 1_000_000_000)
        times = [each.mtime_ns for each in self.belongings.of(session_id) if each.tree == "home"]
        times += [os.stat(log.path).st_mtime_ns for log in logs if not log.is_kept]
        return any(abs(now_ns - each) < TOUCHED.total_seconds() * 1e9 for each in times)

    def _spare(self, session_id: str, title: str | None, reason: str) -> None:
        self.spared.append(
            SparedSession(id=session_id, home=self._home, title=title, reason=reason)
        )


def unreadable_in(belongings: SessionFileIndex, problems: list[Problem]) -> list[UnreadablePlace]:
    """Return the places that could not be read; missing ones are added to *problems*."""
    problems += [each for each in belongings.unseen if each not in problems]
    return [each for each in problems if isinstance(each, UnreadablePlace)]


def sessions_of(home: Home, problems: list[Problem] | None = None) -> dict[str, list[LogFile]]:
    """Return the sessions of a home that have a main log, with all their logs, by id."""
    found: dict[str, list[LogFile]] = {}
    days: list[LogFile] = []
    for log in find_logs(home, problems=problems):
        owner = log.session_id
        if log.kind == "day":
            days.append(log)
        elif owner is None and log.kind == "subagent":
            owner = owner_in(log.path)
        if owner is not None:
            found.setdefault(owner, []).append(log)
    for session_id, logs in share_out(days, problems).items():
        found.setdefault(session_id, []).extend(logs)
    return {
        each: logs for each, logs in found.items() if any(log.kind != "subagent" for log in logs)
    }


def sharers(sessions: dict[str, list[LogFile]]) -> Iterator[list[str]]:
    """Return the sessions in groups that share logs, over any number of days."""
    groups: dict[str, set[str]] = {each: {each} for each in sessions}
    users: dict[Path, list[str]] = {}
    for session_id, logs in sessions.items():
        for path in (log.path for log in logs if log.kind == "day"):
            users.setdefault(path, []).append(session_id)
    for together in users.values():
        joined = set[str]().union(*(groups[each] for each in together))
        for each in joined:
            groups[each] = joined
    seen: set[str] = set()
    for session_id in sessions:
        if session_id not in seen:
            seen |= groups[session_id]
            yield sorted(groups[session_id])


REST: Final = timedelta(days=1)
"""How long an orphan must not have been touched."""

_IN_PROJECTS: Final = {"subagents": "subagents", "tool-results": "tool results"}


class Orphan(Struct, kw_only=True, frozen=True):
    """What is left in one home of a session that does not exist."""

    id: str
    home: str
    kinds: list[str]
    """Its kinds: todos, tasks, file-history, subagents, …"""
    files: int
    size_bytes: int
    changed_at: datetime | None
    """The newest mtime of its files."""
    trash: str | None = None
    """Its name in the trash, once it is there."""


def find_orphans(
    belongings: SessionFileIndex, sessions: Iterable[str], *, now: datetime, rest: timedelta = REST
) -> list[Orphan]:
    """Return the files of a home that belong to none of *sessions*, existing or running."""
    known = set(sessions)
    found = []
    for owner in belongings.owners:
        files = [each for each in belongings.of(owner) if each.tree == "home"]
        if owner in known or not files:
            continue
        changed_at = instant_of_ns(max(file.mtime_ns for file in files))
        if changed_at is not None and now - changed_at >= rest:
            found.append(
                Orphan(
                    id=owner,
                    home=os.path.realpath(belongings.home),
                    kinds=sorted({_kind(each) for each in files}),
                    files=len(files),
                    size_bytes=sum(each.size_bytes for each in files),
                    changed_at=changed_at,
                )
            )
    return found


def empty_directories(
    belongings: SessionFileIndex, sessions: Iterable[str], *, now: datetime, rest: timedelta = REST
) -> list[str]:
    """Return the names of empty directories in a home that were made for sessions."""
    known = set(sessions)
    top = os.path.realpath(belongings.home)
    return [
        f"{place}/{name}"
        for place in session_directories()
        for name in _empty_in(os.path.join(top, place), now - rest)
        if is_session_id(name) and name not in known
    ]


def empty_projects(belongings: SessionFileIndex, *, now: datetime, rest: timedelta) -> list[str]:
    """Return the names of empty project directories."""
    top = os.path.realpath(belongings.home)
    return [
        f"{place}/{name}"
        for place in sorted(project_directories())
        for name in _empty_in(os.path.join(top, place), now - rest)
    ]


def _empty_in(directory: str, before: datetime) -> Iterator[str]:
    """Yield the subdirectories that are empty, and have been since *before*."""
    try:
        with os.scandir(directory) as listing:
            inner = sorted(
                (each for each in listing if each.is_dir(follow_symlinks=False)),
                key=lambda each: each.name,
            )
    except OSError:
        return
    for each in inner:
        try:
            at = instant_of_ns(each.stat(follow_symlinks=False).st_mtime_ns)
            if at is not None and at <= before and not os.listdir(each.path):
                yield each.name
        except OSError:  # Gone, or not readable.
            continue


def _kind(belonging: SessionFile) -> str:
    top, *rest = belonging.name.split("/")
    if top in side_directories():
        return top
    inner = (_IN_PROJECTS[each] for each in rest if each in _IN_PROJECTS)
    return next(inner, "subagents" if belonging.log is not None else "metadata")
