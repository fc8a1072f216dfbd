"""Kept copies read back: what the catalogue says of them, frame by frame, or an error.

A copy may be ahead of its catalogue: whoever keeps puts it in place first and writes it down
afterwards, and may be killed between the two. So a copy that begins with what is known of it is
read as far as it was known, and `as_it_lies` tells what it holds by now. Anything else that does
not fit is broken. No more is ever unpacked than a copy is known to hold, or than its table says; a
table with larger frames than turnlog makes is believed only as far as the copy's weight allows.
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
from turnlog.storage.compressed import DIGEST_BYTES
from turnlog.storage.frames import (
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

# Real logs pack 5 to 30 times, bombs a thousand.
_BOMB_SLACK: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
_READ_BYTES: Final = 1024 * 1024
_HINT: Final = "turnlog verify shows what is damaged; turnlog show reads what is left"


class Copy(Struct, frozen=True, kw_only=True):
    """One kept copy of the file *name*: where it lies, and what is known of it."""

    name: str
    generation: int
    path: Path
    known: KeptFile | None = None
    """What the catalogue says of it; None if it does not know it."""


def describe_copy(copy: Copy) -> KeptFile:
    """Tell what a copy holds: what is known of it, or what it shows by itself; or a BrokenCopy."""
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
            pass  # It still begins with what was known.
        return _unpacked(copy, fd, table)


def content(copy: Copy, kept: KeptFile) -> Iterator[bytes]:
    """Return what *kept* says that the copy holds; a BrokenCopy before the first byte that differs.

    The copy may have grown since.
    """
    with _opened(copy.path) as (fd, table):
        yield from _frames(copy.path, kept, fd, table)


def begins_with(copy: Copy, kept: KeptFile) -> bool:
    """Return whether a copy begins with all that *kept*, which may be of another file, holds."""
    try:
        for _ in content(copy, kept):
            pass
    except BrokenCopy:
        return False
    return True


def readable_parts(path: Path) -> Iterator[bytes]:
    """Return what can be read of a broken copy; a frame that cannot be is a line of NULs.

    Of a copy without a table that is what stands before the first damage.
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
            # The last frame is packed again when the file grows, and may end elsewhere then.
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
    """Find out what a copy holds that the catalogue does not know."""
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
    """Return how many bytes a copy may hold that turnlog did not make, and be no bomb."""
    return _BOMB_SLACK + _BOMB_RATIO * os.fstat(fd).st_size


def file_begins_with(fd: int, kept: KeptFile) -> bool:
    """Return whether an open file begins with all that was *kept* of it, by its frames' digests.

    Where frames end depends on the bytes alone, so the copy is not needed.
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
