"""Find the logs of keys, and restore them.

A log is in its place, compressed next to it, or a kept copy; reading is the same for all. An empty
log was never written. Before appending, an archived or deleted log is restored with all missing
files of its session, as ``turnlog restore`` does: verified, nothing overwritten.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from turnlog.errors import LogError, TurnlogError
from turnlog.formats import Home, read_name
from turnlog.formats.home_files import project_of
from turnlog.formats.kept_copies import KEPT_SUFFIX, copy_roots, kept_place
from turnlog.formats.walk import DirectoryWalk
from turnlog.integrations.claude_agent_sdk.keys import LOG, Key, place, subpath_of
from turnlog.keep.archive.flat import unpack_in_place
from turnlog.keep.catalog import find_copy
from turnlog.keep.restore.restorable import Restorable, mirrors
from turnlog.keep.restore.restore import restore
from turnlog.sessions.metadata import read_head_tail

PACKED: Final = (".zst", ".gz")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class FoundLog(NamedTuple):
    """A log on disk."""

    path: Path
    size_bytes: int
    mtime_ns: int

    @property
    def mtime_ms(self) -> int:
        return self.mtime_ns // 1_000_000

    @property
    def is_packed(self) -> bool:
        return not self.path.name.endswith(LOG)


def find_log(root: Path, key: Key) -> FoundLog | None:
    """Return the log of *key*, or None if there is none or it is empty."""
    for path in _candidates(root, key.name):
        found = look_at(path)
        if found is not None:
            return found if found.size_bytes else None
    return None


def find_sessions(root: Path, project: str) -> dict[str, FoundLog]:
    """Return the main logs of a project by session id."""
    found: dict[str, FoundLog] = {}
    for top, ending in _tops(root, project):
        directory = place(top, f"projects/{project}")
        here: dict[str, FoundLog] = {}
        for file in _names_in(directory):
            log = read_name(file.removesuffix(ending)) if file.endswith(ending) else None
            if log is None or log.kind != "session" or log.id in found:
                continue
            # If a log and its archive exist, the log wins.
            if log.compression is None or log.id not in here:
                there = look_at(directory / file)
                if there is not None:
                    here[log.id] = there
        found |= here
    return {session: each for session, each in found.items() if each.size_bytes}


def newest_first(found: Mapping[str, FoundLog]) -> list[tuple[str, FoundLog]]:
    """Return sessions sorted by mtime, newest first.

    File clocks are coarse: for equal mtimes, the latest record decides.
    """
    ticks = Counter(log.mtime_ns for log in found.values())

    def written(each: tuple[str, FoundLog]) -> tuple[int, datetime]:
        tick = each[1].mtime_ns
        return tick, _last_record_at(each[1].path) if ticks[tick] > 1 else _LONG_AGO

    return sorted(found.items(), key=written, reverse=True)


def _last_record_at(path: Path) -> datetime:
    try:
        return read_head_tail(path).life.last_active_at or _LONG_AGO
    except (TurnlogError, OSError):
        return _LONG_AGO


def find_subpaths(root: Path, key: Key) -> list[str]:
    """Find the subpaths of a session that something was written to."""
    found: dict[str, bool] = {}
    for top, ending in _tops(root, key.project):
        base = os.path.join(top, "")
        for item in DirectoryWalk().files_beneath(str(place(top, key.directory))):
            name = item.path.removeprefix(base).replace(os.sep, "/")
            is_one = name.endswith(ending)
            subpath = subpath_in(key, name.removesuffix(ending)) if is_one else None
            if subpath is not None and subpath not in found:
                there = look_at(Path(item.path))
                found[subpath] = there is not None and there.size_bytes > 0
    return sorted(subpath for subpath, is_written in found.items() if is_written)


def subpath_in(key: Key, name: str) -> str | None:
    """Return the subpath of the log *name*, compressed or not, or None."""
    for ending in PACKED:
        name = name.removesuffix(ending) if name.endswith(LOG + ending) else name
    return subpath_of(name.removeprefix(f"{key.directory}/"))


def _candidates(root: Path, name: str) -> Iterator[Path]:
    """Yield the paths where a log may be; the first that exists counts."""
    yield place(root, name)
    yield from (place(root, name + ending) for ending in PACKED)
    kept = kept_place(root)
    yield from (find_copy(kept, name + each) for each in ("", *PACKED))


def _tops(root: Path, project: str) -> Iterator[tuple[Path, str]]:
    """Yield the home and the directories of kept copies, with the suffix of their files."""
    yield root, ""
    for top in copy_roots(kept_place(root)).values():
        # On a case-insensitive file system, another project may have this directory.
        if project in _names_in(top / "projects"):
            yield top, KEPT_SUFFIX


def look_at(path: Path) -> FoundLog | None:
    """Return the file at *path*, or None."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LogError(
            f"cannot stat {path}: {error.strerror or error}",
            path=path,
            errno=error.errno,
            hint="its owner must grant access, or the path is too long",
        ) from None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FoundLog(path, status.st_size, status.st_mtime_ns)


def _names_in(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LogError(
            f"cannot list {directory}: {error.strerror or error}",
            path=directory,
            errno=error.errno,
            hint="its owner must grant access",
        ) from None


def restore_log(root: Path, key: Key) -> None:
    """Restore the log of *key* if it is archived, or deleted and kept."""
    if place(root, key.name).exists():
        return
    found = find_log(root, key)
    if found is None:
        return
    if found.path.is_relative_to(root) and found.path.parent == place(root, key.name).parent:
        unpack_in_place(found.path)
        return
    for mirror in mirrors((Home(root),)):
        owned = [name for name, owner in mirror.owners.items() if owner == key.session]
        here = [name for name in owned if project_of(name) == key.project]
        if key.name in mirror.copies and key.name not in here:
            here.append(key.name)  # Its owner is not known from its name.
        if key.name in here:
            restore(Restorable(key.session, mirror, here))
