"""The lock of a log, between processes and between the threads of one process.

Processes lock the log itself: with flock, on Windows with msvcrt on a byte far past the end of any
log. The kernel releases the lock when its process ends, and there is no lock file to remove.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from typing import Final

from turnlog.errors import LogLocked

# Local locks do not reach other machines here, and their appends overwrite each other.
NETWORK_FILESYSTEMS: Final = {
    "9p", "afs", "ceph", "cifs", "davfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
    "smb2", "smb3", "smbfs",
}  # fmt: skip
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


def is_network(kind: str) -> bool:
    """Return whether locks on a file system of this *kind* do not reach other machines."""
    return kind in NETWORK_FILESYSTEMS


def is_doubtful(kind: str) -> bool:
    """Return whether locks on a file system of this *kind* are not guaranteed to work."""
    return not is_network(kind) and kind.startswith(DOUBTFUL_FILESYSTEMS)


def is_owned(condition: threading.Condition) -> bool:
    """Return whether this thread holds the lock of *condition*.

    Then the caller is a signal handler or a destructor in the middle of another call. A separate
    owner field would be wrong if an interrupt came between setting it and locking.
    """
    try:
        condition.notify(0)  # Wakes no thread; raises if this thread does not hold the lock.
    except RuntimeError:
        return False
    return True


def interrupted(path: str | os.PathLike[str]) -> LogLocked:
    """Return the error for a call at *path* that interrupted its own thread."""
    return LogLocked(
        f"{os.fspath(path)} is being written by the code that this call interrupted",
        path=path,
        holder=os.getpid(),
        hint="do it later, outside of signal handlers and destructors",
    )


def refuse_if_abandoned(lock: threading.RLock, path: str | os.PathLike[str]) -> None:
    """Raise if *lock*, which guards the log at *path*, will never be released.

    While the interpreter shuts down, daemon threads stop wherever they are and keep their locks. A
    destructor that runs then must not wait for them.
    """
    if not sys.is_finalizing():
        return
    if not lock.acquire(blocking=False):
        raise LogLocked(
            f"{os.fspath(path)} is held by a thread that the exit of the program has stopped",
            path=path,
            holder=os.getpid(),
            hint="join the thread before the program ends",
        )
    lock.release()
