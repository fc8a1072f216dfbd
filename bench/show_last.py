"""``turnlog show --last 50`` on a session of 1 GB, beside one of 1 MB: the whole program.

Finding the session, reading its end and showing it should not depend on how long it is. The small
log is the end of the large one, so that both show the same.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from .data import BASE, log_of
from .last import end_of
from .table import Row, ms
from .turns import best_in_turns

ROUNDS = 12
_SESSION = "6e0c5c4e-0f0a-4f6e-9d5b-3a2b1c0d9e8f"
_PROGRAM = "import sys; from turnlog.cli import main; sys.exit(main())"


def bench() -> list[Row]:
    large = log_of(1_000_000_000)
    homes = [_home_of(large, "large"), _home_of(end_of(large), "small")]
    rows = []
    for what, options in (("", ()), (" --raw", ("--raw",))):
        ours, peer = (_command(home, *options) for home in homes)
        if subprocess.run(ours, check=False, stdout=subprocess.DEVNULL).returncode:
            return [Row("show --last 50", "", "", "skipped: turnlog show failed")]
        mine, other = best_in_turns(lambda c=ours: _run(c), lambda c=peer: _run(c), ROUNDS)
        ratio = mine.wall / other.wall
        name = f"show --last 50{what}, 1 GB beside 1 MB"
        rows.append(Row(name, ms(mine.wall), ms(other.wall), f"{ratio:.2f}", "<= 3", ratio <= 3))
    return rows


def _command(home: str, *options: str) -> list[str]:
    asked = ["show", _SESSION[:8], "--last", "50", *options, "--home", home]
    return [sys.executable, "-c", _PROGRAM, *asked]


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _home_of(log: str, name: str) -> str:
    """Make a home in which *log* is the only session."""
    home = os.path.join(BASE, f"show-{name}")
    path = os.path.join(home, "projects", "-bench", f"{_SESSION}.jsonl")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(log, path)
        except OSError:  # Not every file system has links.
            shutil.copyfile(log, f"{path}.part")
            os.replace(f"{path}.part", path)
    return home
