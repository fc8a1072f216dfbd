"""A disk that is really full: a small tmpfs with room for so many pages, or files, and no more.

Every command is run at every such level until it succeeds. Before that it fails as commands do,
with exit code 3, an error and a hint; what it was to keep safe is where it was, or where it was to
go; and with room again the same command does its work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .arena import Arena, CannotMount, say, small_disk
from .safekeeping_checks import contents, differences, is_litter, state_of
from .safekeeping_failing import judge_failure
from .safekeeping_kills import Stage, staged, swept
from .safekeeping_scenes import Scene
from .safekeeping_world import World, command, is_cache, world_at
from .small_disks import fill
from .tally import Tally

Leave = Callable[[Path, int], None]

_PAGE = 4096
_PAGES = (*range(24), *range(24, 60, 3), *range(60, 160, 10))
_FILES = range(40)
_DISK = "size=4m,nr_inodes=400,mode=0700"
_MOVES = ("delete", "prune", "trash", "restore", "unarchive")


def sweep(arena: Arena, scene: Scene, directory: Path) -> list[Tally]:
    """Play a scene on a disk with more and more room, until there is enough."""
    pages = Tally(f"safekeeping: full, {scene.name}")
    files = Tally(f"safekeeping: no inodes, {scene.name}")
    say(pages.fault)
    rng = arena.rng(pages.fault)
    try:
        with (
            small_disk(directory / "disk", _DISK) as disk,
            world_at(disk) as world,
            pages.guarded("the scene"),
        ):
            stage = staged(scene, world, directory, pages)
            levels = sorted(rng.sample(_PAGES[:30], 3)) if arena.slice else _PAGES
            _levels(pages, stage, disk, levels, _leave_pages)
            levels = rng.sample(_FILES[:8], 1) if arena.slice else _FILES
            _levels(files, stage, disk, levels, _leave_files)
    except CannotMount as why:
        return [pages.skip(str(why))]
    return [pages, files]


def _leave_pages(disk: Path, count: int) -> None:
    filler = disk / "filler"
    fill(filler)
    with open(filler, "r+b") as file:
        file.truncate(max(0, os.path.getsize(filler) - count * _PAGE))


def _leave_files(disk: Path, count: int) -> None:
    """Take every inode but *count*; directories need one each, too."""
    (disk / "fillers").mkdir()
    made = []
    try:
        while True:
            made.append(disk / "fillers" / str(len(made)))
            made[-1].touch()
    except OSError:
        made.pop()
    for path in made[len(made) - count :]:
        path.unlink()


def _make_room(disk: Path) -> None:
    (disk / "filler").unlink(missing_ok=True)
    if (disk / "fillers").exists():
        for path in (disk / "fillers").iterdir():
            path.unlink()
        (disk / "fillers").rmdir()


def _levels(tally: Tally, stage: Stage, disk: Path, levels: Iterable[int], leave: Leave) -> None:
    enough = 0
    for level in levels:
        enough = enough + 1 if _at_level(tally, stage, disk, level, leave) else 0
        if enough == 2:
            return


def _at_level(tally: Tally, stage: Stage, disk: Path, level: int, leave: Leave) -> bool:
    world, words, check = stage.world, stage.scene.words, stage.check
    where = f"room for {level}"
    world.load(stage.saved)
    before = _files(world)
    leave(disk, level)
    done = command(world, words, stage.said_to)
    tally.runs += 1
    with tally.guarded(where):
        check.now(tally, where, world)
        is_done = not differences(state_of(world), check.final)
        if done.code == 0 and not is_done:
            tally.violate(f"{where}: said that all was well: {done.out[-300:]!r}")
        elif done.code != 0:
            judge_failure(tally, where, done)
            if done.code != 3 or "hint: " not in done.err:
                tally.violate(f"{where}: exit code {done.code}, {done.err[-200:]!r}")
            if words[0] not in _MOVES and not before.items() <= _files(world).items():
                tally.violate(f"{where}: the originals were touched")
    _make_room(disk)
    with tally.guarded(f"{where}, then room"):
        again = command(world, words, stage.said_to)
        if again.broke or (again.code != 0 and not is_done):
            tally.violate(f"{where}, then room: {again}")
        check.now(tally, f"{where}, then room", world)
        check.finished(tally, f"{where}, then room", world)
        swept(tally, where, stage)
    return done.code == 0


def _files(world: World) -> dict[str, bytes]:
    """Give what lies in the home, but for what can be made again."""
    return {
        name: data
        for name, data in contents(world).items()
        if name.startswith("home/") and not is_cache(name[5:]) and not is_litter(name)
    }
