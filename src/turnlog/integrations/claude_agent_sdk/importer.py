"""Sessions from a Claude home on disk, sent to a session store of the Claude Agent SDK.

The store may be any object with the SDK's methods. Only what it lacks is sent, in the order of the
log and in batches of bounded size: importing again changes nothing, and importing what has grown
sends what is new. See ``claude_held`` for how that is told.

Logs are read by turnlog's own reader, so a torn tail, a damaged line or two records on one line
cost no whole record; what was damaged is reported. The source is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct, field

from turnlog.errors import NotSerialisable, TurnlogError, UsageError
from turnlog.formats import Problem
from turnlog.integrations.claude_agent_sdk.comparison import Difference, SeenRecords
from turnlog.integrations.claude_agent_sdk.metadata import as_metadata, last_metadata
from turnlog.integrations.claude_agent_sdk.sources import ImportSource, find_sources, read_metadata
from turnlog.records.codec import encode
from turnlog.records.damage import Damage, Reason, damage_at
from turnlog.records.lenient_json import NOT_UTF8, TOO_DEEP
from turnlog.records.record_types import Marker
from turnlog.storage.reader import Placed, Reader, read_log

BATCH_ENTRIES: Final = 500
BATCH_BYTES: Final = 1024 * 1024
_MOST_DAMAGE: Final = 1000


class ImportedLog(Struct, kw_only=True):
    """What became of one log. *subpath* is that of the store's key; None for a main log."""

    project_key: str
    session: str
    subpath: str | None
    path: str
    records: int = 0
    """Whole records that the log has."""
    added: int = 0
    """Those of them that the store did not have."""
    conflicts: list[str] = field(default_factory=list)
    """Uuids under which the store, or an earlier line of the log, has other words; left as is."""
    damage: list[Damage] = field(default_factory=list)
    """What is no record, or none that a store can hold; the first thousand such ranges."""
    damaged: int = 0
    """How many such ranges there are."""
    pending_bytes: int = 0
    """The last line, if it is cut short: torn, or still being written."""


class Imported(Struct, kw_only=True):
    """What an import did."""

    logs: list[ImportedLog] = field(default_factory=list)
    metadata: int = 0
    """Agents that the store was told about anew."""
    problems: list[Problem] = field(default_factory=list)
    """What could not be read as what it seems to be, and was left out."""

    @property
    def added(self) -> int:
        """How many entries the store was sent."""
        return sum(log.added for log in self.logs) + self.metadata

    @property
    def sessions(self) -> list[str]:
        """The ids of the sessions that were looked at, each once."""
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

    Keys are those under which the SDK itself mirrors the same files. An error of the store ends the
    import; what was sent until then stays, and importing again goes on from there.
    """
    check_store(store, "append", "load")
    check_home(home)
    if not isinstance(batch_entries, int) or batch_entries < 1:
        raise UsageError(
            f"batches of {batch_entries!r} entries carry nothing", hint="give 1 or more, or nothing"
        )
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
                f"a {type(store).__name__} is no session store: it cannot {method}",
                hint="pass an object with the methods of claude_agent_sdk.SessionStore",
            )


def check_home(home: object) -> None:
    """Raise UsageError unless *home* can be the path of a directory."""
    if not isinstance(home, str | os.PathLike) or "\0" in os.fspath(home):
        raise UsageError(
            f"{str(home)[:80]!r} is not a home", hint="give a directory such as ~/.claude"
        )


def named_sessions(sessions: Iterable[str]) -> frozenset[str]:
    """Read the ids that a caller named; one alone may come by itself."""
    try:
        named = frozenset((sessions,) if isinstance(sessions, str) else sessions)
    except TypeError:
        named = frozenset((None,))  # type: ignore[arg-type]
    if not all(isinstance(each, str) for each in named):
        raise UsageError("sessions are named by their ids", hint="give a list of ids, as text")
    return named


async def _import_key(
    store: Any, key: dict[str, str], source: ImportSource, batch_entries: int, done: Imported
) -> None:
    """Send what *store* lacks of what it has under one key."""
    try:
        entries = [entry for entry in await store.load(dict(key)) or () if isinstance(entry, dict)]
    except UsageError as error:  # On disk anything may be called anything.
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
                    await store.append(dict(key), [meta])  # First, as a mirror has it.
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
    """Return what the store should be told last about an agent."""
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
    """One log, read to its end in batches of what is not held."""

    def __init__(self, path: Path, held: SeenRecords, log: ImportedLog, batch_entries: int) -> None:
        self._reader: Reader = read_log(path)
        self._comparison = held.comparison()
        self._log = log
        self._batch_entries = batch_entries
        self.failure = ""

    def batch(self) -> list[dict[str, Any]]:
        """Return the next records to send; none if the log is at its end."""
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
            self.failure = f"could not be read to its end: {error}"
        pending = self._reader.pending
        self._log.pending_bytes = pending.length if pending and pending.record is None else 0
        return found

    def close(self) -> None:
        self._reader.close()

    def _entry(self, item: Placed) -> dict[str, Any] | None:
        """Return a record as a store takes it; None if it is there, or is nothing for a store."""
        record = item.record
        if isinstance(record, Marker) and item.offset == 0:
            return None  # The head of a log that turnlog wrote: about the file, not the session.
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
            self._note(_unsendable(item, "not UTF-8: sent with marks in place of the bytes"))
        return entry if finding is Difference.MISSING else None

    def _note(self, damage: Damage) -> None:
        self._log.damaged += 1
        if len(self._log.damage) < _MOST_DAMAGE:
            self._log.damage.append(damage)


def _unsendable(item: Placed, why: str) -> Damage:
    raw = item.record.raw
    return damage_at(raw, Reason.NOT_JSON, offset=item.offset, line=item.line, detail=why)
