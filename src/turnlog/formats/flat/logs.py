"""The logs of a flat store, and metadata computed from a session's log.

A session is in the store as ``ID.jsonl``, or as an archive: ``compressed/ID.jsonl.gz`` (or .zst),
or next to where the log was. If both exist, the log wins. `LiveMeta` reads a log once and then only
what is appended, so refreshing is cheap however long the log is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from turnlog.errors import NotFound
from turnlog.formats import Problem, flat_archive, flat_log, looks_like_log, read_name
from turnlog.formats.flat.meta import META, Meta, MetaFold
from turnlog.formats.log_file import session_name
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.damage import Reason
from turnlog.storage.reader import Placed, Reader, read_log
from turnlog.storage.sources import open_error

_ENDS: Final = (".gz", ".zst")


class FlatLog(Struct, frozen=True):
    """Where a session's log is, and its state when it was found."""

    path: Path
    is_archive: bool
    inode: int
    size_bytes: int
    changed_ns: int

    @property
    def changed_at(self) -> datetime | None:
        try:
            return datetime.fromtimestamp(self.changed_ns // 1_000_000 / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            return None


def sessions_in(directory: Path, problems: list[Problem] | None = None) -> set[str]:
    """Return the ids of the sessions that have a log or an archive in *directory*."""
    walk = DirectoryWalk(problems)
    items = walk.enter(str(directory), expected=True)
    if any(item.name == "compressed" and item.kind == "directory" for item in items):
        items += walk.enter(str(directory / "compressed"))
    for item in items:
        if item.kind != "file" and looks_like_log(item.name):
            walk.note(item.path, item.why or "a directory, not a log")
    return _sessions(item.name for item in items if item.kind == "file")


def metas_in(directory: Path) -> set[str]:
    """Return the ids of the sessions that have a metadata file in *directory*."""
    items = DirectoryWalk().enter(str(directory))
    stems = (item.name.removesuffix(META) for item in items if item.name.endswith(META))
    return _sessions(session_name(stem) for stem in stems)


def find_log(directory: Path, session_id: str) -> FlatLog | None:
    """Return the current log of a session; None if there is none.

    Raises LogError if the directory cannot be searched.
    """
    plain, packed = flat_log(directory, session_id), flat_archive(directory, session_id)
    archives = (packed, packed.with_suffix(".zst"), *(Path(f"{plain}{end}") for end in _ENDS))
    for path in (plain, *archives):
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise open_error(error, path) from None
        is_archive = path is not plain
        return FlatLog(path, is_archive, status.st_ino, status.st_size, status.st_mtime_ns)
    return None


def _sessions(names: Iterable[str]) -> set[str]:
    read = map(read_name, names)
    return {name.id for name in read if name is not None and name.kind == "session"}


class LiveMeta:
    """Metadata from the log of one session, updated by ``refresh``."""

    def __init__(self, directory: str | os.PathLike[str], session_id: str) -> None:
        self.directory = Path(os.path.abspath(directory))
        self.session_id = session_id
        self.log: FlatLog | None = None
        self.broken: str | None = None
        """What is wrong with the archive, if it cannot be read to its end."""
        self._fold = MetaFold()
        self._offset = 0
        self._original_bytes = 0
        self._took_pending = False

    @property
    def is_marked(self) -> bool:
        """Whether the log records when its writers began and ended."""
        return self._fold.is_marked

    def refresh(self) -> None:
        """Read what was appended since; from the start if the log is a different one."""
        log = find_log(self.directory, self.session_id)
        if log is None:
            raise NotFound(
                f"no log of session {self.session_id} in {self.directory}",
                hint="list the sessions to see their ids",
            )
        before = self.log
        if log == before:
            return
        if before is None or not self._continues(before, log):
            self._fold, self._offset, self.broken = MetaFold(), 0, None
        self.log = None  # Until all of it is read: a failure must not look like the end.
        with read_log(log.path, start=self._offset, tail="wait") as reader:
            self._read(reader)
        self.log = log

    def meta(self) -> Meta:
        """Return the metadata as of the last refresh."""
        meta = self._fold.meta(self.session_id)
        if self.log is None or not self.log.is_archive:
            return meta
        ratio = None
        if self.broken is None and self._original_bytes:
            ratio = round(self.log.size_bytes / self._original_bytes, 4)
        return replace(meta, is_archived=True, compression_ratio=ratio)

    def _continues(self, before: FlatLog, now: FlatLog) -> bool:
        """Return whether the log is the one read before, possibly with more appended."""
        if self._took_pending or now.is_archive:
            return False
        same = (before.path, before.inode) == (now.path, now.inode)
        return same and now.size_bytes >= before.size_bytes

    def _read(self, reader: Reader) -> None:
        for item in reader:
            if isinstance(item, Placed):
                self._fold.take(item.record)
            elif item.reason is Reason.BROKEN_ARCHIVE:
                self.broken = item.detail or "damaged"
        pending = reader.pending
        self._offset = reader.offset
        self._original_bytes = reader.offset + (pending.length if pending else 0)
        # A record that lacks only its newline counts. It is read again when the log grows.
        record = pending.record if pending else None
        self._took_pending = record is not None
        if record is not None:
            self._fold.take(record)
