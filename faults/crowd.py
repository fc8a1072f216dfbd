"""Many at once: eight processes, threads in them, forked children, and a stranger without a lock.

All append to one log, records of random sizes. One process is killed and started again all the
time; one appends by single O_APPEND writes and knows no lock; the log is read while it grows. Then:
0 lost, 0 merged, 0 standing twice, every writer's records in its order. A second crowd is repaired
while it writes. (A kill can cut a record, and then the stranger, who looks at no tail, glues its
own line to that fragment; reading finds it all the same.) What a stranger can do at the worst
moment is in ``strangers``.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from turnlog.records.damage import Damage
from turnlog.storage.reader import Placed, Reader
from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter

from . import strangers
from .arena import Arena, say
from .child import Child, Tell
from .made import line_of, made, size_of
from .scenes import FRAGMENT
from .tally import Tally

_LARGEST = 40_000
_PROCESSES = 8


def run(arena: Arena) -> list[Tally]:
    seconds = arena.seconds or arena.count(60, 10)
    say(f"crowd: {seconds:.0f} s")
    tallies = [Tally("crowd: eight processes"), Tally("crowd: repaired while it writes")]
    _crowd(arena, tallies[0], seconds)
    _crowd(arena, tallies[1], seconds / 4, repairs=True)
    return [*tallies, *strangers.run(arena)]


class _Watch:
    """Reads the log as it grows and notes where every writer is."""

    def __init__(self, tally: Tally, path: Path) -> None:
        self.tally = tally
        self.path = path
        self.found: dict[str, list[int]] = defaultdict(list)
        self._offset = 0

    def look(self, *, again: bool = False) -> None:
        """Take what is new; with *again* read it all from the start."""
        if again:
            self.found.clear()
            self._offset = 0
        last: Placed | Damage | None = None
        with Reader(self.path, start=self._offset, line=1, tail="wait") as reader:
            for item in reader:
                if last is not None and item.line == last.line:
                    self._shared(last, item)
                last = item
                if isinstance(item, Placed):
                    self._take(item.record.raw, item.record.uuid or "")
                elif not FRAGMENT.startswith(item.excerpt[:20]):  # Killed writers leave those.
                    self.tally.merge(f"damage while everybody wrote whole lines: {item}")
            self._offset = reader.offset

    def _shared(self, first: Placed | Damage, second: Placed | Damage) -> None:
        """Two things on one line. Only a stranger may do that, to what a killed writer left.

        It looks at no tail and knows no seal; a writer of ours does.
        """
        names = [
            (item.record.uuid or "") if isinstance(item, Placed) else item.excerpt[23:60].decode()
            for item in (first, second)
        ]
        torn = isinstance(first, Damage) and names[0].startswith("killed")
        if not (torn and isinstance(second, Placed) and names[1].startswith("stranger#")):
            self.tally.merge(f"{names[1]} on the line of {names[0]}, at {second.offset}")

    def _take(self, line: bytes, name: str) -> None:
        writer, _, number = name.rpartition("#")
        if not number.isdigit() or line != _line(writer, int(number)):
            self.tally.merge(f"a record nobody wrote: {line[:60]!r}")
        else:
            self.found[writer].append(int(number))


def _record(writer: str, number: int) -> dict[str, object]:
    return made(writer, number, size_of(writer, number, _LARGEST))


def _line(writer: str, number: int) -> bytes:
    return line_of(_record(writer, number))


class _Acks:
    """Acknowledgements of all writers: one file, one write each, kept when the writer dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, writer: str, number: int) -> None:
        os.write(self._fd, f"{writer} {number}\n".encode())

    def all(self) -> dict[str, int]:
        """Give how many records of each writer were acknowledged; they count from 0."""
        counts: dict[str, int] = {}
        for line in self._path.read_text().splitlines():
            writer, _, number = line.partition(" ")
            counts[writer] = int(number) + 1
        return counts


