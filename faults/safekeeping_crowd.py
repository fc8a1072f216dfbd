"""Eight agents append while others keep, archive, let go of and compact their sessions, in loops.

In the end every acknowledged record is found: in a log, an archive or a kept copy that turnlog
reads, in an earlier generation of one, or in the trash. No session that said it was running was
touched, every copy unpacks, and no command ended by anything but an exit code of its own.
"""

from __future__ import annotations

import contextlib
import io
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from turnlog.cli.app import run as run_command
from turnlog.formats.find import find_everywhere
from turnlog.storage.compressed import unpack
from turnlog.storage.reader import Placed, Reader

from .arena import Arena, say
from .child import Child, Tell
from .safekeeping_agents import Acks, works
from .safekeeping_checks import contents
from .safekeeping_world import World, words_of, world_at
from .tally import Tally

_PATIENCE = 180.0


def run(arena: Arena) -> Tally:
    tally = Tally("safekeeping: eight agents at work")
    seconds = arena.seconds or arena.count(60, 5)
    say(f"{tally.fault}, {seconds:.0f} s")
    with arena.directory("keepers") as directory, world_at(directory) as world:
        world.home.mkdir()
        acks = Acks(directory / "acks")
        until = time.monotonic() + seconds
        agents = [Child(work) for work in works(world.home, acks, until)]
        keepers = [
            Child(lambda tell, do=do: do(world, random.Random(arena.seed), until, tell))
            for do in (_keeping, _archiving, _pruning, _compacting)
        ]
        codes = _ended(tally, [*agents, *keepers], seconds)
        say(f"{tally.fault}: " + ", ".join(f"{name}: {n}" for name, n in sorted(codes.items())))
        for name in ("keep 0", "archive 0", "prune 0", "compact 0"):
            if not codes[name]:
                tally.violate(f"{name.split()[0]} never did anything: this tested little")
        with tally.guarded("after the crowd"):
            run_quietly(words_of(world, ("keep", "--quiet")))
            _check(tally, world, acks.all())
    return tally


def _ended(tally: Tally, children: list[Child], seconds: float) -> Counter[str]:
    codes: Counter[str] = Counter()
    for child in children:
        for word in child.end(seconds + _PATIENCE):
            if word[0] == "code":
                codes[f"{word[1]} {word[2]}"] += 1
                if word[2] == 0 or "error: " in word[3] or word[2] == 1:
                    continue
            tally.violate(f"a child told: {word}")
        if child.status != 0:
            tally.violate(f"a child ended with {child.status}")
    tally.runs = sum(codes.values())
    return codes


# -- those who keep ---------------------------------------------------------------------------


def run_quietly(words: list[str]) -> tuple[int, str]:
    """Run a command here; give its exit code and what it complained of."""
    said, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complaints):
        return run_command(words), complaints.getvalue()


def _do(world: World, tell: Tell, *words: str) -> None:
    code, complaints = run_quietly(words_of(world, words))
    tell("code", words[0], code, complaints[:300])


def _keeping(world: World, _rng: random.Random, until: float, tell: Tell) -> None:
    while time.monotonic() < until:
        _do(world, tell, "keep", "--quiet")
        time.sleep(0.05)


def _archiving(world: World, rng: random.Random, until: float, tell: Tell) -> None:
    for session in _sessions(world, rng, until):
        remove = ("--remove", "--yes") if rng.random() < 0.6 else ()
        _do(world, tell, "archive", session, *remove)
        if rng.random() < 0.2:
            _do(world, tell, "unarchive", session)


def _pruning(world: World, rng: random.Random, until: float, tell: Tell) -> None:
    while time.monotonic() < until:
        first = ("--archive-first",) if rng.random() < 0.5 else ()
        _do(world, tell, "prune", "--days", "30", "--yes", *first)
        time.sleep(rng.random())


def _compacting(world: World, rng: random.Random, until: float, tell: Tell) -> None:
    for session in _sessions(world, rng, until):
        undo = ("--undo",) if rng.random() < 0.2 else ()
        _do(world, tell, "compact", session, "--yes", *undo)


def _sessions(world: World, rng: random.Random, until: float) -> Iterator[str]:
    """Give sessions that lie in the home just now, young and old."""
    while time.monotonic() < until:
        logs = [*world.home.glob("projects/*/*.jsonl"), *world.home.glob("sessions/*.jsonl")]
        if logs:
            yield rng.choice(logs).stem
        else:
            time.sleep(0.01)


# -- what is left -----------------------------------------------------------------------------


def _check(tally: Tally, world: World, acknowledged: dict[str, str]) -> None:
    """Find every record: as turnlog shows it, in earlier generations, in the trash."""
    tally.acknowledged = len(acknowledged)
    contents(world)  # Every copy that has its name unpacks.
    shown = {uuid for log in find_everywhere(world.homes) for uuid in _uuids(log.path)}
    missing = acknowledged.keys() - shown
    trashed = {uuid for path in _logs(world.own / "trash") for uuid in _uuids(path)}
    earlier = {
        uuid
        for path in world.own.glob("kept/*/generations/**/*.jsonl*.zst")
        for uuid in _packed_uuids(path)
    }
    say(
        f"{tally.fault}: {len(acknowledged):,} records, {len(missing):,} not in logs or copies; "
        f"of those {len(missing & trashed):,} of {len(trashed):,} in the trash and "
        f"{len((missing - trashed) & earlier):,} in earlier generations"
    )
    if not trashed:
        tally.violate("nothing went to the trash: this tested little")
    lost = sorted(missing - trashed - earlier)
    if lost:
        of = Counter(uuid.partition("#")[0] for uuid in lost)
        tally.lose(f"{dict(of)}, the first {lost[0]} of {acknowledged[lost[0]]}", len(lost))


def _logs(top: Path) -> Iterator[Path]:
    for pattern in ("**/*.jsonl", "**/*.jsonl.gz", "**/*.jsonl.zst"):
        yield from top.glob(pattern)


def _uuids(path: Path) -> Iterator[str]:
    with Reader(path) as reader:
        for item in reader:
            if isinstance(item, Placed) and item.record.uuid:
                yield item.record.uuid


def _packed_uuids(path: Path) -> Iterator[str]:
    b"".join(unpack(path))
    yield from _uuids(path)
