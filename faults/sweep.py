"""SIGKILL at every system call of every operation, one after the other, by strace.

Operations: create and append, append, append to a torn tail, append_many, append_after, buffered
appends, repair. After every kill: all acknowledged records are there, whole and in order; nothing
is there that nobody wrote; no lock is left behind; the next append succeeds and is whole. After a
killed repair the log is the old one or the new one, to the byte, and if it is the new one then
the original and the quarantine stand beside it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter

from .arena import Arena, say
from .made import judge, made, made_line, read
from .scenes import DAMAGED, DAMAGED_RECORDS, REPAIR, SCENES, Scene
from .tally import Tally
from .tracing import Traced, works

NEXT = made_line("next", 0)
_REPAIRED = b"".join(line + b"\n" for line in DAMAGED_RECORDS)


def run(arena: Arena) -> list[Tally]:
    tallies = []
    with arena.directory("sweep") as root:
        why = works(root)
        for scene in (*SCENES, REPAIR):
            tally = Tally(f"sweep: {scene.name}")
            tallies.append(tally)
            if why:
                tally.skip(why)
                continue
            say(f"sweep: {scene.name}")
            for directory, told, where in _kills(scene, root, tally):
                with tally.guarded(where):
                    if scene is REPAIR:
                        _check_repair(tally, where, scene.log(directory), told)
                    else:
                        _check(tally, where, scene, directory, told)
    return tallies


def _kills(scene: Scene, root: Path, tally: Tally) -> Iterator[tuple[Path, list, str]]:
    """Run *scene* to its end once, then once for every call that run made, killed at that call."""
    counts: Counter[str] = Counter()
    directory, told, clean, _ = _once(scene, root)
    for call in clean.calls():
        counts[call.name] = call.nth
    yield directory, told, "not killed"
    shutil.rmtree(directory)
    for name, count in counts.items():
        number = 0
        survived = False
        # The clean run says how many calls to expect; go on until a run outlives its killer.
        while not survived and number < 2 * count + 5:
            number += 1
            inject = ("-e", f"inject={name}:signal=SIGKILL:when={number}")
            directory, told, _, survived = _once(scene, root, *inject)
            tally.runs += 1
            yield directory, told, f"killed at {name} number {number}"
            shutil.rmtree(directory)


def _once(scene: Scene, root: Path, *inject: str) -> tuple[Path, list, Traced, bool]:
    directory = root / "scene"
    directory.mkdir()
    log = scene.prepare(directory)
    traced = Traced(lambda tell: scene.work(log, tell), root / "trace", *inject)
    traced.go()
    told = traced.end()
    return directory, told, traced, traced.child.status == 0


def _check(tally: Tally, where: str, scene: Scene, directory: Path, told: list) -> None:
    log = scene.log(directory)
    if failed := [word for word in told if word[0] == "failed"]:
        tally.violate(f"{where}: {failed[0]}")
    count = max((word[1] for word in told if word[0] == "ack"), default=0)
    acknowledged = [*scene.kept, *scene.tries[:count]]
    written = [*scene.kept, *scene.tries, NEXT]
    tally.acknowledged += count
    before = log.read_bytes() if log.exists() else b""
    if not before.startswith(scene.before or b""):
        tally.violate(f"{where}: what stood in the log before has changed")
    if before:
        seen = read(log)
        judge(tally, where, seen, acknowledged, written)
        fragments = len(seen.damage) + (1 if seen.pending else 0)
        if fragments > 1:
            tally.violate(f"{where}: {fragments} fragments")
    elif acknowledged:
        tally.lose(f"{where}: the log is not there", len(acknowledged))
    # Without waiting: a lock that outlived its holder would be noticed here.
    with LogWriter(log, lock_timeout=0) as writer:
        writer.append(made("next", 0))
    after = log.read_bytes()
    if not after.startswith(before):
        tally.violate(f"{where}: the next append changed what stood there")
    judge(tally, f"{where}, then appended", read(log), [*acknowledged, NEXT], written)
    if log.stat().st_mode & 0o077 and scene.before is None:
        tally.violate(f"{where}: the log is readable by others")


def _check_repair(tally: Tally, where: str, log: Path, told: list) -> None:
    if failed := [word for word in told if word[0] == "failed"]:
        tally.violate(f"{where}: {failed[0]}")
    now = log.read_bytes()
    originals = [path.read_bytes() for path in log.parent.glob("log.jsonl.original-*")]
    if now == _REPAIRED:
        if DAMAGED not in originals:
            tally.violate(f"{where}: repaired, but the original is gone")
        if not any(log.parent.glob("log.jsonl.quarantine-*")):
            tally.violate(f"{where}: repaired, but nothing was quarantined")
    elif now != DAMAGED:
        tally.violate(f"{where}: the log is neither the old one nor the new one")
    elif told:
        tally.violate(f"{where}: the repair was reported but did not happen")
    tally.acknowledged += len(DAMAGED_RECORDS)
    written = [*DAMAGED_RECORDS, NEXT]
    before = DAMAGED_RECORDS
    judge(tally, where, read(log), before, written, glued_by_others=before)
    with LogWriter(log, lock_timeout=0) as writer:
        writer.append(made("next", 0))
    where_next = f"{where}, then appended"
    judge(tally, where_next, read(log), written, written, glued_by_others=before)
    repair(log, write=True, lock_timeout=0)
    seen = read(log)
    judge(tally, f"{where}, then repaired", seen, written, written)
    if seen.damage or seen.pending:
        tally.violate(f"{where}: a second repair leaves damage")
