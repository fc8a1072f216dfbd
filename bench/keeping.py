"""Keeping 1 GB beside `tar | zstd -3`; keeping it again; and reading the end of what is kept.

Ours reads every copy back and compares it before it counts; the peer's time includes the sync of
its one file. A run that finds nothing new is compared with one walk over the same directories and a
`stat` of each file. Real sessions, if TURNLOG_CORPUS or the directory beside this one has some, are
kept at once, and again in a thousand steps while they grow.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from turnlog.formats import Home
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.copies.keep import keep
from turnlog.storage.tail import read_last

from .data import BASE, log_of
from .table import Row, ms
from .trees import tree
from .turns import in_turns

ROUNDS, TAIL_ROUNDS, CALLS = 3, 20, 5
STEPS = 1000
_CORPUS = os.environ.get("TURNLOG_CORPUS") or os.path.join("..", "shared", "corpus")


def bench() -> list[Row]:
    return [*_keep_tree(), *_tail(), *_real_sessions()]


def _keep_tree() -> list[Row]:
    path = tree()
    if path is None or shutil.which("zstd") is None:
        return [Row("keep of a 1 GB tree", "", "", "skipped: no generator, or no zstd")]
    home = Home(Path(path))
    peer_file = os.path.join(BASE, "keep.tar.zst")
    ours: list[float] = []
    peers: list[float] = []
    for _ in range(ROUNDS):
        with _own_home():
            begun = perf_counter()
            run = keep([home])
            ours.append(perf_counter() - begun)
            packed = _size_of(kept_place(home))
            again, listing, ratio = in_turns(lambda: keep([home]), lambda: _listed(path), 10)
        begun = perf_counter()
        _tar(path, peer_file)
        peers.append(perf_counter() - begun)
    size = os.path.getsize(peer_file)
    os.unlink(peer_file)
    taken = min(ours) / min(peers)
    return [
        Row(
            "keep of a 1 GB tree, read back, beside tar piped to zstd -3 and sync",
            f"{min(ours):.1f} s",
            f"{min(peers):.1f} s",
            f"{taken:.2f}",
            "<= 2",
            taken <= 2,
        ),
        Row(
            "its size",
            f"{packed / 1e6:.0f} MB",
            f"{size / 1e6:.0f} MB",
            f"{packed / size:.2f}",
            "<= 1.15",
            packed <= 1.15 * size,
        ),
        Row(
            f"keep again, nothing new in {run.files:,} files, beside a walk with stat",
            ms(again),
            ms(listing),
            f"{ratio:.2f}",
            "<= 3",
            ratio <= 3,
        ),
    ]


def _tail() -> list[Row]:
    large = log_of(1_000_000_000)
    place = Path(BASE, "one-kept")
    source = place / "projects" / "p" / "5f0c0000-0000-4000-8000-000000000000.jsonl"
    source.parent.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        os.link(large, source)
    with _own_home():
        keep([Home(place)])
        copy = kept_copy(kept_place(place), source.relative_to(place).as_posix())
        mine, other, ratio = in_turns(
            lambda: _read(os.fspath(copy)), lambda: _read(large), TAIL_ROUNDS
        )
    return [
        Row(
            "last 50 records of a kept log of 1 GB, beside the plain log",
            ms(mine / CALLS),
            ms(other / CALLS),
            f"{ratio:.2f}",
            "<= 10",
            ratio <= 10,
        )
    ]


def _real_sessions() -> list[Row]:
    corpus = os.path.join(_CORPUS, "claude")
    if not os.path.isdir(corpus):
        return [Row("real sessions, kept", "", "", "skipped: no TURNLOG_CORPUS")]
    with _own_home():
        home = Home(Path(corpus))
        run = keep([home])
        at_once = _size_of(kept_place(home))
    with _own_home():
        by_steps = _kept_by_steps(corpus)
    size = run.read_bytes
    what = f"{size / 1e6:.0f} MB"
    return [
        Row(
            f"real sessions, kept {how}",
            f"{kept / 1e6:.2f} MB",
            what,
            f"{kept / size:.4f}",
            "<= 0.165",
            kept <= 0.165 * size,
        )
        for how, kept in (("at once", at_once), (f"in {STEPS:,} steps", by_steps))
    ]


def _kept_by_steps(corpus: str) -> int:
    """Let a copy of the sessions grow, some of them at a time, and keep it at every step."""
    rng = random.Random(11)
    growing = Path(BASE, "growing")
    shutil.rmtree(growing, ignore_errors=True)
    logs = []
    for directory, _, names in os.walk(corpus):
        for name in names:
            source = Path(directory, name)
            target = growing / source.relative_to(corpus)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()
            logs.append((source.read_bytes(), target))
    home = Home(growing)
    for step in range(1, STEPS + 1):
        for data, target in logs if step == STEPS else rng.sample(logs, 5):
            have = target.stat().st_size
            end = len(data) if step == STEPS else rng.randint(have, len(data))
            with target.open("ab") as file:
                file.write(data[have:end])
        keep([home])
    kept = _size_of(kept_place(home))
    shutil.rmtree(growing)
    return kept


@contextmanager
def _own_home() -> Iterator[None]:
    """Give turnlog an empty home of its own for a while."""
    place = os.path.abspath(os.path.join(BASE, "keeping"))
    before = os.environ.get("TURNLOG_HOME")
    shutil.rmtree(place, ignore_errors=True)
    os.environ["TURNLOG_HOME"] = place
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)
        if before is None:
            del os.environ["TURNLOG_HOME"]
        else:
            os.environ["TURNLOG_HOME"] = before


def _tar(home: str, target: str) -> None:
    above, name = os.path.split(home)
    tar = subprocess.Popen(["tar", "cf", "-", "-C", above, name], stdout=subprocess.PIPE)
    subprocess.run(["zstd", "-3", "-q", "-f", "-o", target], stdin=tar.stdout, check=True)
    tar.wait()
    fd = os.open(target, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def _listed(home: str) -> int:
    return sum(
        os.stat(os.path.join(directory, name)).st_size
        for directory, _, names in os.walk(home)
        for name in names
    )


def _size_of(place: Path) -> int:
    return sum(
        os.path.getsize(os.path.join(directory, name))
        for directory, _, names in os.walk(place)
        for name in names
        if name.endswith(".zst")
    )


def _read(path: str) -> None:
    for _ in range(CALLS):
        read_last(path, 50)
