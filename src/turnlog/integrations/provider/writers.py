"""The logs that a provider has open: few, and each written by one task at a time.

Opening a log means reading what is there, so writers are kept between messages: the most recently
used ones, of which none is closed while somebody writes with it. What other programs append in
between is seen before the next message is placed. After a failure of the machine the writer is
given up, and the next message opens the log anew.

A writer that is closed says goodbye in its log, also when the provider is forgotten or the program
ends. One that was killed does not, and the session is known to have crashed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnlog.api.session import KeptSession
from turnlog.errors import LogError, NotFound, TurnlogError, UsageError
from turnlog.formats import todo_file
from turnlog.integrations.provider.places import Project, check_ids
from turnlog.records.codec import encode
from turnlog.records.record import Record
from turnlog.sessions.owners import owner_in
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage.atomic_files import failure, put

OPEN_LOGS: Final = 16


class _Key(NamedTuple):
    directory: str
    session_id: str
    agent_id: str | None


class _Slot:
    """A writer, whether it is open, and how many want it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writer: SessionWriter | None = None
        self.wanted_by = 0
        self.has_todos = False


_Slots = OrderedDict[_Key, _Slot]


class Uuids:
    """The fold that knows the uuids of a log's records."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def take(self, record: Record) -> None:
        if record.uuid is not None:
            self.seen.add(record.uuid)


class Writers:
    """The writers of one provider."""

    def __init__(self, most: int = OPEN_LOGS) -> None:
        if most < 1:
            raise UsageError(f"{most} logs cannot be open", hint="allow at least 1")
        self._most = most
        self._lock = threading.Lock()
        self._slots: _Slots = OrderedDict()
        # Also at the end of the program; not in a child that was forked from it.
        self._goodbye = weakref.finalize(self, _close_quietly, self._slots, os.getpid())

    def append(
        self, project: Project, session_id: str, agent_id: str | None, said: dict[str, Any]
    ) -> None:
        """Append one record durably; one with a uuid that is there already is not written again."""
        agent = check_ids(session_id, agent_id)
        with self._held(_Key(project.directory, session_id, agent)) as slot:
            if slot.writer is not None and not slot.writer.path.exists():
                slot.writer.abandon()  # Deleted or archived since: it is opened anew.
                slot.writer = None
            if slot.writer is None:
                encode(said)  # What cannot be written must not leave an empty log.
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
        """Close the writers of the projects whose directories are *wanted*."""
        with self._lock:
            found = [(key, slot) for key, slot in self._slots.items() if wanted(key.directory)]
            for key, _ in found:
                del self._slots[key]
        for _, slot in found:
            _close(slot)

    def close(self) -> None:
        """Close all of them. The next message opens its log again."""
        self.release(lambda _: True)

    @property
    def open(self) -> int:
        """How many logs are open."""
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
                    # Else it was closed while we waited for it, and belongs to nobody.
                    is_held = self._slots.get(key) is slot
                    if is_held:
                        yield slot
            finally:
                for spare in self._spare(slot):
                    with contextlib.suppress(LogError):  # Only its goodbye could not be said.
                        _close(spare)

    def _spare(self, slot: _Slot) -> list[_Slot]:
        """Say that *slot* is free; give the writers that are to go, the longest unused first."""
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
    """Return the place of a session's main log; one that is archived is brought back to it."""
    path = project.main_log(session_id)
    found = KeptSession.find_exactly((project.home,), session_id)
    logs = [log for log in found.logs if log.kind != "subagent"] if found else []
    here = [log.path for log in logs if project.holds(log)]
    if found is None or not logs:
        return path
    if not here:
        raise UsageError(
            f"session {session_id} is not one of {project.directory}: {found.path}",
            hint="name the project it works in, or fork it into a new session",
        )
    if found.is_archived or not found.is_at_home:
        found.unarchive()
        return path
    return here[0]


class _SubagentWriter(SessionWriter):
    """Writes an agent's log. Those beside the sessions are called after the agent alone."""

    def _is_mine(self, record: Record) -> bool:
        # Asked under the log's lock: also of what another session began just now.
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
        f"there is no message {parent[:80]!r} in {path}",
        hint="leave parent_id out to go on from the last message",
    )


def _begin_todos(project: Project, session_id: str, agent: str) -> None:
    """Give an agent a list of todos, unless it has one."""
    path = todo_file(project.home, session_id, agent)
    try:
        put(project.home.path, ("todos", path.name), [b"[]"], overwrite=False)
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
