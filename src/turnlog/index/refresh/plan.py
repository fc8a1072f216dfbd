"""Plan a refresh: find the logs that are new, grew, were replaced, moved or are gone.

The files are compared with the bookmarks. That takes one ``stat`` per log; the bytes of a log are
read only if it changed.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import TurnlogError
from turnlog.formats.homes import Home
from turnlog.formats.log_file import LogFile
from turnlog.index.ids import BESIDE
from turnlog.index.refresh.chunks import Bookmark, LogChange, Work, change_since, length_of
from turnlog.index.refresh.writer import Writer
from turnlog.text import utf8_safe

if TYPE_CHECKING:
    from turnlog.formats import Problem
    from turnlog.index.refresh.chunks import Readable

_COLUMNS: Final = (
    "id, path, generation, layout, gone_at, device, inode, usage_offset, usage_size_bytes,"
    " usage_mtime_ns, usage_fingerprint, text_offset, text_size_bytes, text_mtime_ns,"
    " text_fingerprint, packed_bytes"
)


class KnownLog(Struct, frozen=True):
    """A log as the index knows it."""

    id: int
    path: str
    generation: int
    layout: str
    gone_at: int | None
    device: int | None
    inode: int | None
    usage: Bookmark
    text: Bookmark
    packed_bytes: int | None

    @property
    def mark(self) -> Bookmark:
        """The bookmark of the text, or of the usage if there is none."""
        return self.text if self.text.size_bytes >= 0 else self.usage


class SeenLog(Struct, frozen=True):
    """A log as it is on disk."""

    log: Readable
    path: str
    now: os.stat_result

    @property
    def packed_bytes(self) -> int | None:
        """The size of the file, if it is compressed."""
        is_packed = length_of(self.path, self.now) != self.now.st_size
        return self.now.st_size if is_packed else None


class RefreshPlan(Struct):
    """What to read, and what changed."""

    works: list[Work] = field(default_factory=list)
    new_bytes: int = 0
    replaced: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def look(logs: Iterable[Readable], problems: list[Problem] | None = None) -> dict[str, SeenLog]:
    """Return the logs that exist, by path; add to *problems* those whose name is not UTF-8."""
    seen = {}
    for log in logs:
        path = os.fspath(log.path)
        if utf8_safe(path) != path:
            if problems is not None:
                from turnlog.formats import Problem  # noqa: PLC0415 - They are few.

                problems.append(
                    Problem(log.path, "its name is not valid UTF-8, so it cannot be indexed")
                )
            continue
        with suppress(OSError):  # Deleted since the walk.
            seen[path] = SeenLog(log, path, os.stat(path))
    return seen


def known_logs(db: sqlite3.Connection, paths: Iterable[str] | None = None) -> dict[str, KnownLog]:
    """Return the logs in the index, by path: all, or those of *paths*."""
    query = f"SELECT {_COLUMNS} FROM logs"  # noqa: S608 - Ours.
    if paths is None:
        return {row[1]: _known(row) for row in db.execute(query)}
    rows = (db.execute(f"{query} WHERE path = ?", (path,)).fetchone() for path in paths)
    return {row[1]: _known(row) for row in rows if row is not None}


def has_changed(seen: SeenLog, entry: KnownLog | None, *, usage_only: bool) -> bool:
    """Return whether a log differs from its bookmark."""
    if entry is None or entry.gone_at is not None:
        return True
    mark, now = entry.usage if usage_only else entry.text, seen.now
    is_packed = entry.packed_bytes is not None and mark.size_bytes >= 0
    size_bytes = entry.packed_bytes if is_packed else mark.size_bytes
    return size_bytes != now.st_size or mark.mtime_ns != now.st_mtime_ns


def is_absent(entry: KnownLog, seen: dict[str, SeenLog], *, usage_only: bool) -> bool:
    """Return whether a log was looked for but not found."""
    return entry.path not in seen and not (usage_only and entry.layout == BESIDE)


def changed_among(
    seen: dict[str, SeenLog], known: dict[str, KnownLog], *, usage_only: bool
) -> Iterator[str]:
    """Yield the paths of the logs that changed or are gone."""
    for path, found in seen.items():
        if has_changed(found, known.get(path), usage_only=usage_only):
            yield path
    for path, entry in known.items():
        if entry.gone_at is None and is_absent(entry, seen, usage_only=usage_only):
            yield path


def look_again(db: sqlite3.Connection, paths: Iterable[str]) -> dict[str, SeenLog]:
    """Return the logs in the index at *paths*, as they are on disk now."""
    logs: list[Readable] = []
    for path in paths:
        row = db.execute(
            "SELECT home, layout, kind, session, subagent, project_key FROM logs WHERE path = ?",
            (path,),
        ).fetchone()
        if row is not None:
            home, layout, kind, session, subagent, key = row
            place = (Path(path), Home(Path(home)))
            if layout == BESIDE:
                from turnlog.index.side_files import SideFile  # noqa: PLC0415 - Few are.

                logs.append(SideFile(*place, kind, session, subagent, key))
            else:
                logs.append(LogFile(*place, layout, kind, session, subagent, key, None))
    return look(logs)


def make_plan(
    db: sqlite3.Connection,
    seen: dict[str, SeenLog],
    writer: Writer,
    *,
    usage_only: bool,
    is_all: bool,
) -> RefreshPlan:
    """Make a plan, and update the rows of logs for it in the open transaction.

    With *is_all*, logs that were not *seen* are gone.
    """
    known = known_logs(db, None if is_all else seen)
    plan = RefreshPlan()
    absent = {
        path: entry
        for path, entry in known.items()
        if is_all and is_absent(entry, seen, usage_only=usage_only)
    }
    changed = [
        log for log in seen.values() if has_changed(log, known.get(log.path), usage_only=usage_only)
    ]
    changed.sort(key=lambda log: log.now.st_mtime_ns)  # So that ids are in the order of time.
    for log in changed:
        entry = known.get(log.path)
        if entry is None:
            entry = _moved(db, log, absent, writer) or _added(db, log)
        elif _is_another(db, log, entry):  # Its first line, by now complete, says whose it is.
            entry = _at_its_new_place(db, log, entry, writer)
        _plan_one(db, log, entry, plan, writer, usage_only=usage_only)
    _note_absent(db, absent, seen, plan, writer)
    return plan


def _plan_one(
    db: sqlite3.Connection,
    seen: SeenLog,
    entry: KnownLog,
    plan: RefreshPlan,
    writer: Writer,
    *,
    usage_only: bool,
) -> None:
    # Mostly both bookmarks are equal, and comparing reads the log.
    since = {mark: change_since(mark, seen.path, seen.now) for mark in {entry.usage, entry.text}}
    changes = set(since.values())
    packed_bytes = seen.packed_bytes
    if packed_bytes != entry.packed_bytes:
        db.execute("UPDATE logs SET packed_bytes = ? WHERE id = ?", (packed_bytes, entry.id))
    if entry.gone_at is not None:
        db.execute("UPDATE logs SET gone_at = NULL WHERE id = ?", (entry.id,))
        writer.note_later((seen.log.session_id, *writer.sessions_of(entry.id)))
    if LogChange.REPLACED in changes or _is_packed_and_grew(entry, changes):
        if entry.layout != BESIDE:
            plan.replaced.append(seen.path)
        writer.forget(entry.id)
        db.execute("UPDATE logs SET session = ? WHERE id = ?", (seen.log.session_id, entry.id))
        entry = replace(entry, generation=entry.generation + 1, usage=Bookmark(), text=Bookmark())
    mark = entry.usage if usage_only else entry.text
    if since.get(mark) is LogChange.NONE:  # A new bookmark is not among them.
        return
    folded = None
    if not usage_only and entry.text.offset:
        row = db.execute("SELECT folded FROM logs WHERE id = ?", (entry.id,)).fetchone()
        folded = row[0]
    plan.works.append(
        Work(entry.id, seen.log, entry.generation, mark.offset, entry.usage.offset, folded)
    )
    plan.new_bytes += max(0, seen.now.st_size - mark.offset)


def _is_packed_and_grew(entry: KnownLog, changes: set[LogChange]) -> bool:
    """Return whether a compressed log changed: without a fingerprint it is read again."""
    mark = entry.mark
    return mark.size_bytes >= 0 and mark.fingerprint is None and LogChange.GREW in changes


def _moved(
    db: sqlite3.Connection, seen: SeenLog, absent: dict[str, KnownLog], writer: Writer
) -> KnownLog | None:
    """Return the absent log that was moved here, if there is one.

    A log that is gone, but has a kept copy, moved to the copy; a restored one moved back.
    """
    from turnlog.formats.kept_copies import other_place  # noqa: PLC0415 - A log that grew did not move.

    other = other_place(seen.log) if absent and isinstance(seen.log, LogFile) else None
    # The likely place is checked first, since a whole home may be gone.
    for path in chain((other,) if other in absent else (), absent):
        entry = absent[path]
        is_same_file = (entry.device, entry.inode) == (seen.now.st_dev, seen.now.st_ino)
        if not is_same_file and path != other:
            continue
        if (
            entry.mark.size_bytes < 0
            or change_since(entry.mark, seen.path, seen.now) is LogChange.REPLACED
        ):
            continue
        del absent[path]
        return _at_its_new_place(db, seen, entry, writer)
    return None


def _is_another(db: sqlite3.Connection, seen: SeenLog, entry: KnownLog) -> bool:
    """Return whether a log belongs to another session or subagent than the index has."""
    row = db.execute("SELECT kind, subagent, session FROM logs WHERE id = ?", (entry.id,))
    kind, subagent, session = row.fetchone()
    log = seen.log
    return (log.kind, log.agent_id, log.session_id or session) != (kind, subagent, session)


def _at_its_new_place(
    db: sqlite3.Connection, seen: SeenLog, entry: KnownLog, writer: Writer
) -> KnownLog:
    """Update the place of a log; if that changes the meaning of its records, delete them."""
    query = "SELECT home, layout, kind, subagent, session FROM logs WHERE id = ?"
    *before, session = db.execute(query, (entry.id,)).fetchone()
    log = seen.log
    now = [os.fspath(log.home), log.layout, log.kind, log.agent_id]
    if now != before or (log.session_id or session) != session:
        writer.forget(entry.id)
        session = None
        entry = replace(
            entry,
            generation=entry.generation + 1,
            usage=Bookmark(),
            text=Bookmark(),
            gone_at=None,
        )
    db.execute(
        "UPDATE logs SET path = ?, home = ?, layout = ?, kind = ?, session = coalesce(?, ?),"
        " subagent = ?, project_key = ?, gone_at = NULL WHERE id = ?",
        (*_place_of(seen)[:5], session, *_place_of(seen)[5:], entry.id),
    )
    writer.note_later((session, log.session_id, *writer.sessions_of(entry.id)))
    writer.has_moved(entry.id)
    return replace(entry, path=seen.path)


def _added(db: sqlite3.Connection, seen: SeenLog) -> KnownLog:
    db.execute(
        "INSERT INTO logs (path, home, layout, kind, session, subagent, project_key)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO NOTHING",
        _place_of(seen),
    )
    row = db.execute(f"SELECT {_COLUMNS} FROM logs WHERE path = ?", (seen.path,)).fetchone()  # noqa: S608
    return _known(row)


def _known(row: tuple[Any, ...]) -> KnownLog:
    known: list[Any] = [*row[:7], Bookmark(*row[7:11]), Bookmark(*row[11:15]), row[15]]
    return KnownLog(*known)


def _place_of(seen: SeenLog) -> tuple[Any, ...]:
    log = seen.log
    return (
        seen.path,
        os.fspath(log.home),
        log.layout,
        log.kind,
        log.session_id,
        log.agent_id,
        log.project_key,
    )


def _note_absent(
    db: sqlite3.Connection,
    absent: dict[str, KnownLog],
    seen: dict[str, SeenLog],
    plan: RefreshPlan,
    writer: Writer,
) -> None:
    """Mark logs as gone; delete those that also exist elsewhere, or that were never read.

    Logs that were deleted with turnlog are deleted here, too.
    """
    if not absent:
        return
    from turnlog.formats.kept_copies import source_of_copy  # noqa: PLC0415 - Logs go seldom.
    from turnlog.formats.walk import is_gone  # noqa: PLC0415

    deleted = _deleted()
    for path, entry in absent.items():
        row = db.execute("SELECT session, subagent, kind, home FROM logs WHERE id = ?", (entry.id,))
        session, subagent, kind, home = row.fetchone()
        twin = db.execute(
            "SELECT 1 FROM logs WHERE session IS ? AND subagent IS ? AND kind = ? AND id <> ?"
            " AND gone_at IS NULL AND session IS NOT NULL",
            (session, subagent, kind, entry.id),
        ).fetchone()
        source = source_of_copy(home, path)
        # A kept copy is ignored while its log exists.
        is_hidden = source is not None and (source in seen or twin is not None)
        if not is_hidden and not is_gone(path):
            continue  # The walk could not read its directory.
        writer.note_later(writer.sessions_of(entry.id))
        is_elsewhere = twin is not None or is_hidden
        was_read = entry.mark.size_bytes >= 0
        if entry.layout == BESIDE or is_elsewhere or not was_read or session in deleted:
            writer.forget(entry.id)
            db.execute("DELETE FROM logs WHERE id = ?", (entry.id,))
        elif entry.gone_at is None:
            plan.gone.append(path)
            db.execute(
                "UPDATE logs SET gone_at = ? WHERE id = ?", (time.time_ns() // 1000, entry.id)
            )


def _deleted() -> frozenset[str]:
    """Return the ids of the sessions that are or were in the trash."""
    from turnlog.formats import turnlog_home  # noqa: PLC0415 - Logs go seldom.
    from turnlog.sessions.journal import Journal  # noqa: PLC0415

    try:
        return frozenset(Journal.in_root(turnlog_home()).deletions())
    except (TurnlogError, OSError):
        return frozenset()  # Then they count as gone until the index is rebuilt.
