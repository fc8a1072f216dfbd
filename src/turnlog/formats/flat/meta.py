"""``ID.meta.json``: metadata of a session in a flat store, and the logs it is computed from.

`MetaFold` computes all of it from the log's records, one by one as a live writer appends them,
except what happened to the log as a file: its compression ratio and digest, repairs by another
program, and lost messages. `LiveMeta` reads a log once and then only what is appended. Timestamps
are ISO 8601 in UTC; milliseconds since 1970 are read as well. Keys of other programs are kept.

Messages are records of the types user, assistant, tool_use (or tool_call) and tool_result. Tokens
are the input and output counters of assistants' usage, each response counted once.

A session is in the store as ``ID.jsonl``, or as an archive: ``compressed/ID.jsonl.gz`` (or .zst),
or next to where the log was. If both exist, the log wins.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.errors import NotFound
from turnlog.formats import Problem, flat_archive, flat_log, looks_like_log, read_name
from turnlog.formats.flat.files import Fields, read_object
from turnlog.formats.log_file import META, session_name
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.damage import Reason
from turnlog.records.dates import instant, iso
from turnlog.records.record import Assistant, Call, Record, Result, User
from turnlog.records.record_types import Marker
from turnlog.records.responses import RunningTotals
from turnlog.records.session_summary import SessionSummary
from turnlog.storage.atomic_files import Unreadable
from turnlog.storage.reader import Placed, Reader, read_log
from turnlog.storage.sources import open_error

_ENDS: Final = (".gz", ".zst")


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens read and written by the model in a session."""

    input: int = 0
    output: int = 0
    more: Fields = field(default_factory=dict)


class Meta(Struct, frozen=True, kw_only=True):
    """The metadata of a session; None means unknown."""

    session_id: str
    created_at: datetime | None = None
    last_active_at: datetime | None = None
    message_count: int = 0
    token_usage: TokenUsage = TokenUsage()
    cwd: str | None = None
    git_commit: str | None = None
    title: str | None = None
    is_archived: bool = False
    compression_ratio: float | None = None
    """Compressed size divided by original size; 1.0 on disk if never compressed."""
    digest: str | None = None
    """The SHA-256 of the archived log, decompressed."""
    record_count: int | None = None
    """How many records it had."""
    ended_at: datetime | None = None
    repaired_at: datetime | None = None
    removed_messages: int | None = None
    more: Fields = field(default_factory=dict)
    """Unknown keys, and known ones with an invalid value."""

    @property
    def odd(self) -> tuple[str, ...]:
        """The known keys whose value in the file has the wrong type."""
        return tuple(key for key in _FIELDS if key in self.more)


# -- reading --------------------------------------------------------------------------------

