"""Where a provider's sessions lie: one home, in Claude Code's layout, by project.

A session is named by its whole id and its project; nothing is guessed from the beginning of an id.
A project is one directory. Where two share a key (``/a/b`` and ``/a-b``), the sessions themselves
tell whose they are. Logs that are gone, and of which turnlog keeps a copy, are found as well.
Nothing is written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from turnlog.api.sessions import SessionRow, list_sessions
from turnlog.errors import NotFound, UsageError
from turnlog.formats import (
    Home,
    LogFile,
    check_session_id,
    check_subagent_id,
    claude_log,
    claude_subagent_log,
    find_logs,
    project_key,
    same_project_key,
)
from turnlog.sessions.owners import owner_in
from turnlog.sessions.session import Session

PathLike = str | os.PathLike[str]

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Project(Struct, frozen=True):
    """A project of a home: its directory, and the key under which its sessions lie."""

    home: Home
    directory: str
    key: str

    def holds(self, log: LogFile) -> bool:
        """Return whether *log* lies where the project's sessions do."""
        key = log.project_key
        return log.layout == "claude" and key is not None and same_project_key(key, self.key)

    def is_mine(self, told: str | None) -> bool:
        """Return whether a session that lies here, and says it worked in *told*, is the project's.

        One that says nothing is, and so is one that went elsewhere. One of another project with the
        same key is not.
        """
        try:
            if told is None or os.path.realpath(told) == os.path.realpath(self.directory):
                return True
            return not same_project_key(project_key(told), self.key)
        except ValueError:  # No directory is called that, so it is no other project's.
            return True

    def main_log(self, session_id: str) -> Path:
        return claude_log(self.home, self.directory, session_id)

    def agent_log(self, session_id: str, agent_id: str) -> Path:
        """Return the place of an agent's log: where it lies, else beside the session's."""
        nested = claude_subagent_log(self.home, self.directory, session_id, agent_id)
        if os.path.lexists(nested):
            return nested
        return claude_subagent_log(self.home, self.directory, session_id, agent_id, nested=False)


def home_at(base_dir: PathLike) -> Home:
    """Return the home at *base_dir*, which need not exist yet."""
    return Home(Path(_whole(base_dir, "a base directory")))


def project_in(home: Home, project_path: PathLike) -> Project:
    directory = _whole(project_path, "a project")
    return Project(home, directory, project_key(directory))


def check_ids(session_id: str, agent_id: str | None = None) -> str | None:
    """Check both ids; give the agent's, or None if it is the main agent's, the session's own."""
    check_session_id(session_id)
    if agent_id is None or agent_id == session_id:
        return None
    return check_subagent_id(agent_id)


def find_log(project: Project, session_id: str, agent_id: str | None = None) -> Session:
    """Return the session as read from its main log, or from that of one of its agents."""
    agent = check_ids(session_id, agent_id)
    path = project.main_log(session_id) if agent is None else project.agent_log(session_id, agent)
    if path.is_file() and (agent is None or owner_in(path) in (session_id, None)):
        return Session(session_id, (_as_main(project, session_id, path),))
    session = Session.find_exactly((project.home,), session_id)
    for log in session.logs if session else ():
        if agent is None and log.kind == "session" and project.holds(log):
            return Session(session_id, (log,))
        if log.kind == "subagent" and log.agent_id == agent and project.holds(log):
            return Session(session_id, (_as_main(project, session_id, log.path),))
    raise _not_found(project, session_id, agent, session)


def sessions_in(project: Project, *, archived: bool | None = False) -> list[SessionRow]:
    """List the project's sessions, the one that was active last first."""
    rows = [
        row
        for row in list_sessions((project.home,), archived=archived, copies=True).sessions
        if row.layout == "claude"
        and same_project_key(Path(row.path).parent.name, project.key)
        and project.is_mine(row.project)
    ]
    # Two may have been active in the same millisecond; then the log that changed last is newer.
    rows.sort(key=lambda row: (row.last_active_at or _LONG_AGO, _changed_ns(row)), reverse=True)
    return rows


def logs_in(project: Project) -> Iterator[tuple[str, LogFile]]:
    """Return all logs that lie in the project, agents' too, each with its session's id."""
    for log in find_logs(project.home):
        if not project.holds(log) or log.kind == "day":
            continue
        owner = log.session_id or owner_in(log.path)
        if owner is not None:
            yield owner, log


def provider_subagents(project: Project, session_id: str) -> list[str]:
    """List the ids of a session's agents."""
    check_ids(session_id)
    found = [log for owner, log in logs_in(project) if owner == session_id]
    if not found:
        elsewhere = Session.find_exactly((project.home,), session_id)
        raise _not_found(project, session_id, None, elsewhere)
    return sorted({log.agent_id for log in found if log.agent_id is not None})


def _as_main(project: Project, session_id: str, path: Path) -> LogFile:
    """Describe a log as the one that is read for the session."""
    return LogFile(path, project.home, "claude", "session", session_id, None, project.key, None)


def _not_found(
    project: Project, session_id: str, agent: str | None, session: Session | None
) -> NotFound:
    if session is None or not any(project.holds(log) for log in session.logs):
        where = f"; it lies in {session.logs[0].path.parent}" if session else ""
        return NotFound(
            f"no session {session_id} in {project.directory}{where}",
            hint="get_sessions lists the sessions of a project; ids are given whole",
        )
    who = "its main log" if agent is None else f"agent {agent}"
    return NotFound(
        f"session {session_id} has no log of {who}",
        hint="get_agents lists the agents of a session",
    )


def _changed_ns(row: SessionRow) -> int:
    try:
        return os.stat(row.path).st_mtime_ns
    except OSError:
        return -1  # Gone since it was listed.


def _whole(path: PathLike, what: str) -> str:
    text: Any = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or not _can_be_named(text):
        raise UsageError(f"{str(path)[:80]!r} is not the path of {what}", hint="give a directory")
    return os.path.abspath(os.path.expanduser(text))


def _can_be_named(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # A lone surrogate.
        return False
