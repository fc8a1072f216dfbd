"""A log's bytes, plain or compressed, and their lines.

Plain files and those compressed in frames allow random access (``read_at``), others are read from
the front. Compression is detected from the first bytes. A frame that cannot be decompressed reads
as NUL bytes and a newline, so all other offsets stay right. Files are never mapped: a mapped log
that shrinks kills the process. A compressed log with an absurd ratio is cut off.

A line ends at byte 0x0A and nowhere else. At most one line and one chunk are in memory; a line
longer than the cap is measured, not kept. The bytes after the last newline are pending: they may be
a record that is still being written.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BytesIO
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from turnlog.errors import LogError, NotALog, NotFound, StorageFull
from turnlog.records.damage import EXCERPT_BYTES, Damage, Reason
from turnlog.storage.system import read_at

if TYPE_CHECKING:
    from turnlog.storage.compressed import FrameTable

LINE_CAP: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
ENDS_BYTES: Final = 64 * 1024
"""How much of each end of a log is read to summarize it without reading all of it."""

READ_ONLY: Final = "it can be read only: change a copy of its home"
"""The hint for agent files that cannot be written."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # Preceded by 0x50 to 0x5f.
_BOMB_SLACK: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
# Frames are decompressed one by one: a bomb costs time only, and real ones may compress very well.
_FRAMED_SLACK: Final = 4 * 1024 * 1024 * 1024
_BLANK: Final = b"\n\r\t "
_BLANK_LINES: Final = re.compile(rb"(?:[\r\t ]*+\n)++")
# Fingerprints: what is hashed at both ends, and between them.
_END_BYTES: Final = 4096
_SAMPLES: Final = 30
_SAMPLE_BYTES: Final = 256
_O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class BrokenArchive(Exception):  # Internal: the reader converts it to damage.
    """The compressed bytes are truncated, invalid, or a bomb."""


class Source(Protocol):
    """Bytes read from the front, a chunk at a time."""

    plain: bool

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class _OpenFile:
    """A descriptor that is closed once."""

    fd: int

    def close(self) -> None:
        fd, self.fd = self.fd, -1  # First: an interrupt must not have it closed twice.
        if fd >= 0:
            os.close(fd)


class PlainSource(_OpenFile):
    """A regular file, read by descriptor from *start* to *end* or to its end."""

    plain = True

    def __init__(
        self, fd: int, start: int, *, end: int | None = None, path: str | None = None
    ) -> None:
        self.fd = fd
        self._path = path or f"descriptor {fd}"
        self._position = start
        self._end = end

    def read(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self._position)
            if size <= 0:
                return b""
        try:
            data = read_at(self.fd, size, self._position)
        except OSError as error:
            reason = error.strerror or str(error)
            raise LogError(
                f"reading failed at byte {self._position:,}: {reason}",
                path=self._path,
                errno=error.errno,
                hint="the disk may be failing; copy what can be read",
            ) from None
        self._position += len(data)
        return data

    @property
    def size_bytes(self) -> int:
        """The current size of the log."""
        return os.fstat(self.fd).st_size

    def read_at(self, size: int, offset: int) -> bytes:
        """Read up to *size* bytes at *offset*, independent of the read position."""
        return read_at(self.fd, size, offset)


class Broken(Struct, frozen=True):
    """A range of a log that its archive cannot return, and why."""

    offset: int
    length: int
    why: str


class FramedSource(_OpenFile):
    """A file compressed in frames, decompressed on demand."""

    plain = False

    def __init__(self, fd: int, table: FrameTable, start: int = 0) -> None:
        from turnlog.storage.compressed import Frames

        self.fd = fd
        self.table = table
        self.size_bytes = table.size_bytes
        self.broken: list[Broken] = []
        """Frames that could not be decompressed so far."""
        self._frames = Frames(fd, table)
        self._position = start

    def read(self, size: int) -> bytes:
        number = self.table.at(self._position)
        if self._position >= self.size_bytes or number < 0:
            return b""
        begin = self._position - self.table.frames[number].start
        data = self._frame(number)[begin : begin + size]
        self._position += len(data)
        return data

    def read_at(self, size: int, offset: int) -> bytes:
        """Read up to *size* bytes at *offset*, independent of the read position."""
        here, self._position = self._position, offset
        parts: list[bytes] = []
        while size > 0 and (data := self.read(size)):
            parts.append(data)
            size -= len(data)
        self._position = here
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _frame(self, number: int) -> bytes:
        from turnlog.storage.compressed import BrokenFrame

        try:
            return self._frames.unpacked(number)
        except BrokenFrame as error:
            frame = self.table.frames[number]
            broken = Broken(frame.start, frame.size_bytes, str(error))
            if broken not in self.broken:
                self.broken.append(broken)
                from turnlog.storage.logger import logger  # Importing logging takes a while.

                logger.warning(
                    "a frame of %d bytes at %d does not unpack", broken.length, broken.offset
                )
            data = b"\0" * (frame.size_bytes - 1) + b"\n" * bool(frame.size_bytes)
            self._frames.hold(number, data)
            return data


