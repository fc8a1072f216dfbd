"""The files of a home besides its logs, and the session each belongs to.

`home_files` lists those that are worth keeping, logs and side files: whatever agents did, said or
were asked. Files of the agent program alone (settings, plugins, caches) and unfinished files of
turnlog are excluded. Each regular file is returned once, under its real name whatever links lead to
it. Names and sizes are read, never contents.

`text_files`, `plans` and `history_log` list what exists, sorted; no file of one session is
attributed to another. Nothing on disk raises: special files and unreadable places become Problems.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from turnlog.formats.flat.format import COMPRESSED, INDEX
from turnlog.formats.format import HOME, Format, Place
from turnlog.formats.homes import Home
from turnlog.formats.ids import check_session_id, is_session_id
from turnlog.formats.kept_copies import is_inner_name
from turnlog.formats.log_file import META, LogName, read_name, session_name
from turnlog.formats.supported import FORMATS, top_places
from turnlog.formats.walk import DirectoryWalk, Item, Problem, reason_of


def kept_at_top() -> set[str]:
    """Return the names of files that are kept of a home's own directory."""
    return {name for each in FORMATS for name in each.kept_files}


def session_directories() -> list[str]:
    """Return the directories of a home that have one directory for each session."""
    return [name for each in FORMATS for name in each.session_directories]


def kept_directories() -> set[str]:
    """Return the directories of a home whose files are kept. Nothing else is ever written."""
    return {name for each in FORMATS for name in each.kept_directories}


def side_directories() -> set[str]:
    """Return the directories of a home that have side files of sessions."""
    return {name for each in FORMATS for name in each.side_directories}


def project_directories() -> set[str]:
    """Return the directories of a home that have a directory for each project."""
    return {each.project_directory for each in FORMATS if each.project_directory is not None}


def program_names() -> set[str]:
    """Return the names in a home that belong to an agent alone: settings, plugins, caches."""
    return {name for each in FORMATS for name in each.program_files}


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
        self._temporary = [each.temporary_files for each in FORMATS if each.temporary_files]
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
            name = prefix + item.name
            if item.kind == "directory" or _is_unfinished(item.name):
                continue
            if any(pattern.fullmatch(name) for pattern in self._temporary):
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
            self._walk.note(item.path, "its name is not valid text")
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
    owners = (each.owner_of(name) for each in _formats_of(name))
    return next(filter(None, owners), None)


def owner_at(name: str, path: str | os.PathLike[str]) -> str | None:
    """Return the same for the file at *path*, or its copy there, whose first line may tell more."""
    owners = (each.owner_at(name, os.fspath(path)) for each in _formats_of(name))
    return next(filter(None, owners), None)


def _formats_of(name: str) -> Sequence[Format]:
    top = name.partition("/")[0]
    return [each for each in FORMATS if top in each.kept_directories] or FORMATS


def log_in(name: str) -> tuple[Format, LogName] | None:
    """Return the format of the log *name* of a home and the parts of its name; None if no log."""
    top, last = name.partition("/")[0], name.rpartition("/")[2]
    is_inside = top in kept_directories()
    for each in FORMATS:
        if top in each.log_directories if is_inside else each.top_role is not None:
            home = Place(each, HOME)
            log = each.log_name(home, last) or each.log_name(_place_of(name, home), last)
            if log is not None:
                return each, log
    return None


def _place_of(name: str, home: Place) -> Place:
    """Return the directory of the file *name* of a home, as far as its format has a role for it."""
    place = home
    for part in name.split("/")[:-1]:
        item = Item(part, part, "directory", linked=False, real=part)
        place = home.format.places(place, [item]).get(part, place)
    return place


