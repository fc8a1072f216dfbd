"""An index that cannot be written: it is read as it is, or another one is made for this run.

A home may lie on a file system that is read only, or on a disk that is full. Where an index lies in
it, that is what there is to read, and a notice says what it lacks. Where none does, one is made in
a temporary directory, unless the logs are large: it goes with the process, and the next one would
read them all again. ``path_of_index`` leads there as long as the process lives, so whoever asks
again finds it, and a refresh brings it up to date like any other.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from turnlog.errors import BrokenIndex, IndexTooNew, IndexUnavailable
from turnlog.formats import find_everywhere
from turnlog.index.database import open_for_reading
from turnlog.index.freshness import ELSEWHERE, has_leftovers, path_of_index
from turnlog.index.refresh.plan import changed_among, known_logs, look
from turnlog.index.refresh.refresh import refresh
from turnlog.index.refresh.result import RefreshResult
from turnlog.index.side_files import side_files_of

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.index.refresh.result import Progress, Stage

Fallback = Literal["made", "read", "none"]
"""What serves instead: an index that is read as it is or made for this run, one that is there to be
read, or none at all."""

MOST_BYTES: Final = 256_000_000
"""Larger logs are not read for one run alone: this takes some five seconds and 50 MB of disk."""
_MADE: list[tuple[str, int]] = []
_HINT: Final = "set TURNLOG_HOME to a directory that can be written"


def refreshed_otherwise(
    homes: Sequence[Home],
    error: IndexUnavailable,
    *,
    stage: Stage,
    fallback: Fallback,
    progress: Progress | None = None,
) -> RefreshResult:
    """Say what the index lacks that could not be refreshed for *error*, or make one elsewhere."""
    if (
        fallback != "none"
        and _is_unwritable(error)
        and (found := _lacking(homes, stage)) is not None
    ):
        logs, lacks = found
        return RefreshResult(logs=logs, notices=[f"{error.message}; {lacks}"] if lacks else [])
    if fallback != "made":
        raise error
    return make_temporary_index(homes, error, stage=stage, progress=progress)


def make_temporary_index(
    homes: Sequence[Home],
    error: IndexUnavailable,
    *,
    stage: Stage = "text",
    progress: Progress | None = None,
) -> RefreshResult:
    """Make the index of *homes* in a temporary directory, since it has to do without its place."""
    if not _is_unwritable(error):
        raise error
    size_bytes = sum(_size_bytes(os.fspath(log.path)) for log in find_everywhere(homes))
    if size_bytes > MOST_BYTES:
        most = f"{MOST_BYTES // 1_000_000:,} MB"
        raise IndexUnavailable(
            f"{error.message}; and {size_bytes // 1_000_000:,} MB of logs are more than the {most}"
            " that are read for one run alone",
            path=error.path,
            hint=_HINT,
        ) from error
    names = [os.fspath(home) for home in homes]
    place = path_of_index(names)
    try:
        directory = tempfile.mkdtemp(prefix="turnlog-")
    except OSError:
        raise error from None  # There is no room anywhere.
    _MADE.append((directory, os.getpid()))
    ELSEWHERE[place] = os.path.join(directory, os.path.basename(place))
    try:
        done = refresh(homes, stage=stage, progress=progress)
    except IndexUnavailable:
        del ELSEWHERE[place]
        shutil.rmtree(directory, ignore_errors=True)
        raise error from None
    done.notices.append(f"{error.message}; one was made for this run alone: {_HINT}")
    return done


def is_temporary(homes: Sequence[Home]) -> bool:
    """Return whether the index of *homes* was made for this run alone."""
    return path_of_index([os.fspath(home) for home in homes]) in ELSEWHERE.values()


def _lacking(homes: Sequence[Home], stage: Stage) -> tuple[int, str] | None:
    """Count the logs and say what the index lacks, "" if nothing; None if none could be read."""
    db = open_for_reading(homes)
    if db is None:
        return None
    usage_only = stage == "usage"
    with closing(db):
        try:
            known = known_logs(db)
            is_cut_off = has_leftovers(db)
        except sqlite3.Error:
            return None
    marks = (entry.usage if usage_only else entry.text for entry in known.values())
    if all(mark.size_bytes < 0 for mark in marks):
        return None  # It was made for other questions, and has nothing for these.
    side = () if usage_only else side_files_of(homes, {})
    seen = look(chain(find_everywhere(homes), side))
    changed = sum(1 for _ in changed_among(seen, known, usage_only=usage_only))
    lacks = "it is read as it is, though a refresh was cut off" if is_cut_off else ""
    if changed:
        lacks = f"it is read as it is, without what is new in {changed:,} of {len(seen):,} logs"
    return len(seen), lacks


def _is_unwritable(error: IndexUnavailable) -> bool:
    """Return whether that is all: an index that is broken or too new has another way out."""
    return not isinstance(error, IndexTooNew | BrokenIndex)


def _size_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@atexit.register
def tidy_up() -> None:
    """Remove what was made for this run; for those as well who leave without more ado."""
    for directory, made_by in _MADE:
        if made_by == os.getpid():  # A child that was forked ends earlier.
            shutil.rmtree(directory, ignore_errors=True)
