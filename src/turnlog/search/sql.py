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
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any as Anything
from typing import Final, NamedTuple

from turnlog.index.ids import SECOND_BITS, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.search.filters import (
    ALWAYS,
    BOUNDING,
    CROWD_SECONDS,
    NEVER,
    OPPOSITES,
    WAS_TAKEN,
    Condition,
    Filters,
    Range,
    Table,
    both,
    either,
    one_of,
)
from turnlog.search.language import All, Any, FieldFilter, Node, Not, Phrase, Word, filters_of
from turnlog.search.match import Tokenizer, as_phrase, conjuncts, positive_leaves
from turnlog.search.vocabulary import Vocabulary, pages_of

_COLUMNS: Final = ("t.id", "t.record", "t.part", "t.kind", "r.session")
_DEEPEST: Final = 8
"""Deeper than that a tree is decided on the text: SQLite's parsers have small stacks."""
_MOST_LEAVES: Final = 150
_FEW_RANGES: Final = 32
_FIRST, _LAST = "json_extract(a.value, '$[0]')", "json_extract(a.value, '$[1]')"
_APART: Final = ", ".join(str(int(kind)) for kind in sorted(ANSWERED))
_NOT_LISTED_TWICE: Final = (
    f"(t.kind <> {int(TextKind.HISTORY)} OR r.session IS NULL OR r.session NOT IN"
    " (SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL))"
    f" AND (t.kind <> {int(TextKind.NOTE)} OR NOT {WAS_TAKEN})"
)


class SearchStatement(NamedTuple):
    """A query that gives id, record, part, kind, session and bm25, newest text first."""

    sql: str
    values: list[Anything]
    filters: tuple[FieldFilter, ...]
    """Whose truth stands in further columns; none if no row needs a check."""
    needs_check: bool
    is_ranked: bool
    """Whether bm25 says something."""


class _FtsExpression(NamedTuple):
    """A full-text expression, and whether it says all that was asked."""

    expression: str
    is_whole: bool


