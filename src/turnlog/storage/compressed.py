"""Compressed logs with random access: zstd frames that can be read one at a time.

    frame | frame | … | table of frames

A frame holds up to 1 MiB of the log and ends after a newline where there is one. The table is that
of zstd's seekable format, in a frame other programs skip: ``zstd -d`` reads such a log like any
other, and a damaged frame does not affect the others. Frame boundaries depend only on the bytes: a
log compressed incrementally has the same frames as one compressed at once.

A compressed file is never modified. To extend it, a new one is written: full frames are copied, and
the last, partial one is compressed again with the new bytes. The caller stores a SHA-256 digest per
frame, and a CRC-32 of the compressed bytes, which shows without decompression whether the frame can
be copied. zstd releases the GIL, so threads are used where there is enough to do.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from turnlog.errors import BrokenCopy
from turnlog.storage.sources import open_regular
from turnlog.storage.system import read_at, write_all

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

FRAME_BYTES: Final = 1024 * 1024
LEVEL: Final = 3
DIGEST_BYTES: Final = 32
_SUM_BYTES: Final = 4

_OPTIONS: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: LEVEL,
    zstd.CompressionParameter.checksum_flag: 1,
}
_SKIPPED: Final = struct.Struct("<II")  # Magic number and length of a skippable frame.
_ENTRY: Final = struct.Struct("<II")  # Compressed and decompressed length of a frame.
_FOOTER: Final = struct.Struct("<IBI")  # Number of frames, flags, magic number.
_SKIP_MARK: Final = 0x184D2A5E
_TABLE_MARK: Final = 0x8F92EAB1
_HAS_CHECKSUMS: Final = 0x80
# Other programs write larger frames; above this size they are not read as frames.
_LARGEST_FRAME: Final = 16 * 1024 * 1024
_LARGEST_PACKED: Final = 2 * _LARGEST_FRAME  # Incompressible data grows a little.
# 256 GiB in our frames. The table is held in memory, and a sparse file could claim a huge one.
_MOST_FRAMES: Final = 0x40000

_AHEAD: Final = 4  # Frames processed ahead at a time.

# Compressors are reused per thread: creating one takes a fifth of the time.
_own: Final = threading.local()


class BrokenFrame(Exception):  # Internal: converted to damage or BrokenCopy.
    """The compressed bytes do not match the table."""


class Frame(NamedTuple):
    """Where a frame is in the file, and which bytes of the log it holds."""

    packed_at: int
    packed_bytes: int
    start: int
    size_bytes: int


class FrameTable:
    """The frames of a log, in order; *lengths* are their packed and unpacked lengths."""

    def __init__(self, lengths: Iterable[tuple[int, int]] = ()) -> None:
        self.frames: list[Frame] = []
        self._starts: list[int] = []
        self.packed_bytes = 0
        """Where the last frame ends in the file."""
        self.size_bytes = 0
        """How many bytes of the log the frames hold."""
        for packed_bytes, size_bytes in lengths:
            self.add(packed_bytes, size_bytes)

    def add(self, packed_bytes: int, size_bytes: int) -> None:
        """Append a frame."""
        self.frames.append(Frame(self.packed_bytes, packed_bytes, self.size_bytes, size_bytes))
        self._starts.append(self.size_bytes)
        self.packed_bytes += packed_bytes
        self.size_bytes += size_bytes

    @property
    def is_ours(self) -> bool:
        """Whether no frame exceeds turnlog's frame size, as a decompression bomb would."""
        return all(frame.size_bytes <= FRAME_BYTES for frame in self.frames)

    def at(self, offset: int) -> int:
        """Return the index of the frame that contains the byte at *offset* of the log."""
        return bisect_right(self._starts, offset) - 1

    def encode(self) -> bytes:
        """Return the table as bytes, to be written after the frames."""
        entries = b"".join(
            _ENTRY.pack(frame.packed_bytes, frame.size_bytes) for frame in self.frames
        )
        footer = _FOOTER.pack(len(self.frames), 0, _TABLE_MARK)
        return _SKIPPED.pack(_SKIP_MARK, len(entries) + len(footer)) + entries + footer


def read_table(fd: int) -> FrameTable | None:
    """Read the frame table of a compressed log; None if it has none or an unreliable one."""
    size = os.fstat(fd).st_size
    footer = read_at(fd, _FOOTER.size, max(0, size - _FOOTER.size))
    if len(footer) < _FOOTER.size:
        return None
    count, flags, mark = _FOOTER.unpack(footer)
    entry_bytes = _ENTRY.size + 4 * bool(flags & _HAS_CHECKSUMS)
    length = count * entry_bytes + _FOOTER.size
    start = size - length - _SKIPPED.size
    if mark != _TABLE_MARK or count > _MOST_FRAMES or start < 0:
        return None
    data = read_at(fd, size - start, start)
    if len(data) != size - start or _SKIPPED.unpack_from(data) != (_SKIP_MARK, length):
        return None
    table = FrameTable(
        _ENTRY.unpack_from(data, _SKIPPED.size + number * entry_bytes) for number in range(count)
    )
    is_sound = all(
        frame.size_bytes <= _LARGEST_FRAME and 0 < frame.packed_bytes <= _LARGEST_PACKED
        for frame in table.frames
    )
    return table if is_sound and table.packed_bytes == start else None


