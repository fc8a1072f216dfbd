"""Packing a file into frames, at once or little by little; proving it; and unpacking it.

A packed file is never changed. One that should hold more is made anew: its full frames are copied
as they are, its last one, which is never full, is packed again with what came after it. So a
thousand small additions take the room of one large one. Every frame has a SHA-256 digest of what
it holds, kept by the caller; the digest of the whole is that of its frames' digests, so that it
grows with the file. And every frame has a sum of its packed bytes, which tells without unpacking
whether it may be copied as it is.

Packing and unpacking let go of Python's lock, and go on in two threads where there is enough to do.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from typing import Final, NamedTuple
from zlib import crc32

from turnlog.errors import BrokenCopy
from turnlog.storage.frames import (
    FRAME_BYTES,
    BrokenFrame,
    Frame,
    Frames,
    FrameTable,
    end_of_frame,
    pack,
    read_table,
    unpack_frame,
)
from turnlog.storage.sources import open_regular
from turnlog.storage.system import read_at, write_all

DIGEST_BYTES: Final = 32
_SUM_BYTES: Final = 4
_AHEAD: Final = 4  # Frames that are packed or unpacked at a time.


class Packed(NamedTuple):
    """What a packed file holds. *digests* are those of its frames, one behind the other.

    So are *sums*, the CRC-32 of their packed bytes; without them, frames are told by unpacking.
    """

    table: FrameTable
    digests: bytes
    sums: bytes = b""

    @property
    def size_bytes(self) -> int:
        return self.table.size_bytes

    @property
    def digest(self) -> str:
        """The digest of the whole."""
        return digest_of(self.digests)


def digest_of(digests: bytes) -> str:
    """Return the digest of a whole whose frames have *digests*."""
    return sha256(digests).hexdigest()


class Packer:
    """Fills the new file behind *fd*; begins as a copy of *earlier*, if there is one.

    *earlier* is an open packed file and what it is known to hold.
    """

    def __init__(self, fd: int, earlier: tuple[int, Packed] | None = None) -> None:
        self._fd = fd
        self._table = FrameTable()
        self._digests = bytearray()
        self._sums = bytearray()
        self._open = bytearray()  # What the last frame holds so far.
        self._jobs: deque[tuple[int, Future[tuple[bytes, bytes]]]] = deque()
        self.copied = 0
        """How many frames were taken over as they were, and proved."""
        if earlier is not None and earlier[1].table.frames:
            self._take_over(*earlier)

    def feed(self, data: bytes) -> None:
        """Add the next bytes."""
        self._open += data
        while len(self._open) >= FRAME_BYTES:
            end = end_of_frame(self._open)
            whole = bytes(self._open[:end])
            del self._open[:end]
            self._jobs.append((end, _pool().submit(_packed, whole)))
            if len(self._jobs) >= _AHEAD:
                self._write_one()

    def finish(self) -> Packed:
        """Write what is left, and the table."""
        while self._jobs:
            self._write_one()
        if self._open:
            self._write(len(self._open), *_packed(bytes(self._open)))
        write_all(self._fd, self._table.encode())
        return Packed(self._table, bytes(self._digests), bytes(self._sums))

    def _take_over(self, fd: int, earlier: Packed) -> None:
        *full, last = earlier.table.frames
        end = last.packed_at
        _copy(fd, self._fd, end)
        for number, frame in enumerate(full):
            self._table.add(frame.packed_bytes, frame.size_bytes)
            packed = read_at(self._fd, frame.packed_bytes, frame.packed_at)
            self._sums += _proved(packed, number, earlier)
        self.copied = len(full)
        self._digests += earlier.digests[: self.copied * DIGEST_BYTES]
        data = Frames(fd, earlier.table).unpacked(self.copied)
        if sha256(data).digest() != earlier.digests[self.copied * DIGEST_BYTES :]:
            raise BrokenFrame("the last frame does not hold what it did")
        self._open += data

    def _write_one(self) -> None:
        size_bytes, job = self._jobs.popleft()
        self._write(size_bytes, *job.result())

    def _write(self, size_bytes: int, packed: bytes, digest: bytes) -> None:
        write_all(self._fd, packed)
        self._table.add(len(packed), size_bytes)
        self._digests += digest
        self._sums += _sum(packed)


def check_packed(fd: int, expected: Packed, *, first: int = 0) -> list[Frame]:
    """Read a packed file back; give the frames, from the *first* on, that are not as expected."""
    found = read_table(fd)
    if found is None or found.frames != expected.table.frames:
        return list(expected.table.frames[first:]) or [Frame(0, 0, 0, 0)]
    jobs: deque[tuple[Frame, Future[bool]]] = deque()
    bad = []
    digests = expected.digests
    for number, frame in enumerate(found.frames[first:], first):
        digest = digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        packed = read_at(fd, frame.packed_bytes, frame.packed_at)
        jobs.append((frame, _pool().submit(_holds, packed, frame.size_bytes, digest)))
        if len(jobs) >= _AHEAD:
            bad += _bad(*jobs.popleft())
    while jobs:
        bad += _bad(*jobs.popleft())
    return bad


def unpack(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Return all that the packed file at *path* holds; a BrokenCopy where it cannot be had."""
    fd = open_regular(path)
    try:
        table = read_table(fd)
        if table is None:
            raise _broken(path, "it has no table of frames: it was cut short, or is something else")
        frames = Frames(fd, table)
        for number, frame in enumerate(table.frames):
            try:
                yield frames.unpacked(number)
            except BrokenFrame as error:
                end = frame.start + frame.size_bytes
                raise _broken(path, f"bytes {frame.start:,} to {end:,}: {error}") from None
    finally:
        os.close(fd)


