"""Plain SQL over the views of the index: read only, bounded, one statement at a time.

    run_sql(index, "SELECT tool, count(*) FROM v_calls GROUP BY tool")

The statement runs on a connection of its own, which cannot write, and sees the views of
``index/views.sql`` and nothing else. It ends after so many rows or seconds. What SQLite says
against a statement is a UsageError, with a hint.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from turnlog.errors import IndexUnavailable, UsageError
from turnlog.index.connection import Index
from turnlog.index.database import open_again
from turnlog.index.ids import OFFSET_BITS
from turnlog.questions import sql_guard
from turnlog.questions.sql_guard import Guard, check_statement
from turnlog.records.timestamps import iso

MOST_ROWS: Final = 1_000_000
_MOST_ANSWER_BYTES: Final = 64_000_000
_MOST_TEXT: Final = 60_000  # Characters: within MOST_VALUE_BYTES in any script.
_SCHEMA_HINT: Final = "turnlog sql --schema shows the views"

_VIEW: Final = re.compile(
    r"((?:^-- [^\n]*\n)+)CREATE VIEW (v_\w+) AS\n(.*?);$", re.DOTALL | re.MULTILINE
)
_COLUMN: Final = re.compile(r" AS (\w+),?  -- (.+)$", re.MULTILINE)
# Which column says when, for those who ask only for what is new. The other views are made of these.
_INSTANTS: Final = {
    "v_sessions": "last_active_at",
    "v_agents": "last_active_at",
    "v_records": "at",
    "v_messages": "at",
    "v_calls": "at",
}
_OF_A_PROJECT: Final = (*_INSTANTS, "v_logs", "v_damages")

Cell = str | int | float | None
Parameters = Sequence[Any] | Mapping[str, Any]


class SqlDocument(Struct, kw_only=True):
    """What a statement gave. Bytes are written as hexadecimal digits."""

    columns: list[str]
    rows: list[list[Cell]]
    truncated: bool = False
    """There was more than was asked for, or than fits."""
    notes: list[str] = field(default_factory=list)


class ViewColumn(Struct):
    name: str
    about: str


class View(Struct):
    """A view and what its columns mean."""

    name: str
    about: str
    columns: list[ViewColumn]


class SchemaDocument(Struct, kw_only=True):
    """The views that there are."""

    views: list[View]


class _Made(NamedTuple):
    view: View
    select: str


def schema(name: str | None = None) -> SchemaDocument:
    """Describe the views, or the one called *name*."""
    views = [made.view for made in _views()]
    if name is None:
        return SchemaDocument(views=views)
    found = [view for view in views if view.name in (name.lower(), f"v_{name.lower()}")]
    if not found:
        raise UsageError(f"there is no view called {name[:80]!r}", hint=_there_are())
    return SchemaDocument(views=found)


def run_sql(
    index: Index,
    statement: str,
    *,
    limit: int = 1_000,
    seconds: float = 10,
    parameters: Parameters = (),
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
) -> SqlDocument:
    """Run one SELECT; give at most *limit* rows, after at most *seconds*.

    With *since* and *until* the views hold only what happened from then on, and before then; with
    *project* only what belongs to sessions of that directory or one below it.
    """
    if not 0 < limit <= MOST_ROWS:
        raise UsageError(f"a limit of {limit:,}", hint=f"give one from 1 to {MOST_ROWS:,}")
    if not 0 < seconds <= 3600:
        raise UsageError(f"{seconds} seconds", hint="give a time above 0 and up to an hour (3600)")
    check_statement(statement, _SCHEMA_HINT)
    with closing(_connect(index)) as db:
        inner = _lay_views(db, since, until, project)
        texts = _Texts(index)
        db.create_function("text", 2, texts.text)
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        guard = Guard(db, inner=inner, seconds=seconds)
        try:
            cursor = db.execute(statement, parameters)
            if cursor.description is None:  # Nothing but a comment, or a semicolon.
                raise UsageError("there is no statement", hint=_SCHEMA_HINT)
            return _answer(cursor, limit)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            if isinstance(error, UsageError):
                raise
            if texts.was_interrupted(error) or (_is_interrupted(error) and not guard.has_stopped):
                raise KeyboardInterrupt from None
            raise _told(error, guard, seconds) from None


def _answer(cursor: sqlite3.Cursor, limit: int) -> SqlDocument:
    answer = SqlDocument(columns=[str(column[0]) for column in cursor.description], rows=[])
    size_bytes = 0
    for row in cursor:
        if len(answer.rows) == limit:
            answer.truncated = True
            answer.notes.append(f"there are more than {limit:,} rows; the rest was left out")
            break
        cells = [cell.hex() if isinstance(cell, bytes) else cell for cell in row]
        size_bytes += sum(len(cell) if isinstance(cell, str) else 8 for cell in cells)
        if size_bytes > _MOST_ANSWER_BYTES:
            answer.truncated = True
            answer.notes.append(f"more than {_MOST_ANSWER_BYTES:,} bytes; the rest was left out")
            break
        answer.rows.append(cells)
    return answer


def _is_interrupted(error: Exception) -> bool:
    """Tell whether a Ctrl-C reached the guard: SQLite takes what it raises for an order to stop."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def _told(error: Exception, guard: Guard, seconds: float) -> UsageError:
    """Say what is wrong with a statement."""
    if guard.is_too_large:
        return UsageError(
            f"the statement needs more than {sql_guard.MOST_MEMORY_BYTES // 10**6} MB of memory",
            hint="group, sort or collect fewer rows: narrow them with WHERE at >= '2026-11-01'",
        )
    if guard.is_late:
        return UsageError(
            f"no answer within {seconds:g} seconds",
            hint="ask for less, as in WHERE at >= '2026-11-01', or allow more seconds",
            cli_hint="ask for less, as in WHERE at >= '2026-11-01', or allow more with --seconds",
        )
    if guard.refused:
        return UsageError(guard.refused, hint=_there_are())
    if isinstance(error, MemoryError):  # What SQLite says of a program that is too long.
        return UsageError("the statement is too large", hint="ask in several statements")
    message = str(error)
    if "one statement at a time" in message:
        return UsageError("there is more than one statement", hint="ask them one by one")
    if "no such table" in message:
        return UsageError(message, hint=_there_are())
    return UsageError(message or type(error).__name__, hint=_SCHEMA_HINT)


