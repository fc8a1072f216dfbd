"""The logs of a provider: where they are, and the writers that are open.

Sessions are in one home, in Claude Code's layout, by project, and are named by complete ids. If
two projects share a key (``/a/b`` and ``/a-b``), the sessions' own records decide. Deleted logs
are found if turnlog has a kept copy.

Opening a log means reading it, so the most recently used writers stay open between messages, and
none is closed while it is in use. Records from other programs are read before the next message is
placed. After an I/O error a writer is abandoned and the log is reopened. Closing a writer marks
the session as ended; a killed process leaves a crashed session.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.api.sessions.kept_session import KeptSession
from turnlog.api.sessions.lists import SessionRow, list_sessions
from turnlog.errors import LogError, NotFound, TurnlogError, UsageError
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
    todo_file,
)
from turnlog.records.codec import encode
from turnlog.records.record import Record
from turnlog.sessions.owners import owner_in
from turnlog.sessions.session import Session
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage.atomic_files import failure, put

PathLike = str | os.PathLike[str]

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class Project(Struct, frozen=True):
    """A project of a home: its directory and its key."""

    home: Home
    directory: str
    key: str

    def holds(self, log: LogFile) -> bool:
        """Return True if *log* is in the project's directory of the home."""
        key = log.project_key
        return log.layout == "claude" and key is not None and same_project_key(key, self.key)

    def is_mine(self, cwd: str | None) -> bool:
        """Return False if *cwd*, from the records of a session here, is another project's.

        Another project has the same key. A session that changed its directory stays here.
        """
        try:
            if cwd is None or os.path.realpath(cwd) == os.path.realpath(self.directory):
                return True
            return not same_project_key(project_key(cwd), self.key)
        except ValueError:  # Not a valid path, so not another project.
            return True

    def main_log(self, session_id: str) -> Path:
        return claude_log(self.home, self.directory, session_id)

    def agent_log(self, session_id: str, agent_id: str) -> Path:
        """Return the path of a subagent log, existing or new."""
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
    """Validate both ids; return the agent id, or None for the main agent."""
    check_session_id(session_id)
    if agent_id is None or agent_id == session_id:
        return None
    return check_subagent_id(agent_id)


def find_log(project: Project, session_id: str, agent_id: str | None = None) -> Session:
    """Return the session with its main log, or with the log of one subagent, or raise NotFound."""
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
    """Return the project's sessions, most recently active first."""
    rows = [
        row
        for row in list_sessions((project.home,), archived=archived, copies=True).sessions
        if row.layout == "claude"
        and same_project_key(Path(row.path).parent.name, project.key)
        and project.is_mine(row.project)
    ]
    # If two were active in the same millisecond, the mtime decides.
    rows.sort(key=lambda row: (row.last_active_at or _LONG_AGO, _changed_ns(row)), reverse=True)
    return rows


def logs_in(project: Project) -> Iterator[tuple[str, LogFile]]:
    """Yield all logs of the project with their session ids."""
    for log in find_logs(project.home):
        if not project.holds(log) or log.kind == "day":
            continue
        owner = log.session_id or owner_in(log.path)
        if owner is not None:
            yield owner, log


def provider_subagents(project: Project, session_id: str) -> list[str]:
    """Return the ids of a session's subagents."""
    check_ids(session_id)
    found = [log for owner, log in logs_in(project) if owner == session_id]
    if not found:
        elsewhere = Session.find_exactly((project.home,), session_id)
        raise _not_found(project, session_id, None, elsewhere)
    return sorted({log.agent_id for log in found if log.agent_id is not None})


def _as_main(project: Project, session_id: str, path: Path) -> LogFile:
    """Return a log as the main log of the session."""
    return LogFile(path, project.home, "claude", "session", session_id, None, project.key, None)


