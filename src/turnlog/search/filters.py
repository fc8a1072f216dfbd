"""The filters of the search language as SQL conditions for one index.

Each is a condition on a text ``t`` and its record ``r``, with values to bind. Names (of sessions,
files, tools) are looked up first, so that conditions compare ids. The ids of texts are times, so a
filter that few records match also limits the range of ids.
"""

# ruff: noqa: S608 - Only our own names are written into SQL; values from queries are bound.

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cached_property
from typing import Any as Anything
from typing import Final, Literal, NamedTuple

from turnlog.formats.projects import is_windows_path, is_within
from turnlog.formats.supported import agent_layouts
from turnlog.index.ids import OFFSET_BITS, SECOND_BITS, json_array, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.search.language import FieldFilter, Node

Table = Literal["said", "answered"]
Range = tuple[int, int]
"""The first and the last id of some texts."""


class Condition(NamedTuple):
    sql: str
    values: tuple[Anything, ...] = ()


ALWAYS: Final = Condition("1")
NEVER: Final = Condition("0")
OPPOSITES: Final = {ALWAYS: NEVER, NEVER: ALWAYS}
IS_GONE: Final = "(l.gone_at IS NOT NULL OR l.packed_bytes IS NOT NULL)"
"""True if the log ``l`` is gone at its source; a kept copy, which is packed, may be read
instead."""
WAS_TAKEN: Final = (
    "(r.type = (SELECT id FROM names WHERE name = 'queue-operation') AND EXISTS"
    " (SELECT 1 FROM records AS later WHERE later.id > r.id"
    " AND later.id < ((r.id >> 40) + 1) << 40 AND later.session IS r.session"
    " AND later.type = (SELECT id FROM names WHERE name = 'user')"
    " AND later.author IN (SELECT id FROM names WHERE name IN ('human', 'caller'))))"
)
"""True if the record ``r`` notes a queued prompt, and a prompt with the same text follows in its
session. A prompt that stayed in the queue has only its note."""
BOUNDING: Final = frozenset({"session", "project", "agent", "file", "commit"})
"""The filters that can limit the range of ids."""
CROWD_SECONDS: Final = 1000
"""How many seconds too late an id may be: texts of a crowded second get ids of the next ones."""

_NAMES: Final = {
    "tool": ("tool", "calls"),
    "model": ("model", "records"),
    "branch": ("branch", "records"),
    "role": ("author", "records"),
    "type": ("type", "records"),
}
"""The filters by name, each with the column and table of its names."""
_NAMED: Final = BOUNDING | set(_NAMES)
_IS_KINDS: Final[dict[str, tuple[TextKind, ...]]] = {
    "prompt": (TextKind.PROMPT, TextKind.HISTORY),
    "response": (TextKind.RESPONSE,),
    "thinking": (TextKind.THINKING,),
    "call": (TextKind.CALL,),
    "result": (TextKind.RESULT,),
    "title": (TextKind.TITLE,),
    "summary": (TextKind.SUMMARY,),
}
_ERRORS: Final = FieldFilter("is", "error")
_FEW_IDS: Final = 200
_FEW_NEAR: Final = 3
_FEW_STARS: Final = 3
_FEW_RECORDS: Final = 1_000
_FEW_ERRORS: Final = 5_000
_LONGEST_PART: Final = 1_000
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:[/\\]")

_HASH: Final = re.compile(r"[0-9a-fA-F]{4,40}$")
_SHORT_HASH: Final = 7
_CALLS: Final = f"""
SELECT session, record FROM texts
WHERE kind = {int(TextKind.CALL)} AND id IN (SELECT rowid FROM said WHERE said MATCH ?)
"""
_COMMITS: Final = f"SELECT session FROM ({_CALLS})"
_COMMITTED: Final = f"""
SELECT t.session FROM texts t JOIN calls c ON c.result = t.record
WHERE t.id IN (SELECT rowid FROM answered WHERE answered MATCH ?)
AND c.record IN (SELECT record FROM ({_CALLS}))
"""
_AT: Final = f"coalesce(r.at, (t.id >> {SECOND_BITS}) * 1000000)"
_NEAR: Final = 20
_BEFORE: Final = f"""
SELECT b.id, b.at FROM records b
WHERE b.id < r.id AND b.id >= r.id >> {OFFSET_BITS} << {OFFSET_BITS}
ORDER BY b.id DESC LIMIT {_NEAR}
"""
# A record without a time has that of the last dated one before it in its log, or 0. Only a few are
# looked at, so that a log without any times is not read again for each of its records.
_SECONDS: Final = f"""
SELECT coalesce(
    r.at,
    (SELECT at FROM ({_BEFORE}) WHERE at IS NOT NULL ORDER BY id DESC LIMIT 1),
    CASE WHEN (SELECT count(*) FROM ({_BEFORE})) < {_NEAR} THEN 0 END
) / 1000000 FROM records r WHERE
"""
# A text has an id of its record's second, unless all ids of that second were taken.
_ERROR_TEXTS: Final = f"""
WITH erring (id, first, last) AS MATERIALIZED (
    SELECT id, second << {SECOND_BITS}, (second + 1 << {SECOND_BITS}) - 1 FROM (
        SELECT id, max(at, 0) / 1000000 AS second FROM records WHERE flags & 1
        UNION
        SELECT r.id, max(r.at, 0) / 1000000 FROM calls c CROSS JOIN records r ON r.id = c.record
        WHERE c.is_error
        LIMIT ?
    )
)
SELECT t.id, t.kind,
       e.first IS NOT NULL AND NOT EXISTS (SELECT 1 FROM texts WHERE id = e.last)
FROM erring e LEFT JOIN texts t ON t.id BETWEEN e.first AND e.last AND +t.record = e.id
"""