def _there_are() -> str:
    return f"there are {', '.join(made.view.name for made in _views())}"


def _connect(index: Index) -> sqlite3.Connection:
    """Open the index once more, for one statement."""
    path = next(row[2] for row in index.db.execute("PRAGMA database_list") if row[1] == "main")
    try:
        db = open_again(path)
        db.execute("PRAGMA temp_store = MEMORY")  # The guard says why.
        return db
    except sqlite3.OperationalError as error:
        raise IndexUnavailable(
            f"the index cannot be read: {error}", path=path, hint="turnlog refresh makes it anew"
        ) from None


def _lay_views(
    db: sqlite3.Connection, since: datetime | None, until: datetime | None, project: str | None
) -> set[str]:
    """Lay temporary views over those of the index; give the names of those that read tables.

    A subquery may bear any name, a view's as well, and what it reads looks as if the view did. So
    the views that may read tables have names that are made up for this connection.
    """
    inner = set()
    for name, select in ((made.view.name, made.select) for made in _views()):
        hidden = f"{name}_{secrets.token_hex(16)}"
        inner.add(hidden)
        db.execute(f"CREATE TEMP VIEW {hidden} AS {select}")
        wanted = " AND ".join(_conditions(name, since, until, project))
        where = f" WHERE {wanted}" if wanted else ""
        db.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {hidden}{where}")  # noqa: S608
    return inner


def _conditions(
    name: str, since: datetime | None, until: datetime | None, project: str | None
) -> Iterator[str]:
    if since is not None and name in _INSTANTS:
        yield f"{_INSTANTS[name]} >= '{iso(since)}'"
    if until is not None and name in _INSTANTS:
        yield f"{_INSTANTS[name]} < '{iso(until)}'"
    if project is not None and name in _OF_A_PROJECT:
        path = project.rstrip("/") or "/"
        below = path if path == "/" else f"{path}/"
        quoted, start = (each.replace("'", "''") for each in (path, below))
        yield f"(project = '{quoted}' OR substr(project, 1, {len(below)}) = '{start}')"


@cache
def _views() -> tuple[_Made, ...]:
    """Read the views, and what is said of them, from the file that makes them."""
    script = files("turnlog.index").joinpath("views.sql").read_text("utf-8")
    made = []
    for about, name, select in _VIEW.findall(script):
        words = " ".join(line.removeprefix("-- ") for line in about.splitlines())
        columns = [ViewColumn(column, said) for column, said in _COLUMN.findall(select)]
        made.append(_Made(View(name, words, columns), select))
    return tuple(made)


class _Texts:
    """Reads what a record says, for the function ``text``."""

    def __init__(self, index: Index) -> None:
        self._has_failed = False
        self._index = index
        self._logs: dict[str, int] | None = None

    def text(self, log: Any, offset: Any) -> str | None:
        """Give the texts of the record at *offset* in *log*; None if there is no such record."""
        try:
            return self._text(log, offset)
        except Exception:
            self._has_failed = True
            raise

    def was_interrupted(self, error: Exception) -> bool:
        """Tell whether a Ctrl-C came while it read: SQLite calls that a fault of the function.

        It may come before the function has begun, and so cannot be caught in it.
        """
        return "user-defined function raised" in str(error) and not self._has_failed

    def _text(self, log: Any, offset: Any) -> str | None:
        if self._logs is None:
            self._logs = dict(self._index.db.execute("SELECT path, id FROM logs"))
        known = self._logs.get(log) if isinstance(log, str) else None
        if known is None or not isinstance(offset, int) or not 0 <= offset < 1 << OFFSET_BITS:
            return None
        texts = self._index.texts(known << OFFSET_BITS | offset)
        whole = "\n".join(text.text for text in texts)[:_MOST_TEXT]
        return whole.encode("utf-8", "replace").decode() or None
