"""How far a log was read, and how we know that it is still the same log.

A log that only grew is read on from where it ended. One that shrank, or has other bytes where it
was read, or has the same size but another time, was rewritten or replaced: it is read again from
the start. The device and inode are a hint and decide nothing: containers and copies change them.
"""

from __future__ import annotations

import os
from enum import Enum
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.log.sources import PlainSource, open_source
from turnlog.log.system import read_at

# What is compared of the bytes before a bookmark: the two ends, and samples between them.
_END_BYTES: Final = 4096
_SAMPLES: Final = 30
_SAMPLE_BYTES: Final = 256


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


class Change(Enum):
    """What became of a log since its bookmark."""

    NONE = "none"
    GREW = "grew"
    REPLACED = "replaced"


def change_since(mark: Bookmark, path: str, now: os.stat_result) -> Change:
    """Tell what became of the log at *path*, which is *now* like this."""
    if mark.size_bytes < 0:
        return Change.GREW
    if now.st_size == mark.size_bytes:
        return Change.NONE if now.st_mtime_ns == mark.mtime_ns else Change.REPLACED
    if now.st_size < mark.size_bytes:
        return Change.REPLACED
    is_same = fingerprint(path, mark.seen_bytes) == mark.fingerprint
    return Change.GREW if is_same else Change.REPLACED


def fingerprint(path: str, offset: int) -> bytes | None:
    """Sum up the bytes before *offset*; None if the log is compressed or cannot be read."""
    try:
        source = open_source(path)
    except (TurnlogError, OSError):
        return None
    try:
        return fingerprint_of(source.fd, offset) if isinstance(source, PlainSource) else None
    except OSError:
        return None
    finally:
        source.close()


def fingerprint_of(fd: int, offset: int) -> bytes:
    """Sum up the bytes before *offset* of an open log."""
    digest = blake2b(digest_size=16)
    head = min(offset, _END_BYTES)
    digest.update(read_at(fd, head, 0))
    last = max(head, offset - _END_BYTES)
    if last > head:
        step = max(1, (last - head) // (_SAMPLES + 1))
        for number in range(1, _SAMPLES + 1):
            at = head + number * step
            digest.update(read_at(fd, min(_SAMPLE_BYTES, last - at), at) if at < last else b"")
    digest.update(read_at(fd, offset - last, last))
    return digest.digest()
