"""Where faults are injected: a fresh directory, a seed, and what this machine can do."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Arena:
    """What every kind of fault is given."""

    root: Path
    seed: int
    slice: bool
    seconds: float | None = None

    def rng(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    def count(self, full: int, part: int) -> int:
        return part if self.slice else full

    @contextmanager
    def directory(self, name: str, *, memory: bool = False) -> Iterator[Path]:
        """A new directory that is gone afterwards; in memory if that is asked for and there is."""
        base = "/dev/shm" if memory and os.access("/dev/shm", os.W_OK) else self.root
        path = Path(tempfile.mkdtemp(prefix=f"turnlog-{name}-", dir=base))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def say(text: str) -> None:
    """Tell how far we are; the result is the table at the end."""
    print(text, file=sys.stderr, flush=True)


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def plain_environment() -> dict[str, str]:
    """The environment for other people's programs: without our preloaded library."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run somebody else's program; one that is not there fails like any other."""
    try:
        return subprocess.run(
            words, capture_output=True, text=True, check=False, env=plain_environment()
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", f"no {words[0]}")


class CannotMount(Exception):
    """This machine does not let us mount what we would need."""


@contextmanager
def mounted(at: Path, *words: str) -> Iterator[Path]:
    """Mount something at *at* (``mount`` *words* *at*) and unmount it afterwards."""
    if not is_root():
        raise CannotMount("needs root")
    at.mkdir(exist_ok=True)
    result = command("mount", *words, str(at))
    if result.returncode:
        raise CannotMount(f"mount refused: {result.stderr.strip()[:60]}")
    try:
        yield at
    finally:
        if command("umount", str(at)).returncode:
            command("umount", "--lazy", str(at))


@contextmanager
def small_disk(at: Path, options: str) -> Iterator[Path]:
    """Mount a tmpfs with *options*, as small as the test wants it."""
    with mounted(at, "-t", "tmpfs", "-o", options, "tmpfs") as disk:
        yield disk
