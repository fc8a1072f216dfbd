"""What comes near to what was asked, where no text is just that.

A few words may be beginnings of others. A sentence is not made of such: people ask "where did we
fix the flaky retry". The words that only make it a question are left out at once, then the
commonest, one after the other, until some text has all that are left. A word that nobody ever said
is never left out, since it was probably what mattered: then nothing is the answer, and a note says
which word it is. Nor is a time: where only texts of another have it, a note says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final, NamedTuple

from turnlog.search.filters import Table
from turnlog.search.language import FieldFilter, Node, Word
from turnlog.search.match import Tokenizer, as_beginnings, conjuncts, joined, positive_leaves
from turnlog.search.sql import expression_for
from turnlog.search.vocabulary import texts_with

_FEW_WORDS: Final = 3
_MOST_WORDS: Final = 30
# They make a question of what somebody looks for.
_QUESTION: Final = """
a about an and any are as at be been but by can could did do does for from had has have how i if in
into is it its me my of on or our should so some than that the their them then there these they this
those to us was we were what when where which who whose why will with would you your
"""
_ASKING: Final = frozenset(_QUESTION.split())
# Words in so many texts are all common: of those the shorter ones are left out first.
_COMMON: Final = 2_000


class Near(NamedTuple):
    """Something to look for instead, and what to say if it is found."""

    tree: Node
    note: str


class Nearness:
    """Knows which words the texts of *tables* have, and how many texts have each."""

    def __init__(
        self, db: sqlite3.Connection, tokenizer: Tokenizer, tables: Sequence[Table]
    ) -> None:
        self._db, self._tokenizer, self._tables = db, tokenizer, tables

    def near_to(self, tree: Node | None) -> Iterator[Near]:
        """Return what comes near to *tree*, the nearest first."""
        words = _words_of(tree)
        if len(words) <= _FEW_WORDS:
            yield from begun(tree)
        are_words = all(self._tokenizer.terms(word.text) for word in words)
        if are_words and len(words) <= _MOST_WORDS and not self._unsaid(words):
            yield from self._fewer(tree, words)
        if len(words) > _FEW_WORDS:
            yield from begun(tree)

    def notes_on(self, tree: Node | None) -> list[str]:
        """Return why nothing was found, where one of several words tells."""
        if len(conjuncts(tree)) < 2:
            return []
        words = [each for each in _words_of(tree) if self._tokenizer.terms(each.text)]
        return [f"no text has the word {each.text}" for each in self._unsaid(words)[:_FEW_WORDS]]

    def _unsaid(self, words: list[Word]) -> list[Word]:
        """Return those of *words* that no text has; how it was asked does not matter."""
        return [each for each in words if not _is_asking(each) and not self._texts_with(each, 1)]

    def _fewer(self, tree: Node | None, words: list[Word]) -> Iterator[Near]:
        """Return *tree* with fewer and fewer of its words."""
        wanted = conjuncts(tree)
        asking = list(filter(_is_asking, words))
        others = [each for each in words if each not in asking]
        counts = {each: self._texts_with(each, _COMMON) for each in others}
        others.sort(key=lambda each: (-counts[each], len(each.text)))
        for count in range(0 if asking else 1, len(others) + 1):
            out = {*asking, *others[:count]}
            rest = joined([each for each in wanted if each not in out])
            if rest is not None and any(positive_leaves(rest)):
                told = ", ".join(each.text for each in words if each in out)
                yield Near(rest, f"no text has all of these words; left out: {told}")

    def _texts_with(self, word: Word, most: int) -> int:
        terms = self._tokenizer.terms(word.text)
        return sum(
            texts_with(self._db, table, expression_for(word, terms, table), most)
            for table in self._tables
        )


def begun(tree: Node | None) -> Iterator[Near]:
    """Return *tree* with every word as the beginning of one."""
    beginnings = as_beginnings(tree)
    if beginnings is not None and beginnings != tree:
        yield Near(beginnings, "no text has these whole words: words that begin so are shown")


def undated(tree: Node | None) -> Node | None:
    """Return *tree* bound to no time; None if it was bound to none, or to nothing else."""
    nodes = conjuncts(tree)
    rest = [each for each in nodes if not (isinstance(each, FieldFilter) and each.at is not None)]
    return joined(rest) if len(rest) < len(nodes) else None


def of_another_time(at: datetime | None, zone: tzinfo | None) -> str:
    """Say that texts of another time have what was asked, the latest of them of *at*."""
    when = "" if at is None else f", the latest of {at.astimezone(zone).date()}"
    return f"texts of another time have this{when}"


def _is_asking(word: Word) -> bool:
    return word.text.lower() in _ASKING


def _words_of(tree: Node | None) -> list[Word]:
    """Return the words that all have to be there, each once; a beginning by a star was meant so."""
    words = (each for each in conjuncts(tree) if isinstance(each, Word) and not each.is_prefix)
    return list(dict.fromkeys(words))
