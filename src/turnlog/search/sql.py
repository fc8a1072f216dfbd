"""Render a tree of the search language as SQL for the index.

Texts are in one of two full-text tables: ``said``, and ``answered`` for tool results, which stores
the words of a text but not their order. Words that every match must have become one full-text
expression, which drives the query, newest text first. Everything else becomes a condition. What
SQLite cannot decide (the order of words in ``answered``, punctuation, trees too deep or wide for
its parsers) matches too much, and the statement says that every row ``needs_check``: then it also
returns the value of each filter, so that the tree can be decided on the text itself.
"""

# ruff: noqa: S608 - Only our own names are written into SQL; values from queries are bound.

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import cached_property
from typing import Any as Anything
from typing import Final, Literal, NamedTuple

from turnlog.index.ids import SECOND_BITS, json_array, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.search.filters import (
    ALWAYS,
    BOUNDING,
    CROWD_SECONDS,
    NEVER,
    OPPOSITES,
    Condition,
    Filters,
    Range,
    Table,
    both,
    either,
    one_of,
)
from turnlog.search.language import (
    All,
    Any,
    FieldFilter,
    Node,
    Not,
    Phrase,
    Word,
    conjuncts,
    filters_of,
    word_leaves,
)
from turnlog.search.tokenizer import as_phrase, terms

_COLUMNS: Final = ("t.id", "t.record", "t.part", "t.kind", "t.session", "t.size_bytes")
_DEEPEST: Final = 8
"""A deeper tree is decided on the text, since SQLite's parsers have small stacks."""
_MOST_LEAVES: Final = 150
_FEW_RANGES: Final = 32
_FIRST, _LAST = "json_extract(a.value, '$[0]')", "json_extract(a.value, '$[1]')"
_KINDS: Final = ", ".join(str(int(kind)) for kind in sorted(ANSWERED))
_OF_TABLE: Final = {
    "said": Condition(f"kind NOT IN ({_KINDS})"),
    "answered": Condition(f"kind IN ({_KINDS})"),
}
_IS_ALIVE: Final = Condition("t.record IS NOT NULL")
# A prompt may also be in the home's history.
_NOT_LISTED_TWICE: Final = Condition(
    f"(t.kind <> {int(TextKind.HISTORY)} OR t.session IS NULL OR t.session NOT IN"
    " (SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL))"
)
# Each segment of a full-text table lists the first word of its pages. The pages of a prefix are
# those between the last one that begins before it and the first one that begins after it.
_PAGES: Final = """
WITH RECURSIVE segments (id) AS (
    SELECT min(segid) FROM {0}_idx
    UNION ALL
    SELECT (SELECT min(segid) FROM {0}_idx WHERE segid > id) FROM segments WHERE id IS NOT NULL
)
SELECT sum(
    coalesce(
        (SELECT pgno >> 1 FROM {0}_idx WHERE segid = id AND term >= ?2 ORDER BY term LIMIT 1),
        (SELECT max(pgno) >> 1 FROM {0}_idx WHERE segid = id) + 1
    ) - coalesce(
        (SELECT pgno >> 1 FROM {0}_idx WHERE segid = id AND term <= ?1 ORDER BY term DESC LIMIT 1),
        1
    )
) FROM segments WHERE id IS NOT NULL
"""
# FTS5 writes this before a word in its lists.
_MAIN: Final = b"0"


_OF_RECORD: Final = re.compile(r"\br\.")


WordTable = Literal["said", "stems", "answered"]
"""A full-text table; stems has the texts of said."""


class SearchStatement(NamedTuple):
    """A query for id, record, part, kind, session and size, newest text first."""

    sql: str
    values: list[Anything]
    filters: tuple[FieldFilter, ...]
    """The filters whose values are in further columns; none if no row needs a check."""
    needs_check: bool


class _FtsExpression(NamedTuple):
    """A full-text expression, and whether it is exact; otherwise it matches too much."""

    expression: str
    is_exact: bool


