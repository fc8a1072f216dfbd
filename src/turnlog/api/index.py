"""The index: open it for questions, refresh or rebuild it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from turnlog.api.homes import Home, UnreadFile, unread_files
from turnlog.errors import IndexUnavailable
from turnlog.index.connection import Index, open_fresh
from turnlog.index.database import open_for_reading
from turnlog.index.fallback import Fallback, delete_temporary_indexes
from turnlog.index.ids import (
    OFFSET_BITS,
    SUBAGENT,
    instant_at,
    long_uuid,
    microseconds,
    short_uuid,
)
from turnlog.index.refresh.refresh import Progress, RefreshResult, Stage
from turnlog.index.texts import TextKind

__all__ = [
    "OFFSET_BITS",
    "SUBAGENT",
    "Fallback",
    "Index",
    "Progress",
    "RefreshDocument",
    "RefreshResult",
    "Stage",
    "TextKind",
    "delete_temporary_indexes",
    "instant_at",
    "long_uuid",
    "microseconds",
    "open_fresh",
    "refresh",
    "refresh_document",
    "select_names",
    "short_uuid",
]


class RefreshDocument(Struct, kw_only=True):
    """What `turnlog refresh --json` prints."""

    logs: int
    """Existing logs and side files."""
    read: int
    """Files that were read, in full or from their bookmark on."""
    read_bytes: int
    replaced: list[str]
    """Logs that were read from the start because they were rewritten or replaced."""
    gone: list[str]
    """Logs that are now gone at their source."""
    forgotten: int
    """Logs that were gone before, and are not in the rebuilt index."""
    problems: list[UnreadFile]
    notices: list[str]


def refresh(
    homes: Sequence[Home], *, rebuild: bool = False, progress: Progress | None = None
) -> RefreshResult:
    """Read what was appended to the logs since the last refresh; with *rebuild*, read everything.

    An index that cannot be written is an error only if there is something new to write.
    """
    from turnlog.index.refresh.refresh import refresh as _refresh

    try:
        return _refresh(homes, rebuild=rebuild, progress=progress)
    except IndexUnavailable as error:
        if rebuild:
            raise
        from turnlog.index.fallback import fall_back

        result = fall_back(homes, error, stage="text", fallback="read")
        if result.notices:
            raise
        return result


def refresh_document(result: RefreshResult) -> RefreshDocument:
    """Return the result of a refresh as it is printed."""
    return RefreshDocument(
        logs=result.logs,
        read=result.read,
        read_bytes=result.read_bytes,
        replaced=result.replaced,
        gone=result.gone,
        forgotten=result.forgotten,
        problems=unread_files(result.problems),
        notices=result.notices,
    )


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
