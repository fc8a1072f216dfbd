"""Find orphans: files in a home of a session that does not exist.

Todos, tasks, file history, environments, and directories of subagents and tool results stay when an
agent cleans up, or crashes before it writes a log. A session exists if any home has a main log of
it, or turnlog keeps a copy of one. Files touched within a day, or of a running session, are not
orphans yet: an agent creates them before its log.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from turnlog.formats import is_session_id
from turnlog.formats.home_files import OF_SESSIONS
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.records.timestamps import instant_of_ns

REST: Final = timedelta(days=1)
"""How long an orphan must not have been touched."""

_IN_PROJECTS: Final = {"subagents": "subagents", "tool-results": "tool results"}


class Orphan(Struct, kw_only=True, frozen=True):
    """What is left in one home of a session that does not exist."""

    id: str
    home: str
    kinds: list[str]
    """Its kinds: todos, tasks, file-history, subagents, …"""
    files: int
    size_bytes: int
    changed_at: datetime | None
    """The newest mtime of its files."""
    trash: str | None = None
    """Its name in the trash, once it is there."""


def find_orphans(
    belongings: SessionFileIndex, sessions: Iterable[str], *, now: datetime, rest: timedelta = REST
) -> list[Orphan]:
    """Return the files of a home that belong to none of *sessions*, existing or running."""
    known = set(sessions)
    found = []
    for owner in belongings.owners:
        files = [each for each in belongings.of(owner) if each.tree == "home"]
        if owner in known or not files:
            continue
        changed_at = _changed_at(files)
        if changed_at is not None and now - changed_at >= rest:
            found.append(
                Orphan(
                    id=owner,
                    home=os.path.realpath(belongings.home),
                    kinds=sorted({_kind(each) for each in files}),
                    files=len(files),
                    size_bytes=sum(each.size_bytes for each in files),
                    changed_at=changed_at,
                )
            )
    return found


def empty_directories(
    belongings: SessionFileIndex, sessions: Iterable[str], *, now: datetime, rest: timedelta = REST
) -> list[str]:
    """Return the names of empty directories in a home that were made for sessions."""
    known = set(sessions)
    top = os.path.realpath(belongings.home)
    places = [(each, known) for each in OF_SESSIONS]
    return [
        f"{place}/{name}"
        for place, used in places
        for name in _empty_in(os.path.join(top, place), now - rest)
        if is_session_id(name) and name not in used
    ]


def empty_projects(belongings: SessionFileIndex, *, now: datetime, rest: timedelta) -> list[str]:
    """Return the names of empty project directories."""
    top = os.path.realpath(belongings.home)
    return [f"projects/{each}" for each in _empty_in(os.path.join(top, "projects"), now - rest)]


def _empty_in(directory: str, before: datetime) -> Iterator[str]:
    """Yield the subdirectories that are empty, and have been since *before*."""
    try:
        with os.scandir(directory) as listing:
            inner = sorted(
                (each for each in listing if each.is_dir(follow_symlinks=False)),
                key=lambda each: each.name,
            )
    except OSError:
        return
    for each in inner:
        try:
            at = instant_of_ns(each.stat(follow_symlinks=False).st_mtime_ns)
            if at is not None and at <= before and not os.listdir(each.path):
                yield each.name
        except OSError:  # Gone, or not readable.
            continue


def _kind(belonging: SessionFile) -> str:
    top, *rest = belonging.name.split("/")
    if top == "todos" or top in OF_SESSIONS:
        return top
    inner = (_IN_PROJECTS[each] for each in rest if each in _IN_PROJECTS)
    return next(inner, "subagents" if belonging.log is not None else "metadata")


def _changed_at(files: list[SessionFile]) -> datetime | None:
    return instant_of_ns(max(each.mtime_ns for each in files))
