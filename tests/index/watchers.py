"""A watcher in a process of its own, and those who ask it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.homes import asked, lines, log_path, made_home, own_index
from turnlog.index.asking import ask, socket_of
from turnlog.index.database import index_path, open_for_reading
from turnlog.layout import Home

START = "from turnlog.cli import main; main()"
PATIENCE_SECONDS = 60


class World:
    """A home, an index of its own at a place short enough for a socket, and its watchers."""

    def __init__(self, directory: Path) -> None:
        self.homes = made_home(directory / "home")
        self.names = [os.fspath(home) for home in self.homes]
        self.words = 0
        self._watchers: list[subprocess.Popen[bytes]] = []

    @property
    def socket(self) -> Path:
        return Path(socket_of(str(index_path(self.homes))))

    def command(self, *arguments: str) -> list[str]:
        home = ("--home", self.names[0])
        return [sys.executable, "-c", START, arguments[0], *home, *arguments[1:]]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, timeout=120
        )

    def watch(self, *options: str, stdout: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start a watcher; return when there is a socket."""
        watcher = subprocess.Popen(self.command("watch", *(options or ("--quiet",))), stdout=stdout)
        self._watchers.append(watcher)
        wait_until(self.socket.exists)
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

    def wait_for_answer(self, stage: str = "text") -> str:
        """Ask until somebody answers: a machine may be busy."""
        end = time.monotonic() + PATIENCE_SECONDS
        while (answer := ask(self.names, stage)) is None:
            assert time.monotonic() < end, "nobody ever answered"
            time.sleep(0.02)
        return answer

    def close(self) -> None:
        for watcher in self._watchers:
            if watcher.poll() is None:
                watcher.send_signal(signal.SIGCONT)
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
