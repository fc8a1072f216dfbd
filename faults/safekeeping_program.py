"""The program itself, with all its threads, killed at random moments.

What is swept call by call runs in one thread, forked from here. This is the command as a shell
starts it; most of its time goes by before it does anything, so moments are chosen from the rest.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from .arena import Arena, plain_environment, say
from .safekeeping_checks import differences, state_of
from .safekeeping_kills import Stage, staged, swept
from .safekeeping_scenes import Scene
from .safekeeping_world import command, words_of, world_at
from .tally import Tally

_BEGINS = 0.4  # So much of its time the program takes to start.


def run(arena: Arena, scenes: list[Scene], directory: Path) -> Tally:
    """Kill the program at random moments, in each of *scenes*."""
    tally = Tally("safekeeping: the program, random moments")
    rng = arena.rng(tally.fault)
    ended = 0
    for scene in scenes:
        say(f"{tally.fault}, {scene.name}")
        with tally.guarded(scene.name), world_at(directory) as world:
            stage = staged(scene, world, directory, tally)
            world.load(stage.saved)
            began = time.monotonic()
            _started(stage).wait()
            usual = time.monotonic() - began
            for _ in range(arena.count(40, 2)):
                ended += _kill(tally, stage, usual, rng)
    if ended == tally.runs:
        tally.violate("every program had ended before it was killed: this tested little")
    return tally


def _started(stage: Stage) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "turnlog.cli", *words_of(stage.world, stage.scene.words)]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=nowhere, stderr=nowhere, env=plain_environment())


def _kill(tally: Tally, stage: Stage, usual: float, rng: random.Random) -> bool:
    """Kill the program once and run its command again; tell whether it had ended before."""
    world, check = stage.world, stage.check
    moment = usual * (_BEGINS + rng.random() * (1.1 - _BEGINS))
    where = f"{stage.scene.name}: killed after {moment:.3f} of {usual:.3f} s"
    world.load(stage.saved)
    program = _started(stage)
    time.sleep(moment)
    program.kill()
    status = program.wait()
    tally.runs += 1
    with tally.guarded(where):
        check.now(tally, where, world)
        is_done = not differences(state_of(world), check.final)
        again = command(world, stage.scene.words, stage.said_to)
        if again.broke or (again.code != 0 and not is_done):
            tally.violate(f"{where}, then run again: {again}")
        check.now(tally, where, world)
        check.finished(tally, f"{where}, then run again", world)
        swept(tally, where, stage)
    return status == 0
