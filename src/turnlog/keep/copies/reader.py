"""Read kept copies back, and compare them with their files.

A copy may be newer than its catalog, if a run was killed between committing and recording it. So a
copy that begins with its recorded contents is read that far, and `describe_copy` returns its actual
contents. Any other mismatch is damage. Never more is decompressed than a copy is recorded to hold,
or than its table says; a table with larger frames than turnlog writes is trusted only within the
limit for bombs.

Size and mtime show that a kept copy is up to date, but they can be wrong: a program may set the
mtime, and disks fail. So before a file is removed, it and its copy are compared byte for byte
(`compare_file`, `compare_kept`), and it is removed only while it is still that file. What a program
without locks appends at that very moment is noticed and restored.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.errors import BrokenCopy, LogError, LogLocked, NotFound
from turnlog.formats import Home, looks_like_log
from turnlog.formats.kept_copies import kept_copy
from turnlog.keep.catalog import Catalogue, KeptFile
from turnlog.keep.file_moves import Spot
from turnlog.keep.session_files import SessionFile
from turnlog.storage import compressed
from turnlog.storage.atomic_files import failure, put
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.sources import (
    BrokenArchive,
    FramedSource,
    PlainSource,
    Source,
    open_error,
    open_regular,
    open_source,
    opened_regular,
)
from turnlog.storage.system import read_at

# Real logs compress 5 to 30 times, bombs a thousand.
_BOMB_SLACK: Final = 64 * 1024 * 1024
_BOMB_RATIO: Final = 200
_READ_BYTES: Final = 1024 * 1024
_HINT: Final = "verify the copies; what is left can be read"


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
    with opened_regular(path) as fd:
        table = compressed.read_table(fd)
        if table is None:
            yield from compressed.leading_frames(fd)
            return
        left = table.size_bytes if table.is_ours else _most_bytes(fd)
    source = open_source(path)
    try:
        while left > 0 and (data := source.read(min(left, _READ_BYTES))):
            left -= len(data)
            yield data
    except BrokenArchive:
        pass
    finally:
        source.close()


def _frames(path: Path, kept: KeptFile, fd: int, table: compressed.FrameTable) -> Iterator[bytes]:
    frames = compressed.Frames(fd, table)
    digests = [
        kept.digests[at : at + compressed.DIGEST_BYTES]
        for at in range(0, len(kept.digests), compressed.DIGEST_BYTES)
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


def _frame(path: Path, frames: compressed.Frames, number: int) -> bytes:
    if number >= len(frames.table.frames):
        raise _broken(path, "it has fewer frames than were kept")
    try:
        return frames.unpacked(number)
    except compressed.BrokenFrame as error:
        frame = frames.table.frames[number]
        end = frame.start + frame.size_bytes
        raise _broken(path, f"bytes {frame.start:,} to {end:,}: {error}") from None


def _unpacked(copy: Copy, fd: int, table: compressed.FrameTable) -> KeptFile:
    """Return the contents of a copy that is not in the catalog."""
    status = os.fstat(fd)
    if not table.is_ours and table.size_bytes > _most_bytes(fd):
        raise _broken(copy.path, f"it unpacks to more than {_BOMB_RATIO} times its size")
    frames = compressed.Frames(fd, table)
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
        data = read_at(fd, min(compressed.FRAME_BYTES, kept.size_bytes - at), at)
        data = (
            data[: compressed.end_of_frame(data)] if len(data) == compressed.FRAME_BYTES else data
        )
        digest = kept.digests[
            number * compressed.DIGEST_BYTES : (number + 1) * compressed.DIGEST_BYTES
        ]
        if not data or sha256(data).digest() != digest:
            return False
        at += len(data)
        number += 1
    return number * compressed.DIGEST_BYTES == len(kept.digests)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, compressed.FrameTable]]:
    try:
        fd = open_regular(path)
    except NotFound:
        raise BrokenCopy(
            f"the copy {path} is missing", path=path, hint=_HINT, code="damaged-copy"
        ) from None
    try:
        table = compressed.read_table(fd)
        if table is None:
            raise _broken(path, "it has no table of frames: it is truncated, or something else")
        yield fd, table
    finally:
        os.close(fd)


def _broken(path: Path, why: str) -> BrokenCopy:
    return BrokenCopy(f"{path} does not unpack: {why}", path=path, hint=_HINT, code="damaged-copy")


_PIECE_BYTES: Final = 1024 * 1024


class Content(NamedTuple):
    """The contents of a file. *records* is 0 if it is not a log."""

    size_bytes: int
    digest: str
    records: int


class Comparison(NamedTuple):
    """The contents of a file, and its identity when it was read."""

    content: Content
    device: int
    inode: int
    mtime_ns: int

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether *status* is that of the same, unchanged file."""
        now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return now == (self.device, self.inode, self.content.size_bytes, self.mtime_ns)


