"""Where a log's bytes come from: a plain file, or a compressed one that reads the same.

Plain files and those compressed in frames can be read anywhere (``read_at``), others from the
front only. A frame that does not unpack is given as NUL bytes and a newline, so that it is damage
of its own length and everything else keeps its place.

Compression is told from the first bytes, not from the name. Reading never maps the file (a log
that shrinks under a mapping kills the process) and never changes it. A compressed log that unpacks
to absurdly more than it weighs is cut off: real logs pack 5 to 30 times, bombs a thousand. Frames
of turnlog's own size are no bombs however well they pack.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from io import BufferedIOBase
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeAlias

from msgspec import Struct

from turnlog.errors import LogError, NotALog, NotFound, StorageFull
from turnlog.storage.lines import CHUNK_BYTES
from turnlog.storage.system import read_at

if TYPE_CHECKING:
    from turnlog.storage.frames import FrameTable

READ_ONLY: Final = "it can be read only: change a copy of its home"
"""What helps where an agent's own files cannot be written."""

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"  # Preceded by 0x50 to 0x5f.
_BOMB_SLACK: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
# Frames are unpacked one by one: a bomb in them costs time only, and real ones may pack very well.
_FRAMED_SLACK: Final = 4 * 1024 * 1024 * 1024


class BrokenArchive(Exception):  # It never leaves the reader, which turns it into damage.
    """The compressed bytes end early, are no archive, or are a bomb."""


class Source(Protocol):
    """Bytes from the front, a chunk at a time."""

    plain: bool

    def read(self, size: int, /) -> bytes: ...
    def close(self) -> None: ...


class PlainSource:
    """A regular file, read from *start* to *end*, or as far as it goes, by its descriptor."""

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
        """How long the log is now."""
        return os.fstat(self.fd).st_size

    def read_at(self, size: int, offset: int) -> bytes:
        """Read up to *size* bytes at *offset*, wherever reading has got to."""
        return read_at(self.fd, size, offset)

    def close(self) -> None:
        fd, self.fd = self.fd, -1  # First: an interrupt must not have it closed twice.
        if fd >= 0:
            os.close(fd)


class Broken(Struct, frozen=True):
    """Bytes of a log that its archive does not give back, and why."""

    offset: int
    length: int
    why: str


class FramedSource:
    """A file compressed in frames, unpacked where it is read."""

    plain = False

    def __init__(self, fd: int, table: FrameTable, start: int = 0) -> None:
        from turnlog.storage.frames import Frames

        self.fd = fd
        self.table = table
        self.size_bytes = table.size_bytes
        self.broken: list[Broken] = []
        """Frames that did not unpack, as far as they were asked for."""
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
        """Read up to *size* bytes at *offset*, wherever reading has got to."""
        here, self._position = self._position, offset
        parts: list[bytes] = []
        while size > 0 and (data := self.read(size)):
            parts.append(data)
            size -= len(data)
        self._position = here
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        fd, self.fd = self.fd, -1  # First: an interrupt must not have it closed twice.
        if fd >= 0:
            os.close(fd)

    def _frame(self, number: int) -> bytes:
        from turnlog.storage.frames import BrokenFrame

        try:
            return self._frames.unpacked(number)
        except BrokenFrame as error:
            frame = self.table.frames[number]
            broken = Broken(frame.start, frame.size_bytes, str(error))
            if broken not in self.broken:
                self.broken.append(broken)
                from turnlog.storage.logger import logger  # Logging takes a while to import.

                logger.warning(
                    "a frame of %d bytes at %d does not unpack", broken.length, broken.offset
                )
            data = b"\0" * (frame.size_bytes - 1) + b"\n" * bool(frame.size_bytes)
            self._frames.hold(number, data)
            return data


Seekable: TypeAlias = PlainSource | FramedSource


class PackedSource:
    """A compressed file, unpacked as it is read."""

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
    """Return how many bytes a compressed file may unpack to, and be no bomb."""
    return slack + _BOMB_RATIO * os.fstat(fd).st_size


def _unpacker(file: BinaryIO, magic: bytes) -> tuple[BufferedIOBase, tuple[type[Exception], ...]]:
    """Return what unpacks *file*, and what it raises for bytes it cannot unpack."""
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
    """Open the log at *path*; offsets into a compressed log count its unpacked bytes."""
    fd = open_regular(path)
    magic = read_at(fd, 4, 0)
    if not _is_packed(magic):
        return PlainSource(fd, start, path=os.fspath(path))
    if not magic.startswith(_GZIP):
        from turnlog.storage.frames import read_table

        table = read_table(fd)
        if table is not None and (
            table.is_ours or table.size_bytes <= _most_unpacked(fd, _FRAMED_SLACK)
        ):
            return FramedSource(fd, table, start)
    return PackedSource(fd, magic, start)


def open_regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file and nothing else; a FIFO must not hang us."""
    try:
        # O_NONBLOCK lets a FIFO open at once, to be refused; it means nothing to a regular file.
        fd = os.open(path, flags | _O_CLOEXEC | _O_NONBLOCK)
    except FileNotFoundError:
        raise NotFound(
            f"no log at {os.fspath(path)}", hint="check the path, or run: turnlog check"
        ) from None
    except OSError as error:
        raise open_error(error, path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotALog(
            f"{os.fspath(path)} is not a regular file", path=path, hint="a log is a .jsonl file"
        )
    return fd


def open_error(error: OSError, path: str | os.PathLike[str]) -> LogError:
    """Say what kept a file from being opened, and what would help."""
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
    hint = ""
    if error.errno == errno.EROFS:
        hint = READ_ONLY
    return LogError(f"cannot open {where}: {reason}", path=path, hint=hint, errno=error.errno)


_O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def _is_packed(magic: bytes) -> bool:
    skippable = magic[1:] == _ZSTD_SKIPPABLE and 0x50 <= magic[0] <= 0x5F
    return magic.startswith(_GZIP) or magic == _ZSTD or skippable
