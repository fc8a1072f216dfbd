"""How long ``turnlog --version`` takes, beside a Python that does nothing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from .table import Row, ms
from .turns import in_turns

ROUNDS = 20


def bench() -> list[Row]:
    if importlib.util.find_spec("turnlog.cli") is None:
        return [Row("turnlog --version", "", "", "skipped: no turnlog.cli yet")]
    ours = [sys.executable, "-c", "from turnlog.cli import main; main()", "--version"]
    bare = [sys.executable, "-c", "pass"]
    mine, other, ratio = in_turns(lambda: _run(ours), lambda: _run(bare), ROUNDS)
    return [Row("turnlog --version", ms(mine), ms(other), f"{ratio:.2f}")]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
