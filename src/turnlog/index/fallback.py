"""What to use when the index cannot be written: the index as it is, or a temporary one.

A home may be on a read-only file system or a full disk. If it has an index, that is read as it is,
with a notice about what is missing. Otherwise one is created in a temporary directory, unless the
logs are large: it is deleted with the process, and the next one would have to read them all again.
``path_of_index`` returns its path as long as the process lives, so it is found and refreshed like
any other.
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
from turnlog.index.freshness import TEMPORARY, has_leftovers, path_of_index
from turnlog.index.refresh.plan import changed_among, known_logs, look
from turnlog.index.refresh.refresh import RefreshResult, refresh
from turnlog.index.side_files import side_files_of

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.index.refresh.refresh import Progress, Stage

Fallback = Literal["made", "read", "none"]
"""What to use instead: the index as it is or a temporary one, only the index as it is, or
nothing."""

MOST_BYTES: Final = 256_000_000
"""Larger logs are not read for one run: that takes about five seconds and 50 MB of disk."""
_HINT: Final = "set TURNLOG_HOME to a writable directory"
_made: list[tuple[str, int]] = []


def fall_back(
    homes: Sequence[Home],
    error: IndexUnavailable,
    *,
    stage: Stage,
    fallback: Fallback,
    progress: Progress | None = None,
) -> RefreshResult:
    """Return what the index lacks that could not be refreshed, or create a temporary one."""
    if (
        fallback != "none"
        and _is_unwritable(error)
        and (counted := _lacking(homes, stage)) is not None
    ):
        logs, lacks = counted
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
    """Create the index of *homes* in a temporary directory."""
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
    path = path_of_index(homes)
    try:
        directory = tempfile.mkdtemp(prefix="turnlog-")
    except OSError:
        raise error from None
    _made.append((directory, os.getpid()))
    TEMPORARY[path] = os.path.join(directory, os.path.basename(path))
    try:
        done = refresh(homes, stage=stage, progress=progress)
    except IndexUnavailable:
        del TEMPORARY[path]
        shutil.rmtree(directory, ignore_errors=True)
        raise error from None
    done.notices.append(f"{error.message}; one was made for this run alone: {_HINT}")
    return done


def is_temporary(homes: Sequence[Home]) -> bool:
    """Return whether the index of *homes* is a temporary one."""
    return path_of_index(homes) in TEMPORARY.values()


def _lacking(homes: Sequence[Home], stage: Stage) -> tuple[int, str] | None:
    """Return the number of logs and what the index lacks ("" for nothing); None if unreadable."""
    db = open_for_reading(homes)
    if db is None:
        return None
    usage_only = stage == "usage"
    with closing(db):
        try:
            known = known_logs(db)
            is_interrupted = has_leftovers(db)
        except sqlite3.Error:
            return None
    marks = (entry.usage if usage_only else entry.text for entry in known.values())
    if all(mark.size_bytes < 0 for mark in marks):
        return None  # Nothing was read for this stage yet.
    side = () if usage_only else side_files_of(homes, {})
    seen = look(chain(find_everywhere(homes), side))
    changed = sum(1 for _ in changed_among(seen, known, usage_only=usage_only))
    lacks = "it is read as it is, though a refresh was cut off" if is_interrupted else ""
    if changed:
        lacks = f"it is read as it is, without what is new in {changed:,} of {len(seen):,} logs"
    return len(seen), lacks


def _is_unwritable(error: IndexUnavailable) -> bool:
    return not isinstance(error, IndexTooNew | BrokenIndex)


def _size_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


@atexit.register
def delete_temporary_indexes() -> None:
    """Delete the temporary indexes of this process; also called before ``os._exit``."""
    for directory, made_by in _made:
        if made_by == os.getpid():  # Not in a forked child.
            shutil.rmtree(directory, ignore_errors=True)