def both(parts: Iterable[Condition]) -> Condition:
    """Return the condition that all of *parts* are true."""
    return _linked(parts, " AND ", ALWAYS)


def either(parts: Iterable[Condition]) -> Condition:
    """Return the condition that one of *parts* is true."""
    return _linked(parts, " OR ", NEVER)


def _linked(parts: Iterable[Condition], word: str, neutral: Condition) -> Condition:
    parts = [part for part in parts if part != neutral]
    if OPPOSITES[neutral] in parts:
        return OPPOSITES[neutral]
    if len(parts) < 2:
        return parts[0] if parts else neutral
    values = tuple(value for part in parts for value in part.values)
    return Condition(f"({word.join(part.sql for part in parts)})", values)


def one_of(column: str, ids: Iterable[int]) -> Condition:
    """Return the condition that *column* is one of *ids*."""
    ids = list(ids)
    if len(ids) <= _FEW_IDS:
        return Condition(f"{column} IN ({', '.join(map(str, ids))})")
    return Condition(f"{column} IN (SELECT value FROM json_each(?))", (json_array(ids),))


class Filters:
    """The filters of one search; caches what it looks up."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._conditions: dict[tuple[FieldFilter, Table], Condition] = {}
        self._ids: dict[FieldFilter, list[int]] = {}
        self._touching: dict[FieldFilter, list[int] | None] = {}

    def condition(self, wanted: FieldFilter, table: Table) -> Condition:
        """Return the condition on texts of *table*; it is never null."""
        known = self._conditions.get((wanted, table))
        if known is None:
            known = both(
                part if part in OPPOSITES else Condition(f"(({part.sql}) IS TRUE)", part.values)
                for part in self._parts(wanted, table)
            )
            self._conditions[wanted, table] = known
        return known

    def ids(self, wanted: FieldFilter) -> list[int]:
        """Return the ids of the sessions, files or names that *wanted* matches."""
        known = self._ids.get(wanted)
        if known is None:
            known = self._ids[wanted] = self._look_up(wanted.field, wanted.value)
        return known

    def ranges(self, wanted: FieldFilter) -> list[Range] | None:
        """Return ranges with the ids of all texts that a bounding filter matches; None if many."""
        if wanted.field == "file":
            records = self._records_touching(wanted)
            if records is None:
                return None
            those = one_of("r.id", records)
        else:
            those = one_of("r.session", self.ids(wanted))
            many = f"SELECT 1 FROM records r WHERE {those.sql} LIMIT 1 OFFSET {_FEW_RECORDS}"
            if self._db.execute(many, those.values).fetchone() is not None:
                return None
        rows = self._db.execute(f"{_SECONDS} {those.sql}", those.values)
        seconds = [row[0] for row in rows]
        return None if None in seconds else _id_ranges(seconds)

    def error_texts(self, wanted: FieldFilter, table: Table) -> list[int] | None:
        """Return the ids of all texts of *table* that is:error may match; None if many.

        For any other filter None.
        """
        if wanted != _ERRORS or self._error_texts is None:
            return None
        is_apart = table == "answered"
        return [text for text, kind, _ in self._error_texts if (kind in ANSWERED) == is_apart]

    def notes_on(self, nodes: Iterable[Node]) -> list[str]:
        """Return a note, with similar names, for each filter in *nodes* that cannot match."""
        return [
            f"nothing here has {node.field}:{node.value}{self._similar_names(node)}"
            for node in nodes
            if isinstance(node, FieldFilter) and node.field in _NAMED and not self._is_known(node)
        ]

    def _is_known(self, wanted: FieldFilter) -> bool:
        ids = self.ids(wanted)
        if wanted.field in _NAMES and ids:  # They may be names of something else.
            column, table = _NAMES[wanted.field]
            those = one_of(column, ids)
            query = f"SELECT 1 FROM {table} WHERE {those.sql} LIMIT 1"
            ids = self._db.execute(query, those.values).fetchall()
        is_kind = wanted.field == "type" and wanted.value.upper() in TextKind.__members__
        return is_kind or bool(ids)

    def _similar_names(self, wanted: FieldFilter) -> str:
        if wanted.field not in _NAMES:
            return ""
        from turnlog.catalog.names import name_variants, nearest  # noqa: PLC0415 - Seldom.

        column, table = _NAMES[wanted.field]
        query = f"SELECT name FROM names WHERE id IN (SELECT {column} FROM {table})"
        names = [row[0] for row in self._db.execute(query)]
        if wanted.field == "type":
            names += [kind.name.lower() for kind in TextKind]
        near = nearest(wanted.value, {name: name_variants(wanted.field, name) for name in names})
        return f"; did you mean {' or '.join(near[:_FEW_NEAR])}?" if near else ""

    @cached_property
    def _error_texts(self) -> list[tuple[int, int, int]] | None:
        """The texts of errors, if they are few and known."""
        rows = self._db.execute(_ERROR_TEXTS, (_FEW_ERRORS + 1,)).fetchall()
        is_known = len(rows) <= _FEW_ERRORS and all(row[2] for row in rows)
        return [row for row in rows if row[0] is not None] if is_known else None

    def _parts(self, wanted: FieldFilter, table: Table) -> list[Condition]:
        """Return conditions that must all be true; those that need no record come first."""
        kind, call = (
            (TextKind.RESULT, "result") if table == "answered" else (TextKind.CALL, "record")
        )
        of_call = Condition(f"t.kind = {int(kind)}")
        match wanted.field:
            case "before" | "after" | "since" as field:
                sign = "<" if field == "before" else ">="
                return [Condition(f"{_AT} {sign} ?", (microseconds(wanted.at),))]
            case "session" | "project" | "agent" | "commit":
                return [one_of("t.session", self.ids(wanted))]
            case "tool":
                tools = one_of("c.tool", self.ids(wanted))
                query = f"SELECT 1 FROM calls c WHERE c.{call} = t.record AND {tools.sql}"
                return [of_call, Condition(f"EXISTS ({query})", tools.values)]
            case "file":
                return [of_call, self._of_files(wanted)]
            case "model" | "branch" as field:
                return [one_of(f"r.{field}", self.ids(wanted))]
            case "role":
                return [one_of("r.author", self.ids(wanted))]
            case "type":
                value = wanted.value.lower()
                kinds = [int(kind) for kind in TextKind if kind.name.lower() == value]
                return [either([one_of("r.type", self.ids(wanted)), one_of("t.kind", kinds)])]
        return [_is(wanted.value, table)]

    def _look_up(self, field: str, value: str) -> list[int]:
        match field:
            case "session":
                prefix = value.lower()
                rows = self._db.execute("SELECT id, session FROM sessions")
                return [row[0] for row in rows if row[1].lower().startswith(prefix)]
            case "project":
                is_in = _project_test(value)
                rows = self._db.execute(
                    "SELECT s.id, p.path FROM sessions s JOIN projects p ON p.id = s.project"
                )
                return [row[0] for row in rows if is_in(row[1])]
            case "agent":
                rows = self._db.execute("SELECT id, layout FROM sessions")
                layouts = agent_layouts(value)
                return [row[0] for row in rows if row[1] in layouts]
            case "file":
                return self._look_up_paths(value)
            case "commit":
                return self._look_up_commits(value)
        fits = _glob_test(f"*{value}*" if field == "model" else value)
        return [row[0] for row in self._db.execute("SELECT id, name FROM names") if fits(row[1])]

    def _look_up_paths(self, value: str) -> list[int]:
        if not any(each in value for each in "*?["):
            part = value.lower()
            # In this order SQLite reads the index on paths, which is smaller than the table.
            query = "SELECT id, path FROM paths WHERE path LIKE ? ORDER BY path"
            rows = self._db.execute(query, (_like(part),))
            return [row[0] for row in rows if part in row[1].lower()]
        # A relative pattern matches at the end of a path.
        patterns = [value.lower(), f"*/{value.lower()}"]
        if value.isascii() and "[" not in value and value.count("*") <= _FEW_STARS:
            rows = self._db.execute(
                "SELECT id FROM paths WHERE lower(path) GLOB ? OR lower(path) GLOB ?", patterns
            )
            return [row[0] for row in rows]
        whole, ending = map(_glob_test, patterns)  # SQLite's GLOB is exponential in the stars.
        rows = self._db.execute("SELECT id, path FROM paths")
        return [row[0] for row in rows if whole(row[1]) or ending(row[1])]

    def _look_up_commits(self, value: str) -> list[int]:
        """Return the sessions that made a commit, by its hash or the words of its message.

        Git prints the beginning of the hash, so a whole one is found by its beginning too.
        """
        quoted = value.replace("\0", " ").replace('"', '""')
        sessions = {row[0] for row in self._db.execute(_COMMITS, (f'"git commit" AND "{quoted}"',))}
        if _HASH.match(value):
            short = f'"{value[:_SHORT_HASH].lower()}" *'
            sessions |= {row[0] for row in self._db.execute(_COMMITTED, (short, '"git commit"'))}
        return sorted(session for session in sessions if session is not None)

    def _of_files(self, wanted: FieldFilter) -> Condition:
        """Return the condition on calls that name a file, and on their results.

        It is a set of records, so that paths are not compared again for every text.
        """
        records = self._records_touching(wanted)
        if records is not None:
            return one_of("t.record", records)
        touching = self._touching_query(wanted)
        return Condition(f"t.record IN ({touching.sql})", touching.values)

    def _records_touching(self, wanted: FieldFilter) -> list[int] | None:
        """Return the records of calls that name a file, and of their results; None if many."""
        if wanted not in self._touching:
            touching = self._touching_query(wanted)
            query = f"{touching.sql} LIMIT {_FEW_RECORDS + 1}"
            records = [row[0] for row in self._db.execute(query, touching.values)]
            self._touching[wanted] = records if len(records) <= _FEW_RECORDS else None
        return self._touching[wanted]

    def _touching_query(self, wanted: FieldFilter) -> Condition:
        paths = one_of("x.path", self.ids(wanted))
        return Condition(
            f"SELECT x.record FROM touches x WHERE {paths.sql} UNION"
            " SELECT c.result FROM touches x JOIN calls c ON c.record = x.record"
            f" AND c.block = x.block WHERE c.result IS NOT NULL AND {paths.sql}",
            paths.values * 2,
        )


def _is(value: str, table: Table) -> Condition:
    match value:
        case "subagent":
            return Condition("r.flags & 2")
        case "error":  # As sets, so that most texts are decided without reading their record.
            error = Condition("t.record IN (SELECT id FROM records WHERE flags & 1)")
            if table == "answered":
                return error
            failed = "t.record IN (SELECT record FROM calls WHERE is_error)"
            return either([error, Condition(f"(t.kind = {int(TextKind.CALL)} AND {failed})")])
        case "gone":
            gone = f"SELECT l.id FROM logs l WHERE {IS_GONE}"
            return Condition(f"(t.record >> {OFFSET_BITS}) IN ({gone})")
    is_apart = table == "answered"
    kinds = [int(kind) for kind in _IS_KINDS[value] if (kind in ANSWERED) == is_apart]
    return one_of("t.kind", kinds) if kinds else NEVER


def _id_ranges(seconds: list[int]) -> list[Range]:
    """Return the ranges of ids that texts of *seconds* may have; they do not overlap."""
    ranges: list[Range] = []
    for second in sorted({max(0, each) for each in seconds}):
        if ranges and second <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], second + CROWD_SECONDS)
        else:
            ranges.append((second, second + CROWD_SECONDS))
    return [(first << SECOND_BITS, (last << SECOND_BITS) - 1) for first, last in ranges]


def _like(part: str) -> str:
    """Return a LIKE pattern that matches all texts with *part*, in any case, and few others."""
    if not part.isascii() or "\0" in part or len(part) > _LONGEST_PART:
        return "%"
    # İ and the Kelvin sign are i and k in lower case, which SQLite does not know.
    return f"%{re.sub('[ik]', '_', part)}%"


def _glob_test(pattern: str) -> Callable[[str], bool]:
    fits = re.compile(translate(pattern.lower())).match
    return lambda text: fits(text.lower()) is not None


def _project_test(value: str) -> Callable[[str], bool]:
    if not _ABSOLUTE.match(value):
        part = value.lower()
        return lambda path: part in path.lower()
    if is_windows_path(value):
        return lambda path: is_within(path, value)
    top = value.rstrip("/\\")
    return lambda path: path.startswith(top) and path[len(top) : len(top) + 1] in ("", "/", "\\")
