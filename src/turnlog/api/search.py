"""Search: where something was said, called, answered or planned, in every session.

    with store.index() as index:
        search(index, 'retry tool:Bash since:7d', now=now, zone=zone)

The document is the one that ``turnlog search`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.search.hits import Hit
from turnlog.search.search import SearchDocument, search

__all__ = ["Hit", "SearchDocument", "search"]
