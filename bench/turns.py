"""Two sides measured in turns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter


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
