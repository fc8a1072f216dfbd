"""A tree of the search language as SQLite understands it.

A text is asked for in one of two full-text tables: ``said``, or ``answered``, which holds what
tools answered and knows which words stand in a text but not where. What all matches have to say
goes into one full-text expression, which drives the query, newest text first; everything else
becomes a condition. What SQLite cannot decide (places of words in ``answered``, punctuation, trees
deeper or wider than its parsers like) is asked for generously, and the plan says that every row
``needs_check``: then it also gives the truth of each filter, so that the tree can be decided on the
text itself.
"""

# ruff: noqa: S608 - Only our own names are written into SQL; what was asked is bound.

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from fnmatch import translate
from typing import Any as Anything
from typing import Final, Literal, NamedTuple

from turnlog.index.ids import OFFSET_BITS, SECOND_BITS, microseconds
from turnlog.index.texts import ANSWERED, Kind
from turnlog.questions.matching import Tokenizer, as_phrase
from turnlog.questions.search_language import (
    All,
    Any,
    Filter,
    Node,
    Not,
    Phrase,
    Word,
    filters_of,
)

Table = Literal["said", "answered"]

_DEEPEST: Final = 8
"""Deeper than that a tree is decided on the text: SQLite's parsers have small stacks."""
_MOST_LEAVES: Final = 150
_FEW_STARS: Final = 3
_FEW_IDS: Final = 200
# Texts of a crowded second have ids of the next ones; ids of dates may be this much too late.
_CROWD_SECONDS: Final = 1000
_APART: Final = ", ".join(str(int(kind)) for kind in sorted(ANSWERED))
_AT: Final = f"coalesce(r.at, (t.id >> {SECOND_BITS}) * 1000000)"
_TOLD_OF: Final = f"t.kind IN ({int(Kind.CALL)}, {int(Kind.RESULT)})"
_NOT_LISTED_TWICE: Final = (
    f"(t.kind <> {int(Kind.HISTORY)} OR r.session IS NULL OR r.session NOT IN"
    " (SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL))"
)
_IS_KINDS: Final[dict[str, tuple[Kind, ...]]] = {
    "prompt": (Kind.PROMPT, Kind.HISTORY),
    "response": (Kind.RESPONSE,),
    "thinking": (Kind.THINKING,),
    "call": (Kind.CALL,),
    "result": (Kind.RESULT,),
    "title": (Kind.TITLE,),
    "summary": (Kind.SUMMARY,),
}
_ABSOLUTE: Final = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class Plan(NamedTuple):
    """A query that gives id, record, part, kind, session and bm25, newest text first."""

    sql: str
    values: list[Anything]
    filters: tuple[Filter, ...]
    """Whose truth stands in further columns; none if no row needs a check."""
    needs_check: bool
    is_ranked: bool
    """Whether bm25 says something."""


class _Said(NamedTuple):
    """A full-text expression, and whether it says all that was asked."""

    expression: str
    is_whole: bool


class _Condition(NamedTuple):
    sql: str
    values: tuple[Anything, ...] = ()


_ALWAYS: Final = _Condition("1")
_NEVER: Final = _Condition("0")
_OPPOSITES: Final = {_ALWAYS: _NEVER, _NEVER: _ALWAYS}