class Renderer:
    """Renders trees for one index; remembers what its filters mean there.

    With *is_masked* the words that the index knows decide nothing: every text is checked.
    """

    def __init__(
        self, db: sqlite3.Connection, tokenizer: Tokenizer, *, is_masked: bool = False
    ) -> None:
        self.filters = Filters(db)
        self._db, self._tokenizer, self._is_masked = db, tokenizer, is_masked
        self._vocabulary = Vocabulary(db)
        self._table: Table = "said"
        self._needs_check = False
        self._leaves = 0

    def plan(
        self, tree: Node | None, table: Table, *, ranked: bool, last: int | None = None
    ) -> SearchStatement:
        """Ask *table* for the texts that *tree* wants, or somewhat more, up to the *last* id."""
        self._table, self._needs_check, self._leaves = table, False, 0
        wanted, unwanted, conditions = [], [], []
        nodes = conjuncts(tree)
        for node in nodes:
            said = self._said(node, 1)
            refused = self._said(node.node, 1) if isinstance(node, Not) else None
            if said is not None:
                wanted.append(self._noted(said).expression)
                conditions += [NEVER] if self._begins_no_word(node) else []
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
        truths = [self.filters.condition(each, table) for each in dict.fromkeys(filters)]
        is_ranked = ranked and bool(wanted) and table == "said"
        columns = [*_COLUMNS, "bm25(said)" if is_ranked else "0.0"]
        columns += [each.sql for each in truths]
        source = f"{table} CROSS JOIN texts t ON t.id = {table}.rowid" if wanted else "texts t"
        key = f"{table}.rowid" if wanted else "t.id"
        driving = Condition(f"{table} MATCH ?", (expression,)) if wanted else _kinds(table)
        where = [driving, *_within(nodes, key), both(conditions), Condition(_NOT_LISTED_TWICE)]
        listed = (
            self.filters.listed(node, table) for node in nodes if isinstance(node, FieldFilter)
        )
        # Words are sought once, not for each of them; where there is none, not at all.
        which = f"+{key}" if wanted else key
        where += [one_of(which, ids) if ids else NEVER for ids in listed if ids is not None]
        where += [] if last is None else [Condition(f"{key} <= ?", (last,))]
        # For every range words are sought anew, beginnings are put together, a rank is counted.
        is_dear = is_ranked or '" *' in expression
        ranges = self._ranges(nodes, most=1 if is_dear else _FEW_RANGES if wanted else None)
        joined: tuple[str, ...] = ()
        if ranges is not None and len(ranges) == 1:
            where.append(Condition(f"{key} BETWEEN ? AND ?", ranges[0]))
        elif ranges is not None:
            source, joined = f"json_each(?) a CROSS JOIN {source}", (json.dumps(ranges),)
            where.append(Condition(f"{key} BETWEEN {_FIRST} AND {_LAST}"))
        sql = (
            f"SELECT {', '.join(columns)} FROM {source}"
            f" CROSS JOIN records r ON r.id = t.record"
            f" WHERE {' AND '.join(each.sql for each in where)} ORDER BY {key} DESC"
        )
        values = [value for each in truths for value in each.values]
        values += [*joined, *(value for each in where for value in each.values)]
        return SearchStatement(
            sql, values, tuple(dict.fromkeys(filters)), self._needs_check, is_ranked
        )

    def newest(self, tree: Node | None, table: Table, most: int) -> SearchStatement:
        """Ask for the *most* newest texts of *table*: what *tree* wants is decided on the text.

        Beside the columns of other plans each row says whether it is worth a look.
        """
        nodes = conjuncts(tree)
        filters = tuple(dict.fromkeys(filters_of(tree)))
        truths = [self.filters.condition(each, table) for each in filters]
        meant = [
            self.filters.condition(each, table) for each in nodes if isinstance(each, FieldFilter)
        ]
        worth = both([*meant, Condition(_NOT_LISTED_TWICE)])
        where = both([_kinds(table), *_within(nodes, "id")])
        columns = [*_COLUMNS, "0.0", worth.sql, *(each.sql for each in truths)]
        sql = (
            f"SELECT {', '.join(columns)} FROM"
            f" (SELECT * FROM texts WHERE {where.sql} ORDER BY id DESC LIMIT {most}) t"
            f" CROSS JOIN records r ON r.id = t.record ORDER BY t.id DESC"
        )
        values = [value for each in (worth, *truths, where) for value in each.values]
        return SearchStatement(sql, values, filters, needs_check=True, is_ranked=False)

    def pages(self, tree: Node | None, table: Table) -> int:
        """Guess how much SQLite has to put together before it knows the first row of a plan."""
        begun = [
            each for each in positive_leaves(tree) if isinstance(each, Word) and each.is_prefix
        ]
        terms = [self._tokenizer.terms(each.text) for each in begun]
        return max((pages_of(self._db, table, each[-1]) for each in terms if each), default=0)

    def _ranges(self, nodes: Iterable[Node], *, most: int | None) -> list[Range] | None:
        """Return ranges that hold the ids of all texts that *nodes* may mean, if a filter tells."""
        for node in nodes:
            if isinstance(node, FieldFilter) and node.field in BOUNDING:
                ranges = self.filters.ranges(node)
                if ranges is not None:
                    is_over = most is not None and len(ranges) > most
                    return [(ranges[0][0], ranges[-1][1])] if is_over else ranges
        return None

    def _noted(self, said: _FtsExpression) -> _FtsExpression:
        self._needs_check |= not said.is_whole
        return said

    def _said(self, node: Node, depth: int) -> _FtsExpression | None:
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
                return _FtsExpression(joined, all(each.is_whole for each in found))
            case All():
                return self._said_all(node, depth)
        return None

    def _said_all(self, node: All, depth: int) -> _FtsExpression | None:
        wanted: list[_FtsExpression] = []
        refused: list[_FtsExpression] = []
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
        return _FtsExpression(expression, all(each.is_whole for each in (*wanted, *refused)))

    def _said_word(self, leaf: Word | Phrase) -> _FtsExpression | None:
        self._leaves += 1
        terms = self._tokenizer.terms(leaf.text)
        if not terms:
            return None
        expression = expression_for(leaf, terms, self._table)
        is_whole = self._table == "said" or len(terms) == 1
        return _FtsExpression(expression, is_whole and not self._is_masked)

    def _begins_no_word(self, node: Node) -> bool:
        """Return whether *node* is a beginning of no word: SQLite would read all others first."""
        if not isinstance(node, Word) or not node.is_prefix:
            return False
        terms = self._tokenizer.terms(node.text)
        return bool(terms) and not self._vocabulary.has_beginning(self._table, terms[-1])

    def _upper(self, node: Node, depth: int) -> Condition:
        """Return a condition that everything meets that *node* wants."""
        return self._bound(node, depth, is_upper=True)

    def _bound(self, node: Node, depth: int, *, is_upper: bool) -> Condition:
        if depth > _DEEPEST or self._leaves > _MOST_LEAVES:
            self._needs_check = True
            return ALWAYS if is_upper else NEVER
        match node:
            case FieldFilter():
                self._leaves += 1
                return self.filters.condition(node, self._table)
            case Not():
                inner = self._bound(node.node, depth + 1, is_upper=not is_upper)
                if inner in OPPOSITES:
                    return OPPOSITES[inner]
                return Condition(f"NOT {inner.sql}", inner.values)
        said = self._said(node, depth)
        if said is not None:
            self._noted(said)
            if not is_upper and not said.is_whole:
                return NEVER
            table = self._table
            asked = f"t.id IN (SELECT rowid FROM {table} WHERE {table} MATCH ?)"
            return Condition(asked, (said.expression,))
        if not isinstance(node, All | Any):
            self._needs_check = True
            return ALWAYS if is_upper else NEVER
        parts = [self._bound(each, depth + 1, is_upper=is_upper) for each in node.nodes]
        return both(parts) if isinstance(node, All) else either(parts)


def expression_for(leaf: Word | Phrase, terms: Sequence[str], table: Table) -> str:
    """Write a leaf of these *terms* for a full-text table; one of them knows no order of words."""
    if table == "said":
        return as_phrase(leaf)
    words = [Word(term) for term in terms]
    words[-1] = Word(terms[-1], isinstance(leaf, Word) and leaf.is_prefix)
    return " AND ".join(dict.fromkeys(map(as_phrase, words)))


def _kinds(table: Table) -> Condition:
    return Condition(f"kind {'NOT ' if table == 'said' else ''}IN ({_APART})")


def _within(nodes: Iterable[Node], key: str) -> Iterable[Condition]:
    """Bound the ids by the dates that every match has to meet: ids are times."""
    for node in nodes:
        if isinstance(node, FieldFilter) and node.at is not None:
            second = max(0, microseconds(node.at) // 1_000_000)
            if node.field == "before":
                yield Condition(f"{key} < ?", ((second + CROWD_SECONDS) << SECOND_BITS,))
            else:
                yield Condition(f"{key} >= ?", (second << SECOND_BITS,))
