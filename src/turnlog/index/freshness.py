"""Is the index up to date? Told by one `stat` for every log and directory, and nothing else.

A log appears or vanishes only if its directory changes, so directories whose time is still the same
need not be listed again. A time that was recent when it was noted proves nothing: something may
have changed within the same tick of the clock. Small on purpose: every command that asks the index
asks this first.
"""

from __future__ import annotations

import os
import zlib

from turnlog.layout.home_paths import turnlog_home_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

VERSION = 3
MARK = 0x7475726E  # "turn"

# Younger than this, a directory's time is not trusted.
_SETTLED_NS = 2_000_000_000


def path_of_index(homes: list[str]) -> str:
    """Tell where the index of *homes* lies, whether or not it exists."""
    true = sorted({os.path.realpath(home) for home in homes})
    name = "\0".join(true).encode(errors="surrogateescape")
    digest = f"{zlib.crc32(name):08x}{zlib.crc32(name[::-1]):08x}"
    return os.path.join(turnlog_home_path(), "index", f"{digest}.sqlite")


def logs_if_fresh(homes: list[str]) -> int | None:
    """Count the logs of *homes*; None if their index is not up to date, or not to be had."""
    logs, changed = look_at(homes)
    return logs if changed == [] else None


def look_at(homes: list[str]) -> tuple[int, list[str] | None]:
    """Count the logs of *homes* and list those that changed; None if only a refresh can tell."""
    path = path_of_index(homes)
    if not os.path.isfile(path):
        return 0, None
    try:
        # Not before it is needed, and without the rest of sqlite3, which takes a while to import.
        from _sqlite3 import Error, connect  # noqa: PLC0415
    except ImportError:
        from sqlite3 import Error, connect  # noqa: PLC0415
    try:
        db = connect(f"file:{_quoted(path)}?mode=ro", uri=True, isolation_level=None)
        try:
            changed = changed_logs(db) if is_ours(db) and not has_leftovers(db) else None
            logs = db.execute("SELECT count(*) FROM logs WHERE gone_at IS NULL").fetchone()[0]
            return int(logs), changed
        finally:
            db.close()
    except Error:
        return 0, None


def is_ours(db: sqlite3.Connection) -> bool:
    """Tell whether this is an index of this version."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    return bool(version == VERSION and db.execute("PRAGMA application_id").fetchone()[0] == MARK)


def _quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def changed_logs(db: sqlite3.Connection, *, usage_only: bool = False) -> list[str] | None:
    """Give the paths of the logs that changed; None if only a walk over the homes can tell."""
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
    kinds = db.execute("SELECT count(DISTINCT is_beside), min(is_beside) FROM directories")
    count, least = kinds.fetchone()
    return bool(least == 0 and (usage_only or count > 1))


def has_leftovers(db: sqlite3.Connection) -> bool:
    """Tell whether a refresh was cut off before it had finished."""
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
