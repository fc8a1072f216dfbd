"""Export sessions from a session store to a Claude home, where ``claude --resume`` finds them.

The store can be any object with the SDK's methods. Main logs go to ``projects/KEY/ID.jsonl``,
others below ``projects/KEY/ID/``, subagent metadata to ``.meta.json`` next to its log. All files
of a session are compared before the first is written, and the main log is written last. Subpaths
come from the store: those that could leave the session's directory or are not valid file names are
skipped and reported.

A new log is written to a temporary file and renamed. A log that only lacks the store's latest
records gets them appended, under its lock. A log with all records of the store is not changed. Any
other log differs: it is replaced only with *overwrite*, and kept as ``NAME.original-TIME``.
"""

from __future__ import annotations

import ntpath
import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct, field

from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.formats.log_file import META
from turnlog.integrations.claude_agent_sdk.entries import Difference, Entry, SeenRecords
from turnlog.integrations.claude_agent_sdk.importer import (
    NO_LOGS_IN,
    check_home,
    check_store,
    named_sessions,
    read_metadata,
)
from turnlog.integrations.claude_agent_sdk.keys import LOG, check_project_key, read_key
from turnlog.integrations.claude_agent_sdk.metadata import as_file, is_metadata, last_metadata
from turnlog.records.codec import encode
from turnlog.records.damage import Damage
from turnlog.storage.atomic_files import failure, put
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.replace import failed, locked
from turnlog.storage.writer import LOCK_TIMEOUT, LogWriter, News

_NAME_BYTES: Final = 255 - len(META)
_SHOWN: Final = 5


class SkippedExport(Struct, kw_only=True):
    """A log that could not be exported, and why."""

    session: str
    subpath: str | None
    reason: str


class Exported(Struct, kw_only=True):
    """The result of an export."""

    home: str
    files: list[ExportedFile] = field(default_factory=list)
    skipped: list[SkippedExport] = field(default_factory=list)

    @property
    def added(self) -> int:
        """The number of records and metadata files that were written."""
        return sum(file.added for file in self.files)


