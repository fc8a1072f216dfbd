"""Files that only their owner can read, made so that a power cut cannot lose them.

Directories are 0700 and files 0600 whatever the umask. Below *root* no symbolic link is followed.
A new file's directory entry, and that of every directory made for it, is synced before it counts
as created.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from turnlog.errors import InvalidId, LogError, NotALog, NotFound
from turnlog.log.sources import open_error
from turnlog.log.system import sync, sync_directory

_HAS_DIR_FD: Final = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
_BASE: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # So that a FIFO is refused, not waited for.
_APPEND: Final = os.O_RDWR | os.O_APPEND | _BASE | _NOFOLLOW | _NONBLOCK


def open_for_append(path: Path, *, root: Path | None = None, create: bool = True) -> int:
    """Open the log at *path* for appending, creating it and its directories if need be."""
    directory, name = _open_directory(path, root, create=create)
    try:
        try:
            fd = _open_at(name, _APPEND, directory)
        except FileNotFoundError:
            if not create:
                raise
            fd = create_file(name, directory)
        if create and directory is not None:
            # Whoever made the log or its directories may have died before syncing them.
            sync_directory(directory)
            _sync_above(path)
    except FileNotFoundError:
        raise _nothing_at(path) from None
    except OSError as error:
        raise open_error(error, path) from None
    finally:
        if directory is not None:
            os.close(directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotALog(f"{path} is not a regular file", path=path, hint="a log is a .jsonl file")
    return fd


def _nothing_at(path: Path) -> NotFound:
    return NotFound(
        f"no log at {path}",
        hint="it may have been moved, archived or deleted since; create=True begins a new one",
    )


def create_file(name: str, directory: int | None) -> int:
    """Create a private file, durably; if another process was faster, open the one it made."""
    try:
        fd = _open_at(name, _APPEND | os.O_CREAT | os.O_EXCL, directory)
    except FileExistsError:
        fd = _open_at(name, _APPEND, directory)
    else:
        if hasattr(os, "fchmod"):
            os.fchmod(fd, 0o600)
        sync(fd)
    return fd


def _sync_above(path: Path) -> None:
    """Sync the directories above the log's own, up to the edge of the file system."""
    for directory in Path(os.path.abspath(path)).parents[1:]:
        try:
            fd = os.open(directory, os.O_RDONLY | _DIRECTORY | _BASE)
        except OSError:  # Not ours to read: then it was there before any of us.
            return
        try:
            sync_directory(fd)
            is_edge = os.path.ismount(directory)
        finally:
            os.close(fd)
        if is_edge:
            return


def _open_at(name: str, flags: int, directory: int | None) -> int:
    if directory is None:
        return os.open(name, flags, 0o600)
    return os.open(name, flags, 0o600, dir_fd=directory)


def _open_directory(path: Path, root: Path | None, *, create: bool) -> tuple[int | None, str]:
    """Open the directory of *path*, making what is missing, and give the name to open in it."""
    path = Path(os.path.abspath(path))
    if root is not None:
        root = Path(os.path.abspath(root))
        if root not in path.parents:
            raise InvalidId(
                f"{path} is not inside {root}", hint="a session's files stay inside its store"
            )
    if not _HAS_DIR_FD:
        if create:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return None, str(path)
    base = root or path.parent
    while not base.is_dir() and base != base.parent:
        base = base.parent
    try:
        directory = os.open(base, os.O_RDONLY | _DIRECTORY | _BASE)
        for part in path.parent.relative_to(base).parts:
            directory = _step_into(directory, part, create=create)
    except FileNotFoundError:
        raise _nothing_at(path) from None
    except NotADirectoryError:
        raise NotALog(
            f"{path.parent} is reached through a symbolic link or a file",
            path=path,
            hint="name the real directory as the store's root",
        ) from None
    except LogError:
        raise
    except OSError as error:
        raise open_error(error, path.parent) from None
    return directory, path.name


def _step_into(directory: int, name: str, *, create: bool) -> int:
    """Open the directory *name* inside *directory* and close the latter."""
    flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _BASE
    try:
        try:
            return os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            if not create:
                raise
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=directory)
        inner = os.open(name, flags, dir_fd=directory)
        os.fchmod(inner, 0o700)
        sync_directory(directory)
        return inner
    finally:
        os.close(directory)
