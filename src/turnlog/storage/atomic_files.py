"""Read small files within limits, and create or replace files atomically and durably.

Only regular files are read, so a FIFO cannot block and a huge file cannot fill memory. Writing goes
to a temporary file in the same directory, which is synced and then renamed, after which the
directory is synced: a kill leaves the old file or the new one. New files are private whatever the
umask, and no symbolic link is followed below the caller's *root*.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct

from turnlog.errors import InvalidId, LogError, NotALog, NotFound, StorageFull, WriteFailed
from turnlog.storage import Closing
from turnlog.storage.sources import open_error
from turnlog.storage.system import sync, sync_directory, sync_directory_at
from turnlog.text import utf8_safe

READ_LIMIT: Final = 16 * 1024 * 1024
_COPY_BYTES: Final = 1024 * 1024

_HAS_DIR_FD: Final = {os.open, os.mkdir, os.rename, os.link, os.unlink} <= os.supports_dir_fd
_BASE: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # Fail on a FIFO instead of blocking.
_READ: Final = os.O_RDONLY | _BASE | _NONBLOCK
_APPEND: Final = os.O_RDWR | os.O_APPEND | _BASE | _NOFOLLOW | _NONBLOCK
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BASE | _NOFOLLOW
_FOLDER: Final = os.O_RDONLY | _BASE | getattr(os, "O_DIRECTORY", 0)
NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
"""Errors of file systems without hard links."""
NEEDS_COPY: Final = frozenset((errno.EXDEV, *NO_LINKS))
"""Errors of a rename or link after which only a copy helps."""
_PREFIX, _SUFFIX = ".turnlog-", ".part"


class Unreadable(Struct, frozen=True):
    """Why a file could not be read: a value to report, not an exception."""

    reason: str


def read_file(
    path: str | os.PathLike[str], *, limit: int = READ_LIMIT, follow: bool = True
) -> bytes | Unreadable:
    """Return the contents of the file at *path*, or Unreadable if it is larger than *limit*."""
    opened = _open(path, follow=follow)
    if isinstance(opened, Unreadable):
        return opened
    data = bytearray()
    with os.fdopen(opened, "rb") as file:
        try:
            # Read in pieces: read(limit) would allocate the whole limit up front.
            while len(data) <= limit and (piece := file.read(_COPY_BYTES)):
                data += piece
        except OSError as error:
            return Unreadable(_words(error))
    return bytes(data) if len(data) <= limit else Unreadable(f"larger than {limit:,} bytes")


def open_file(path: str | os.PathLike[str]) -> BinaryIO | Unreadable:
    """Open a regular file for reading; symbolic links are refused."""
    opened = _open(path, follow=False)
    return opened if isinstance(opened, Unreadable) else os.fdopen(opened, "rb")


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of *file* in pieces."""
    while piece := file.read(_COPY_BYTES):
        yield piece


def text_of(value: Any) -> str | None:
    """Return *value* if it is a string, with lone surrogates replaced, or None."""
    return str(utf8_safe(value)) if isinstance(value, str) else None


def temporary_name() -> str:
    """Return the name of a file that is not finished yet."""
    return f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"


def is_temporary(name: str) -> bool:
    """Return whether *name* is that of a file that was not finished."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def make_directory(path: Path, unsynced: set[Path] | None = None) -> None:
    """Create a private directory and its missing parents, durably.

    With *unsynced*, directories that got new entries are added to it for the caller to sync.
    """
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            continue
        os.chmod(directory, 0o700)
        if unsynced is None:
            sync_directory_at(directory.parent)
        else:
            unsynced.add(directory.parent)


def rename_new(source: Path, target: Path) -> None:
    """Rename *source* to *target*; raise FileExistsError if *target* exists."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # No hard links on this file system: claim the name, then move over the claim.
        os.close(os.open(target, _NEW, 0o600))
        os.replace(source, target)
    else:
        os.unlink(source)


