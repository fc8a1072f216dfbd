"""Logs of a store's session put into a Claude home, where nothing that differs is overwritten.

A log that is not there is written whole: to a temporary file that is synced and takes the name only
if it is free. One that is there and lacks only what the store has at its end (after a resume from
the store the disk's copy lags) gets the rest appended, under its lock. One that holds all the store
has, and perhaps more, is left. Everything else differs, and is replaced only if that was asked for;
the log as it was then stays beside it as ``NAME.original-TIME``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.integrations.claude_agent_sdk.comparison import Difference, SeenRecords
from turnlog.integrations.claude_agent_sdk.entries import Entry
from turnlog.integrations.claude_agent_sdk.sources import read_metadata
from turnlog.records.codec import encode
from turnlog.records.damage import Damage
from turnlog.storage.atomic_files import failure, put
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.replace import failed, locked
from turnlog.storage.writer import LOCK_TIMEOUT, LogWriter, News

_MOST_TRIES = 10


class ExportOutcome(StrEnum):
    """What became of a file."""

    WRITTEN = "written"
    THERE = "there"  # It holds all that the store has, and perhaps more.
    EXTENDED = "extended"  # It held the beginning; the rest was appended.
    REPLACED = "replaced"  # It differed, and overwriting was asked for.


class ExportedFile(Struct, kw_only=True):
    """A file of a session. *name* is where it lies in the home, with "/" between the parts."""

    name: str
    outcome: ExportOutcome
    records: int = 0
    """How many records the store has for it; 0 for what tells about an agent."""
    added: int = 0


class Differs(Exception):  # It never leaves the export, which gathers all of them first.
    """What stands in a file's place is not the beginning of it."""


class LogPart(Struct):
    """A log on its way into a home."""

    parts: tuple[str, ...]
    entries: Sequence[Entry]

    def look(self, home: Path) -> ExportOutcome:
        """Return what writing would do; raise Differs if something else stands there."""
        path = home.joinpath(*self.parts)
        if not os.path.lexists(path):
            return ExportOutcome.WRITTEN
        try:
            with read_log(path) as reader:
                return ExportOutcome.EXTENDED if self._missing(reader) else ExportOutcome.THERE
        except NotFound:
            return ExportOutcome.WRITTEN

    def write(self, home: Path, *, overwrite: bool) -> ExportedFile:
        """Write what is not there."""
        for _ in range(_MOST_TRIES):
            try:
                outcome = self.look(home)
                if outcome is ExportOutcome.WRITTEN:
                    lines = (encode(entry) + b"\n" for entry in self.entries)
                    _put(home, self.parts, lines, overwrite=False)
                    return self.told(outcome, len(self.entries))
                added = self._append(home) if outcome is ExportOutcome.EXTENDED else 0
                return self.told(outcome if added else ExportOutcome.THERE, added)
            except (FileExistsError, NotFound):
                continue  # It came or went in this moment: look again.
            except Differs:
                if not overwrite:
                    raise
                self._replace(home)
                return self.told(ExportOutcome.REPLACED, len(self.entries))
        raise UsageError(
            f"{home.joinpath(*self.parts)} comes and goes while it is written",
            hint="end the program that does that, and export again",
        )

    def _missing(self, items: Iterable[Placed | Damage]) -> Sequence[Entry]:
        """Give what a log lacks of the store's; raise Differs if appending would not be enough."""
        held = SeenRecords(item.record.fields for item in items if isinstance(item, Placed))
        comparison = held.comparison()
        first: int | None = None
        for number, entry in enumerate(self.entries):
            finding = comparison.take(entry)
            if finding is Difference.OTHER:
                raise Differs(f"has other words under the uuid {entry['uuid']}")
            if finding is Difference.MISSING and first is None:
                first = number
            elif finding is Difference.THERE and first is not None:
                raise Differs("lacks records from the middle")
        if first is None:
            return ()
        if strangers := held.strangers():
            raise Differs(f"went on by itself, with {strangers:,} records that the store lacks")
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
                # An agent that deletes what is old must not take it for that.
                os.close(held.make_fresh(lines, "the exported copy of", is_as_old=False))
                held.keep_original()
                held.take_place()
        except OSError as error:
            raise failed(error, "replacement", path) from None

    def told(self, outcome: ExportOutcome, added: int = 0) -> ExportedFile:
        return ExportedFile(
            name="/".join(self.parts), outcome=outcome, records=len(self.entries), added=added
        )


class MetadataPart(Struct):
    """What tells about an agent, on its way into the file beside its log."""

    parts: tuple[str, ...]
    metadata: Entry

    def look(self, home: Path) -> ExportOutcome:
        path = home.joinpath(*self.parts)
        if not os.path.lexists(path):
            return ExportOutcome.WRITTEN
        there = read_metadata(path)
        if there == self.metadata:
            return ExportOutcome.THERE
        raise Differs(there if isinstance(there, str) else "tells something else about the agent")

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
        return self.told(outcome)

    def told(self, outcome: ExportOutcome) -> ExportedFile:
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
