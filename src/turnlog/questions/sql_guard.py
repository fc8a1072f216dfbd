"""What a statement of somebody else's may do: read the views, for a while, in bounded memory.

SQLite asks the guard before it does anything: only SELECT is allowed, only the views can be read,
and only functions that compute. What SQLite cannot be asked about is refused before it sees the
statement: a chain of named subqueries that each use the one before twice doubles with every link,
while it is being prepared, when nothing can interrupt it.

SQLite's own limit, ``hard_heap_limit``, is for all connections of a process and cannot be lifted
again: a program that only asked a question would find its own databases short of memory. So the
guard looks at the process itself. Whatever a statement sorts or groups stays in memory, where the
guard sees it: in temporary files it could fill the disk.
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Container
from typing import Final

from turnlog.errors import UsageError
from turnlog.storage.system import memory_bytes

MOST_STATEMENT_BYTES: Final = 100_000
# Of one value. A function cannot be interrupted, and to look for one long text in another takes
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
    """Watches over one connection. *refused* says why the statement was refused, if it was."""

    def __init__(self, db: sqlite3.Connection, *, inner: Container[str], seconds: float) -> None:
        """*inner* are the views that may read tables; nobody else can know their names."""
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
        """Tell whether anybody may read what is called *name*: views and named subqueries."""
        if name in _TABLE_FUNCTIONS or (is_counted and name in self._read):
            return True
        if name in self._closed or name.startswith(("sqlite_", "pragma_")):
            return False
        # Of rows that are counted and not read SQLite tells the name alone, and not that a view
        # wants them; but whatever a view wants was read by it before.
        return database == "temp" or is_counted

    def _refuse(self, why: str) -> int:
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY


def check_statement(statement: str, hint: str) -> None:
    """Refuse a statement that SQLite could not be stopped from choking on."""
    if len(statement.encode(errors="surrogatepass")) > MOST_STATEMENT_BYTES:
        raise UsageError(
            f"the statement is longer than {MOST_STATEMENT_BYTES:,} bytes", hint="ask for less"
        )
    if "\0" in statement:
        raise UsageError("there is a NUL in the statement", hint=hint)
    if not statement.strip():
        raise UsageError("there is no statement", hint=hint)
    if _expanded(statement) > _MOST_EXPANDED:
        raise UsageError(
            "the named subqueries use one another too often",
            hint="use each of them once, or ask in several statements",
        )


def _expanded(statement: str) -> int:
    """Tell how many copies of a named subquery SQLite may make, at most.

    Each use is a copy, with copies of whatever it uses: at most the product of the uses.
    """
    tokens = [_plain(token) for token in _TOKEN.findall(statement)]
    tokens = [token for token in tokens if token]
    names = {name for at in range(len(tokens)) if (name := _named_at(tokens, at)) is not None}
    # One that stands before a dot is part of a column's name, and uses nothing.
    pairs = zip(tokens, [*tokens[1:], ""], strict=False)
    used = Counter(token for token, then in pairs if token in names and then != ".")
    copies = 1
    for name in names:
        copies = min(copies * max(1, used[name] - 1), _MOST_EXPANDED + 1)
    return copies


def _plain(token: str) -> str:
    """Write a token the way it is compared; a comment is none."""
    if token.startswith(("--", "/*")):
        return ""
    if len(token) > 1 and token[0] in "'\"`[":
        end = "]" if token[0] == "[" else token[0]
        return token[1:].removesuffix(end).replace(end * 2, end).lower() or " "
    return token.lower()


def _named_at(tokens: list[str], at: int) -> str | None:
    """Give the name of the subquery whose AS stands at *at*, if one does."""
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
