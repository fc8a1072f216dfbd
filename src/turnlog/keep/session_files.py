"""The files of a home by session, and turnlog's kept copies of them.

Most are identified by name, see ``formats.home_files``. In addition, a subagent's log next to the
sessions belongs to the session that its records name, and the originals of a repair to the session
of the repaired log. Plans and the prompt history are shared, and days' logs are returned
separately, since several sessions may have records in them.

A home is walked once for any number of sessions. Files reached through a symbolic link belong to
the link's target and are not returned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, NamedTuple

from turnlog.errors import UsageError
from turnlog.formats import FORMATS, Home, LogName, Problem, find_logs
from turnlog.formats.home_files import (
    home_files,
    log_beside,
    log_in,
    owner_at,
    owner_of,
    project_directories,
    session_directories,
)
from turnlog.formats.kept_copies import KEPT_SUFFIX, kept_place, name_of_copy, read_copy_name
from turnlog.formats.walk import DirectoryWalk, UnreadablePlace, reason_of
from turnlog.keep.catalog import Catalogue
from turnlog.sessions.owners import owner_in

_ASIDE: Final = re.compile(r"\.(?:original|quarantine|replaced)-[0-9TZ.]+$|\.damaged-[0-9]+$")


class SessionFile(NamedTuple):
    """A file: its tree, its name there, and its name in its home."""

    tree: Tree
    name: str
    home_name: str
    path: str
    size_bytes: int
    mtime_ns: int

    @property
    def log(self) -> LogName | None:
        """The file as a log, or None."""
        log = log_in(self.home_name)
        return log[1] if log is not None else None

    @property
    def is_main_log(self) -> bool:
        """Whether it is a main log of the session, in the home."""
        log = self.log
        if self.tree != "home" or log is None:
            return False
        is_own = log.kind == "session" and owner_at(self.home_name, self.path) == log.id
        return is_own or log.kind == "day"


class SessionFileIndex:
    """The files of one home, by session."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.place = kept_place(home)
        self.problems: list[Problem] = []
        self._owners: dict[tuple[str, str], str | None] = {}

    @cached_property
    def unseen(self) -> list[UnreadablePlace]:
        """The places in the home, or among its kept copies, that could not be read.

        Check them before deleting anything: a session that was not found may be there.
        """
        self._all  # noqa: B018 - The walk finds them.
        problems = list(self.problems)
        for _ in find_logs(self.home, problems=problems):
            pass  # Broken links count only where a log may be.
        return list(dict.fromkeys(each for each in problems if isinstance(each, UnreadablePlace)))

    def has_any(self, name: str) -> bool:
        """Return whether the top directory of the file *name* has any entries.

        If not, it may be a mount point whose volume is not mounted.
        """
        top = os.path.join(os.path.realpath(self.home), *name.split("/")[:-1][:1])
        return any(not each.name.startswith(".") for each in DirectoryWalk().enter(top))

    def of(self, session_id: str) -> list[SessionFile]:
        """Return the files of a session: side files, then subagents' logs, main logs last.

        In this order an interrupted deletion leaves the log by which the session is found.
        """
        return sorted(self._by_owner.get(session_id, ()), key=_order)

    def days(self, names: set[str]) -> list[SessionFile]:
        """Return the days' logs of these names, and their kept copies."""
        return sorted((each for each in self._all if each.home_name in names), key=_order)

    def beneath(self, directory: str) -> list[SessionFile]:
        """Return the files in a directory of the home, and the kept copies of files there."""
        return [each for each in self._all if each.home_name.startswith(f"{directory}/")]

    @property
    def owners(self) -> list[str]:
        """The ids of the sessions that have files."""
        return sorted(self._by_owner)

    def directories(self, session_id: str) -> list[str]:
        """Return the directories of this session alone, innermost first."""
        found = {f"{each}/{session_id}" for each in session_directories()}
        for each in self._by_owner.get(session_id, ()):
            parts = each.home_name.split("/")[:-1]
            if each.tree == "home" and session_id in parts:
                start = parts.index(session_id) + 1
                found.update("/".join(parts[:end]) for end in range(start, len(parts) + 1))
        found.update(self._directories_in_projects(session_id))
        return sorted(found, key=lambda name: (-name.count("/"), name))

    def left_alone(self, session_id: str) -> list[Problem]:
        """Return files with the session's name that cannot be moved with it, and why."""
        self._by_owner  # noqa: B018 - The walk finds them.
        root = os.path.join(os.path.abspath(self.home), "")
        names = [(str(each.path).removeprefix(root), each) for each in self.problems]
        return [
            problem
            for name, problem in names
            # An unreadable directory may be the session's own.
            if session_id in {self._owner("home", name, ""), owner_of(f"{name}/any")}
        ]

    @cached_property
    def forks(self) -> dict[str, list[str]]:
        """The sessions in the home that continue another's log, by the id of that one."""
        found: dict[str, list[str]] = {}
        for each in self._all:
            log = log_in(each.home_name) if each.tree == "home" else None
            base = log[0].base_of(Path(each.path)) if log is not None else None
            if log is not None and base is not None:
                found.setdefault(base.session_id, []).append(log[1].id)
        return found

    def refuse_if_continued(self, session_id: str) -> None:
        """Raise UsageError if a fork in the home needs the session's log."""
        if forks := self.forks.get(session_id):
            raise UsageError(
                f"session {session_id} is continued by {', '.join(forks)}",
                hint="a fork does not repeat what it continues; delete or archive forks first",
            )

    @cached_property
    def _all(self) -> list[SessionFile]:
        return [*self._in_home(), *self._kept()]

    @cached_property
    def _by_owner(self) -> dict[str, list[SessionFile]]:
        found: dict[str, list[SessionFile]] = {}
        for each in self._all:
            owner = self._owner(each.tree, each.home_name, each.path)
            if owner is not None:
                found.setdefault(owner, []).append(each)
        return found

    def _in_home(self) -> Iterator[SessionFile]:
        real = os.path.realpath(self.home)
        if not os.path.isdir(real):
            return
        for file in home_files(self.home, problems=self.problems):
            if os.path.realpath(file.path) != os.path.join(real, *file.name.split("/")):
                reason = "reached through a symbolic link"
                self.problems.append(Problem(Path(file.path), reason))
                continue
            yield SessionFile(
                "home", file.name, file.name, file.path, file.size_bytes, file.mtime_ns
            )

    def _kept(self) -> Iterator[SessionFile]:
        top = os.path.join(self.place, "")
        for item in DirectoryWalk(self.problems).files_beneath(str(self.place)):
            name = item.path.removeprefix(top).replace(os.sep, "/")
            if item.linked or item.name.startswith(".") or not name.endswith(KEPT_SUFFIX):
                continue
            try:
                status = os.stat(item.path)
            except FileNotFoundError:
                continue  # Gone since it was listed.
            except OSError as error:
                self.problems.append(UnreadablePlace(Path(item.path), reason_of(error)))
                continue
            home_name = name_of_copy(name)
            if not name.isascii():  # The file system may use another Unicode form than the home.
                home_name = self._catalogue.known_name(read_copy_name(name), Path(item.path))
            yield SessionFile(
                "kept", name, home_name, item.path, status.st_size, status.st_mtime_ns
            )

    @cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue.load(self.place)

    def _owner(self, tree: str, name: str, path: str) -> str | None:
        while (plain := _ASIDE.sub("", name)) != name:
            name = plain
        return owner_at(name, path) or self._owner_by_records(tree, name, path)

    def _owner_by_records(self, tree: str, name: str, path: str) -> str | None:
        """Return the session of a subagent's log, or its metadata, next to the sessions."""
        log = log_beside(name)
        if log is None or not path:
            return None
        if log != name:
            suffix = KEPT_SUFFIX if tree == "kept" else ""
            path = os.path.join(os.path.dirname(path), log.rpartition("/")[2] + suffix)
        if (tree, path) not in self._owners:
            self._owners[tree, path] = owner_in(Path(path))
        return self._owners[tree, path]

    def _directories_in_projects(self, session_id: str) -> Iterator[str]:
        """Return the session's own directories in projects, with their empty subdirectories."""
        top = os.path.join(os.path.abspath(self.home), "")
        places = {name for each in FORMATS for name in each.log_directories}
        for place in project_directories():
            places.remove(place)
            with suppress(OSError):
                places |= {f"{place}/{each}" for each in os.listdir(os.path.join(top, place))}
        for place in sorted(places):
            for directory, inner, _ in os.walk(os.path.join(top, place, session_id)):
                inner[:] = [each for each in inner if not os.path.islink(f"{directory}/{each}")]
                yield directory.removeprefix(top).replace(os.sep, "/")


def _order(belonging: SessionFile) -> tuple[int, str, str]:
    log = belonging.log
    rank = 0 if log is None else 2 if belonging.is_main_log else 1
    return rank, belonging.tree, belonging.name


Tree = Literal["home", "kept"]
