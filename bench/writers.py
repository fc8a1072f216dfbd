"""Eight processes that append to one log, beside eight that write to one file without a lock.

What taking turns costs when everybody wants to write at once. Both sides make every record durable
before the next. Runs alternate; each has a file of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from turnlog.storage.writer import LogWriter

from .data import BASE, line_of, record_of
from .table import Row, ms, percentile

RUNS, WRITERS, APPENDS = 5, 8, 300
_sync = getattr(os, "fdatasync", os.fsync)


def bench() -> list[Row]:
    os.makedirs(BASE, exist_ok=True)
    ours, bare = [], []
    with tempfile.TemporaryDirectory(dir=BASE) as folder:
        for run in range(RUNS):
            bare.append(_crowd(_write_bare, os.path.join(folder, f"bare-{run}")))
            path = os.path.join(folder, f"ours-{run}.jsonl")
            ours.append(_crowd(_write_ours, path))
            with open(path, "rb") as file:
                assert file.read().count(b"\n") == WRITERS * APPENDS, "records are missing"
    return [_row(ours, bare, 50, None), _row(ours, bare, 99, 2.0), _throughput(ours, bare)]


def _crowd(write: Any, path: str) -> tuple[list[float], float]:
    """Let the writers loose at once; give all their latencies, and how long it took."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(WRITERS + 1)
    results = context.SimpleQueue()
    writers = [
        context.Process(target=_work, args=(write, path, barrier, results)) for _ in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    barrier.wait()
    began = perf_counter()
    times = [each for _ in writers for each in results.get()]
    elapsed = perf_counter() - began
    for writer in writers:
        writer.join()
    return times, elapsed


def _work(write: Any, path: str, barrier: Any, results: Any) -> None:
    results.put(write(path, barrier))


def _write_ours(path: str, barrier: Any) -> list[float]:
    record = record_of(1024)
    times = []
    with LogWriter(path) as log:
        barrier.wait()
        for _ in range(APPENDS):
            began = perf_counter()
            log.append(record)
            times.append(perf_counter() - began)
    return times


def _write_bare(path: str, barrier: Any) -> list[float]:
    line = line_of(record_of(1024))
    times = []
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    barrier.wait()
    for _ in range(APPENDS):
        began = perf_counter()
        os.write(fd, line)
        _sync(fd)
        times.append(perf_counter() - began)
    os.close(fd)
    return times


def _row(ours: list[Any], bare: list[Any], percent: int, bar: float | None) -> Row:
    mine = [percentile(times, percent) for times, _ in ours]
    other = [percentile(times, percent) for times, _ in bare]
    ratio = median(a / b for a, b in zip(mine, other, strict=True))
    return Row(
        f"{WRITERS} writers on one log, p{percent}",
        ms(median(mine)),
        ms(median(other)),
        f"{ratio:.2f}",
        f"<= {bar}" if bar else "",
        ratio <= bar if bar else None,
    )


def _throughput(ours: list[Any], bare: list[Any]) -> Row:
    mine = median(elapsed for _, elapsed in ours)
    other = median(elapsed for _, elapsed in bare)
    appends = WRITERS * APPENDS
    return Row(
        f"{WRITERS} writers on one log, all together",
        f"{appends / mine:,.0f}/s",
        f"{appends / other:,.0f}/s",
        f"{mine / other:.2f}",
    )
