"""The flat store's format: `sessions/ID.jsonl`, next to each session's metadata and an index.

    sessions/ID.jsonl, sessions/ID.meta.json         a session and its metadata
    sessions/index.json                              the registry of all sessions
    sessions/compressed/ID.jsonl.gz                  an archive
    sessions/ID/subagents/**/agent-ID.jsonl          subagents

The directory may also be a home itself, or any directory of copied logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnlog.formats.format import HOME, LogPerSession, Place
from turnlog.formats.homes import Home
from turnlog.formats.ids import is_session_id, is_uuid
from turnlog.formats.log_file import META, new_session_name, path_beneath, read_name, session_name

if TYPE_CHECKING:
    from turnlog.formats.walk import Item

INDEX = "index.json"
COMPRESSED = "compressed"
_SESSIONS, _STORE = "sessions", "store"


class Flat(LogPerSession):
    """One log for each session, with metadata, a registry and archives of its own."""

    name = "flat"
    dialect = "flat"
    has_registry = True
    kept_directories = frozenset({"sessions"})
    top_role = _STORE

    def is_home(self, items: Iterable[Item]) -> bool:
        names = (item.name.removesuffix(".zst") for item in items)  # The names of kept copies.
        return any(name == INDEX or name.endswith(META) for name in names)

    def places(self, place: Place, items: Sequence[Item]) -> Mapping[str, Place]:
        if place.role == HOME:
            return {"sessions": Place(self, _STORE)}
        names = [item.name for item in items if item.kind != "file"]
        if place.role == _STORE:
            # A copy of one project's directory at any path: its subagents' logs came along.
            ids = _ids(items)
            names = [name for name in names if is_uuid(name) or name in ids]
            sessions = {name: self.session_place(name) for name in names}
            return sessions | {COMPRESSED: Place(self, COMPRESSED)}
        if place.role == COMPRESSED:
            return {name: self.session_place(name) for name in names if is_session_id(name)}
        return super().places(place, items)

    def accepts_id(self, session_id: str) -> bool:
        log = read_name(session_name(session_id))
        return log is not None and log.kind == "session"

    def new_log(
        self, root: str | os.PathLike[str], project: str | os.PathLike[str], session_id: str
    ) -> Path:
        return flat_log(flat_directory(root), session_id)

    def owner_of(self, name: str) -> str | None:
        rest = name.removeprefix("sessions/").removeprefix("compressed/")
        if "/" not in rest and rest.endswith(META):
            session_id = rest.removesuffix(META)
            return session_id if is_session_id(session_id) else None
        return self.owner_beneath(rest)

    def kept_at_top(self, items: Sequence[Item]) -> list[Item]:
        ids = _ids(items)
        return [
            item
            for item in items
            if (
                item.name in ids or item.name == COMPRESSED
                if item.kind == "directory"
                else item.name == INDEX or item.name.endswith(META) or read_name(item.name)
            )
        ]

    def file_history(self, home: Home, session_id: str) -> Path | None:
        root = home.path.parent if home.path.name == _SESSIONS else home.path
        return root / "snapshots" / session_id


FORMAT = Flat()


def _ids(items: Iterable[Item]) -> set[str]:
    return {log.id for item in items if (log := read_name(item.name)) is not None}


def flat_directory(root: str | os.PathLike[str]) -> Path:
    """Return the directory of a root's flat sessions: the root itself if it is one."""
    path = Path(os.path.abspath(root))
    is_one = path.name == "sessions" or os.path.isfile(path / INDEX)
    return path if is_one else path / "sessions"


def flat_log(directory: str | os.PathLike[str], session_id: str) -> Path:
    """Return the path of a session's log in a flat store: `ID.jsonl`."""
    return path_beneath(directory, new_session_name(session_id))


def flat_meta(directory: str | os.PathLike[str], session_id: str) -> Path:
    new_session_name(session_id)
    return path_beneath(directory, session_id + META)


def flat_index(directory: str | os.PathLike[str]) -> Path:
    return path_beneath(directory, INDEX)


def flat_archive(directory: str | os.PathLike[str], session_id: str) -> Path:
    return path_beneath(directory, COMPRESSED, new_session_name(session_id) + ".gz")


# -- names in a home, with "/" between the parts


def is_flat_archive(path: str | os.PathLike[str]) -> bool:
    """Return whether a log of a flat store is an archive."""
    return os.path.basename(os.path.dirname(path)) == COMPRESSED


def archives_of(name: str) -> set[str]:
    """Return the names that the archive of the file *name* of a flat store may have."""
    rest = name.removeprefix(f"{_SESSIONS}/")
    packed = f"{COMPRESSED}/{name}" if rest == name else f"{_SESSIONS}/{COMPRESSED}/{rest}"
    return {packed, f"{packed}.gz"}  # Blobs are compressed already and copied as they are.


def flat_stores(home: Path, names: Iterable[str]) -> list[Path]:
    """Return the flat stores of a home, with a registry, that contain files of these names."""
    found = set()
    for name in names:
        rest = name.removeprefix(f"{_SESSIONS}/")
        if "/" not in rest.removeprefix(f"{COMPRESSED}/"):
            found.add(home if rest == name else home / _SESSIONS)
    return sorted(each for each in found if flat_index(each).is_file())
