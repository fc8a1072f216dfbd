"""A program that writes sessions and ends in one of many ways: ``python -m faults.host_program``.

It acknowledges each record in a file of its own, one line and one write each, after the append
returned. Records wait in memory for an hour, so that only the end of the program can save them.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from typing import Any

RECORDS = 12
_kept: list[Any] = []
"""Keeps sessions and threads alive until the end of the process."""


def _acknowledge(session_id: str, uuid: str) -> None:
    fd = os.open(os.environ["FAULTS_ACKNOWLEDGED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{session_id} {uuid}\n".encode())
    os.close(fd)


def opened() -> Any:
    import turnlog

    store = turnlog.open(os.environ["FAULTS_ROOT"])
    writer = store.create(project=".", layout=os.environ["FAULTS_LAYOUT"])
    session = turnlog.BufferedSession(writer, every_seconds=3600)
    _kept.append((store, session))
    return session


def say(session: Any = None, count: int = RECORDS) -> Any:
    from turnlog.sessions.writing import build

    session = session or opened()
    for number in range(count):
        _acknowledge(session.session_id, session.append(build.user(f"record {number}")))
    return session


def say_and_keep() -> None:
    _kept.append(say())


class Last:
    """Appends when it is destroyed; a ring of references makes that the very end."""

    def __init__(self) -> None:
        self.session, self.say, self.myself = say(count=3), say, self

    def __del__(self) -> None:
        self.say(self.session, 3)


def _in_thread(*, daemon: bool, join: bool = True) -> None:
    thread = threading.Thread(target=say_and_keep, daemon=daemon)
    thread.start()
    if join:
        thread.join()


def _end_by(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, name))
    time.sleep(60)


def _child(method: str) -> None:
    child = multiprocessing.get_context(method).Process(target=say)
    child.start()
    child.join()


def _pool(method: str) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        for future in [pool.submit(say_and_keep) for _ in range(4)]:
            future.result()


def _terminated_pool() -> None:
    with multiprocessing.Pool(2) as pool:  # Leaving it terminates it.
        pool.map(_say_one, range(4))


def _say_one(_: int) -> None:
    say_and_keep()


def _daemon_writes_on() -> None:
    """End while a daemon thread is in the middle of its appends."""
    session = opened()
    threading.Thread(target=lambda: [say(session) for _ in range(10_000)], daemon=True).start()
    time.sleep(0.05)


def _signals_inside() -> None:
    """Append from a signal handler, wherever it interrupts the program, and end by SIGTERM."""
    from turnlog.errors import LogLocked

    session = opened()

    def append(*_: object) -> None:
        with suppress(LogLocked):
            say(session, 1)

    signal.signal(signal.SIGALRM, append)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    say(session, 500)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_by("SIGTERM")


ENDS = {
    "return": say_and_keep,
    "sys.exit": lambda: (say_and_keep(), sys.exit(3)),
    "an exception": lambda: (say_and_keep(), 1 // 0),
    **{name: (lambda name=name: (say_and_keep(), _end_by(name))) for name in ("SIGTERM", "SIGHUP")},
    "SIGINT": lambda: (say_and_keep(), _end_by("SIGINT")),
    "SIGTERM, a thread": lambda: (_in_thread(daemon=False), _end_by("SIGTERM")),
    "SIGHUP, a daemon thread": lambda: (_in_thread(daemon=True), _end_by("SIGHUP")),
    "a thread that goes on": lambda: (opened(), _in_thread(daemon=False, join=False)),
    "a daemon thread": _daemon_writes_on,
    "an early exit handler": opened,
    "a late exit handler": lambda: (opened(), atexit.register(say)),
    "a destructor": lambda: _kept.append(Last()),
    "signals inside appends": _signals_inside,
    **{f"child, {how}": (lambda how=how: _child(how)) for how in ("fork", "spawn", "forkserver")},
    **{f"pool, {how}": (lambda how=how: _pool(how)) for how in ("fork", "spawn", "forkserver")},
    "pool, terminated": _terminated_pool,
}


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):  # A parent may have ignored them.
        signal.signal(number, signal.SIG_DFL)
    if sys.argv[1] == "an early exit handler":  # Registered before turnlog registers its own.
        atexit.register(say)
    # By its own name, so that spawned children find what they run.
    importlib.import_module("faults.host_program").ENDS[sys.argv[1]]()
