"""Locks between the threads of one process."""

from __future__ import annotations

import os
import sys
import threading

from turnlog.errors import LogLocked


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
