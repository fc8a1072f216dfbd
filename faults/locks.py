"""Locks: their holder killed, stopped, forked, interrupted; the log replaced or removed under them.

A dead holder leaves no lock, not even if a child or a program it started lives on. A stopped one
costs the others LogLocked at their deadline, with its process id, never a hang. A forked child does
not share its parent's lock. An exception out of a signal handler, at any moment, leaves the handle
usable and nobody else locked out. Whoever appends to a log that was replaced meanwhile appends to
the one that is there now; a log that was removed is not begun anew.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turnlog.errors import LogLocked, NotFound
from turnlog.storage.writer import LogWriter

from .arena import Arena, say
from .child import Child, Tell, run_child
from .made import judge, made, made_line, read
from .tally import Tally

_A, _B, _C = (made_line(writer, 0) for writer in "abc")


def run(arena: Arena) -> list[Tally]:
    say("locks")
    tallies = []
    for test in (_killed, _stopped, _heirs, _forked, _threads, _replaced, _replaced_while_waiting):
        tally = Tally(f"locks: {test.__doc__ or ''}".rstrip("."))
        tallies.append(tally)
        for number in range(arena.count(20, 3)):
            tally.runs += 1
            with tally.guarded(f"run {number}"), arena.directory("locks") as directory:
                test(tally, directory / "log.jsonl")
    return [*tallies, _interrupted(arena)]


def _hold(path: Path, inside: Callable[[], object]) -> Callable[[Tell], None]:
    """Work for a child: take the lock, say so, do something with it held, then append."""

    def work(tell: Tell) -> None:
        with LogWriter(path) as log:

            def decide(_news: object) -> list[dict]:
                tell("held")
                inside()
                return [made("a", 0)]

            log.append_after(decide)
            tell("ack")

    return work


def _append(tally: Tally, path: Path, writer: str, timeout: float = 0) -> None:
    with LogWriter(path, lock_timeout=timeout) as log:
        log.append(made(writer, 0))
    tally.acknowledged += 1


@contextmanager
def _held(path: Path, inside: Callable[[], object]) -> Iterator[Child]:
    child = Child(_hold(path, inside))
    try:
        if child.next_word() != ["held"]:
            raise RuntimeError("the holder never held the lock")
        yield child
    finally:
        child.kill()
        child.end()


def _killed(tally: Tally, path: Path) -> None:
    """holder killed."""
    with _held(path, lambda: time.sleep(600)):
        pass
    _append(tally, path, "b")
    judge(tally, "holder killed", read(path), [_B], [_B])


def _stopped(tally: Tally, path: Path) -> None:
    """holder stopped."""
    with _held(path, lambda: os.kill(os.getpid(), signal.SIGSTOP)) as child:
        for timeout in (0, 0.2):
            try:
                _append(tally, path, "b", timeout)
                tally.violate("appended beside a holder that is stopped")
            except LogLocked as locked:
                if locked.holder != child.pid:
                    tally.violate(f"the holder is {child.pid}, not {locked.holder}")
        os.kill(child.pid, signal.SIGCONT)
        if child.next_word() != ["ack"]:
            tally.violate("the holder did not finish after SIGCONT")
        _append(tally, path, "b", 60)
    judge(tally, "holder stopped", read(path), [_A, _B], [_A, _B])


def _heirs(tally: Tally, path: Path) -> None:
    """holder killed, heirs live on."""

    def start_heirs() -> None:
        forked = os.fork()
        if forked == 0:
            time.sleep(600)
        sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
        spawned = subprocess.Popen(sleeper, close_fds=False)
        heirs.write_text(f"{forked} {spawned.pid}")
        ready.touch()
        time.sleep(600)

    heirs, ready = path.with_name("heirs"), path.with_name("ready")
    child = Child(_hold(path, start_heirs))
    while not ready.exists() and child.is_alive():
        time.sleep(0.005)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        # Long enough for an heir that was just born to let go.
        _append(tally, path, "b", 2)
        judge(tally, "heirs", read(path), [_B], [_B])
    finally:
        for heir in heirs.read_text().split() if heirs.exists() else ():
            os.kill(int(heir), signal.SIGKILL)
        child.end()


def _forked(tally: Tally, path: Path) -> None:
    """fork while the lock is held."""

    def work(tell: Tell) -> None:
        log = LogWriter(path, lock_timeout=0)
        told: list[list] = []

        def decide(_news: object) -> list[dict]:
            told.extend(run_child(child_appends)[0])
            return [made("a", 0)]

        def child_appends(tell: Tell) -> None:
            try:
                log.append(made("c", 0))
                tell("double holder")
            except LogLocked:
                tell("locked")

        log.append_after(decide)
        told.extend(run_child(child_appends)[0])
        for word in told:
            tell(*word)

    told, status = run_child(work)
    if status != 0 or told != [["locked"], ["double holder"]]:
        tally.violate(f"a forked child beside its locked parent: {told}")
    tally.acknowledged += 2
    judge(tally, "fork", read(path), [_A, _C], [_A, _C])


def _threads(tally: Tally, path: Path) -> None:
    """another thread holds it."""
    inside, leave = threading.Event(), threading.Event()
    with LogWriter(path, lock_timeout=0) as log:

        def decide(_news: object) -> list[dict]:
            inside.set()
            leave.wait(60)
            return [made("a", 0)]

        thread = threading.Thread(target=log.append_after, args=(decide,))
        thread.start()
        inside.wait(60)
        try:
            log.append(made("b", 0))
            tally.violate("two threads held one lock")
        except LogLocked as locked:
            if locked.holder != os.getpid():
                tally.violate(f"the holder is this process, not {locked.holder}")
        leave.set()
        thread.join()
        log.append(made("c", 0))
    tally.acknowledged += 2
    judge(tally, "threads", read(path), [_A, _C], [_A, _C])


def _replaced(tally: Tally, path: Path) -> None:
    """log replaced or removed."""
    other = path.with_name("other.jsonl")
    with LogWriter(path, lock_timeout=0) as log:
        log.append(made("a", 0))
        other.write_bytes(_B + b"\n")
        other.replace(path)
        log.append(made("c", 0))
        judge(tally, "replaced", read(path), [_B, _C], [_B, _C])
        path.rename(other)
        try:
            log.append(made("a", 0))
            tally.violate("a log that was renamed was begun anew")
        except NotFound:
            pass
        judge(tally, "renamed", read(other), [_B, _C], [_B, _C])
    path.write_bytes(_B + b"\n")
    with LogWriter(path, create=False, lock_timeout=0) as log:
        path.rename(other)
        try:
            log.append(made("c", 0))
            tally.violate("a handle that must not create a log made one")
        except NotFound:
            pass
        other.rename(path)
        log.append(made("c", 0))
        judge(tally, "there again", read(path), [_B, _C], [_B, _C])
    tally.acknowledged += 3


def _replaced_while_waiting(tally: Tally, path: Path) -> None:
    """log replaced while others wait."""
    other, waiting = path.with_name("other.jsonl"), path.with_name("waiting")

    def swap() -> None:
        give_up = time.monotonic() + 60
        while not waiting.exists() and time.monotonic() < give_up:
            time.sleep(0.001)
        time.sleep(0.05)
        other.write_bytes(_C + b"\n")
        other.replace(path)

    with _held(path, swap) as child, LogWriter(path, lock_timeout=60) as log:
        waiting.touch()
        log.append(made("b", 0))
        child.next_word()
    tally.acknowledged += 1
    judge(tally, "replaced while waiting", read(path), [_C, _B], [_C, _B])


# -- interrupts ---------------------------------------------------------------------------------


class _Interrupt(Exception):
    """What the signal handler raises, as Ctrl-C raises KeyboardInterrupt."""


def _interrupted(arena: Arena) -> Tally:
    tally = Tally("locks: interrupted by a signal")
    rounds = arena.count(20_000, 2_000)
    with arena.directory("interrupted", memory=True) as directory:
        path = directory / "log.jsonl"
        told, status = run_child(lambda tell: _interrupt_often(arena, path, rounds, tell))
        if status != 0:
            tally.violate(f"interrupted: {told[-1:]}")
        acknowledged = [word[1] for word in told if word[0] == "ack"]
        for word in told:
            if word[0] == "locked":
                tally.violate(f"an interrupted append kept the lock: {word[1]} was refused")
        tally.runs = rounds
        tally.acknowledged = len(acknowledged)
        lines = [made_line("i", number) for number in range(3 * rounds)]
        must = [lines[number] for number in acknowledged]
        judge(tally, "interrupted", read(path), must, lines)
    return tally


def _interrupt_often(arena: Arena, path: Path, rounds: int, tell: Tell) -> None:
    rng = arena.rng("interrupted")
    log = LogWriter(path, lock_timeout=0)
    other = LogWriter(path, lock_timeout=0)

    def interrupt(_number: int, _frame: object) -> None:
        raise _Interrupt

    signal.signal(signal.SIGALRM, interrupt)
    for number in range(0, 3 * rounds, 3):
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 + rng.random() * 1.5e-4)
            log.append(made("i", number))
            signal.setitimer(signal.ITIMER_REAL, 0)
            tell("ack", number)
        except _Interrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for name, writer, mine in (("the next", log, 1), ("another handle", other, 2)):
            try:
                writer.append(made("i", number + mine))
                tell("ack", number + mine)
            except LogLocked:
                tell("locked", name)
                if writer is log:
                    log = LogWriter(path, lock_timeout=0)
