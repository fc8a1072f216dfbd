"""Locks among the threads of one process."""

from __future__ import annotations

import sys
import threading

from turnlog.errors import UsageError


def is_owned(lock: threading.RLock) -> bool:
    """Return whether this thread holds *lock*, as threading.Condition asks it.

    Then the caller is a signal handler or a destructor that runs in the middle of another call.
    """
    owned: bool = lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001
    return owned


def refuse_if_abandoned(lock: threading.RLock, name: object) -> None:
    """Raise if nobody will ever release *lock*, which guards *name*.

    While the interpreter shuts down, daemon threads stop wherever they are and keep what they hold.
    A destructor that runs then must not wait for them.
    """
    if not sys.is_finalizing():
        return
    if not lock.acquire(blocking=False):
        raise UsageError(
            f"{name} is held by a thread that the exit of the program has stopped",
            hint="join the thread before the program ends",
        )
    lock.release()
