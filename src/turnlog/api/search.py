"""Search: where something was said, called, answered or planned, in every session.

    with store.index() as index:
        search(index, 'retry tool:Bash since:7d', now=now, zone=zone)

The document is the one that ``turnlog search`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.search.hits import Hit
from turnlog.search.language import (
    FieldFilter,
    Node,
    Not,
    SearchQuery,
    conjuncts,
    filters_of,
    joined,
    parse,
)
from turnlog.search.scan import literal_of
from turnlog.search.search import SearchDocument, search

__all__ = [
    "FieldFilter",
    "Hit",
    "Node",
    "Not",
    "SearchDocument",
    "SearchQuery",
    "filters_of",
    "has_words",
    "narrow",
    "parse",
    "search",
]


def narrow(query: SearchQuery, *nodes: Node) -> SearchQuery:
    """Return the query for what meets *query* and each of *nodes*."""
    return SearchQuery(joined([*conjuncts(query.tree), *nodes]), query.notes)


def has_words(query: SearchQuery) -> bool:
    """Return whether the index can answer *query*; text without words is found by a scan."""
    return literal_of(query.tree) is None
