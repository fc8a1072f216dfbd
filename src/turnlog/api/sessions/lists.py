"""Sessions and projects: lists from the logs or the index, figures, names of models and tools."""

from __future__ import annotations

from collections.abc import Iterable

from turnlog.catalog.facets import FacetValue, SessionFacets
from turnlog.catalog.indexed_sessions import (
    IndexedSession,
    ProjectCatalog,
    ProjectRow,
    ProjectSort,
    SessionCatalog,
    SessionSort,
    SessionTotals,
    find_indexed,
    list_indexed,
    list_projects,
    session_totals,
)
from turnlog.catalog.names import (
    matching_projects,
    models_used,
    no_such_model,
    no_such_project,
    no_such_tool,
    tools_named,
)
from turnlog.catalog.quick_find import FoundSession, QuickFind, quick_find
from turnlog.catalog.session_figures import (
    RecordPosition,
    SessionFigures,
    newest_records,
    placed_record,
    session_figures,
    uuids_at,
)
from turnlog.catalog.sessions import Keeping, SessionList, SessionRow, list_sessions
from turnlog.costs.lists import SessionCosts, costs_by
from turnlog.formats import Home
from turnlog.index.connection import Index

__all__ = [
    "FacetValue",
    "FoundSession",
    "IndexedSession",
    "Keeping",
    "ProjectCatalog",
    "ProjectRow",
    "ProjectSort",
    "QuickFind",
    "RecordPosition",
    "SessionCatalog",
    "SessionCosts",
    "SessionFacets",
    "SessionFigures",
    "SessionList",
    "SessionRow",
    "SessionSort",
    "SessionTotals",
    "costs_by",
    "find_indexed",
    "list_indexed",
    "list_projects",
    "list_sessions",
    "newest_records",
    "placed_record",
    "project_directories",
    "quick_find",
    "session_figures",
    "session_totals",
    "sessions_in",
    "unknown_names",
    "uuids_at",
]


def sessions_in(project: str | None, homes: Iterable[Home]) -> set[str | None] | None:
    """Return the ids of the sessions that worked in *project* or below it; None without one."""
    if project is None:
        return None
    rows = list_sessions(tuple(homes), project=project, archived=None, limit=None).sessions
    return {row.id for row in rows}


def project_directories(index: Index, typed: str) -> tuple[list[str], str]:
    """Return the directories that the name or path *typed* matches, and a note if there are none.

    A name that several directories have matches all of them.
    """
    found = matching_projects(index.db, typed)
    return found, "" if found else no_such_project(index.db, typed)


def unknown_names(index: Index, *, tool: str | None = None, model: str | None = None) -> str:
    """Return a hint if no call has that *tool* or no response that *model*, else nothing."""
    hints = []
    if tool is not None and not tools_named(index.db, tool):
        hints.append(no_such_tool(index.db, tool))
    if model is not None:
        hints.append(no_such_model(model, models_used(index.db)))
    return "; ".join(filter(None, hints))