Table = dict[str, tuple[str, Callable[[Any], Any]]]
"""Keys of a file, each with its name here and a function that reads its value."""


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _ratio(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < math.inf else None


def _sha256(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) else None


def _tokens(value: Any) -> TokenUsage | None:
    if not isinstance(value, dict):
        return None
    known, more = part(value, {"input": ("input", count), "output": ("output", count)})
    return TokenUsage(**known, more=more)


_FIELDS: Final[Table] = {
    "sessionId": ("session_id", text),
    "createdAt": ("created_at", instant),
    "lastActiveAt": ("last_active_at", instant),
    "messageCount": ("message_count", count),
    "tokenUsage": ("token_usage", _tokens),
    "cwd": ("cwd", text),
    "gitCommit": ("git_commit", text),
    "title": ("title", text),
    "isArchived": ("is_archived", flag),
    "compressionRatio": ("compression_ratio", _ratio),
    "originalSha256": ("digest", _sha256),
    "originalRecords": ("record_count", count),
    "endedAt": ("ended_at", instant),
    "repairedAt": ("repaired_at", instant),
    "removedMessages": ("removed_messages", count),
}
_WHEN_KNOWN: Final = (
    "originalSha256", "originalRecords", "endedAt", "repairedAt", "removedMessages",
)  # fmt: skip
_OF_ARCHIVES: Final = ("compression_ratio", "digest", "record_count")


def part(fields: Fields, table: Table) -> tuple[Fields, Fields]:
    """Split *fields* into those that *table* can read, by its own names, and the rest."""
    known: Fields = {}
    more = dict(fields)
    for key, (name, reads) in table.items():
        value = reads(more[key]) if key in more else None
        if value is not None:
            known[name] = value
        if value is not None or more.get(key, ...) is None:
            del more[key]
    return known, more


def read_meta(path: Path) -> Meta | Unreadable:
    """Read the metadata at *path*, or return why there is none."""
    found = read_object(path)
    if isinstance(found, Unreadable):
        return found
    return meta_from(found.fields, path.name.removesuffix(META))


def meta_from(fields: Fields, session_id: str) -> Meta:
    """Return metadata from *fields*; *session_id* is used if they have none."""
    known, more = part(fields, _FIELDS)
    known.setdefault("session_id", session_id)
    return Meta(**known, more=more)


# -- writing --------------------------------------------------------------------------------


def wire(value: Any) -> Any:
    """Return *value* as JSON."""
    if isinstance(value, TokenUsage):
        others = {key: other for key, other in value.more.items() if key not in ("input", "output")}
        return {"input": value.input, "output": value.output} | others
    return iso(value) if isinstance(value, datetime) else value


def fields_of(meta: Meta) -> Fields:
    """Return *meta* as the fields of its file: the usual keys first, then all others."""
    values = {key: wire(getattr(meta, name)) for key, (name, _) in _FIELDS.items()}
    if values["compressionRatio"] is None:
        values["compressionRatio"] = 1.0
    # Keep an invalid value in the file if the real one is unknown.
    written = {key: meta.more.get(key) if value is None else value for key, value in values.items()}
    known = {
        key: written[key] for key in written if written[key] is not None or key not in _WHEN_KNOWN
    }
    return known | {key: value for key, value in meta.more.items() if key not in _FIELDS}


def completed(meta: Meta, old: Meta | None, *, is_marked: bool = True) -> Meta:
    """Add to *meta*, computed from a log, what only its *old* file knows.

    Unless the log *is_marked*, it does not show whether the session ended; the file's status
    applies until there is later activity.
    """
    if old is None:
        return meta
    kept = {
        name: getattr(old, name)
        for _, (name, _) in _FIELDS.items()
        if getattr(meta, name) is None and name != "ended_at"
    }
    ended_at = old.ended_at
    if not is_marked and ended_at is not None and meta.ended_at is None:
        active_at = meta.last_active_at
        if active_at is None or ended_at >= active_at:
            kept["ended_at"] = ended_at
    if old.is_archived and not meta.is_archived:
        for name in _OF_ARCHIVES:  # It was decompressed since.
            kept.pop(name, None)
    tokens = replace(meta.token_usage, more=old.token_usage.more | meta.token_usage.more)
    return replace(meta, **kept, token_usage=tokens, more=old.more | meta.more)


# -- the fold -------------------------------------------------------------------------------


class MetaFold:
    """Metadata computed from a session's records; call ``take`` in log order."""

    def __init__(self) -> None:
        self.is_marked = False
        """Whether the log records when turnlog's writer begins and ends."""
        self._summary = SessionSummary()
        self._totals = RunningTotals()
        self._messages = 0
        self._cwd: str | None = None
        self._commit: str | None = None
        self._ended_at: datetime | None = None
        self._repaired_at: datetime | None = None

    def take(self, record: Record) -> None:
        """Add a record."""
        self._ended_at = None
        if isinstance(record, Marker):
            self._take_mark(record)
            return
        self._summary.take(record)
        self._totals.take(record)
        if isinstance(record, User | Assistant | Call | Result):
            self._messages += 1

    def meta(self, session_id: str) -> Meta:
        """Return the metadata so far, for *session_id*."""
        found, used = self._summary, self._totals.counters
        return Meta(
            session_id=session_id,
            created_at=found.started_at,
            last_active_at=found.last_active_at,
            message_count=self._messages,
            token_usage=TokenUsage(input=used.input, output=used.output),
            cwd=found.cwd or self._cwd,
            git_commit=self._commit,
            title=found.title,
            ended_at=self._ended_at,
            repaired_at=self._repaired_at,
        )

    def _take_mark(self, mark: Marker) -> None:
        self._cwd = self._cwd or mark.cwd
        self._commit = self._commit or mark.git_commit
        if mark.event is not None:
            self.is_marked = True
        if mark.event == "ended":
            self._ended_at = mark.at
        elif mark.event == "recovered":
            self._repaired_at = mark.at


def meta_of(records: Iterable[Record], session_id: str) -> Meta:
    """Return the metadata computed from a session's records."""
    fold = MetaFold()
    for record in records:
        fold.take(record)
    return fold.meta(session_id)


# -- the logs -------------------------------------------------------------------------------


class FlatLog(Struct, frozen=True):
    """Where a session's log is, and its state when it was found."""

    path: Path
    is_archive: bool
    inode: int
    size_bytes: int
    changed_ns: int

    @property
    def changed_at(self) -> datetime | None:
        try:
            return datetime.fromtimestamp(self.changed_ns // 1_000_000 / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None


def sessions_in(directory: Path, problems: list[Problem] | None = None) -> set[str]:
    """Return the ids of the sessions that have a log or an archive in *directory*."""
    walk = DirectoryWalk(problems)
    items = walk.enter(str(directory), expected=True)
    if any(item.name == "compressed" and item.kind == "directory" for item in items):
        items += walk.enter(str(directory / "compressed"))
    for item in items:
        if item.kind != "file" and looks_like_log(item.name):
            walk.note(item.path, item.why or "a directory, not a log")
    return _sessions(item.name for item in items if item.kind == "file")


def metas_in(directory: Path) -> set[str]:
    """Return the ids of the sessions that have a metadata file in *directory*."""
    items = DirectoryWalk().enter(str(directory))
    stems = (item.name.removesuffix(META) for item in items if item.name.endswith(META))
    return _sessions(session_name(stem) for stem in stems)


def find_log(directory: Path, session_id: str) -> FlatLog | None:
    """Return the current log of a session; None if there is none.

    Raises LogError if the directory cannot be searched.
    """
    plain, packed = flat_log(directory, session_id), flat_archive(directory, session_id)
    archives = (packed, packed.with_suffix(".zst"), *(Path(f"{plain}{end}") for end in _ENDS))
    for path in (plain, *archives):
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise open_error(error, path) from None
        is_archive = path is not plain
        return FlatLog(path, is_archive, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


def _sessions(names: Iterable[str]) -> set[str]:
    read = map(read_name, names)
    return {name.id for name in read if name is not None and name.kind == "session"}


class LiveMeta:
    """Metadata from the log of one session, updated by ``refresh``."""

    def __init__(self, directory: str | os.PathLike[str], session_id: str) -> None:
        self.directory = Path(os.path.abspath(directory))
        self.session_id = session_id
        self.log: FlatLog | None = None
        self.broken: str | None = None
        """What is wrong with the archive, if it cannot be read to its end."""
        self._fold = MetaFold()
        self._offset = 0
        self._original_bytes = 0
        self._took_pending = False

    @property
    def is_marked(self) -> bool:
        """Whether the log records when its writers began and ended."""
        return self._fold.is_marked

    def refresh(self) -> None:
        """Read what was appended since; from the start if the log is a different one."""
        log = find_log(self.directory, self.session_id)
        if log is None:
            raise NotFound(
                f"no log of session {self.session_id} in {self.directory}",
                hint="list the sessions to see their ids",
            )
        before = self.log
        if log == before:
            return
        if before is None or not self._continues(before, log):
            self._fold, self._offset, self.broken = MetaFold(), 0, None
        self.log = None  # Until all of it is read: a failure must not look like the end.
        with read_log(log.path, start=self._offset, tail="wait") as reader:
            self._read(reader)
        self.log = log

    def meta(self) -> Meta:
        """Return the metadata as of the last refresh."""
        meta = self._fold.meta(self.session_id)
        if self.log is None or not self.log.is_archive:
            return meta
        ratio = None
        if self.broken is None and self._original_bytes:
            ratio = round(self.log.size_bytes / self._original_bytes, 4)
        return replace(meta, is_archived=True, compression_ratio=ratio)

    def _continues(self, before: FlatLog, now: FlatLog) -> bool:
        """Return whether the log is the one read before, possibly with more appended."""
        if self._took_pending or now.is_archive:
            return False
        same = (before.path, before.inode) == (now.path, now.inode)
        return same and now.size_bytes >= before.size_bytes

    def _read(self, reader: Reader) -> None:
        for item in reader:
            if isinstance(item, Placed):
                self._fold.take(item.record)
            elif item.reason is Reason.BROKEN_ARCHIVE:
                self.broken = item.detail or "damaged"
        pending = reader.pending
        self._offset = reader.offset
        self._original_bytes = reader.offset + (pending.length if pending else 0)
        # A record that lacks only its newline counts. It is read again when the log grows.
        record = pending.record if pending else None
        self._took_pending = record is not None
        if record is not None:
            self._fold.take(record)
