"""Sessions that are large in one direction, and views whose work may only grow with their size.

Every view runs over every shape at two sizes, the larger a multiple of the smaller. What is
measured is the processor time of a forked child, so waiting for others counts for nothing; a pair
that looks worse than linear is measured again before it is a violation. What Python alone executes
is counted exactly, at small sizes, by tests/test_complexity.py; time shows what happens in C as
well, such as regular expressions and the parsers of others.
"""

from __future__ import annotations

import gc
import os
import resource
import time
from pathlib import Path

from .arena import Arena, say
from .complexity_shapes import SHAPES, VIEWS, world
from .tally import Tally

_TIMES = 4
"""How much larger the second size is."""
_WORST = 2.0 * _TIMES
"""More than this is worse than n log n; quadratic is the square of _TIMES."""
_FLOOR_SECONDS = 0.15
"""Below this, what is measured is how long a command takes to start."""
_MOST_SECONDS = 30
_TRIES = 3
_SIZES = {"text": 10_000, "line": 20_000, "agents": 150}
_USUAL_SIZE = 400
# Shapes that were quadratic once, each with a view that showed it.
_SLICE = (
    ("roots", "info"),
    ("tips", "info"),
    ("a comb of branches", "export every branch"),
    ("branches of a long thread", "export html"),
    ("silent tips", "doctor"),
    ("compactions", "show"),
    ("agents", "doctor"),
    ("agents that share records", "info"),
    ("agents of one uuid", "show --tools full"),
    ("turns", "show"),
    ("packed blank lines", "check"),
    ("blank lines", "refresh"),
    ("a line of '{\"a\":'", "show"),
    ("text of newlines", "export html"),
    ("text of newlines", "web session"),
    ("text of blanks", "prompts"),
    ("text of shells", "info"),
    ("text of commands", "show"),
    ("text of reminders", "export md"),
)


def run(arena: Arena) -> list[Tally]:
    _warm_up(arena)
    if arena.slice:
        tally = Tally("complexity, what was quadratic once")
        for shape, view in _SLICE:
            _judge(arena, tally, shape, view)
        return [tally]
    tallies = []
    for view in VIEWS:
        say(f"complexity: {view}")
        tally = Tally(f"complexity, {view}")
        for shape in SHAPES:
            _judge(arena, tally, shape, view)
        tallies.append(tally)
    return tallies


def _warm_up(arena: Arena) -> None:
    """Import what the views need, so that no child has to."""
    with arena.directory("warm", memory=True) as directory, world(directory, "turns", 3) as home:
        for view in VIEWS.values():
            view(home)


def _judge(arena: Arena, tally: Tally, shape: str, view: str) -> None:
    size = next((n for word, n in _SIZES.items() if word in shape), _USUAL_SIZE)
    tally.runs += 1
    growth = 0.0
    for _ in range(_TRIES):
        small = _seconds(arena, shape, view, size)
        large = _seconds(arena, shape, view, size * _TIMES)
        if large is None or small is None:
            tally.violate(f"{view} of {shape}: failed, or took over {_MOST_SECONDS} s")
            return
        growth = large / max(small, _FLOOR_SECONDS / _TIMES)
        if large < _FLOOR_SECONDS or growth <= _WORST:
            return
    tally.violate(f"{view} of {shape}: {_TIMES} times the size took {growth:.1f} times as long")


def _seconds(arena: Arena, shape: str, view: str, size: int) -> float | None:
    """Return the processor time that a view takes; None if it failed or was stopped."""
    with arena.directory("shape", memory=True) as directory, world(directory, shape, size) as home:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _measure(view, home, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return float(said) if said else None


def _measure(view: str, home: Path, writing: int) -> None:
    """Run a view, say how long it took, and end this process."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS + 1))
        gc.collect()
        gc.freeze()
        began = time.process_time()
        VIEWS[view](home)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = time.process_time() - began + children.ru_utime + children.ru_stime
        os.write(writing, str(took).encode())
    finally:
        os._exit(0)
