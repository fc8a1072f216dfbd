"""``ID.meta.json``: what a flat store remembers of a session beside its log.

Everything in it can be told from the log, by `MetaFold`, which takes records one by one as a live
writer appends them; but for what only happened to the log: how well its archive was compressed and
what is in it, when another program repaired it, how many messages that cost. Instants are ISO 8601
in UTC; numbers (milliseconds since 1970) are read as well. Keys that other programs put in are
kept.

What counts as a message is what the seed appends as one: records of the types user, assistant,
tool_use (or tool_call) and tool_result. Tokens are the input and output counters of assistants'
usage, each response once however many records carry a part of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.formats.flat.files import Fields, read_object
from turnlog.records.record import Assistant, Call, Record, Result, User
from turnlog.records.record_types import Format
from turnlog.records.responses import RunningTotals
from turnlog.records.session_summary import SessionSummary
from turnlog.records.timestamps import instant, iso
from turnlog.storage.atomic_files import Unreadable

META: Final = ".meta.json"


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens read and written by the model, over a whole session."""

    input: int = 0
    output: int = 0
    more: Fields = field(default_factory=dict)


class Meta(Struct, frozen=True, kw_only=True):
    """What is known of a session; None is what is not known."""

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
    """Compressed by original size; 1.0 on disk where nothing was ever compressed."""
    digest: str | None = None
    """The SHA-256 of the log that was archived, unpacked."""
    record_count: int | None = None
    """How many records it had."""
    ended_at: datetime | None = None
    repaired_at: datetime | None = None
    removed_messages: int | None = None
    more: Fields = field(default_factory=dict)
    """Keys that are not known, and known ones whose value is not what they should hold."""

    @property
    def odd(self) -> tuple[str, ...]:
        """The known keys whose value in the file is of another kind than it should be."""
        return tuple(key for key in _FIELDS if key in self.more)


# -- reading --------------------------------------------------------------------------------

Table = dict[str, tuple[str, Callable[[Any], Any]]]
"""Keys of a file, each with the name it has here and what reads its value."""


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
    said, more = part(value, {"input": ("input", count), "output": ("output", count)})
    return TokenUsage(**said, more=more)


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
    """Part *fields* into what *table* can read, by its own names, and all the rest."""
    said: Fields = {}
    more = dict(fields)
    for key, (name, reads) in table.items():
        value = reads(more[key]) if key in more else None
        if value is not None:
            said[name] = value
        if value is not None or more.get(key, ...) is None:
            del more[key]
    return said, more


def read_meta(path: Path) -> Meta | Unreadable:
    """Read the metadata at *path*, or say why there is none."""
    found = read_object(path)
    if isinstance(found, Unreadable):
        return found
    return meta_from(found.fields, path.name.removesuffix(META))


def meta_from(fields: Fields, session_id: str) -> Meta:
    """Read metadata from *fields*; *session_id* is whose they are if they do not say so."""
    said, more = part(fields, _FIELDS)
    said.setdefault("session_id", session_id)
    return Meta(**said, more=more)


# -- writing --------------------------------------------------------------------------------


def wire(value: Any) -> Any:
    """Return *value* as JSON holds it."""
    if isinstance(value, TokenUsage):
        others = {key: told for key, told in value.more.items() if key not in ("input", "output")}
        return {"input": value.input, "output": value.output} | others
    return iso(value) if isinstance(value, datetime) else value


def fields_of(meta: Meta) -> Fields:
    """Return *meta* as its file holds it: the keys in the seed's order, then all others."""
    said = {key: wire(getattr(meta, name)) for key, (name, _) in _FIELDS.items()}
    if said["compressionRatio"] is None:
        said["compressionRatio"] = 1.0
    # Of a value nobody knows, an odd one in the file is still more than nothing.
    told = {key: meta.more.get(key) if value is None else value for key, value in said.items()}
    known = {key: told[key] for key in told if told[key] is not None or key not in _WHEN_KNOWN}
    return known | {key: value for key, value in meta.more.items() if key not in _FIELDS}


def completed(meta: Meta, old: Meta | None, *, is_marked: bool = True) -> Meta:
    """Add to *meta*, which a log told, what only its *old* file knows.

    Unless the log *is_marked*, it does not tell whether the session ended; what the file says of
    that holds until something is said later.
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
        for name in _OF_ARCHIVES:  # It was unpacked since.
            kept.pop(name, None)
    tokens = replace(meta.token_usage, more=old.token_usage.more | meta.token_usage.more)
    return replace(meta, **kept, token_usage=tokens, more=old.more | meta.more)


# -- the fold -------------------------------------------------------------------------------


class MetaFold:
    """What the records of a session tell; feed it with ``take``, in the log's order."""

    def __init__(self) -> None:
        self.is_marked = False
        """A writer of turnlog's says in the log when it begins and when it ends."""
        self._summary = SessionSummary()
        self._totals = RunningTotals()
        self._messages = 0
        self._cwd: str | None = None
        self._commit: str | None = None
        self._ended_at: datetime | None = None
        self._repaired_at: datetime | None = None

    def take(self, record: Record) -> None:
        """Fold one more record in."""
        self._ended_at = None
        if isinstance(record, Format):
            self._take_mark(record)
            return
        self._summary.take(record)
        self._totals.take(record)
        if isinstance(record, User | Assistant | Call | Result):
            self._messages += 1

    def meta(self, session_id: str) -> Meta:
        """Return what is known so far of the session, which is called *session_id*."""
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

    def _take_mark(self, mark: Format) -> None:
        self._cwd = self._cwd or mark.cwd
        self._commit = self._commit or mark.git_commit
        if mark.event is not None:
            self.is_marked = True
        if mark.event == "ended":
            self._ended_at = mark.at
        elif mark.event == "recovered":
            self._repaired_at = mark.at


def meta_of(records: Iterable[Record], session_id: str) -> Meta:
    """Fold a session's records into its metadata."""
    fold = MetaFold()
    for record in records:
        fold.take(record)
    return fold.meta(session_id)
