"""A home, what is kept of it, and somebody who remembers what every file held when it was kept."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from storage.packed import QUICK
from turnlog.formats import Home
from turnlog.formats.home_files import home_files
from turnlog.formats.kept_copies import kept_copy, kept_place
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import KeepRun, keep
from turnlog.storage.compressed import unpack

KEY = "-srv-kites"
SESSIONS = [f"7c1d9f0e-5a52-4c11-9a3d-2f6f0d0c4b{number:02x}" for number in range(8)]
LOG = f"projects/{KEY}/{SESSIONS[0]}.jsonl"
OTHER = f"projects/{KEY}/{SESSIONS[1]}.jsonl"
TODOS = f"todos/{SESSIONS[0]}-agent-{SESSIONS[0]}.json"


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A directory for as long as the block lasts, and in it turnlog's own home."""
    with (
        tempfile.TemporaryDirectory(prefix="turnlog-keep-", dir=QUICK) as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TURNLOG_HOME", f"{directory}/own")
        yield Path(directory)


@contextmanager
def new_world() -> Iterator[World]:
    """A home, and a place for what turnlog keeps of it, for as long as the block lasts."""
    with quick_directory() as directory:
        yield World(directory)


class World:
    """One home in *directory*; every change of a file gives it a later time."""

    def __init__(self, directory: Path) -> None:
        self.home = Home(directory / "home")
        self.root = Path(self.home.path)
        (self.root / "projects" / KEY).mkdir(parents=True, exist_ok=True)
        self.histories: dict[str, list[bytes]] = {}
        """What the generations of each file held, the oldest first."""
        self._clock = 1_772_600_000_000_000_000

    # -- what agents do ----------------------------------------------------------------------

    def put(self, name: str, data: bytes) -> Path:
        """Write a file anew, in place."""
        path = self._at(name)
        path.write_bytes(data)
        return self._later(path)

    def add(self, name: str, data: bytes) -> Path:
        path = self._at(name)
        with path.open("ab") as file:
            file.write(data)
        return self._later(path)

    def cut(self, name: str, size: int) -> Path:
        os.truncate(self.path(name), size)
        return self._later(self.path(name))

    def touch(self, name: str) -> Path:
        return self._later(self.path(name))

    def remove(self, name: str) -> None:
        path = self.path(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()

    def path(self, name: str) -> Path:
        return self.root.joinpath(*name.split("/"))

    def _at(self, name: str) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _later(self, path: Path) -> Path:
        self._clock += 1_000_000_007
        os.utime(path, ns=(self._clock, self._clock))
        return path

    # -- what is kept ------------------------------------------------------------------------

    @property
    def place(self) -> Path:
        return kept_place(self.home)

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue.load(self.place)

    def copy(self, name: str) -> Path:
        return kept_copy(self.place, name)

    def keep(self, **how: Any) -> KeepRun:
        """Keep, and remember what every file held; the home must be as it was before."""
        before = snapshot(self.root)
        done = keep([self.home], **how)
        assert snapshot(self.root) == before, "an agent's file was changed"
        refused = {os.fspath(problem.path) for problem in done.problems}
        for file in home_files(self.home):
            if file.path not in refused:
                self.remember(file.name, Path(file.path).read_bytes())
        return done

    def remember(self, name: str, data: bytes) -> None:
        history = self.histories.setdefault(name, [])
        if history[-1:] != [data]:  # What the newest begins with is kept in it.
            history[:] = [each for each in history if not data.startswith(each)] + [data]

    def generations(self, name: str) -> list[bytes]:
        """Read back what is kept of a file, generation by generation."""
        catalogue = self.catalogue
        return [b"".join(unpack(catalogue.copy_of(kept))) for kept in catalogue.generations(name)]

    def check(self) -> None:
        """Everything that was ever kept can be read back, and nothing else lies there."""
        found = {name: self.generations(name) for name in self.histories}
        assert found == self.histories
        catalogue = self.catalogue
        assert catalogue.is_sound or not self.histories
        assert set(catalogue.current) == set(self.histories)
        for name in self.histories:
            numbers = [kept.generation for kept in catalogue.generations(name)]
            assert numbers == sorted(set(numbers)), "a generation has a number of its own"
            for kept in catalogue.generations(name):
                copy = catalogue.copy_of(kept)
                assert kept.packed_bytes == copy.stat().st_size
                assert kept.size_bytes == sum(map(len, unpack(copy)))
        assert unfinished(self.place) == []


def unfinished(place: Path) -> list[str]:
    """Give the temporary files that lie in a mirror."""
    return [os.fspath(path) for path in place.rglob(".turnlog-*")]


def snapshot(root: Path) -> dict[str, tuple[Any, ...]]:
    """Tell what lies beneath *root*: bytes, modes, times, and which file it is."""
    found: dict[str, tuple[Any, ...]] = {}
    for directory, inner, files in os.walk(root):
        for name in (*inner, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            is_file = stat.S_ISREG(status.st_mode)
            found[path] = (
                status.st_mode,
                status.st_ino,
                status.st_mtime_ns,
                status.st_size,
                Path(path).read_bytes() if is_file else None,
            )
    return found


def sizes(place: Path) -> dict[str, int]:
    """Tell how large every copy is, by its place in the mirror."""
    return {
        path.relative_to(place).as_posix(): path.stat().st_size for path in place.rglob("*.zst")
    }
