"""The session store for the Claude Agent SDK: appending, loading, listing.

An append of 1, 10 and 100 entries of 1 KiB takes turns with a bare write and fdatasync of the same
bytes, which is the least that any durable store can do, and with the SDK's own store in memory,
which keeps nothing. All of it happens in one event loop. Loading is compared with ``json.loads``
over the lines of the same log, and the listing of many sessions with the SDK's own listing of the
same directory, which looks at the first and last 64 KiB of each.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import anyio

from turnlog.formats import key_of
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore

from .data import BASE, line_of, record_of, records
from .table import Row, ms
from .turns import best_in_turns

BATCHES = {1: 400, 10: 300, 100: 100}
RUNS = 3
LOADED, LOADS = 100_000, 5
SESSIONS, RECORDS, LISTINGS = 1000, 20, 5
_SESSION = "6e0c5c4e-0f0a-4f6e-9d5b-3a2b1c0d9e8f"
_KEY: Any = {"project_key": "-bench", "session_id": _SESSION}
_sync = getattr(os, "fdatasync", os.fsync)

Act = Callable[[list[dict[str, Any]]], Awaitable[None]]


def bench() -> list[Row]:
    if importlib.util.find_spec("claude_agent_sdk") is None:
        return [Row("SDK adapter", "", "", "skipped: claude-agent-sdk is not installed")]
    os.makedirs(BASE, exist_ok=True)
    return [*_append(), *_load(), *_list()]


# -- append ---------------------------------------------------------------------------------


def _append() -> list[Row]:
    rows = []
    for size, times in BATCHES.items():
        runs = [anyio.run(_appended, size, times) for _ in range(RUNS)]
        ours, bare, memory = (min(run[side] for run in runs) for side in range(3))
        ratio = min(run[0] / run[1] for run in runs)
        what = f"SDK adapter: append of {size} x 1 KiB, p50"
        rows += [
            Row(f"{what}, beside write + fdatasync", ms(ours), ms(bare), f"{ratio:.2f}"),
            Row(
                f"{what}, beside the SDK's store in memory",
                ms(ours),
                ms(memory),
                f"{ours / memory:,.0f}",
            ),
        ]
    return rows


async def _appended(size: int, times: int) -> tuple[float, float, float]:
    """Append batches of *size* in turns; give the median seconds of the three sides."""
    from claude_agent_sdk import InMemorySessionStore

    numbers = count()
    with tempfile.TemporaryDirectory(dir=BASE) as folder:
        store, memory = TurnlogSessionStore(os.path.join(folder, "root")), InMemorySessionStore()
        with _bare(os.path.join(folder, "bare")) as bare:
            acts: list[Act] = [
                lambda batch: store.append(_KEY, batch),  # type: ignore[arg-type]
                bare,
                lambda batch: memory.append(_KEY, batch),  # type: ignore[arg-type]
            ]
            taken: list[list[float]] = [[], [], []]
            for turn in range(times + 10):
                batch = [_entry(next(numbers)) for _ in range(size)]
                for side in range(3):
                    number = (turn + side) % 3
                    began = perf_counter()
                    await acts[number](batch)
                    taken[number].append(perf_counter() - began)
        store.close()
    ours, others, held = (median(each[10:]) for each in taken)  # The first ones open and import.
    return ours, others, held


def _entry(number: int) -> dict[str, Any]:
    return record_of(1024) | {"uuid": f"0b5c3f6e-8a51-4d0b-9a57-{number:012x}"}


@contextmanager
def _bare(path: str) -> Iterator[Act]:
    fd = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    async def bare(batch: list[dict[str, Any]]) -> None:
        os.write(fd, b"".join(map(line_of, batch)))
        _sync(fd)

    try:
        yield bare
    finally:
        os.close(fd)


# -- load -----------------------------------------------------------------------------------


def _load() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=BASE) as folder:
        path = _main_log(folder, _SESSION)
        size = 0
        with path.open("wb", buffering=1 << 20) as log:
            for record in islice(records(), LOADED):
                size += log.write(line_of(record))
        store = TurnlogSessionStore(folder)

        def ours() -> None:
            found = anyio.run(store.load, _KEY)
            assert found is not None
            assert len(found) == LOADED

        def peer() -> None:
            with path.open("rb") as log:
                assert len([json.loads(line) for line in log]) == LOADED

        mine, other = best_in_turns(ours, peer, LOADS)
    what = f"SDK adapter: load of {LOADED:,} entries ({size / 1e6:.0f} MB), beside json.loads"
    return [
        Row(f"{what}: {how}", ms(a), ms(b), f"{a / b:.2f}", "<= 1", a <= b)
        for how, a, b in (("time", mine.wall, other.wall), ("processor", mine.cpu, other.cpu))
    ]


# -- list -----------------------------------------------------------------------------------


def _list() -> list[Row]:
    from claude_agent_sdk import list_sessions, list_sessions_from_store

    rows = []
    with tempfile.TemporaryDirectory(dir=BASE) as folder:
        project = os.path.realpath(os.path.join(folder, "orchard"))
        os.mkdir(project)
        _make_sessions(folder, key_of(project))
        before = os.environ.get("CLAUDE_CONFIG_DIR")
        os.environ["CLAUDE_CONFIG_DIR"] = os.path.abspath(folder)
        store = TurnlogSessionStore(folder)

        async def listed() -> None:
            found = await list_sessions_from_store(store, directory=project)
            assert len(found) == SESSIONS

        def peer() -> None:
            assert len(list_sessions(project, include_worktrees=False)) == SESSIONS

        try:
            began = perf_counter()
            anyio.run(listed)
            first = perf_counter() - began
            mine, other = best_in_turns(lambda: anyio.run(listed), peer, LISTINGS)
        finally:
            if before is None:
                del os.environ["CLAUDE_CONFIG_DIR"]
            else:
                os.environ["CLAUDE_CONFIG_DIR"] = before
    what = f"SDK adapter: list {SESSIONS:,} sessions with summaries"
    beside = "beside the SDK's listing of the directory"
    for how, taken in ((", nothing kept", first), ("", mine.wall)):
        ratio = f"{taken / other.wall:.2f}"
        rows.append(Row(f"{what}{how}, {beside}", ms(taken), ms(other.wall), ratio))
    return rows


def _make_sessions(folder: str, key: str) -> None:
    every = records()
    for number in range(SESSIONS):
        session = f"6e0c5c4e-0f0a-4f6e-9d5b-{number:012x}"
        prompt = record_of(400) | {"sessionId": session, "cwd": "/home/someone/project"}
        lines = [line_of(prompt), *map(line_of, islice(every, RECORDS - 1))]
        _main_log(folder, session, key).write_bytes(b"".join(lines))


def _main_log(folder: str, session: str, key: str = "-bench") -> Path:
    path = Path(folder, "projects", key, f"{session}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
