"""SIGKILL while an agent's session is appended to through the session store of the Claude SDK.

A forked child appends batches to a session's log and to its agent's, through the asynchronous face,
on asyncio and on trio, and acknowledges each after it returned; it is killed at a random moment,
or inside a write at a chosen byte. Then another store on the same directory, fresh or one that had
the log open all the while, is asked: everything acknowledged is there, once and in order; of the
batch that was cut a prefix may stand. Appending that batch again, as the SDK does, completes it:
nothing stands twice. What is listed of the session is what the SDK's own fold makes of its log.
"""

from __future__ import annotations

import functools
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from claude_agent_sdk import fold_session_summary

from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore

from . import shim
from .arena import Arena, say
from .child import Child, Tell
from .made import judge, line_of, made, made_line, read, size_of
from .tally import Tally

_PROJECT = "-faults"
_ROUNDS = 8  # Of one session: then its logs are long enough.
_LARGEST = 10_000


def run(arena: Arena) -> list[Tally]:
    return [_random_kills(arena), _cut_writes(arena)]


class _Plan:
    """What the child of one round appends; it follows from the round, so the parent knows it."""

    def __init__(self, seed: int, number: int) -> None:
        rng = random.Random(f"{seed}/adapters/{number}")
        self.writer = f"round{number}"
        self.batch = rng.choice((1, 1, 5, 20))
        self.backend = rng.choice(("asyncio", "trio"))
        self.largest = _LARGEST
        self.inherits = rng.random() < 0.5
        self.key: Any = {
            "project_key": _PROJECT,
            "session_id": f"5e55fa17-0000-4000-8000-{number // _ROUNDS:012x}",
        }
        if rng.random() < 0.3:
            self.key["subpath"] = "subagents/agent-fa17"

    def entries(self, first: int, count: int) -> list[dict[str, Any]]:
        return [
            made(self.writer, number, self._size(number)) for number in range(first, first + count)
        ]

    def lines(self, count: int) -> list[bytes]:
        return [made_line(self.writer, number, self._size(number)) for number in range(count)]

    def _size(self, number: int) -> int:
        return size_of(self.writer, number, self.largest)

    def work(self, store: TurnlogSessionStore, tell: Tell) -> None:
        async def appending() -> None:
            ours = store if self.inherits else TurnlogSessionStore(store.root)
            done = 0
            while True:
                await ours.append(self.key, self.entries(done, self.batch))
                done += self.batch
                tell(done)

        anyio.run(appending, backend=self.backend)


def _random_kills(arena: Arena) -> Tally:
    tally = Tally("adapters: killed at random moments")
    rounds = arena.count(600, 60)
    rng = arena.rng("adapters")
    usual = 0.02
    with arena.directory("adapters", memory=True) as directory:
        store = TurnlogSessionStore(directory)
        logs: dict[Path, _Log] = {}
        for number in range(rounds):
            plan = _Plan(arena.seed, number)
            child = Child(lambda tell, plan=plan: plan.work(store, tell))
            began = time.monotonic()
            heard = _hear(child, rng.choice((0, 1, 1, 2, 4)))
            if heard:
                usual += 0.1 * (time.monotonic() - began - usual)
            time.sleep(rng.random() * 1.2 * usual)
            child.kill()
            told = child.end()
            tally.runs += 1
            if child.status != -signal.SIGKILL:
                tally.violate(f"{plan.writer}: ended by itself: {child.status} {told[-1:]}")
            acknowledged = told[-1][0] if told and isinstance(told[-1][0], int) else heard
            tally.acknowledged += acknowledged
            log = logs.setdefault(_path(directory, plan.key), _Log())
            with tally.guarded(plan.writer):
                asked = store if rng.random() < 0.5 else TurnlogSessionStore(directory)
                _check(tally, plan, acknowledged, asked, log)
            if number % 500 == 499:
                say(f"adapters: {number + 1} of {rounds} killed")
    if tally.acknowledged < rounds:
        tally.violate("most children died before they had appended: this tested little")
    return tally


