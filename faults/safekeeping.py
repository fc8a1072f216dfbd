"""Safekeeping under attack: keep, archive, restore, prune, compact, delete, trash.

Kills: SIGKILL at every system call that changes something, of every command in every layout, with
files touched and clocks set before the next try (``safekeeping_kills``), and of the program as a
shell starts it, at random moments (``safekeeping_program``). Failing: calls fail once
(``safekeeping_failing``). Full: a disk with room for so many pages, or files, and no more
(``safekeeping_full``). Strangers: somebody without a lock appends at every step of a command
(``safekeeping_strangers``). Crowd: eight agents append while four programs keep, archive, prune
and compact (``safekeeping_crowd``). At no point is a byte that a session wrote neither in its place
nor in a copy that reads back, and a command that is run again finishes its job.
"""

from __future__ import annotations

from pathlib import Path

from . import (
    safekeeping_crowd,
    safekeeping_failing,
    safekeeping_full,
    safekeeping_kills,
    safekeeping_program,
    safekeeping_strangers,
)
from .arena import Arena
from .safekeeping_scenes import Scene, scenes
from .safekeeping_world import in_one_thread
from .tally import Tally
from .tracing import works

_SLICE_SCENES = 8
# Those that read a log and then do something to it, or to what is kept of it.
_INTRUDED = (
    "keep, a new generation",
    "archive --remove",
    "archive, flat",
    "prune",
    "prune --archive-first",
    "compact --blobs",
    "compact --undo",
    "delete",
)
_THREADED = ("keep, the first", "keep, a new generation", "archive --remove, kept before")


def run(arena: Arena) -> list[Tally]:
    with (
        arena.directory("safekeeping", memory=True) as directory,
        arena.directory("safekeeping-own") as elsewhere,
        in_one_thread(),
    ):
        tallies = [
            *_traced(arena, directory, elsewhere / "own"),
            *_full(arena, directory),
            safekeeping_strangers.run(arena, _chosen(*_INTRUDED), directory),
            safekeeping_program.run(arena, _chosen(*_THREADED), directory),
        ]
    return [*tallies, safekeeping_crowd.run(arena)]


def _chosen(*names: str) -> list[Scene]:
    return [scene for scene in scenes() if scene.name in names]


def _some(arena: Arena, what: str) -> list[Scene]:
    """Give all scenes; in a slice some, others with every seed."""
    found = list(scenes())
    return arena.rng(what).sample(found, arena.count(len(found), _SLICE_SCENES))


def _traced(arena: Arena, directory: Path, elsewhere: Path) -> list[Tally]:
    if why := works(directory):
        return [Tally("safekeeping: kills and failing calls").skip(why)]
    plays = [(safekeeping_kills.sweep, scene) for scene in scenes()]
    plays += [(safekeeping_failing.sweep, scene) for scene in _some(arena, "failing")]
    return [
        sweep(arena, scene, directory, elsewhere if scene.is_apart else None)
        for sweep, scene in plays
    ]


def _full(arena: Arena, directory: Path) -> list[Tally]:
    together = [scene for scene in _some(arena, "full") if not scene.is_apart]
    return [
        tally for scene in together for tally in safekeeping_full.sweep(arena, scene, directory)
    ]
