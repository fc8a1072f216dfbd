"""`turnlog` alone, on an indexed tree of 1 GB, beside a Python that only imports sqlite3."""

from __future__ import annotations

import os
import sys

from .data import BASE
from .programs import TURNLOG, run
from .table import Row, ms
from .trees import tree
from .turns import in_turns

ROUNDS = 20
_AT_MOST = 10


def bench() -> list[Row]:
    home = tree()
    if home is None:
        return [Row("the overview of a 1 GB tree", "", "", "skipped: there is no generator")]
    environ = os.environ | {
        "CLAUDE_CONFIG_DIR": os.path.abspath(home),
        "TURNLOG_HOME": os.path.abspath(os.path.join(BASE, "overview")),
    }
    ours = [sys.executable, "-c", TURNLOG]
    run([*ours, "refresh"], environ)
    bare = [sys.executable, "-c", "import sqlite3"]
    mine, other, ratio = in_turns(lambda: run(ours, environ), lambda: run(bare, environ), ROUNDS)
    return [
        Row(
            "the overview of a 1 GB tree, beside python -c 'import sqlite3'",
            ms(mine),
            ms(other),
            f"{ratio:.2f}",
            f"<= {_AT_MOST}",
            ratio <= _AT_MOST,
        )
    ]
