"""Disks that are really full: a tmpfs of 64 KiB, and one with six inodes. Needs root.

Must hold: StorageFull, nothing that stood in the log changes, and the same handle works as soon as
there is room, also if its log was removed meanwhile and could not be made anew at first.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from turnlog.errors import StorageFull
from turnlog.storage.writer import LogWriter

from .arena import Arena, CannotMount, small_disk
from .child import Tell, run_child
from .made import judge, made, made_line, read
from .tally import Tally

_OLD = [made_line("old", number) for number in range(2)]
_NEW = [made_line("new", number, 300) for number in range(2)]
_BEFORE = b"".join(line + b"\n" for line in _OLD)


def run(arena: Arena) -> list[Tally]:
    tallies = []
    for name, work in (
        ("full: small disk", _by_small_disk),
        ("full: no inodes", _by_inodes),
    ):
        tally = Tally(name)
        try:
            work(arena, tally)
        except CannotMount as why:
            tally.skip(str(why))
        tallies.append(tally)
    return tallies


def fill(filler: Path) -> None:
    """Write *filler* until the disk it is on is full."""
    fd = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError:
        pass
    finally:
        os.close(fd)


def _by_small_disk(arena: Arena, tally: Tally) -> None:
    with (
        arena.directory("small") as directory,
        small_disk(directory / "disk", "size=64k,mode=0700") as disk,
    ):
        path, filler = disk / "log.jsonl", disk / "filler"
        for number in range(arena.count(200, 20)):
            path.write_bytes(_BEFORE + b"x" * (number * 20 % 4096) + b"\n" * bool(number % 2))
            before = path.read_bytes()

            def work(tell: Tell) -> None:
                with LogWriter(path) as log:
                    fill(filler)
                    for size in (300, 9000, 20_000):
                        try:
                            log.append(made("big", 0, size))
                            tell("fit", size)
                        except StorageFull as error:
                            tell("full", error.errno)
                    filler.unlink()
                    log.append(made("new", 1, 300))
                    tell("ack", 2)

            told, status = run_child(work)
            where = f"disk full, run {number}"
            tally.runs += 1
            if status != 0:
                tally.violate(f"{where}: {told[-1:]}")
            if ["full", errno.ENOSPC] not in told:
                tally.violate(f"{where}: StorageFull was not raised: {told}")
            if not path.read_bytes().startswith(before):
                tally.violate(f"{where}: what stood in the log before has changed")
            fitted = [made_line("big", 0, size) for kind, size in told if kind == "fit"]
            tally.acknowledged += len(fitted) + 1
            with tally.guarded(where):
                must = [*_OLD, *fitted, _NEW[1]]
                judge(tally, where, read(path), must, must)
            filler.unlink(missing_ok=True)
            path.unlink()


def _by_inodes(arena: Arena, tally: Tally) -> None:
    for below in ("", "project/session"):
        with (
            arena.directory("inodes") as directory,
            small_disk(directory / "disk", "size=1m,nr_inodes=6,mode=0700") as disk,
        ):
            fillers = []
            while True:
                filler = disk / f"filler{len(fillers)}"
                try:
                    filler.touch()
                except OSError:
                    break
                fillers.append(filler)
            path = disk / below / "log.jsonl"
            where = f"no inode left for {below or 'the log'}"
            try:
                LogWriter(path)
                tally.violate(f"{where}: it was opened all the same")
            except StorageFull:
                pass
            except OSError as error:
                tally.violate(f"{where}: {type(error).__name__} instead of StorageFull")
            for filler in fillers:
                filler.unlink()
            tally.runs += 1
            with tally.guarded(where), LogWriter(path) as log:
                log.append(made("new", 0, 300))
                tally.acknowledged += 1
                judge(tally, where, read(path), _NEW[:1], _NEW[:1])
