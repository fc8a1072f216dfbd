"""Where a converted session goes: its id there, its logs' places, and what stands there already.

A session keeps its id wherever that can be a name; else it becomes a UUID, always the same one, and
coming home it gets its old id back. Likewise its project's directory has the name that the path
makes, and at home the name it had. What a log's head says of these is checked before it becomes
part of a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Final

from turnlog.errors import InvalidId
from turnlog.formats import (
    Home,
    LayoutName,
    LogFile,
    claude_log,
    dated_log,
    find_logs,
    flat_directory,
    flat_log,
    hash_of,
    is_session_id,
    is_uuid,
    key_of,
    project_hash,
    project_key,
    subagent_log_near,
)
from turnlog.sessions.carry import Origin
from turnlog.sessions.dated import nameless_id, share_out
from turnlog.sessions.retell import uuid_of
from turnlog.sessions.session import Session
from turnlog.storage.scan import find_lines

_NAME_MAX: Final = 255


class Destination:
    """The places of one session in *layout* under *root*.

    *project* is the directory that it works in; *is_named* says that it was named by hand, and
    then its sessions lie under it also at home.
    """

    def __init__(
        self, root: Path, layout: LayoutName, origin: Origin, project: str, *, is_named: bool
    ) -> None:
        self.root = root
        self.layout = layout
        self.id = target_id(origin, layout)
        self.only_day = _day_in(origin) if layout == "dated" else None
        """The one day of a session whose records bear no id: it is called HASH/DATE after it."""
        self._goes_home = not is_named or self.only_day is not None
        self._project = _project_name(layout, project, self._known(origin))

    def log(self, day: date) -> Path:
        """Give the place of the main log; in days' logs, of the one of *day*."""
        if self.layout == "flat":
            return flat_log(flat_directory(self.root), self.id)
        if self.layout == "claude":
            path = claude_log(self.root, os.sep, self.id)
        else:
            path = dated_log(self.root, os.sep, self.only_day or day)
        return path.parent.with_name(self._project) / path.name

    def agent_log(self, agent_id: str, inner: Iterable[str], origin: Origin) -> Path:
        """Give the place of an agent's log, in the directories *inner* of its session's own."""
        name = self.id if is_session_id(self.id) else uuid_of(self.id)
        main = self.log(date.min)
        known = self._known(origin)
        if known is not None:  # Agents may work in another project than their session.
            main = main.parent.with_name(_project_name(self.layout, "", known)) / main.name
        nested = subagent_log_near(main, name, agent_id)
        if origin.is_beside and origin.layout == self.layout:
            return main.with_name(nested.name)
        return nested.parent.joinpath(*inner, nested.name)

    def standing(self) -> list[LogFile]:
        """Find the main logs that the session has there already."""
        if not self.root.is_dir():
            return []
        found = find_logs(Home(self.root))
        logs = [log for log in found if log.layout == self.layout and log.kind != "agent"]
        if self.layout != "dated":
            return [log for log in logs if log.session_id == self.id]
        if self.only_day is not None:
            logs = [log for log in logs if nameless_id(log) == self.id]
        elif is_session_id(self.id):  # Else it may be written in several ways.
            logs = [log for log in logs if _mentions(log.path, self.id.encode())]
        return share_out(logs).get(self.id, [])

    def _known(self, origin: Origin) -> str | None:
        """Give the name of the project's directory that a log goes home to."""
        at_home = origin.layout == self.layout != "flat"
        return origin.project if at_home and self._goes_home else None


def target_id(origin: Origin, layout: LayoutName) -> str:
    """Give the id that a session gets in *layout*."""
    if layout in (origin.layout, "dated"):
        return origin.id
    if layout == "claude":
        return origin.id if is_uuid(origin.id) else uuid_of(origin.id)
    try:
        flat_log(os.sep, origin.id)
    except InvalidId:
        return uuid_of(origin.id)
    return origin.id


def agents_of(session: Session) -> Iterator[tuple[LogFile, tuple[str, ...]]]:
    """Give the agents' logs, each with the directories between ``subagents`` and it.

    Two logs of one agent are two logs, even if one directory would have to hold both.
    """
    taken: set[tuple[str | None, ...]] = set()
    for log in session.agent_logs:
        inner = _inner(session.id, log)
        if (*inner, log.agent_id) in taken:
            inner = (f"copy-{len(taken)}", *inner)
        taken.add((*inner, log.agent_id))
        yield log, inner


def _inner(session_id: str, log: LogFile) -> tuple[str, ...]:
    parts = log.path.parts
    for number in range(len(parts) - 3, -1, -1):
        if log.session_id is not None and parts[number : number + 2] == (session_id, "subagents"):
            return parts[number + 2 : -1]
    return ()


def _day_in(origin: Origin) -> date | None:
    project, _, day = origin.id.rpartition("/")
    if origin.layout != "dated" or not project or project != origin.project:
        return None
    try:
        return date.fromisoformat(day)
    except ValueError:
        return None


def _project_name(layout: LayoutName, path: str, known: str | None) -> str:
    """Give the name of the project's directory: the one it had, or what its path makes."""
    if known is not None:
        if known.startswith(".") or set(known) & set("/\\\0") or not 0 < len(known) <= _NAME_MAX:
            raise InvalidId(
                f"{known[:80]!r} cannot be the name of a project's directory",
                hint="it stands at the head of the log; name the project by hand instead",
            )
        return known
    by_path, by_text = (project_hash, hash_of) if layout == "dated" else (project_key, key_of)
    try:
        if os.path.isabs(path):
            return by_path(path)
    except ValueError:
        pass
    return by_text(path)  # The path of another system has no place here, but a name.


def _mentions(path: Path, name: bytes) -> bool:
    with find_lines(path, name) as lines:
        return any(True for _ in lines)
