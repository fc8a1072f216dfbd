"""Commands refresh the index themselves, also while watchers keep it fresh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from index.homes import asked, lines, log_path, made_home, own_index, rebuilt
from index.rows import differences, rows_of
from turnlog.formats import Home
from turnlog.index.connection import open_fresh
from turnlog.index.database import open_for_reading
from turnlog.index.refresh.refresh import refresh

START = "from turnlog.cli import main; main()"
PATIENCE_SECONDS = 60


class World:
    """A home, an index of its own, and its watchers."""

    def __init__(self, directory: Path) -> None:
        self.homes = made_home(directory / "home")
        self.names = [os.fspath(home) for home in self.homes]
        self.words = 0
        self._watchers: list[subprocess.Popen[bytes]] = []

    def command(self, *arguments: str) -> list[str]:
        home = ("--home", self.names[0])
        return [sys.executable, "-c", START, arguments[0], *home, *arguments[1:]]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=120
        )

    def watch(self, *options: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a watcher; return when it has read what was said last."""
        word = self.say()
        watcher = subprocess.Popen(self.command("watch", *(options or ("--quiet",))), stdout=stdout)
        self._watchers.append(watcher)
        wait_until(lambda: self.holds(word))
        return watcher

    def say(self) -> str:
        """Append a prompt with a word that no other has."""
        self.words += 1
        word = f"kestrel{self.words}"
        record = asked(self.words, message={"role": "user", "content": f"the {word} hovers"})
        with log_path(self.homes).open("ab") as log:
            log.write(lines(record))
        return word

    def holds(self, word: str) -> bool:
        """Tell whether the index, as it is, has a word."""
        return word_in(self.homes, word)

    def close(self) -> None:
        for watcher in self._watchers:
            if watcher.poll() is None:
                watcher.kill()
            watcher.wait(PATIENCE_SECONDS)
            if watcher.stdout is not None:
                watcher.stdout.close()


def word_in(homes: tuple[Home, ...], word: str) -> bool:
    db = open_for_reading(homes)
    if db is None:  # Nobody has made it yet.
        return False
    try:
        return db.execute("SELECT 1 FROM said WHERE said MATCH ?", (word,)).fetchone() is not None
    finally:
        db.close()


def wait_until(holds, seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@contextmanager
def made_world() -> Iterator[World]:
    place = Path(tempfile.mkdtemp(prefix="tl"))
    with own_index(place / "own"):
        world = World(place)
        try:
            yield world
        finally:
            world.close()
            shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def world():
    with made_world() as made:
        made.say()
        refresh(made.homes)
        yield made


def test_an_index_opened_beside_a_watcher_is_fresh(world):
    world.watch()
    for _ in range(50):
        word = world.say()
        with open_fresh(world.homes) as index:
            query = "SELECT count(*) FROM said WHERE said MATCH ?"
            assert index.db.execute(query, (word,)).fetchone() == (1,)


def test_commands_at_once_beside_two_watchers(world):
    world.watch()
    world.watch()
    words = [world.say() for _ in range(6)]
    running = [subprocess.Popen(world.command("refresh"), stdout=subprocess.PIPE) for _ in range(6)]
    for each in running:
        out, _ = each.communicate(timeout=PATIENCE_SECONDS)
        assert (each.returncode, out.startswith(b"1 log; ")) == (0, True)
    assert all(map(world.holds, words))
    assert differences(rows_of(world.homes), rebuilt(world.homes)) == ""


def test_a_watcher_prints_each_record_once_whoever_refreshed(world):
    watcher = world.watch("--json", stdout=subprocess.PIPE)
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(watcher.stdout))
    reader.start()
    words = []
    for _ in range(30):
        words.append(world.say())
        refresh(world.homes)
    last = world.say()
    wait_until(lambda: any(last.encode() in line for line in seen) or watcher.poll() is not None)
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(PATIENCE_SECONDS) == 0
    reader.join(PATIENCE_SECONDS)
    told = b"".join(seen)
    assert [told.count(f"the {word} ".encode()) for word in (*words, last)] == [1] * 31


def test_a_killed_watcher_stops_nobody(world):
    watcher = world.watch()
    watcher.kill()
    watcher.wait(PATIENCE_SECONDS)
    word = world.say()
    done = world.run("refresh")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(" from 1 of them\n")
    assert world.holds(word)
