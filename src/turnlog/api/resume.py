"""How to resume a session in Claude Code, and what prevents it."""

from __future__ import annotations

import os
import shlex
import shutil
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from turnlog.api.homes import Home
from turnlog.api.session import KeptSession
from turnlog.catalog.recent import RecentSession, RecentSessions, recent_sessions
from turnlog.formats import claude_log, key_of, same_project_key
from turnlog.records.record import Linked
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import read_head_tail
from turnlog.sessions.session import Session
from turnlog.sessions.state import agent_processes

__all__ = [
    "PROGRAM",
    "Hindrance",
    "Obstacle",
    "RecentSession",
    "RecentSessions",
    "ResumeDocument",
    "Resumption",
    "bring_back",
    "recent_sessions",
    "resumption",
]

PROGRAM = "claude"


class Hindrance(StrEnum):
    """Why Claude Code cannot resume a session."""

    NO_DIRECTORY = "no_directory"  # No record has a working directory.
    DIRECTORY_GONE = "directory_gone"
    ELSEWHERE = "elsewhere"  # The log is not where Claude Code looks for it.
    RUNNING = "running"  # A process has it open.
    SUBAGENTS = "subagents"  # Only the log of a subagent.
    NO_PROGRAM = "no_program"  # Claude Code is not on the PATH.


class Obstacle(Struct, frozen=True, kw_only=True):
    """A reason why a session cannot be resumed, and what to do."""

    kind: Hindrance
    message: str
    hint: str


class Resumption(Struct, frozen=True, kw_only=True):
    """How to resume a session; it is possible if *obstacles* is empty."""

    id: str
    directory: str | None
    command: list[str]
    line: str
    """The command for a shell, with the directory."""
    expected: str | None
    """Where Claude Code will look for the log."""
    path: str
    obstacles: list[Obstacle]


class ResumeDocument(Struct, kw_only=True):
    """What `turnlog resume --json` prints: the sessions to choose from, or how to resume one."""

    sessions: list[RecentSession]
    next: int | None
    resumption: Resumption | None


def bring_back(homes: Sequence[Home], name: str) -> tuple[Session, str | None]:
    """Return a session, and the path it was restored to if it was archived or gone."""
    session = KeptSession.find(homes, name)
    is_claudes = bool(session.main_logs) and session.layout == "claude"
    if is_claudes and (session.is_archived or not session.is_at_home):
        return session, session.unarchive().path
    return session, None


def resumption(session: Session) -> Resumption:
    """Return how to resume *session*, and what prevents it."""
    path = session.path
    found = session.summary if session.layout == "dated" else read_head_tail(path).summary
    directory = _directory(session, found.cwd)
    expected = _expected(session.id, directory) if directory else None
    command = [PROGRAM, "--resume", session.id]
    line = shlex.join(command)
    if directory is not None:
        line = f"cd {_quoted(directory)} && {line}"
    return Resumption(
        id=session.id,
        directory=_text(directory),
        command=command,
        line=line,
        expected=_text(expected),
        path=str(path),
        obstacles=[*_not_listed(session, found), *_obstacles(session, directory, expected)],
    )


def _directory(session: Session, first: str | None) -> str | None:
    """Return the working directory that the path of the log is derived from.

    That is where Claude Code was started; the agent may change the directory before its first
    record.
    """
    log = session.main_logs[-1]
    if first is None or log.layout != "claude" or log.project_key is None:
        return first
    seen = {first}
    if same_project_key(_key(first), log.project_key):
        return first
    for item in session.items():
        cwd = item.record.cwd if isinstance(item.record, Linked) else None
        if cwd is not None and cwd not in seen:
            if same_project_key(_key(cwd), log.project_key):
                return cwd
            seen.add(cwd)
    return first


def _quoted(directory: str) -> str:
    """Quote a path for a shell, with escapes for control characters."""
    if directory.startswith("-"):
        directory = f"./{directory}"
    if directory.isprintable():
        return shlex.quote(directory)
    parts = []
    for character in directory:
        if character.isprintable():
            parts.append(f"\\{character}" if character in "\\'" else character)
        else:
            parts += (f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return f"$'{''.join(parts)}'"


def _key(directory: str) -> str:
    return key_of(unicodedata.normalize("NFC", directory))


def _expected(session_id: str, directory: str) -> str | None:
    """Return where Claude Code, started in *directory*, looks for the session's log."""
    try:
        return str(claude_log(_claude_home(), directory, session_id))
    except ValueError:  # An id or a path that Claude Code does not accept.
        return None


def _claude_home() -> str:
    """Return the home that Claude Code uses: to it, a list of homes is one name."""
    setting = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return unicodedata.normalize("NFC", setting) if setting else os.path.expanduser("~/.claude")


def _not_listed(session: Session, found: SessionSummary) -> list[Obstacle]:
    if not found.is_sidechain:
        return []
    return [
        Obstacle(
            kind=Hindrance.SUBAGENTS,
            message=f"{session.id[:8]} is a subagent's log, not a session to resume",
            hint="turnlog resume lists the sessions to choose from",
        )
    ]


def _obstacles(session: Session, directory: str | None, expected: str | None) -> list[Obstacle]:
    found: list[Obstacle] = []
    short = session.id if len(session.id) < 9 else session.id[:8]
    if directory is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_DIRECTORY,
                message=f"no record of session {short} says in which directory it worked",
                hint=f"go to the directory yourself, then: {PROGRAM} --resume {session.id}",
            )
        )
    elif not os.path.isdir(directory):
        found.append(
            Obstacle(
                kind=Hindrance.DIRECTORY_GONE,
                message=f"the directory it worked in is gone: {_text(directory)}",
                hint="make it again, or clone the project there, and try once more",
            )
        )
    if expected is None or not _is_same(session.path, expected):
        found.append(
            Obstacle(
                kind=Hindrance.ELSEWHERE,
                message=f"Claude Code will not find it: its log is {session.path}",
                hint=f"a copy that it finds: {shlex.join(_copying(session))}",
            )
        )
    found += _running(session)
    if shutil.which(PROGRAM) is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_PROGRAM,
                message=f"{PROGRAM} is not on the PATH",
                hint="install Claude Code, or add its directory to the PATH",
            )
        )
    return found


def _copying(session: Session) -> list[str]:
    """Return the command that copies the session to where Claude Code looks."""
    log = session.main_logs[-1]
    how = ["fork"] if log.layout == "claude" else ["convert", "--to", "claude"]
    return ["turnlog", *how, session.id, "--home", os.fspath(log.home), "--into", _claude_home()]


def _is_same(path: Path, expected: str) -> bool:
    """Return whether the log at *path* is the one that Claude Code would open as *expected*."""
    there = Path(expected)
    if os.path.realpath(path) == os.path.realpath(there):
        return True
    # Builds differ in the hash of long keys; Claude Code looks for both.
    return (
        path.name == there.name
        and os.path.realpath(path.parent.parent) == os.path.realpath(there.parent.parent)
        and same_project_key(path.parent.name, there.parent.name)
    )


def _running(session: Session) -> list[Obstacle]:
    home = session.main_logs[-1].home
    return [
        Obstacle(
            kind=Hindrance.RUNNING,
            message=f"process {each.pid} has it open",
            hint="end that first: two programs in one session make two branches of it",
        )
        for each in agent_processes(home)
        if each.session_id == session.id and each.is_alive
    ]


def _text(value: str | None) -> str | None:
    """Return text that JSON can hold; directories may be any bytes."""
    return value if value is None else value.encode("utf-8", "replace").decode()
