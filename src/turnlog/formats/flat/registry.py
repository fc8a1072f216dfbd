"""The two caches of a flat store, ``ID.meta.json`` and ``index.json``, updated under one lock.

``index.json`` is the registry of the store's sessions, newest first:

    {"sessions": [{"id": …, "createdAt": …, "lastActiveAt": …, "title": …, "messageCount": …, …}]}

A change reads the file first and replaces it atomically while it holds the store's lock: nothing
written by another process is lost, and readers and crashes see the old file or the new one. Keys of
other programs are kept. A missing or damaged registry is rebuilt from the files next to it; a
damaged file is kept under another name.

Both can be deleted at any time. `reindex` rebuilds them from the logs, even while others write, and
keeps only what no log contains.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import LogError, NotFound, TurnlogError
from turnlog.formats import Problem, flat_index, flat_log, flat_meta
from turnlog.formats.flat import files
from turnlog.formats.flat.meta import (
    FlatLog,
    LiveMeta,
    Meta,
    MetaFold,
    Table,
    completed,
    count,
    fields_of,
    find_log,
    flag,
    meta_from,
    metas_in,
    part,
    read_meta,
    sessions_in,
    text,
)
from turnlog.formats.walk import UnreadablePlace
from turnlog.records.dates import instant, iso
from turnlog.storage.atomic_files import Unreadable
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.writer import LOCK_TIMEOUT

Problems = list[Problem]

_ROUNDS: Final = 10


class RegistryEntry(Struct, frozen=True, kw_only=True):
    """One session in the registry."""

    id: str
    created_at: datetime | None = None
    last_active_at: datetime | None = None
    title: str | None = None
    message_count: int = 0
    is_archived: bool = False
    more: files.Fields = field(default_factory=dict)
    """Unknown keys, and known ones with an invalid value."""


class Registry(Struct, frozen=True, kw_only=True):
    """The content of the registry, and its problems."""

    entries: tuple[RegistryEntry, ...] = ()
    problem: str | None = None
    more: files.Fields = field(default_factory=dict)

    @property
    def listed(self) -> tuple[RegistryEntry, ...]:
        """The sessions to list: those that are not archived."""
        return tuple(entry for entry in self.entries if not entry.is_archived)


def write_meta(
    directory: str | os.PathLike[str],
    meta: Meta,
    *,
    live: LiveMeta | None = None,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> None:
    """Replace a session's metadata file atomically, keeping what only the file knows.

    *live* is the metadata read from the log, if that may lack the marks of its writers.
    """
    where = flat_meta(directory, meta.session_id).parent
    with files.hold(where, lock_timeout):
        _put_meta(where, meta, live=live)


def note_log(log: Path, session_id: str) -> None:
    """Update both caches for a session whose log is now at *log*."""
    directory = log.parent.parent if log.parent.name == "compressed" else log.parent
    fold = MetaFold()
    with read_log(log) as reader:
        for item in reader:
            if isinstance(item, Placed):
                fold.take(item.record)
    meta = fold.meta(session_id)
    write_meta(directory, meta)
    update_registry(directory, meta)


def update_registry(
    directory: str | os.PathLike[str],
    entry: RegistryEntry | Meta,
    *,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> None:
    """Add *entry* to the registry, replacing its session's previous one."""
    new = entry_of(entry) if isinstance(entry, Meta) else entry
    where = flat_meta(directory, new.id).parent
    with files.hold(where, lock_timeout):
        index, found = _load_index(where)
        entries = known = {each.id: each for each in index.entries}
        if found is None:
            others = _other_entries(where, new.id)
            entries = {each.id: _joined(where, each, known.get(each.id)) for each in others}
        entries[new.id] = _joined(where, new, known.get(new.id))
        _put_index(where, entries.values(), index, found)


def known_meta(directory: Path, session_id: str) -> Meta | None:
    """Return a session's metadata, from its file or else from its log."""
    meta = read_meta(flat_meta(directory, session_id))
    if not isinstance(meta, Unreadable):
        return meta
    live = LiveMeta(directory, session_id)
    try:
        live.refresh()
    except (TurnlogError, OSError):  # Gone or unreadable: reindex will report it.
        return None
    return live.meta()


