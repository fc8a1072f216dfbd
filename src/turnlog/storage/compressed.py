"""Compress a file into frames, at once or incrementally; verify it; decompress it.

A compressed file is never modified. To extend it, a new one is written: full frames are copied
unchanged and the last, partial frame is compressed again with the new bytes, so a thousand small
additions take the space of one large one. The caller stores a SHA-256 digest per frame; the digest
of the whole is that of its frames' digests, so it grows with the file. A CRC-32 per frame of the
compressed bytes shows without decompression whether the frame can be copied.

zstd releases the GIL, so two threads are used where there is enough to do.
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
_AHEAD: Final = 4  # Frames processed ahead at a time.


class Packed(NamedTuple):
    """The contents of a compressed file. *digests* are those of its frames, concatenated.

    So are *sums*, the CRC-32 of the compressed frames; without them, frames are verified by
    decompression.
    """

    table: FrameTable
    digests: bytes
    sums: bytes = b""

    @property
    def size_bytes(self) -> int:
        return self.table.size_bytes

    @property
    def digest(self) -> str:
        """The digest of the whole file."""
        return digest_of(self.digests)


def digest_of(digests: bytes) -> str:
    """Return the digest of a file whose frames have *digests*."""
    return sha256(digests).hexdigest()


class Packer:
    """Writes a new compressed file to *fd*, starting as a copy of *earlier* if given.

    *earlier* is an open compressed file and its known contents.
    """

    def __init__(self, fd: int, earlier: tuple[int, Packed] | None = None) -> None:
        self._fd = fd
        self._table = FrameTable()
        self._digests = bytearray()
        self._sums = bytearray()
        self._open = bytearray()  # The contents of the last frame so far.
        self._jobs: deque[tuple[int, Future[tuple[bytes, bytes]]]] = deque()
        self.copied = 0
        """The number of frames copied unchanged and verified."""
        if earlier is not None and earlier[1].table.frames:
            self._take_over(*earlier)

    def feed(self, data: bytes) -> None:
        """Add the next bytes."""
        self._open += data
        while len(self._open) >= FRAME_BYTES:
            end = end_of_frame(self._open)
            frame = bytes(self._open[:end])
            del self._open[:end]
            self._jobs.append((end, _pool().submit(_packed, frame)))
            if len(self._jobs) >= _AHEAD:
                self._write_one()

    def finish(self) -> Packed:
        """Write the last frame and the table."""
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
    """Read a compressed file back; return the frames, from *first* on, that differ."""
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
    """Return the contents of the compressed file at *path*; raise BrokenCopy if it is damaged."""
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
    """Decompress the file at *path* and return what it contains."""
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
    """Return the sum of a copied frame; raise BrokenFrame if it has changed."""
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
    """Copy the first *count* bytes of one file to another, in the kernel where possible."""
    done = 0
    if hasattr(os, "copy_file_range"):
        try:
            while done < count:
                step = os.copy_file_range(source, target, count - done, done, done)
                if step == 0:
                    break
                done += step
        except OSError:
            pass  # Unsupported for these two files; the plain copy reports real errors.
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
    os.register_at_fork(after_in_child=_pool.cache_clear)  # Threads do not survive a fork.
