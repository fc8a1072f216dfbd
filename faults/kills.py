"""SIGKILL at random moments, thousands of times, and signals that Python turns into exceptions.

A forked child appends records of random size (some of 16 MiB, which a kill cuts in the middle) and
acknowledges each through a pipe after the append returned; the parent kills it at a random moment,
counted from an acknowledgement and scaled by the pace it observes: a fixed delay would, on a slow
disk, kill every child before its first append. Too few acknowledgements count as a violation.
Then: everything acknowledged is there, whole and in order; at most one fragment, and it is the
beginning of the record that was being written; the next append, without waiting for any lock, is
whole. A second loop cuts writes at chosen bytes with the preloaded library. A third sends SIGTERM
to buffered writers: an orderly exit saves everything that was taken.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.writer import LogWriter

from . import shim
from .arena import Arena, say
from .child import Child, Tell
from .made import Seen, judge, made, made_line, read
from .tally import Tally

HUGE = 16 * 1024 * 1024
_FULL_LOG = 48 * 1024 * 1024
_ROUNDS = 150


def run(arena: Arena) -> list[Tally]:
    return [_random_kills(arena), _cut_writes(arena), _terminated(arena)]


class _Plan:
    """What the child of one round does; it follows from the round, so the parent knows it too."""

    def __init__(self, seed: int, number: int) -> None:
        self._rng = random.Random(f"{seed}/kills/{number}")
        self.number = number
        self.writer = f"round{number}"
        self.inherits = self._rng.random() < 0.5
        self.batch = self._rng.choice((1, 1, 1, 7))
        self.huge = self._rng.random() < 0.02
        self.sizes: list[int] = []

    def size(self, number: int) -> int:
        while len(self.sizes) <= number:
            limit = HUGE if self.huge else 32_768
            self.sizes.append(HUGE if self.huge else int(limit ** self._rng.random()))
        return self.sizes[number]

    def line(self, number: int) -> bytes:
        return made_line(self.writer, number, self.size(number))

    def work(self, path: Path, inherited: LogWriter, tell: Tell) -> None:
        log = inherited if self.inherits else LogWriter(path)
        done = 0
        while True:
            numbers = range(done, done + self.batch)
            log.append_many([made(self.writer, n, self.size(n)) for n in numbers])
            done += self.batch
            tell(done)


class _Pace:
    """How long a child takes to its first acknowledgement, and from one to the next."""

    def __init__(self) -> None:
        self._usual = {"first": 0.01, "next": 0.003, "huge": 0.1}

    def wait(self, child: Child, plan: _Plan, rng: random.Random) -> int:
        """Hear some acknowledgements, then wait into the append after them; give the last heard."""
        heard = 0
        for turn in range(rng.choice((0, 1, 1, 2, 3)) if not plan.huge else rng.choice((0, 0, 1))):
            began = time.monotonic()
            word = child.next_word()
            if word is None or not isinstance(word[0], int):
                return heard
            heard = word[0]
            kind = "huge" if plan.huge else "next" if turn else "first"
            self._usual[kind] += 0.1 * (time.monotonic() - began - self._usual[kind])
        kind = "huge" if plan.huge else "next" if heard else "first"
        time.sleep(rng.random() * 1.2 * self._usual[kind])
        return heard


def _random_kills(arena: Arena) -> Tally:
    tally = Tally("kills: random moments")
    rounds = arena.count(10_000, 300)
    rng = arena.rng("kills")
    pace = _Pace()
    number = 0
    while number < rounds:
        # By turns on disk, where a sync takes long, and in memory, where the other calls do.
        with arena.directory("kills", memory=number // _ROUNDS % 2 == 1) as directory:
            path = directory / "log.jsonl"
            last = min(rounds, (number // _ROUNDS + 1) * _ROUNDS)
            with LogWriter(path, lock_timeout=0) as log:
                offset = 0
                while number < last and offset < _FULL_LOG:
                    plan = _Plan(arena.seed, number)
                    child = Child(lambda tell, plan=plan, log=log: plan.work(log.path, log, tell))
                    heard = pace.wait(child, plan, rng)
                    child.kill()
                    offset = _after_kill(tally, plan, log, offset, (child, heard))
                    number += 1
                    if number % 2000 == 0:
                        say(f"kills: {number} of {rounds}")
    if tally.acknowledged < rounds:
        tally.violate("most children died before they had appended: this tested little")
    return tally


def _after_kill(
    tally: Tally, plan: _Plan, log: LogWriter, offset: int, killed: tuple[Child, int]
) -> int:
    child, heard = killed
    told = child.end()
    tally.runs += 1
    if child.status != -signal.SIGKILL:
        tally.violate(f"{plan.writer}: the child ended by itself: {child.status} {told[-1:]}")
    acknowledged = told[-1][0] if told and isinstance(told[-1][0], int) else heard
    tally.acknowledged += acknowledged
    with tally.guarded(plan.writer):
        # The parent's handle does not wait: a lock left behind would show.
        log.append(made("after", plan.number))
        seen = read(log.path, offset)
        offset = seen.offset
        _check_round(tally, plan, acknowledged, seen)
    return offset


def _check_round(tally: Tally, plan: _Plan, acknowledged: int, seen: Seen) -> None:
    where = plan.writer
    tries = [plan.line(k) for k in range(acknowledged + plan.batch)]
    after = made_line("after", plan.number)
    written = [*tries, after]
    judge(tally, where, seen, [*tries[:acknowledged], after], written)
    whole = len(seen.records) - 1
    if seen.pending or len(seen.damage) > 1:
        tally.violate(f"{where}: {len(seen.damage)} fragments, {seen.pending} bytes pending")
    for damage in seen.damage:
        cut = tries[whole] if whole < len(tries) else b""
        if damage.length >= len(cut) or not cut.startswith(damage.excerpt):
            tally.merge(f"{where}: damage that is no beginning of a record: {damage}")


def _cut_writes(arena: Arena) -> Tally:
    """Kill inside the write, after every so many bytes of it."""
    tally = Tally("kills: inside a write")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    batch = [made_line("cut", number, 150) for number in range(3)]
    data = b"".join(line + b"\n" for line in batch)
    step = arena.count(1, 9)
    with arena.directory("cut", memory=True) as directory:
        for cut in range(0, len(data) + 1, step):
            path = directory / "log.jsonl"
            path.write_bytes(made_line("old", 0) + b"\n")

            def work(_tell: Tell, path: Path = path, cut: int = cut) -> None:
                with LogWriter(path) as log:
                    shim.arm(path.name, shim.WRITE, 1, shim.KILL, cut)
                    log.append_many([made("cut", number, 150) for number in range(3)])

            child = Child(work)
            child.end()
            tally.runs += 1
            where = f"killed after {cut} bytes"
            if child.status != -signal.SIGKILL:
                tally.violate(f"{where}: was not killed but ended with {child.status}")
            with tally.guarded(where):
                _check_cut(tally, where, path, batch, data[:cut])
    return tally


def _check_cut(tally: Tally, where: str, path: Path, batch: list[bytes], part: bytes) -> None:
    old, after = made_line("old", 0), made_line("after", 0)
    written = [old, *batch, after]
    whole = sum(data in part for data in batch)
    must = [old, *batch[:whole]]
    judge(tally, where, read(path), must, written)
    with LogWriter(path, lock_timeout=0) as log:
        log.append(made("after", 0))
    seen = read(path)
    judge(tally, f"{where}, then appended", seen, [*must, after], written)
    if seen.pending or len(seen.damage) > 1:
        tally.violate(f"{where}: {len(seen.damage)} fragments, {seen.pending} bytes pending")
    tally.acknowledged += 2


def _terminated(arena: Arena) -> Tally:
    tally = Tally("kills: SIGTERM, buffered")
    rng = arena.rng("terminated")
    with arena.directory("term") as directory:
        for number in range(arena.count(1_000, 60)):
            path = directory / "log.jsonl"
            child = Child(lambda tell, path=path: _buffer_until_ended(path, tell))
            if child.next_word() is None:
                tally.violate(f"round {number}: the child never began")
            time.sleep(rng.random() ** 2 * 0.02)
            os.kill(child.pid, signal.SIGTERM)
            told = child.end()
            taken = max((word[1] for word in told if word[0] == "taken"), default=0)
            tally.runs += 1
            tally.acknowledged += taken
            where = f"round {number}"
            if child.status is None:
                tally.violate(f"{where}: hung after SIGTERM")
            with tally.guarded(where):
                lines = [made_line("buffered", n) for n in range(taken + 1)]
                judge(tally, where, read(path), lines[:taken], lines)
            path.unlink(missing_ok=True)
    return tally


def _buffer_until_ended(path: Path, tell: Tell) -> None:
    """Take records until SIGTERM; then leave as the interpreter would, by way of ``atexit``."""
    from turnlog.storage.buffered_writer import drain_all

    log = BufferedLog(LogWriter(path), every_seconds=0.002, max_records=20)
    tell("ready")
    number = 0
    try:
        while True:
            log.append(made("buffered", number))
            number += 1
            tell("taken", number)
    finally:
        drain_all()