def size_at(path: str | os.PathLike[str]) -> int:
    """Return the size of the file at *path*, or 0 if it does not exist."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def changed_at(path: str | os.PathLike[str]) -> datetime | None:
    """Return the mtime of the file at *path*, or None if it is unknown."""
    try:
        return datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return None


def put(root: Path, parts: Sequence[str], data: Iterable[bytes], *, overwrite: bool) -> int:
    """Write *data* durably to the file *parts* beneath *root*; return its size in bytes.

    Raises FileExistsError if the file exists, unless *overwrite* is true. Other failures are plain
    OSErrors, which `failure` converts to a LogError.
    """
    name = parts[-1]
    with Folder.beneath(root, parts[:-1]) as folder:
        if not overwrite and folder.has(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        with folder.replacing(name, overwrite=overwrite) as (fd, _):
            owner = folder.owner_of(name)
            with os.fdopen(fd, "wb", buffering=_COPY_BYTES) as file:
                if owner is not None:
                    os.fchown(fd, *owner)
                size = sum(file.write(piece) for piece in data)
                file.flush()
                sync(fd)
        folder.sync()
        return size


def failure(error: OSError, path: str | os.PathLike[str]) -> LogError:
    """Return the LogError for *error*, raised while writing *path*, with a hint."""
    where = os.fspath(path)
    reason = _words(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        hint = "make room and try again; nothing was changed"
        return StorageFull(f"no room for {where}", path=where, hint=hint, errno=error.errno)
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EMLINK):
        hint = "symbolic links are not followed when writing; name the real place"
        return NotALog(f"cannot write {where}: {reason}", path=where, hint=hint, errno=error.errno)
    hint = "nothing was changed"
    return WriteFailed(f"cannot write {where}: {reason}", path=where, hint=hint, errno=error.errno)


def _open(path: str | os.PathLike[str], *, follow: bool) -> int | Unreadable:
    try:
        fd = os.open(path, _READ if follow else _READ | _NOFOLLOW)
    except FileNotFoundError:
        return Unreadable("missing")
    except ValueError:  # A NUL or a lone surrogate cannot be in a file name.
        return Unreadable("no file can have this name")
    except OSError as error:
        linked = error.errno in (errno.ELOOP, errno.EMLINK)
        return Unreadable("a symbolic link" if linked else _words(error))
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return Unreadable("not a regular file")


def _words(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


class Folder(Closing):
    """A directory held open, so that it cannot be swapped for a link while it is written to."""

    def __init__(self, path: str, fd: int | None) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def beneath(cls, root: Path, parts: Sequence[str], *, make: bool = True) -> Folder:
        """Open the directory *parts* beneath *root*; create what is missing if *make* is true."""
        if os.path.lexists(root) and not os.path.isdir(root):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(root))
        if make:
            make_directory(root)
        folder = cls(os.fspath(root), os.open(root, _FOLDER) if _HAS_DIR_FD else None)
        for part in parts:
            outer, folder = folder, folder._inner(part, make=make)
            outer.close()
        return folder

    def _inner(self, name: str, *, make: bool) -> Folder:
        path = os.path.join(self._path, name)
        if self._fd is None:
            if make:
                os.makedirs(path, mode=0o700, exist_ok=True)
            return Folder(path, None)
        try:
            try:
                return Folder(path, os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._fd))
            except FileNotFoundError:
                if not make:
                    raise
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self._fd)
            inner = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._fd)
        except BaseException:
            self.close()
            raise
        os.fchmod(inner, 0o700)
        sync_directory(self._fd)
        return Folder(path, inner)

    def open(self, name: str, flags: int) -> int:
        return os.open(self._at(name), flags, 0o600, dir_fd=self._fd)

    def read(self, name: str) -> int:
        """Open a regular file in this directory for reading; symbolic links are refused."""
        fd = self.open(name, _READ | _NOFOLLOW)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)

    @contextlib.contextmanager
    def replacing(self, name: str, *, overwrite: bool) -> Iterator[tuple[int, str]]:
        """Open a private file that is named *name* when the block ends, if nothing goes wrong.

        Yields its descriptor, for the block to sync and close, and the name that it has until then.
        """
        temporary = temporary_name()
        fd = self.open(temporary, _NEW)
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(fd, 0o600)
            yield fd, temporary
            self.move(temporary, name, overwrite=overwrite)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def move(self, old: str, new: str, *, overwrite: bool) -> None:
        """Rename *old* to *new* in one step; without *overwrite* only if *new* does not exist."""
        here = self._fd
        if not overwrite:
            try:
                os.link(self._at(old), self._at(new), src_dir_fd=here, dst_dir_fd=here)
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                # No hard links on this file system: claim the name, then move over the claim.
                os.close(self.open(new, _NEW))
            else:
                self.remove(old)
                return
        if here is None:
            os.replace(self._at(old), self._at(new))
        else:
            os.rename(old, new, src_dir_fd=here, dst_dir_fd=here)

    def move_into(self, other: Folder, old: str, new: str) -> None:
        """Move *old* to *new* in another directory, in one step."""
        os.rename(self._at(old), other._at(new), src_dir_fd=self._fd, dst_dir_fd=other._fd)

    def link_into(self, other: Folder, old: str, new: str) -> None:
        """Hard-link *old* as *new* in another directory, where *new* must not exist."""
        os.link(
            self._at(old), other._at(new),
            src_dir_fd=self._fd, dst_dir_fd=other._fd, follow_symlinks=False,
        )  # fmt: skip

    def remove(self, name: str) -> None:
        os.unlink(self._at(name), dir_fd=self._fd)

    def remove_directory(self, name: str) -> None:
        """Remove an empty directory in this one."""
        os.rmdir(self._at(name), dir_fd=self._fd)

    def has(self, name: str) -> bool:
        return self.status(name) is not None

    def owner_of(self, name: str) -> tuple[int, int] | None:
        """Return the owner of *name* if we are root, which alone can restore it; else None."""
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            return None
        found = self.status(name)
        return (found.st_uid, found.st_gid) if found and stat.S_ISREG(found.st_mode) else None

    def sync(self) -> None:
        if self._fd is not None:
            sync_directory(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def status(self, name: str) -> os.stat_result | None:
        """Return the lstat result of *name*, or None if it does not exist."""
        try:
            return os.stat(self._at(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _at(self, name: str) -> str:
        return name if self._fd is not None else os.path.join(self._path, name)


def open_for_append(path: Path, *, root: Path | None = None, create: bool = True) -> int:
    """Open the log at *path* for appending; create it and its directories if missing."""
    path = Path(os.path.abspath(path))
    with _directory_of(path, root, create=create) as directory:
        try:
            try:
                fd = directory.open(path.name, _APPEND)
            except FileNotFoundError:
                if not create:
                    raise
                fd = _create_log(directory, path.name)
            if create:
                # Whichever process created these may have died before syncing them.
                directory.sync()
                _sync_above(path)
        except FileNotFoundError:
            raise _no_log_at(path) from None
        except OSError as error:
            raise open_error(error, path) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotALog(f"{path} is not a regular file", path=path, hint="a log is a .jsonl file")
    return fd


def _directory_of(path: Path, root: Path | None, *, create: bool) -> Folder:
    """Open the directory of *path*, creating what is missing."""
    if root is not None:
        root = Path(os.path.abspath(root))
        if root not in path.parents:
            raise InvalidId(
                f"{path} is not inside {root}", hint="a session's files stay inside its store"
            )
    base = root or path.parent
    while not base.is_dir() and base != base.parent:
        base = base.parent
    try:
        return Folder.beneath(base, path.parent.relative_to(base).parts, make=create)
    except FileNotFoundError:
        raise _no_log_at(path) from None
    except NotADirectoryError:
        raise NotALog(
            f"{path.parent} is reached through a symbolic link or a file",
            path=path,
            hint="name the real directory as the store's root",
        ) from None
    except OSError as error:
        raise open_error(error, path.parent) from None


def _create_log(directory: Folder, name: str) -> int:
    """Create a private file durably; if another process was faster, open that one."""
    try:
        fd = directory.open(name, _APPEND | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return directory.open(name, _APPEND)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, 0o600)
    sync(fd)
    return fd


def _no_log_at(path: Path) -> NotFound:
    return NotFound(
        f"no log at {path}",
        hint="it may have been moved, archived or deleted since; create=True begins a new one",
    )


def _sync_above(path: Path) -> None:
    """Sync the directories above the log's own, up to the file system's boundary."""
    for directory in path.parents[1:]:
        try:
            fd = os.open(directory, _FOLDER)
        except OSError:  # Not readable by us, so it existed before.
            return
        try:
            sync_directory(fd)
            is_edge = os.path.ismount(directory)
        finally:
            os.close(fd)
        if is_edge:
            return
