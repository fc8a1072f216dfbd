"""Appending entries to a log: each once by its uuid, all of a batch in one durable write.

A line that is appended to stays open for a while, and knows the uuids that stand in its log: what
others append is read under the lock before anything is decided. A batch is checked whole before a
file is made. Of a batch that was cut short a prefix stands, and appending it again writes the rest.

An entry that stands in the log already may have been written by somebody who died before it was on
the disk. So a batch that has nothing new is synced, too, before it counts as saved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.errors import NotSerialisable, TurnlogError, UsageError
from turnlog.integrations.claude_agent_sdk.entries import Entries, Entry, uuid_of
from turnlog.integrations.claude_agent_sdk.keys import Key, place
from turnlog.integrations.claude_agent_sdk.summaries import SessionSummaryFile
from turnlog.records.codec import encode
from turnlog.records.lenient_json import loads
from turnlog.records.record import Unknown
from turnlog.storage.sources import LINE_CAP
from turnlog.storage.writer import LogWriter, News

_MAX_LINES: Final = 128
_MAX_UUIDS: Final = 1_000_000


class Prepared(NamedTuple):
    """An entry that can be written, as the line it will be."""

    entry: Entry
    line: Unknown
    uuid: str | None


def prepare(entries: object) -> list[Prepared]:
    """Check *entries* and write them as lines; raise before anything is done if one cannot be."""
    if not isinstance(entries, list | tuple):
        raise UsageError(
            f"entries are a list, not a {type(entries).__name__}",
            hint="pass the list of objects that the SDK gave",
        )
    return [_prepared(number, entry) for number, entry in enumerate(entries)]


def _prepared(number: int, entry: object) -> Prepared:
    if not isinstance(entry, dict):
        raise NotSerialisable(
            f"entry {number} is a {type(entry).__name__}, not an object",
            hint="an entry is a dict with at least a 'type'; nothing was written",
        )
    try:
        line = encode(entry)
    except NotSerialisable as error:
        raise NotSerialisable(f"entry {number}: {error}", hint=error.hint) from None
    if len(line) > LINE_CAP:
        raise NotSerialisable(
            f"entry {number} takes {len(line):,} bytes, over the cap of {LINE_CAP:,}",
            hint="store the content elsewhere; nothing was written",
        )
    if not _reads_back(line, entry):
        raise NotSerialisable(
            f"entry {number} would not come back as it is",
            hint="use only what JSON has: objects with text as keys, lists, text, numbers, "
            "true, false and null; nothing was written",
        )
    return Prepared(entry, Unknown(raw=line), uuid_of(entry))


def _reads_back(line: bytes, entry: Entry) -> bool:
    """Tell whether *line* gives *entry* back: a tuple, a date or a key that is a number do not."""
    try:
        return bool(loads(line) == entry)
    except (ValueError, RecursionError):
        return False


class OpenLog:
    """One log that is appended to."""

    def __init__(self, root: Path, key: Key, *, allow_network_filesystem: bool = False) -> None:
        self.key = key
        self._allow_network = allow_network_filesystem
        self.path = place(root, key.name)
        self.turn = threading.Lock()
        self.users = 0
        self.is_noted = False
        """An agent's metadata lies beside its log, as far as the log tells it."""
        self.uuids: set[str] = set()
        self._root = root
        self._writer: LogWriter | None = None
        self._summary = SessionSummaryFile(root, key) if key.subpath is None else None

    def append(self, batch: Sequence[Prepared]) -> list[Entry]:
        """Append what of *batch* is new, durably; give that."""
        try:
            return self._append(batch)
        except BaseException:
            self.close()  # What this line knows may no longer be true.
            raise

    def _append(self, batch: Sequence[Prepared]) -> list[Entry]:
        if self._writer is not None and not self.path.exists():
            self.close()  # Deleted since, and not kept: a key that is not there begins anew.
        writer = self._writer
        if writer is None:
            writer = self._writer = LogWriter(
                self.path, root=self._root, allow_network_filesystem=self._allow_network
            )
        new: list[Prepared] = []

        def decide(news: News) -> list[Unknown]:
            self._take_news(news)
            known: set[str] = set()
            for each in batch:
                if each.uuid is None or not (each.uuid in self.uuids or each.uuid in known):
                    new.append(each)
                if each.uuid is not None:
                    known.add(each.uuid)
            return [each.line for each in new]

        placed = writer.append_after(decide)
        if not placed:
            writer.sync()
            return []
        self.uuids.update(each.uuid for each in new if each.uuid is not None)
        written = [each.entry for each in new]
        if self._summary is not None:
            self._summary.take(written, placed[0].offset, writer.seen)
        return written

    def _take_news(self, news: News) -> None:
        if news.restarted:
            self.uuids.clear()
            if self._summary is not None:
                self._summary.forget()
        if news.items:
            reader = Entries(self.path, news.items.offset, source=news.items.source)
            self.uuids.update(reader.uuids())

    def close(self) -> None:
        """Close the log; the next append opens it again and reads what stands in it."""
        writer, self._writer = self._writer, None
        self.is_noted = False
        self.uuids.clear()
        if self._summary is not None:
            self._summary.forget()
        if writer is not None:
            with suppress(TurnlogError):  # Everything acknowledged is where it should be.
                writer.close()


class OpenLogs:
    """The lines of one store: those used last stay open, within bounds."""

    def __init__(self, root: Path, *, allow_network_filesystem: bool = False) -> None:
        self._root = root
        self._allow_network = allow_network_filesystem
        self._lock = threading.Lock()
        self._lines: OrderedDict[Key, OpenLog] = OrderedDict()

    @contextmanager
    def line(self, key: Key) -> Iterator[OpenLog]:
        """Hold the line of *key* alone among threads."""
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                line = OpenLog(self._root, key, allow_network_filesystem=self._allow_network)
                self._lines[key] = line
            self._lines.move_to_end(key)
            line.users += 1
        try:
            with line.turn:
                yield line
        finally:
            with self._lock:
                line.users -= 1
                self._close_some()

    def close(self, which: Callable[[Key], bool] = lambda _: True) -> None:
        """Close the lines that nobody uses."""
        with self._lock:
            for key in [each for each, line in self._lines.items() if not line.users]:
                if which(key):
                    self._lines.pop(key).close()

    def after_fork_in_child(self) -> None:
        """Begin anew: locks that threads of the parent held are held by nobody here."""
        self._lock = threading.Lock()
        self._lines = OrderedDict()

    def _close_some(self) -> None:
        known = sum(len(line.uuids) for line in self._lines.values())
        for key, line in list(self._lines.items())[:-1]:  # The last one is in use, or will be.
            if len(self._lines) <= _MAX_LINES and known <= _MAX_UUIDS:
                return
            if not line.users:
                known -= len(line.uuids)
                self._lines.pop(key).close()
