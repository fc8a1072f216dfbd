"""List sessions from the logs themselves, newest first.

Only the ends of each log are read, so a list takes the same time for short and long logs. Only in
logs of Claude Code 1.x the middle is searched, for subagents in sidechains. Titles between the ends
come from the index, if there is one. What needs a whole log (the number of records) is None here.

The keeping of a session is the same in every list:

    live        at its source; no kept copy has all of it
    kept        at its source; a kept copy has all of it
    restorable  gone at its source; a kept copy is read
    gone        gone; only the index has it

The catalogues of kept copies are read once per list. A copy has all of a log if the log has the
size and mtime at which it was copied.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, field, structs

from turnlog.errors import TurnlogError
from turnlog.formats import Home, LayoutName, LogFile, Problem, find_everywhere, turnlog_home
from turnlog.formats.find import in_reading_order
from turnlog.formats.flat.format import is_flat_archive
from turnlog.formats.home_paths import kept_root
from turnlog.formats.projects import expand_path, is_within
from turnlog.formats.supported import shared_layouts
from turnlog.index.freshness import path_of_index
from turnlog.keep.archive.archives import Archives
from turnlog.records.codec import decode
from turnlog.records.damage import Damage
from turnlog.records.record import Linked
from turnlog.records.session_summary import SessionSummary
from turnlog.records.tags import tags_in
from turnlog.sessions.journal import Journal
from turnlog.sessions.metadata import NamedTitle, read_head_tail
from turnlog.sessions.owners import day_of, is_other_project, owner_in, read_day
from turnlog.sessions.state import SessionState, State, running_sessions
from turnlog.storage.scan import FoundLines
from turnlog.storage.sources import ENDS_BYTES

if TYPE_CHECKING:
    import sqlite3

    from turnlog.keep.catalog import Catalogue


Keeping: TypeAlias = Literal["live", "kept", "gone", "restorable"]


class Keepings:
    """Looks up the keeping of logs."""

    def __init__(self) -> None:
        self._kept_root = os.path.join(kept_root(), "")
        self._catalogues: dict[str, Catalogue] = {}

    def of(self, home: str, path: str, *, is_gone: bool = False) -> Keeping:
        """Return how safe the log at *path* in *home* is."""
        if is_gone:
            return "gone"
        if path.startswith(self._kept_root):
            return "restorable"
        catalogue = self._of_home(home)
        name = os.path.relpath(path, home).replace(os.sep, "/")
        if catalogue is None or name not in catalogue.current:
            return "live"
        try:
            now = os.stat(path)
        except OSError:  # Gone since it was listed.
            return "restorable"
        return "kept" if catalogue.has_all_of(name, now.st_size, now.st_mtime_ns) else "live"

    def _of_home(self, home: str) -> Catalogue | None:
        if home not in self._catalogues:
            # Without kept copies, their modules need not be imported.
            if not os.path.isdir(self._kept_root):
                return None
            from turnlog.keep.catalog import Catalogue  # noqa: PLC0415

            self._catalogues[home] = Catalogue.of_home(home)
        return self._catalogues[home]


SubagentIds = Mapping[tuple[Home, str], Collection[str]]
"""The ids of the subagents of each session of each home."""
_WITH_SIDECHAINS: Final = ("0.", "1.")
"""The versions of Claude Code that wrote the records of subagents into the main log."""


class SessionRow(Struct, kw_only=True, frozen=True):
    """One session in a list."""

    id: str
    project: str | None
    title: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    records: int | None
    state: State
    keeping: Keeping = "live"
    archived: bool = False
    layout: LayoutName
    home: str
    path: str
    size_bytes: int
    subagents: int
    running: str | None = None
    """The status of the program that has it open, such as "busy", or null."""
    git_branch: str | None = None
    tags: list[str] = []
    pinned: bool = False
    models: list[str] = []

    @property
    def sharer(self) -> str | None:
        """Its id, if other sessions have records in its log, too."""
        return self.id if self.layout in shared_layouts() else None


class SessionList(Struct, kw_only=True):
    """Sessions from the logs: what `turnlog recover --json` prints of those that crashed."""

    sessions: list[SessionRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int


def list_sessions(
    homes: Iterable[Home],
    *,
    project: str | None = None,
    archived: bool | None = False,
    limit: int | None = None,
    offset: int = 0,
    now: datetime | None = None,
    problems: list[Problem] | None = None,
    copies: bool = False,
) -> SessionList:
    """List the sessions of *homes*, the last active one first.

    *project* keeps those that worked in that directory or below it. *archived* ones are left out,
    or listed alone; with None, they are among the others. If several projects of a home have a copy
    of a session, the last active one is listed, or with *copies* each of them.
    """
    homes = tuple(homes)
    subagents: dict[tuple[Home, str], set[str]] = {}
    mains: list[LogFile] = []
    days: list[LogFile] = []
    for log in find_everywhere(homes, problems=problems):
        if log.kind == "session":
            mains.append(log)
        elif log.kind == "day":
            days.append(log)
        elif log.kind == "subagent" and (owner := log.session_id or owner_in(log.path)) is not None:
            subagents.setdefault((log.home, owner), set()).add(log.agent_id or str(log.path))
    moment = now or datetime.now(UTC)
    archives = Archives.load()
    with closing(StoredTitles(homes)) as remembered:
        read = {
            log: _row(log, subagents, moment, problems, remembered)
            for log in _without_twins(mains)
            # Archives are slow to read, so not if they are left out anyway.
            if archived is not False or not log.format.has_registry or not is_flat_archive(log.path)
        }
    listed = {log: row for log, row in read.items() if row is not None}
    found = list(listed.values()) if copies else _one_of_copies(listed)
    found += _rows_of_days(days, subagents, moment, problems)
    rows = [
        row
        for each in found
        if project is None or is_within(each.project, expand_path(project))
        if (row := _with_archived(each, archives)).archived is archived or archived is None
    ]
    rows.sort(key=lambda row: row.id)  # Forks have equal times.
    rows.sort(key=lambda row: row.last_active_at or datetime.min.replace(tzinfo=UTC), reverse=True)
    end = len(rows) if limit is None else offset + limit
    following = end if end < len(rows) else None
    page = _with_keeping(_with_running(rows[offset:end], homes))
    return SessionList(sessions=page, next=following, total=len(rows))


def _without_twins(mains: list[LogFile]) -> list[LogFile]:
    """Leave out archives whose log exists as well."""
    plain = {(log.home, log.session_id) for log in mains if log.compression is None}
    return [
        log for log in mains if log.compression is None or (log.home, log.session_id) not in plain
    ]


def _one_of_copies(rows: dict[LogFile, SessionRow]) -> list[SessionRow]:
    """Return one row for each session of a home, for the log that readers choose."""
    sessions: dict[tuple[Home, str | None], list[LogFile]] = {}
    for log in rows:
        sessions.setdefault((log.home, log.session_id), []).append(log)
    return [
        rows[in_reading_order(logs, lambda log: rows[log].last_active_at)[0]]
        for logs in sessions.values()
    ]


def _with_archived(row: SessionRow, archives: Archives) -> SessionRow:
    is_archived = archives.holds(row.id, row.home, row.path, row.layout, row.size_bytes)
    return structs.replace(row, archived=True) if is_archived else row


def _with_running(rows: list[SessionRow], homes: Iterable[Home]) -> list[SessionRow]:
    running = running_sessions(homes)
    alive = {each: found.doing for each, found in running.items() if found.is_alive}
    return [structs.replace(row, running=alive.get(row.id)) for row in rows] if alive else rows


def _with_keeping(rows: list[SessionRow]) -> list[SessionRow]:
    keepings, pins = Keepings(), pinned_sessions()
    return [
        structs.replace(row, keeping=keepings.of(row.home, row.path), pinned=row.id in pins)
        for row in rows
    ]


def pinned_sessions() -> frozenset[str]:
    """Return the ids of the pinned sessions; none if the journal cannot be read."""
    try:
        return Journal.in_root(turnlog_home()).pins()
    except (TurnlogError, OSError):
        return frozenset()


def _row(
    log: LogFile,
    subagents: SubagentIds,
    now: datetime,
    problems: list[Problem] | None,
    remembered: StoredTitles,
) -> SessionRow | None:
    try:
        found, life, ends = read_head_tail(log.path, remembered.named)
    except (TurnlogError, OSError) as error:
        if problems is not None:
            problems.append(Problem(log.path, str(error)))
        return None
    if found.is_sidechain:
        return None
    facts = _SessionFacts(found, life, ends.is_whole, ends.size_bytes, ends.changed_at)
    row = _row_of(log, facts, subagents, now)
    versions = {found.version, *(each.version for each in ends.head if isinstance(each, Linked))}
    if any(version and version.startswith(_WITH_SIDECHAINS) for version in versions):
        row = structs.replace(row, subagents=row.subagents + _sidechains_in(log.path))
    return row


def _sidechains_in(path: Path) -> int:
    """Count the subagents whose records are in a main log: each begins without a parent."""
    count = 0
    with suppress(TurnlogError, OSError):
        for _, line in FoundLines(path, b'"parentUuid":null', b'"parentUuid": null'):
            record = line if isinstance(line, Damage) else decode(line)
            count += isinstance(record, Linked) and record.is_sidechain and not record.parent_uuid
    return count


class _SessionFacts(NamedTuple):
    """What the log of a session says, and whether it was read as a whole."""

    summary: SessionSummary
    life: SessionState
    is_whole: bool
    size_bytes: int
    changed_at: float


def _row_of(
    log: LogFile,
    facts: _SessionFacts,
    subagents: SubagentIds,
    now: datetime,
) -> SessionRow:
    found, life = facts.summary, facts.life
    # Without a dated record, the mtime of the file is used.
    life.last_active_at = life.last_active_at or datetime.fromtimestamp(facts.changed_at, UTC)
    return SessionRow(
        id=log.session_id or "",
        project=found.cwd,
        title=found.title,
        started_at=found.started_at,
        last_active_at=life.last_active_at,
        records=found.records if facts.is_whole else None,
        state=life.state(now),
        layout=log.layout,
        home=os.fspath(log.home),
        path=os.fspath(log.path),
        size_bytes=facts.size_bytes,
        subagents=len(subagents.get((log.home, log.session_id or ""), ())),
        git_branch=found.git_branch,
        tags=tags_in(found.tag),
        models=[model for model in found.models if not model.startswith("<")],
    )


def _rows_of_days(
    days: list[LogFile],
    subagents: SubagentIds,
    now: datetime,
    problems: list[Problem] | None,
) -> list[SessionRow]:
    """Read shared logs as a whole, since any session may be in the middle."""
    facts: dict[str, _SessionFacts] = {}
    logs: dict[str, LogFile] = {}
    for log in sorted(days, key=day_of):
        try:
            changed_at = os.stat(log.path).st_mtime
            for session_id, placed in read_day(log):
                if is_other_project(logs.get(session_id, log), log):
                    continue
                before = facts.get(session_id) or _SessionFacts(
                    SessionSummary(), SessionState(), True, 0, 0.0
                )
                before.summary.take(placed.record)
                before.life.take(placed.record)
                size = before.size_bytes + placed.length + 1
                facts[session_id] = before._replace(size_bytes=size, changed_at=changed_at)
                logs[session_id] = log
        except (TurnlogError, OSError) as error:
            if problems is not None:
                problems.append(Problem(log.path, str(error)))
    return [
        _row_of(structs.replace(logs[each], session_id=each), facts[each], subagents, now)
        for each in facts
    ]


class StoredTitles:
    """The titles of sessions in the index of *homes*, which is read as it is, if it exists.

    They are for logs of which only the ends are read.
    """

    def __init__(self, homes: Sequence[Home]) -> None:
        self._homes = homes
        self._db: sqlite3.Connection | None = None
        self._exists = os.path.isfile(path_of_index(homes))

    def named(self, path: str | os.PathLike[str]) -> NamedTitle | None:
        """Return the titles in the log at *path*; None if the index has read only its beginning."""
        if not self._exists:
            return None
        import sqlite3  # noqa: PLC0415 - Most logs are short, and need no index.

        from turnlog.index.database import open_for_reading  # noqa: PLC0415

        try:
            self._db = self._db or open_for_reading(self._homes)
            self._exists = self._db is not None
            row = (
                None
                if self._db is None
                else self._db.execute(_TITLES, (os.fspath(path),)).fetchone()
            )
            known = None if row is None or row[1] is None else _unpack(row[1]).sessions.get(row[0])
        except (sqlite3.Error, msgspec.DecodeError) as error:
            self._exists = isinstance(error, msgspec.DecodeError)
            return None
        return None if known is None else known.summary

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


_TITLES: Final = (
    "SELECT session, coalesce(tail_folded, folded) FROM logs"  # noqa: S608 - Ours.
    f" WHERE path = ? AND kind = 'session' AND text_offset >= {ENDS_BYTES}"
)


# The parts of the packed state of a log that are needed here.
class _StoredSummary(Struct):
    summary: NamedTitle = field(default_factory=NamedTitle)


class _StoredState(Struct, array_like=True):
    sessions: dict[str, _StoredSummary] = field(default_factory=dict)


_unpack = msgspec.msgpack.Decoder(_StoredState).decode
