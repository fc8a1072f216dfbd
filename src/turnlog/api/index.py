"""The index: open it for queries, and the values that its rows are made of."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.api.homes import Home
from turnlog.index.connection import Index, open_fresh
from turnlog.index.database import open_for_reading
from turnlog.index.ids import (
    OFFSET_BITS,
    SUBAGENT,
    instant_at,
    long_uuid,
    microseconds,
    short_uuid,
)
from turnlog.index.texts import TextKind

__all__ = [
    "OFFSET_BITS",
    "SUBAGENT",
    "Index",
    "TextKind",
    "instant_at",
    "long_uuid",
    "microseconds",
    "open_fresh",
    "select_names",
    "short_uuid",
]


_NAMES = {
    "session": "SELECT session, title FROM sessions WHERE NOT is_sidechain"
    " ORDER BY last_active_at DESC",
    "project": "SELECT path, NULL FROM projects ORDER BY path",
    "model": "SELECT DISTINCT names.name, NULL FROM messages"
    " JOIN names ON messages.model = names.id ORDER BY names.name",
    "branch": "SELECT DISTINCT git_branch, NULL FROM sessions WHERE git_branch IS NOT NULL"
    " ORDER BY git_branch",
    "tool": "SELECT DISTINCT names.name, NULL FROM calls JOIN names ON calls.tool = names.id"
    " ORDER BY names.name",
}


def select_names(homes: Sequence[Home], kind: str) -> list[tuple[str, str | None]] | None:
    """Return names for completion, each with a description or None, from the index as it is.

    *kind* is session, project, model, branch or tool. Without an index, return None.
    """
    db = open_for_reading(homes)
    if db is None:
        return None
    try:
        return list(db.execute(f"{_NAMES[kind]} LIMIT 5000"))
    finally:
        db.close()
