"""A real disk that loses pages: ext4 in a sparse file on a tmpfs that is full.

The file system believes it has room; the tmpfs below it does not. Writing back fails, the first
sync that fails may be followed, or even preceded, by one that says success although the data is
gone. Needs root, loop devices and mkfs.ext4. Must hold: no acknowledgement after the first failure
on that handle; when the disk is sound again, a fresh handle works, and what was acknowledged while
the disk was sound is there. (What a disk said it had saved, and had not, nobody can promise.)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from turnlog.errors import ClosedLog, LogError
from turnlog.storage.writer import LogWriter

from .arena import Arena, CannotMount, command, is_root, mounted, say, small_disk
from .child import Tell, run_child
from .made import judge, made, made_line, read
from .small_disks import fill
from .tally import Tally

_SIZE = 40_000
_RECORDS = 400


def run(arena: Arena) -> list[Tally]:
    say("eio: a disk that really loses pages")
    tally = Tally("eio: ext4 on a full tmpfs")
    if not is_root():
        return [tally.skip("needs root")]
    if shutil.which("mkfs.ext4") is None:
        return [tally.skip("no mkfs.ext4")]
    for number in range(arena.count(3, 1)):
        try:
            with arena.directory("lying") as directory:
                _lose_pages(tally, directory, number)
        except CannotMount as why:
            tally.skip(str(why))
            break
    return [tally]


def _lose_pages(tally: Tally, directory: Path, number: int) -> None:
    with small_disk(directory / "below", "size=24m") as below:
        image = below / "image"
        with image.open("wb") as file:
            file.truncate(64 * 1024 * 1024)
        options = ("-q", "-F", "-E", "nodiscard,lazy_itable_init=0", "-O", "^has_journal")
        made_disk = command("mkfs.ext4", *options, str(image))
        if made_disk.returncode:
            raise CannotMount(made_disk.stderr.strip()[:60])
        disk = directory / "disk"
        loop = ("-o", "loop,nodioread_nolock", str(image))
        with mounted(disk, *loop):
            path = disk / "log.jsonl"
            with LogWriter(path) as log:
                log.append(made("lying", 0, _SIZE))
            os.sync()  # The disk's own tables get their room while there is some.
            filler = below / "filler"
            told, status = run_child(lambda tell: _append_until_lost(path, filler, tell))
            filler.unlink(missing_ok=True)
        # The page cache still shows what the disk lost: look again after mounting anew.
        command("e2fsck", "-fy", str(image))
        with mounted(disk, *loop):
            _check(tally, f"run {number}", path, told, status)


def _append_until_lost(path: Path, filler: Path, tell: Tell) -> None:
    log = LogWriter(path)
    fill(filler)
    for number in range(1, _RECORDS):
        try:
            log.append(made("lying", number, _SIZE))
            tell("ack", number)
        except LogError as error:
            tell("lost", type(error).__name__)
            break
    for again in (lambda: log.append(made("lying", _RECORDS, 10)), log.sync):
        try:
            again()
            tell("went on")
        except ClosedLog:
            tell("refused")


def _check(tally: Tally, where: str, path: Path, told: list, status: int | None) -> None:
    tally.runs += 1
    if status != 0:
        tally.violate(f"{where}: {told[-1:]}")
    if ["lost", "SyncFailed"] not in told:
        tally.violate(f"{where}: the sync did not fail: {told[-3:]}")
    if ["went on"] in told:
        tally.violate(f"{where}: the handle went on after a failed sync")
    tally.acknowledged += 2
    written = [made_line("lying", number, _SIZE) for number in range(_RECORDS)]
    after = made_line("after", 0)
    with tally.guarded(where):
        judge(tally, where, read(path), written[:1], written)
        with LogWriter(path, lock_timeout=0) as log:
            log.append(made("after", 0))
        must = [written[0], after]
        judge(tally, f"{where}, then appended", read(path), must, [*written, after])
