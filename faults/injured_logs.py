"""Kept logs that lose content, and session ids with a log in two projects.

Every kind of injury is done to a main log and to a subagent's log of which a whole copy is kept:
before the next `keep` and after it, with and without records that are appended to what is left.
`check` and `doctor` must report it, `restore --force` must put the kept bytes back with what was
appended behind them, and the injured file must still be there. Two logs with one id are kept, the
home is deleted, and both must come back. Some sessions are resumed with the real `claude` in three
versions: after the replacement it sends what it sent before the injury.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.formats import Home
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import all_mirrors, find_restorable
from turnlog.keep.restore.restore import restore

from .arena import Arena, say
from .recovery import ID, PROGRAMS, Made, arriving, claude_with, encoded
from .safekeeping_world import AGENT, MAIN, ONE, World, build, command, main_log, turns, world_at
from .tally import Tally

_KEEP: Final = ("keep", "--quiet")
_SAID: Final = "less than was kept"

Injury = Callable[[bytes, random.Random], bytes]


def _lines(data: bytes, first: int = 0, last: int | None = None) -> bytes:
    return b"".join(data.splitlines(keepends=True)[first:last])


def _middle(data: bytes, rng: random.Random) -> tuple[int, int]:
    """Choose a range that begins in one line and ends in a later one."""
    ends = [at for at, byte in enumerate(data) if byte == 0x0A]
    first = rng.randrange(len(ends) - 2)
    last = rng.randrange(first + 1, len(ends) - 1)
    return ends[first] + 20, ends[last] + 20


def _cut(data: bytes, rng: random.Random, filler: bytes = b"") -> bytes:
    start, end = _middle(data, rng)
    return data[:start] + filler * ((end - start) // max(1, len(filler))) + data[end:]


INJURIES: Final[dict[str, Injury]] = {
    "emptied": lambda _data, _rng: b"",
    "one newline": lambda _data, _rng: b"\n",
    "one NUL": lambda _data, _rng: b"\0",
    "all NULs": lambda data, _rng: b"\0" * len(data),
    "all blanks": lambda data, _rng: b" " * len(data),
    "only newlines": lambda data, _rng: b"\n" * data.count(b"\n"),
    "another file": lambda _data, _rng: b"PK\x03\x04 no log at all\n",
    "JSON, but no record": lambda _data, _rng: b"[]\n",
    "first line lost": lambda data, _rng: _lines(data, 1),
    "first lines lost": lambda data, rng: _lines(data, rng.randrange(2, 4)),
    "head cut in a line": lambda data, rng: data[rng.randrange(40, 200) :],
    "head cut by a page": lambda data, _rng: data[min(4096, len(data) // 2) :],
    "head of NULs": lambda data, _rng: b"\0" * 300 + data[300:],
    "last line lost": lambda data, _rng: _lines(data, 0, -1),
    "last lines lost": lambda data, rng: _lines(data, 0, -rng.randrange(2, 4)),
    "tail cut in a line": lambda data, rng: data[: -rng.randrange(40, 200)],
    "half of it": lambda data, _rng: data[: len(data) // 2],
    "tail of NULs": lambda data, _rng: data[:-300] + b"\0" * 300,
    "a line lost": lambda data, _rng: _lines(data, 0, 1) + _lines(data, 2),
    "lines lost": lambda data, _rng: _lines(data, 0, 1) + _lines(data, 3),
    "middle cut": _cut,
    "middle of NULs": lambda data, rng: _cut(data, rng, b"\0"),
    "middle of letters": lambda data, rng: _cut(data, rng, b"x"),
    "a brace lost": lambda data, _rng: data[1:],
    "the first line twice, for the second": lambda data, _rng: (
        _lines(data, 0, 1) * 2 + _lines(data, 2)
    ),
}


def run(arena: Arena) -> list[Tally]:
    with arena.directory("injured", memory=True) as directory, world_at(directory) as world:
        found = [_injuries(arena, world, directory), _two_copies(arena, world, directory)]
    return found + [_resumed_by(arena, each, program) for each, program in PROGRAMS.items()]


class Case(NamedTuple):
    """A log, what is left of it, and what it must hold in the end."""

    where: str
    log: str
    injured: bytes
    expected: bytes
    is_kept_again: bool


def _injuries(arena: Arena, world: World, directory: Path) -> Tally:
    tally = Tally("injured logs: the kept copy")
    rng = arena.rng(tally.fault)
    ways = list(product((MAIN, AGENT), (False, True), (False, True)))
    say(f"{tally.fault}: {len(INJURIES)} injuries")
    for name, injury in INJURIES.items():
        for log, is_kept_again, is_appended in rng.sample(ways, arena.count(len(ways), 1)):
            build(world)
            whole = world.path(log).read_bytes()
            left, more = injury(whole, rng), _more(log) if is_appended else b""
            if more and left and not left.endswith(b"\n"):
                left += b"\n"
            where = f"{name}, {log.rpartition('/')[2]}"
            where += ", kept again" * is_kept_again + ", appended to" * is_appended
            case = Case(where, log, left + more, whole + more, is_kept_again)
            with tally.guarded(where):
                _replace(tally, case, world, directory)
                _check(tally, case, world)
            tally.runs += 1
    return tally


def _more(log: str) -> bytes:
    agent = {"agentId": "a1"} if log == AGENT else {}
    return turns(ONE, 90, 93, **agent)


def _replace(tally: Tally, case: Case, world: World, directory: Path) -> None:
    """Injure a log of which a copy is kept, see it reported, and replace it."""
    command(world, _KEEP, directory)
    world.put(case.log, case.injured, after=60)
    if case.is_kept_again:
        command(world, _KEEP, directory)
    for word in ("check", "doctor"):
        ran = command(world, (word,), directory)
        if ran.code != 1 or _SAID not in " ".join(ran.out.split()):
            tally.violate(f"{case.where}: {word} does not say so: {ran.code} {ran.err[:200]}")
        elif f"turnlog delete {ONE[:8]}" in ran.out:
            tally.violate(f"{case.where}: {word} advises to delete it")
    ran = command(world, ("restore", ONE, "--force"), directory)
    if ran.code != 0:
        tally.violate(f"{case.where}: restore --force: {ran.code} {ran.broke or ran.err[:200]}")
    ran = command(world, ("check",), directory)
    if _SAID in " ".join(ran.out.split()):
        tally.violate(f"{case.where}: it is still said to hold less")


def _check(tally: Tally, case: Case, world: World) -> None:
    """The log is whole, and the injured one is there as well."""
    path = world.path(case.log)
    tally.acknowledged += case.expected.count(b"\n")
    if (found := path.read_bytes()) != case.expected:
        lost = len(set(case.expected.splitlines()) - set(found.splitlines()))
        if lost:
            tally.lose(f"{case.where}: {lost} lines of the log", lost)
        else:
            tally.violate(f"{case.where}: {len(found)} bytes, not {len(case.expected)}")
    aside = [each.read_bytes() for each in path.parent.glob(f"{path.name}.replaced-*")]
    if aside != [case.injured]:
        tally.lose(f"{case.where}: the injured log, of which there are {len(aside)}")


def _two_copies(arena: Arena, world: World, directory: Path) -> Tally:
    tally = Tally("injured logs: two copies of one id")
    rng = arena.rng(tally.fault)
    say(tally.fault)
    other = MAIN.replace("-srv-mill", "-srv-mill--claude-worktrees-fix")
    for number in range(arena.count(60, 12)):
        where = f"two copies, {number}"
        with tally.guarded(where):
            build(world)
            one, two = _pair(rng)
            world.put(MAIN, one, after=rng.randrange(100))
            world.put(other, two, after=rng.randrange(100))
            command(world, _KEEP, directory)
            expected = {name: world.path(name).read_bytes() for name in (MAIN, other)}
            tally.acknowledged += sum(data.count(b"\n") for data in expected.values())
            if rng.random() < 0.5:
                shutil.rmtree(world.home)
            else:
                world.path(rng.choice((MAIN, other))).unlink()
            words = ("restore", "--all") if rng.random() < 0.5 else ("restore", ONE)
            ran = command(world, words, directory)
            if ran.code != 0:
                tally.violate(f"{where}: {words}: {ran.code} {ran.broke or ran.err[:200]}")
            for name, data in expected.items():
                path = world.path(name)
                if not path.exists() or path.read_bytes() != data:
                    tally.lose(f"{where}: {name} after {' '.join(words)}", data.count(b"\n"))
        tally.runs += 1
    return tally


def _pair(rng: random.Random) -> tuple[bytes, bytes]:
    """Make two logs of one session: a beginning, a continuation, or a session of its own."""
    whole = main_log()
    cut = _lines(whole, 0, rng.randrange(1, 9))
    pairs = [
        (whole, whole),
        (whole, cut),
        (cut, whole + turns(ONE, 20, 24)),
        (whole, cut + turns(ONE, 30, 35, cwd="/srv/mill/.claude/worktrees/fix")),
    ]
    one, two = rng.choice(pairs)
    return (one, two) if rng.random() < 0.5 else (two, one)


def _resumed_by(arena: Arena, version: str, program: Path) -> Tally:
    tally = Tally(f"injured logs: resumed by claude {version}")
    if not program.exists():
        return tally.skip("the program is not here: `make claudes` fetches it")
    say(tally.fault)
    rng = arena.rng("injured/resumed")  # The same injuries for every version.
    for name in rng.sample(sorted(INJURIES), arena.count(len(INJURIES), 2)):
        with arena.directory("resumed", memory=True) as directory, world_at(directory):
            whole = encoded(Made(rng, branches=False).lines)
            with claude_with(directory, program, whole) as (claude, api, log), tally.guarded(name):
                sent = arriving(claude, api)
                log.write_bytes(whole)
                keep([Home(claude.home)])
                log.write_bytes(INJURIES[name](whole, rng))
                restore(find_restorable(all_mirrors([Home(claude.home)]), ID), replace=True)
                tally.acknowledged += sent.total()
                if missing := sent - arriving(claude, api):
                    tally.lose(f"{name}: {missing.total()} messages", missing.total())
        tally.runs += 1
    return tally
