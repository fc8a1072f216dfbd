"""The ends of a host program, and a home that is rolled back under it.

A program that buffers its records ends in every orderly way there is: by returning, by signals, in
children and pools of multiprocessing, while threads write on, in exit handlers and destructors. All
that it was told is taken must be there, in sight, and in one thread.

A second loop rolls the store back to an earlier state while a writer goes on, by swapping the
directory or by writing the log in place, and lets another program write meanwhile. What is
acknowledged after that must be there; an error must be typed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import turnlog
from turnlog.errors import NotFound
from turnlog.sessions.writing import build

from .arena import Arena, say
from .host_program import ENDS
from .tally import Tally

LAYOUTS = ("claude", "dated", "flat")


def run(arena: Arena) -> list[Tally]:
    return [_ends(arena), _rolled_back(arena)]


Acknowledged = dict[str, list[str]]
"""Uuids by session."""


def check_in_sight(tally: Tally, where: str, root: Path, acknowledged: Acknowledged) -> None:
    """Count what is not in the store, and what is there but not in its session's thread."""
    store = turnlog.open(root)
    for session_id, uuids in acknowledged.items():
        tally.acknowledged += len(uuids)
        session = store.session(session_id)
        present = {item.record.uuid for item in session.items()}
        gone = [uuid for uuid in uuids if uuid not in present]
        if gone:
            tally.lose(f"{where}: {len(gone)} of {len(uuids)}", len(gone))
        in_sight = {record.uuid for _, record in session.records()}
        hidden = [uuid for uuid in uuids if uuid in present and uuid not in in_sight]
        if hidden:
            tally.violate(f"{where}: {len(hidden)} of {len(uuids)} are hidden")


def _ends(arena: Arena) -> Tally:
    tally = Tally("host: ends")
    for number in range(arena.count(12, 1)):
        for place, end in enumerate(ENDS):
            layout = LAYOUTS[(number + place) % 3]
            with arena.directory("host", memory=True) as directory, tally.guarded(end):
                _end(tally, f"{end}, {layout}", directory, end, layout)
        say(f"host: {number + 1} rounds of {len(ENDS)} ends")
    return tally


def _end(tally: Tally, where: str, directory: Path, end: str, layout: str) -> None:
    told = directory / "acknowledged"
    environment = os.environ | {
        "FAULTS_ROOT": str(directory / "root"),
        "FAULTS_LAYOUT": layout,
        "FAULTS_ACKNOWLEDGED": str(told),
    }
    command = [sys.executable, "-m", "faults.host_program", end]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    tally.runs += 1
    acknowledged: Acknowledged = defaultdict(list)
    for line in told.read_text().splitlines() if told.exists() else ():
        session_id, uuid = line.split()
        acknowledged[session_id].append(uuid)
    if not acknowledged:
        tally.violate(f"{where}: nothing was acknowledged: {done.stderr[-200:]}")
    check_in_sight(tally, where, directory / "root", acknowledged)


class _Host:
    """A program that writes one session and goes on whatever happens to its store."""

    def __init__(self, arena: Arena, directory: Path, layout: str, name: str) -> None:
        self.rng = arena.rng(name)
        self.root = directory / "root"
        self.copy = directory / "copy"
        self.layout = layout
        self.store = turnlog.open(self.root)
        self.session = self.store.create(project="/srv/mill", layout=layout, session_id="s-1")
        self.acknowledged: list[str] = []
        self.copied: list[str] | None = None
        self.append()

    def append(self) -> None:
        record = build.user("x" * int(4_000 ** self.rng.random()))
        if self.rng.random() < 0.2 and self.acknowledged:  # As one repeats what may have failed.
            record["uuid"] = self.rng.choice(self.acknowledged)
        try:
            uuid = self.session.append(record)
        except NotFound:  # The state to which it was rolled back has no such session.
            self.session.abandon()
            self.session = self.store.create(
                project="/srv/mill", layout=self.layout, session_id="s-1"
            )
            uuid = self.session.append(record)
        self.take(uuid)

    def append_elsewhere(self) -> None:
        """Let another program append."""
        try:
            with self.store.resume("s-1") as other:
                for _ in range(self.rng.randint(1, 4)):
                    self.take(other.append(build.user("y" * int(4_000 ** self.rng.random()))))
        except NotFound:
            return

    def take(self, uuid: str | None) -> None:
        if uuid is not None and uuid not in self.acknowledged:
            self.acknowledged.append(uuid)

    def snapshot(self) -> None:
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.root, self.copy)
        self.copied = list(self.acknowledged)

    def roll_back(self) -> None:
        """Put the last snapshot in place: as a directory, or file by file under the same inodes."""
        if self.copied is None:
            return
        if self.rng.random() < 0.5:
            shutil.rmtree(self.root)
            shutil.copytree(self.copy, self.root)
        else:
            for path in self.root.rglob("*"):
                if path.is_file() and not (self.copy / path.relative_to(self.root)).exists():
                    path.unlink()
            for path in self.copy.rglob("*"):
                if path.is_file():
                    with (self.root / path.relative_to(self.copy)).open("r+b") as file:
                        file.truncate(0)
                        file.write(path.read_bytes())
        self.acknowledged = list(self.copied)
        if self.rng.random() < 0.5:
            self.append_elsewhere()


def _rolled_back(arena: Arena) -> Tally:
    tally = Tally("host: rolled back")
    for number in range(arena.count(300, 12)):
        layout = LAYOUTS[number % 3]
        where = f"round {number}, {layout}"
        with arena.directory("rollback", memory=True) as directory, tally.guarded(where):
            host = _Host(arena, directory, layout, f"rollback/{number}")
            for _ in range(40):
                step = host.rng.choice(("append",) * 5 + ("elsewhere", "snapshot", "back"))
                {
                    "append": host.append,
                    "elsewhere": host.append_elsewhere,
                    "snapshot": host.snapshot,
                    "back": host.roll_back,
                }[step]()
            host.append()
            host.session.close()
            tally.runs += 1
            check_in_sight(tally, where, host.root, {"s-1": host.acknowledged})
    return tally
