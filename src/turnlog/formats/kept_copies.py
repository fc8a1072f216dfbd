"""Kept copies: the paths of turnlog's copies of agents' files.

    $TURNLOG_HOME/kept/NAME/                            one home, mirrored
        home.json                                       which home that is
        machine                                         its machine or container
        catalogue.json                                  what is kept of it
        projects/KEY/ID.jsonl.zst                       a kept copy: the file's name and .zst
        generations/2/projects/KEY/ID.jsonl.zst         the file before it was rewritten
        conflicts/1/projects/key/ID.jsonl.zst           a copy whose path collides with another's

Names that differ on one file system may collide on another, which ignores case or normalizes
Unicode; names collide as well where their directories do. A copy whose name is taken goes into a
directory under ``conflicts``, which is laid out like a mirror, and the catalog says which.

The name of a mirror is made from the home's real path, so that links to a home share one. It is
only a label: nothing converts it back to a path. A second home with the same path, on another
machine, has a mirror NAME-MACHINE.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from turnlog.errors import InvalidId
from turnlog.formats.home_paths import kept_path
from turnlog.formats.log_file import LogFile
from turnlog.formats.walk import DirectoryWalk

KEPT_SUFFIX = ".zst"
GENERATIONS = "generations"
CONFLICTS = "conflicts"
_COPY = re.compile(rf"(?:{CONFLICTS}/([0-9]+)/)?(?:{GENERATIONS}/([0-9]+)/)?(.*)", re.DOTALL)


def kept_place(home: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the mirror of *home*."""
    return Path(kept_path(os.fspath(home), environ))


def kept_copy(place: Path, name: str) -> Path:
    """Return the path of the copy of the file *name*, "/"-separated and relative to its home."""
    return _beneath(place, name)


def generation_copy(place: Path, generation: int, name: str) -> Path:
    """Return the path of an earlier copy of the file *name*."""
    return _beneath(place / GENERATIONS / str(generation), name)


def copy_root(place: Path, conflict: int) -> Path:
    """Return the directory that contains copies under their names; *conflict* is mostly 0."""
    return place / CONFLICTS / str(conflict) if conflict else place


def copy_roots(place: Path) -> dict[int, Path]:
    """Return all such directories of a mirror, by number."""
    names = (item.name for item in DirectoryWalk().enter(os.path.join(place, CONFLICTS)))
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
    return {each: copy_root(place, each) for each in (0, *numbers)}


def other_place(log: LogFile) -> str:
    """Return the source path of a kept log, or the copy's path of any other log."""
    home, path = os.path.abspath(log.home), os.fspath(log.path)
    source = source_of_copy(home, path) if log.is_kept else None
    return source or os.path.join(kept_path(home), os.path.relpath(path, home) + KEPT_SUFFIX)


def source_of_copy(home: str, path: str) -> str | None:
    """Return the source path of the copy at *path*; None if it is not one of *home*'s."""
    place = os.path.join(kept_path(home), "")
    if not path.startswith(place):
        return None
    return os.path.join(home, name_of_copy(path.removeprefix(place)))


class CopyName(NamedTuple):
    """The parts of a copy's name in its mirror."""

    conflict: int
    generation: int | None
    """None for the current generation."""
    name: str
    """The name of the file in its home."""


def read_copy_name(copy: str) -> CopyName:
    """Parse the name of a copy, relative to its mirror."""
    found = _COPY.fullmatch(copy)
    assert found is not None  # Any text matches.
    conflict, generation, name = found.groups()
    name = name.removesuffix(KEPT_SUFFIX)
    return CopyName(int(conflict or 0), int(generation) if generation else None, name)


def name_of_copy(copy: str) -> str:
    """Return the name of the copied file; *copy* is relative to the mirror."""
    return read_copy_name(copy).name


def is_inner_name(name: str) -> bool:
    """Return whether *name* stays inside any directory it is joined to."""
    parts = name.split("/")
    return "\0" not in name and not any(each in {"", ".", ".."} for each in parts)


def _beneath(directory: Path, name: str) -> Path:
    if not is_inner_name(name):
        raise InvalidId(
            f"{name[:80]!r} is not the name of a file in a home",
            hint="names are relative, with / between their parts",
        )
    return directory.joinpath(*(name + KEPT_SUFFIX).split("/"))


# -- names that collide ---------------------------------------------------------------------


def folded(name: str) -> str:
    """Return a key that is equal for names that may collide."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def prefixes(name: str) -> Iterator[str]:
    """Return the directories in a name, the outermost first, and the name itself."""
    end = name.find("/")
    while end >= 0:
        yield name[:end]
        end = name.find("/", end + 1)
    yield name


class Spellings(Struct):
    """The spellings of names in several trees, which are numbered."""

    known: dict[tuple[int, str], str] = field(default_factory=dict)

    def add(self, tree: int, name: str) -> None:
        """Add a name and its directories to a tree."""
        for part in prefixes(name):
            self.known.setdefault((tree, folded(part)), part)

    def get(self, tree: int, name: str) -> str | None:
        """Return the name in a tree that collides with *name*, or None."""
        return self.known.get((tree, folded(name)))

    def place(self, name: str) -> int:
        """Add *name* to the first tree where nothing collides with it; return the tree's number."""
        tree = 0
        while any(self.get(tree, part) not in (None, part) for part in prefixes(name)):
            tree += 1
        self.add(tree, name)
        return tree


def is_spelled(path: str) -> bool:
    """Return whether the directory of *path* lists its name in this spelling.

    Another Unicode form counts as the same: some file systems normalize names.
    """
    above, name = os.path.split(path)
    names = os.listdir(above)
    wanted = unicodedata.normalize("NFC", name)
    return name in names or any(unicodedata.normalize("NFC", each) == wanted for each in names)
