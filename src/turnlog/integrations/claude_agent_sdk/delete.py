"""Delete the log of a key by moving it to the trash.

Deleting a main log deletes all files of the session in its project: subagent logs, related files
and kept copies. Files outside the project (todos, tasks, file history) are deleted with the last
project that has a log of the session. Deleting a subpath deletes one log. Deleting what does not
exist, or was deleted in part before a crash, is not an error.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from turnlog.errors import LogLocked, NotFound, TurnlogError
from turnlog.formats import Home, LogFile, turnlog_home
from turnlog.formats.home_files import project_of
from turnlog.formats.kept_copies import kept_place
from turnlog.formats.walk import refuse_unreadable
from turnlog.integrations.claude_agent_sdk.find import PACKED, find_log, subpath_in
from turnlog.integrations.claude_agent_sdk.keys import Key, place
from turnlog.keep.activity import refuse_if_program_runs, refuse_if_written, title_of
from turnlog.keep.catalog import catalogued, forget_kept, lock_mirror
from turnlog.keep.file_moves import Spot, locked, remove_empty
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.delete import ASKED
from turnlog.keep.trash.trash import FileToTrash, Trash, interruption_message
from turnlog.storage.writer import LOCK_TIMEOUT as WRITERS_TIMEOUT

_PAUSE: Final = 0.01


def delete(root: Path, key: Key) -> None:
    """Move the log of *key* to the trash; raise LogLocked if its session is running."""
    _refuse_if_running(root, key)
    deadline = time.monotonic() + WRITERS_TIMEOUT
    while True:
        try:
            _delete(root, key)
            return
        except LogLocked:  # Writers hold the lock only briefly.
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _delete(root: Path, key: Key) -> None:
    own = turnlog_home()
    home = os.path.realpath(root)
    copies = kept_place(home)
    files = _files(root, key)
    if not files:
        return
    kept = {each.home_name for each in files if each.tree == "kept"}
    main = frozenset({key.name}) if key.subpath is None else frozenset[str]()
    with interruption_message(root, "delete"), contextlib.ExitStack() as held:
        for name in main:
            held.enter_context(locked(Spot(Path(home), name)))
        if kept:
            held.enter_context(lock_mirror(copies))
        _refuse_if_running(root, key)
        Trash(own).discard(
            key.session,
            home,
            [FileToTrash(each.tree, each.name) for each in files],
            why=ASKED,
            now=datetime.now(UTC),
            grace=load_grace(own),
            title=_title(root, key),
            catalogue=catalogued(copies, kept) if kept else (),
            held=main,
        )
        if kept:
            forget_kept(copies, kept)
    _remove_directories(Path(home), key)


def _refuse_if_running(root: Path, key: Key) -> None:
    refuse_if_program_runs(key.session, (Home(root),))
    main = place(root, Key(key.project, key.session).name)
    with contextlib.suppress(NotFound):
        refuse_if_written(key.session, main)


def _files(root: Path, key: Key) -> list[SessionFile]:
    """Return the files to delete, main logs last, so an interrupted deletion can be repeated."""
    index = SessionFileIndex(Home(root))
    refuse_unreadable(index.unseen)
    beneath = index.beneath(key.directory)
    if key.subpath is not None:
        names = {key.name, key.meta or key.name}
        packed = {key.name + each for each in PACKED}
        return [each for each in beneath if each.home_name in names | packed]
    owned = index.of(key.session)
    here = [each for each in owned if project_of(each.home_name) == key.project]
    others = [each for each in owned if project_of(each.home_name) != key.project]
    # Sessions with one id in two projects share the files outside of both.
    is_last = not any(each.log and each.log.kind == "session" for each in others)
    beside = [each for each in others if is_last and project_of(each.home_name) is None]
    files = [*beside, *here]
    more = [each for each in beneath if subpath_in(key, each.home_name) is not None]
    return [*(each for each in more if each not in files), *files]


def _title(root: Path, key: Key) -> str | None:
    found = find_log(root, Key(key.project, key.session))
    if found is None:
        return None
    log = LogFile(found.path, Home(root), "claude", "session", key.session, None, key.project, None)
    with contextlib.suppress(TurnlogError, OSError):  # A title is optional.
        return title_of(key.session, [log])
    return None


def _remove_directories(home: Path, key: Key) -> None:
    """Remove the empty directories of the session."""
    top = os.path.join(home, "")
    directories = [each for each, _, _ in os.walk(place(home, key.directory), topdown=False)]
    for directory in directories:
        remove_empty(home, directory.removeprefix(top).replace(os.sep, "/"))
