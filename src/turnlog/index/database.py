"""The file itself: where it lies, how it is opened, and what happens when it is not in order.

One index for each set of homes, in turnlog's own home, readable by its owner only. An index that an
older turnlog made, or that is broken, is moved aside and made anew; one of a newer turnlog is
refused. Readers never wait for a writer, and nobody who writes a log waits for either.

Text that SQLite can hold: UTF-8. JSON can spell others, and files can be named by others.
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
from turnlog.index.freshness import MARK, VERSION, path_of_index, uri_of
from turnlog.text import utf8_safe

T = TypeVar("T")

_BUSY_MS: Final = 30_000
_CACHE_KIB: Final = 32 * 1024
# Rarely: each checkpoint waits for the disk.
_CHECKPOINT_PAGES: Final = 16 * 1024

LAST_INDEX: Final = "records_with_error"
"""The last that indexes.sql makes: where it is, all others are."""
TEXT_BYTES_AT_ONCE: Final = 32 * 1024 * 1024
"""So much text goes into one transaction. The full-text tables hold it in memory until its end."""
_MERGED_SEGMENTS: Final = 8
# SQLite takes at least that many parameters.
_PARAMETERS: Final = 500
# With less than this SQLite cannot even begin.
_LEAST_FREE_BYTES: Final = 64 * 1024

# What SQLite says of a file that cannot be mended.
_BROKEN_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# And of a directory in which it can make no file, or a disk that has no room for one.
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
# What SQLite says of a table or a column that is called otherwise.
_MISSING: Final = ("no such", "has no column named", "values were supplied")


def index_path(homes: Sequence[Home]) -> Path:
    """Return where the index of *homes* lies, whether or not it exists."""
    return Path(path_of_index([os.fspath(home) for home in homes]))


def open_index(
    homes: Sequence[Home],
    *,
    notices: list[str] | None = None,
    opened: sqlite3.Connection | None = None,
) -> sqlite3.Connection:
    """Open the index of *homes* for writing, making it if there is none that can be used.

    If it is *opened* already, it only learns how to write.
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
    path = index_path(homes)
    if not os.path.isfile(path):  # It says no, too, of what nobody may look at.
        return None
    try:
        return _readable(path)
    except sqlite3.Error as error:
        return _opened_as_it_lies(path, error)


def _readable(path: Path, more: str = "") -> sqlite3.Connection | None:
    """Open the index at *path* for reading; None if another version made it."""
    connection = _connect(path, read_only=True, more=more)
    try:
        if _state_of(connection) == VERSION:
            return connection
    except sqlite3.Error:
        connection.close()
        raise
    connection.close()
    return None


def open_again(path: str) -> sqlite3.Connection:
    """Open the index at *path*, which was read already, once more for reading."""
    connection = _connect(Path(path), read_only=True)
    try:
        connection.execute("PRAGMA user_version")
    except sqlite3.OperationalError as error:
        connection.close()
        unchanging = _opened_as_it_lies(Path(path), error)
        if unchanging is None:
            raise
        connection = unchanging
    return connection


def _opened_as_it_lies(path: Path, error: sqlite3.Error) -> sqlite3.Connection | None:
    """Open an index where nothing can be written beside it, as a file that nobody changes.

    SQLite keeps a file of its own beside one with a write-ahead log, also if it only reads. Where
    that cannot be, which is what *error* says then, and nothing waits in the log, it can be told to
    do without.
    """
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNWRITABLE_CODES:
        return None
    try:
        if os.path.exists(wal := f"{path}-wal") and os.stat(wal).st_size:
            return None
        return _readable(path, "&immutable=1")
    except (sqlite3.Error, OSError):
        return None


def _opened(path: Path, homes: Sequence[Home], notices: list[str] | None) -> sqlite3.Connection:
    for _ in range(3):
        connection = _connect(path)
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
                f"a later turnlog made the index (version {state}; this one knows {VERSION})",
                path=path,
                hint="update turnlog, or make another index with: turnlog refresh --rebuild",
            )
        move_aside(path, "older", notices)
    raise BrokenIndex("the index breaks again and again", path=path, hint="the disk may be failing")


