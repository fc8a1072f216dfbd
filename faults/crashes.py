"""Power cuts, simulated: every state the disk can be in after one, read by the real reader.

The writes, syncs, truncations and renames of scripted operations are recorded as they happen, then
cut after each step. Of bytes that were not synced every cut is tried, zeros in their place, size
before data, dropped writes, and sectors of 512 bytes in any mixture of old, new and never written.
In every state: all records acknowledged before the cut are there (P1), nothing is there that
nobody wrote (P3), and the reader survives it. On a sample of states the real writer appends: what
stood there stays, and the new record is whole.
"""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import StorageFull
from turnlog.storage.writer import LogWriter

from .arena import Arena, say
from .child import Tell
from .disk import Disk, File
from .events import Event, record
from .made import judge, made, made_line, read
from .scenes import NEW, OLD, REPAIR, SCENES, Scene
from .tally import Tally
from .tracing import MISSING, STRACE

AFTER = made_line("after", 0)
_EVERY = 40
_WHOLE = b"".join(line + b"\n" for line in OLD)
_LARGE = [made_line("large", number, 700) for number in range(8)]


def _weak_handles(path: Path, tell: Tell) -> None:
    """Two handles that do not sync, and now and then a sync that covers both."""
    first = LogWriter(path, durability="flush")
    second = LogWriter(path, durability="flush")
    for number in range(0, 8, 4):
        first.append(made("large", number, 700))
        second.append(made("large", number + 1, 700))
        first.append(made("large", number + 2, 700))
        second.append(made("large", number + 3, 700))
        second.sync()
        tell("ack", number + 4)


def _taken_back(path: Path, tell: Tell) -> None:
    """A write that falls short and is taken back; then the same record, and another."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with LogWriter(path) as log:
        log.append(made("new", 0))
        tell("ack", 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 200, hard))
        try:
            log.append(made("large", 0, 700))
        except StorageFull:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        log.append(made("new", 1))
        tell("ack", 2)
        log.append(made("new", 2))
        tell("ack", 3)


def _append_one(path: Path, tell: Tell) -> None:
    with LogWriter(path) as log:
        log.append(made("new", 0))
        tell("ack", 1)


# Its directories were made by a creator that died before it synced them.
_ORPHANED = Scene("in a dead creator's directories", None, [], NEW[:1], _append_one, "a/b")
_MORE = (
    _ORPHANED,
    Scene("weak handles", _WHOLE, OLD, _LARGE, _weak_handles),
    Scene("short write taken back", _WHOLE, OLD, NEW[:3], _taken_back),
)


def run(arena: Arena) -> list[Tally]:
    scenes = [*SCENES, *_MORE, REPAIR]
    share = arena.count(102_000, 3_060) // len(scenes) + 1
    tallies = []
    for scene in scenes:
        tally = Tally(f"crashes: {scene.name}")
        tallies.append(tally)
        if scene is REPAIR and STRACE is None:
            tally.skip(MISSING)
            continue
        say(f"crashes: {scene.name}")
        with arena.directory("crash", memory=True) as directory:
            place = directory / "disk"
            place.mkdir()
            with tally.guarded(scene.name):
                _run_scene(arena, tally, scene, place, share)
    return tallies


def _run_scene(arena: Arena, tally: Tally, scene: Scene, place: Path, share: int) -> None:
    log = scene.prepare(place).resolve()
    start = Disk.of(place)
    if scene is _ORPHANED:
        for directory in (log.parent.parent, log.parent):
            directory.mkdir()
            start.apply(Event("mkdir", str(directory)))
    events = record(lambda tell: scene.work(log, tell), place)
    if not any(event.kind == "sync" for event in events):
        tally.violate("the recording holds no sync: nothing was tested")
        return
    rng = arena.rng(f"crashes/{scene.name}")
    scratch = place / "scratch.jsonl"
    glued = scene.kept if scene is REPAIR else []
    allowed = [*scene.kept, *scene.tries]
    if scene.name == "short write taken back":
        allowed.insert(len(scene.kept) + 1, _LARGE[0])
    for count, state in _states(start, events, str(log), rng, share, slice_=arena.slice):
        expected = _Expected([*scene.kept, *scene.tries[:count]], allowed, glued)
        tally.runs += 1
        tally.acknowledged += count
        _check(tally, scratch, state, expected)
        if tally.runs % _EVERY == 0 and state is not None:
            with tally.guarded(f"append after state {tally.runs}"):
                _append(tally, scratch, state, expected)


def _states(
    disk: Disk, events: list[Event], log: str, rng: random.Random, share: int, *, slice_: bool
) -> Iterator[tuple[int, bytes | None]]:
    """Give every state with the number of records acknowledged by then: at least *share* of them.

    First all cuts (in a slice, a sample of them), then mixtures of sectors until there are enough.
    """
    seen: set[tuple[int, int]] = set()
    mixable: list[tuple[int, File]] = []
    count = given = 0
    for event in (None, *events):
        if event is not None and event.kind == "ack":
            count = event.data
        elif event is not None:
            disk.apply(event)
        for file in disk.views(log):
            if file is not None and len(file.versions) > 1:
                frozen = File()
                frozen.versions = list(file.versions)
                mixable.append((count, frozen))
            for state in (None,) if file is None else file.cuts():
                key = (count, hash(state))
                if key in seen or (slice_ and rng.random() < 0.9 and state is not None):
                    continue
                seen.add(key)
                given += 1
                yield count, state
    for number in range(max(0, share - given) if mixable else 0):
        count, file = mixable[number % len(mixable)]
        yield count, file.mixed(rng)


class _Expected(NamedTuple):
    """What must be in a state, what may be, and what shared its line from the start."""

    acknowledged: list[bytes]
    allowed: list[bytes]
    glued: list[bytes]


class _Bytes:
    """A state, as a source for the reader."""

    plain = True

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, size: int, /) -> bytes:
        chunk = self._data[self._position : self._position + size]
        self._position += len(chunk)
        return chunk

    def close(self) -> None:
        pass


def _check(tally: Tally, path: Path, state: bytes | None, expected: _Expected) -> None:
    if state is None:
        if expected.acknowledged:
            tally.lose("the log's name was not synced", len(expected.acknowledged))
        return
    where = f"state of {len(state)} bytes"
    with tally.guarded(where):
        seen = read(path, source=_Bytes(state))
        acknowledged, allowed, glued = expected
        judge(tally, where, seen, acknowledged, allowed, glued_by_others=glued)


def _append(tally: Tally, path: Path, state: bytes, expected: _Expected) -> None:
    path.write_bytes(state)
    with LogWriter(path, lock_timeout=0) as log:
        log.append(made("after", 0))
    after = path.read_bytes()
    if not after.startswith(state):
        tally.violate("an append after a power cut changed what stood there")
    where = f"appended to a state of {len(state)} bytes"
    acknowledged, allowed, glued = expected
    must, may = [*acknowledged, AFTER], [*allowed, AFTER]
    judge(tally, where, read(path), must, may, glued_by_others=glued)
