"""The index under attack: growth, kills, crowds and flipped bits. Rebuild must equal refresh.

Growth: the real corpus, where it is present, grows log by log with pauses at random bytes, and is
refreshed in both stages at random. Kills: SIGKILL and SIGTERM at random moments of a refresh, and
SIGKILL at random system calls that write; then a refresh must give the rows of one that nobody
disturbed. Crowd: two refreshers, four readers, one writer. Flips: one bit of an index at a time.
SQLite keeps no checksums, so a flip inside a value may give a wrong row and no notice: that is
counted and told, and is no violation; a rebuild that is wrong is one.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from turnlog.formats import Home, find_homes
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.index.refresh.refresh import refresh

from .arena import Arena, say
from .child import Child, Tell
from .tally import Tally
from .tracing import Traced, works

# The suite compares indexes as well, and has the trees to do so.
sys.path.append(str(Path(__file__).parents[1] / "tests"))

from index.homes import (
    SESSIONS,
    answered,
    cuts_of,
    flipped,
    lines,
    log_path,
    made_tree,
    own_index,
    rebuilt,
)
from index.rows import Rows, differences, rows_of

Homes = tuple[Home, ...]

_CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[2] / "shared" / "corpus" / "claude"
)
_TREE_BYTES = 2_000_000
_WRITES = ("pwrite64", "write", "fdatasync", "ftruncate", "unlink", "openat")


def run(arena: Arena) -> list[Tally]:
    return [
        _growth(arena),
        _kills(arena),
        _kills_at_calls(arena),
        _crowd(arena),
        _flips(arena),
    ]


# -- growth ---------------------------------------------------------------------------------


def _growth(arena: Arena) -> Tally:
    tally = Tally("index: growth of the corpus")
    if not _CORPUS.is_dir():
        return tally.skip("no corpus")
    rng = arena.rng("index growth")
    logs = sorted(path for path in _CORPUS.rglob("*") if path.is_file())
    for number in range(arena.count(3, 1)):
        say(f"index: growth, round {number + 1}")
        chosen = rng.sample(logs, len(logs) // 8) if arena.slice else logs
        with arena.directory("growth", memory=True) as directory, own_index(directory / "own"):
            (directory / "home" / "projects").mkdir(parents=True)
            homes = find_homes((directory / "home",))
            for _ in _grown(chosen, directory / "home", rng):
                with tally.guarded(f"round {number}"):
                    done = refresh(homes, stage=rng.choice(("usage", "text")))
                    tally.runs += 1
                    for what in (*done.notices, *done.replaced):
                        tally.violate(f"growth was taken for something else: {what}")
            with tally.guarded(f"round {number}"):
                refresh(homes)
                _compare(
                    tally,
                    f"round {number}",
                    rows_of(homes, words=False),
                    rebuilt(homes, words=False),
                )
    return tally


def _grown(chosen: list[Path], home: Path, rng: random.Random):
    """Let copies of logs grow; pause for a refresh now and then."""
    ends = {}
    for path in chosen:
        cuts = cuts_of(path.read_bytes(), rng, rng.randint(0, 3)) if path.suffix == ".jsonl" else []
        ends[path] = [*cuts, path.stat().st_size]
    while ends:
        for path in rng.sample(sorted(ends), max(1, len(ends) // 3)):
            copy = home / path.relative_to(_CORPUS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            have = copy.stat().st_size if copy.exists() else 0
            with path.open("rb") as source, copy.open("ab") as target:
                source.seek(have)
                target.write(source.read(ends[path].pop(0) - have))
            if not ends[path]:
                del ends[path]
        yield


def _compare(tally: Tally, where: str, ours: Rows, expected: Rows) -> None:
    tally.acknowledged += sum(map(len, expected.values()))
    if told := differences(ours, expected):
        tally.violate(f"{where}: {told[:600]}")


# -- kills ----------------------------------------------------------------------------------


def _kills(arena: Arena) -> Tally:
    tally = Tally("index: killed at random moments")
    rng = arena.rng("index kills")
    with arena.directory("index-kills", memory=True) as directory:
        homes = made_tree(directory / "home", arena.seed, _TREE_BYTES)
        expected = rebuilt(homes, words=False)
        with own_index(directory / "calm"):
            began = time.monotonic()
            refresh(homes)
            usual = time.monotonic() - began
        rounds = arena.count(1_000, 60)
        for number in range(rounds):
            with own_index():
                for _ in range(rng.choice((1, 1, 2, 4))):
                    _kill_one(homes, rng, usual)
                    tally.runs += 1
                _after(tally, f"kill {number}", homes, expected)
            if number % 100 == 99:
                say(f"index: {number + 1} of {rounds} killed")
    return tally


def _kill_one(homes: Homes, rng: random.Random, usual: float) -> None:
    stage = rng.choice(("text", "text", "usage"))
    child = Child(lambda _tell: _refresh_in_two(homes, stage))
    time.sleep(rng.random() * 1.3 * usual)
    os.kill(child.pid, rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
    child.end()


def _refresh_in_two(homes: Homes, stage: str) -> None:
    """Refresh in small batches, with a reading process: there is more to be caught in."""
    from turnlog.index.refresh import log_reader

    log_reader._WORTH_A_CHILD_BYTES = 0  # noqa: SLF001 - As a larger tree would be.
    log_reader._MESSAGE_TEXT_BYTES = 1  # noqa: SLF001
    log_reader._CHUNK_LINES = 4  # noqa: SLF001
    refresh(homes, stage=stage)


def _after(tally: Tally, where: str, homes: Homes, expected: Rows) -> None:
    with tally.guarded(where):
        for notice in refresh(homes).notices:
            tally.violate(f"{where}: {notice}")
        _compare(tally, where, rows_of(homes, words=False), expected)


def _kills_at_calls(arena: Arena) -> Tally:
    tally = Tally("index: killed at system calls")
    rng = arena.rng("index calls")
    with arena.directory("index-calls", memory=True) as directory:
        if why := works(directory):
            return tally.skip(why)
        homes = made_tree(directory / "home", arena.seed, _TREE_BYTES // 10)
        expected = rebuilt(homes, words=False)
        counts = Counter()
        with own_index():
            traced = Traced(lambda _tell: refresh(homes), directory / "trace")
            traced.go()
            traced.end()
            counts.update(call.name for call in traced.calls() if call.name in _WRITES)
        for number in range(arena.count(200, 20)):
            name = rng.choice(sorted(counts))
            inject = f"inject={name}:signal=SIGKILL:when={rng.randint(1, counts[name])}"
            with own_index():
                traced = Traced(lambda _tell: refresh(homes), directory / "trace", "-e", inject)
                traced.go()
                traced.end()
                tally.runs += 1
                _after(tally, f"{number}: {inject}", homes, expected)
    return tally


# -- crowd ----------------------------------------------------------------------------------


def _crowd(arena: Arena) -> Tally:
    tally = Tally("index: two refreshers, four readers")
    seconds = arena.seconds or arena.count(60, 8)
    say(f"index: crowd, {seconds:.0f} s")
    rng = arena.rng("index crowd")
    with arena.directory("index-crowd") as directory, own_index(directory / "own"):
        homes = made_tree(directory / "home", arena.seed, _TREE_BYTES)
        refresh(homes)
        until = time.monotonic() + seconds
        works_of = [_refreshing] * 2 + [_reading] * 4
        children = [Child(lambda tell, do=do: do(homes, until, tell)) for do in works_of]
        written = _append(homes, until, rng)
        for child in children:
            told = child.end(seconds + 60)
            tally.runs += sum(word[1] for word in told if word[0] == "done")
            for word in told:
                if word[0] != "done":
                    tally.violate(f"a child told: {word}")
            if child.status != 0:
                tally.violate(f"a child ended with {child.status}")
        tally.acknowledged += written
        _after(tally, "after the crowd", homes, rebuilt(homes, words=False))
    return tally


def _refreshing(homes: Homes, until: float, tell: Tell) -> None:
    rng = random.Random(os.getpid())
    turns = 0
    while time.monotonic() < until:
        for notice in refresh(homes, stage=rng.choice(("usage", "text"))).notices:
            tell("notice", notice)
        turns += 1
    tell("done", turns)


def _reading(homes: Homes, until: float, tell: Tell) -> None:
    least = turns = 0
    while time.monotonic() < until:
        with open_fresh(homes, is_stale_allowed=True) as index:
            count = index.db.execute("SELECT count(*) FROM records").fetchone()[0]
            index.db.execute("SELECT count(*) FROM said('kite')").fetchone()
            index.db.execute("SELECT sum(output) FROM messages").fetchone()
        if count < least - len(SESSIONS):  # A last line without its newline comes and goes.
            tell("lost", least, count)
        least, turns = max(least, count), turns + 1
    tell("done", turns)


def _append(homes: Homes, until: float, rng: random.Random) -> int:
    written = 0
    while time.monotonic() < until:
        written += 1
        session = rng.choice(SESSIONS)
        data = lines(answered(1_000_000 + written, session))
        cut = rng.randrange(len(data))
        with log_path(homes, session).open("ab", buffering=0) as log:
            log.write(data[:cut])
            time.sleep(rng.random() * 0.01)
            log.write(data[cut:])
    return written


# -- flips ----------------------------------------------------------------------------------


def _flips(arena: Arena) -> Tally:
    tally = Tally("index: one bit flipped")
    rng = arena.rng("index flips")
    outcomes: Counter[str] = Counter()
    with arena.directory("index-flips", memory=True) as directory, own_index(directory / "own"):
        homes = made_tree(directory / "home", arena.seed, _TREE_BYTES // 20)
        expected = rebuilt(homes)
        refresh(homes)
        whole = index_path(homes).read_bytes()
        for number in range(arena.count(300, 40)):
            tally.runs += 1
            with tally.guarded(f"flip {number}"):
                outcome = flipped(homes, expected, whole, rng)
                outcomes[outcome] += 1
                if outcome.startswith(("refused", "rebuilt, and wrong")):
                    tally.violate(f"flip {number}: {outcome}")
    say("index: flips: " + ", ".join(f"{name} {count}" for name, count in outcomes.most_common()))
    return tally
