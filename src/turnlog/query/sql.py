"""SQL over the views of the index: read-only, bounded, one statement at a time.

    run_sql(index, "SELECT tool, count(*) FROM v_calls GROUP BY tool")

The statement runs on a connection of its own, which cannot write and sees only the views of
``index/views.sql``. It is limited in rows, seconds and memory. SQLite's errors become a UsageError
with a hint.

SQLite's authorizer allows only SELECT, only the views, and only functions that compute. What it
cannot check is refused before SQLite sees the statement: a chain of named subqueries that each use
the previous one twice doubles with every link while it is prepared, which nothing can interrupt.

SQLite's ``hard_heap_limit`` applies to all connections of a process and cannot be raised again, so
the memory of the process is watched instead. Sorting and grouping stay in memory, where they count;
temporary files could fill the disk.
"""

from __future__ import annotations

import math
import re
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
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
from turnlog.records.dates import iso
from turnlog.storage.system import memory_bytes

MOST_STATEMENT_BYTES: Final = 100_000
# Of one value. A function cannot be interrupted, and searching one long text for another takes
# time as the square of this: a second, here.
MOST_VALUE_BYTES: Final = 300_000
MOST_MEMORY_BYTES = 256_000_000
"""How much more than before the process may hold while a statement runs."""
_MOST_EXPANDED: Final = 5_000
_WEIGH_SECONDS: Final = 0.001  # To ask for the memory takes a few microseconds.
_LOOK_EVERY: Final = 2_000  # Instructions of SQLite's machine: well below a millisecond.

_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: MOST_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: MOST_STATEMENT_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 1_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

# Those that compute a value from values. Not among them: whatever loads code, reads or writes
# files, tells about the machine, reaches into full-text tables or makes bytes from nothing.
FUNCTIONS: Final = frozenset(
    """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat
    concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
    degrees dense_rank exp first_value floor format glob group_concat hex if ifnull iif instr json
    json_array json_array_length json_extract json_group_array json_group_object json_insert
    json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type
    json_valid julianday lag last_value lead length like likelihood likely ln log log10 log2 lower
    ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile
    percentile_cont percentile_disc pi pow power printf quote radians random rank replace round
    row_number rtrim sign sin sinh soundex sqrt strftime string_agg substr substring subtype sum tan
    tanh text time timediff total trim trunc typeof unhex unicode unistr unixepoch unlikely upper
    """.split()  # noqa: SIM905 - A page of quotes and commas would be harder to read.
)
_MODULES: Final = "SELECT name FROM pragma_module_list"
_TABLE_FUNCTIONS: Final = ("json_each", "json_tree")

