"""Costs by day, of the library without an index and of `turnlog cost` with one, and ccusage's.

All read 1 GB, and are whole programs, started anew each time. ccusage is fetched with npm into
`.bench/peers`, and its native program is run by itself, without the script around it. Speed counts
only if the token totals agree. Memory is that of the library without an index on one log of 1 GB.
"""

from __future__ import annotations

import glob
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from .data import BASE, log_of
from .table import Row, ms
from .trees import tree

ROUNDS = 5
_CCUSAGE = "ccusage@20.0.24"
_PEERS = os.path.join(BASE, "peers")
_WHAT = "cost of a 1 GB tree, day by day"
_MEMORY_MB = 120
_TURNLOG = "from turnlog.cli import main; main()"
# What `turnlog cost --json` prints, without an index.
_WITHOUT_INDEX = (
    "import sys, msgspec, turnlog\n"
    "with turnlog.open(sys.argv[1]) as store:\n"
    "    report = store.cost(timezone='UTC', no_index=True)\n"
    "sys.stdout.buffer.write(msgspec.json.encode(report))\n"
)


class Taken(NamedTuple):
    """What a program took, in seconds."""

    wall: float
    cpu: float


def bench() -> list[Row]:
    home = tree()
    if home is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    peer = _peer()
    if peer is None:
        return [Row(_WHAT, "", "", "skipped: ccusage could not be fetched with npm"), _memory()]
    environ = os.environ | {"CLAUDE_CONFIG_DIR": os.path.abspath(home)}
    place = os.path.join(BASE, "ledger")
    environ["TURNLOG_HOME"] = os.path.abspath(place)
    every_day = ("--since", "2000", "--timezone", "UTC")
    indexed = [sys.executable, "-c", _TURNLOG, "cost", "--json", *every_day]
    bare = [sys.executable, "-c", _WITHOUT_INDEX, os.path.abspath(home)]
    other = [peer, "claude", "daily", "--offline", "--json", "--timezone", "UTC"]
    try:
        _run(indexed, environ)  # Which makes the index.
        taken: dict[str, list[Taken]] = {"indexed": [], "bare": [], "other": []}
        for _ in range(ROUNDS):
            for name, command in (("indexed", indexed), ("bare", bare), ("other", other)):
                taken[name].append(_run(command, environ))
        wall = {name: min(each.wall for each in times) for name, times in taken.items()}
        cpu = {name: min(each.cpu for each in times) for name, times in taken.items()}
        fast, slow = wall["other"] / wall["indexed"], wall["other"] / wall["bare"]
        part = cpu["bare"] / cpu["other"]
        theirs = ms(wall["other"])
        return [
            Row(
                f"{_WHAT}: time", ms(wall["bare"]), theirs, f"{slow:.2f} x", ">= 1.3 x", slow >= 1.3
            ),
            Row(
                f"{_WHAT}: processor",
                ms(cpu["bare"]),
                ms(cpu["other"]),
                f"{part:.2f}",
                "<= 0.7",
                part <= 0.7,
            ),
            Row(
                f"{_WHAT}: time, with an index",
                ms(wall["indexed"]),
                theirs,
                f"{fast:.2f} x",
                ">= 8 x",
                fast >= 8,
            ),
            _agreement(bare, other, environ),
            _agreement(indexed, other, environ),
            _memory(),
        ]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _run(command: Sequence[str], environ: dict[str, str]) -> Taken:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = perf_counter()
    subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, check=True)
    wall = perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _agreement(mine: Sequence[str], other: Sequence[str], environ: dict[str, str]) -> Row:
    ours, theirs = (
        json.loads(subprocess.run(command, env=environ, capture_output=True, check=True).stdout)
        for command in (mine, other)
    )
    one, two = ours["totals"], theirs["totals"]
    counted = (
        one["input"],
        one["output"],
        one["cache_write_5m"] + one["cache_write_1h"],
        one["cache_read"],
    )
    told = tuple(
        two[key]
        for key in ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    )
    tokens = f"{sum(counted):,}", f"{sum(told):,}"
    return Row(f"{_WHAT}: tokens", *tokens, "", "the same", counted == told)


def _memory() -> Row:
    """Tell the most memory that one log of 1 GB takes."""
    home = os.path.join(BASE, "one-log")
    log = os.path.join(home, "projects", "-one", "0f0e0d0c-0b0a-4908-8706-050403020100.jsonl")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    if not os.path.exists(log):
        os.link(log_of(1_000_000_000), log)
    # Not of getrusage, which counts what this process held when it started that one.
    code = (
        f"{_WITHOUT_INDEX}"
        "told = open('/proc/self/status').read().split();"
        "print(told[told.index('VmHWM:') + 1], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, home]
    told = subprocess.run(command, capture_output=True, check=True, text=True)
    megabytes = int(told.stderr.split()[-1]) / 1024
    met = megabytes <= _MEMORY_MB
    return Row(
        "cost of one 1 GB log: memory", f"{megabytes:.0f} MB", "", "", f"<= {_MEMORY_MB} MB", met
    )


def _peer() -> str | None:
    """Give ccusage's native program; fetch it if need be."""
    pattern = os.path.join(_PEERS, "node_modules", "@ccusage", "*", "bin", "ccusage")
    if not glob.glob(pattern):
        npm = shutil.which("npm")
        if npm is None:
            return None
        os.makedirs(_PEERS, exist_ok=True)
        options = ["--silent", "--no-fund", "--no-audit", "--prefix", _PEERS]
        subprocess.run([npm, "install", *options, _CCUSAGE], check=False)
    found = glob.glob(pattern)
    if not found:
        return None
    os.chmod(found[0], 0o755)  # npm's own wrapper does that when it is first run.
    return os.path.abspath(found[0])
