"""The sessions that Codex lists: in its state database, and in its list of names.

The database is Codex's own, and Codex may have it open. It is opened for reading only, and in ways
that change no file next to it and create none.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import DecodeError, Struct, ValidationError, json

from turnlog.formats.format import ListMismatch
from turnlog.formats.log_file import LogFile

NAMES: Final = "session_index.jsonl"
DATABASE: Final = re.compile(r"state_([0-9]+)\.sqlite")


class ListedSession(NamedTuple):
    """A session in Codex's list. *path* is that of its log, or None if the list has only names."""

    id: str
    path: str | None
    where: Path


class _Name(Struct):
    """A line of the list of names."""

    id: str


_decode_name: Final = json.Decoder(_Name).decode


def listed_sessions(home: Path) -> list[ListedSession] | None:
    """Return the sessions that Codex lists in *home*.

    None without a state database: Codex makes one from the logs that it finds.
    """
    versions = {
        int(match[1]): home / match[0]
        for match in map(DATABASE.fullmatch, _names_in(home))
        if match
    }
    if not versions:
        return None
    database = versions[max(versions)]
    with _reading(database) as db:
        query = "SELECT id, rollout_path FROM threads ORDER BY rowid"
        rows = {id_: ListedSession(id_, path, database) for id_, path in db.execute(query)}
    named = (ListedSession(id_, None, home / NAMES) for id_ in _named(home / NAMES))
    return list({**{each.id: each for each in named}, **rows}.values())


def mismatches(home: Path, logs: Iterable[LogFile], program: str) -> Iterator[ListMismatch]:
    """Yield how what Codex lists in *home* differs from *logs*; *program* is its command."""
    listed = listed_sessions(home)
    if listed is None:
        return
    by_id = {log.own_id: log for log in logs}
    for each in listed:
        log = by_id.get(each.id)
        if log is None:
            if each.path is None or not os.path.exists(each.path):
                yield ListMismatch(each.id, each.where, "it has no log", has_log=False)
        elif each.path is not None:
            del by_id[each.id]
            if not _is_at(log.path, each.path):
                command = _moved(log.path, each)
                detail = f"listed as {each.path}, so it cannot be resumed; close Codex first"
                yield ListMismatch(each.id, log.path, detail, has_log=True, command=command)
    for session_id, log in by_id.items():
        if session_id and log.kind == "session":  # Nobody looks for subagents in a list.
            is_archived = log.path.parent.name == "archived_sessions"
            verb = "unarchive" if is_archived else "resume"
            command = f"{program} {verb} {session_id}"
            yield ListMismatch(session_id, log.path, "not listed", has_log=True, command=command)


def _is_at(path: Path, listed: str) -> bool:
    """Return whether the log at *path* is what Codex lists, which it may have compressed since."""
    return os.path.exists(listed) or os.path.realpath(path) == os.path.realpath(listed + ".zst")


def _moved(path: Path, listed: ListedSession) -> str:
    """Return the command after which Codex finds the log at *path*.

    A log that was moved within its home is moved back. If the whole home was moved, Codex makes a
    new list when the old one is not there.
    """
    assert listed.path is not None
    home = listed.where.parent
    if Path(listed.path).is_relative_to(home):
        return shlex.join(("mv", str(path), listed.path))
    aside = str(home / "old_state")
    files = sorted(home / name for name in _names_in(home) if name.startswith(listed.where.name))
    return f"{shlex.join(('mkdir', aside))} && {shlex.join(('mv', *map(str, files), aside))}"


def _names_in(home: Path) -> list[str]:
    try:
        return os.listdir(home)
    except OSError:
        return []


def _named(path: Path) -> Iterator[str]:
    """Yield the ids of sessions with a name."""
    with suppress(FileNotFoundError), path.open("rb") as lines:
        for line in lines:
            with suppress(DecodeError, ValidationError):
                yield _decode_name(line).id


@contextmanager
def _reading(database: Path) -> Iterator[sqlite3.Connection]:
    """Open a database so that no file of its directory changes.

    Its shared memory, if there is any, is read and never written. Without it nobody has the
    database open, but SQLite would create it to read the write-ahead log, so a copy is read.
    """
    memory, log = (database.with_name(database.name + end) for end in ("-shm", "-wal"))
    with tempfile.TemporaryDirectory(prefix="turnlog-") as directory:
        options = "mode=ro&immutable=1"
        if memory.exists():
            options = "mode=ro&readonly_shm=1"
        elif log.exists():
            shutil.copy(log, directory)
            database = Path(shutil.copy(database, directory))
            options = "mode=ro"
        with closing(sqlite3.connect(f"{database.as_uri()}?{options}", uri=True)) as db:
            yield db
