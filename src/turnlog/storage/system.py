"""System calls that differ between operating systems: sync, positional reads, memory use.

    Linux     fdatasync
    macOS     F_FULLFSYNC, because fsync there stops at the drive's cache
    Windows   FlushFileBuffers by os.fsync

macOS and Windows are untested. Locks are in ``lock``.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":

    def sync(fd: int) -> None:
        """Return when the file's bytes are on disk."""
        os.fsync(fd)

    def sync_directory(fd: int) -> None:
        """Do nothing: Windows keeps directory entries durable by itself."""

    def read_at(fd: int, size: int, offset: int) -> bytes:
        """Read up to *size* bytes at *offset*, independent of the file position."""
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)

else:
    import fcntl

    read_at = os.pread

    def sync(fd: int) -> None:
        """Return when the file's bytes are on disk."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)

    def sync_directory(fd: int) -> None:
        """Return when the directory's entries are on disk."""
        if sys.platform == "darwin":
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fsync(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of *data* in as many calls as needed. Not for logs, which use one call."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory_at(path: str | os.PathLike[str]) -> None:
    """Return when the entries of the directory at *path* are on disk."""
    if sys.platform == "win32":
        return  # Directories cannot be opened here and need no sync.
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_directory(fd)
    finally:
        os.close(fd)


def memory_bytes() -> int:
    """Return the memory used by this process, or 0 if unknown.

    Systems without /proc report only the peak.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:  # Windows.
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