class Renderer:
    """Renders trees for one index; remembers what its filters mean there."""

    def __init__(self, db: sqlite3.Connection, tokenizer: Tokenizer) -> None:
        self._db, self._tokenizer = db, tokenizer
        self._known: dict[Filter, _Condition] = {}
        self._table: Table = "said"
        self._needs_check = False
        self._leaves = 0

    def plan(self, tree: Node | None, table: Table, *, ranked: bool) -> Plan:
        """Ask *table* for the texts that *tree* wants, or for somewhat more."""
        self._table, self._needs_check, self._leaves = table, False, 0
        wanted, unwanted, conditions = [], [], []
        nodes = tree.nodes if isinstance(tree, All) else () if tree is None else (tree,)
        for node in nodes:
            said = self._said(node, 1)
            refused = self._said(node.node, 1) if isinstance(node, Not) else None
            if said is not None:
                wanted.append(self._noted(said).expression)
            elif refused is not None and refused.is_whole:
                unwanted.append((refused.expression, node))
            else:
                conditions.append(self._upper(node, 1))
        if not wanted:
            conditions += [self._upper(node, 1) for _, node in unwanted]
            unwanted = []
        expression = " AND ".join(f"({each})" for each in wanted)
        if unwanted:
            refusals = " OR ".join(f"({each})" for each, _ in unwanted)
            expression = f"({expression}) NOT ({refusals})"
        filters = filters_of(tree) if self._needs_check else ()
        truths = [self._filter(each) for each in dict.fromkeys(filters)]
        is_ranked = ranked and bool(wanted) and table == "said"
        columns = ["t.id", "t.record", "t.part", "t.kind", "r.session"]
        columns += ["bm25(said)" if is_ranked else "0.0", *(each.sql for each in truths)]
        kinds = f"t.kind {'NOT ' if table == 'said' else ''}IN ({_APART})"
        source = f"{table} CROSS JOIN texts t ON t.id = {table}.rowid" if wanted else "texts t"
        key = f"{table}.rowid" if wanted else "t.id"
        where = [_Condition(f"{table} MATCH ?", (expression,))] if wanted else [_Condition(kinds)]
        where += [*_within(nodes, key), _both(conditions), _Condition(_NOT_LISTED_TWICE)]
        sql = (
            f"SELECT {', '.join(columns)} FROM {source}"
            f" CROSS JOIN records r ON r.id = t.record"
            f" WHERE {' AND '.join(each.sql for each in where)} ORDER BY {key} DESC"
        )
        values = [value for each in (*truths, *where) for value in each.values]
        return Plan(sql, values, tuple(dict.fromkeys(filters)), self._needs_check, is_ranked)

    def _noted(self, said: _Said) -> _Said:
        self._needs_check |= not said.is_whole
        return said

    def _said(self, node: Node, depth: int) -> _Said | None:
        """Write *node* for the full-text table; None if it is not all words."""
        if depth > _DEEPEST or self._leaves > _MOST_LEAVES:
            return None
        match node:
            case Word() | Phrase():
                return self._said_word(node)
            case Any():
                parts = [self._said(each, depth + 1) for each in node.nodes]
                found = [each for each in parts if each is not None]
                if len(found) < len(parts):
                    return None
                joined = " OR ".join(f"({each.expression})" for each in found)
                return _Said(joined, all(each.is_whole for each in found))
            case All():
                return self._said_all(node, depth)
        return None

    def _said_all(self, node: All, depth: int) -> _Said | None:
        wanted: list[_Said] = []
        refused: list[_Said] = []
        for each in node.nodes:
            said = self._said(each.node if isinstance(each, Not) else each, depth + 1)
            if said is None:
                return None
            (refused if isinstance(each, Not) else wanted).append(said)
        if not wanted:
            return None
        expression = " AND ".join(f"({each.expression})" for each in wanted)
        if refusals := " OR ".join(f"({each.expression})" for each in refused if each.is_whole):
            expression = f"({expression}) NOT ({refusals})"
        return _Said(expression, all(each.is_whole for each in (*wanted, *refused)))

    def _said_word(self, leaf: Word | Phrase) -> _Said | None:
        self._leaves += 1
        terms = self._tokenizer.terms(leaf.text)
        if not terms:
            return None
        if self._table == "said":
            return _Said(as_phrase(leaf), True)
        words = [Word(term) for term in terms]
        words[-1] = Word(terms[-1], isinstance(leaf, Word) and leaf.is_prefix)
        distinct = dict.fromkeys(map(as_phrase, words))
        return _Said(" AND ".join(distinct), len(terms) == 1)

    def _upper(self, node: Node, depth: int) -> _Condition:
        """Give a condition that everything meets that *node* wants."""
        return self._bound(node, depth, is_upper=True)

    def _bound(self, node: Node, depth: int, *, is_upper: bool) -> _Condition:
        if depth > _DEEPEST or self._leaves > _MOST_LEAVES:
            self._needs_check = True
            return _ALWAYS if is_upper else _NEVER
        match node:
            case Filter():
                self._leaves += 1
                return self._filter(node)
            case Not():
                inner = self._bound(node.node, depth + 1, is_upper=not is_upper)
                if inner in _OPPOSITES:
                    return _OPPOSITES[inner]
                return _Condition(f"NOT {inner.sql}", inner.values)
        said = self._said(node, depth)
        if said is not None:
            self._noted(said)
            if not is_upper and not said.is_whole:
                return _NEVER
            table = self._table
            asked = f"t.id IN (SELECT rowid FROM {table} WHERE {table} MATCH ?)"
            return _Condition(asked, (said.expression,))
        if not isinstance(node, All | Any):
            self._needs_check = True
            return _ALWAYS if is_upper else _NEVER
        parts = [self._bound(each, depth + 1, is_upper=is_upper) for each in node.nodes]
        return _both(parts) if isinstance(node, All) else _either(parts)

    def _filter(self, wanted: Filter) -> _Condition:
        known = self._known.get(wanted)
        if known is None:
            made = self._made(wanted)
            # A column without a value makes a comparison neither true nor false.
            known = self._known[wanted] = _Condition(f"(({made.sql}) IS TRUE)", made.values)
        return known

    def _made(self, wanted: Filter) -> _Condition:
        field, value = wanted.field, wanted.value
        if field in ("before", "after", "since"):
            sign = "<" if field == "before" else ">="
            return _Condition(f"{_AT} {sign} ?", (microseconds(wanted.at),))
        match field:
            case "session" | "project":
                return self._of_sessions(self.sessions(wanted))
            case "tool":
                return _told_of("c.tool", self._names(_glob(value)))
            case "file":
                return self._file(value)
            case "model":
                return _one_of("r.model", self._names(_glob(f"*{value}*")))
            case "branch":
                return _one_of("r.branch", self._names(_glob(value)))
            case "role":
                return _one_of("r.author", self._names(_glob(value)))
            case "type":
                return self._type(value)
        return self._is(value)

    def sessions(self, wanted: Filter) -> list[int]:
        """Give the ids of the sessions that a filter ``session:`` or ``project:`` means."""
        if wanted.field == "session":
            begins = wanted.value.lower()
            rows = self._db.execute("SELECT id, session FROM sessions")
            return [row[0] for row in rows if row[1].lower().startswith(begins)]
        is_in = _project(wanted.value)
        rows = self._db.execute(
            "SELECT s.id, p.path FROM sessions s JOIN projects p ON p.id = s.project"
        )
        return [row[0] for row in rows if is_in(row[1])]

    def _file(self, value: str) -> _Condition:
        paths = _one_of("x.path", self._paths(value))
        # As sets of records: whether a path is meant is not asked again for every text.
        touching = f"SELECT x.record FROM touches x WHERE {paths.sql}"
        answering = (
            "SELECT c.result FROM touches x JOIN calls c ON c.record = x.record"
            f" AND c.block = x.block WHERE c.result IS NOT NULL AND {paths.sql}"
        )
        return _Condition(
            f"{_TOLD_OF} AND t.record IN ({touching} UNION {answering})", paths.values * 2
        )

    def _of_sessions(self, sessions: list[int]) -> _Condition:
        """Ask for records of *sessions*; most others are known by their log, without a look."""
        ids = json.dumps(sessions)
        logs = self._db.execute(
            "SELECT id FROM logs WHERE session IS NULL OR session IN (SELECT session FROM sessions"
            " WHERE id IN (SELECT value FROM json_each(?)))",
            (ids,),
        )
        among = _one_of(f"(t.record >> {OFFSET_BITS})", [row[0] for row in logs])
        those = _one_of("r.session", sessions)
        return _Condition(f"{among.sql} AND {those.sql}", among.values + those.values)

    def _paths(self, value: str) -> list[int]:
        if not any(each in value for each in "*?["):
            part = value.lower()
            rows = self._db.execute("SELECT id, path FROM paths")
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

    def _type(self, value: str) -> _Condition:
        kinds = [int(kind) for kind in Kind if kind.name.lower() == value.lower()]
        one, other = _one_of("r.type", self._names(_glob(value))), _one_of("t.kind", kinds)
        return _Condition(f"{one.sql} OR {other.sql}", one.values + other.values)

    def _is(self, value: str) -> _Condition:
        if value == "agent":
            return _Condition("r.flags & 2")
        if value == "error":
            failed = "SELECT 1 FROM calls c WHERE c.record = t.record AND c.is_error"
            call = int(Kind.CALL)
            return _Condition(f"r.flags & 1 OR (t.kind = {call} AND EXISTS ({failed}))")
        if value == "gone":
            return _Condition(
                f"(t.record >> {OFFSET_BITS}) IN (SELECT id FROM logs WHERE gone_at IS NOT NULL)"
            )
        return _one_of("t.kind", map(int, _IS_KINDS[value]))

    def _names(self, fits: Callable[[str], bool]) -> list[int]:
        return [row[0] for row in self._db.execute("SELECT id, name FROM names") if fits(row[1])]


