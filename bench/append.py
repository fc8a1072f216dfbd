"""A durable append of 1 KiB, beside bare os.write + os.fdatasync.

What the lock, the checks and the encoding cost on top of what the disk costs anyway. The two take
turns, one append each, on two files of one file system, so that the disk's moods reach both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from statistics import median
from time import perf_counter

from turnlog.storage.writer import LogWriter

from .data import BASE, line_of, record_of
from .table import Row, ms, percentile

RUNS, APPENDS = 5, 2000
_sync = getattr(os, "fdatasync", os.fsync)


def bench() -> list[Row]:
    record = record_of(1024)
    line = line_of(record)
    runs = []
    os.makedirs(BASE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BASE) as folder:
        for run in range(RUNS):
            fd = os.open(
                os.path.join(folder, f"bare-{run}"), os.O_CREAT | os.O_APPEND | os.O_WRONLY
            )

            def bare(fd: int = fd) -> None:
                os.write(fd, line)
                _sync(fd)

            with LogWriter(os.path.join(folder, f"ours-{run}.jsonl")) as log:

                def ours(log: LogWriter = log) -> None:
                    log.append(record)

                runs.append(_in_turns(ours, bare))
            os.close(fd)
    return [_row(runs, 50, 1.3), _row(runs, 99, 1.2), _ceiling(runs)]


def _in_turns(
    ours: Callable[[], None], bare: Callable[[], None]
) -> tuple[list[float], list[float]]:
    mine: list[float] = []
    other: list[float] = []
    for number in range(APPENDS + 50):
        pair = ((ours, mine), (bare, other))
        for act, times in pair if number % 2 else reversed(pair):
            began = perf_counter()
            act()
            times.append(perf_counter() - began)
    return mine[50:], other[50:]  # The first ones open pages and branch predictors.


def _row(runs: list[tuple[list[float], list[float]]], percent: int, bar: float) -> Row:
    ours = [percentile(mine, percent) for mine, _ in runs]
    bare = [percentile(other, percent) for _, other in runs]
    ratio = median(a / b for a, b in zip(ours, bare, strict=True))
    return Row(
        f"durable append of 1 KiB, p{percent}",
        ms(median(ours)),
        ms(median(bare)),
        f"{ratio:.2f}",
        f"<= {bar}",
        ratio <= bar,
    )


def _ceiling(runs: list[tuple[list[float], list[float]]]) -> Row:
    """Whenever the bare loop's own p99 is under 5 ms, ours is under 10."""
    pairs = [(percentile(mine, 99), percentile(other, 99)) for mine, other in runs]
    quiet = [(a, b) for a, b in pairs if b < 0.005]
    worst = max(pairs)
    return Row(
        f"durable append, worst p99 of {RUNS} runs",
        ms(worst[0]),
        ms(worst[1]),
        "",
        "< 10 ms where bare < 5 ms",
        all(a < 0.010 for a, _ in quiet) if quiet else None,
    )
