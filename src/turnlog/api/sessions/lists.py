"""Sessions and projects: lists from the logs or the index, figures, names of models and tools."""

from __future__ import annotations

from collections.abc import Iterable

from turnlog.catalog.indexed_sessions import (
    IndexedSession,
    ProjectCatalog,
    ProjectRow,
    ProjectSort,
    SessionCatalog,
    SessionSort,
    SessionTotals,
    list_indexed,
    list_projects,
    session_totals,
)
from turnlog.catalog.names import models_used, no_such_model, no_such_tool, tools_named
from turnlog.catalog.session_figures import (
    RecordPosition,
    SessionFigures,
    newest_records,
    placed_record,
    session_figures,
)
from turnlog.catalog.sessions import Keeping, SessionList, SessionRow, list_sessions
from turnlog.costs.lists import costs_by
from turnlog.formats import Home
from turnlog.index.connection import Index

__all__ = [
    "IndexedSession",
    "Keeping",
    "ProjectCatalog",
    "ProjectRow",
    "ProjectSort",
    "RecordPosition",
    "SessionCatalog",
    "SessionFigures",
    "SessionList",
    "SessionRow",
    "SessionSort",
    "SessionTotals",
    "costs_by",
    "list_indexed",
    "list_projects",
    "list_sessions",
    "newest_records",
    "placed_record",
    "session_figures",
    "session_totals",
    "sessions_in",
    "unknown_names",
]


def sessions_in(project: str | None, homes: Iterable[Home]) -> set[str | None] | None:
    """Return the ids of the sessions that worked in *project* or below it; None without one."""
    if project is None:
        return None
    rows = list_sessions(tuple(homes), project=project, archived=None, limit=None).sessions
    return {row.id for row in rows}


def unknown_names(index: Index, *, tool: str | None = None, model: str | None = None) -> str:
    """Return a hint if no call has that *tool* or no response that *model*, else nothing."""
    hints = []
    if tool is not None and not tools_named(index.db, tool):
        hints.append(no_such_tool(index.db, tool))
    if model is not None:
        hints.append(no_such_model(model, models_used(index.db)))
    return "; ".join(filter(None, hints))
