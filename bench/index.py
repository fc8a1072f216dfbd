"""The index beside agentsview's, on the same tree of 1 GB: built, refreshed, searched, grown.

Both are whole programs, started anew each time, and read the same copy of the tree. Speed counts
only if both hold every log, so the same run counts what they hold; and a refresh counts only if
what the logs grew by is found afterwards. Building is measured with warm files on both sides.

agentsview refreshes through a server that it starts and leaves running, and can do without one.
Both ways are compared with ours, which has no server.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from . import agentsview, searching
from .agentsview import Agentsview
from .data import BASE
from .programs import TURNLOG, Ran, run, run_watched
from .table import Row, ms
from .trees import copy_of, grow, logs_of, main_logs_by_size, size_of, tree

ROUNDS = 10
BUILDS = 3
_RUN = os.path.join(BASE, "index")
_WHAT = "index of a 1 GB tree"
_GROWTH = ("100M", "1G", "5G")
_LARGE = "BENCH_LARGE"
_HELD = """
SELECT (SELECT count(*) FROM logs WHERE layout <> 'beside'),
       (SELECT count(*) FROM records) + (SELECT count(*) FROM damages)
"""


class Held(NamedTuple):
    """What our index holds."""

    logs: int
    records: int


class Index:
    """Our side: the commands that build and ask an index in a directory of its own."""

    def __init__(self, home: str, place: str) -> None:
        self.home, self._place = os.path.abspath(home), os.path.abspath(place)
        self.environ = os.environ | {"TURNLOG_HOME": self._place}
        self.environ.pop("CLAUDE_CONFIG_DIR", None)

    def command(self, name: str, *rest: str) -> list[str]:
        return [sys.executable, "-c", TURNLOG, name, *rest, "--home", self.home]

    def build(self) -> Ran:
        """Build it where there was none."""
        shutil.rmtree(self._place, ignore_errors=True)
        os.makedirs(self._place)
        return run_watched(self.command("refresh"), self.environ)

    def refresh(self) -> float:
        return run(self.command("refresh"), self.environ)

    def hits(self, query: str) -> int:
        """Count what a search in the index, as it is, finds."""
        command = self.command("search", query, "--json", "--no-refresh")
        told = subprocess.run(command, env=self.environ, check=False, capture_output=True)
        return len(json.loads(told.stdout)["hits"])

    def held(self) -> Held:
        (file,) = glob.glob(os.path.join(self._place, "index", "*.sqlite"))
        database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        try:
            return Held(*database.execute(_HELD).fetchone())
        finally:
            database.close()

    def size_bytes(self) -> int:
        return size_of(glob.glob(os.path.join(self._place, "index", "*.sqlite*")))


class Sides(NamedTuple):
    """The least seconds of each way to refresh."""

    ours: float
    alone: float | None
    by_server: float | None


def bench() -> list[Row]:
    original = tree()
    if original is None:
        return [Row(_WHAT, "", "", "skipped: TURNLOG_KIT names no directory with gen_corpus.py")]
    program = agentsview.fetch()
    by_size = main_logs_by_size(original)
    growing = [by_size[len(by_size) * part // 4] for part in (1, 2, 3)]
    home = os.path.join(_RUN, ".claude")
    copy_of(original, home, growing)
    grown = [os.path.join(home, os.path.relpath(path, original)) for path in growing]
    index = Index(home, os.path.join(_RUN, "turnlog"))
    try:
        if program is None:
            rows = _compare(index, None, grown)
            rows.append(Row(_WHAT, "", "", "beside nothing: agentsview could not be fetched"))
        else:
            with Agentsview(program, home, os.path.join(_RUN, "agentsview")) as peer:
                rows = _compare(index, peer, grown)
        return rows
    finally:
        shutil.rmtree(_RUN, ignore_errors=True)


def _compare(index: Index, peer: Agentsview | None, grown: Sequence[str]) -> list[Row]:
    logs = logs_of(index.home)
    size_bytes = size_of(logs)
    builds, theirs = [], []
    for _ in range(BUILDS):  # In turns: a machine is not equally fast all the time.
        theirs += [peer.build()] if peer else []
        builds.append(index.build())
    rows = [
        *_building(builds, theirs),
        *_holding(index, peer, logs),
        _smallness(index, peer, size_bytes),
    ]
    still = _refreshes(index, peer, lambda: None)
    words: list[str] = []

    def more() -> None:
        words.append(f"regrown{len(words)}")
        for log in grown:
            grow(log, words[-1])

    grew = _refreshes(index, peer, more)
    return [
        *rows,
        *_refreshing("nothing changed", still),
        *_refreshing("three logs grew", grew),
        *_found(index, peer, words, len(grown)),
        *searching.rows_for(index.home, index.environ),
        *_growth(median(each.wall for each in builds) / size_bytes),
    ]


def _building(builds: Sequence[Ran], theirs: Sequence[Ran]) -> list[Row]:
    what = f"{_WHAT}: built with all text"
    mine = median(each.wall for each in builds)
    other = median(each.wall for each in theirs) if theirs else None
    peak = max(each.peak_bytes for each in builds)
    return [
        _against(f"{what}: time", mine, other, 4),
        Row(
            f"{what}: memory, all processes",
            _mb(peak),
            _mb(max(each.peak_bytes for each in theirs)) if theirs else "",
            "",
            "<= 400 MB",
            peak <= 400_000_000,
        ),
    ]


def _holding(index: Index, peer: Agentsview | None, logs: Sequence[str]) -> list[Row]:
    """Say whether both hold everything, before anybody calls one of them fast."""
    mine = index.held()
    lines = sum(_lines_of(path) for path in logs)
    theirs = peer.held() if peer else None
    whole = mine.logs == len(logs) and (theirs is None or theirs.logs == len(logs))
    return [
        Row(
            f"{_WHAT}: logs held, of {len(logs):,}",
            f"{mine.logs:,}",
            f"{theirs.logs:,}" if theirs else "",
            "",
            "all",
            whole,
        ),
        Row(
            f"{_WHAT}: records held, of {lines:,} lines; messages with text",
            f"{mine.records:,}",
            f"{theirs.messages:,}" if theirs else "",
            "",
            "all records; some messages",
            mine.records == lines and (theirs is None or theirs.messages > len(logs)),
        ),
    ]


def _lines_of(path: str) -> int:
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _smallness(index: Index, peer: Agentsview | None, logs_bytes: int) -> Row:
    mine = index.size_bytes()
    part = mine / logs_bytes
    other = _mb(peer.held().size_bytes) if peer else ""
    what = f"{_WHAT}: size, and its part of the logs'"
    return Row(what, _mb(mine), other, f"{part:.3f}", "<= 0.20", part <= 0.20)


def _refreshes(index: Index, peer: Agentsview | None, before: Callable[[], None]) -> Sides:
    """Refresh all ways, each time after something happened to the logs.

    The server watches the files and would be at work while another is measured: it comes last.
    """
    mine, alone, by_server = [], [], []
    for _ in range(ROUNDS):
        before()
        mine.append(index.refresh())
        if peer:
            before()
            alone.append(peer.sync_alone())
    if peer:
        try:
            peer.sync_by_server()
            for _ in range(ROUNDS):
                before()
                by_server.append(peer.sync_by_server())
        finally:
            peer.stop()
        index.refresh()
    return Sides(min(mine), min(alone, default=None), min(by_server, default=None))


def _refreshing(when: str, taken: Sides) -> list[Row]:
    what = f"{_WHAT}: refreshed, {when}"
    return [
        _against(f"{what}; agentsview with its server", taken.ours, taken.by_server, 3),
        _against(f"{what}; agentsview without it", taken.ours, taken.alone, 3),
    ]


def _found(index: Index, peer: Agentsview | None, words: Sequence[str], logs: int) -> list[Row]:
    """Say whether what the logs grew by is found: a prompt and an answer in each."""
    wanted = 2 * logs * len(words)
    mine = sum(index.hits(word) for word in words)
    theirs = sum(peer.messages_with(word) for word in words) if peer else wanted
    return [
        Row(
            f"{_WHAT}: records found that were appended, of {wanted:,}",
            f"{mine:,}",
            f"{theirs:,}" if peer else "",
            "",
            "all",
            mine == theirs == wanted,
        )
    ]


def _growth(each_byte: float) -> list[Row]:
    """Build trees of several sizes; *each_byte* is what a byte of the 1 GB one took."""
    speeds = {}
    for size in _GROWTH:
        if size == "1G":
            speeds[size] = each_byte
            continue
        if size == "5G" and not os.environ.get(_LARGE):
            continue
        home = tree(size)
        if home is None:
            continue
        index = Index(home, os.path.join(_RUN, f"turnlog-{size}"))
        builds = [index.build().wall for _ in range(1 if size == "5G" else BUILDS)]
        speeds[size] = median(builds) / size_of(logs_of(home))
    spread = max(speeds.values()) / min(speeds.values())
    told = ", ".join(f"{size}B: {seconds * 1e9:.1f} ms" for size, seconds in speeds.items())
    what = "index built: time for each MB"
    if "5G" not in speeds:
        what += f" (5 GB: with {_LARGE}=1)"
    return [Row(what, told, "", f"{spread:.2f}", "<= 1.5", spread <= 1.5)]


def _against(what: str, mine: float, other: float | None, bar: float | None) -> Row:
    if other is None:
        return Row(what, _seconds(mine), "", "")
    ratio = other / mine
    told = (f"{what}", _seconds(mine), _seconds(other), f"{ratio:.1f} x")
    return Row(*told) if bar is None else Row(*told, f">= {bar:g} x", ratio >= bar)


def _seconds(taken: float) -> str:
    return ms(taken) if taken < 2 else f"{taken:.1f} s"


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB"
