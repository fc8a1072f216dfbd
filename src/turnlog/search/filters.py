"""What the filters of the search language mean in one index.

Each is an SQL condition on a text ``t`` and its record ``r``, with the values to bind. The names in
a filter (sessions, files, tools) are looked up first, so that conditions compare ids. A filter that
few records meet also limits the ids of texts: ids are times, so the records' times bound them.
"""

# ruff: noqa: S608 - Only our own names are written into SQL; what was asked is bound.

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import cached_property
from typing import Any as Anything
from typing import Final, Literal, NamedTuple

from turnlog.formats.projects import is_windows_path, is_within
from turnlog.index.ids import OFFSET_BITS, SECOND_BITS, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.search.language import FieldFilter, Node

_FEW_IDS: Final = 200


class Condition(NamedTuple):
    sql: str
    values: tuple[Anything, ...] = ()


ALWAYS: Final = Condition("1")
NEVER: Final = Condition("0")
IS_GONE: Final = "(l.gone_at IS NOT NULL OR l.packed_bytes IS NOT NULL)"
"""Tells of a log l whether it is gone at its source: a kept copy, which is packed, may be read."""
WAS_TAKEN: Final = (
    "(r.type = (SELECT id FROM names WHERE name = 'queue-operation') AND EXISTS"
    " (SELECT 1 FROM records AS later WHERE later.id > r.id"
    " AND later.id < ((r.id >> 40) + 1) << 40 AND later.session IS r.session"
    " AND later.type = (SELECT id FROM names WHERE name = 'user')"
    " AND later.author IN (SELECT id FROM names WHERE name IN ('human', 'caller'))))"
)
"""Tells of a record r whether it notes a prompt in the queue, and a prompt follows in its session:
that says the same. A prompt that was never taken stands in its note alone."""
OPPOSITES: Final = {ALWAYS: NEVER, NEVER: ALWAYS}


def never_null(condition: Condition) -> Condition:
    """Make *condition* true or false: a column without a value makes a comparison neither."""
    if condition in OPPOSITES:
        return condition
    return Condition(f"(({condition.sql}) IS TRUE)", condition.values)


def both(parts: list[Condition]) -> Condition:
    if NEVER in parts:
        return NEVER
    return _linked([each for each in parts if each != ALWAYS], " AND ") or ALWAYS


def either(parts: list[Condition]) -> Condition:
    if ALWAYS in parts:
        return ALWAYS
    return _linked([each for each in parts if each != NEVER], " OR ") or NEVER


def one_of(column: str, ids: Iterable[int]) -> Condition:
    ids = list(ids)
    if len(ids) <= _FEW_IDS:
        return Condition(f"{column} IN ({', '.join(map(str, ids))})")
    return Condition(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(ids),))


def _linked(parts: list[Condition], word: str) -> Condition | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    values = tuple(value for each in parts for value in each.values)
    return Condition(f"({word.join(each.sql for each in parts)})", values)


Table = Literal["said", "answered"]
Range = tuple[int, int]
"""The first and the last id of some texts."""

BOUNDING: Final = frozenset({"session", "project", "file"})
"""The filters that can tell where their texts lie."""
_NAMES: Final = {
    "tool": ("tool", "calls"),
    "model": ("model", "records"),
    "branch": ("branch", "records"),
    "role": ("author", "records"),
    "type": ("type", "records"),
}
"""The filters that name something, and which column has such names."""
_NAMED: Final = BOUNDING | set(_NAMES)
_FEW_NEAR: Final = 3
# Texts of a crowded second have ids of the next ones; ids of dates may be this much too late.
CROWD_SECONDS: Final = 1000

