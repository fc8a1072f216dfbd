"""A part of a home that cannot be read while a command looks for what it may remove.

A directory without rights (EACCES), on a failing disk (EIO), behind a link to a volume that is not
mounted, and a mount point with nothing mounted: whatever a removing command does then, every file
of the home, the mirror and the trash is where it was, and the command says what it could not read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnlog.keep.trash.trash import Trash

from . import shim
from .arena import Arena, CannotMount, mounted, say
from .safekeeping_checks import precious
from .safekeeping_world import (
    AGENT,
    FLAT,
    KEY,
    LOST,
    MAIN,
    ONE,
    TWO,
    World,
    build,
    command,
    must,
    turns,
    world_at,
)
from .tally import Tally

_BARN = "projects/-srv-barn"
_AWAY = "11115555-5555-4555-8555-555555555555"
"""A session that lives in another project; its id begins like that of ONE."""
_TOLD = re.compile(r"cannot be read|may be in|permission denied|input/output error|is gone")
_VERSION = 0x20080522
_RIGHTS_OF_ROOT = 1 << 1 | 1 << 2  # To write, and to read, whatever the bits say.


# -- ways to hide a directory ---------------------------------------------------------------


@dataclass(frozen=True)
class Hiding:
    """A way to hide a directory of the home from a command; *first* is done in its process."""

    name: str
    hide: Callable[[Path], AbstractContextManager[None]]
    first: Callable[[Path], None] = lambda _path: None
    is_told: bool = True
    """The system says that it cannot be read. A mount point is merely empty."""

    def covers(self, name: str, removal: _Removal) -> bool:
        """Tell whether a file must stay: all do, but what is in sight where nobody is told."""
        if self.is_told:
            return True
        named = [word for word in removal.words if word in (ONE, FLAT)]
        return any(each in name for each in (ONE, TWO, _AWAY, LOST) if each not in named)


def _drop_rights(_path: Path) -> None:
    """Let permission bits count for this process, also if root runs it."""
    libc = ctypes.CDLL(None)
    header = struct.pack("<Ii", _VERSION, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    effective, *rest = struct.unpack("<6I", held.raw)
    if libc.capset(header, struct.pack("<6I", effective & ~_RIGHTS_OF_ROOT, *rest)):
        raise OSError("the rights of root cannot be given up")


@contextmanager
def _without_rights(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        yield
    finally:
        path.chmod(mode)


@contextmanager
def _as_it_is(_path: Path) -> Iterator[None]:
    yield


@contextmanager
def _behind_a_link(path: Path) -> Iterator[None]:
    """Move the directory away and leave a link to a volume that is not there."""
    away = Path(os.environ["TURNLOG_HOME"]).parent / "away"
    path.rename(away)
    path.symlink_to("/nonexistent/volume")
    try:
        yield
    finally:
        path.unlink()
        away.rename(path)


@contextmanager
def _covered(path: Path) -> Iterator[None]:
    """Let an empty directory stand where the volume was mounted."""
    with mounted(path, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        yield


def _fail(path: Path) -> None:
    shim.arm(os.fspath(path), shim.OPENDIR, 0, shim.FAIL, errno.EIO)


def _hidings() -> Iterator[Hiding]:
    yield Hiding("no rights", _without_rights, _drop_rights)
    if shim.is_here():
        yield Hiding("failing disk", _as_it_is, _fail)
    yield Hiding("dangling link", _behind_a_link)


# -- what is run ----------------------------------------------------------------------------


def _kept(world: World) -> None:
    must(world, "keep", "--quiet")


def _half_deleted(world: World) -> None:
    """Leave a session's log in its home, and all else of it in the trash."""
    must(world, "delete", ONE, "--yes")
    (trashed,) = Trash(world.own).entries()
    log = world.own / "trash" / trashed.name / "home" / MAIN
    world.path(MAIN).parent.mkdir(parents=True, exist_ok=True)
    log.rename(world.path(MAIN))


@dataclass(frozen=True)
class _Removal:
    words: tuple[str, ...]
    before: tuple[Callable[[World], None], ...] = ()
    hidden: tuple[str, ...] = (_BARN, "projects")

    @property
    def name(self) -> str:
        return " ".join(word[:8] for word in self.words)


