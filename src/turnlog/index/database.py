"""The SQLite file of the index: create it, open it, and replace it when it is broken or too old.

There is one index for each set of homes, in turnlog's own home, readable by its owner only. An
index that is broken or was made by an older turnlog is moved aside and rebuilt; one made by a newer
turnlog is an error. Readers never wait for a writer, and writing a log waits for neither.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from turnlog.errors import BrokenIndex, IndexTooNew, IndexUnavailable
from turnlog.formats.homes import Home
from turnlog.index.freshness import MARK, VERSION, is_ours, path_of_index, uri_of
from turnlog.text import utf8_safe

T = TypeVar("T")

TEXT_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""How much text one transaction writes. The full-text tables hold it in memory until then."""
LAST_INDEX: Final = "records_with_error"
"""The last index that indexes.sql creates: if it exists, all do."""

_BUSY_MS: Final = 30_000
_CACHE_KIB: Final = 32 * 1024
# Seldom, since each checkpoint waits for the disk.
_CHECKPOINT_PAGES: Final = 16 * 1024
_MERGED_SEGMENTS: Final = 8
_MOST_PARAMETERS: Final = 500
# With less, SQLite cannot even create a file.
_LEAST_FREE_BYTES: Final = 64 * 1024

_BROKEN_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNWRITABLE_CODES: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)
_BROKEN: Final = (
    "malformed",
    "not a database",
    "corrupt",
    "disk image",
    "missing chunk",
    "vtable constructor failed",
    "decode to UTF-8",
)
# Messages about a missing table or column.
_MISSING: Final = ("no such", "has no column named", "values were supplied")
_REASONS: Final = {"broken": "broken", "older": "made by an older turnlog"}


def index_path(homes: Sequence[Home]) -> Path:
    """Return the path of the index of *homes*, whether or not it exists."""
    return Path(path_of_index(homes))


def open_index(
    homes: Sequence[Home],
    *,
    notices: list[str] | None = None,
    opened: sqlite3.Connection | None = None,
) -> sqlite3.Connection:
    """Open the index of *homes* for writing; create it if there is none that can be used.

    An already *opened* connection is only set up for writing.
    """
    path = index_path(homes)
    try:
        private_directory(path.parent)
        connection = opened or _opened(path, homes, notices)
    except IndexUnavailable:
        raise
    except (OSError, sqlite3.OperationalError) as error:
        raise unavailable(path, error) from None
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    except sqlite3.Error:
        if opened is None:
            connection.close()
        raise
    return connection


def open_for_reading(homes: Sequence[Home]) -> sqlite3.Connection | None:
    """Open the index of *homes* as it is; None if there is none that can be read."""
    path = path_of_index(homes)
    if not os.path.isfile(path):  # Also false without permission to look.
        return None
    try:
        return _open_readonly(path)
    except sqlite3.Error as error:
        return _open_immutable(path, error)


def open_again(path: str) -> sqlite3.Connection:
    """Open the index at *path*, which is open already, once more for reading."""
    try:
        connection = _open_readonly(path)
    except sqlite3.OperationalError as error:
        connection = _open_immutable(path, error)
        if connection is None:
            raise
    if connection is None:
        raise BrokenIndex("the index was replaced", path=path, hint="try again")
    return connection


def _open_readonly(path: str, more: str = "") -> sqlite3.Connection | None:
    """Open the index at *path*; None if another version made it."""
    uri = uri_of(path, "ro") + more
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_MS / 1000)
    try:
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if is_ours(connection):
            return connection
    except sqlite3.Error:
        connection.close()
        raise
    connection.close()
    return None


def _open_immutable(path: str, error: sqlite3.Error) -> sqlite3.Connection | None:
    """Open an index in a directory that cannot be written, which is what *error* says.

    SQLite creates a file next to a database with a write-ahead log, even to read it. If that is
    impossible and the log is empty, it can be told that the database does not change.
    """
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNWRITABLE_CODES:
        return None
    try:
        if os.path.exists(wal := f"{path}-wal") and os.stat(wal).st_size:
            return None
        return _open_readonly(path, "&immutable=1")
    except (sqlite3.Error, OSError):
        return None


def _opened(path: Path, homes: Sequence[Home], notices: list[str] | None) -> sqlite3.Connection:
    for _ in range(3):
        connection = _connect_writable(path)
        try:
            state = _state_of(connection)
            if state == 0:
                _make(connection, homes)
                state = _state_of(connection)
        except sqlite3.DatabaseError as error:
            connection.close()
            if not is_broken(error):
                raise
            move_aside(path, "broken", notices)
            continue
        if state == VERSION:
            return connection
        connection.close()
        if state > VERSION:
            raise IndexTooNew(
                f"a newer turnlog made the index (version {state}, expected {VERSION})",
                path=path,
                hint="update turnlog, or rebuild the index",
                code="index-too-new",
            )
        move_aside(path, "older", notices)
    raise BrokenIndex("the index keeps breaking", path=path, hint="the disk may be failing")