def _crowd(arena: Arena, tally: Tally, seconds: float, *, repairs: bool = False) -> None:
    with arena.directory("crowd") as directory:
        path = directory / "log.jsonl"
        LogWriter(path).close()
        acks = _Acks(directory / "acks")
        until = time.monotonic() + seconds
        works: list[Callable[[Tell], None]] = [
            lambda _tell, n=n: _plain(path, acks, f"plain{n}", until) for n in range(3)
        ]
        works += [lambda _tell, n=n: _threaded(path, acks, f"t{n}", until) for n in range(2)]
        works += [lambda _tell: _forking(path, acks, until)]
        if repairs:
            works += [lambda _tell, s=arena.seed: _damaging(path, s, until)]
        else:
            works += [lambda _tell: _stranger(path, acks, until)]
        children = [Child(work) for work in works]
        watch = _Watch(tally, path)
        restarts = _kill_and_restart(arena, path, acks, watch, until, repairs=repairs)
        for child in children:
            told = child.end(patience=600)
            if child.status != 0:
                tally.violate(f"a writer ended with {child.status}: {told[-1:]}")
        tally.runs = _PROCESSES + restarts
        with tally.guarded("crowd"):
            watch.look(again=repairs)
            _compare(tally, watch.found, acks.all())


def _kill_and_restart(
    arena: Arena, path: Path, acks: _Acks, watch: _Watch, until: float, *, repairs: bool
) -> int:
    """Kill the eighth process again and again; meanwhile read the log, or repair it."""
    rng = arena.rng("crowd")
    number = 0
    while time.monotonic() < until:
        name = f"killed{number}"
        child = Child(lambda _tell, name=name: _plain(path, acks, name, until))
        time.sleep(rng.random() * 0.4)
        if not repairs:
            watch.look()
        elif number % 3 == 0:
            with watch.tally.guarded("repair beside writers"):
                repair(path, write=True, lock_timeout=60)
        child.kill()
        child.end()
        number += 1
    return number


def _plain(path: Path, acks: _Acks, writer: str, until: float) -> None:
    with LogWriter(path, lock_timeout=60) as log:
        _append_all(log, acks, writer, until)


def _append_all(log: LogWriter, acks: _Acks, writer: str, until: float) -> None:
    number = 0
    while time.monotonic() < until:
        batch = 1 if number % 7 else 3
        log.append_many([_record(writer, n) for n in range(number, number + batch)])
        number += batch
        acks.note(writer, number - 1)


def _threaded(path: Path, acks: _Acks, writer: str, until: float) -> None:
    """Three threads on one handle; what goes wrong in one of them ends the process."""
    with LogWriter(path, lock_timeout=60) as log:
        failures: list[BaseException] = []

        def work(name: str) -> None:
            try:
                _append_all(log, acks, name, until)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(f"{writer}.{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _forking(path: Path, acks: _Acks, until: float) -> None:
    """Append, and let forked children append through the handle they inherited."""
    number = 0
    with LogWriter(path, lock_timeout=60) as log:
        while time.monotonic() < until:
            soon = min(until, time.monotonic() + 0.3)
            name = f"child{number}"
            child = Child(lambda _tell, name=name, soon=soon: _append_all(log, acks, name, soon))
            _append_all(log, acks, f"forking{number}", soon)
            told = child.end()
            if child.status != 0:
                raise RuntimeError(f"a forked child ended with {child.status}: {told[-1:]}")
            number += 1


def _stranger(path: Path, acks: _Acks, until: float) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    number = 0
    while time.monotonic() < until:
        data = _line("stranger", number) + b"\n"
        if os.write(fd, data) != len(data):
            raise RuntimeError("a short write of the stranger")
        acks.note("stranger", number)
        number += 1
        time.sleep(0.001)


def _damaging(path: Path, seed: int, until: float) -> None:
    """Leave a cut line in the log now and then, so that there is something to repair."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, FRAGMENT + b"\n")
        os.close(fd)
        time.sleep(rng.random() * 0.2)


def _compare(tally: Tally, found: dict[str, list[int]], acknowledged: dict[str, int]) -> None:
    for writer, count in acknowledged.items():
        numbers = found.get(writer, [])
        tally.acknowledged += count
        missing = set(range(count)).difference(numbers)
        if missing:
            tally.lose(f"{len(missing)} of {count} of {writer}", len(missing))
        if len(set(numbers)) != len(numbers):
            tally.violate(f"{writer}: {len(numbers) - len(set(numbers))} records stand twice")
        elif numbers != sorted(numbers):
            tally.violate(f"{writer}: out of order")
    for writer, numbers in found.items():
        # Whoever was killed may have written one batch without a word.
        if len(set(numbers)) > acknowledged.get(writer, 0) + 3:
            tally.violate(f"{writer}: {len(numbers)} found, {acknowledged.get(writer, 0)} expected")