_PRUNE = ("prune", "--days", "30", "--yes")
_REMOVALS = (
    _Removal(("prune", "--orphans", "--yes")),
    _Removal(("prune", "--orphans", "--yes"), (_kept,)),
    _Removal(_PRUNE),
    _Removal((*_PRUNE, "--orphans"), (_kept,)),
    _Removal((*_PRUNE, "--archive-first")),
    _Removal(("delete", ONE, "--yes"), (_kept,)),
    _Removal(("delete", "1111", "--yes")),
    _Removal(("delete", "latest", "--yes")),
    _Removal(("delete", FLAT, "--yes"), (_kept,)),
    _Removal(("archive", ONE, "--remove", "--yes")),
    _Removal(("archive", FLAT), (), (f"sessions/{FLAT}/subagents",)),
    _Removal(("compact", ONE, "--yes")),
    _Removal(("trash", "empty", "--all", "--yes"), (_half_deleted,), (KEY, "projects")),
    _Removal(("delete", ONE, "--yes"), (), (str(Path(AGENT).parent),)),
)


def run(arena: Arena) -> list[Tally]:
    return [_unreadable(arena), _unmounted(arena)]


def _unreadable(arena: Arena) -> Tally:
    tally = Tally("partial visibility: unreadable")
    if not shim.is_here():
        tally.skip(f"EIO: {shim.MISSING}")
    with arena.directory("visibility", memory=True) as directory, world_at(directory) as world:
        for hiding in _hidings():
            for removal in _REMOVALS:
                for hidden in removal.hidden:
                    _play(tally, world, removal, hidden, hiding)
    return tally


def _unmounted(arena: Arena) -> Tally:
    tally = Tally("partial visibility: not mounted")
    hiding = Hiding("not mounted", _covered, is_told=False)
    with arena.directory("visibility", memory=True) as directory, world_at(directory) as world:
        try:
            for removal in _REMOVALS:
                if "projects" in removal.hidden:
                    _play(tally, world, removal, "projects", hiding)
        except CannotMount as error:
            tally.skip(str(error))
    return tally


def _play(tally: Tally, world: World, removal: _Removal, hidden: str, hiding: Hiding) -> None:
    """Run a command while a directory is hidden; nothing may be gone, or be said to be."""
    where = f"{removal.name}, {hidden}: {hiding.name}"
    say(f"{tally.fault}: {where}")
    said_to = world.root / "said"
    said_to.mkdir(exist_ok=True)
    build(world)
    _add_barn(world)
    for prepare in removal.before:
        prepare(world)
    wanted = {name: data for name, data in precious(world).items() if hiding.covers(name, removal)}
    path = world.path(hidden)
    with hiding.hide(path):
        done = command(world, removal.words, said_to, lambda: hiding.first(path))
    tally.runs += 1
    tally.acknowledged += len(wanted)
    with tally.guarded(where):
        there = precious(world)
        gone = [name for name, data in wanted.items() if there.get(name) != data]
        # Half of a session is as bad: nothing of it may be in the trash, wherever the rest is.
        new = (name for name in there.keys() - wanted.keys() if "/trash/" in name)
        moved = [name for name in new if hiding.covers(name, removal)]
        if gone or moved:
            tally.lose(f"{where}: {[*gone, *moved][:3]}, {done}", len(gone) + len(moved))
    if done.broke or done.code is None:
        tally.violate(f"{where}: {done}")
    elif done.code == 0 and hiding.is_told and not _TOLD.search(done.out):
        tally.violate(f"{where}: said nothing: {done}")


def _add_barn(world: World) -> None:
    """Add the session that is out of sight, and what lies beside it in sight."""
    world.put(f"{_BARN}/{_AWAY}.jsonl", turns(_AWAY, 0, 4))
    world.put(f"{_BARN}/{_AWAY}/subagents/agent-a1.jsonl", turns(_AWAY, 0, 2, agentId="a1"))
    world.put(f"todos/{_AWAY}-agent-{_AWAY}.json", b"[]")
    world.put(f"file-history/{_AWAY}/0a1b@v1", b"before")
    world.put(f"tasks/{_AWAY}/1.json", b"{}")
