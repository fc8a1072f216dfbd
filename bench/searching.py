"""Searching an index of 1 GB of logs: two hundred queries in one process, and from a cold start.

Run as a program it is that one process: it reads queries from its input, asks each of them once in
both orders, and tells the seconds and the number of hits. The first query of all opens the index
and is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any

from turnlog.formats import find_homes
from turnlog.index.connection import open_fresh
from turnlog.search.search import search

from .programs import TURNLOG, run
from .queries import queries_for
from .table import Row, ms, percentile
from .turns import in_turns

ROUNDS = 20
_WHAT = "search in the index of a 1 GB tree"
_BARS = {"best": 0.060, "newest": 0.040}


def rows_for(home: str, environ: Mapping[str, str]) -> list[Row]:
    """Measure searches in the index of *home* that stands in the *environ*'s TURNLOG_HOME."""
    queries = queries_for(home)
    return [*timed(home, environ, queries, _WHAT), *_cold_start(home, environ, queries)]


def timed(home: str, environ: Mapping[str, str], queries: Sequence[str], what: str) -> list[Row]:
    """Ask *queries* in one process; *what* says in which index."""
    told = subprocess.run(
        [sys.executable, "-m", "bench.searching", home],
        input=json.dumps(queries).encode(),
        env=environ,
        check=True,
        stdout=subprocess.PIPE,
    )
    asked = json.loads(told.stdout)
    found = sum(hits > 0 for hits in asked["hits"])
    return [
        *(_order(order, asked[order], what) for order in _BARS),
        Row(
            f"{what}: queries that found something, of {len(queries)}",
            str(found),
            "",
            "",
            "most, not all",
            len(queries) // 2 < found < len(queries),
        ),
    ]


def _order(order: str, times: Sequence[float], what: str) -> Row:
    high, bar = percentile(times, 95), _BARS[order]
    middle, most = ms(percentile(times, 50)), ms(max(times))
    return Row(
        f"{what}: {order} first, 95th percentile of {len(times)} (median, most)",
        f"{ms(high)} ({middle}, {most})",
        "",
        "",
        f"<= {bar * 1e3:.0f} ms",
        high <= bar,
    )


def _cold_start(home: str, environ: Mapping[str, str], queries: Sequence[str]) -> list[Row]:
    """Start anew for every query; the files are warm, the process is not."""
    bare = [sys.executable, "-c", "import sqlite3"]
    search = [sys.executable, "-c", TURNLOG, "search", "--json", "--home", home]
    rows = []
    for what, rest in (("", ()), (", without a refresh", ("--no-refresh",))):
        waiting = iter(queries)

        def ours(rest: Sequence[str] = rest, waiting: Any = waiting) -> None:
            command = [*search, *rest, "--", next(waiting)]
            done = subprocess.run(command, env=environ, check=False, stdout=subprocess.DEVNULL)
            if done.returncode > 1:  # 1: nothing was found.
                raise RuntimeError(f"{command} ended with {done.returncode}")

        mine, other, ratio = in_turns(ours, lambda: run(bare, environ), ROUNDS)
        told = (f"turnlog search from a cold start{what}, beside import sqlite3", ms(mine))
        rows.append(Row(*told, ms(other), f"{ratio:.2f}", "<= 6", ratio <= 6))
    return rows


def _ask(home: str, queries: Sequence[str]) -> dict[str, list[float]]:
    """Ask every query once in each order, of an index that is open: twenty hits with snippets."""
    now = datetime.now().astimezone()
    told: dict[str, list[float]] = {"hits": []}
    with open_fresh(find_homes((home,)), is_stale_allowed=True) as opened:
        search(opened, queries[-1], now=now, zone=UTC)
        for order in _BARS:
            told[order] = []
            for query in queries:
                began = perf_counter()
                found = search(opened, query, now=now, zone=UTC, newest=order == "newest")
                told[order].append(perf_counter() - began)
                if order == "best":
                    told["hits"].append(len(found.hits))
    return told


if __name__ == "__main__":
    json.dump(_ask(sys.argv[1], json.load(sys.stdin)), sys.stdout)
