"""turnlog's own home on a file system that takes names for one that differ elsewhere.

The agent's home lies on a plain file system, and has projects whose names differ in case or in how
an accent is written. The mirror lies on a real mount that ignores case (and one that normalises,
too, and has no hard links). Each file must have a copy of its own, through growth, rewrites, a lost
catalogue and deletions, and every session gets its own bytes back.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from turnlog.formats.kept_copies import kept_place
from turnlog.keep.catalog import CATALOGUE, Catalogue
from turnlog.storage.compressed import unpack

from .arena import Arena, CannotMount, command, is_root, plain_environment, say
from .safekeeping_world import World, must, turns, world_at
from .tally import Tally

_IDS = [f"6{number}666666-6666-4666-8666-66666666666{number}" for number in range(6)]
_TWICE = _IDS[0]
"""A session of which a log lies in both directories, as after a project was renamed."""
_PAIRS = {
    "case": ("-srv-Mill", "-srv-mill"),
    "accents": ("-srv-caf\u00e9", "-srv-cafe\u0301"),
    "both": ("-srv-\u00c9TUDE", "-srv-e\u0301tude"),
    "sharp s": ("-srv-stra\u00dfe", "-srv-STRASSE"),
}


def run(arena: Arena) -> list[Tally]:
    return [_on(arena, kind) for kind in ("case", "normalising")]


def _on(arena: Arena, kind: str) -> Tally:
    tally = Tally(f"foreign file systems: {kind}")
    try:
        with arena.directory("folding", memory=True) as directory, _folding(directory, kind) as own:
            for name in list(_PAIRS)[: arena.count(len(_PAIRS), 2)]:
                for is_later in (False, True):
                    where = f"{name}, {'one after the other' if is_later else 'at once'}"
                    say(f"{tally.fault}: {where}")
                    with world_at(directory, own / name) as world, tally.guarded(where):
                        _play(tally, world, where, _PAIRS[name], is_later=is_later)
                        world.clear()
    except CannotMount as error:
        tally.skip(str(error))
    return tally


@contextmanager
def _folding(directory: Path, kind: str) -> Iterator[Path]:
    """Mount such a file system."""
    if not os.path.exists("/dev/fuse"):
        raise CannotMount("no /dev/fuse")
    if importlib.util.find_spec("mfusepy") is None:
        raise CannotMount("mfusepy is not installed: make programs")
    if not is_root():
        raise CannotMount("needs root")
    below, mount = directory / "below", directory / "mount"
    below.mkdir()
    mount.mkdir()
    words = [sys.executable, "-m", "faults.folding", str(below), str(mount), kind]
    server = subprocess.Popen(words, env=plain_environment(), stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            if os.path.ismount(mount) or server.poll() is not None:
                break
            time.sleep(0.1)
        if not os.path.ismount(mount):
            raise CannotMount("the FUSE mount did not come up: make programs")
        yield mount
    finally:
        command("umount", str(mount))
        server.terminate()
        server.wait()


def _play(tally: Tally, world: World, where: str, pair: tuple[str, str], *, is_later: bool) -> None:
    """Keep two projects, change them, lose the home, and have everything back."""
    world.clear()
    files: dict[str, bytes] = {}
    for number, project in enumerate(reversed(pair) if is_later else pair):
        files |= _files(project, number)
        for each, data in files.items():
            world.put(each, data)
        if is_later:
            must(world, "keep", "--quiet")
    steps: dict[str, Callable[[], None]] = {
        "kept": lambda: None,
        "grown": lambda: _change(world, files, lambda data, more: data + more),
        "rewritten": lambda: _change(world, files, lambda data, more: more + data),
        "catalogue lost": (kept_place(world.home) / CATALOGUE).unlink,
    }
    for step, do in steps.items():
        do()
        must(world, "keep", "--quiet")
        must(world, "verify")
        _judge(tally, f"{where}, {step}", files, _kept(world))
    _restore(tally, world, where, files)
    _delete(tally, world, where, files)


def _files(project: str, number: int) -> dict[str, bytes]:
    """Give the files of one of the two projects: one session that both have, and one of its own."""
    mine = _IDS[1 + number]
    top = f"projects/{project}"
    return {
        f"{top}/{_TWICE}.jsonl": turns(_TWICE, 0, 3 + number, gitBranch=project),
        f"{top}/{_TWICE}/subagents/agent-a1.jsonl": turns(_TWICE, 0, 2, agentId="a1", slug=project),
        f"{top}/{mine}.jsonl": turns(mine, 0, 4, gitBranch=project),
        f"{top}/{mine}/tool-results/Out.txt": project.encode(),
        f"{top}/{mine}/tool-results/out.txt": project.encode() * 2,
    }


def _change(world: World, files: dict[str, bytes], how: Callable[[bytes, bytes], bytes]) -> None:
    for number, (name, data) in enumerate(list(files.items())):
        if name.endswith(".jsonl"):
            files[name] = how(data, turns(_IDS[5], number, number + 2))
            world.put(name, files[name], after=60 + len(files[name]))


def _kept(world: World) -> dict[str, bytes]:
    """Give what the newest copy of each file holds."""
    catalogue = Catalogue.of_home(world.home)
    return {
        name: b"".join(unpack(catalogue.copy_of(kept))) for name, kept in catalogue.current.items()
    }


def _judge(tally: Tally, where: str, files: dict[str, bytes], found: dict[str, bytes]) -> None:
    tally.runs += 1
    tally.acknowledged += len(files)
    wrong = [name for name, data in files.items() if found.get(name) != data]
    if wrong:
        tally.lose(f"{where}: {sorted(map(ascii, wrong))[:3]}", len(wrong))
    more = found.keys() - files.keys()
    if more:
        tally.violate(f"{where}: copies of {sorted(map(ascii, more))[:3]}")


def _in_home(world: World, files: dict[str, bytes]) -> dict[str, bytes]:
    paths = {name: world.path(name) for name in files}
    return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}


def _restore(tally: Tally, world: World, where: str, files: dict[str, bytes]) -> None:
    """Lose the home; each session that lay in one place only comes back with its own bytes."""
    shutil.rmtree(world.home)
    must(world, "restore", "--all")
    # Where a session lies in two places, which of them come back is another fault's business.
    own = {name: data for name, data in files.items() if _TWICE not in name}
    found = _in_home(world, files)
    _judge(tally, f"{where}, restored", own, {each: found[each] for each in own if each in found})
    for name, data in found.items():
        if data != files[name]:
            tally.lose(f"{where}, restored: {name!a} has other bytes")


def _delete(tally: Tally, world: World, where: str, files: dict[str, bytes]) -> None:
    """Delete the sessions and bring them back from the trash."""
    for name, data in files.items():
        world.put(name, data)
    must(world, "keep", "--quiet")
    for session in (_TWICE, *_IDS[1:3]):
        must(world, "delete", session, "--yes")
    if left := _in_home(world, files) | _kept(world):
        tally.violate(f"{where}, deleted: {sorted(map(ascii, left))[:3]} stay")
    for session in (_TWICE, *_IDS[1:3]):
        must(world, "trash", "restore", session)
    _judge(tally, f"{where}, back from the trash", files, _in_home(world, files))
    _judge(tally, f"{where}, copies back from the trash", files, _kept(world))
