"""Search the text of all sessions.

with store.index() as index:
search(index, 'retry tool:Bash since:7d', now=now, zone=zone)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from turnlog.search.facets import SearchFacets
from turnlog.search.hits import Hit, make_snippet
from turnlog.search.language import (
    FieldFilter,
    Node,
    Not,
    SearchQuery,
    conjuncts,
    filters_of,
    joined,
    parse,
    soft_words,
    word_leaves,
)
from turnlog.search.ranking import finder, highlighter_of, terms_of, without_common
from turnlog.search.search import COUNTED, SearchDocument, search
from turnlog.search.tokenizer import Span, literal_of

__all__ = [
    "COUNTED",
    "FieldFilter",
    "Hit",
    "Node",
    "Not",
    "SearchDocument",
    "SearchFacets",
    "SearchQuery",
    "filters_of",
    "has_words",
    "make_snippet",
    "narrow",
    "parse",
    "search",
    "soft_words",
    "spans_of",
]


def narrow(query: SearchQuery, *nodes: Node) -> SearchQuery:
    """Return a query that matches *query* and all of *nodes*."""
    return SearchQuery(joined([*conjuncts(query.tree), *nodes]), query.notes)


def has_words(query: SearchQuery) -> bool:
    """Return whether *query* has words to look up; otherwise the texts are scanned."""
    return literal_of(query.tree) is None


def spans_of(words: str) -> Callable[[str], list[Span]]:
    """Return a function that finds *words* in a text: sorted spans that do not overlap.

    *words* is a query: words match by their stem, and filters are ignored.
    """
    tree = parse(words, now=datetime.now(UTC), zone=UTC).tree
    soft = soft_words(tree)
    others = [leaf for leaf in word_leaves(tree) if leaf not in soft]
    find = highlighter_of(finder(without_common(terms_of(soft))), others)

    def spans(text: str) -> list[Span]:
        found: list[Span] = []
        start = 0
        # A highlighter returns only the first matches, and may return fewer than there are.
        while more := find(text[start:]):
            found += [(start + begin, start + end) for begin, end in more]
            start = found[-1][1]
        return found

    return spans
