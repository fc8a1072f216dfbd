"""Is the index up to date? Told by one `stat` for every log and directory, and nothing else.

A log appears or vanishes only if its directory changes, so directories whose time is still the same
need not be listed again. A time that was recent when it was noted proves nothing: something may
have changed within the same tick of the clock. Small on purpose: every command that asks the index
asks this first.
"""

from __future__ import annotations

import os
from binascii import crc32

from turnlog.formats.home_paths import turnlog_home_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

VERSION = 10
MARK = 0x7475726E  # "turn"

ELSEWHERE: dict[str, str] = {}
"""Where indexes lie in this run that could not be made in their own place: see ``unwritable``."""

# Younger than this, a directory's time is not trusted.
_SETTLED_NS = 2_000_000_000


def path_of_index(homes: list[str]) -> str:
    """Return where the index of *homes* lies, whether or not it exists."""
    true = sorted({os.path.realpath(home) for home in homes})
    name = "\0".join(true).encode(errors="surrogateescape")
    digest = f"{crc32(name):08x}{crc32(name[::-1]):08x}"
    place = os.path.join(turnlog_home_path(), "index", f"{digest}.sqlite")
    return ELSEWHERE.get(place, place)


def logs_if_fresh(homes: list[str]) -> int | None:
    """Count the logs of *homes*; None if their index is not up to date, or not to be had."""
    look = Freshness()
    look.open_at(path_of_index(homes), "ro")
    look.close()
    return look.logs if look.changed == [] else None


class Freshness:
    """What a look at an index found: how many logs it has, and which of them changed.

    The index stays open for a refresh to go on with. Whoever closes it last writes back what waits
    in the write-ahead log, and waits for the disk; whoever ends without closing it does not.
    """

    def __init__(self, changed: list[str] | None = None) -> None:
        self.logs = 0
        self.changed = changed
        """None if only a refresh can tell."""
        self.db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def open_at(self, path: str, mode: str = "rw") -> None:
        """Open the index at *path*, if there is one; a *mode* of "ro" is no good for a refresh."""
        self._file = _file_at(path)
        if self._file is None:
            return
        try:
            # Not before it is needed, and without the rest of sqlite3, which takes long to import.
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
        """Return the open index, if it can be used and still is the one that lies at *path*."""
        if self.db is None or self._file is None or self._file != _file_at(path):
            return None
        return self.db if is_ours(self.db) else None

    def close(self) -> None:
        if self.db is not None:
            self.db.close()
            self.db = None


def look_at(homes: list[str]) -> Freshness:
    """Look which logs of *homes* their index does not know as they are."""
    look = Freshness()
    look.open_at(path_of_index(homes))
    return look


def _file_at(path: str) -> tuple[int, int] | None:
    """Return which file lies at *path*; None if none does."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def is_ours(db: sqlite3.Connection) -> bool:
    """Return whether this is an index of this version."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    return bool(version == VERSION and db.execute("PRAGMA application_id").fetchone()[0] == MARK)


def uri_of(path: str, mode: str) -> str:
    """Name the index at *path* as SQLite wants it, to be opened in this *mode*."""
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
    """Tell whether the index knows all logs, as far as directories that are unchanged can tell."""
    # Not counted: the first few rows tell.
    of_logs, beside = db.execute(
        "SELECT EXISTS (SELECT 1 FROM directories WHERE NOT is_beside),"
        " EXISTS (SELECT 1 FROM directories WHERE is_beside)"
    ).fetchone()
    return bool(of_logs and (usage_only or beside))


def has_leftovers(db: sqlite3.Connection) -> bool:
    """Return whether a refresh was cut off before it had finished."""
    query = "SELECT EXISTS (SELECT 1 FROM unsettled) OR EXISTS (SELECT 1 FROM unnoted)"
    return bool(db.execute(query).fetchone()[0])


def note_directories(
    db: sqlite3.Connection, found: dict[str, int], now_ns: int, *, is_beside: bool
) -> None:
    """Note the times of directories as they were before they were listed.

    If one is too young to be trusted, or its name is no text, none is noted: the next refresh walks
    again.
    """
    is_young = any(mtime_ns >= now_ns - _SETTLED_NS for mtime_ns in found.values())
    if is_young or "".join(found).encode(errors="replace").decode() != "".join(found):
        found = {}
    query = "SELECT path, mtime_ns FROM directories WHERE is_beside = ?"
    if dict(db.execute(query, (is_beside,))) == found:
        return
    db.execute("BEGIN IMMEDIATE")
    db.execute("DELETE FROM directories WHERE is_beside = ?", (is_beside,))
    db.executemany(
        "INSERT OR IGNORE INTO directories VALUES (?, ?, ?)",
        ((path, mtime_ns, is_beside) for path, mtime_ns in found.items()),
    )
    db.execute("COMMIT")
