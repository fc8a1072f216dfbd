"""Import sessions from a Claude home into a session store of the Claude Agent SDK.

The store can be any object with the SDK's methods. Only records that it lacks are sent, in the
order of the log and in batches: importing again sends what is new, or nothing.

Keys are those under which the SDK mirrors the same files: the name of the project directory, the
session id, and the path below the session without its suffix. Tool results, todos and plans are
not sent. Damaged lines are reported and cost no complete record. The source is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct, field

from turnlog.errors import NotFound, NotSerialisable, TurnlogError, UsageError
from turnlog.formats import (
    Home,
    LogFile,
    Problem,
    find_homes,
    find_logs,
    project_key,
    same_project_key,
)
from turnlog.formats.log_file import META
from turnlog.formats.walk import DirectoryWalk, Item
from turnlog.integrations.claude_agent_sdk.entries import Difference, SeenRecords
from turnlog.integrations.claude_agent_sdk.keys import LOG, OPAQUE, subpath_of
from turnlog.integrations.claude_agent_sdk.metadata import as_metadata, last_metadata
from turnlog.records.codec import encode
from turnlog.records.damage import Damage, Reason, damage_at
from turnlog.records.lenient_json import NOT_UTF8, TOO_DEEP, NotJson, loads
from turnlog.records.record_types import Marker
from turnlog.sessions.owners import owner_in
from turnlog.storage.atomic_files import READ_LIMIT
from turnlog.storage.reader import Placed, Reader, read_log
from turnlog.storage.sources import BrokenArchive, open_source

BATCH_ENTRIES: Final = 500
BATCH_BYTES: Final = 1024 * 1024
_MOST_DAMAGE: Final = 1000


class ImportedLog(Struct, kw_only=True):
    """The import of one log. *subpath* is None for a main log."""

    project_key: str
    session: str
    subpath: str | None
    path: str
    records: int = 0
    """Complete records in the log."""
    added: int = 0
    """Records that were sent."""
    conflicts: list[str] = field(default_factory=list)
    """Uuids for which the store, or an earlier line, has different content; not sent."""
    damage: list[Damage] = field(default_factory=list)
    """Ranges that are not records or cannot be stored; the first thousand."""
    damaged: int = 0
    """The number of such ranges."""
    pending_bytes: int = 0
    """Size of a last line that is truncated or still being written."""


class Imported(Struct, kw_only=True):
    """The result of an import."""

    logs: list[ImportedLog] = field(default_factory=list)
    metadata: int = 0
    """Subagents whose metadata was sent."""
    problems: list[Problem] = field(default_factory=list)
    """Files that could not be read and were skipped."""

    @property
    def added(self) -> int:
        """The number of entries sent."""
        return sum(log.added for log in self.logs) + self.metadata

    @property
    def sessions(self) -> list[str]:
        """The ids of the imported sessions, each once."""
        return list(dict.fromkeys(log.session for log in self.logs))


async def import_sessions(
    home: str | os.PathLike[str],
    store: Any,
    *,
    sessions: Iterable[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    batch_entries: int = BATCH_ENTRIES,
) -> Imported:
    """Send the sessions of *home* to *store*: all, those named, or those of one project directory.

    An error of the store ends the import; importing again continues where it stopped.
    """
    check_store(store, "append", "load")
    check_home(home)
    if not isinstance(batch_entries, int) or batch_entries < 1:
        raise UsageError(f"invalid batch size {batch_entries!r}", hint="use 1 or more")
    wanted = None if sessions is None else named_sessions(sessions)
    done = Imported()
    sources = await to_thread.run_sync(find_sources, home, wanted, project, done.problems)
    for (name, session_id, subpath), source in sources.items():
        store_key = {"project_key": name, "session_id": session_id}
        if subpath is not None:
            store_key["subpath"] = subpath
        await _import_key(store, store_key, source, batch_entries, done)
    return done


def check_store(store: Any, *methods: str) -> None:
    """Raise UsageError unless *store* has *methods*."""
    for method in methods:
        if not callable(getattr(store, method, None)):
            raise UsageError(
                f"{type(store).__name__} is not a session store: it has no method {method}",
                hint="pass an object with the methods of claude_agent_sdk.SessionStore",
            )


def check_home(home: object) -> None:
    """Raise UsageError unless *home* can be the path of a directory."""
    if not isinstance(home, str | os.PathLike) or "\0" in os.fspath(home):
        raise UsageError(
            f"{str(home)[:80]!r} is not a home directory", hint="use a path such as ~/.claude"
        )


def named_sessions(sessions: Iterable[str]) -> frozenset[str]:
    """Return *sessions*, which may be a single id, as a set."""
    try:
        named = frozenset((sessions,) if isinstance(sessions, str) else sessions)
    except TypeError:
        named = frozenset((None,))  # type: ignore[arg-type]
    if not all(isinstance(each, str) for each in named):
        raise UsageError("sessions must be session ids", hint="pass a list of strings")
    return named


async def _import_key(
    store: Any, key: dict[str, str], source: ImportSource, batch_entries: int, done: Imported
) -> None:
    """Send the records that *store* lacks under one key."""
    try:
        entries = [entry for entry in await store.load(dict(key)) or () if isinstance(entry, dict)]
    except UsageError as error:  # A file name on disk may not be a valid key.
        done.problems += (Problem(path, error.message) for path in source.logs)
        return
    held = SeenRecords(entries)
    told = last_metadata(entries)
    is_new = not entries
    del entries
    meta = await _metadata(source, done)
    for path in source.logs:
        log = ImportedLog(
            project_key=key["project_key"],
            session=key["session_id"],
            subpath=key.get("subpath"),
            path=str(path),
        )
        try:
            reading = await to_thread.run_sync(_LogImport, path, held, log, batch_entries)
        except (TurnlogError, OSError) as error:
            done.problems.append(Problem(path, str(error)))
            continue
        done.logs.append(log)
        try:
            while batch := await to_thread.run_sync(reading.batch):
                said = last_metadata(batch)
                if is_new and meta and not said:
                    await store.append(dict(key), [meta])  # First, as the SDK does.
                    said, done.metadata = meta, done.metadata + 1
                told, is_new = said or told, False
                await store.append(dict(key), batch)
                log.added += len(batch)
        finally:
            reading.close()
        if reading.failure:
            done.problems.append(Problem(path, reading.failure))
    if meta is not None and meta != told:
        await store.append(dict(key), [meta])
        done.metadata += 1


async def _metadata(source: ImportSource, done: Imported) -> dict[str, Any] | None:
    """Return the metadata entry of a subagent, or None."""
    if source.meta is None:
        return None
    meta = await to_thread.run_sync(read_metadata, source.meta)
    try:
        if isinstance(meta, dict):
            encode(meta)
            return as_metadata(meta)
    except NotSerialisable as error:
        meta = error.message
    done.problems.append(Problem(source.meta, str(meta)))
    return None


class _LogImport:
    """Read a log in batches of records that the store lacks."""

    def __init__(self, path: Path, held: SeenRecords, log: ImportedLog, batch_entries: int) -> None:
        self._reader: Reader = read_log(path)
        self._comparison = held.comparison()
        self._log = log
        self._batch_entries = batch_entries
        self.failure = ""

    def batch(self) -> list[dict[str, Any]]:
        """Return the next records to send; an empty list at the end of the log."""
        found: list[dict[str, Any]] = []
        size = 0
        try:
            for item in self._reader:
                if isinstance(item, Damage):
                    self._note(item)
                elif (entry := self._entry(item)) is not None:
                    found.append(entry)
                    size += item.length
                    if len(found) >= self._batch_entries or size >= BATCH_BYTES:
                        return found
        except (TurnlogError, OSError) as error:
            self.failure = f"could not be read completely: {error}"
        pending = self._reader.pending
        self._log.pending_bytes = pending.length if pending and pending.record is None else 0
        return found

    def close(self) -> None:
        self._reader.close()

    def _entry(self, item: Placed) -> dict[str, Any] | None:
        """Return a record as an entry, or None if it must not be sent."""
        record = item.record
        if isinstance(record, Marker) and item.offset == 0:
            return None  # The header of a log that turnlog wrote.
        self._log.records += 1
        if TOO_DEEP in record.odd:
            self._note(_unsendable(item, "nested too deep"))
            return None
        entry = record.fields
        try:
            finding = self._comparison.take(entry)
        except NotSerialisable as error:
            self._note(_unsendable(item, error.message))
            return None
        if finding is Difference.OTHER:
            self._log.conflicts.append(str(entry["uuid"]))
        if finding is Difference.MISSING and NOT_UTF8 in record.odd:
            self._note(_unsendable(item, "not UTF-8: sent with replacement characters"))
        return entry if finding is Difference.MISSING else None

    def _note(self, damage: Damage) -> None:
        self._log.damaged += 1
        if len(self._log.damage) < _MOST_DAMAGE:
            self._log.damage.append(damage)


def _unsendable(item: Placed, why: str) -> Damage:
    raw = item.record.raw
    return damage_at(raw, Reason.NOT_JSON, offset=item.offset, line=item.line, detail=why)


_KEPT: Final = ".zst"
NO_LOGS_IN: Final = frozenset({OPAQUE, "blobs", "tool-results"})
"""Directories of a session that do not contain logs under their own names."""

SourceKey = tuple[str, str, str | None]
"""Project key, session and subpath; None for the main log."""


class ImportSource(Struct):
    """The files of one key; several logs if an archive is next to its original."""

    logs: list[Path] = field(default_factory=list)
    meta: Path | None = None


def find_sources(
    home: str | os.PathLike[str],
    wanted: frozenset[str] | None,
    project: str | os.PathLike[str] | None,
    problems: list[Problem],
) -> dict[SourceKey, ImportSource]:
    """Return the files to send: of all sessions or those *wanted*, of all projects or one."""
    key = None if project is None else project_key(project)
    (found,) = find_homes([home])
    noted: list[Problem] = []
    sources: dict[SourceKey, ImportSource] = {}
    directories: dict[tuple[str, str], set[Path]] = {}
    for log, session_id in _logs(found, key, noted):
        if wanted is None or session_id in wanted:
            name = str(log.project_key)
            place, inner = _place(log, session_id)
            sources.setdefault((name, session_id, inner), ImportSource()).logs.append(log.path)
            directories.setdefault((name, session_id), set()).add(place)
    missing = (wanted or frozenset()) - {session_id for _, session_id in directories}
    if missing:
        raise NotFound(
            f"no session {', '.join(sorted(missing))} in {os.fspath(found)}",
            hint="use complete session ids",
        )
    for (name, session_id), places in directories.items():
        beneath = [found for place in sorted(places) for found in _beneath(place, noted)]
        for inner, path in sorted(beneath, key=lambda found: found[1].suffix == _KEPT):
            _add(sources.setdefault((name, session_id, inner), ImportSource()), path)
    taken = {path for source in sources.values() for path in source.logs}
    problems += (each for each in dict.fromkeys(noted) if each.path not in taken)
    for source in sources.values():
        source.logs.sort(key=lambda path: (path.suffix != LOG, path))
    return dict(sorted(sources.items(), key=lambda each: (*each[0][:2], each[0][2] or "")))


def read_metadata(path: Path) -> dict[str, Any] | str:
    """Return the metadata in a file, or the reason why it cannot be read."""
    data = bytearray()
    try:
        source = open_source(path)
        try:
            while len(data) <= READ_LIMIT and (chunk := source.read(1 << 18)):
                data += chunk
        finally:
            source.close()
        value = loads(bytes(data)) if len(data) <= READ_LIMIT else None
    except (TurnlogError, OSError) as error:
        return str(error)
    except BrokenArchive as error:
        return f"cannot be decompressed: {error}"
    except NotJson as error:
        return f"is not JSON: {error}"
    return value if isinstance(value, dict) else "is not a JSON object"


def _logs(home: Home, key: str | None, problems: list[Problem]) -> Iterator[tuple[LogFile, str]]:
    """Yield the logs of a home with their session ids."""
    for log in find_logs(home, problems=problems):
        if log.layout != "claude" or log.project_key is None:
            problems.append(Problem(log.path, f"in the layout {log.layout!r}: convert it first"))
        elif key is None or same_project_key(log.project_key, key):
            session_id = log.session_id or owner_in(log.path)
            if session_id is None:
                problems.append(Problem(log.path, "nothing tells whose agent this was"))
            else:
                yield log, session_id


def _place(log: LogFile, session_id: str) -> tuple[Path, str | None]:
    """Return where a session's other files lie, and what the log is called among them."""
    stem = log.path.name.partition(LOG)[0]
    if log.kind == "session":
        return log.path.parent / session_id, None
    if log.session_id is None:  # Early versions put agents' logs beside the sessions'.
        return log.path.parent / session_id, f"subagents/{stem}"
    place = log.path.parent
    while place.name != session_id:
        place = place.parent
    return place, "/".join((*log.path.relative_to(place).parent.parts, stem))


def _beneath(place: Path, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Return the logs and the agents' metadata beneath a session, whatever wrote them."""
    for item in DirectoryWalk(problems).files_beneath(str(place)):
        above = Path(item.path).relative_to(place).parent.parts
        stem = _stem(item)
        inner = "/".join((*above, stem))
        if above and above[0] == OPAQUE:
            inner = subpath_of(inner + LOG) or ""
        elif above and above[0] in NO_LOGS_IN:
            continue
        if stem and inner:
            yield inner, Path(item.path)


def _stem(item: Item) -> str:
    name = item.name.removesuffix(_KEPT)
    for ending in (LOG, META):
        if name.endswith(ending):
            return name.removesuffix(ending)
    return ""


def _add(source: ImportSource, path: Path) -> None:
    """Add what lies beneath a session. Of what is packed, and there unpacked, nothing is news."""
    is_packed = path.suffix == _KEPT
    if path.name.removesuffix(_KEPT).endswith(META):
        source.meta = (source.meta or path) if is_packed else path
    elif path not in source.logs and not (is_packed and source.logs):
        source.logs.append(path)