_FEW_STARS: Final = 3
_LONGEST_PART: Final = 1_000
_FEW_RECORDS: Final = 1_000
_ERRORS: Final = FieldFilter("is", "error")
_FEW_ERRORS: Final = 5_000
_AT: Final = f"coalesce(r.at, (t.id >> {SECOND_BITS}) * 1000000)"
_NEAR: Final = 20
_BEFORE: Final = f"""
SELECT b.id, b.at FROM records b
WHERE b.id < r.id AND b.id >= r.id >> {OFFSET_BITS} << {OFFSET_BITS}
ORDER BY b.id DESC LIMIT {_NEAR}
"""
# A record without a time has that of the last one before it in its log that has one, or none at
# all. Only near ones are looked at, lest a log without times is read over and over.
_SECONDS: Final = f"""
SELECT coalesce(
    r.at,
    (SELECT at FROM ({_BEFORE}) WHERE at IS NOT NULL ORDER BY id DESC LIMIT 1),
    CASE WHEN (SELECT count(*) FROM ({_BEFORE})) < {_NEAR} THEN 0 END
) / 1000000 FROM records r WHERE
"""
# A text has an id of its record's second, unless all ids of that second were taken.
_ERRING: Final = f"""
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
_IS_KINDS: Final[dict[str, tuple[TextKind, ...]]] = {
    "prompt": (TextKind.PROMPT, TextKind.HISTORY),
    "response": (TextKind.RESPONSE,),
    "thinking": (TextKind.THINKING,),
    "call": (TextKind.CALL,),
    "result": (TextKind.RESULT,),
    "title": (TextKind.TITLE,),
    "summary": (TextKind.SUMMARY,),
}
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


def tables_for(*, results: bool) -> list[Table]:
    """Name the tables that are searched; what tools answered only if that is asked for."""
    return ["said", "answered"] if results else ["said"]


class Filters:
    """The filters of one search; remembers what they mean."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._conditions: dict[tuple[FieldFilter, Table], Condition] = {}
        self._ids: dict[FieldFilter, list[int]] = {}
        self._touching: dict[FieldFilter, list[int] | None] = {}

    def condition(self, wanted: FieldFilter, table: Table) -> Condition:
        """Return what a text of *table* has to meet; true or false of every text."""
        known = self._conditions.get((wanted, table))
        if known is None:
            known = both([never_null(each) for each in self._made(wanted, table)])
            self._conditions[wanted, table] = known
        return known

    def ids(self, wanted: FieldFilter) -> list[int]:
        """Return the ids of the sessions, files or names that *wanted* means."""
        known = self._ids.get(wanted)
        if known is None:
            known = self._ids[wanted] = self._meant(wanted.field, wanted.value)
        return known

    def ranges(self, wanted: FieldFilter) -> list[Range] | None:
        """Give ranges that hold all ids of texts that a bounding filter means; None if of many."""
        if wanted.field == "file":
            records = self._records_of(wanted)
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
        return None if None in seconds else _joined(seconds)

    def notes_on(self, nodes: Iterable[Node]) -> list[str]:
        """Return which filters among *nodes* nothing in the index can meet, and what comes near."""
        return [
            f"nothing here has {each.field}:{each.value}{self._near(each)}"
            for each in nodes
            if isinstance(each, FieldFilter) and each.field in _NAMED and not self._is_known(each)
        ]

    def _is_known(self, wanted: FieldFilter) -> bool:
        ids = self.ids(wanted)
        if wanted.field in _NAMES and ids:  # They may be names of something else.
            column, table = _NAMES[wanted.field]
            those = one_of(column, ids)
            asked = f"SELECT 1 FROM {table} WHERE {those.sql} LIMIT 1"
            ids = self._db.execute(asked, those.values).fetchall()
        is_kind = wanted.field == "type" and wanted.value.upper() in TextKind.__members__
        return is_kind or bool(ids)

    def _near(self, wanted: FieldFilter) -> str:
        """Return which names come near to one that nothing has."""
        if wanted.field not in _NAMES:
            return ""
        from turnlog.catalog.names import name_variants, nearest  # noqa: PLC0415 - Seldom.

        column, table = _NAMES[wanted.field]
        asked = f"SELECT name FROM names WHERE id IN (SELECT {column} FROM {table})"
        names = [row[0] for row in self._db.execute(asked)]
        if wanted.field == "type":
            names += [kind.name.lower() for kind in TextKind]
        near = nearest(wanted.value, {each: name_variants(wanted.field, each) for each in names})
        return f"; did you mean {' or '.join(near[:_FEW_NEAR])}?" if near else ""

    def listed(self, wanted: FieldFilter, table: Table) -> list[int] | None:
        """Give the ids of all texts of *table* that a filter may mean; None if many, or unknown."""
        if wanted != _ERRORS or self._erring is None:
            return None
        is_apart = table == "answered"
        return [text for text, kind, _ in self._erring if (kind in ANSWERED) == is_apart]

    @cached_property
    def _erring(self) -> list[tuple[int, int, int]] | None:
        """The texts of what went wrong, if they are few and known."""
        rows = self._db.execute(_ERRING, (_FEW_ERRORS + 1,)).fetchall()
        is_known = len(rows) <= _FEW_ERRORS and all(row[2] for row in rows)
        return [row for row in rows if row[0] is not None] if is_known else None

    def _made(self, wanted: FieldFilter, table: Table) -> list[Condition]:
        """Give what has to be so all together; what needs no record is asked before it is read."""
        kind, call = (
            (TextKind.RESULT, "result") if table == "answered" else (TextKind.CALL, "record")
        )
        of_call = Condition(f"t.kind = {int(kind)}")
        match wanted.field:
            case "before" | "after" | "since" as field:
                sign = "<" if field == "before" else ">="
                return [Condition(f"{_AT} {sign} ?", (microseconds(wanted.at),))]
            case "session" | "project":
                return self._of_sessions(self.ids(wanted))
            case "tool":
                tools = one_of("c.tool", self.ids(wanted))
                asked = f"SELECT 1 FROM calls c WHERE c.{call} = t.record AND {tools.sql}"
                return [of_call, Condition(f"EXISTS ({asked})", tools.values)]
            case "file":
                return [of_call, self._of_files(wanted)]
            case "model" | "branch" as field:
                return [one_of(f"r.{field}", self.ids(wanted))]
            case "role":
                return [one_of("r.author", self.ids(wanted))]
            case "type":
                kinds = [
                    int(kind) for kind in TextKind if kind.name.lower() == wanted.value.lower()
                ]
                one, other = one_of("r.type", self.ids(wanted)), one_of("t.kind", kinds)
                return [Condition(f"{one.sql} OR {other.sql}", one.values + other.values)]
        return [_is(wanted.value, table)]

    def _meant(self, field: str, value: str) -> list[int]:
        match field:
            case "session":
                begins = value.lower()
                rows = self._db.execute("SELECT id, session FROM sessions")
                return [row[0] for row in rows if row[1].lower().startswith(begins)]
            case "project":
                is_in = _project(value)
                rows = self._db.execute(
                    "SELECT s.id, p.path FROM sessions s JOIN projects p ON p.id = s.project"
                )
                return [row[0] for row in rows if is_in(row[1])]
            case "file":
                return self._paths(value)
        fits = _glob(f"*{value}*" if field == "model" else value)
        return [row[0] for row in self._db.execute("SELECT id, name FROM names") if fits(row[1])]

    def _of_files(self, wanted: FieldFilter) -> Condition:
        """Ask for records of calls that name a file, and of what came of them.

        As sets of records: whether a path is meant is not asked again for every text.
        """
        records = self._records_of(wanted)
        if records is not None:
            return one_of("t.record", records)
        touching = self._touched(wanted)
        return Condition(f"t.record IN ({touching.sql})", touching.values)

    def _records_of(self, wanted: FieldFilter) -> list[int] | None:
        """Return the records of calls that name a file, and of what came of them; None if many."""
        if wanted not in self._touching:
            touching = self._touched(wanted)
            asked = f"{touching.sql} LIMIT {_FEW_RECORDS + 1}"
            records = [row[0] for row in self._db.execute(asked, touching.values)]
            self._touching[wanted] = records if len(records) <= _FEW_RECORDS else None
        return self._touching[wanted]

    def _touched(self, wanted: FieldFilter) -> Condition:
        paths = one_of("x.path", self.ids(wanted))
        return Condition(
            f"SELECT x.record FROM touches x WHERE {paths.sql} UNION"
            " SELECT c.result FROM touches x JOIN calls c ON c.record = x.record"
            f" AND c.block = x.block WHERE c.result IS NOT NULL AND {paths.sql}",
            paths.values * 2,
        )

    def _of_sessions(self, sessions: list[int]) -> list[Condition]:
        """Ask for records of *sessions*; most others are known by their log, without a look."""
        ids = json.dumps(sessions)
        logs = self._db.execute(
            "SELECT id FROM logs WHERE session IS NULL OR session IN (SELECT session FROM sessions"
            " WHERE id IN (SELECT value FROM json_each(?)))",
            (ids,),
        )
        among = one_of(f"(t.record >> {OFFSET_BITS})", [row[0] for row in logs])
        return [among, one_of("r.session", sessions)]

    def _paths(self, value: str) -> list[int]:
        if not any(each in value for each in "*?["):
            part = value.lower()
            # In this order an index has all of it, and is shorter than the table.
            asked = "SELECT id, path FROM paths WHERE path LIKE ? ORDER BY path"
            rows = self._db.execute(asked, (_alike(part),))
            return [row[0] for row in rows if part in row[1].lower()]
        # A pattern that does not say how the path begins means how it ends.
        patterns = [value.lower(), f"*/{value.lower()}"]
        if value.isascii() and "[" not in value and value.count("*") <= _FEW_STARS:
            rows = self._db.execute(
                "SELECT id FROM paths WHERE lower(path) GLOB ? OR lower(path) GLOB ?", patterns
            )
            return [row[0] for row in rows]
        whole, ending = map(_glob, patterns)  # SQLite would try every way to share out the stars.
        rows = self._db.execute("SELECT id, path FROM paths")
        return [row[0] for row in rows if whole(row[1]) or ending(row[1])]