def _hear(child: Child, times: int) -> int:
    """Hear some acknowledgements; give the last."""
    heard = 0
    for _ in range(times):
        word = child.next_word()
        if word is None or not isinstance(word[0], int):
            break
        heard = word[0]
    return heard


@dataclass
class _Log:
    """What one log must hold, and how often its writers were killed."""

    lines: list[bytes] = field(default_factory=list)
    kills: int = 0


def _check(
    tally: Tally, plan: _Plan, acknowledged: int, store: TurnlogSessionStore, log: _Log
) -> None:
    """Hold the log against what was acknowledged; then append again what was cut."""
    path = _path(store.root, plan.key)
    before = log.lines
    tried = before + plan.lines(acknowledged + plan.batch)
    log.lines, log.kills = tried, log.kills + 1
    if path.exists():
        there = read(path)
        judge(tally, plan.writer, there, tried[: len(before) + acknowledged], tried)
        if there.records != tried[: len(there.records)]:
            tally.violate(f"{plan.writer}: what stands is no beginning of what was appended")
    _run(store.append, plan.key, plan.entries(acknowledged, plan.batch))
    seen = read(path)
    judge(tally, f"{plan.writer}, again", seen, tried, tried)
    if seen.records != tried:
        tally.violate(f"{plan.writer}: appended again, it is not what was appended")
    if len(seen.damage) > log.kills:
        tally.violate(f"{plan.writer}: {len(seen.damage)} fragments of {log.kills} kills")
    loaded = _run(store.load, plan.key)
    if loaded is None or [line_of(each) for each in loaded] != tried:
        tally.violate(f"{plan.writer}: what is loaded is not what was appended")
    elif "subpath" not in plan.key:
        _check_summary(tally, plan, store, loaded)


def _check_summary(
    tally: Tally, plan: _Plan, store: TurnlogSessionStore, loaded: list[dict[str, Any]]
) -> None:
    expected = fold_session_summary(None, plan.key, loaded)["data"]  # type: ignore[arg-type]
    listed = {each["session_id"]: each for each in _run(store.list_session_summaries, _PROJECT)}
    times = {each["session_id"]: each["mtime"] for each in _run(store.list_sessions, _PROJECT)}
    summary = listed.get(plan.key["session_id"])
    if summary is None or summary["data"] != expected:
        tally.violate(f"{plan.writer}: the summary is not that of the log")
    elif summary["mtime"] < times[plan.key["session_id"]]:
        tally.violate(f"{plan.writer}: the summary is older than the session")


def _cut_writes(arena: Arena) -> Tally:
    """Kill inside the write, after every so many bytes of it; then append again."""
    tally = Tally("adapters: killed inside a write")
    if not shim.is_here():
        return tally.skip(shim.MISSING)
    plan = _Plan(arena.seed, 0)
    plan.batch, plan.largest = 3, 150
    data = b"".join(line + b"\n" for line in plan.lines(3))
    with arena.directory("adapters-cut", memory=True) as directory:
        for cut in range(0, len(data) + 1, arena.count(5, 41)):
            root = directory / str(cut)

            def work(_tell: Tell, root: Path = root, cut: int = cut) -> None:
                store = TurnlogSessionStore(root)
                shim.arm(_path(root, plan.key).name, shim.WRITE, 1, shim.KILL, cut)
                _run(store.append, plan.key, plan.entries(0, 3))

            child = Child(work)
            child.end()
            tally.runs += 1
            where = f"killed after {cut} bytes"
            if child.status != -signal.SIGKILL:
                tally.violate(f"{where}: was not killed but ended with {child.status}")
            with tally.guarded(where):
                _check(tally, plan, 0, TurnlogSessionStore(root), _Log())
            tally.acknowledged += 3
    return tally


def _path(root: Path, key: dict[str, str]) -> Path:
    place = root / "projects" / key["project_key"] / key["session_id"]
    inner = key.get("subpath")
    return place.with_name(place.name + ".jsonl") if inner is None else place / f"{inner}.jsonl"


def _run(function: Any, *arguments: Any) -> Any:
    return anyio.run(functools.partial(function, *arguments))
