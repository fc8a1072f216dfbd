"""The newest texts that a tree asks for, one after the other.

SQLite finds the newest text with a word at once. But before it knows the newest one with a word
that begins so, it puts together the lists of all such words, however few are asked for. If these
are long, most texts have such a word, and a glance at the newest texts themselves is many times as
fast.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import merge
from typing import Any as Anything
from typing import Final

from turnlog.index.connection import Index
from turnlog.questions.hits import Known
from turnlog.questions.matching import Tokenizer, meets
from turnlog.questions.search_filters import Table
from turnlog.questions.search_language import Node, filters_of
from turnlog.questions.search_sql import Plan, Renderer

Row = tuple[Anything, ...]

_MANY_PAGES: Final = 100
"""Lists as long as that take longer than a glance."""
_FEW_FILTERS: Final = 20
_MOST_TEXTS: Final = 200
_MOST_READ: Final = 100
# If so many texts were read in vain, and four more for each that was not, the others are no better.
_IN_VAIN: Final = 20
_DECIDED: Final = Plan("", [], (), needs_check=False, is_ranked=False)


def newest_rows(
    known: Known, renderer: Renderer, tokenizer: Tokenizer, tree: Node | None, table: Table
) -> Iterator[tuple[Row, Plan]]:
    """Give the rows of *table* that *tree* asks for, newest first, and the plan of each."""
    last = None
    if renderer.pages(tree, table) >= _MANY_PAGES and len(filters_of(tree)) <= _FEW_FILTERS:
        last = yield from _seen(known, renderer, tokenizer, tree, table)
    yield from rows_of(known.index, renderer.plan(tree, table, ranked=False, last=last))


def rows_of(index: Index, plan: Plan) -> Iterator[tuple[Row, Plan]]:
    """Give the rows of *plan*, as SQLite finds them."""
    return ((row, plan) for row in index.db.execute(plan.sql, plan.values))


def merged(streams: list[Iterator[tuple[Row, Plan]]]) -> Iterator[tuple[Row, Plan]]:
    """Give the rows of several tables in one order, newest first."""
    return streams[0] if len(streams) == 1 else merge(*streams, key=lambda each: -int(each[0][0]))


def _seen(
    known: Known, renderer: Renderer, tokenizer: Tokenizer, tree: Node | None, table: Table
) -> Generator[tuple[Row, Plan], None, int | None]:
    """Look through the newest texts; give the last id of which nothing is known yet."""
    plan = renderer.newest(tree, table, _MOST_TEXTS)
    last = None
    read = found = 0
    for row in known.index.db.execute(plan.sql, plan.values):
        if row[6]:
            text = known.text(row[1], row[2])
            if text is None:  # Whether it was one of those that are sought, the words tell.
                return int(row[0])
            read += 1
            truths = dict(zip(plan.filters, map(bool, row[7:]), strict=True))
            if meets(tree, text.text, truths, tokenizer):
                found += 1
                yield row[:6], _DECIDED
        last = int(row[0]) - 1
        if read >= min(_MOST_READ, _IN_VAIN + 5 * found):
            break
    return last
