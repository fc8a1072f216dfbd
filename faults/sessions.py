"""Sessions under SIGKILL: at every system call of every step of their lives, and at any moment.

Steps: create, append one and a batch, close, fork, replace todos, set title, tag and pin, turn the
page at midnight, reindex, recover, in the layouts that differ. A second loop cuts writes at chosen
bytes with the preloaded library; a third kills a program that does all of it, for long, on several
sessions. After every kill ``session_checks`` looks at the store from outside and goes on with it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import session_mix, session_recovery, shim
from .arena import Arena, say
from .child import Child, Tell
from .session_checks import Check, logs_in
from .session_steps import LAYOUTS, Actor, Played, Step, new_store, play, work
from .session_story import Story
from .tally import Tally
from .tracing import Call, works

_CHANGING = {"write", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "fsync"}
_CHANGING |= {"fdatasync", "flock", "link", "linkat", "unlink", "unlinkat", "ftruncate", "fchmod"}
_SLICE_CHANGING, _SLICE_LOOKING = 6, 1

Play = Callable[..., Played]


@dataclass(frozen=True)
class Scene:
    """What is done before, and what is done while the killer waits."""

    name: str
    before: tuple[Step, ...]
    steps: tuple[Step, ...]


def _lived(name: str, layout: str, records: int = 4) -> tuple[Step, ...]:
    """A session that was created, said something, and ended."""
    return (("create", name, layout), ("append", name, *range(records)), ("close", name))


def _scenes() -> Iterator[Scene]:
    """Give all scenes. Each layout has another session beside the one that something happens to."""
    for layout in LAYOUTS:
        beside = _lived("other", layout)
        lived = (*beside, *_lived("one", layout))
        steps: tuple[Step, ...] = (("create", "one", layout), ("append", "one", 0))
        yield Scene(f"create, {layout}, the first", (), steps)
        yield Scene(f"create, {layout}", beside, (*steps, ("append", "one", 1, 2, 3)))
        steps = (("resume", "one"), ("append", "one", 4), ("append", "one", 5, 6, 7))
        yield Scene(f"append and close, {layout}", lived, (*steps, ("close", "one")))
        labels = {"title": "A better name", "tag": "new", "pinned": True}
        steps = (("resume", "one"), ("update", "one", labels))
        yield Scene(f"update, {layout}", lived, (*steps, ("close", "one")))
        yield Scene(f"fork, {layout}", lived, (("fork", "one", "two", layout),))
    lived = _lived("one", "claude")
    yield Scene("fork, claude into flat", lived, (("fork", "one", "two", "flat"),))
    yield Scene("todos, the first", lived, (("todos", "one", 4),))
    yield Scene("todos", (*lived, ("todos", "one", 3)), (("todos", "one", 4), ("todos", "one", 0)))
    labels = {"title": "A name", "tag": "old", "pinned": True}
    again = {"title": "Another", "tag": "", "pinned": False}
    for layout in LAYOUTS:
        before = (*_lived("one", layout), ("update", "one", labels))
        yield Scene(f"update from outside, {layout}", before, (("update", "one", again),))
    late = (("late", "one"), ("append", "one", 0, 1))
    turn = (("midnight",), ("append", "one", 2), ("append", "one", 3, 4), ("close", "one"))
    yield Scene("midnight", _lived("other", "dated"), (*late, *turn))
    two = (*_lived("one", "flat"), *_lived("two", "flat"), ("update", "one", labels))
    yield Scene("reindex", two, (("reindex",),))


def run(arena: Arena) -> list[Tally]:
    plays: list[tuple[str, Play]] = [(scene.name, partial(_once, scene)) for scene in _scenes()]
    plays.append(("recover", session_recovery.once))
    tallies = []
    with arena.directory("sessions", memory=True) as directory:
        why = works(directory)
        for name, once in plays:
            tally = Tally(f"sessions: {name}")
            tallies.append(tally)
            if why:
                tally.skip(why)
                continue
            say(tally.fault)
            with tally.guarded("the scene"):
                _sweep(arena, tally, partial(once, tally, directory))
    return [*tallies, *_cut_writes(arena), session_mix.run(arena)]


# -- at every system call -----------------------------------------------------------------------


def _sweep(arena: Arena, tally: Tally, once: Play) -> None:
    """Play a scene to its end, then once for every call that made, killed at that call."""
    calls = once("not killed").calls
    survivors = 0
    for name, number in _sampled(arena, tally, calls) if arena.slice else _points(calls):
        inject = ("-e", f"inject={name}:signal=SIGKILL:when={number}")
        survivors += once(f"killed at {name} number {number}", *inject).survived
        tally.runs += 1
    if 2 * survivors > tally.runs:
        tally.violate(f"{survivors} children outlived their killers: this tested little")


def _points(calls: list[Call]) -> list[tuple[str, int]]:
    """Give every call as a point to kill at; one more of each kind, since runs differ a little."""
    counts = {call.name: call.nth for call in calls}
    return [(name, n + 1) for name, count in counts.items() for n in range(count + 1)]


def _sampled(arena: Arena, tally: Tally, calls: list[Call]) -> list[tuple[str, int]]:
    """Choose some points: more of those that change something than of those that look."""
    rng = arena.rng(tally.fault)
    changing = {(call.name, call.nth) for call in calls if _changes(call)}
    looking = [point for point in _points(calls) if point not in changing]
    return [
        *rng.sample(sorted(changing), min(len(changing), _SLICE_CHANGING)),
        *rng.sample(looking, min(len(looking), _SLICE_LOOKING)),
    ]


def _changes(call: Call) -> bool:
    return call.name in _CHANGING or (call.name == "openat" and "O_CREAT" in call.arguments)


def _once(scene: Scene, tally: Tally, directory: Path, where: str, *inject: str) -> Played:
    """Play *scene* once, kill or no kill, and check what is left."""
    with new_store(directory) as root:
        story = _begun(root, scene.before)
        before = logs_in(root)
        played = play(root, scene.steps, *inject)
        if failed := [word for word in played.told if word[0] == "failed"]:
            tally.violate(f"{where}: {failed[0]}")
        acknowledged = story.follow(scene.steps, played.told)
        if inject:
            tally.acknowledged += acknowledged
        with tally.guarded(where):
            Check(tally, where, root, story).all(before)
        return played


def _begun(root: Path, steps: tuple[Step, ...]) -> Story:
    """Take *steps* in the store at *root*; give their story."""
    story, actor = Story(), Actor(root)
    for step in steps:
        story.take(step, done=False)
        actor.take(step)
        story.take(step)
    return story


# -- inside a write -----------------------------------------------------------------------------


def _cut_writes(arena: Arena) -> Iterator[Tally]:
    """Kill inside the write of a batch, after every so many bytes of it."""
    for layout in LAYOUTS:
        tally = Tally(f"sessions: inside a write, {layout}")
        if not shim.is_here():
            yield tally.skip(shim.MISSING)
            continue
        say(tally.fault)
        with arena.directory("cut", memory=True) as directory:
            cut = 0
            while _cut_write(tally, directory, layout, cut):
                cut += arena.count(29, 397)
        yield tally


def _cut_write(tally: Tally, directory: Path, layout: str, cut: int) -> bool:
    """Cut the batch's write after *cut* bytes; tell whether it was as long as that."""
    where = f"killed after {cut} bytes"
    steps: tuple[Step, ...] = (("resume", "one"), ("append", "one", 4, 5, 6, 7))
    with new_store(directory) as root:
        story = _begun(root, _lived("one", layout))
        before = logs_in(root)

        def cut_short(tell: Tell) -> None:
            shim.arm(".jsonl", shim.WRITE, 1, shim.KILL, cut)
            work(root, steps)(tell)

        child = Child(cut_short)
        told = child.end()
        tally.runs += 1
        if child.status != -signal.SIGKILL:
            tally.violate(f"{where}: was not killed but ended with {child.status} {told[-1:]}")
        tally.acknowledged += story.follow(steps, told)
        grown = sum(path.stat().st_size - len(data) for path, data in before.items())
        with tally.guarded(where):
            Check(tally, where, root, story).all(before)
        return grown == cut