def forget(
    directory: str | os.PathLike[str],
    session_id: str,
    *,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> bool:
    """Remove a session from the registry; return whether it was there.

    A damaged registry is left alone: the next change rebuilds it.
    """
    where = flat_meta(directory, session_id).parent
    with files.hold(where, lock_timeout):
        found = files.read_object(flat_index(where))
        index = index_from(found)
        left = [entry for entry in index.entries if entry.id != session_id]
        is_there = len(left) < len(index.entries)
        if is_there and index.problem is None and isinstance(found, files.JsonFile):
            _put_index(where, left, index, found)
    return is_there


class Reindexed(Struct, frozen=True, kw_only=True):
    """What `reindex` found and did."""

    sessions: int
    rewritten: int
    """Metadata files that did not match their logs."""
    dropped: int
    """Entries of sessions that are gone."""
    problems: tuple[Problem, ...] = ()


def reindex(
    directory: str | os.PathLike[str], *, lock_timeout: float | None = LOCK_TIMEOUT
) -> Reindexed:
    """Rebuild the registry and all metadata files of a flat store from its logs.

    Logs are read while others may write; the store is locked only to write a file. At the end,
    under the lock, logs that changed meanwhile are read again.
    """
    where = Path(os.path.abspath(directory))
    if not where.is_dir():
        raise NotFound(f"no directory {where}", hint="name the directory that holds the logs")
    work = _Reindexing(where, lock_timeout)
    work.begin()
    for _ in range(_ROUNDS):
        if work.finish():
            break
    else:  # Sessions change faster than they can be read unlocked.
        work.finish(insist=True)
    return work.report()


class _Reindexing:
    """One run over a store."""

    def __init__(self, directory: Path, lock_timeout: float | None) -> None:
        self._directory = directory
        self._timeout = lock_timeout
        self._metas: dict[str, Meta] = {}
        self._seen: dict[str, FlatLog | None] = {}
        self._late: dict[str, LiveMeta] = {}
        self._unread: set[str] = set()
        self._rewritten: set[str] = set()
        self._dropped: set[str] = set()
        self._problems: Problems = []

    def begin(self) -> None:
        """Read every log and correct its metadata."""
        for session_id in sorted(sessions_in(self._directory, self._problems)):
            live = LiveMeta(self._directory, session_id)
            if self._refresh(live):
                with files.hold(self._directory, self._timeout):
                    self._write(live)

    def finish(self, *, insist: bool = False) -> bool:
        """Write the registry if no log has changed since; otherwise read those again.

        With *insist*, they are read under the lock, however long they are.
        """
        waiting: list[LiveMeta] = []
        with files.hold(self._directory, self._timeout):
            problems: Problems = []
            found = sessions_in(self._directory, problems)
            is_whole = not any(isinstance(each, UnreadablePlace) for each in problems)
            for session_id in sorted(found - self._unread):
                if _log_now(self._directory, session_id) == self._seen.get(session_id):
                    continue
                live = self._late.get(session_id)
                if live is None:
                    live = self._late[session_id] = LiveMeta(self._directory, session_id)
                    waiting.append(live)
                if insist or live not in waiting:
                    self._write(live)  # Mostly little was added since.
            if insist or not waiting:
                self._problems += problems
                self._write_index(found, is_whole=is_whole)
                return True
        for live in waiting:
            self._refresh(live)
        return False

    def report(self) -> Reindexed:
        return Reindexed(
            sessions=len(self._metas),
            rewritten=len(self._rewritten),
            dropped=len(self._dropped),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _refresh(self, live: LiveMeta) -> bool:
        """Read a log; return whether that was possible."""
        try:
            live.refresh()
        except NotFound:
            return False  # Gone since it was listed.
        except (TurnlogError, OSError) as error:
            self._give_up(live, str(error))
            return False
        return True

    def _write(self, live: LiveMeta) -> None:
        """Correct the metadata of a session, under the lock."""
        if not self._refresh(live):
            return
        path = flat_meta(self._directory, live.session_id)
        try:
            meta, changed = _put_meta(
                self._directory, live.meta(), live=live, problems=self._problems
            )
        except LogError as error:
            meta, changed = live.meta(), False
            self._problems.append(Problem(path, str(error)))
        if live.broken and live.session_id not in self._metas and live.log is not None:
            self._problems.append(Problem(live.log.path, f"a damaged archive: {live.broken}"))
        self._metas[live.session_id], self._seen[live.session_id] = meta, live.log
        if changed:
            self._rewritten.add(live.session_id)

    def _give_up(self, live: LiveMeta, reason: str) -> None:
        """Keep the registry's entry of a session whose log cannot be read."""
        log = _log_now(self._directory, live.session_id)
        path = log.path if log else flat_log(self._directory, live.session_id)
        self._unread.add(live.session_id)
        self._problems.append(Problem(path, reason))

    def _write_index(self, found: set[str], *, is_whole: bool) -> None:
        """Write the registry; unless the store *is_whole*, missing sessions stay."""
        index, old = _load_index(self._directory, self._problems)
        known = {entry.id: entry for entry in index.entries}
        self._metas = {each: meta for each, meta in self._metas.items() if each in found}
        gone = known.keys() - found if is_whole else set[str]()
        entries = {
            each: entry
            for each, entry in known.items()
            if each not in gone and (each in self._unread or each not in found)
        }
        for session_id, meta in self._metas.items():
            more = unknown_keys(known[session_id]) if session_id in known else {}
            entries[session_id] = replace(entry_of(meta), more=more)
        self._dropped = gone
        _put_index(self._directory, entries.values(), index, old)
        for session_id in sorted(metas_in(self._directory) - found) if is_whole else ():
            path = flat_meta(self._directory, session_id)
            self._problems.append(Problem(path, "metadata of a session that has no log"))


# -- while the store is held ----------------------------------------------------------------


def _put_meta(
    directory: Path,
    meta: Meta,
    *,
    live: LiveMeta | None = None,
    problems: Problems | None = None,
) -> tuple[Meta, bool]:
    """Write *meta*, completed from its file; return whether the file changed."""
    path = flat_meta(directory, meta.session_id)
    found = _to_change(path, files.read_object(path), problems)
    old = meta_from(found.fields, meta.session_id) if found else None
    if meta.last_active_at is None:
        meta = replace(meta, last_active_at=_changed_at(directory, meta.session_id))
    complete = completed(meta, old, is_marked=live.is_marked if live else True)
    if complete.created_at is None:
        complete = replace(complete, created_at=complete.last_active_at)
    return complete, files.write_object(path, fields_of(complete), found.data if found else None)


def _load_index(
    directory: Path, problems: Problems | None = None
) -> tuple[Registry, files.JsonFile | None]:
    """Read the registry for a change. A damaged one is renamed, and its valid part returned."""
    path = flat_index(directory)
    found = files.read_object(path)
    index = index_from(found)
    if isinstance(found, files.JsonFile) and index.problem:
        found = files.DamagedFile(index.problem)
    return index, _to_change(path, found, problems)


def _put_index(
    directory: Path, entries: Iterable[RegistryEntry], index: Registry, found: files.JsonFile | None
) -> None:
    fields = index_fields(entries, index.more)
    files.write_object(flat_index(directory), fields, found.data if found else None)


def _to_change(
    path: Path, found: files.JsonFile | Unreadable, problems: Problems | None
) -> files.JsonFile | None:
    """Return the content of a file that is about to be replaced, if it is valid."""
    if isinstance(found, files.JsonFile):
        return found
    if isinstance(found, files.DamagedFile):
        aside = files.set_aside(path)
        if problems is not None:
            problems.append(Problem(path, f"{found.reason}; kept as {aside.name}"))
    elif not files.is_missing(found):
        raise files.refusal(path, found.reason)
    return None


def _other_entries(directory: Path, known: str) -> Iterator[RegistryEntry]:
    """Return entries of all sessions but the *known* one, from their metadata or logs."""
    for session_id in sorted(sessions_in(directory) - {known}):
        meta = known_meta(directory, session_id)
        if meta is not None:
            yield entry_of(replace(meta, session_id=session_id))


def _joined(directory: Path, entry: RegistryEntry, known: RegistryEntry | None) -> RegistryEntry:
    """Fill gaps in an entry from the previous one."""
    before = known or entry
    active_at = entry.last_active_at or _changed_at(directory, entry.id) or before.last_active_at
    return replace(
        entry,
        created_at=entry.created_at or before.created_at or active_at,
        last_active_at=active_at,
        title=entry.title or before.title,
        more=unknown_keys(before) | unknown_keys(entry),
    )


def _changed_at(directory: Path, session_id: str) -> datetime | None:
    """Return the mtime of a log, for want of a record with a timestamp."""
    log = _log_now(directory, session_id)
    return log.changed_at if log else None


def _log_now(directory: Path, session_id: str) -> FlatLog | None:
    try:
        return find_log(directory, session_id)
    except LogError:  # Reported when it is read.
        return None


# -- the content of index.json --------------------------------------------------------------

_FIELDS: Final[Table] = {
    "id": ("id", text),
    "createdAt": ("created_at", instant),
    "lastActiveAt": ("last_active_at", instant),
    "title": ("title", text),
    "messageCount": ("message_count", count),
    "isArchived": ("is_archived", flag),
}


def entry_of(meta: Meta) -> RegistryEntry:
    """Return the registry's entry of a session."""
    return RegistryEntry(
        id=meta.session_id,
        created_at=meta.created_at,
        last_active_at=meta.last_active_at,
        title=meta.title,
        message_count=meta.message_count,
        is_archived=meta.is_archived,
    )


def read_index(directory: str | os.PathLike[str]) -> Registry:
    """Read the registry of the flat store at *directory*; what cannot be read is a problem."""
    return index_from(files.read_object(flat_index(directory)))


def index_from(found: files.JsonFile | Unreadable) -> Registry:
    """Return the registry in the object read from its file."""
    if isinstance(found, Unreadable):
        return Registry(problem=found.reason)
    listed = found.fields.get("sessions")
    if not isinstance(listed, list):
        return Registry(problem="no list of sessions", more=found.fields)
    entries: dict[str, RegistryEntry] = {}
    odd = 0
    for item in listed:
        known, more = part(item, _FIELDS) if isinstance(item, dict) else ({}, {})
        if "id" in known:
            entries.setdefault(known["id"], RegistryEntry(**known, more=more))
        else:
            odd += 1
    problem = f"{odd:,} of {len(listed):,} are not sessions" if odd else None
    return Registry(entries=_sorted(entries.values()), problem=problem, more=found.fields)


def index_fields(entries: Iterable[RegistryEntry], more: files.Fields) -> files.Fields:
    """Return a registry as JSON fields; *more* is the rest of the file."""
    sessions = {"sessions": [_wire(entry) for entry in _sorted(entries)]}
    # Existing keys keep their position.
    return more | sessions if "sessions" in more else sessions | more


def _sorted(entries: Iterable[RegistryEntry]) -> tuple[RegistryEntry, ...]:
    """Sort newest first, undated ones last; the id breaks ties."""
    by_id = sorted(entries, key=lambda entry: entry.id)
    return tuple(sorted(by_id, key=_recency, reverse=True))


def _recency(entry: RegistryEntry) -> tuple[bool, datetime]:
    at = entry.last_active_at
    if at is None:
        return False, datetime.min.replace(tzinfo=UTC)
    # Milliseconds, as on disk: anything finer is lost when the file is read again.
    return True, at.replace(microsecond=at.microsecond // 1000 * 1000)


def _wire(entry: RegistryEntry) -> files.Fields:
    fields: files.Fields = {}
    for key, (name, _) in _FIELDS.items():
        value = getattr(entry, name)
        value = iso(value) if isinstance(value, datetime) else value
        # A value that could not be read is kept as it was.
        value = entry.more.get(key, value)
        if value is not None or key != "title":
            fields[key] = value
    return fields | unknown_keys(entry)


def unknown_keys(entry: RegistryEntry) -> files.Fields:
    """Return the keys of *entry* that only another program knows."""
    return {key: value for key, value in entry.more.items() if key not in _FIELDS}