def _connect(path: Path, *, read_only: bool = False, more: str = "") -> sqlite3.Connection:
    if not read_only and not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    uri = uri_of(os.fspath(path), "ro" if read_only else "rw") + more
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_MS / 1000)
    if not read_only:
        with suppress(sqlite3.DatabaseError):  # Told when it is first read.
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
            return  # Another process was faster.
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
        for table in ("said", "answered"):
            connection.executemany(
                f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)",  # noqa: S608 - Ours.
                (("hashsize", TEXT_BYTES_AT_ONCE), ("automerge", _MERGED_SEGMENTS)),
            )
        connection.execute(f"PRAGMA application_id = {MARK}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def has_indexes(connection: sqlite3.Connection) -> bool:
    """Return whether the ways into the tables are there."""
    query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?)"
    return bool(connection.execute(query, (LAST_INDEX,)).fetchone()[0])


def make_indexes(connection: sqlite3.Connection, *tables: str) -> None:
    """Make the ways into *tables*, or into all, unless they are there."""
    if has_indexes(connection):
        return
    from importlib.resources import files

    script = files("turnlog.index").joinpath("indexes.sql").read_text("utf-8")
    for statement in _statements(script):
        if not tables or any(f" ON {table} " in statement for table in tables):
            connection.execute(statement)


def batches(keys: Sequence[T]) -> Iterator[list[T]]:
    """Cut *keys* into as many as a statement takes."""
    rest = iter(keys)
    while some := list(islice(rest, _PARAMETERS)):
        yield some


def _statements(script: str) -> Iterator[str]:
    """Cut a script into statements; executescript would commit the transaction it stands in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the only writer's place; commit at the end, or undo everything.

    Within another transaction it is a part of that one.
    """
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
    """Return the error that says that the index cannot be written, and why."""
    return IndexUnavailable(
        f"the index cannot be written: {_why(path, error)}",
        path=path,
        hint="set TURNLOG_HOME to a directory that can be written",
    )


def _why(path: Path, error: Exception) -> str:
    """Say what is the matter; SQLite says only that it could not open a file, or use it."""
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
    """Return whether an error says that the file itself is broken."""
    if isinstance(error, sqlite3.IntegrityError | ValueError):
        return True  # Rows that cannot be, or folds that nobody packed.
    if isinstance(error, sqlite3.OperationalError) and any(
        words in str(error) for words in _MISSING
    ):
        return True  # The version says that it is there.
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_SCHEMA:
        return False  # Somebody made a way into a table just then.
    return code in _BROKEN_CODES or any(word in str(error) for word in _BROKEN)


def is_intact(connection: sqlite3.Connection) -> bool:
    """Look through the whole file for what is broken."""
    try:
        return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False


def move_aside(path: Path, why: str, notices: list[str] | None = None) -> None:
    """Put an index that cannot be used where it is in nobody's way; one such is kept."""
    aside = path.with_name(f"{path.stem}.{why}")
    for suffix in ("", "-wal", "-shm"):
        with _to_be_changed(path):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    if notices is not None:
        notices.append(f"the index was {_WHY.get(why, why)}: moved aside and made anew")


def remove_index(homes: Sequence[Home]) -> None:
    """Delete the index; it is made anew when it is next needed."""
    path = index_path(homes)
    for suffix in ("-wal", "-shm", ""):
        with _to_be_changed(path):
            os.remove(f"{path}{suffix}")


@contextmanager
def _to_be_changed(path: Path) -> Iterator[None]:
    """Pass over what is not there; say it if the directory of the index cannot be changed."""
    try:
        yield
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unavailable(path, error) from None


_WHY: Final = {"broken": "broken", "older": "made by an older turnlog"}


def private_directory(path: Path) -> None:
    """Make the directory of the index, and turnlog's home above it, for nobody else to read."""
    for each in (path.parent, path):  # Further parents that mkdir makes are as open as all are.
        each.mkdir(mode=0o700, parents=True, exist_ok=True)


def is_valid_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold a text: JSON can spell others, and files be named by others."""
    return bool(utf8_safe(text) == text)


def utf8_safe_row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row such that UTF-8 can hold it; nearly every one is so already."""
    for value in row:
        if isinstance(value, str) and not value.isascii():
            return tuple(utf8_safe(list(row)))
    return row