Seekable: TypeAlias = PlainSource | FramedSource


class PackedSource:
    """A compressed file, decompressed while it is read."""

    plain = False

    def __init__(self, fd: int, magic: bytes, start: int = 0) -> None:
        self._to_skip = start
        self._limit = _most_unpacked(fd)
        self._given = 0
        self._file = os.fdopen(fd, "rb")
        self._stream, self._errors = _unpacker(self._file, magic)

    def read(self, size: int) -> bytes:
        while self._to_skip > 0:
            skipped = len(self._unpack(min(self._to_skip, CHUNK_BYTES)))
            self._to_skip = self._to_skip - skipped if skipped else 0
        return self._unpack(size)

    def _unpack(self, size: int) -> bytes:
        try:
            data = self._stream.read1(size)
        except self._errors as error:
            raise BrokenArchive(str(error)) from None
        self._given += len(data)
        if self._given > self._limit:
            raise BrokenArchive(f"unpacks to more than {_BOMB_RATIO} times its size")
        return data

    def close(self) -> None:
        self._stream.close()
        self._file.close()


def _most_unpacked(fd: int, slack: int = _BOMB_SLACK) -> int:
    """Return the decompressed size above which a compressed file counts as a bomb."""
    return slack + _BOMB_RATIO * os.fstat(fd).st_size


def _unpacker(file: BinaryIO, magic: bytes) -> tuple[BufferedIOBase, tuple[type[Exception], ...]]:
    """Return a decompressor of *file* and the exceptions it raises for invalid bytes."""
    if magic.startswith(_GZIP):
        import gzip  # Most logs are plain, and most commands read few.
        import zlib

        return gzip.GzipFile(fileobj=file, mode="rb"), (OSError, EOFError, zlib.error)
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdFile(file, "rb"), (OSError, EOFError, zstd.ZstdError)


def open_source(path: str | os.PathLike[str], start: int = 0) -> Source:
    """Open the log at *path*; offsets into a compressed log count its decompressed bytes."""
    fd = open_regular(path)
    magic = read_at(fd, 4, 0)
    is_skippable = magic[1:] == _ZSTD_SKIPPABLE and 0x50 <= magic[0] <= 0x5F
    if not (magic.startswith(_GZIP) or magic == _ZSTD or is_skippable):
        return PlainSource(fd, start, path=os.fspath(path))
    if not magic.startswith(_GZIP):
        from turnlog.storage.compressed import read_table

        table = read_table(fd)
        if table is not None and (
            table.is_ours or table.size_bytes <= _most_unpacked(fd, _FRAMED_SLACK)
        ):
            return FramedSource(fd, table, start)
    return PackedSource(fd, magic, start)


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file for reading; a FIFO is refused instead of blocking."""
    try:
        # With O_NONBLOCK a FIFO opens at once and can be refused; regular files ignore it.
        fd = os.open(path, flags | _O_CLOEXEC | _O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            f"no log at {os.fspath(path)}", hint="check the path", code="no-log"
        ) from None
    except OSError as error:
        raise open_error(error, path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotALog(
            f"{os.fspath(path)} is not a regular file", path=path, hint="a log is a .jsonl file"
        )
    return fd


@contextmanager
def opened_regular(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a regular file for reading, and close it at the end."""
    fd = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


def open_error(error: OSError, path: str | os.PathLike[str]) -> LogError:
    """Return the LogError for a file that could not be opened, with a hint."""
    where = os.fspath(path)
    if error.errno in (errno.ELOOP, errno.EMLINK):
        hint = "write to the real file; symbolic links are not followed when writing"
        return NotALog(f"{where} is a symbolic link", path=path, hint=hint, errno=error.errno)
    if error.errno in (errno.EISDIR, errno.ENXIO):
        return NotALog(f"{where} is not a regular file", path=path, hint="a log is a .jsonl file")
    if error.errno in (errno.EACCES, errno.EPERM):
        hint = f"its owner must grant access: chmod u+rw {where}"
        return LogError(f"no permission to open {where}", path=path, hint=hint, errno=error.errno)
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, or some inodes"
        return StorageFull(
            f"no room for {where}: {reason}", path=path, hint=hint, errno=error.errno
        )
    hint = READ_ONLY if error.errno == errno.EROFS else ""
    return LogError(f"cannot open {where}: {reason}", path=path, hint=hint, errno=error.errno)


class BlankLines(NamedTuple):
    """A run of blank lines, with their newlines."""

    lines: int
    length: int