def packed_at(path: str | os.PathLike[str]) -> Packed:
    """Find out what the packed file at *path* holds, by unpacking it."""
    digests = b"".join(sha256(data).digest() for data in unpack(path))
    fd = open_regular(path)
    try:
        table = read_table(fd)
    finally:
        os.close(fd)
    if table is None or len(digests) != len(table.frames) * DIGEST_BYTES:
        raise _broken(path, "it changed while it was read")
    return Packed(table, digests)


def _broken(path: str | os.PathLike[str], why: str) -> BrokenCopy:
    return BrokenCopy(
        f"{os.fspath(path)} does not unpack: {why}",
        path=path,
        hint="turnlog verify shows what is damaged; turnlog show reads what is left",
    )


def _bad(frame: Frame, job: Future[bool]) -> list[Frame]:
    return [] if job.result() else [frame]


def _packed(data: bytes) -> tuple[bytes, bytes]:
    return pack(data), sha256(data).digest()


def _proved(packed: bytes, number: int, earlier: Packed) -> bytes:
    """Return the sum of a frame that was copied; a BrokenFrame if it is not as it was packed."""
    frame, found = earlier.table.frames[number], _sum(packed)
    if earlier.sums:
        is_good = found == earlier.sums[number * _SUM_BYTES : (number + 1) * _SUM_BYTES]
    else:
        digest = earlier.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]
        is_good = _holds(packed, frame.size_bytes, digest)
    if not is_good:
        end = frame.start + frame.size_bytes
        raise BrokenFrame(f"bytes {frame.start:,} to {end:,} are not as they were packed")
    return found


def _sum(packed: bytes) -> bytes:
    return crc32(packed).to_bytes(_SUM_BYTES, "little")


def _holds(packed: bytes, size_bytes: int, digest: bytes) -> bool:
    try:
        return sha256(unpack_frame(packed, size_bytes)).digest() == digest
    except BrokenFrame:
        return False


def _copy(source: int, target: int, count: int) -> None:
    """Copy the first *count* bytes of one file to another, within the system where it can."""
    done = 0
    if hasattr(os, "copy_file_range"):
        try:
            while done < count:
                step = os.copy_file_range(source, target, count - done, done, done)
                if step == 0:
                    break
                done += step
        except OSError:
            pass  # Not between these two; the plain way says what is wrong, if anything is.
    os.lseek(target, done, os.SEEK_SET)
    while done < count:
        data = read_at(source, min(FRAME_BYTES, count - done), done)
        if not data:
            raise BrokenFrame("the packed file is shorter than its table says")
        write_all(target, data)
        done += len(data)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(2, min(4, os.cpu_count() or 2)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # Threads do not come along.
