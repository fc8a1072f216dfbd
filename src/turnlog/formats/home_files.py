"""The files of a home that are worth keeping, and the session each belongs to.

These are the logs and their side files: whatever agents did, said or were asked. Files of the agent
program alone (settings, plugins, caches) and unfinished files of turnlog are excluded. Each regular
file is returned once, under its real name whatever links lead to it. Nothing on disk raises:
special files and unreadable places become Problems. Names and sizes are read, never contents.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.formats.ids import is_session_id, is_uuid
from turnlog.formats.log_file import read_name
from turnlog.formats.walk import DirectoryWalk, Item, Problem, reason_of

OF_SESSIONS: Final = ("file-history", "image-cache", "session-env", "tasks")
"""Directories of a home that have one directory for each session."""

KEPT_DIRECTORIES: Final = frozenset(
    {"paste-cache", "plans", "projects", "sessions", "todos", *OF_SESSIONS}
)
"""The directories of a home whose files are kept. Nothing else in a home is ever written."""

_IN_SESSION: Final = ("blobs", "opaque", "subagents", "tool-results")
_META: Final = ".meta.json"
_FLAT_INDEX: Final = "index.json"


class HomeFile(NamedTuple):
    """A file of a home. *name* is its path in the home, with "/" between the parts."""

    name: str
    path: str
    size_bytes: int
    mtime_ns: int


def home_files(
    home: str | os.PathLike[str], *, problems: list[Problem] | None = None
) -> Iterator[HomeFile]:
    """Return every file of *home* that is worth keeping."""
    return _Files(DirectoryWalk(problems)).beneath(os.path.abspath(home))


class _Files:
    """The files of one walk. Links are followed last, and never to a file of the same home."""

    def __init__(self, walk: DirectoryWalk) -> None:
        self._walk = walk
        self._within = ""
        self._found: set[str] = set()
        self._linked_files: list[tuple[Item, str]] = []

    def beneath(self, top: str) -> Iterator[HomeFile]:
        self._within = os.path.join(os.path.realpath(top), "")
        files, directories = _kept_at_the_top(self._walk, self._walk.enter(top, expected=True))
        yield from self._described(files, "")
        waiting = [(each, each.name) for each in reversed(directories) if not each.linked]
        linked = deque((each, each.name) for each in directories if each.linked)
        while waiting or linked:
            place, name = waiting.pop() if waiting else linked.popleft()
            items = self._walk.enter(place.path, place.real)
            yield from self._described(items, name + "/")
            inner = [
                (each, f"{name}/{each.name}")
                for each in items
                if each.kind == "directory" and not _is_unfinished(each.name)
            ]
            waiting += [each for each in reversed(inner) if not each[0].linked]
            linked += [each for each in inner if each[0].linked]
        for item, prefix in self._linked_files:
            if item.real not in self._found:
                yield from self._file(item, prefix)

    def _described(self, items: list[Item], prefix: str) -> Iterator[HomeFile]:
        for item in items:
            if item.kind == "directory" or _is_passing(prefix, item.name):
                continue
            if item.kind != "file":
                self._walk.note(item.path, item.why)
            elif item.linked:
                self._linked_files.append((item, prefix))
            else:
                yield from self._file(item, prefix)

    def _file(self, item: Item, prefix: str) -> Iterator[HomeFile]:
        name = prefix + item.name
        if item.real == self._within + name:
            self._found.add(item.real)
        if not name.isascii() and name.encode(errors="replace").decode() != name:
            self._walk.note(item.path, "its name is no text")
            return
        try:
            status = os.stat(item.path)
        except FileNotFoundError:
            return  # Gone since it was listed.
        except OSError as error:
            self._walk.note_unreadable(item.path, reason_of(error))
            return
        yield HomeFile(name, item.path, status.st_size, status.st_mtime_ns)


def owner_of(name: str) -> str | None:
    """Return the id of the session that the file *name* of a home belongs to, or None.

    Only the name is used: plans and prompts belong to no session, days' logs to several, and
    agents' logs next to the sessions only name theirs in their records.
    """
    top, _, rest = name.partition("/")
    if top == "projects":
        return _in_project(rest.partition("/")[2])
    if top == "todos":
        return _owner_of_todos(rest)
    if top in OF_SESSIONS:
        return _id(rest.partition("/")[0]) if "/" in rest else None
    if top in KEPT_DIRECTORIES - {"sessions"}:
        return None
    return _in_flat_store(rest if top == "sessions" else name)


def _in_project(rest: str) -> str | None:
    first, _, inner = rest.partition("/")
    if inner:
        # Any name could be an id; a project's memory is in such a directory too.
        is_of_session = is_uuid(first) or inner.partition("/")[0] in _IN_SESSION
        return _id(first) if is_of_session else None
    log = read_name(first)
    return log.id if log is not None and log.kind == "session" else None


def _in_flat_store(rest: str) -> str | None:
    rest = rest.removeprefix("compressed/")
    if "/" not in rest and rest.endswith(_META):
        return _id(rest.removesuffix(_META))
    return _in_project(rest)


def _owner_of_todos(name: str) -> str | None:
    # The main agent has the session's id, which may itself contain the separator.
    stem = name.removesuffix(".json")
    half = (len(stem) - len("-agent-")) // 2
    if stem == name or "/" in name:
        return None
    if stem == f"{stem[:half]}-agent-{stem[:half]}":
        return _id(stem[:half])
    session_id, separator, agent_id = stem.partition("-agent-")
    is_clear = separator and agent_id and "-agent-" not in agent_id
    return _id(session_id) if is_clear else None


def _id(text: str) -> str | None:
    return text if is_session_id(text) else None


def _kept_at_the_top(walk: DirectoryWalk, items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Return the entries of a home's top directory that are worth keeping."""
    files = [item for item in items if item.name == "history.jsonl"]
    directories = [item for item in items if item.name in KEPT_DIRECTORIES]
    for item in directories:
        if item.kind != "directory":
            walk.note(item.path, item.why or "a file, not a directory")
    has_projects = any(item.name == "projects" for item in directories)
    if not has_projects or _is_flat_store(items):
        ids = {log.id for item in items if (log := read_name(item.name)) is not None}
        files += [item for item in items if _is_of_flat_store(item.name)]
        directories += [item for item in items if item.name in ids or item.name == "compressed"]
    return files, [item for item in directories if item.kind == "directory"]


def _is_flat_store(items: list[Item]) -> bool:
    return any(item.name == _FLAT_INDEX or item.name.endswith(_META) for item in items)


def _is_of_flat_store(name: str) -> bool:
    return name == _FLAT_INDEX or name.endswith(_META) or read_name(name) is not None


def _is_passing(prefix: str, name: str) -> bool:
    """Return whether a file is temporary: unfinished, or about a running process."""
    if prefix == "sessions/":
        stem, suffix = os.path.splitext(name)
        if suffix == ".json" and stem.isascii() and stem.isdigit():
            return True
    return _is_unfinished(name)


def _is_unfinished(name: str) -> bool:
    """Return whether turnlog is still writing a file of this name."""
    return name.startswith(".") and (name.startswith(".turnlog-") or ".repair-" in name)


def source_of(home: str | os.PathLike[str], name: str) -> Path:
    """Return the path of the file *name* in *home*."""
    return Path(os.path.abspath(home)).joinpath(*name.split("/"))
