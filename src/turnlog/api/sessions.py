"""Sessions: which there are, from the logs themselves or as the index knows them.

The documents are those that ``turnlog sessions`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.catalog.indexed_sessions import (
    IndexedSession,
    SessionCatalog,
    SessionSort,
    list_indexed,
)
from turnlog.catalog.sessions import SessionList, SessionRow, list_sessions

__all__ = [
    "IndexedSession",
    "SessionCatalog",
    "SessionList",
    "SessionRow",
    "SessionSort",
    "list_indexed",
    "list_sessions",
]
