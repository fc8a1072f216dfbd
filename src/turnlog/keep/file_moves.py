"""Move files between trees so that each is complete at one of the two at every moment.

Within a file system a move is one rename. Between two, the file is copied, synced, read back and
compared before the original is removed. Nothing is overwritten, no symbolic link is followed, and
both directories are synced before a move is done. Repeating an interrupted move completes it: a
file that is equal at both places is removed at the first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.errors import LogError, LogLocked
from turnlog.storage.atomic_files import NEEDS_COPY, Folder, pieces, put
from turnlog.storage.locks import lock, lock_holder
from turnlog.storage.sources import open_error

_NO_FILE: Final = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.ELOOP, errno.EMLINK, errno.ENXIO)
)


class Spot(NamedTuple):
    """The path of a file: *name* beneath *root*, "/" between its parts."""

    root: Path
    name: str

    @property
    def parts(self) -> list[str]:
        return self.name.split("/")

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def folder(self, *, make: bool = False) -> Folder:
        """Open its directory."""
        return Folder.beneath(self.root, self.parts[:-1], make=make)

    def status(self) -> os.stat_result | None:
        """Return the lstat result of the file, or None if it does not exist."""
        try:
            with self.folder() as folder:
                return folder.status(self.parts[-1])
        except FileNotFoundError:
            return None


class Moved(StrEnum):
    """How a move ended."""

    MOVED = "moved"
    BEFORE = "before"  # It was there already.
    NOWHERE = "nowhere"  # It is at neither of the two places.


def move(source: Spot, target: Spot, *, claim: bool = False) -> Moved:
    """Move a file; raise FileExistsError if another file is at the target.

    With *claim* the name is claimed even against a concurrent writer; otherwise the target is a
    tree that only we write to, under our lock.
    """
    try:
        here = source.folder()
    except FileNotFoundError:  # The directory itself is gone.
        return Moved.BEFORE if target.status() is not None else Moved.NOWHERE
    with here:
        status = here.status(source.parts[-1])
        if status is not None:
            return _move(here, status, source, target, claim=claim)
    return Moved.BEFORE if target.status() is not None else Moved.NOWHERE


def _move(
    here: Folder, status: os.stat_result, source: Spot, target: Spot, *, claim: bool
) -> Moved:
    old, new = source.parts[-1], target.parts[-1]
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(source.path))
    with target.folder(make=True) as there:
        if there.status(new) is not None:
            if not _is_same(here, old, there, new):
                raise FileExistsError(errno.EEXIST, "a different file", os.fspath(target.path))
            there.sync()
            here.remove(old)
            here.sync()
            return Moved.BEFORE
        try:
            if claim:
                here.link_into(there, old, new)
                there.sync()
                here.remove(old)
            else:
                here.move_into(there, old, new)
        except OSError as error:
            if error.errno not in NEEDS_COPY:
                raise
            _copy(here, old, there, target)
        there.sync()
        here.sync()
    return Moved.MOVED


def _copy(here: Folder, old: str, there: Folder, target: Spot) -> None:
    """Move by copying: the original is removed after its copy has been read back."""
    new = target.parts[-1]
    with os.fdopen(here.read(old), "rb") as file:
        before = os.fstat(file.fileno())
        put(target.root, target.parts, pieces(file), overwrite=False)
        if not _is_same(here, old, there, new) or _differs(here.status(old), before):
            there.remove(new)
            raise LogError(
                f"{target.path} does not read back as it was written",
                path=target.path,
                hint="the file changed meanwhile, or the disk is failing; the original is in place",
            )
    resemble(there, new, before.st_mode, before.st_mtime_ns)
    there.sync()
    here.remove(old)


def resemble(folder: Folder, name: str, mode: int, mtime_ns: int) -> None:
    """Set a file's mtime and permissions to those of another."""
    fd = folder.read(name)
    try:
        if hasattr(os, "fchmod"):
            os.fchmod(fd, mode & 0o777)
        if os.utime in os.supports_fd:
            os.utime(fd, ns=(mtime_ns, mtime_ns))
    finally:
        os.close(fd)


def _differs(status: os.stat_result | None, before: os.stat_result) -> bool:
    """Return whether a file was replaced, or written to."""
    if status is None:
        return True
    now = status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns
    return now != (before.st_ino, before.st_dev, before.st_size, before.st_mtime_ns)


def _is_same(here: Folder, old: str, there: Folder, new: str) -> bool:
    """Return whether two files have the same bytes; False if one is not a regular file."""
    try:
        with contextlib.ExitStack() as both:
            files = [
                both.enter_context(os.fdopen(folder.read(name), "rb"))
                for folder, name in ((here, old), (there, new))
            ]
            one, other = (os.fstat(file.fileno()) for file in files)
            if os.path.samestat(one, other):
                return True
            return (
                one.st_size == other.st_size
                and all(files[1].read(len(piece)) == piece for piece in pieces(files[0]))
                and not files[1].read(1)
            )
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise


def is_same_file(source: Spot, target: Spot) -> bool:
    """Return whether the files at two places have the same bytes; False if one is missing."""
    try:
        with source.folder() as here, target.folder() as there:
            return _is_same(here, source.parts[-1], there, target.parts[-1])
    except FileNotFoundError:
        return False


@contextmanager
def locked(spot: Spot) -> Iterator[None]:
    """Hold a log's own lock; raise LogLocked at once if it is being written.

    A missing or special file is not locked.
    """
    try:
        with spot.folder() as folder:
            fd = folder.read(spot.parts[-1])
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise open_error(error, spot.path) from None
        fd = None
    try:
        if fd is not None and not lock(fd, 0):
            raise LogLocked(
                f"{spot.path} is being written",
                path=spot.path,
                holder=lock_holder(fd),
                hint="wait until its writer is done, and try again",
            )
        yield
    finally:
        if fd is not None:
            os.close(fd)


def remove_empty(root: Path, directory: str) -> bool:
    """Remove the directory *directory* beneath *root* if it is empty; return whether it was."""
    *above, name = directory.split("/")
    try:
        with Folder.beneath(root, above, make=False) as folder:
            folder.remove_directory(name)
            folder.sync()
    except OSError:  # Not empty, not ours to remove, or gone: it can stay.
        return False
    return True
