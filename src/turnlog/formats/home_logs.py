"""Find every log of one home, in any mixture of layouts.

The order is fixed, each log is returned once, and nothing on disk raises: unreadable directories
and files that only look like logs become Problems. Names are read, never contents. Links are
followed last, so a log is known by its real path rather than by a link.

    projects/KEY/ID.jsonl                            session      claude
    projects/KEY/agent-ID.jsonl                      subagent     claude   (session: in its records)
    projects/KEY/ID/subagents/**/agent-ID.jsonl      subagent     claude
    projects/HASH/DATE.jsonl                         day          dated
    sessions/ID.jsonl, sessions/compressed/*.gz      session      flat
    sessions/compressed/ID/subagents/**/*.gz         subagent     flat
    *.jsonl in the home itself                       all kinds    flat     (if it is a flat store)

Any of them may end in .gz or .zst.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from turnlog.formats.homes import Home
from turnlog.formats.ids import check_session_id, is_session_id, is_uuid
from turnlog.formats.log_file import LayoutName, LogFile, looks_like_log, read_name
from turnlog.formats.walk import DirectoryWalk, Item

_Role: TypeAlias = Literal["projects", "project", "session", "subagents", "flat", "compressed"]


class _SearchPlace(NamedTuple):
    """A directory to search, and its role."""

    path: str
    real: str
    role: _Role
    project_key: str | None = None
    session_id: str | None = None


class Search:
    """The search of one home. *found* holds the real paths of the logs returned so far."""

    def __init__(
        self, home: Home, walk: DirectoryWalk, found: set[str], *, expected: bool = True
    ) -> None:
        self.home = home
        self.expected = expected
        self.walk = walk
        self.found = found
        self.waiting: list[_SearchPlace] = []  # A stack, not recursion: trees may be very deep.
        self.linked_places: deque[_SearchPlace] = deque()
        self.linked_files: list[tuple[_SearchPlace, Item]] = []

    def logs(self) -> Iterator[LogFile]:
        yield from self._home()
        while self.waiting or self.linked_places:
            place = self.waiting.pop() if self.waiting else self.linked_places.popleft()
            yield from self._look(place, self.walk.enter(place.path, place.real))
        for place, item in self.linked_files:
            if (log := self._log(place, item)) is not None:
                yield log

    def _home(self) -> Iterator[LogFile]:
        path = os.fspath(self.home)
        real = os.path.realpath(path)
        items = self.walk.enter(path, real, expected=self.expected)
        places: list[tuple[Item, _SearchPlace]] = []
        for item in items:
            if item.name in {"projects", "sessions"} and item.kind == "broken":
                self.walk.note_unreadable(item.path, item.why)
            # A file of that name is queued too: entering it reports the problem.
            elif item.name == "projects":
                places.append((item, _SearchPlace(item.path, item.real, "projects")))
            elif item.name == "sessions":
                places.append((item, _SearchPlace(item.path, item.real, "flat")))
        has_projects = any(place.role == "projects" for _, place in places)
        self._queue(places)
        if not has_projects or _is_flat_store(items):
            yield from self._look(_SearchPlace(path, real, "flat"), items)

    def _look(self, place: _SearchPlace, items: list[Item]) -> Iterator[LogFile]:
        """Yield the logs of one directory, and queue subdirectories that may hold more."""
        inner: list[tuple[Item, _SearchPlace]] = []
        names = (read_name(item.name) for item in items if place.role == "flat")
        ids = {name.id for name in names if name is not None}
        for item in items:
            if item.kind == "file":
                if place.role in {"projects", "session"}:
                    continue
                if item.linked:
                    self.linked_files.append((place, item))
                elif (log := self._log(place, item)) is not None:
                    yield log
            elif looks_like_log(item.name):
                note = self.walk.note_unreadable if item.kind == "broken" else self.walk.note
                note(item.path, item.why or "a directory, not a log")
            elif (below := _below(place, item, ids)) is not None:
                if item.kind == "directory":
                    inner.append((item, below))
                elif item.kind == "broken":
                    self.walk.note_unreadable(item.path, item.why)
        self._queue(inner)

    def _queue(self, places: list[tuple[Item, _SearchPlace]]) -> None:
        self.waiting.extend(place for item, place in reversed(places) if not item.linked)
        self.linked_places.extend(place for item, place in places if item.linked)

    def _log(self, place: _SearchPlace, item: Item) -> LogFile | None:
        """Return the log that *item* is; None if it is not one, or was returned before."""
        name = read_name(item.name)
        if name is None or (place.role == "subagents" and name.kind != "subagent"):
            if looks_like_log(item.name):
                self.walk.note(item.path, "no log is called that here")
            return None
        if item.real in self.found:
            return None
        self.found.add(item.real)
        session_id = place.session_id if name.kind == "subagent" else None
        layout: LayoutName = "flat" if place.project_key is None else "claude"
        return LogFile(
            path=Path(item.path),
            home=self.home,
            layout="dated" if name.kind == "day" else layout,
            kind=name.kind,
            session_id=name.id if name.kind == "session" else session_id,
            agent_id=name.id if name.kind == "subagent" else None,
            project_key=place.project_key,
            compression=name.compression,
        )


def _below(place: _SearchPlace, item: Item, ids: set[str]) -> _SearchPlace | None:
    """Return the role of the directory *item* in *place*; None if it holds no logs.

    *ids* are those of the logs next to it in a flat store.
    """
    name = item.name
    if name.startswith("."):
        return None
    if place.role == "projects":
        return _SearchPlace(item.path, item.real, "project", project_key=name)
    if place.role == "subagents":
        # Workflows nest their subagents' logs in directories of their own.
        return _SearchPlace(item.path, item.real, "subagents", place.project_key, place.session_id)
    if place.role == "session" and name == "subagents":
        return _SearchPlace(item.path, item.real, "subagents", place.project_key, place.session_id)
    if place.role == "project" and is_session_id(name):
        return _SearchPlace(item.path, item.real, "session", place.project_key, name)
    if place.role == "flat" and name == "compressed":
        return _SearchPlace(item.path, item.real, "compressed")
    if place.role == "compressed" and is_session_id(name):
        return _SearchPlace(item.path, item.real, "session", None, name)
    if place.role == "flat" and (is_uuid(name) or name in ids):
        # A copy of one project's directory at any path: its agents' logs came along.
        return _SearchPlace(item.path, item.real, "session", None, name)
    return None


def _is_flat_store(items: list[Item]) -> bool:
    names = [item.name.removesuffix(".zst") for item in items]  # The names of kept copies.
    return any(name == "index.json" or name.endswith(".meta.json") for name in names)


def subagent_logs_near(main: str | os.PathLike[str], session_id: str) -> Iterator[Path]:
    """Return the plain logs of a session's subagents in the directory next to its main log."""
    directory = Path(main).parent / check_session_id(session_id) / "subagents"
    for item in DirectoryWalk().files_beneath(str(directory)):
        name = read_name(item.name)
        if name is not None and name.kind == "subagent" and name.compression is None:
            yield Path(item.path)
