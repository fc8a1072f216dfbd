"""A program that does everything to several sessions at once, killed at random moments.

What it would do follows from the seed and from what is there: sessions in all layouts are created,
appended to, closed, resumed, forked and labelled, their todos replaced, the caches rebuilt. It is
killed somewhere on its way, counted from an acknowledgement and scaled by the pace observed; then
everything is checked, every session is gone on with, and the next round begins in the same store.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

from .arena import Arena, say
from .child import Child
from .session_checks import Check, logs_in
from .session_steps import LAYOUTS, Step, project, work
from .session_story import Story
from .tally import Tally

_ROUNDS = 8
_MOST = 6
_STEPS = 40
_KINDS = ("create", "resume", "resume", "append", "append", "append", "append", "append", "close")
_KINDS += ("close", "fork", "todos", "todos", "update", "update", "reindex")


def run(arena: Arena) -> Tally:
    tally = Tally("sessions: random moments")
    rounds = arena.count(200, 8)
    say(f"{tally.fault}, {rounds} rounds")
    for first in range(0, rounds, _ROUNDS):
        # By turns in memory and on disk, where a sync takes long.
        with arena.directory("mix", memory=first // _ROUNDS % 2 == 0) as root:
            project(root).mkdir()
            game = _Game(arena, tally, root)
            for number in range(first, min(rounds, first + _ROUNDS)):
                game.round(number)
    if tally.acknowledged < rounds:
        tally.violate("most children died before they had appended: this tested little")
    return tally


class _Pace:
    """How long a step takes, on this disk."""

    def __init__(self) -> None:
        self._usual = 0.01

    def wait(self, child: Child, rng: random.Random) -> list[Any]:
        """Hear some steps, then wait into the next; give what was heard."""
        heard = []
        for _ in range(2 * rng.randrange(_STEPS - 5)):
            began = time.monotonic()
            word = child.next_word()
            if word is None:
                break
            heard.append(word)
            if word[0] == "done":
                self._usual += 0.1 * (time.monotonic() - began - self._usual)
        time.sleep(rng.random() * 2 * self._usual)
        return heard


class _Game:
    """The rounds in one store."""

    def __init__(self, arena: Arena, tally: Tally, root: Path) -> None:
        self.arena = arena
        self.tally = tally
        self.root = root
        self.story = Story()
        self.pace = _Pace()

    def round(self, number: int) -> None:
        rng = self.arena.rng(f"sessions/mix/{number}")
        steps = _Planner(rng, self.story, number).steps()
        before = logs_in(self.root)
        child = Child(work(self.root, steps))
        told = self.pace.wait(child, rng)
        child.kill()
        told += child.end()
        self.tally.runs += 1
        where = f"round {number}"
        if child.status not in (-signal.SIGKILL, 0):
            self.tally.violate(f"{where}: ended by itself with {child.status}: {told[-1:]}")
        self.tally.acknowledged += self.story.follow(steps, told)
        last = steps[told[-1][1]][0] if told and told[-1][0] == "try" else "nothing"
        with self.tally.guarded(where):
            Check(self.tally, f"{where}, killed in {last}", self.root, self.story).all(before)


class _Planner:
    """Makes up what a program would do; *story* is what is there already."""

    def __init__(self, rng: random.Random, story: Story, number: int) -> None:
        self.rng = rng
        self.round = number
        self.next = {name: tale.next for name, tale in story.tales.items()}
        self.layouts = {name: tale.layout for name, tale in story.tales.items()}
        self.opened: list[str] = []

    def steps(self) -> tuple[Step, ...]:
        found: list[Step] = []
        while len(found) < _STEPS:
            step = self._step(self.rng.choice(_KINDS))
            if step is not None:
                found.append(step)
        return tuple(found)

    def _step(self, kind: str) -> Step | None:
        """Give a step of *kind*, if there is anything to take it with."""
        if kind == "reindex":
            return ("reindex",) if "flat" in self.layouts.values() else None
        if kind == "create":
            return self._create()
        # A session that has said nothing yet may not be there for others to find.
        able = [name for name, following in self.next.items() if following]
        if kind == "resume":
            able = [name for name in able if name not in self.opened]
        elif kind in ("append", "close"):
            able = self.opened
        if not able:
            return None
        name = self.rng.choice(able)
        match kind:
            case "resume":
                self.opened.append(name)
                return ("resume", name)
            case "append":
                first = self.next[name]
                self.next[name] += self.rng.choice((1, 1, 1, 2, 5))
                return ("append", name, *range(first, self.next[name]))
            case "close":
                self.opened.remove(name)
                return ("close", name)
            case "fork":
                return self._fork(name)
            case "todos":
                return ("todos", name, self.rng.randrange(50))
        return ("update", name, self._labels())

    def _create(self) -> Step | None:
        new = self._new()
        if new is None:
            return None
        self.layouts[new] = self.rng.choice(LAYOUTS)
        self.opened.append(new)
        return ("create", new, self.layouts[new])

    def _fork(self, name: str) -> Step | None:
        new = self._new()
        if new is None:
            return None
        self.layouts[new] = self.layouts[name]
        self.next[new] = self.next[name]
        return ("fork", name, new, self.layouts[new])

    def _new(self) -> str | None:
        if len(self.next) >= _MOST:
            return None
        new = f"s{self.round}-{len(self.next)}"
        self.next[new] = 0
        return new

    def _labels(self) -> dict[str, object]:
        number = self.rng.randrange(100)
        every = {"title": f"Title {number}", "tag": f"tag{number}" if number % 3 else ""}
        every |= {"pinned": number % 2 == 0}
        chosen = self.rng.sample(sorted(every), self.rng.randint(1, 3))
        return {key: every[key] for key in chosen}
