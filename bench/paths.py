"""How far one has to walk to follow an append, a search or a report of costs through the source.

Each is done once to warm up and once more under sys.setprofile, which counts of the calls within
turnlog:

- functions: distinct named functions; comprehensions and lambdas belong to the function around them
- modules: distinct modules that these functions are in
- transitions: how often a call is in another module than the call before it

An append is the second one to an open session. Search and costs are the commands, run in this
process over the bundled samples with a fresh index; no log may have been written in the last
seconds, since a refresh would look at it again. The figures are counts: they do not depend on the
machine, but they do depend on how many logs there are and how many rows are printed.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

import turnlog
from turnlog.cli.app import run

from .table import Row

_SOURCE = os.path.dirname(turnlog.__file__) + os.sep
_SAMPLES = Path(__file__).parents[1] / "samples" / "claude"
_RECORD = {"type": "user", "message": {"role": "user", "content": "Prune the pear trees."}}


class Walk(NamedTuple):
    """What was counted; also the most that there should be."""

    functions: int
    modules: int
    transitions: int

    def __str__(self) -> str:
        return " / ".join(map(str, self))


BARS = {
    "warm append": Walk(40, 10, 28),
    "warm search": Walk(120, 25, 110),
    "warm cost daily": Walk(110, 25, 130),
}


def bench() -> list[Row]:
    rows = []
    for what, found in walks().items():
        bar = BARS[what]
        is_met = all(ours <= most for ours, most in zip(found, bar, strict=True))
        rows.append(
            Row(
                f"{what}: functions / modules / transitions",
                str(found),
                "",
                "",
                f"<= {bar}",
                is_met,
            )
        )
    return rows


def walks() -> dict[str, Walk]:
    """Return what is counted on each path."""
    with _own_home():
        commands = {
            "warm search": _second(lambda: _command("search", "frost")),
            "warm cost daily": _second(lambda: _command("cost", "daily")),
        }
        return {"warm append": _append(), **commands}


def walk(act: Callable[[], object]) -> Walk:
    """Count the calls within turnlog while *act* runs."""
    functions = set()
    modules = []

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCE) and code.co_name[0] != "<":
            functions.add(code)
            modules.append(code.co_filename)

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    transitions = sum(here != before for before, here in pairwise(modules))
    return Walk(len(functions), len(set(modules)), transitions)


def _append() -> Walk:
    with turnlog.open() as store, store.create(project="/home/ada/orchard") as session:
        return _second(lambda: session.append(_RECORD))


def _second(act: Callable[[], object]) -> Walk:
    act()
    return walk(act)


def _command(*words: str) -> None:
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        code = run(list(words))
    assert code == 0, code


@contextmanager
def _own_home() -> Iterator[None]:
    """Copy the samples to a home of their own, and let the commands find nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "claude"
        shutil.copytree(_SAMPLES, home)
        environ = {
            "HOME": folder,
            "CLAUDE_CONFIG_DIR": str(home),
            "TURNLOG_HOME": str(Path(folder) / "own"),
        }
        with mock.patch.dict(os.environ, environ):
            yield