def is_home_file(name: str, others: Collection[str] = ()) -> bool:
    """Return whether a file of this name belongs to agents' sessions.

    *others* are the names next to it: in a flat store, directories have the ids of logs.
    """
    if not is_inner_name(name):
        return False
    top, _, rest = name.partition("/")
    if rest:
        logs = (f"{top}.jsonl{ending}" for ending in ("", ".gz", ".zst"))
        is_of_log = is_session_id(top) and any(log in others for log in logs)
        return top in kept_directories() or top == COMPRESSED or is_of_log
    if top in kept_at_top() or top == INDEX or read_name(top) is not None:
        return True
    return top.endswith(META) and is_session_id(top.removesuffix(META))


def is_main_log(name: str) -> bool:
    """Return whether the file *name* of a home is a session's main log."""
    log = log_in(name)
    return log is not None and log[1].kind == "session" and owner_of(name) == log[1].id


def log_beside(name: str) -> str | None:
    """Return the name of a subagent's log next to the sessions, if *name* is that or its metadata.

    Only its records name the session that both belong to.
    """
    directory, slash, last = name.rpartition("/")
    if last.endswith(META):
        last = session_name(last.removesuffix(META))
    log = read_name(last)
    depth = int(name.partition("/")[0] in project_directories())
    is_beside = log is not None and log.kind == "subagent" and directory.count("/") == depth
    return directory + slash + last if is_beside else None


def project_of(name: str) -> str | None:
    """Return the name of the project directory of the file *name* of a home, or None."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and parts[0] in project_directories() else None


def is_in_registry(name: str) -> bool:
    """Return whether the file *name* of a home would belong to a store with a registry."""
    owning = (each for each in _formats_of(name) if each.owner_of(name) is not None)
    form = next(owning, None)
    return (
        any(each.has_registry for each in _formats_of(name)) if form is None else form.has_registry
    )


def text_patterns(kind: str) -> list[str]:
    """Return the patterns of files with this *kind* of text, see `Format.text_files`."""
    return [each.text_files[kind] for each in FORMATS if kind in each.text_files]


def text_files(
    home: Home, kind: str, *, problems: list[Problem] | None = None
) -> Iterator[tuple[str, Item]]:
    """Return the names and entries of files with this *kind* of text."""
    walk = DirectoryWalk(problems)
    return chain(*(walk.matching(str(home.path), each) for each in text_patterns(kind)))


def todo_owners(name: str) -> list[tuple[str, str]]:
    """Return the ids of the session and agent that the todos in the file *name* may be of."""
    return [pair for each in FORMATS for pair in each.todo_owners(name)]


def plans(home: Home, *, problems: list[Problem] | None = None) -> tuple[Path, ...]:
    items = (item for _, item in text_files(home, "plan", problems=problems))
    return tuple(Path(item.path) for item in items if item.kind == "file")


def history_log(home: Home) -> Path | None:
    """Return the home's log of prompts, if it exists."""
    return next((Path(item.path) for _, item in text_files(home, "prompts")), None)


def file_history(home: Home, session_id: str, walk: DirectoryWalk) -> Iterator[Item]:
    """Return the versions of files that a session edited."""
    check_session_id(session_id)
    for each in FORMATS:
        directory = each.file_history(home, session_id)
        if directory is not None and directory.is_dir():
            yield from walk.enter(str(directory))


def _kept_at_the_top(walk: DirectoryWalk, items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Return the files and directories of a home's own directory that are worth keeping."""
    names = kept_at_top()
    files = [item for item in items if item.name in names]
    names = kept_directories()
    directories = [item for item in items if item.name in names]
    for item in directories:
        if item.kind != "directory":
            walk.note(item.path, item.why or "a file, not a directory")
    for place in top_places(items):
        kept = place.format.kept_at_top(items)
        files += (item for item in kept if item.kind != "directory")
        directories += kept
    return files, [item for item in directories if item.kind == "directory"]


def _is_unfinished(name: str) -> bool:
    """Return whether turnlog is still writing a file of this name."""
    return name.startswith(".") and (name.startswith(".turnlog-") or ".repair-" in name)
