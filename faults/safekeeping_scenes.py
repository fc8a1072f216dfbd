"""What is done to the world while faults are injected: one command each, and what comes before."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .safekeeping_world import (
    AGENT,
    FLAT,
    KEY,
    MAIN,
    ONE,
    World,
    build,
    main_log,
    must,
    said,
    turns,
)

Prepare = Callable[[World], None]


@dataclass(frozen=True)
class Scene:
    """A command, and what makes the world it is run in."""

    name: str
    words: tuple[str, ...]
    before: tuple[Prepare, ...] = field(default=())
    is_apart: bool = False
    """turnlog's own home lies on another file system."""
    is_purge: bool = False
    """What is in the trash is to go for good."""
    is_by_times: bool = False
    """Files that were touched, or will be, are not old enough."""
    replaced: str = ""
    """A file that is to go, since turnlog made it of one that is there still."""

    def prepare(self, world: World) -> None:
        build(world)
        for step in self.before:
            step(world)


def _do(*words: str) -> Prepare:
    return lambda world: must(world, *words)


def _grow(world: World) -> None:
    world.put(MAIN, main_log() + turns(ONE, 8, 12), after=60)
    world.put(AGENT, world.path(AGENT).read_bytes() + said(ONE, 4, agentId="a1"), after=60)


def _rewrite(world: World) -> None:
    """Shrink the log, and change another that stays as long as it was."""
    world.put(MAIN, turns(ONE, 0, 3, gitBranch="rewritten"), after=60)
    data = world.path(AGENT).read_bytes()
    world.put(AGENT, data.replace(b"wheel", b"stone"), after=60)


def _empty(world: World) -> None:
    """Lose what the log held."""
    world.put(MAIN, b"", after=60)


def _lose_catalogue(world: World) -> None:
    for path in world.own.glob("kept/*/catalogue.json"):
        path.unlink()


def _lose_session(world: World) -> None:
    """What an agent's own cleanup takes: the log and what lies beside it."""
    for path in (world.path(KEY), world.home / "todos", world.home / "file-history"):
        for each in sorted(path.rglob("*"), reverse=True):
            if ONE in str(each):
                each.unlink() if each.is_file() else each.rmdir()


def _lose_flat(world: World) -> None:
    """Without the flat store, whose registry changes when a session goes, and is kept anew then."""
    shutil.rmtree(world.home / "sessions")


def _lose_home(world: World) -> None:
    shutil.rmtree(world.home)


_KEPT = _do("keep", "--quiet")
_PRUNE = ("prune", "--days", "30", "--yes")


def scenes() -> Iterator[Scene]:
    """Give all of them."""
    keep = ("keep", "--quiet")
    yield Scene("keep, the first", keep)
    yield Scene("keep, grown", keep, (_KEPT, _grow))
    yield Scene("keep, a new generation", keep, (_KEPT, _rewrite))
    yield Scene("keep, catalogue lost", keep, (_KEPT, _rewrite, _KEPT, _grow, _lose_catalogue))
    yield Scene("archive", ("archive", ONE))
    yield Scene("archive --remove", ("archive", ONE, "--remove", "--yes"))
    yield Scene(
        "archive --remove, kept before", ("archive", ONE, "--remove", "--yes"), (_KEPT, _grow)
    )
    yield Scene("unarchive", ("unarchive", ONE), (_do("archive", ONE, "--remove", "--yes"),))
    yield Scene("archive, flat", ("archive", FLAT))
    yield Scene("unarchive, flat", ("unarchive", FLAT), (_do("archive", FLAT),))
    yield Scene("restore", ("restore", ONE), (_KEPT, _lose_session))
    yield Scene("restore --all", ("restore", "--all"), (_KEPT, _lose_home))
    moved = ("restore", ONE, "--for", "/srv/new")
    yield Scene("restore --for", moved, (_KEPT, _lose_session))
    replace = ("restore", ONE, "--force")
    yield Scene("restore --force", replace, (_KEPT, _empty))
    yield Scene("prune", _PRUNE, (_KEPT,))
    yield Scene("prune --archive-first", (*_PRUNE, "--archive-first"), (_lose_flat,))
    yield Scene("prune --orphans", (*_PRUNE, "--orphans"), is_by_times=True)
    compact = ("compact", ONE, "--yes")
    yield Scene("compact", compact)
    yield Scene("compact --blobs", (*compact, "--blobs"))
    yield Scene("compact, flat", ("compact", FLAT, "--yes"), (_repeat_flat,))
    yield Scene("compact --undo", (*compact, "--undo"), (_do(*compact, "--blobs"),), replaced=MAIN)
    yield Scene("delete", ("delete", ONE, "--yes"), (_KEPT, _rewrite, _KEPT))
    yield Scene("delete, flat", ("delete", FLAT, "--yes"), (_KEPT,))
    delete = _do("delete", ONE, "--yes")
    yield Scene("trash restore", ("trash", "restore", ONE), (_KEPT, delete))
    flat = _do("delete", FLAT, "--yes")
    yield Scene("trash restore, flat", ("trash", "restore", FLAT), (_KEPT, flat))
    empty = ("trash", "empty", "--all", "--yes")
    yield Scene("trash empty", empty, (_KEPT, delete, flat), is_purge=True)
    yield Scene("delete, apart", ("delete", ONE, "--yes"), (_KEPT,), is_apart=True)
    restore = ("trash", "restore", ONE)
    yield Scene("trash restore, apart", restore, (_KEPT, delete), is_apart=True)
    yield Scene("archive --remove, apart", ("archive", ONE, "--remove", "--yes"), is_apart=True)


def _repeat_flat(world: World) -> None:
    """Say something in the flat store's log twice."""
    name = f"sessions/{FLAT}.jsonl"
    data = world.path(name).read_bytes()
    lines = data.splitlines(keepends=True)
    world.put(name, b"".join((*lines[:2], lines[1], *lines[2:], lines[-1][:0])), after=60)
