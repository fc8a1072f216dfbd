"""SIGKILL at every system call of every command that keeps, moves or removes something.

Every call that changes anything, in every scene; between two of them the disk stays as it is, so of
the calls that only look some are chosen. Then the same command is run again, by turns at once, with
all files touched, and with a clock that was set back or forward, and must leave the world that it
leaves undisturbed. What was half made must go when the like of it is made the next time.
"""

from __future__ import annotations

import random
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from .arena import Arena, say
from .safekeeping_checks import Check, differences, fingerprint, litter, state_of
from .safekeeping_clock import TIMES, Between, two_hours_later
from .safekeeping_scenes import Scene
from .safekeeping_world import World, command, must, ran, work, world_at
from .tally import Tally
from .tracing import Call, Traced

_CHANGING = {"write", "pwrite64", "copy_file_range", "sendfile", "ftruncate", "fsync", "fdatasync"}
_CHANGING |= {"mkdir", "mkdirat", "rmdir", "rename", "renameat", "renameat2", "link", "linkat"}
_CHANGING |= {"unlink", "unlinkat", "chmod", "fchmod", "fchown", "utimensat", "flock"}
_SLICE_CHANGING, _SLICE_LOOKING = 4, 1
_LATER = (("keep", "--quiet"), ("trash", "empty", "--yes"), ("restore", "--all"))
_LOOKING = 24  # One of so many calls that only look.


class Stage(NamedTuple):
    """A scene that is ready to be played, again and again."""

    scene: Scene
    world: World
    saved: Path
    said_to: Path
    check: Check
    calls: list[Call]
    seen: set[bytes]
    """Worlds that were checked already: most calls leave the disk as it was."""


def changes(call: Call) -> bool:
    return call.name in _CHANGING or (call.name == "openat" and "O_CREAT" in call.arguments)


def staged(scene: Scene, world: World, directory: Path, tally: Tally) -> Stage:
    """Make a scene's world, and learn what its command does to it undisturbed."""
    saved, said_to = directory / "saved", directory / "said"
    said_to.mkdir(exist_ok=True)
    scene.prepare(world)
    world.save(saved)
    must(world, *scene.words)  # Whatever must be imported is, from here on.
    world.load(saved)
    check = Check(world, is_purge=scene.is_purge, replaced=scene.replaced)
    traced = Traced(work(world, scene.words, said_to), directory / "trace")
    traced.go()
    done = ran(traced.end(), traced.child.status, said_to)
    if done.code != 0:
        tally.violate(f"undisturbed: {done}")
    check.undisturbed(tally, world)
    command(world, scene.words, said_to)
    check.finished(tally, "done twice, undisturbed", world)
    return Stage(scene, world, saved, said_to, check, traced.calls(), set())


def sweep(arena: Arena, scene: Scene, directory: Path, own: Path | None) -> Tally:
    """Play a scene once for every call, killed at that call."""
    tally = Tally(f"safekeeping: {scene.name}")
    say(tally.fault)
    with tally.guarded("the scene"), world_at(directory, own) as world:
        stage = staged(scene, world, directory, tally)
        rng = arena.rng(tally.fault)
        between = cycle(each for each in TIMES if not (scene.is_by_times and each.touched))
        points = _points(arena, stage.calls, rng)
        survivors = sum(_killed(tally, stage, directory, point, next(between)) for point in points)
        if 2 * survivors > len(points):
            tally.violate(f"{survivors} commands outlived their killers: this tested little")
    return tally


def _points(arena: Arena, calls: list[Call], rng: random.Random) -> list[Call]:
    changing = [call for call in calls if changes(call)]
    looking = [call for call in calls if not changes(call)]
    if arena.slice:
        few = rng.sample(changing, min(len(changing), _SLICE_CHANGING))
        return [*few, *rng.sample(looking, _SLICE_LOOKING)]
    return [*changing, *rng.sample(looking, len(looking) // _LOOKING)]


def _killed(tally: Tally, stage: Stage, directory: Path, point: Call, between: Between) -> bool:
    """Kill the command at one call, check, run it again, check; tell whether it lived on."""
    world, scene, check = stage.world, stage.scene, stage.check
    where = f"killed at {point.name} number {point.nth} ({point.arguments[:60]})"
    world.load(stage.saved)
    inject = ("-e", f"inject={point.name}:signal=SIGKILL:when={point.nth}")
    traced = Traced(work(world, scene.words, stage.said_to), directory / "trace", *inject)
    traced.go()
    died = ran(traced.end(), traced.child.status, stage.said_to)
    tally.runs += 1
    left = fingerprint(world)
    if left in stage.seen:
        return died.code == 0
    stage.seen.add(left)
    with tally.guarded(where):
        check.now(tally, where, world)
        is_done = not differences(state_of(world), check.final)
        between.happen(world)
        again = command(world, scene.words, stage.said_to, between.set_clock)
        told = f"{where}, {between.name}, then run again"
        if again.broke or (again.code != 0 and not is_done):
            tally.violate(f"{told}: {again}")
        check.now(tally, told, world)
        check.finished(tally, told, world)
        swept(tally, where, stage)
    return died.code == 0


def swept(tally: Tally, where: str, stage: Stage) -> None:
    """Check that nothing half made stays: what is old goes when its like is made there again."""
    world = stage.world
    if not litter(world):
        return
    for words in (stage.scene.words, *_LATER):
        command(world, words, stage.said_to, two_hours_later)
    if left := sorted({each.name for each in litter(world)}):
        tally.violate(f"{where}: still there after later commands: {left[:2]}")