def compare_file(spot: Spot, *, tee: Callable[[bytes], object] | None = None) -> Comparison:
    """Read a file, not through any link; *tee* gets its bytes."""
    try:
        with spot.folder() as folder:
            fd = folder.read(spot.parts[-1])
    except OSError as error:
        raise open_error(error, spot.path) from None
    try:
        before = os.fstat(fd)
        # Up to its size at the start: a growing file gives no proof.
        source = PlainSource(os.dup(fd), 0, end=before.st_size)
        content = content_of(source, spot.parts[-1], tee=tee)
        proof = Comparison(content, before.st_dev, before.st_ino, before.st_mtime_ns)
        if not proof.is_of(os.fstat(fd)):
            raise _being_written(spot.path)
    finally:
        os.close(fd)
    return proof


def check_copy(path: Path, proof: Comparison, name: str) -> None:
    """Read the compressed copy at *path* of the file *name*; raise BrokenCopy unless it is good."""
    try:
        found = content_of(open_source(path), name)
    except BrokenArchive as error:
        raise broken(path, str(error)) from None
    if found != proof.content:
        raise broken(
            path,
            f"{found.size_bytes:,} of {proof.content.size_bytes:,} bytes,"
            f" {found.records:,} of {proof.content.records:,} records",
        )


def unpacked(path: Path, *, tee: Callable[[bytes], object] | None = None) -> Content:
    """Decompress a file and return its contents; raise BrokenCopy if anything is wrong."""
    source = open_source(path)
    if isinstance(source, PlainSource):
        source.close()
        raise broken(path, "it is not compressed")
    try:
        found = content_of(source, "", tee=tee)
    except BrokenArchive as error:
        raise broken(path, str(error)) from None
    if isinstance(source, FramedSource) and source.broken:
        raise broken(path, source.broken[0].why)
    return found


def is_prefix(packed: Path, plain: Path, *, is_blob: bool) -> bool:
    """Return whether a log still begins with its archive; raise BrokenCopy if that is damaged."""
    with os.fdopen(open_regular(plain), "rb") as file:

        def compare(data: bytes) -> None:
            if file.read(len(data)) != data:
                raise _Differs

        try:
            if is_blob:
                content_of(PlainSource(open_regular(packed), 0), "", tee=compare)
            else:
                unpacked(packed, tee=compare)
        except _Differs:
            return False
        return not is_blob or not file.read(1)


class _Differs(Exception):
    """Two files have different contents."""


def broken(path: Path, why: str) -> BrokenCopy:
    """Return the error for a damaged copy, because of which nothing was done."""
    return BrokenCopy(
        f"{path} does not read back as what was put into it: {why}",
        path=path,
        hint="the disk may be failing; nothing was removed",
    )


def content_of(
    source: Source, name: str, *, tee: Callable[[bytes], object] | None = None
) -> Content:
    """Read a source to its end, close it, and return its contents."""
    read = _Summed(source, tee)
    records = 0
    # A stub's line is in another file, with a copy of its own.
    with Reader(name, source=read, follow_blobs=False) as reader:
        if looks_like_log(name):
            records = sum(isinstance(item, Placed) for item in reader)
        else:
            while read.read(_PIECE_BYTES):
                pass
    return Content(read.size_bytes, read.digest.hexdigest(), records)


