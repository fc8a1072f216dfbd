"""Compressed logs with random access: zstd frames that can be read one at a time.

    frame | frame | … | table of frames

A frame holds up to 1 MiB of the log, ends after a newline where there is one, and has zstd's own
checksum. The table is that of zstd's seekable format, in a frame other programs skip. So ``zstd
-d`` reads such a log like any other, a range is read by decompressing only its frames, and a
damaged frame does not affect the others.

Frame boundaries depend only on the bytes: a log compressed incrementally has the same frames as one
compressed at once.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from turnlog.storage.system import read_at

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FRAME_BYTES: Final = 1024 * 1024
LEVEL: Final = 3

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
    """The frames of a log, in order."""

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


def lengths_of(frames: Sequence[Frame]) -> list[tuple[int, int]]:
    """Return the pairs of lengths that a table consists of."""
    return [(frame.packed_bytes, frame.size_bytes) for frame in frames]