class Renderer:
    """Renders trees for one index.

    With *is_masked* the words in the index decide nothing: every text is checked.
    """

    def __init__(self, db: sqlite3.Connection, *, is_masked: bool = False) -> None:
        self._db, self._is_masked = db, is_masked
        self._table: Table = "said"
        self._needs_check = False
        self._leaves = 0
        make_vocabulary(db)

    @cached_property
    def filters(self) -> Filters:
        return Filters(self._db)

    def statement(
        self,
        tree: Node | None,
        table: Table,
        *,
        also: tuple[WordTable, str] | None = None,
        last: int | None = None,
        most: int | None = None,
    ) -> SearchStatement:
        """Return a query for the texts of *table* up to the id *last* that may match *tree*.

        With *also*, a table of words and an expression, they also match that. Only the newest
        *most* are returned.
        """
        self._table, self._needs_check, self._leaves = table, False, 0
        nodes = conjuncts(tree)
        words: WordTable = table
        if also:
            words, expression = also
            conditions = [self._condition(node, 1, is_upper=True) for node in nodes]
        else:
            expression, conditions = self._driving(nodes)
        filters = tuple(dict.fromkeys(filters_of(tree))) if self._needs_check else ()
        truths = [self.filters.condition(wanted, table) for wanted in filters]
        columns = [*_COLUMNS, *(truth.sql for truth in truths)]
        if expression:
            source, key = f"{words} CROSS JOIN texts t ON t.id = {words}.rowid", f"{words}.rowid"
            where = [Condition(f"{words} MATCH ?", (expression,))]
        else:
            source, key, where = "texts t", "t.id", [_OF_TABLE[table]]
        where += [*_within(nodes, key), *(each for each in conditions if each != ALWAYS)]
        where += [_IS_ALIVE, _NOT_LISTED_TWICE]
        for node in nodes:
            if isinstance(node, FieldFilter):
                ids = self.filters.error_texts(node, table)
                if ids is not None:  # The plus: words are searched for once, not for each id.
                    where.append(one_of(f"+{key}" if expression else key, ids) if ids else NEVER)
        if last is not None:
            where.append(Condition(f"{key} <= ?", (last,)))
        # Each range searches for the words again, and for all words of a prefix.
        ranges = self._ranges(
            nodes, 1 if '" *' in expression else _FEW_RANGES if expression else None
        )
        source_values: tuple[str, ...] = ()
        if ranges is not None and len(ranges) == 1:
            where.append(Condition(f"{key} BETWEEN ? AND ?", ranges[0]))
        elif ranges is not None:
            source, source_values = f"json_each(?) a CROSS JOIN {source}", (json_array(ranges),)
            where.append(Condition(f"{key} BETWEEN {_FIRST} AND {_LAST}"))
        if any(_OF_RECORD.search(part.sql) for part in (*conditions, *truths)):
            source += " CROSS JOIN records r ON r.id = t.record"
        sql = (
            f"SELECT {', '.join(columns)} FROM {source}"
            f" WHERE {' AND '.join(part.sql for part in where)} ORDER BY {key} DESC"
        )
        if most is not None:
            sql += f" LIMIT {most}"
        values = [value for truth in truths for value in truth.values]
        values += [*source_values, *(value for part in where for value in part.values)]
        return SearchStatement(sql, values, filters, self._needs_check)

    def newest(self, tree: Node | None, table: Table, most: int) -> SearchStatement:
        """Return a query for the *most* newest texts of *table*; *tree* is decided on the text.

        After the columns of other statements, each row says whether it may match.
        """
        nodes = conjuncts(tree)
        filters = tuple(dict.fromkeys(filters_of(tree)))
        truths = [self.filters.condition(wanted, table) for wanted in filters]
        required = [
            self.filters.condition(node, table) for node in nodes if isinstance(node, FieldFilter)
        ]
        may_match = both([*required, _NOT_LISTED_TWICE])
        where = both([_OF_TABLE[table], _IS_ALIVE, *_within(nodes, "id")])
        columns = [*_COLUMNS, may_match.sql, *(truth.sql for truth in truths)]
        sql = (
            f"SELECT {', '.join(columns)} FROM"
            f" (SELECT * FROM texts t WHERE {where.sql} ORDER BY id DESC LIMIT {most}) t"
            f" CROSS JOIN records r ON r.id = t.record ORDER BY t.id DESC"
        )
        values = [value for part in (may_match, *truths, where) for value in part.values]
        return SearchStatement(sql, values, filters, needs_check=True)

    def pages(self, tree: Node | None, table: Table) -> int:
        """Estimate how many pages SQLite reads before it knows the first row of a statement."""
        prefixes = [terms(leaf.text) for leaf in word_leaves(tree) if leaf.is_prefix]
        return max((pages_of(self._db, table, each[-1]) for each in prefixes if each), default=0)

    def _driving(self, nodes: Iterable[Node]) -> tuple[str, list[Condition]]:
        """Return one full-text expression for all of *nodes*, and conditions for the others."""
        wanted: list[str] = []
        excluded: list[tuple[str, Node]] = []
        conditions: list[Condition] = []
        for node in nodes:
            found = self._expression(node, 1)
            refused = self._expression(node.node, 1) if isinstance(node, Not) else None
            if found is not None:
                wanted.append(found.expression)
                self._needs_check |= not found.is_exact
                # SQLite would read the matches of all other words before it sees that this has
                # none.
                if isinstance(node, Word) and node.is_prefix and not self._has_words_with(node):
                    conditions.append(NEVER)
            elif refused is not None and refused.is_exact:
                excluded.append((refused.expression, node))
            else:
                conditions.append(self._condition(node, 1, is_upper=True))
        if not wanted:
            conditions += [self._condition(node, 1, is_upper=True) for _, node in excluded]
            return "", conditions
        expression = " AND ".join(f"({each})" for each in wanted)
        if excluded:
            refusals = " OR ".join(f"({each})" for each, _ in excluded)
            expression = f"({expression}) NOT ({refusals})"
        return expression, conditions

    def _has_words_with(self, prefix: Word) -> bool:
        words = terms(prefix.text)
        return not words or has_prefix(self._db, self._table, words[-1])

    def _ranges(self, nodes: Iterable[Node], most: int | None) -> list[Range] | None:
        """Return at most *most* ranges with the ids of all matches, if a filter limits them."""
        for node in nodes:
            if isinstance(node, FieldFilter) and node.field in BOUNDING:
                ranges = self.filters.ranges(node)
                if ranges is not None:
                    is_over = most is not None and len(ranges) > most
                    return [(ranges[0][0], ranges[-1][1])] if is_over else ranges
        return None

    def _expression(self, node: Node, depth: int) -> _FtsExpression | None:
        """Return *node* as a full-text expression; None if it is not all words."""
        if depth > _DEEPEST or self._leaves > _MOST_LEAVES:
            return None
        match node:
            case Word() | Phrase():
                self._leaves += 1
                words = terms(node.text)
                if not words:
                    return None
                is_exact = (self._table == "said" or len(words) == 1) and not self._is_masked
                return _FtsExpression(expression_for(node, self._table), is_exact)
            case Any():
                parts = [self._expression(each, depth + 1) for each in node.nodes]
                found = [part for part in parts if part is not None]
                if len(found) < len(parts):
                    return None
                linked = " OR ".join(f"({part.expression})" for part in found)
                return _FtsExpression(linked, all(part.is_exact for part in found))
            case All():
                return self._all_expression(node, depth)
        return None

    def _all_expression(self, node: All, depth: int) -> _FtsExpression | None:
        wanted: list[_FtsExpression] = []
        excluded: list[_FtsExpression] = []
        for each in node.nodes:
            part = self._expression(each.node if isinstance(each, Not) else each, depth + 1)
            if part is None:
                return None
            (excluded if isinstance(each, Not) else wanted).append(part)
        if not wanted:
            return None
        expression = " AND ".join(f"({part.expression})" for part in wanted)
        if refusals := " OR ".join(f"({part.expression})" for part in excluded if part.is_exact):
            expression = f"({expression}) NOT ({refusals})"
        return _FtsExpression(expression, all(part.is_exact for part in (*wanted, *excluded)))

    def _condition(self, node: Node, depth: int, *, is_upper: bool) -> Condition:
        """Return a condition that is true for all matches of *node*, and perhaps for more.

        Unless *is_upper*: then one that is true only for matches, and perhaps not for all.
        """
        if depth > _DEEPEST or self._leaves > _MOST_LEAVES:
            self._needs_check = True
            return ALWAYS if is_upper else NEVER
        match node:
            case FieldFilter():
                self._leaves += 1
                return self.filters.condition(node, self._table)
            case Not():
                inner = self._condition(node.node, depth + 1, is_upper=not is_upper)
                if inner in OPPOSITES:
                    return OPPOSITES[inner]
                return Condition(f"NOT {inner.sql}", inner.values)
        found = self._expression(node, depth)
        if found is not None:
            self._needs_check |= not found.is_exact
            if not is_upper and not found.is_exact:
                return NEVER
            query = f"SELECT rowid FROM {self._table} WHERE {self._table} MATCH ?"
            return Condition(f"t.id IN ({query})", (found.expression,))
        if not isinstance(node, All | Any):
            self._needs_check = True
            return ALWAYS if is_upper else NEVER
        parts = [self._condition(each, depth + 1, is_upper=is_upper) for each in node.nodes]
        return both(parts) if isinstance(node, All) else either(parts)


