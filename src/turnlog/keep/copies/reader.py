"""Read kept copies back, frame by frame, and verify them with the catalog.

A copy may be newer than its catalog, if a run was killed between committing and recording it. So a
copy that begins with its recorded contents is read that far, and `describe_copy` returns its actual
contents. Any other mismatch is damage. Never more is decompressed than a copy is recorded to hold,
or than its table says; a table with larger frames than turnlog writes is trusted only within the
limit for bombs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.errors import BrokenCopy, NotFound
from turnlog.keep.catalog import KeptFile
from turnlog.storage.compressed import (
    DIGEST_BYTES,
    FRAME_BYTES,
    BrokenFrame,
    Frames,
    FrameTable,
    end_of_frame,
    leading_frames,
    read_table,
)
from turnlog.storage.sources import BrokenArchive, open_regular, open_source
from turnlog.storage.system import read_at

# Real logs compress 5 to 30 times, bombs a thousand.
_BOMB_SLACK: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
_READ_BYTES: Final = 1024 * 1024
_HINT: Final = "turnlog verify shows what is damaged; turnlog show reads what is left"


class Copy(Struct, frozen=True, kw_only=True):
    """One kept copy of the file *name*: its path and its entry."""

    name: str
    generation: int
    path: Path
    known: KeptFile | None = None
    """Its entry in the catalog; None if there is none."""


def describe_copy(copy: Copy) -> KeptFile:
    """Return what a copy holds, by the catalog or by itself; raise BrokenCopy if damaged."""
    known = copy.known
    with _opened(copy.path) as (fd, table):
        if known is None:
            return _unpacked(copy, fd, table)
        if table.size_bytes == known.size_bytes:
            return known
        if table.size_bytes < known.size_bytes:
            why = f"it holds {table.size_bytes:,} bytes, where {known.size_bytes:,} were kept"
            raise _broken(copy.path, why)
        for _ in _frames(copy.path, known, fd, table):
            pass  # It still begins with its recorded contents.
        return _unpacked(copy, fd, table)


def content(copy: Copy, kept: KeptFile) -> Iterator[bytes]:
    """Yield the contents recorded in *kept*; raise BrokenCopy before the first byte that differs.

    The copy may have grown since.
    """
    with _opened(copy.path) as (fd, table):
        yield from _frames(copy.path, kept, fd, table)


def begins_with(copy: Copy, kept: KeptFile) -> bool:
    """Return whether a copy begins with the contents in *kept*, perhaps of another file."""
    try:
        for _ in content(copy, kept):
            pass
    except BrokenCopy:
        return False
    return True


def readable_parts(path: Path) -> Iterator[bytes]:
    """Yield what can be read of a broken copy; an unreadable frame is a line of NULs.

    Without a table, that is everything before the first damage.
    """
    fd = open_regular(path)
    try:
        table = read_table(fd)
        if table is None:
            yield from leading_frames(fd)
            return
        left = table.size_bytes if table.is_ours else _most_bytes(fd)
    finally:
        os.close(fd)
    source = open_source(path)
    try:
        while left > 0 and (data := source.read(min(left, _READ_BYTES))):
            left -= len(data)
            yield data
    except BrokenArchive:
        pass
    finally:
        source.close()


def _frames(path: Path, kept: KeptFile, fd: int, table: FrameTable) -> Iterator[bytes]:
    frames = Frames(fd, table)
    digests = [
        kept.digests[at : at + DIGEST_BYTES] for at in range(0, len(kept.digests), DIGEST_BYTES)
    ]
    left = kept.size_bytes
    number = 0
    for digest in digests:
        data = _frame(path, frames, number)
        number += 1
        if digest is digests[-1]:
            # The last frame is compressed again when the file grows, and may then end elsewhere.
            while len(data) < left and number < len(table.frames) and len(data) <= _BOMB_SLACK:
                data += _frame(path, frames, number)
                number += 1
            data = data[:left]
        if sha256(data).digest() != digest:
            start = kept.size_bytes - left
            raise _broken(path, f"bytes {start:,} to {start + len(data):,} are not those kept")
        left -= len(data)
        yield data
    if left:
        raise _broken(path, f"it ends {left:,} bytes too early")


def _frame(path: Path, frames: Frames, number: int) -> bytes:
    if number >= len(frames.table.frames):
        raise _broken(path, "it has fewer frames than were kept")
    try:
        return frames.unpacked(number)
    except BrokenFrame as error:
        frame = frames.table.frames[number]
        end = frame.start + frame.size_bytes
        raise _broken(path, f"bytes {frame.start:,} to {end:,}: {error}") from None


def _unpacked(copy: Copy, fd: int, table: FrameTable) -> KeptFile:
    """Return the contents of a copy that is not in the catalog."""
    status = os.fstat(fd)
    if not table.is_ours and table.size_bytes > _most_bytes(fd):
        raise _broken(copy.path, f"it unpacks to more than {_BOMB_RATIO} times its size")
    frames = Frames(fd, table)
    digests = b"".join(
        sha256(_frame(copy.path, frames, number)).digest() for number in range(len(table.frames))
    )
    return KeptFile(
        name=copy.name,
        generation=copy.generation,
        size_bytes=table.size_bytes,
        mtime_ns=0,
        packed_bytes=status.st_size,
        digests=digests,
        kept_at=datetime.fromtimestamp(status.st_mtime, UTC),
        session=copy.known.session if copy.known is not None else None,
    )


def _most_bytes(fd: int) -> int:
    """Return the size limit for copies that turnlog did not make, against bombs."""
    return _BOMB_SLACK + _BOMB_RATIO * os.fstat(fd).st_size


def file_begins_with(fd: int, kept: KeptFile) -> bool:
    """Return whether an open file begins with everything *kept*, by its frames' digests.

    Frame boundaries depend only on the bytes, so the copy is not needed.
    """
    at = number = 0
    while at < kept.size_bytes:
        data = read_at(fd, min(FRAME_BYTES, kept.size_bytes - at), at)
        data = data[: end_of_frame(data)] if len(data) == FRAME_BYTES else data
        digest = kept.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        if not data or sha256(data).digest() != digest:
            return False
        at += len(data)
        number += 1
    return number * DIGEST_BYTES == len(kept.digests)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, FrameTable]]:
    try:
        fd = open_regular(path)
    except NotFound:
        raise BrokenCopy(f"the copy {path} is missing", path=path, hint=_HINT) from None
    try:
        table = read_table(fd)
        if table is None:
            raise _broken(path, "it has no table of frames: it was cut short, or is something else")
        yield fd, table
    finally:
        os.close(fd)


def _broken(path: Path, why: str) -> BrokenCopy:
    return BrokenCopy(f"{path} does not unpack: {why}", path=path, hint=_HINT)
