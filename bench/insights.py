"""`turnlog insights --json` over all of an indexed 1 GB tree, a whole program, started anew.

The tree lies in the past, so the period is said: everything, which is more than anybody asks for,
and its last 30 days, which is what the command does by itself.
"""

from __future__ import annotations

import os
import shutil
import sys

from .data import BASE
from .programs import TURNLOG, run
from .table import Row, ms
from .trees import tree

ROUNDS = 5
_WHAT = "insights over an indexed 1 GB tree"
_SECONDS = 1.5
_PERIODS = {
    "all of it": ("--since", "2020-01-01"),
    "its last 30 days": ("--since", "2026-05-01", "--until", "2026-05-31"),
}


def bench() -> list[Row]:
    home = tree()
    if home is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    place = os.path.join(BASE, "insights")
    environ = os.environ | {
        "CLAUDE_CONFIG_DIR": os.path.abspath(home),
        "TURNLOG_HOME": os.path.abspath(place),
    }
    command = [sys.executable, "-c", TURNLOG, "insights", "--json", "--timezone", "UTC"]
    try:
        run([*command, *_PERIODS["all of it"]], environ)  # Which makes the index.
        rows = []
        for name, period in _PERIODS.items():
            taken = min(run([*command, *period], environ) for _ in range(ROUNDS))
            bar, is_met = f"<= {_SECONDS} s", taken <= _SECONDS
            rows.append(Row(f"{_WHAT}: {name}", ms(taken), "", "", bar, is_met))
        return rows
    finally:
        shutil.rmtree(place, ignore_errors=True)