_TOKEN: Final = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`(?:[^`]|``)*`?|\[[^\]]*\]?"""
    r"""|[^\W\d][\w$]*|\S""",
    re.DOTALL,
)


class Guard:
    """Checks the statements of one connection; *refused* is the reason for a refusal, if any."""

    def __init__(self, db: sqlite3.Connection, *, inner: Container[str], seconds: float) -> None:
        """*inner* are the views that may read tables; their names are secret."""
        self.refused = ""
        self.is_late = False
        self.is_too_large = False
        self._weighed_at = -math.inf
        self._most_bytes = memory_bytes() + MOST_MEMORY_BYTES
        self._inner = inner
        self._read: set[str] = set()
        self._ends = time.monotonic() + seconds
        for table in _TABLE_FUNCTIONS:  # Made known now: SQLite writes to its own schema for it.
            db.execute(f"SELECT 1 FROM {table}('[]')").fetchall()  # noqa: S608 - Ours.
        tables = db.execute("SELECT name FROM main.sqlite_master WHERE type <> 'view'")
        self._closed = {str(row[0]).lower() for row in (*tables, *db.execute(_MODULES))}
        for limit, value in _LIMITS.items():
            db.setlimit(limit, value)
        db.set_progress_handler(self._look, _LOOK_EVERY)
        db.set_authorizer(self._judge)

    def _look(self) -> int:
        now = time.monotonic()
        self.is_late = now > self._ends
        if now > self._weighed_at + _WEIGH_SECONDS:
            self._weighed_at = now
            self.is_too_large = memory_bytes() > self._most_bytes
        return int(self.has_stopped)

    @property
    def has_stopped(self) -> bool:
        """Whether the statement was stopped because it took too much of something."""
        return self.is_late or self.is_too_large

    def _judge(
        self,
        action: int,
        one: str | None,
        two: str | None,
        database: str | None,
        within: str | None,
    ) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            if within in self._inner:
                self._read.add((one or "").lower())
                return sqlite3.SQLITE_OK
            if self._is_open((one or "").lower(), database, is_counted=not two):
                return sqlite3.SQLITE_OK
            return self._refuse(f"{one} is not open to questions")
        if action == sqlite3.SQLITE_FUNCTION:
            if (two or "").lower() in FUNCTIONS:
                return sqlite3.SQLITE_OK
            return self._refuse(f"the function {two} is not allowed here")
        return self._refuse("only SELECT is allowed here")

    def _is_open(self, name: str, database: str | None, *, is_counted: bool) -> bool:
        """Return whether *name* may be read: a view or a named subquery."""
        if name in _TABLE_FUNCTIONS or (is_counted and name in self._read):
            return True
        if name in self._closed or name.startswith(("sqlite_", "pragma_")):
            return False
        # For rows that are counted but not read, SQLite passes only the name, not the view that
        # counts them; but a view has read its tables before.
        return database == "temp" or is_counted

    def _refuse(self, why: str) -> int:
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY


def check_statement(statement: str) -> None:
    """Raise UsageError for a statement that SQLite could not be interrupted in."""
    if len(statement.encode(errors="surrogatepass")) > MOST_STATEMENT_BYTES:
        raise UsageError(
            f"the statement is longer than {MOST_STATEMENT_BYTES:,} bytes", hint="ask for less"
        )
    if "\0" in statement:
        raise _invalid("there is a NUL in the statement")
    if not statement.strip():
        raise _invalid("there is no statement")
    if _expanded(statement) > _MOST_EXPANDED:
        raise UsageError(
            "the named subqueries use one another too often",
            hint="use each of them once, or ask in several statements",
        )


def _expanded(statement: str) -> int:
    """Return how many copies of a named subquery SQLite may make, at most.

    Each use is a copy, with copies of whatever it uses: at most the product of the uses.
    """
    tokens = [_plain(token) for token in _TOKEN.findall(statement)]
    tokens = [token for token in tokens if token]
    names = {name for at in range(len(tokens)) if (name := _named_at(tokens, at)) is not None}
    # Before a dot it is part of a column's name, not a use.
    pairs = zip(tokens, [*tokens[1:], ""], strict=False)
    used = Counter(token for token, then in pairs if token in names and then != ".")
    copies = 1
    for name in names:
        copies = min(copies * max(1, used[name] - 1), _MOST_EXPANDED + 1)
    return copies


def _plain(token: str) -> str:
    """Return a token in the form in which tokens are compared; "" for a comment."""
    if token.startswith(("--", "/*")):
        return ""
    if len(token) > 1 and token[0] in "'\"`[":
        end = "]" if token[0] == "[" else token[0]
        return token[1:].removesuffix(end).replace(end * 2, end).lower() or " "
    return token.lower()


def _named_at(tokens: list[str], at: int) -> str | None:
    """Return the name of the subquery whose AS is at *at*, if any."""
    if tokens[at] != "as" or at == 0:
        return None
    then = [token for token in tokens[at + 1 : at + 4] if token not in ("not", "materialized")]
    if not then or then[0] != "(":
        return None
    name = at - 1
    if tokens[name] == ")":  # Behind the names of its columns, among which nothing is nested.
        while name > 0 and tokens[name] != "(":
            name -= 1
        name -= 1
    return tokens[name] if name >= 0 else None


MOST_ROWS: Final = 1_000_000
_MOST_ANSWER_BYTES: Final = 64_000_000
_MOST_TEXT: Final = 60_000  # Characters: within MOST_VALUE_BYTES in any script.

_VIEW: Final = re.compile(
    r"((?:^-- [^\n]*\n)+)CREATE VIEW (v_\w+) AS\n(.*?);$", re.DOTALL | re.MULTILINE
)
_COLUMN: Final = re.compile(r" AS (\w+),?  -- (.+)$", re.MULTILINE)
# The time column of each view, for since and until. The other views are based on these.
_INSTANTS: Final = {
    "v_sessions": "last_active_at",
    "v_subagents": "last_active_at",
    "v_records": "at",
    "v_messages": "at",
    "v_calls": "at",
}
_OF_A_PROJECT: Final = (*_INSTANTS, "v_logs", "v_damages")

Cell = str | int | float | None
Parameters = Sequence[Any] | Mapping[str, Any]


class SqlDocument(Struct, kw_only=True):
    """The result of a statement. Bytes are written as hexadecimal digits."""

    columns: list[str]
    rows: list[list[Cell]]
    truncated: bool = False
    """Whether there were more rows than the limit, or than fit."""
    notes: list[str] = field(default_factory=list)


class ViewColumn(Struct):
    name: str
    about: str


class SqlView(Struct):
    """A view and what its columns mean."""

    name: str
    about: str
    columns: list[ViewColumn]


class SchemaDocument(Struct, kw_only=True):
    """The views that there are."""

    views: list[SqlView]


class _ViewSource(NamedTuple):
    view: SqlView
    select: str


def schema(name: str | None = None) -> SchemaDocument:
    """Describe the views, or the one called *name*."""
    views = [source.view for source in _views()]
    if name is None:
        return SchemaDocument(views=views)
    views = [view for view in views if view.name in (name.lower(), f"v_{name.lower()}")]
    if not views:
        raise UsageError(f"there is no view called {name[:80]!r}", hint=_there_are())
    return SchemaDocument(views=views)


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
    """Run one SELECT for at most *seconds*; return at most *limit* rows.

    With *since* and *until* the views hold only what happened from then on, and before then; with
    *project* only what belongs to sessions of that directory or one below it.
    """
    if not 0 < limit <= MOST_ROWS:
        raise UsageError(f"a limit of {limit:,}", hint=f"give one from 1 to {MOST_ROWS:,}")
    if not 0 < seconds <= 3600:
        raise UsageError(f"{seconds} seconds", hint="give a time above 0 and up to an hour (3600)")
    check_statement(statement)
    with closing(_connect(index)) as db:
        inner = _create_views(db, since, until, project)
        texts = _Texts(index)
        db.create_function("text", 2, texts.text)
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        guard = Guard(db, inner=inner, seconds=seconds)
        try:
            cursor = db.execute(statement, parameters)
            if cursor.description is None:  # Nothing but a comment, or a semicolon.
                raise _invalid("there is no statement")
            return _answer(cursor, limit)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError) as error:
            if isinstance(error, UsageError):
                raise
            if texts.was_interrupted(error) or (_is_interrupted(error) and not guard.has_stopped):
                raise KeyboardInterrupt from None
            raise _usage_error(error, guard, seconds) from None


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
    """Return whether Ctrl-C interrupted the guard, which SQLite reports as an interruption."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def _usage_error(error: Exception, guard: Guard, seconds: float) -> UsageError:
    """Return a UsageError for what is wrong with a statement."""
    if guard.is_too_large:
        return UsageError(
            f"the statement needs more than {MOST_MEMORY_BYTES // 10**6} MB of memory",
            hint="group, sort or collect fewer rows: narrow them with WHERE at >= '2026-11-01'",
        )
    if guard.is_late:
        return UsageError(
            f"no answer within {seconds:g} seconds",
            hint="ask for less, as in WHERE at >= '2026-11-01', or allow more seconds",
            code="statement-too-slow",
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
    return _invalid(message or type(error).__name__)


def _invalid(message: str) -> UsageError:
    return UsageError(message, hint=_there_are(), code="invalid-statement")


def _there_are() -> str:
    return f"there are {', '.join(source.view.name for source in _views())}"


def _connect(index: Index) -> sqlite3.Connection:
    """Open the index once more, for one statement."""
    path = next(row[2] for row in index.db.execute("PRAGMA database_list") if row[1] == "main")
    try:
        db = open_again(path)
        db.execute("PRAGMA temp_store = MEMORY")  # The guard says why.
        return db
    except sqlite3.OperationalError as error:
        raise IndexUnavailable(
            f"the index cannot be read: {error}",
            path=path,
            hint="refresh it",
            code="index-unreadable",
        ) from None


def _create_views(
    db: sqlite3.Connection, since: datetime | None, until: datetime | None, project: str | None
) -> set[str]:
    """Create temporary views like those of the index; return the names of those that read tables.

    A subquery may have any name, also a view's, and SQLite does not distinguish them. So the views
    that may read tables have random names.
    """
    inner = set()
    for name, select in ((source.view.name, source.select) for source in _views()):
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
def _views() -> tuple[_ViewSource, ...]:
    """Read the views and the comments on them from views.sql."""
    script = files("turnlog.index").joinpath("views.sql").read_text("utf-8")
    sources = []
    for about, name, select in _VIEW.findall(script):
        words = " ".join(line.removeprefix("-- ") for line in about.splitlines())
        columns = [ViewColumn(column, text) for column, text in _COLUMN.findall(select)]
        sources.append(_ViewSource(SqlView(name, words, columns), select))
    return tuple(sources)


class _Texts:
    """Implements the SQL function ``text``."""

    def __init__(self, index: Index) -> None:
        self._has_failed = False
        self._index = index
        self._logs: dict[str, int] | None = None

    def text(self, log: Any, offset: Any) -> str | None:
        """Return the text of the record at *offset* in *log*, or None."""
        try:
            return self._text(log, offset)
        except Exception:
            self._has_failed = True
            raise

    def was_interrupted(self, error: Exception) -> bool:
        """Return whether a Ctrl-C came while it read: SQLite calls that a fault of the function.

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