def _is(value: str, table: Table) -> Condition:
    match value:
        case "subagent":
            return Condition("r.flags & 2")
        case "error":  # As a set: of most texts it is known then without a look at their record.
            erring = "t.record IN (SELECT id FROM records WHERE flags & 1)"
            if table == "answered":
                return Condition(erring)
            failed = "t.record IN (SELECT record FROM calls WHERE is_error)"
            return Condition(f"{erring} OR (t.kind = {int(TextKind.CALL)} AND {failed})")
        case "gone":
            gone = f"SELECT l.id FROM logs l WHERE {IS_GONE}"
            return Condition(f"(t.record >> {OFFSET_BITS}) IN ({gone})")
    is_apart = table == "answered"
    kinds = [int(kind) for kind in _IS_KINDS[value] if (kind in ANSWERED) == is_apart]
    return one_of("t.kind", kinds) if kinds else NEVER


def _joined(seconds: list[int]) -> list[Range]:
    """Return the ranges of ids that texts of these seconds may have; none overlaps another."""
    ranges: list[Range] = []
    for second in sorted({max(0, each) for each in seconds}):
        if ranges and second <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], second + CROWD_SECONDS)
        else:
            ranges.append((second, second + CROWD_SECONDS))
    return [(first << SECOND_BITS, (last << SECOND_BITS) - 1) for first, last in ranges]


def _alike(part: str) -> str:
    """Give a pattern for SQLite that all meet who have *part* in small letters, and few others."""
    if not part.isascii() or "\0" in part or len(part) > _LONGEST_PART:
        return "%"
    # Two letters beyond ASCII are these as small ones, which SQLite does not know.
    return f"%{re.sub('[ik]', '_', part)}%"


def _glob(pattern: str) -> Callable[[str], bool]:
    fits = re.compile(translate(pattern.lower())).match
    return lambda text: fits(text.lower()) is not None


def _project(value: str) -> Callable[[str], bool]:
    if not _ABSOLUTE.match(value):
        part = value.lower()
        return lambda path: part in path.lower()
    if is_windows_path(value):
        return lambda path: is_within(path, value)
    top = value.rstrip("/\\")
    return lambda path: path.startswith(top) and path[len(top) : len(top) + 1] in ("", "/", "\\")
