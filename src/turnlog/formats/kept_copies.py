"""Kept copies: where turnlog's own copies of an agent's files lie.

    $TURNLOG_HOME/kept/NAME/                            one home, mirrored
        home.json                                       which home that is
        machine                                         on which machine or in which container
        catalogue.json                                  what is kept of it
        projects/KEY/ID.jsonl.zst                       a kept copy: the file's name and .zst
        generations/2/projects/KEY/ID.jsonl.zst         what the file held before it was rewritten
        conflicts/1/projects/key/ID.jsonl.zst           a copy whose place another file's copy has

Names that differ on one file system may be the same on another, which ignores case or normalises
Unicode. A copy whose name is taken goes into a directory beneath ``conflicts``, which has all that
a mirror has, and the catalogue says into which.

A kept copy has the name of its file, so that what is said of names in a home holds for copies too.
The name of the mirror is made of the home's true path, so that links to a home share one; it is for
people to recognise, and nothing turns it back into a path (``home_paths`` makes it). A second home
of the same path, on another machine, has a mirror NAME-MACHINE.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import InvalidId
from turnlog.formats.home_paths import kept_path
from turnlog.formats.log_file import LogFile
from turnlog.formats.walk import DirectoryWalk

KEPT_SUFFIX = ".zst"
GENERATIONS = "generations"
CONFLICTS = "conflicts"
_COPY = re.compile(rf"(?:{CONFLICTS}/([0-9]+)/)?(?:{GENERATIONS}/([0-9]+)/)?(.*)", re.DOTALL)


def kept_place(home: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the mirror of *home* lies, as a path."""
    return Path(kept_path(os.fspath(home), environ))


def kept_copy(place: Path, name: str) -> Path:
    """Return the place of the copy of the file *name*, "/"-separated and relative to its home."""
    return _beneath(place, name)


def generation_copy(place: Path, generation: int, name: str) -> Path:
    """Return the place of an earlier copy of the file *name*."""
    return _beneath(place / GENERATIONS / str(generation), name)


def copy_root(place: Path, conflict: int) -> Path:
    """Return the directory beneath which copies lie under their names; *conflict* is mostly 0."""
    return place / CONFLICTS / str(conflict) if conflict else place


def copy_roots(place: Path) -> dict[int, Path]:
    """Return all such directories of a mirror, by their numbers."""
    names = (item.name for item in DirectoryWalk().enter(os.path.join(place, CONFLICTS)))
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
    return {each: copy_root(place, each) for each in (0, *numbers)}


def other_place(log: LogFile) -> str:
    """Return where the source of a kept log lay; of another log, where its kept copy would lie."""
    home, path = os.path.abspath(log.home), os.fspath(log.path)
    source = source_of_copy(home, path) if log.is_kept else None
    return source or os.path.join(kept_path(home), os.path.relpath(path, home) + KEPT_SUFFIX)


def source_of_copy(home: str, path: str) -> str | None:
    """Return where the file lay of which *path* is a copy; None if it is not one of *home*'s."""
    place = os.path.join(kept_path(home), "")
    if not path.startswith(place):
        return None
    return os.path.join(home, name_of_copy(path.removeprefix(place)))


class CopyName(NamedTuple):
    """What the name of a copy in its mirror says."""

    conflict: int
    generation: int | None
    """None if it is not an earlier one."""
    name: str
    """The name of the file in its home."""


def read_copy_name(copy: str) -> CopyName:
    """Read the name of a copy, relative to its mirror."""
    found = _COPY.fullmatch(copy)
    assert found is not None  # Any text matches.
    conflict, generation, name = found.groups()
    name = name.removesuffix(KEPT_SUFFIX)
    return CopyName(int(conflict or 0), int(generation) if generation else None, name)


def name_of_copy(copy: str) -> str:
    """Return the name of the file that a copy is of; *copy* is relative to the mirror."""
    return read_copy_name(copy).name


def is_inner_name(name: str) -> bool:
    """Return whether *name* stays inside whatever directory it is put beneath."""
    parts = name.split("/")
    return "\0" not in name and not any(each in {"", ".", ".."} for each in parts)


def _beneath(directory: Path, name: str) -> Path:
    if not is_inner_name(name):
        raise InvalidId(
            f"{name[:80]!r} is not the name of a file in a home",
            hint="names are relative, with / between their parts",
        )
    return directory.joinpath(*(name + KEPT_SUFFIX).split("/"))
