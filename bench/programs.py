"""Whole programs measured: the time they take, and the memory of all their processes together.

A program may start others, so its memory is asked of the kernel while it runs: ten times a second
the high-water marks of all its processes that are alive are added up, and the largest sum counts.
To ask more often would slow down what is measured. Pages that two processes share count twice, so
the truth is rather less.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from time import perf_counter
from typing import NamedTuple

TURNLOG = "from turnlog.cli import main; main()"
_EVERY_SECONDS = 0.1
_HIGH_WATER = re.compile(rb"VmHWM:\s+(\d+) kB")


class Ran(NamedTuple):
    """What a program took and what it said."""

    wall: float
    peak_bytes: int
    said: bytes


def run(command: Sequence[str], environ: Mapping[str, str]) -> float:
    """Run *command* with its output thrown away; give the seconds."""
    began = perf_counter()
    subprocess.run(
        command, env=environ, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return perf_counter() - began


def run_watched(command: Sequence[str], environ: Mapping[str, str]) -> Ran:
    """Run *command* and watch its memory; raise with what it said if it fails."""
    began = perf_counter()
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        watch = _Watch(process.pid)
        said, _ = process.communicate()
        wall = perf_counter() - began
        peak = watch.end()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {said[-2000:]!r}")
    return Ran(wall, peak, said)


class _Watch:
    """A thread that looks at a process and its descendants until it is told to end."""

    def __init__(self, root: int) -> None:
        self._root, self._peak = root, 0
        self._over = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak

    def _look(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            together = sum(_high_water_bytes(each) for each in family(self._root))
            self._peak = max(self._peak, together)


def family(root: int) -> list[int]:
    """List *root* and its descendants."""
    found = [root]
    for pid in found:  # It grows while it is walked.
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # It ended meanwhile.
        for thread in threads:
            children = _bytes_of(f"/proc/{pid}/task/{thread}/children")
            found += [int(child) for child in children.split()]
    return found


def _high_water_bytes(pid: int) -> int:
    found = _HIGH_WATER.search(_bytes_of(f"/proc/{pid}/status"))
    return int(found[1]) * 1024 if found else 0


def _bytes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