class Splitter:
    """Collects chunks and returns the lines they complete.

    *offset* is where the first line not yet returned begins; feed at most *chunk_bytes* at a time.
    """

    def __init__(self, offset: int = 0, *, cap: int = LINE_CAP) -> None:
        self.offset = offset
        # With chunks no larger than the cap, every line below the cap spans at most two chunks.
        self.chunk_bytes = min(CHUNK_BYTES, cap)
        self._cap = cap
        self._carry = BytesIO()
        self._carried = 0  # Bytes of the pending line, kept or only measured.
        self._overlong = False

    @property
    def pending(self) -> bytes:
        """The bytes after the last newline, as far as they are kept."""
        return self._carry.getvalue()

    @property
    def pending_length(self) -> int:
        return self._carried

    @property
    def pending_too_long(self) -> bool:
        return self._overlong

    def feed(self, chunk: bytes) -> list[bytes | BlankLines | Damage]:
        """Add *chunk*; return the lines it completes, without their newlines."""
        first, block = self.feed_block(chunk)
        return [*(() if first is None else (first,)), *split_lines(block)]

    def feed_block(self, chunk: bytes) -> tuple[bytes | Damage | None, bytes]:
        """Add *chunk*; return the line it completes, and all further lines as one block."""
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._keep(chunk)
            return None, b""
        first: bytes | Damage | None = None
        after_first = 0
        if self._carried:
            after_first = chunk.find(b"\n") + 1
            first = self._complete(chunk[: after_first - 1])
        if cut < len(chunk):
            self._keep(chunk[cut:])
        return first, chunk[after_first:cut]

    def advance(self, line: bytes | BlankLines | Damage) -> int:
        """Move past *line* and return the offset where it began."""
        began = self.offset
        if isinstance(line, bytes):
            self.offset += len(line) + 1
        else:
            self.offset += line.length + (not isinstance(line, BlankLines))
        return began

    def _keep(self, data: bytes) -> None:
        self._carried += len(data)
        if self._overlong:
            return
        if self._carried > self._cap:
            head = self._carry.getvalue()[:EXCERPT_BYTES] or data[:EXCERPT_BYTES]
            self._carry = BytesIO(head)
            self._overlong = True
        else:
            self._carry.write(data)

    def _complete(self, data: bytes) -> bytes | Damage:
        self._keep(data)
        length, overlong = self._carried, self._overlong
        # getvalue returns the buffer itself: the line is not copied a second time.
        kept = self._carry.getvalue()
        self._carry = BytesIO()
        self._carried = 0
        self._overlong = False
        return too_long(kept, length) if overlong else kept


def split_lines(block: bytes) -> Iterator[bytes | BlankLines]:
    """Yield the lines of *block*, which ends with a newline; a run of blank lines is one item.

    A few kilobytes of gzip can decompress to millions of blank lines, so they are not handled one
    by one.
    """
    begin = 0
    # Finding newlines one by one is several times as fast as splitting, because lines are long.
    while (end := block.find(b"\n", begin)) >= 0:
        blank = _BLANK_LINES.match(block, begin) if block[begin] in _BLANK else None
        if blank is None:
            yield block[begin:end]
            begin = end + 1
        else:
            yield BlankLines(block.count(b"\n", begin, blank.end()), blank.end() - begin)
            begin = blank.end()


def too_long(head: bytes, length: int, *, offset: int = 0) -> Damage:
    """Return the damage for a line longer than the cap."""
    reason = Reason.TOO_LONG if head.strip(b"\x00") else Reason.NUL_RUN
    return Damage(reason=reason, offset=offset, length=length, excerpt=head[:EXCERPT_BYTES])


ReadAt = Callable[[int, int], bytes]
"""Reads up to size bytes at an offset."""


def fingerprint_by(read: ReadAt, size_bytes: int) -> bytes:
    """Return a fingerprint of the first *size_bytes* of what *read* reads.

    It hashes both ends and samples between them, a few kilobytes completely. Appending to a log
    keeps the fingerprint of its beginning; rewriting almost always changes it.
    """
    from hashlib import blake2b  # It brings all of OpenSSL.

    digest = blake2b(digest_size=16)
    head = min(size_bytes, _END_BYTES)
    digest.update(read(head, 0))
    last = max(head, size_bytes - _END_BYTES)
    if last - head <= _SAMPLES * _SAMPLE_BYTES:
        digest.update(read(last - head, head) if last > head else b"")
    else:
        step = (last - head) // (_SAMPLES + 1)
        for number in range(1, _SAMPLES + 1):
            at = head + number * step
            digest.update(read(min(_SAMPLE_BYTES, last - at), at))
    digest.update(read(size_bytes - last, last))
    return digest.digest()