class _Summed:
    """A source that hashes what is read from it."""

    plain = False

    def __init__(self, source: Source, tee: Callable[[bytes], object] | None) -> None:
        self._source = source
        self._tee = tee
        self.size_bytes = 0
        self.digest = sha256()

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.size_bytes += len(data)
        self.digest.update(data)
        if self._tee is not None:
            self._tee(data)
        return data

    def close(self) -> None:
        self._source.close()


def remove_compared(spot: Spot, proof: Comparison) -> bool:
    """Remove the file of *proof*; False if it is gone already; raise LogLocked if it changed."""
    try:
        folder = spot.folder()
    except FileNotFoundError:
        return False
    name = spot.parts[-1]
    with folder:
        try:
            fd = folder.read(name)
        except FileNotFoundError:
            return False
        try:
            if not proof.is_of(os.fstat(fd)):
                raise _being_written(spot.path)
            with contextlib.suppress(FileNotFoundError):
                folder.remove(name)
            folder.sync()
            if os.fstat(fd).st_size != proof.content.size_bytes:
                _give_back(fd, spot, proof)
                raise _being_written(spot.path)
        finally:
            os.close(fd)
    return True


def _give_back(fd: int, spot: Spot, proof: Comparison) -> None:
    """Restore a file that was written to while it was removed."""
    try:
        put(spot.root, spot.parts, _rest(fd, 0), overwrite=False)
    except FileExistsError:
        # A new file was created since: the appended bytes are in no copy.
        with spot.folder() as folder:
            new = folder.open(spot.parts[-1], os.O_WRONLY | os.O_APPEND)
            try:
                for piece in _rest(fd, proof.content.size_bytes):
                    os.write(new, piece)
            finally:
                os.close(new)


def _rest(fd: int, offset: int) -> Iterator[bytes]:
    while piece := read_at(fd, _PIECE_BYTES, offset):
        offset += len(piece)
        yield piece


def _being_written(path: Path) -> LogLocked:
    return LogLocked(
        f"{path} is being written",
        path=path,
        hint="wait until its writer is done, and try again; nothing is lost",
    )


@contextlib.contextmanager
def typed(path: Path) -> Iterator[None]:
    """Convert OSErrors to typed errors; *path* is the file being processed."""
    try:
        yield
    except OSError as error:
        raise error if isinstance(error, LogError) else failure(error, path) from None


def compare_kept(good: SessionFile, home: Home, catalogue: Catalogue) -> Comparison | None:
    """Compare a file of *home* with its kept copy, and return the proof.

    None if there is no copy of the file, or a doubted one. Raises BrokenCopy if the copy has other
    contents, LogLocked if the file was written to since it was listed or kept.
    """
    proof = compare_file(Spot(Path(os.path.realpath(home)), good.name))
    known = catalogue.current.get(good.name)
    if known is None or known.is_doubted:
        return None
    stamps = {(each.size_bytes, each.mtime_ns) for each in (good, known)}
    if stamps != {(proof.content.size_bytes, proof.mtime_ns)}:
        raise LogLocked(
            f"{good.path} is being written",
            path=good.path,
            hint="wait until its writer is done, and try again; nothing was removed",
        )
    read_back(catalogue, good.name)
    check_copy(catalogue.copy_of(known), proof, good.name.rpartition("/")[2])
    return proof


def read_back(catalogue: Catalogue, name: str) -> None:
    """Read a copy and compare its digests; raise BrokenCopy if it is damaged."""
    for _ in content(*known_copy(catalogue, name)):
        pass


def known_copy(catalogue: Catalogue, name: str) -> tuple[Copy, KeptFile]:
    """Return a copy and its entry, or its actual contents if the catalog was lost."""
    kept = catalogue.current.get(name)
    number = kept.generation if kept is not None else 1
    path = kept_copy(catalogue.root_of(name), name)
    copy = Copy(name=name, generation=number, path=path, known=kept)
    return copy, kept if kept is not None else describe_copy(copy)
