"""strace, attached to a child that is warmed up and waits: only the operation itself is seen.

Python's start-up is not in the trace and not in the counts: call number N of the operation is
number N here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from .arena import plain_environment
from .child import Child, Work

STRACE = shutil.which("strace")
MISSING = "no strace"

_CALL = re.compile(r"(\w+)\((.*)\)\s+= (.*)$")


class Call(NamedTuple):
    """One system call: its name, which of that name it is, its arguments and result as text."""

    name: str
    nth: int
    arguments: str
    result: str


class Traced:
    """A held child with strace on it. ``go`` lets it run."""

    def __init__(self, work: Work, out: Path, *words: str, calls: str = "%file,%desc") -> None:
        self._out = out
        self.child = Child(work, held=True)
        watching = ["-e", f"trace={calls}", *words]
        self._strace = subprocess.Popen(
            [STRACE or "strace", "-y", "-o", out, "-p", str(self.child.pid), *watching],
            stderr=subprocess.PIPE,
            env=plain_environment(),
        )
        assert self._strace.stderr is not None
        self.attached = b"attached" in self._strace.stderr.readline()
        if not self.attached:
            self.child.kill()

    def go(self) -> None:
        self.child.go()

    def end(self) -> list[list[object]]:
        """Wait for the end; give what the child told."""
        told = self.child.end()
        assert self._strace.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._strace.wait(timeout=60)
        self._strace.kill()
        self._strace.wait()
        self._strace.stderr.close()
        return told

    def calls(self) -> list[Call]:
        """Give the system calls of the operation, in order."""
        found: list[Call] = []
        counts: dict[str, int] = {}
        for text in self._out.read_text(errors="replace").splitlines():
            match = _CALL.match(text)
            name = match[1] if match else text.partition("(")[0]
            if not name.isidentifier():
                continue
            counts[name] = counts.get(name, 0) + 1
            if match:
                found.append(Call(name, counts[name], match[2], match[3]))
        return found


def works(directory: Path) -> str:
    """Say why strace cannot be used here; empty if it can."""
    if STRACE is None:
        return MISSING
    probe = Traced(lambda _tell: os.stat("/"), directory / "probe")
    if probe.attached:
        probe.go()
    probe.end()
    return "" if probe.attached and probe.calls() else "strace may not attach here"