def _within(nodes: Iterable[Node], key: str) -> Iterable[_Condition]:
    """Bound the ids by the dates that every match has to meet: ids are times."""
    for node in nodes:
        if isinstance(node, Filter) and node.at is not None:
            second = max(0, microseconds(node.at) // 1_000_000)
            if node.field == "before":
                yield _Condition(f"{key} < ?", ((second + _CROWD_SECONDS) << SECOND_BITS,))
            else:
                yield _Condition(f"{key} >= ?", (second << SECOND_BITS,))


def _both(parts: list[_Condition]) -> _Condition:
    if _NEVER in parts:
        return _NEVER
    return _linked([each for each in parts if each != _ALWAYS], " AND ") or _ALWAYS


def _either(parts: list[_Condition]) -> _Condition:
    if _ALWAYS in parts:
        return _ALWAYS
    return _linked([each for each in parts if each != _NEVER], " OR ") or _NEVER


def _linked(parts: list[_Condition], word: str) -> _Condition | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    values = tuple(value for each in parts for value in each.values)
    return _Condition(f"({word.join(each.sql for each in parts)})", values)


def _told_of(column: str, ids: list[int]) -> _Condition:
    """Ask for calls, and results of calls, whose *column* is one of *ids*."""
    one = _one_of(column, ids)
    asked = "EXISTS (SELECT 1 FROM calls c WHERE c.{} = t.record AND " + f"{one.sql})"
    return _Condition(
        f"CASE t.kind WHEN {int(Kind.CALL)} THEN {asked.format('record')}"
        f" WHEN {int(Kind.RESULT)} THEN {asked.format('result')} END",
        one.values * 2,
    )


def _one_of(column: str, ids: Iterable[int]) -> _Condition:
    ids = list(ids)
    if len(ids) <= _FEW_IDS:
        return _Condition(f"{column} IN ({', '.join(map(str, ids))})")
    return _Condition(f"{column} IN (SELECT value FROM json_each(?))", (json.dumps(ids),))


def _glob(pattern: str) -> Callable[[str], bool]:
    fits = re.compile(translate(pattern.lower())).match
    return lambda text: fits(text.lower()) is not None


def _project(value: str) -> Callable[[str], bool]:
    if not _ABSOLUTE.match(value):
        part = value.lower()
        return lambda path: part in path.lower()
    top = value.rstrip("/\\")
    return lambda path: path.startswith(top) and path[len(top) : len(top) + 1] in ("", "/", "\\")
