"""The preloaded library (shim.c) as Python sees it: arm a fault, in this process only.

Real short writes and kills inside a write cannot be had from strace. The library is compiled once
per run and preloaded by starting the harness anew; without a compiler the faults that need it are
skipped.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

WRITE, SYNC, TRUNCATE, OPENDIR = range(4)
FAIL, SHORT, KILL, INTRUDE, PRECEDE = range(5)
MISSING = "no C compiler for the preloaded library"

_MARK = "TURNLOG_FAULTS_SHIM"


def is_here() -> bool:
    """Tell whether this process runs with the library."""
    return _MARK in os.environ


def build(directory: Path) -> Path | None:
    """Compile the library into *directory*; None where that cannot be done."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "shim.so"
    source = Path(__file__).with_name("shim.c")
    words = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(words, capture_output=True, check=False)
    return library if done.returncode == 0 else None


def environment(library: Path) -> dict[str, str]:
    """The environment in which a new process has the library."""
    return os.environ | {"LD_PRELOAD": str(library), _MARK: str(library)}


def arm(suffix: str, call: int, nth: int, action: int, value: int) -> None:
    """Arm the *nth* *call* from now on a file whose path ends in *suffix*; 0 arms every one."""
    _library().fault_arm(suffix.encode(), call, nth, action, ctypes.c_long(value))


def disarm() -> None:
    _library().fault_disarm()


_kept: list[ctypes.c_char_p] = []


def intruder(line: bytes) -> None:
    """Set the line that INTRUDE and PRECEDE append behind the writer's back."""
    _kept.append(ctypes.c_char_p(line))
    _library().fault_intruder(_kept[-1])


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
