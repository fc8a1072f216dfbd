"""Append entries to logs: each uuid once, each batch in one durable write.

A log stays open for a while and remembers the uuids in it; records that other processes appended
are read under the lock first. A batch is validated before a file is created. If a batch was cut
short by a crash, appending it again writes the rest.

An entry that is in the log may not be on disk yet, if its writer died before the sync. So a batch
without new entries is synced, too.
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
    """A valid entry and its line."""

    entry: Entry
    line: Unknown
    uuid: str | None


def prepare(entries: object) -> list[Prepared]:
    """Validate *entries* and encode them as lines; raise if one cannot be encoded."""
    if not isinstance(entries, list | tuple):
        raise UsageError(
            f"entries must be a list, not a {type(entries).__name__}",
            hint="pass the list of entries from the SDK",
        )
    return [_prepared(number, entry) for number, entry in enumerate(entries)]


def _prepared(number: int, entry: object) -> Prepared:
    if not isinstance(entry, dict):
        raise NotSerialisable(
            f"entry {number} is a {type(entry).__name__}, not a dict",
            hint="an entry is a dict with at least a 'type'; nothing was written",
        )
    try:
        line = encode(entry)
    except NotSerialisable as error:
        raise NotSerialisable(f"entry {number}: {error}", hint=error.hint) from None
    if len(line) > LINE_CAP:
        raise NotSerialisable(
            f"entry {number} has {len(line):,} bytes, more than the limit of {LINE_CAP:,}",
            hint="store the content elsewhere; nothing was written",
        )
    if not _reads_back(line, entry):
        raise NotSerialisable(
            f"entry {number} does not survive a round trip through JSON",
            hint="use only dicts with string keys, lists, strings, numbers, booleans and None; "
            "nothing was written",
        )
    return Prepared(entry, Unknown(raw=line), uuid_of(entry))


def _reads_back(line: bytes, entry: Entry) -> bool:
    """Return False if decoding gives another value: tuples, dates, keys that are numbers."""
    try:
        return bool(loads(line) == entry)
    except (ValueError, RecursionError):
        return False


class OpenLog:
    """A log that is open for appending."""

    def __init__(self, root: Path, key: Key, *, allow_network_filesystem: bool = False) -> None:
        self.key = key
        self._allow_network = allow_network_filesystem
        self.path = place(root, key.name)
        self.turn = threading.Lock()
        self.users = 0
        self.is_noted = False
        """True if the metadata file of a subagent is up to date with its log."""
        self.uuids: set[str] = set()
        self._root = root
        self._writer: LogWriter | None = None
        self._summary = SessionSummaryFile(root, key) if key.subpath is None else None

    def append(self, batch: Sequence[Prepared]) -> list[Entry]:
        """Append the new entries of *batch* durably and return them."""
        try:
            return self._append(batch)
        except BaseException:
            self.close()  # The remembered uuids may be wrong now.
            raise

    def _append(self, batch: Sequence[Prepared]) -> list[Entry]:
        if self._writer is not None and not self.path.exists():
            self.close()  # The log was deleted: start a new one.
        writer = self._writer
        if writer is None:
            writer = self._writer = LogWriter(
                self.path, root=self._root, allow_network_filesystem=self._allow_network
            )
        new: list[Prepared] = []

        def decide(news: News) -> list[Unknown]:
            self._take_news(news)
            known: set[str] = set()
            for item in batch:
                if item.uuid is None or not (item.uuid in self.uuids or item.uuid in known):
                    new.append(item)
                if item.uuid is not None:
                    known.add(item.uuid)
            return [item.line for item in new]

        placed = writer.append_after(decide)
        if not placed:
            writer.sync()
            return []
        self.uuids.update(item.uuid for item in new if item.uuid is not None)
        written = [item.entry for item in new]
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
        """Close the log; the next append opens and reads it again."""
        writer, self._writer = self._writer, None
        self.is_noted = False
        self.uuids.clear()
        if self._summary is not None:
            self._summary.forget()
        if writer is not None:
            with suppress(TurnlogError):  # All acknowledged entries are on disk.
                writer.close()


class OpenLogs:
    """The open logs of a store: a bounded number, the most recently used."""

    def __init__(self, root: Path, *, allow_network_filesystem: bool = False) -> None:
        self._root = root
        self._allow_network = allow_network_filesystem
        self._lock = threading.Lock()
        self._logs: OrderedDict[Key, OpenLog] = OrderedDict()

    @contextmanager
    def line(self, key: Key) -> Iterator[OpenLog]:
        """Lock the log of *key* against other threads."""
        with self._lock:
            line = self._logs.get(key)
            if line is None:
                line = OpenLog(self._root, key, allow_network_filesystem=self._allow_network)
                self._logs[key] = line
            self._logs.move_to_end(key)
            line.users += 1
        try:
            with line.turn:
                yield line
        finally:
            with self._lock:
                line.users -= 1
                self._close_some()

    def close(self, which: Callable[[Key], bool] = lambda _: True) -> None:
        """Close the logs that are not in use."""
        with self._lock:
            for key in [key for key, log in self._logs.items() if not log.users]:
                if which(key):
                    self._logs.pop(key).close()

    def after_fork_in_child(self) -> None:
        """Start over: locks held by threads of the parent would never be released here."""
        self._lock = threading.Lock()
        self._logs = OrderedDict()

    def _close_some(self) -> None:
        known = sum(len(line.uuids) for line in self._logs.values())
        for key, line in list(self._logs.items())[:-1]:  # The last one is in use.
            if len(self._logs) <= _MAX_LINES and known <= _MAX_UUIDS:
                return
            if not line.users:
                known -= len(line.uuids)
                self._logs.pop(key).close()