def _connect_writable(path: Path) -> sqlite3.Connection:
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    uri = uri_of(os.fspath(path), "rw")
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_MS / 1000)
    with suppress(sqlite3.DatabaseError):  # Reported on the first read.
        connection.execute("PRAGMA journal_mode = WAL")
    return connection


def _state_of(connection: sqlite3.Connection) -> int:
    """Return the version of an index; 0 for an empty file, -1 for another program's."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    mark = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if mark == MARK and version:
        return version
    is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    return 0 if is_empty else -1


def _make(connection: sqlite3.Connection, homes: Sequence[Home]) -> None:
    import json
    from importlib.resources import files

    from turnlog import __version__
    from turnlog.index.texts import WEIGHTS

    with transaction(connection):
        if _state_of(connection):
            return  # Another process did it.
        for name in ("schema.sql", "views.sql"):
            for statement in _statements(files("turnlog.index").joinpath(name).read_text("utf-8")):
                connection.execute(statement)
        connection.executemany(
            "INSERT INTO kinds VALUES (?, ?, ?)",
            ((int(kind), kind.name.lower(), weight) for kind, weight in WEIGHTS.items()),
        )
        connection.execute(
            "INSERT INTO about (made_by, homes) VALUES (?, ?)",
            (__version__, json.dumps(sorted(os.path.realpath(home) for home in homes))),
        )
        for table in ("said", "stems", "answered"):
            connection.executemany(
                f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)",  # noqa: S608 - Ours.
                (("hashsize", TEXT_BYTES_AT_ONCE), ("automerge", _MERGED_SEGMENTS)),
            )
        connection.execute(f"PRAGMA application_id = {MARK}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def has_indexes(connection: sqlite3.Connection) -> bool:
    """Return whether the indexes of indexes.sql exist."""
    query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?)"
    return bool(connection.execute(query, (LAST_INDEX,)).fetchone()[0])


def make_indexes(connection: sqlite3.Connection, *tables: str) -> None:
    """Create the indexes on *tables*, or on all, unless they exist."""
    if has_indexes(connection):
        return
    from importlib.resources import files

    script = files("turnlog.index").joinpath("indexes.sql").read_text("utf-8")
    for statement in _statements(script):
        if not tables or any(f" ON {table} " in statement for table in tables):
            connection.execute(statement)


def batches(keys: Sequence[T]) -> Iterator[list[T]]:
    """Yield *keys* in parts that fit into the parameters of a statement."""
    rest = iter(keys)
    while batch := list(islice(rest, _MOST_PARAMETERS)):
        yield batch


def _statements(script: str) -> Iterator[str]:
    """Split a script into statements; executescript would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a write transaction, or as part of the one that is open."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def unavailable(path: Path, error: Exception) -> IndexUnavailable:
    """Return an IndexUnavailable that says why the index cannot be written."""
    return IndexUnavailable(
        f"the index cannot be written: {_why(path, error)}",
        path=path,
        hint="set TURNLOG_HOME to a directory that can be written",
    )


def _why(path: Path, error: Exception) -> str:
    """Return the reason for *error*; SQLite only says that it could not open or use a file."""
    from shutil import disk_usage

    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    with suppress(OSError):
        if not os.access(path.parent, os.W_OK):
            return "its directory is read only"
        if disk_usage(path.parent).free < _LEAST_FREE_BYTES:
            return "no space left on its disk"
    return str(error)


def is_broken(error: Exception) -> bool:
    """Return whether *error* means that the file itself is broken."""
    if isinstance(error, sqlite3.IntegrityError | ValueError):
        return True  # Impossible rows, or packed values that cannot be decoded.
    if isinstance(error, sqlite3.OperationalError) and any(
        words in str(error) for words in _MISSING
    ):
        return True  # A file of this version has all tables.
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_SCHEMA:
        return False  # Another process created an index just now.
    return code in _BROKEN_CODES or any(word in str(error) for word in _BROKEN)


def move_aside(path: Path, why: str, notices: list[str] | None = None) -> None:
    """Rename an index that cannot be used; only the last one is kept."""
    aside = path.with_name(f"{path.stem}.{why}")
    for suffix in ("", "-wal", "-shm"):
        with _changing(path):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    if notices is not None:
        notices.append(f"the index was {_REASONS[why]}: moved aside and rebuilt")


def remove_index(homes: Sequence[Home]) -> None:
    """Delete the index; it is rebuilt when it is next needed."""
    path = index_path(homes)
    for suffix in ("-wal", "-shm", ""):
        with _changing(path):
            os.remove(f"{path}{suffix}")


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Ignore missing files; raise IndexUnavailable if the directory cannot be changed."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unavailable(path, error) from None


def private_directory(path: Path) -> None:
    """Create the directory of the index, and turnlog's home above it, for the owner only."""
    for directory in (path.parent, path):  # mkdir gives further parents the usual mode.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def utf8_safe_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *row* with texts that UTF-8 can encode; JSON and file names may have others."""
    for value in row:
        if isinstance(value, str) and not value.isascii():
            return tuple(utf8_safe(list(row)))
    return row