def end_of_frame(data: bytes | bytearray | memoryview) -> int:
    """Return how much of *data*, at least one frame's worth, belongs in the next frame."""
    return bytes(data[:FRAME_BYTES]).rfind(b"\n") + 1 or FRAME_BYTES


def pack(data: bytes) -> bytes:
    """Compress the bytes of one frame."""
    packer: zstd.ZstdCompressor | None = getattr(_own, "packer", None)
    if packer is None:
        packer = _own.packer = zstd.ZstdCompressor(options=_OPTIONS)
    return packer.compress(data, mode=zstd.ZstdCompressor.FLUSH_FRAME)


def unpack_frame(packed: bytes, size_bytes: int) -> bytes:
    """Decompress a frame of *size_bytes*; at most one byte more is produced."""
    unpacker = zstd.ZstdDecompressor()
    try:
        data = unpacker.decompress(packed, max_length=size_bytes + 1)
        while not unpacker.eof and not unpacker.needs_input and len(data) <= size_bytes:
            more = unpacker.decompress(b"", max_length=size_bytes + 1 - len(data))
            if not more and not unpacker.eof:
                break
            data += more
    except zstd.ZstdError as error:
        raise BrokenFrame(str(error)) from None
    if len(data) != size_bytes or not unpacker.eof or unpacker.unused_data:
        raise BrokenFrame("a frame does not hold what the table says")
    return data


def leading_frames(fd: int) -> Iterator[bytes]:
    """Yield the decompressed frames of a file without a table, up to the first damage.

    A frame larger than turnlog writes ends it as well.
    """
    position, rest = 0, b""
    while True:
        unpacker = zstd.ZstdDecompressor()
        size_bytes = 0
        while not unpacker.eof:
            if unpacker.needs_input and not rest:
                rest = read_at(fd, FRAME_BYTES, position)
                position += len(rest)
                if not rest:
                    return
            try:
                data = unpacker.decompress(rest, max_length=FRAME_BYTES + 1 - size_bytes)
            except zstd.ZstdError:
                return
            rest = b""
            size_bytes += len(data)
            if size_bytes > FRAME_BYTES:
                return
            if data:
                yield data
        rest = unpacker.unused_data


class Frames:
    """The frames of an open log, decompressed on demand; the last two are cached."""

    def __init__(self, fd: int, table: FrameTable) -> None:
        self.fd = fd
        self.table = table
        self._held: dict[int, bytes] = {}

    def unpacked(self, number: int) -> bytes:
        """Return a decompressed frame; raise BrokenFrame if it is damaged."""
        held = self._held.get(number)
        if held is not None:
            return held
        frame = self.table.frames[number]
        try:
            packed = read_at(self.fd, frame.packed_bytes, frame.packed_at)
        except OSError as error:
            raise BrokenFrame(error.strerror or str(error)) from None
        data = unpack_frame(packed, frame.size_bytes)
        self.hold(number, data)
        return data

    def hold(self, number: int, data: bytes) -> None:
        """Cache the contents of a frame."""
        if len(self._held) > 1:
            del self._held[next(iter(self._held))]
        self._held[number] = data


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

    def frame_digest(self, number: int) -> bytes:
        """Return the digest of one frame."""
        return self.digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]


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
        self._jobs: deque[tuple[int, Future[tuple[bytes, bytes]]]] = deque()  # Being compressed.
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
        _copy(fd, self._fd, last.packed_at)
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
    bad: list[Frame] = []

    def collect(at_most: int) -> None:
        while len(jobs) > at_most:
            frame, job = jobs.popleft()
            if not job.result():
                bad.append(frame)

    for number, frame in enumerate(found.frames[first:], first):
        packed = read_at(fd, frame.packed_bytes, frame.packed_at)
        digest = expected.frame_digest(number)
        jobs.append((frame, _pool().submit(_holds, packed, frame.size_bytes, digest)))
        collect(_AHEAD - 1)
    collect(0)
    return bad


def unpack(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the contents of the compressed file at *path*; raise BrokenCopy if it is damaged."""
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
        hint="verify the copies; what is left can be read",
        code="damaged-copy",
    )


def _packed(data: bytes) -> tuple[bytes, bytes]:
    return pack(data), sha256(data).digest()


def _proved(packed: bytes, number: int, earlier: Packed) -> bytes:
    """Return the sum of a copied frame; raise BrokenFrame if it has changed."""
    frame, found = earlier.table.frames[number], _sum(packed)
    if earlier.sums:
        is_good = found == earlier.sums[number * _SUM_BYTES : (number + 1) * _SUM_BYTES]
    else:
        is_good = _holds(packed, frame.size_bytes, earlier.frame_digest(number))
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
    # Reading needs no threads, and this takes a while to import.
    from concurrent import futures  # noqa: PLC0415

    return futures.ThreadPoolExecutor(max_workers=max(2, min(4, os.cpu_count() or 2)))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # Threads do not survive a fork.
