"""Relax a query that no text matches.

Two or three words may be prefixes of others. A sentence is more likely a question, such as "where
did we fix the flaky retry": the words that only make it a question are left out first, then the
commonest ones, until some text has all the others. A word that occurs nowhere is never left out,
since it was probably the one that mattered: nothing is found, and a note names it. Dates stay, too:
if only texts from another time match, a note says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from turnlog.search.filters import Table
from turnlog.search.language import (
    FieldFilter,
    Node,
    Word,
    conjuncts,
    joined,
    with_prefixes,
    word_leaves,
)
from turnlog.search.sql import count_texts, expression_for
from turnlog.search.tokenizer import terms

_FEW_WORDS: Final = 3
_MOST_WORDS: Final = 30
_QUESTION: Final = """
a about an and any are as at be been but by can could did do does for from had has have how i if in
into is it its me my of on or our should so some than that the their them then there these they this
those to us was we were what when where which who whose why will with would you your
"""
_QUESTION_WORDS: Final = frozenset(_QUESTION.split())
# Of words in at least this many texts, the shorter ones are left out first.
_COMMON: Final = 2_000


class Suggestion(NamedTuple):
    """Another query, and the note to show if it finds something."""

    tree: Node
    note: str


class Suggestions:
    """Suggests queries by the words in *tables*, and how many texts have each."""

    def __init__(self, db: sqlite3.Connection, tables: Sequence[Table]) -> None:
        self._db, self._tables = db, tables

    def near(self, tree: Node | None) -> Iterator[Suggestion]:
        """Yield queries similar to *tree*, the most similar first."""
        words = _required_words(tree)
        if len(words) <= _FEW_WORDS:
            yield from by_prefix(tree)
        has_terms = all(terms(word.text) for word in words)
        if has_terms and len(words) <= _MOST_WORDS and not self._unknown(words):
            yield from self._with_fewer(tree, words)
        if len(words) > _FEW_WORDS:
            yield from by_prefix(tree)

    def notes_on(self, tree: Node | None) -> list[str]:
        """Return notes on words that occur nowhere, if *tree* has more than one condition."""
        if len(conjuncts(tree)) < 2:
            return []
        words = [word for word in _required_words(tree) if terms(word.text)]
        return [f"no text has the word {word.text}" for word in self._unknown(words)[:_FEW_WORDS]]

    def _unknown(self, words: list[Word]) -> list[Word]:
        """Return those of *words*, except question words, that no text has."""
        return [word for word in words if not _is_question(word) and not self._count(word, 1)]

    def _with_fewer(self, tree: Node | None, words: list[Word]) -> Iterator[Suggestion]:
        """Yield *tree* with fewer and fewer of its words."""
        nodes = conjuncts(tree)
        question = list(filter(_is_question, words))
        others = [word for word in words if word not in question]
        counts = {word: self._count(word, _COMMON) for word in others}
        others.sort(key=lambda word: (-counts[word], len(word.text)))
        for count in range(0 if question else 1, len(others) + 1):
            out = {*question, *others[:count]}
            rest = joined([node for node in nodes if node not in out])
            if rest is not None and word_leaves(rest):
                names = ", ".join(word.text for word in words if word in out)
                yield Suggestion(rest, f"no text has all of these words; left out: {names}")

    def _count(self, word: Word, most: int) -> int:
        return sum(
            count_texts(self._db, table, expression_for(word, table), most)
            for table in self._tables
        )


def by_prefix(tree: Node | None) -> Iterator[Suggestion]:
    """Yield *tree* with every word as a prefix, if that changes it."""
    prefixes = with_prefixes(tree)
    if prefixes is not None and prefixes != tree:
        note = "no text has these whole words; showing words that begin with them"
        yield Suggestion(prefixes, note)


def without_dates(tree: Node | None) -> Node | None:
    """Return *tree* without its dates; None if it has none, or nothing else."""
    nodes = conjuncts(tree)
    rest = [node for node in nodes if not (isinstance(node, FieldFilter) and node.at is not None)]
    return joined(rest) if len(rest) < len(nodes) else None


def another_time_note(at: datetime | None, zone: tzinfo | None) -> str:
    """Return the note that texts from another time match, the latest from *at*."""
    when = "" if at is None else f", the latest from {at.astimezone(zone).date()}"
    return f"only texts from another time match{when}"


def _is_question(word: Word) -> bool:
    return word.text.lower() in _QUESTION_WORDS


def _required_words(tree: Node | None) -> list[Word]:
    """Return the words that all must match, without prefixes, each once."""
    words = (node for node in conjuncts(tree) if isinstance(node, Word) and not node.is_prefix)
    return list(dict.fromkeys(words))
