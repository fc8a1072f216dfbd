"""A disk that fails: EIO and its kin, half-way writes, and syncs that lie.

Every call fails once (failing_calls), a real disk loses pages (lying_disk), and with the preloaded
library writes fail half-way and syncs fail once. Always: what was acknowledged is there; after a
failed write or sync the handle answers ClosedLog to the next append and to the next sync, which
might wrongly succeed; a fresh handle works. Threads that share a handle do not get an
acknowledgement out of the sync that succeeds after another thread's failed.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from pathlib import Path

from turnlog.errors import ClosedLog, LogError, SyncFailed, TurnlogError, WriteFailed
from turnlog.storage import system
from turnlog.storage.writer import LogWriter

from . import failing_calls, lying_disk, shim
from .arena import Arena, say
from .child import Tell, run_child
from .made import judge, made, made_line, read
from .scenes import OLD
from .tally import Tally

_BEFORE = b"".join(line + b"\n" for line in OLD)
_NEW = [made_line("new", number) for number in range(4)]


def run(arena: Arena) -> list[Tally]:
    say("eio: every call fails once")
    return [
        *failing_calls.run(arena),
        _half_way(arena),
        _threads(arena),
        *lying_disk.run(arena),
    ]


# -- half-way -----------------------------------------------------------------------------------


def _half_way(arena: Arena) -> Tally:
    """Writes that fail after some bytes, and syncs that fail once and would then succeed."""
    tally = Tally("eio: half-way, and lying syncs")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    with arena.directory("half", memory=True) as directory:
        path = directory / "log.jsonl"
        codes = (errno.EIO, errno.EROFS, errno.ESTALE, errno.ENXIO)
        plans = [
            (code, cut) for code in codes for cut in range(-1, len(_NEW[0]), arena.count(3, 40))
        ]
        for code, cut in plans:
            path.write_bytes(_BEFORE)
            outcome = run_child(lambda tell, c=code, n=cut: _failing_write(path, c, n, tell))
            where = f"write {errno.errorcode[code]} after {cut} bytes"
            _check_told(tally, where, path, outcome, WriteFailed)
        # A quota or a full disk may be noticed only when the data is flushed.
        for code in (errno.EIO, errno.ENOSPC, errno.EDQUOT):
            path.write_bytes(_BEFORE)
            outcome = run_child(lambda tell, c=code: _failing_sync(path, c, tell))
            where = f"sync {errno.errorcode[code]}"
            _check_told(tally, where, path, outcome, SyncFailed)
    return tally


def _failing_write(path: Path, code: int, cut: int, tell: Tell) -> None:
    log = LogWriter(path)
    if cut >= 0:
        shim.arm(path.name, shim.WRITE, 1, shim.SHORT, cut)
    shim.arm(path.name, shim.WRITE, 1 + (cut >= 0), shim.FAIL, code)
    _expect(log, tell)


def _failing_sync(path: Path, code: int, tell: Tell) -> None:
    log = LogWriter(path)
    shim.arm(path.name, shim.SYNC, 1, shim.FAIL, code)
    _expect(log, tell)


def _expect(log: LogWriter, tell: Tell) -> None:
    try:
        log.append(made("new", 0))
        tell("ack", 0)
    except LogError as error:
        tell("failed first", type(error).__name__)
    for name, again in (("append", lambda: log.append(made("new", 1))), ("sync", log.sync)):
        try:
            again()
            tell("went on", name)
        except ClosedLog:
            pass
    with LogWriter(log.path) as fresh:
        fresh.append(made("new", 2))
        tell("ack", 2)


def _check_told(
    tally: Tally, where: str, path: Path, run: tuple[list, int | None], kind: type[LogError]
) -> None:
    told, status = run
    tally.runs += 1
    if status != 0:
        tally.violate(f"{where}: {told[-1:]}")
    if ["failed first", kind.__name__] not in told:
        tally.violate(f"{where}: {kind.__name__} was not raised: {told}")
    for word in told:
        if word[0] == "went on":
            tally.violate(f"{where}: after {kind.__name__} {word[1]}() was not refused")
    numbers = [word[1] for word in told if word[0] == "ack"]
    tally.acknowledged += len(numbers)
    with tally.guarded(where):
        seen = read(path)
        judge(tally, where, seen, [*OLD, *(_NEW[n] for n in numbers)], [*OLD, *_NEW])
        if len(seen.damage) > 1 or seen.pending:
            tally.violate(f"{where}: more than one fragment")


# -- threads ------------------------------------------------------------------------------------


def _threads(arena: Arena) -> Tally:
    """Two threads have written; one's sync fails; the other's succeeds, because pages were dropped.

    The kernel reports a lost page once per descriptor, so only the first may learn of it.
    """
    tally = Tally("eio: threads on one handle")
    with arena.directory("threads", memory=True) as directory:
        for number in range(arena.count(20, 5)):
            path = directory / f"log{number}.jsonl"
            told, status = run_child(lambda tell, path=path: _two_threads(path, tell))
            tally.runs += 1
            outcomes = sorted(word[1] for word in told if word[0] == "outcome")
            if status != 0:
                tally.violate(f"threads: {told[-1:]}")
            elif "ack" in outcomes:
                tally.lose(f"a sync failed, yet the threads were told {outcomes}")
    return tally


def _two_threads(path: Path, tell: Tell) -> None:
    log = LogWriter(path)
    real = system.sync
    failed = threading.Event()
    both = threading.Barrier(2)
    first = iter((True,))

    def sync(fd: int) -> None:
        # Both have written when the first sync begins. One that comes alone is let through later.
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        if next(first, False):
            failed.set()
            raise OSError(errno.EIO, "injected")
        failed.wait(5)
        real(fd)

    system.sync = sync

    def append(number: int) -> None:
        try:
            log.append(made("new", number))
            tell("outcome", "ack")
        except (TurnlogError, OSError) as error:
            tell("outcome", type(error).__name__)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
