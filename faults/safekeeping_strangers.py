"""A stranger without a lock who appends one whole line at every step of a command.

It opens the log by its name, makes it if it is gone, writes, and closes, before every call by which
the command opens, renames, links or removes something. Whatever the command makes of that, the line
is found afterwards, and so is all that stood in the log.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .arena import Arena, say
from .child import Child, Tell
from .safekeeping_checks import contents, precious
from .safekeeping_scenes import Scene
from .safekeeping_world import FLAT, MAIN, World, must, ran, said, work, world_at
from .tally import Tally

_EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.utime"}
_LINE = said(FLAT, 77, "A stranger was here.")
_MOST = 2_000


def run(arena: Arena, scenes: list[Scene], directory: Path) -> Tally:
    """Play each of *scenes* once for each of its steps, or for some."""
    tally = Tally("safekeeping: a stranger at every step")
    said_to = directory / "said"
    said_to.mkdir(exist_ok=True)
    for scene in scenes:
        say(f"{tally.fault}, {scene.name}")
        with tally.guarded(scene.name), world_at(directory) as world:
            scene.prepare(world)
            world.save(directory / "saved")
            must(world, *scene.words)
            step = arena.rng(scene.name).randint(1, 40) if arena.slice else 1
            while step < _MOST and _intruded(tally, scene, world, directory, step):
                step += arena.count(1, 67)
    return tally


def _intruded(tally: Tally, scene: Scene, world: World, directory: Path, step: int) -> bool:
    """Run the command with a stranger at one step; tell whether there is such a step."""
    world.load(directory / "saved")
    wanted = precious(world)
    log = world.path(f"sessions/{FLAT}.jsonl" if FLAT in scene.words else MAIN)
    do = work(world, scene.words, directory / "said")

    def intrude(tell: Tell) -> None:
        sys.addaudithook(_Stranger(log, step, tell))
        do(tell)

    child = Child(intrude)
    told = child.end()
    if ["intruded"] not in told:
        return False
    done = ran(told, child.status, directory / "said")
    tally.runs += 1
    tally.acknowledged += len(wanted) + 1
    where = f"{scene.name}: a line at step {step}"
    if done.broke or (done.code not in (0, 1) and "error: " not in done.err):
        tally.violate(f"{where}: {done}")
    with tally.guarded(where):
        there = list(contents(world).values())
        if not any(_LINE in each for each in there):
            tally.lose(f"{where}: the line, {done}")
        gone = [
            name
            for name, data in wanted.items()
            if name != f"home/{scene.replaced}" and not any(each.startswith(data) for each in there)
        ]
        if gone:
            tally.lose(f"{where}: {gone[:3]}", len(gone))
    return True


class _Stranger:
    def __init__(self, log: Path, step: int, tell: Tell) -> None:
        self._log = log
        self._left = step
        self._tell = tell
        self._is_busy = False

    def __call__(self, event: str, _arguments: tuple[object, ...]) -> None:
        if self._is_busy or event not in _EVENTS or self._left == 0:
            return
        self._left -= 1
        if self._left:
            return
        self._is_busy = True
        try:
            fd = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(fd, _LINE)
            os.close(fd)
        except FileNotFoundError:
            pass  # Even the directory is gone.
        else:
            self._tell("intruded")
        self._is_busy = False
