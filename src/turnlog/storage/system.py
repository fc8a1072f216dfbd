"""What differs between operating systems: locks, syncs, reads, file system types.

    Linux     flock on the log itself; fdatasync
    macOS     flock; F_FULLFSYNC, because fsync there stops at the drive's cache
    Windows   msvcrt lock on a byte far past the end of any log; FlushFileBuffers by os.fsync

Locks are the kernel's: they end with their process, and there is no lock file to remove. macOS and
Windows are untested.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Final

# Local locks do not reach other machines here, and their appends overwrite each other.
NETWORK_FILESYSTEMS: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.davfs2",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "smb2",
        "smb3",
        "smbfs",
    }
)
# Probably fine with one machine writing, but not guaranteed.
DOUBTFUL_FILESYSTEMS: Final = ("fuse", "vboxsf", "virtiofs", "prl_fs", "vmhgfs")

# A lock is held for about 20 microseconds; longer pauses show in the 99th percentile.
_FIRST_PAUSE: Final = 0.00002
_BRISK_TRIES: Final = 100
_LONGEST_PAUSE: Final = 0.005

if sys.platform == "win32":
    import msvcrt

    _LOCK_AT: Final = 1 << 62

    def _try_lock(fd: int) -> bool:
        here = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, here, os.SEEK_SET)
        return True

    def unlock(fd: int) -> None:
        """Release the lock."""
        here = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, _LOCK_AT, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
        finally:
            os.lseek(fd, here, os.SEEK_SET)

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

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Release the lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)

    read_at = os.pread

    if sys.platform == "darwin":

        def sync(fd: int) -> None:
            """Return when the file's bytes are on disk."""
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

        def sync_directory(fd: int) -> None:
            """Return when the directory's entries are on disk."""
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)

    else:

        def sync(fd: int) -> None:
            """Return when the file's bytes are on disk."""
            os.fdatasync(fd)

        def sync_directory(fd: int) -> None:
            """Return when the directory's entries are on disk."""
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


def lock(fd: int, timeout: float | None) -> bool:
    """Lock *fd* exclusively; return False on timeout. 0 tries once, None waits forever."""
    if _try_lock(fd):
        return True
    if timeout is None and sys.platform != "win32":
        fcntl.flock(fd, fcntl.LOCK_EX)
        return True
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = _FIRST_PAUSE
    tries = 0
    while deadline is None or time.monotonic() < deadline:
        time.sleep(pause)
        if _try_lock(fd):
            return True
        tries += 1
        if tries > _BRISK_TRIES:
            pause = min(pause * 1.1, _LONGEST_PAUSE)
    return False


def lock_holder(fd: int) -> int | None:
    """Return the process that holds the lock of *fd*, where the system reports it."""
    try:
        inode = os.fstat(fd).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            for held in locks:
                found = re.search(r"FLOCK\s+\S+\s+WRITE\s+(\d+)\s+\S+:(\d+)\s", held)
                if found and int(found[2]) == inode:
                    return int(found[1])
    except (OSError, ValueError):
        pass
    return None


def filesystem(fd: int) -> str:
    """Return the type of the file system of *fd*, or "" if unknown."""
    device = os.fstat(fd).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}" if hasattr(os, "major") else ""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as mounts:
            for mount in mounts:
                left, _, right = mount.partition(" - ")
                if left.split()[2] == wanted:
                    return right.split()[0]
    except (OSError, IndexError):
        pass
    return ""


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


def is_network(kind: str) -> bool:
    """Return whether locks on a file system of this *kind* do not reach other machines."""
    return kind in NETWORK_FILESYSTEMS


def is_doubtful(kind: str) -> bool:
    """Return whether locks on a file system of this *kind* are not guaranteed to work."""
    return not is_network(kind) and kind.startswith(DOUBTFUL_FILESYSTEMS)
