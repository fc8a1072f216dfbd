"""Refresh or rebuild the index."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from turnlog.api.homes import Home, UnreadFile, row_from, unread_files
from turnlog.errors import IndexUnavailable
from turnlog.index.fallback import Fallback, delete_temporary_indexes, fall_back
from turnlog.index.refresh.refresh import Progress, RefreshResult, Stage
from turnlog.index.refresh.refresh import refresh as _refresh

__all__ = [
    "Fallback",
    "Progress",
    "RefreshDocument",
    "RefreshResult",
    "Stage",
    "delete_temporary_indexes",
    "refresh",
    "refresh_document",
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
    try:
        return _refresh(homes, rebuild=rebuild, progress=progress)
    except IndexUnavailable as error:
        if rebuild:
            raise
        result = fall_back(homes, error, stage="text", fallback="read")
        if result.notices:
            raise
        return result


def refresh_document(result: RefreshResult) -> RefreshDocument:
    """Return the result of a refresh as it is printed."""
    return row_from(RefreshDocument, result, problems=unread_files(result.problems))
