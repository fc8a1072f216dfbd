"""A stranger without a lock who appends one whole line at the worst moment.

At every step of a repair: the line is carried over, and stands once. Between the writer's look at
the log and its write: the writer still says the truth about where its record stands, and the next
``append_after`` is shown the stranger's record and no damage that is not there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from turnlog.storage.reader import Placed
from turnlog.storage.repair import repair
from turnlog.storage.writer import LogWriter

from . import shim
from .arena import Arena
from .child import Tell, run_child
from .made import judge, made, made_line, read
from .scenes import DAMAGED, DAMAGED_RECORDS, OLD
from .tally import Tally

_STRANGER = made_line("stranger", 0)


def run(arena: Arena) -> list[Tally]:
    return [_stranger_in_repair(arena), _between_look_and_write(arena)]


def _stranger_in_repair(arena: Arena) -> Tally:
    """At every file a repair opens or renames, a stranger appends one whole line to the log."""
    tally = Tally("crowd: a stranger during repair")
    with arena.directory("stranger") as directory:
        path = directory / "log.jsonl"
        for step in range(1, 200):
            for other in directory.iterdir():
                other.unlink()
            path.write_bytes(DAMAGED + b"\n")
            told, status = run_child(lambda tell, step=step: _intrude(path, step, tell))
            if ["intruded"] not in told:
                break
            tally.runs += 1
            where = f"appended at step {step} of a repair"
            if status != 0:
                tally.violate(f"{where}: {told[-1:]}")
            with tally.guarded(where):
                must = [*DAMAGED_RECORDS, _STRANGER]
                tally.acknowledged += len(must)
                judge(tally, where, read(path), must, must)
    return tally


def _intrude(path: Path, step: int, tell: Tell) -> None:
    steps = iter(range(1, 1000))
    busy = False

    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        nonlocal busy
        if busy or event not in ("open", "os.rename"):
            return
        busy = True
        if next(steps) == step:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.write(fd, _STRANGER + b"\n")
            os.close(fd)
            tell("intruded")
        busy = False

    sys.addaudithook(hook)
    repair(path, write=True)


def _between_look_and_write(arena: Arena) -> Tally:
    tally = Tally("crowd: a stranger just before a write")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    before = b"".join(line + b"\n" for line in OLD)
    new = [made_line("new", number) for number in range(2)]
    with arena.directory("between", memory=True) as directory:
        path = directory / "log.jsonl"
        for torn in (b"", b'{"type":'):
            path.write_bytes(before + torn)
            told, status = run_child(lambda tell: _append_behind(path, tell))
            tally.runs += 1
            where = f"behind a stranger{', torn tail' if torn else ''}"
            if status != 0:
                tally.violate(f"{where}: {told[-1:]}")
            tally.acknowledged += 2
            with tally.guarded(where):
                must = [*OLD, _STRANGER, *new]
                # Onto a torn tail the stranger glues its line by itself.
                glued = [_STRANGER] if torn else []
                judge(tally, where, read(path), must, must, glued_by_others=glued)
                data = path.read_bytes()
                for offset, length, line in (word[1:] for word in told if word[0] == "placed"):
                    if data[offset : offset + length].decode() != line:
                        tally.violate(f"{where}: the record does not stand where append said")
                news = [word[1:] for word in told if word[0] == "news"]
                if ["stranger#0"] not in news:
                    tally.violate(f"{where}: append_after was not shown the stranger: {news}")
                if ["damage"] in news:
                    tally.violate(f"{where}: append_after was shown damage that is not there")
    return tally


def _append_behind(path: Path, tell: Tell) -> None:
    def decide(news) -> list[dict]:
        for item in news.items:
            tell("news", item.record.uuid if isinstance(item, Placed) else "damage")
        return [made("new", 1)]

    with LogWriter(path, seen=path.stat().st_size) as log:
        shim.intruder(_STRANGER + b"\n")
        shim.arm(path.name, shim.WRITE, 1, shim.PRECEDE, 0)
        offset, length = log.append(made("new", 0))
        tell("placed", offset, length, made_line("new", 0).decode())
        offset, length = log.append_after(decide)[0]
        tell("placed", offset, length, made_line("new", 1).decode())
