"""Bookmarks, and the chunks of rows that pass from reading logs to writing the index.

A bookmark is how far a log was read, and how we know that it is still the same log. A log that grew
is read from there. One that shrank, has other bytes before the bookmark, or has the same size but
another mtime was rewritten or replaced: it is read again from the start. Device and inode are only
a hint, since containers and copies change them. A kept copy has the length of its contents and the
mtime of its source: to a bookmark it is the same log.

Work and chunks are plain data that can be sent to another process.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.index.usage.entries import SkippedUsage, UsageRow
from turnlog.storage.sources import FramedSource, Seekable, fingerprint_by, open_source

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    from turnlog.formats import Home

    class Readable(Protocol):
        """A log, or a side file that is read like one."""

        @property
        def path(self) -> Path: ...
        @property
        def home(self) -> Home: ...
        @property
        def layout(self) -> str: ...
        @property
        def kind(self) -> str: ...
        @property
        def session_id(self) -> str | None: ...
        @property
        def agent_id(self) -> str | None: ...
        @property
        def project_key(self) -> str | None: ...


UnnumberedText = tuple[int, int, int, int, bytes, bytes | None]
"""A text without an id: its second, record, number within the record, kind, and words in UTF-8.

The last field is the words with identifiers split, if it has any and is not a tool result.
"""


class Bookmark(Struct, frozen=True, array_like=True, gc=False):
    """Where to read on, after a newline, and what the log looked like when it was read."""

    offset: int = 0
    size_bytes: int = -1
    mtime_ns: int = 0
    fingerprint: bytes | None = None

    @property
    def seen_bytes(self) -> int:
        """What the fingerprint covers, including a last line without a newline."""
        return max(self.offset, self.size_bytes)


class LogChange(Enum):
    """How a log changed since its bookmark."""

    NONE = "none"
    GREW = "grew"
    REPLACED = "replaced"


def change_since(mark: Bookmark, path: str, now: os.stat_result) -> LogChange:
    """Return how the log at *path*, with the status *now*, changed since *mark*."""
    if mark.size_bytes < 0:
        return LogChange.GREW
    size_bytes = length_of(path, now)
    if size_bytes == mark.size_bytes:
        return LogChange.NONE if now.st_mtime_ns == mark.mtime_ns else LogChange.REPLACED
    if size_bytes < mark.size_bytes:
        return LogChange.REPLACED
    is_same = fingerprint(path, mark.seen_bytes) == mark.fingerprint
    return LogChange.GREW if is_same else LogChange.REPLACED


def length_of(path: str, now: os.stat_result) -> int:
    """Return the length of the log at *path*: of its contents if it is packed in frames."""
    if not path.endswith(".zst"):
        return now.st_size
    try:
        source = open_source(path)
    except (TurnlogError, OSError):
        return now.st_size
    try:
        return source.size_bytes if isinstance(source, FramedSource) else now.st_size
    finally:
        source.close()


def fingerprint(path: str, offset: int) -> bytes | None:
    """Return the fingerprint of the bytes before *offset*; None if they cannot be read."""
    try:
        source = open_source(path)
    except (TurnlogError, OSError):
        return None
    try:
        return fingerprint_by(source.read_at, offset) if isinstance(source, Seekable) else None
    except OSError:
        return None
    finally:
        source.close()


class Work(Struct, frozen=True):
    """A log to be read, and from where."""

    id: int
    log: Readable
    generation: int
    start: int
    usage_start: int
    """The offset up to which usage was read already."""
    folded: bytes | None


class UsageChunk(Struct, array_like=True):
    """The usage in a part of a log."""

    log: int
    generation: int
    start: int
    """Where the bookmark must be for the chunk to fit."""
    usage_rows: list[UsageRow]
    skipped: list[SkippedUsage]
    usage_count: int
    synthetic: int
    tail_usage_count: int
    tail_synthetic: int
    is_pending: bool
    bookmark: Bookmark
    device: int
    inode: int
    problem: str | None


class Chunk(UsageChunk, array_like=True):
    """The rows of a part of a log, by the ids of their records."""

    usage_start: int
    """Where the bookmark for usage must be."""
    records: list[tuple[Any, ...]]
    """Record, length, type, author, session, uuid, parent, at, model, branch, message, flags."""
    carried: list[tuple[Any, ...]]
    """Record, and the uuid of the record that it is a copy of."""
    texts: list[UnnumberedText]
    calls: list[list[Any]]
    """Record, block, call id, tool, digest, path, action; of its result in the same chunk: record,
    is error, duration, signature."""
    answers: list[tuple[Any, ...]]
    """Results of earlier calls: record, is error, duration, signature, record and block of the
    call."""
    damages: list[tuple[Any, ...]]
    """Record, length, reason, detail, excerpt."""
    folded: bytes
    tail_folded: bytes | None
    session: str | None
    is_last: bool
    text_bytes: int
