"""Two sides measured in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import NamedTuple


def in_turns(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int
) -> tuple[float, float, float]:
    """Give the median seconds of both, and the median of ours divided by the peer's."""
    mine, other = [], []
    for number in range(rounds + 1):
        pair = ((ours, mine), (peer, other))
        for act, times in pair if number % 2 else reversed(pair):
            gc.collect()
            began = perf_counter()
            act()
            times.append(perf_counter() - began)
    mine, other = mine[1:], other[1:]  # The first round warms the page cache.
    return median(mine), median(other), median(a / b for a, b in zip(mine, other, strict=True))


class Best(NamedTuple):
    """The least it ever took, in seconds; what others do to the machine only adds."""

    wall: float
    cpu: float


def best_in_turns(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int
) -> tuple[Best, Best]:
    """Give the best times of both, for acts that a busy neighbour would drown."""
    times: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for number in range(rounds):
        pair = ((ours, times[0]), (peer, times[1]))
        for act, taken in pair if number % 2 else reversed(pair):
            gc.collect()
            began, began_cpu = perf_counter(), process_time()
            act()
            taken.append((perf_counter() - began, process_time() - began_cpu))
    mine, other = (Best(min(w for w, _ in each), min(c for _, c in each)) for each in times)
    return mine, other
