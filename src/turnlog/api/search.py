"""Search the text of all sessions.

with store.index() as index:
search(index, 'retry tool:Bash since:7d', now=now, zone=zone)
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
from turnlog.search.search import SearchDocument, search
from turnlog.search.tokenizer import literal_of

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
    """Return a query that matches *query* and all of *nodes*."""
    return SearchQuery(joined([*conjuncts(query.tree), *nodes]), query.notes)


def has_words(query: SearchQuery) -> bool:
    """Return whether *query* has words to look up; otherwise the texts are scanned."""
    return literal_of(query.tree) is None