async def export_sessions(
    store: Any,
    home: str | os.PathLike[str],
    *,
    project_key: str,
    sessions: Iterable[str] | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write sessions of *store* under *project_key* to *home*: all, or those named.

    Raise UsageError before writing a session if one of its logs exists and differs; with
    *overwrite*, replace the log and keep the original next to it.
    """
    check_store(store, "load")
    check_home(home)
    check_project_key(project_key)
    place = _place(home)
    done = Exported(home=str(place))
    named = None if sessions is None else named_sessions(sessions)
    for session_id in sorted(named) if named is not None else await _listed(store, project_key):
        try:
            read_key({"project_key": project_key, "session_id": session_id})
        except UsageError as error:
            if named is not None:
                raise
            done.skipped.append(_skipped(session_id, None, error.message))
            continue
        parts = await _parts(store, project_key, session_id, done)
        if parts:
            write = partial(_write, place, session_id, parts, overwrite=overwrite)
            done.files += await to_thread.run_sync(write)
        elif named is not None:
            raise NotFound(
                f"the store has no session {session_id} under {project_key!r}",
                hint="list_sessions returns the sessions of a store",
            )
    return done


async def _listed(store: Any, project_key: str) -> list[str]:
    listed = await _asked(store, "list_sessions", project_key)
    if listed is None:
        raise UsageError(
            f"{type(store).__name__} cannot list its sessions",
            hint="name those to export: sessions=[…]",
        )
    return sorted({each["session_id"] for each in listed})


async def _asked(store: Any, method: str, argument: Any) -> Any:
    """Call an optional method of a store; return None if it is not implemented."""
    ask = getattr(store, method, None)
    if not callable(ask):
        return None
    try:
        return await ask(argument)
    except NotImplementedError:  # The SDK's base class raises it.
        return None


async def _parts(store: Any, project_key: str, session_id: str, done: Exported) -> list[Part]:
    """Return the files of a session, the main log last."""
    key = {"project_key": project_key, "session_id": session_id}
    above = ("projects", project_key)
    parts: list[Part] = []
    subpaths = await _asked(store, "list_subkeys", dict(key))
    if subpaths is None:
        done.skipped.append(_skipped(session_id, None, "the store cannot list subagent logs"))
    for subpath in sorted(subpaths or ()):
        if why := _why_unsafe(subpath):
            done.skipped.append(_skipped(session_id, subpath, why))
            continue
        entries = await store.load(key | {"subpath": subpath}) or []
        *inner, name = subpath.split("/")
        within = (*above, session_id, *inner)
        lines = [entry for entry in entries if not is_metadata(entry)]
        if lines:
            parts.append(LogPart((*within, name + LOG), lines))
        if (told := last_metadata(entries)) is not None:
            parts.append(MetadataPart((*within, name + META), as_file(told)))
    main = await store.load(dict(key))
    if main:
        parts.append(LogPart((*above, session_id + LOG), main))
    return parts


def _place(home: str | os.PathLike[str]) -> Path:
    return Path(os.path.abspath(os.path.expanduser(home)))


def _write(
    home: Path, session_id: str, parts: list[Part], *, overwrite: bool
) -> list[ExportedFile]:
    """Compare all files of a session, then write those that are missing."""
    differing = []
    outcomes: list[ExportOutcome | None] = []
    for part in parts:
        try:
            outcomes.append(part.look(home))
        except Differs as error:
            outcomes.append(None)
            differing.append(f"{home.joinpath(*part.parts)} {error}")
    if differing and not overwrite:
        raise _in_the_way(session_id, differing, "nothing was written")
    try:
        return [
            part.result(outcome)
            if outcome is ExportOutcome.THERE
            else part.write(home, overwrite=overwrite)
            for part, outcome in zip(parts, outcomes, strict=True)
        ]
    except Differs as error:
        raise _in_the_way(session_id, [str(error)], "it changed during the export") from None


def _in_the_way(session_id: str, differing: list[str], state: str) -> UsageError:
    more = len(differing) - _SHOWN
    told = "; ".join(differing[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    return UsageError(
        f"session {session_id} was not exported: {told}",
        hint=f"{state}; export to another home, or use overwrite=True (the original is kept)",
    )


def _why_unsafe(subpath: str) -> str:
    """Return why *subpath* is not safe as a file name, or an empty string."""
    if not isinstance(subpath, str) or not subpath:
        return "it is empty"
    if "\0" in subpath or "\\" in subpath or ntpath.splitdrive(subpath)[0]:
        return "it could point outside the session"
    *above, _ = parts = subpath.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "it could point outside the session"
    if any(part.endswith((LOG, META)) for part in above):
        return "a directory would have the name of a log"
    if parts[0] in NO_LOGS_IN:
        return "this directory is reserved"
    try:
        if max(len(part.encode()) for part in parts) > _NAME_BYTES:
            return "it is too long for a file name"
    except UnicodeEncodeError:
        return "it is not a valid file name"
    return ""


def _skipped(session_id: str, subpath: str | None, reason: str) -> SkippedExport:
    return SkippedExport(session=session_id, subpath=subpath, reason=reason)


_MOST_TRIES = 10


class ExportOutcome(StrEnum):
    """What happened to a file."""

    WRITTEN = "written"
    THERE = "there"  # It already has all records of the store.
    EXTENDED = "extended"  # Missing records were appended.
    REPLACED = "replaced"  # It differed, and overwrite was set.


class ExportedFile(Struct, kw_only=True):
    """A file of a session. *name* is its path in the home, separated by "/"."""

    name: str
    outcome: ExportOutcome
    records: int = 0
    """The number of records in the store; 0 for metadata."""
    added: int = 0


class Differs(Exception):  # Never leaves this module.
    """An existing file has other content."""


class LogPart(Struct):
    """A log to write to a home."""

    parts: tuple[str, ...]
    entries: Sequence[Entry]

    def look(self, home: Path) -> ExportOutcome:
        """Return what `write` would do; raise Differs if the file has other content."""
        path = home.joinpath(*self.parts)
        if not os.path.lexists(path):
            return ExportOutcome.WRITTEN
        try:
            with read_log(path) as reader:
                return ExportOutcome.EXTENDED if self._missing(reader) else ExportOutcome.THERE
        except NotFound:
            return ExportOutcome.WRITTEN

    def write(self, home: Path, *, overwrite: bool) -> ExportedFile:
        for _ in range(_MOST_TRIES):
            try:
                outcome = self.look(home)
                if outcome is ExportOutcome.WRITTEN:
                    lines = (encode(entry) + b"\n" for entry in self.entries)
                    _put(home, self.parts, lines, overwrite=False)
                    return self.result(outcome, len(self.entries))
                added = self._append(home) if outcome is ExportOutcome.EXTENDED else 0
                return self.result(outcome if added else ExportOutcome.THERE, added)
            except (FileExistsError, NotFound):
                continue  # It was just created or deleted: compare again.
            except Differs:
                if not overwrite:
                    raise
                self._replace(home)
                return self.result(ExportOutcome.REPLACED, len(self.entries))
        raise UsageError(
            f"{home.joinpath(*self.parts)} keeps appearing and disappearing",
            hint="stop the program that does this, and export again",
        )

    def _missing(self, items: Iterable[Placed | Damage]) -> Sequence[Entry]:
        """Return the records to append; raise Differs if appending is not enough."""
        held = SeenRecords(item.record.fields for item in items if isinstance(item, Placed))
        comparison = held.comparison()
        first: int | None = None
        for number, entry in enumerate(self.entries):
            finding = comparison.take(entry)
            if finding is Difference.OTHER:
                raise Differs(f"has different content for the uuid {entry['uuid']}")
            if finding is Difference.MISSING and first is None:
                first = number
            elif finding is Difference.THERE and first is not None:
                raise Differs("lacks records from the middle")
        if first is None:
            return ()
        if strangers := held.strangers():
            raise Differs(f"has records that the store lacks: {strangers:,}")
        return self.entries[first:]

    def _append(self, home: Path) -> int:
        def decide(news: News) -> Sequence[Entry]:
            return self._missing(news.items)

        with LogWriter(home.joinpath(*self.parts), create=False, root=home) as log:
            return len(log.append_after(decide))

    def _replace(self, home: Path) -> None:
        path = home.joinpath(*self.parts)
        try:
            with locked(path, LOCK_TIMEOUT) as held:
                lines = (encode(entry) + b"\n" for entry in self.entries)
                # With a new mtime: the agent's cleanup must not delete it.
                os.close(held.make_fresh(lines, "the exported copy of", is_as_old=False))
                held.keep_original()
                held.take_place()
        except OSError as error:
            raise failed(error, "replacement", path) from None

    def result(self, outcome: ExportOutcome, added: int = 0) -> ExportedFile:
        return ExportedFile(
            name="/".join(self.parts), outcome=outcome, records=len(self.entries), added=added
        )


class MetadataPart(Struct):
    """Subagent metadata to write to a home."""

    parts: tuple[str, ...]
    metadata: Entry

    def look(self, home: Path) -> ExportOutcome:
        path = home.joinpath(*self.parts)
        if not os.path.lexists(path):
            return ExportOutcome.WRITTEN
        there = read_metadata(path)
        if there == self.metadata:
            return ExportOutcome.THERE
        raise Differs(there if isinstance(there, str) else "has other metadata")

    def write(self, home: Path, *, overwrite: bool) -> ExportedFile:
        try:
            outcome = self.look(home)
        except Differs:
            if not overwrite:
                raise
            outcome = ExportOutcome.REPLACED
        if outcome is not ExportOutcome.THERE:
            try:
                _put(home, self.parts, [encode(self.metadata)], overwrite=overwrite)
            except FileExistsError:
                return self.write(home, overwrite=overwrite)
        return self.result(outcome)

    def result(self, outcome: ExportOutcome) -> ExportedFile:
        added = int(outcome is not ExportOutcome.THERE)
        return ExportedFile(name="/".join(self.parts), outcome=outcome, added=added)


Part = LogPart | MetadataPart


def _put(home: Path, parts: Sequence[str], data: Iterable[bytes], *, overwrite: bool) -> None:
    try:
        put(home, parts, data, overwrite=overwrite)
    except (TurnlogError, FileExistsError):
        raise
    except OSError as error:
        raise failure(error, home.joinpath(*parts)) from None