def _not_found(
    project: Project, session_id: str, agent: str | None, session: Session | None
) -> NotFound:
    if session is None or not any(project.holds(log) for log in session.logs):
        where = f"; it is in {session.logs[0].path.parent}" if session else ""
        return NotFound(
            f"no session {session_id} in {project.directory}{where}",
            hint="get_sessions lists the sessions of a project; use complete ids",
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
        return -1  # Just deleted.


def _whole(path: PathLike, what: str) -> str:
    text: Any = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or not _can_be_named(text):
        raise UsageError(f"{str(path)[:80]!r} is not the path of {what}", hint="pass a directory")
    return os.path.abspath(os.path.expanduser(text))


def _can_be_named(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # A lone surrogate.
        return False


OPEN_LOGS: Final = 16


class _Key(NamedTuple):
    directory: str
    session_id: str
    agent_id: str | None


class _Slot:
    """A writer, open or not, and the number of its users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writer: SessionWriter | None = None
        self.wanted_by = 0
        self.has_todos = False


_Slots = OrderedDict[_Key, _Slot]


class Uuids:
    """A fold that collects the uuids of a log."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def take(self, record: Record) -> None:
        if record.uuid is not None:
            self.seen.add(record.uuid)


class Writers:
    """The writers of a provider."""

    def __init__(self, most: int = OPEN_LOGS) -> None:
        if most < 1:
            raise UsageError(f"invalid number of open logs: {most}", hint="use at least 1")
        self._most = most
        self._lock = threading.Lock()
        self._slots: _Slots = OrderedDict()
        # Also runs at exit, but not in a forked child.
        self._goodbye = weakref.finalize(self, _close_quietly, self._slots, os.getpid())

    def append(
        self, project: Project, session_id: str, agent_id: str | None, said: dict[str, Any]
    ) -> None:
        """Append a record durably, unless its uuid is in the log already."""
        agent = check_ids(session_id, agent_id)
        with self._held(_Key(project.directory, session_id, agent)) as slot:
            if slot.writer is not None and not slot.writer.path.exists():
                slot.writer.abandon()  # Deleted or archived since: reopen it.
                slot.writer = None
            if slot.writer is None:
                encode(said)  # Raises before an empty log is created.
                slot.writer = _open(project, session_id, agent, said.get("parentUuid"))
            try:
                _check_parent(slot.writer, said)
                slot.writer.append(said)
            except LogError:
                slot.writer.abandon()
                slot.writer = None
                raise
            if agent is not None and not slot.has_todos:
                _begin_todos(project, session_id, agent)
                slot.has_todos = True

    def release(self, wanted: Callable[[str], bool]) -> None:
        """Close the writers of projects whose directory *wanted* accepts."""
        with self._lock:
            found = [(key, slot) for key, slot in self._slots.items() if wanted(key.directory)]
            for key, _ in found:
                del self._slots[key]
        for _, slot in found:
            _close(slot)

    def close(self) -> None:
        """Close all writers. The next message reopens its log."""
        self.release(lambda _: True)

    @property
    def open(self) -> int:
        """The number of open logs."""
        return sum(slot.writer is not None for slot in list(self._slots.values()))

    @contextlib.contextmanager
    def _held(self, key: _Key) -> Iterator[_Slot]:
        is_held = False
        while not is_held:
            with self._lock:
                slot = self._slots.setdefault(key, _Slot())
                self._slots.move_to_end(key)
                slot.wanted_by += 1
            try:
                with slot.lock:
                    # False if it was closed while we waited.
                    is_held = self._slots.get(key) is slot
                    if is_held:
                        yield slot
            finally:
                for spare in self._spare(slot):
                    with contextlib.suppress(LogError):  # Only the end mark was not written.
                        _close(spare)

    def _spare(self, slot: _Slot) -> list[_Slot]:
        """Release *slot*; return the slots to close, least recently used first."""
        with self._lock:
            slot.wanted_by -= 1
            unused = [key for key, each in self._slots.items() if not each.wanted_by]
            empty = [key for key in unused if self._slots[key].writer is None]
            spare = [*empty, *(key for key in unused if key not in empty)]
            too_many = len(empty) + max(0, len(self._slots) - len(empty) - self._most)
            return [self._slots.pop(key) for key in spare[:too_many]]


def _open(
    project: Project, session_id: str, agent: str | None, parent: str | None
) -> SessionWriter:
    if agent is None:
        path = _main_log(project, session_id)
    else:
        path = project.agent_log(session_id, agent)
        _refuse_strangers(path, session_id, agent, owner_in(path) if path.exists() else None)
    if parent is not None and not path.exists():
        raise _no_parent(path, parent)
    return (SessionWriter if agent is None else _SubagentWriter)(
        path,
        session_id=session_id,
        cwd=project.directory,
        agent_id=agent,
        root=project.home.path,
    )


def _main_log(project: Project, session_id: str) -> Path:
    """Return the path of a session's main log; unarchive it if needed."""
    path = project.main_log(session_id)
    found = KeptSession.find_exactly((project.home,), session_id)
    logs = [log for log in found.logs if log.kind != "subagent"] if found else []
    here = [log.path for log in logs if project.holds(log)]
    if found is None or not logs:
        return path
    if not here:
        raise UsageError(
            f"session {session_id} does not belong to {project.directory}: {found.path}",
            hint="use its own project, or fork it",
        )
    if found.is_archived or not found.is_at_home:
        found.unarchive()
        return path
    return here[0]


class _SubagentWriter(SessionWriter):
    """Writer of a subagent log, which may be named after the agent alone."""

    def _is_mine(self, record: Record) -> bool:
        # Runs under the lock, so it sees a log that another session just created.
        _refuse_strangers(self.path, self.session_id, self.agent_id, record.session_id)
        return True


def _refuse_strangers(path: Path, session_id: str, agent: str | None, owner: str | None) -> None:
    if owner is not None and owner != session_id:
        raise UsageError(
            f"agent {agent} belongs to session {owner}: {path}",
            hint=f"choose another agent id for session {session_id}",
        )


def _check_parent(writer: SessionWriter, said: dict[str, Any]) -> None:
    parent = said.get("parentUuid")
    if parent is None:
        return
    seen = writer.folded(Uuids).seen
    if parent not in seen and said["uuid"] not in seen:
        raise _no_parent(writer.path, parent)


def _no_parent(path: Path, parent: str) -> NotFound:
    return NotFound(
        f"no message {parent[:80]!r} in {path}",
        hint="omit parent_id to follow the last message",
    )


def _begin_todos(project: Project, session_id: str, agent: str) -> None:
    """Create an empty todo list for a subagent, unless it has one."""
    path = todo_file(project.home, session_id, agent)
    try:
        put(project.home.path, path.parts[-2:], [b"[]"], overwrite=False)
    except FileExistsError:
        pass
    except OSError as error:
        raise failure(error, path) from None


def _close(slot: _Slot) -> None:
    with slot.lock:
        writer, slot.writer = slot.writer, None
        if writer is not None:
            writer.close()


def _close_quietly(slots: _Slots, pid: int) -> None:
    if os.getpid() == pid:
        for slot in slots.values():
            with contextlib.suppress(TurnlogError, OSError):
                _close(slot)
