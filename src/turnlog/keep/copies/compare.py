"""Proving a copy against its original, and removing the original once that is done.

A proof says how long a file is, what its SHA-256 is and how many records it has, all read from the
file itself, and which file that was. A copy is good if, read by the way that every reader goes, it
comes to the same. An original is removed only while it is still the file that the proof is of. What
a program that knows no locks appends to it in that very instant is noticed and given back.

Kept copies proved against the files they are of, before any file goes on their strength.

Size and time tell keeping that a copy is up to date. They may lie: a program may set a file's time,
and a disk may rot. So whoever lets a file go reads it and its copy, byte for byte, first. A copy
that is not as its file is doubted, and the next keeping makes it anew.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.errors import BrokenCopy, LogError, LogLocked
from turnlog.formats import Home, looks_like_log
from turnlog.formats.kept_copies import kept_copy
from turnlog.keep.catalog import Catalogue, KeptFile
from turnlog.keep.copies.reader import Copy, content, describe_copy
from turnlog.keep.file_moves import Spot
from turnlog.keep.session_files import SessionFile
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
)
from turnlog.storage.system import read_at

_PIECE_BYTES: Final = 1024 * 1024


class Content(NamedTuple):
    """What a file holds. *records* is 0 for what is no log."""

    size_bytes: int
    digest: str
    records: int


class Comparison(NamedTuple):
    """What a file holds, and which file it was when it was read."""

    content: Content
    device: int
    inode: int
    mtime_ns: int

    def is_of(self, status: os.stat_result) -> bool:
        """Return whether *status* is that of the same file, unchanged."""
        now = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return now == (self.device, self.inode, self.content.size_bytes, self.mtime_ns)


def compare_file(spot: Spot, *, tee: Callable[[bytes], object] | None = None) -> Comparison:
    """Read a file, as it lies there and not through any link; *tee* is given its bytes."""
    try:
        with spot.folder() as folder:
            fd = folder.read(spot.parts[-1])
    except OSError as error:
        raise open_error(error, spot.path) from None
    try:
        before = os.fstat(fd)
        # To its end as it was: what is still being written makes no proof.
        source = PlainSource(os.dup(fd), 0, end=before.st_size)
        content = content_of(source, spot.parts[-1], tee=tee)
        proof = Comparison(content, before.st_dev, before.st_ino, before.st_mtime_ns)
        if not proof.is_of(os.fstat(fd)):
            raise _being_written(spot.path)
    finally:
        os.close(fd)
    return proof


def check_copy(path: Path, proof: Comparison, name: str) -> None:
    """Read the packed copy at *path* of the file called *name*; a BrokenCopy unless it is good."""
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
    """Read all that a compressed file holds, as bytes; a BrokenCopy if anything is amiss."""
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
    """Tell whether a log still begins with all that its archive holds; BrokenCopy if that broke."""
    fd = open_regular(plain)
    at = 0

    def compare(data: bytes) -> None:
        nonlocal at
        if _read(fd, len(data), at) != data:
            raise _Differs
        at += len(data)

    try:
        if is_blob:
            content_of(PlainSource(open_regular(packed), 0), "", tee=compare)
        else:
            unpacked(packed, tee=compare)
        return not is_blob or at == os.fstat(fd).st_size
    except _Differs:
        return False
    finally:
        os.close(fd)


class _Differs(Exception):
    """Two files do not hold the same."""


def _read(fd: int, size: int, offset: int) -> bytes:
    data = b""
    while len(data) < size and (piece := read_at(fd, size - len(data), offset + len(data))):
        data += piece
    return data


def broken(path: Path, why: str) -> BrokenCopy:
    """Say that a copy is not what it should be, and that nothing was done because of that."""
    return BrokenCopy(
        f"{path} does not read back as what was put into it: {why}",
        path=path,
        hint="the disk may be failing; nothing was removed",
    )


def content_of(
    source: Source, name: str, *, tee: Callable[[bytes], object] | None = None
) -> Content:
    """Read a source to its end and say what it held; it is closed then."""
    read = _Summed(source, tee)
    records = 0
    # What a stub in the log stands for is another file, with a copy of its own.
    with Reader(name, source=read, follow_blobs=False) as reader:
        if looks_like_log(name):
            records = sum(isinstance(item, Placed) for item in reader)
        else:
            while read.read(_PIECE_BYTES):
                pass
    return Content(read.size_bytes, read.digest.hexdigest(), records)


class _Summed:
    """A source that sums up what is read from it."""

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
    """Remove the file that *proof* is of; False if it is gone already, LogLocked if it changed."""
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
    """Put a file back that somebody wrote to while it was removed."""
    try:
        put(spot.root, spot.parts, _rest(fd, 0), overwrite=False)
    except FileExistsError:
        # And has begun a new one since: there goes what the copy does not hold.
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
    """Return the system's own errors their types; *path* is what was being worked on."""
    try:
        yield
    except OSError as error:
        raise error if isinstance(error, LogError) else failure(error, path) from None


def compare_kept(good: SessionFile, home: Home, catalogue: Catalogue) -> Comparison | None:
    """Prove that the kept copy of a file of *home* holds what the file does, and give the proof.

    None if there is no copy of the file, or one that is doubted. Raises BrokenCopy if the copy
    holds something else, LogLocked if the file was written to since it was listed or kept.
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
    """Read a copy against its digests; a BrokenCopy if it does not hold what was kept."""
    for _ in content(*known_copy(catalogue, name)):
        pass


def known_copy(catalogue: Catalogue, name: str) -> tuple[Copy, KeptFile]:
    """Return a copy, and what is known of it, or what it shows if the catalogue was lost."""
    kept = catalogue.current.get(name)
    number = kept.generation if kept is not None else 1
    path = kept_copy(catalogue.root_of(name), name)
    copy = Copy(name=name, generation=number, path=path, known=kept)
    return copy, kept if kept is not None else describe_copy(copy)
