"""Check whether the index is up to date, by one ``stat`` for every log and directory.

A log appears or disappears only if its directory changes, so directories with an unchanged mtime
need not be listed again. An mtime that was recent when it was stored proves nothing: something may
have changed within the same tick of the clock. Every command that uses the index runs this first,
so it imports little.
"""

from __future__ import annotations

import os
from binascii import crc32

from turnlog.formats.home_paths import turnlog_home_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

VERSION = 14
MARK = 0x7475726E  # "turn"

TEMPORARY: dict[str, str] = {}
"""Indexes of this process that could not be created in their usual place: see ``fallback``."""

# The mtime of a directory that changed more recently is not trusted.
_SETTLED_NS = 2_000_000_000


def path_of_index(homes: Iterable[str | os.PathLike[str]]) -> str:
    """Return the path of the index of *homes*, whether or not it exists."""
    paths = sorted({os.path.realpath(home) for home in homes})
    name = "\0".join(paths).encode(errors="surrogateescape")
    digest = f"{crc32(name):08x}{crc32(name[::-1]):08x}"
    path = os.path.join(turnlog_home_path(), "index", f"{digest}.sqlite")
    return TEMPORARY.get(path, path)


def logs_if_fresh(homes: Iterable[str | os.PathLike[str]]) -> int | None:
    """Return the number of logs of *homes*, or None if their index is missing or stale."""
    look = Freshness()
    look.open_at(path_of_index(homes), "ro")
    look.close()
    return look.logs if look.changed == [] else None


class Freshness:
    """The result of a look at an index: how many logs it has, and which of them changed.

    The index stays open for a refresh. The last process to close it writes back the write-ahead log
    and waits for the disk; a process that exits without closing it does not.
    """

    def __init__(self, changed: list[str] | None = None) -> None:
        self.logs = 0
        self.changed = changed
        """None if only a refresh can tell."""
        self.db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open_at(self, path: str, mode: str = "rw") -> None:
        """Open the index at *path*, if there is one; a refresh needs *mode* "rw"."""
        self._file = _file_at(path)
        if self._file is None:
            return
        try:
            # Imported when needed, and without the rest of sqlite3, which is slow to import.
            from _sqlite3 import Error, connect  # noqa: PLC0415
        except ImportError:
            from sqlite3 import Error, connect  # noqa: PLC0415
        try:
            self.db = connect(uri_of(path, mode), uri=True, isolation_level=None)
            if is_ours(self.db):
                if not has_leftovers(self.db):
                    self.changed = changed_logs(self.db)
                count = self.db.execute("SELECT count(*) FROM logs WHERE gone_at IS NULL")
                self.logs = count.fetchone()[0]
            else:
                self._file = None
        except Error:
            self.changed = self._file = None

    def opened(self, path: str) -> sqlite3.Connection | None:
        """Return the open index, if it can be used and is still the file at *path*."""
        if self.db is None or self._file is None or self._file != _file_at(path):
            return None
        return self.db if is_ours(self.db) else None

    def close(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None


def look_at(homes: Iterable[str | os.PathLike[str]]) -> Freshness:
    """Open the index of *homes* and return which logs changed since it was refreshed."""
    look = Freshness()
    look.open_at(path_of_index(homes))
    return look


def _file_at(path: str) -> tuple[int, int] | None:
    """Return the device and inode of *path*, or None."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_ours(db: sqlite3.Connection) -> bool:
    """Return whether this is an index of this version."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    return bool(version == VERSION and db.execute("PRAGMA application_id").fetchone()[0] == MARK)


def uri_of(path: str, mode: str) -> str:
    """Return the URI with which SQLite opens *path* in *mode*."""
    quoted = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{quoted}?mode={mode}"


def changed_logs(db: sqlite3.Connection, *, usage_only: bool = False) -> list[str] | None:
    """Return the paths of the logs that changed; None if only a walk over the homes can tell."""
    if not has_walked(db, usage_only=usage_only):
        return None
    directories = db.execute("SELECT path, mtime_ns, is_beside FROM directories").fetchall()
    stat = os.stat
    try:
        for path, mtime_ns, is_beside in directories:
            if stat(path).st_mtime_ns != mtime_ns and not (usage_only and is_beside):
                return None
        stage = "usage" if usage_only else "text"
        changed = []
        for path, size_bytes, mtime_ns in db.execute(
            f"SELECT path, coalesce(packed_bytes, {stage}_size_bytes), {stage}_mtime_ns"  # noqa: S608
            f" FROM logs WHERE gone_at IS NULL{' AND layout <> ?' if usage_only else ''}",
            ("beside",) if usage_only else (),
        ):
            now = stat(path)
            if now.st_size != size_bytes or now.st_mtime_ns != mtime_ns:
                changed.append(path)
    except OSError:
        return None
    return changed


def has_walked(db: sqlite3.Connection, *, usage_only: bool) -> bool:
    """Return whether the index knows the directories of all logs."""
    of_logs, beside = db.execute(
        "SELECT EXISTS (SELECT 1 FROM directories WHERE NOT is_beside),"
        " EXISTS (SELECT 1 FROM directories WHERE is_beside)"
    ).fetchone()
    return bool(of_logs and (usage_only or beside))


def has_leftovers(db: sqlite3.Connection) -> bool:
    """Return whether a refresh was interrupted."""
    query = "SELECT EXISTS (SELECT 1 FROM pending_usage) OR EXISTS (SELECT 1 FROM pending_sessions)"
    return bool(db.execute(query).fetchone()[0])


def note_directories(
    db: sqlite3.Connection, times: dict[str, int], now_ns: int, *, is_beside: bool
) -> None:
    """Store the mtimes that directories had before they were listed.

    If one is too recent, or its name is not UTF-8, none is stored: the next refresh walks again.
    """
    is_recent = any(mtime_ns >= now_ns - _SETTLED_NS for mtime_ns in times.values())
    if is_recent or "".join(times).encode(errors="replace").decode() != "".join(times):
        times = {}
    query = "SELECT path, mtime_ns FROM directories WHERE is_beside = ?"
    if dict(db.execute(query, (is_beside,))) == times:
        return
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM directories WHERE is_beside = ?", (is_beside,))
    db.executemany(
        "INSERT OR IGNORE INTO directories VALUES (?, ?, ?)",
        ((path, mtime_ns, is_beside) for path, mtime_ns in times.items()),
    )
    db.execute("COMMIT")