def expression_for(leaf: Word | Phrase, table: Table) -> str:
    """Return the full-text expression for a leaf with words; ``answered`` has no word order."""
    if table == "said":
        return as_phrase(leaf)
    *first, last = terms(leaf.text)
    words = [*map(Word, first), Word(last, leaf.is_prefix)]
    return " AND ".join(dict.fromkeys(map(as_phrase, words)))


def make_vocabulary(db: sqlite3.Connection) -> None:
    """Make temporary tables that list the words of the full-text tables.

    To be called before anything is read: making a table may interrupt a query on the connection.
    """
    for name, table, kind in (
        ("words_said", "said", "instance"),
        ("words_answered", "answered", "instance"),
        ("counts_said", "said", "row"),
        ("counts_stems", "stems", "row"),
        ("counts_answered", "answered", "row"),
    ):
        db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{name} USING fts5vocab(main, {table}, {kind})"
        )


def has_prefix(db: sqlite3.Connection, table: str, prefix: str) -> bool:
    """Return whether a word of *table* begins with *prefix*; needs ``make_vocabulary``."""
    query = f"SELECT term FROM temp.words_{table} WHERE term >= ? ORDER BY term LIMIT 1"
    row = db.execute(query, (prefix,)).fetchone()
    return row is not None and row[0].startswith(prefix)


def pages_of(db: sqlite3.Connection, table: str, prefix: str) -> int:
    """Estimate how many pages of *table* are about words with *prefix*, without reading them."""
    first = _MAIN + prefix.encode(errors="replace")
    try:
        return int(db.execute(_PAGES.format(table), (first, first + b"\xff")).fetchone()[0] or 0)
    except sqlite3.Error:  # These lists are internal to SQLite and may change.
        return 0


def count_of(db: sqlite3.Connection, table: str, word: str) -> int:
    """Count the texts of *table* that have a word, or a stem; needs ``make_vocabulary``."""
    row = db.execute(f"SELECT doc FROM temp.counts_{table} WHERE term = ?", (word,)).fetchone()
    return int(row[0]) if row else 0


def _within(nodes: Iterable[Node], key: str) -> Iterable[Condition]:
    """Yield bounds on ids, which are times, for the dates that every match must meet."""
    for node in nodes:
        if isinstance(node, FieldFilter) and node.at is not None:
            second = max(0, microseconds(node.at) // 1_000_000)
            if node.field == "before":
                yield Condition(f"{key} < ?", ((second + CROWD_SECONDS) << SECOND_BITS,))
            else:
                yield Condition(f"{key} >= ?", (second << SECOND_BITS,))
