"""Kept copies: where turnlog's own copies of an agent's files lie.

    $TURNLOG_HOME/kept/NAME/                            one home, mirrored
        home.json                                       which home that is
        machine                                         on which machine or in which container
        catalogue.json                                  what is kept of it
        projects/KEY/ID.jsonl.zst                       a kept copy: the file's name and .zst
        generations/2/projects/KEY/ID.jsonl.zst         what the file held before it was rewritten

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

from turnlog.errors import InvalidId
from turnlog.layout.home_paths import kept_path
from turnlog.layout.log_file import LogFile

KEPT_SUFFIX = ".zst"
_GENERATION = re.compile(r"\Agenerations/[0-9]+/")


def kept_place(home: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """Tell where the mirror of *home* lies, as a path."""
    return Path(kept_path(os.fspath(home), environ))


def kept_copy(place: Path, name: str) -> Path:
    """Give the place of the copy of the file *name*, "/"-separated and relative to its home."""
    return _beneath(place, name)


def generation_copy(place: Path, generation: int, name: str) -> Path:
    """Give the place of an earlier copy of the file *name*."""
    return _beneath(place / "generations" / str(generation), name)


def other_place(log: LogFile) -> str:
    """Tell where the source of a kept log lay; of another log, where its kept copy would lie."""
    home, path = os.path.abspath(log.home), os.fspath(log.path)
    source = source_of_copy(home, path) if log.is_kept else None
    return source or os.path.join(kept_path(home), os.path.relpath(path, home) + KEPT_SUFFIX)


def source_of_copy(home: str, path: str) -> str | None:
    """Tell where the file lay of which *path* is a copy; None if it is not one of *home*'s."""
    place = os.path.join(kept_path(home), "")
    if not path.startswith(place):
        return None
    return os.path.join(home, path.removeprefix(place).removesuffix(KEPT_SUFFIX))


def name_of_copy(copy: str) -> str:
    """Give the name of the file that a copy is of; *copy* is relative to the mirror."""
    return _GENERATION.sub("", copy, count=1).removesuffix(KEPT_SUFFIX)


def is_inner_name(name: str) -> bool:
    """Tell whether *name* stays inside whatever directory it is put beneath."""
    parts = name.split("/")
    return "\0" not in name and not any(each in {"", ".", ".."} for each in parts)


def _beneath(directory: Path, name: str) -> Path:
    if not is_inner_name(name):
        raise InvalidId(
            f"{name[:80]!r} is not the name of a file in a home",
            hint="names are relative, with / between their parts",
        )
    return directory.joinpath(*(name + KEPT_SUFFIX).split("/"))
