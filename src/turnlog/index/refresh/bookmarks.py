"""How far a log was read, and how we know that it is still the same log.

A log that only grew is read on from where it ended. One that shrank, or has other bytes where it
was read, or has the same size but another time, was rewritten or replaced: it is read again from
the start. The device and inode are a hint and decide nothing: containers and copies change them.
A kept copy, packed in frames, is as long as what it holds and as old as its source: to a bookmark
it is the same log.
"""

from __future__ import annotations

import os
from enum import Enum

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.storage.sources import FramedSource, Seekable, fingerprint_by, open_source


class Bookmark(Struct, frozen=True, array_like=True, gc=False):
    """Where the next reading begins, after a newline; what the log looked like at the last one."""

    offset: int = 0
    size_bytes: int = -1
    mtime_ns: int = 0
    fingerprint: bytes | None = None

    @property
    def seen_bytes(self) -> int:
        """What the fingerprint covers: also a last line that has no newline yet."""
        return max(self.offset, self.size_bytes)


class LogChange(Enum):
    """What became of a log since its bookmark."""

    NONE = "none"
    GREW = "grew"
    REPLACED = "replaced"


def change_since(mark: Bookmark, path: str, now: os.stat_result) -> LogChange:
    """Return what became of the log at *path*, which is *now* like this."""
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
    """Return how long a log is that is *now* like this: if it is packed in frames, unpacked."""
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
    """Sum up the bytes before *offset*; None if there is no way to them, or they cannot be read."""
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
