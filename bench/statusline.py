"""`turnlog statusline` beside ccusage's, on the same tree of 1 GB, with the same words on stdin.

ccusage keeps what it printed in the system's directory for temporary files until the log changes
or a second is over, which in a session that is going on is nearly always: so each round gives it
an empty one. Our figures were noted before, as they are after a session's first line, and the
update that a line starts in the background is measured by itself. The bare Python beside us only
imports sqlite3.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from statistics import median
from time import perf_counter

from .data import BASE
from .ledger import _peer as ccusage
from .programs import TURNLOG, run
from .table import Row, ms
from .trees import main_logs_by_size, tree
from .turns import in_turns

ROUNDS = 20
PEER_ROUNDS = 3
_WHAT = "status line on a 1 GB tree"
_OWN = os.path.join(BASE, "statusline")
_FASTER, _SLOWER = 50, 5


def bench() -> list[Row]:
    home = tree()
    if home is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    os.makedirs(_OWN, exist_ok=True)
    environ = os.environ | {
        "CLAUDE_CONFIG_DIR": os.path.abspath(home),
        "TURNLOG_HOME": os.path.abspath(_OWN),
    }
    log = os.path.abspath(main_logs_by_size(home)[-1])
    session = os.path.basename(log).removesuffix(".jsonl")
    told = _told(log, session)
    update = [sys.executable, "-m", "turnlog.api.statusline", session]
    run(update, environ)  # The first one makes the index.
    updated = median(run(update, environ) for _ in range(3))
    bare = [sys.executable, "-c", "import sqlite3"]
    mine, other, ratio = in_turns(
        lambda: _line(_ours(), told, environ), lambda: _line(bare, b"", environ), ROUNDS
    )
    rows = [
        Row(
            "status line, beside python -c 'import sqlite3'",
            ms(mine),
            ms(other),
            f"{ratio:.2f}",
            f"<= {_SLOWER}",
            ratio <= _SLOWER,
        ),
        Row("status line: the update in the background", ms(updated), "", ""),
    ]
    return [_beside_peer(mine, told, environ), *rows]


def _beside_peer(mine: float, told: bytes, environ: Mapping[str, str]) -> Row:
    peer = ccusage()
    if peer is None:
        return Row(_WHAT, ms(mine), "", "skipped: ccusage could not be fetched with npm")
    theirs = []
    for _ in range(PEER_ROUNDS):
        empty = tempfile.mkdtemp(prefix="bench-statusline-")
        try:
            apart = {**environ, "TMPDIR": empty}
            theirs.append(_line([peer, "statusline", "--offline"], told, apart))
        finally:
            shutil.rmtree(empty)
    ratio = min(theirs) / mine
    return Row(
        _WHAT, ms(mine), ms(min(theirs)), f"{ratio:.0f} x", f">= {_FASTER} x", ratio >= _FASTER
    )


def _ours() -> list[str]:
    return [sys.executable, "-c", TURNLOG, "statusline"]


def _line(command: list[str], told: bytes, environ: Mapping[str, str]) -> float:
    began = perf_counter()
    subprocess.run(command, input=told, env=environ, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - began


def _told(log: str, session: str) -> bytes:
    """Say what Claude Code says on stdin."""
    document = {
        "session_id": session,
        "transcript_path": log,
        "cwd": "/srv/kites",
        "model": {"id": "claude-opus-4-6", "display_name": "Opus 4.6"},
        "workspace": {"current_dir": "/srv/kites", "project_dir": "/srv/kites"},
        "version": "2.1.200",
        "cost": {"total_cost_usd": 1.25, "total_duration_ms": 60_000},
    }
    return json.dumps(document).encode()
