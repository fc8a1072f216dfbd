"""The files of one session, with their kept versions, read through the index.

Only the records that tell of files are read: snapshots, and the edits of the file that is asked
for. So the longest session takes no more memory than its files do.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from turnlog.errors import NotFound, UsageError
from turnlog.formats import Home, side_files
from turnlog.formats.walk import DirectoryWalk, Item, Problem
from turnlog.index.connection import Index
from turnlog.index.ids import AGENT
from turnlog.mcp.desk import Desk, Known
from turnlog.mcp.naming import file_glob
from turnlog.sessions.side_files.file_changes import FileTraces, whole_path
from turnlog.sessions.side_files.file_history import SessionFiles, TouchedFile

_SOME: Final = 5
MOST_SNAPSHOTS: Final = 1_000
MOST_EDITS: Final = 500
"""So many snapshots, and edits of one file, are read: the latest."""
_SNAPSHOTS: Final = (
    "SELECT id, length FROM records WHERE session = ? AND type IN (SELECT id FROM names WHERE name"
    " IN ('file-history-snapshot', 'file-history-delta', 'file-history')) ORDER BY id DESC LIMIT ?"
)
_TOUCHES: Final = """
SELECT p.path, sum(f.action = 'read'), sum(f.action = 'edit'), sum(f.action = 'write'),
       sum(f.action = 'search'), max(r.at)
FROM records AS r CROSS JOIN touches AS f ON f.record = r.id JOIN paths AS p ON p.id = f.path
WHERE r.session = ? GROUP BY f.path
"""
_EDITS: Final = f"""
SELECT r.id, r.length, c.result, {AGENT}
FROM records AS r CROSS JOIN touches AS f ON f.record = r.id
JOIN calls AS c ON c.record = f.record AND c.block = f.block
JOIN paths AS p ON p.id = f.path JOIN logs AS l ON l.id = r.id >> 40
WHERE r.session = ? AND f.action IN ('edit', 'write') AND c.is_error = 0
AND (p.path GLOB ? OR p.path GLOB ? OR p.path GLOB ?) ORDER BY r.id DESC LIMIT ?
"""  # noqa: S608 - Ours.


class Touched(NamedTuple):
    """What calls of a session did with a file."""

    path: str
    reads: int = 0
    edits: int = 0
    writes: int = 0
    searches: int = 0
    last_at: int | None = None


class FilesRead(NamedTuple):
    """The files of a session, and what was left out."""

    files: SessionFiles
    notes: list[str]


def touched_files(desk: Desk, index: Index, session: Known) -> dict[str, Touched]:
    """Count what the calls of a session did with each file, by its whole path."""
    found: dict[str, Touched] = {}
    for row in index.db.execute(_TOUCHES, (session.number,)):
        each = Touched._make(row)
        # A path that was put in order may have lost what a secret in it is known by.
        path = whole_path(desk.mask(each.path), session.project)
        before = found.get(path, Touched(path))
        last_at = max((at for at in (before.last_at, each.last_at) if at is not None), default=None)
        found[path] = Touched(
            path,
            before.reads + each.reads,
            before.edits + each.edits,
            before.writes + each.writes,
            before.searches + each.searches,
            last_at,
        )
    return found


def read_files(desk: Desk, index: Index, session: Known, path: str | None = None) -> FilesRead:
    """Read which versions a session's files had, and how the file at *path* was edited."""
    traces = FileTraces(project=session.project)
    notes: list[str] = []
    snapshots = index.db.execute(_SNAPSHOTS, (session.number, MOST_SNAPSHOTS + 1)).fetchall()
    if len(snapshots) > MOST_SNAPSHOTS:
        notes.append(f"only the latest {MOST_SNAPSHOTS:,} snapshots were read")
    for number, length in reversed(snapshots[:MOST_SNAPSHOTS]):
        desk.deadline.check()
        record = index.record(number, length)
        if record is not None:
            traces.see(record)
    if path is not None:
        _read_edits(index, session, path, traces, notes)
    problems: list[Problem] = []
    items = _kept(Home(Path(session.home)), session.id, problems)
    return FilesRead(SessionFiles(traces, items, problems), notes)


def _read_edits(
    index: Index, session: Known, path: str, traces: FileTraces, notes: list[str]
) -> None:
    rows: list[Any] = index.db.execute(
        _EDITS, (session.number, *file_glob(path), MOST_EDITS + 1)
    ).fetchall()
    if len(rows) > MOST_EDITS:
        notes.append(f"only the latest {MOST_EDITS:,} edits were read")
    # One record may hold several calls, or several results; it is seen once.
    agents: dict[int, str | None] = {}
    for number, _, result, agent in rows[:MOST_EDITS]:
        agents |= {number: agent, result: agent}
    for number in sorted(agents):
        record = index.record(number)
        if record is not None:
            traces.see(record, agents[number])


def _kept(home: Home, session_id: str, problems: list[Problem]) -> list[Item]:
    """List the kept versions of a session, wherever its layout puts them."""
    beside = home.path.parent if home.path.name == "sessions" else home.path
    snapshots = beside / "snapshots" / session_id
    walk = DirectoryWalk(problems)
    directories = (side_files(home, session_id).file_history, snapshots)
    return [
        item
        for directory in directories
        if directory is not None and directory.is_dir()
        for item in walk.enter(str(directory))
    ]


def named_file(files: SessionFiles, path: str) -> TouchedFile:
    """Find the one file that *path* means: a path, the end of one, or a pattern."""
    fits = [
        each
        for each in files.files.values()
        if any(fnmatchcase(each.path, glob) for glob in file_glob(path))
    ]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise NotFound(
            f"the session kept or changed no file {path[:200]!r}",
            hint="files(session) lists those it touched",
        )
    some = ", ".join(each.shown for each in fits[:_SOME])
    raise UsageError(f"{path[:200]!r} means {len(fits)} files", hint=f"say one: {some}")
