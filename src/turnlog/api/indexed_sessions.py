"""Sessions and projects with what the index knows of them: chosen, sorted, counted."""

from __future__ import annotations

from turnlog.catalog.indexed_sessions import (
    IndexedSession,
    SessionCatalog,
    SessionSort,
    list_indexed,
)
from turnlog.catalog.projects import ProjectCatalog, ProjectRow, ProjectSort, list_projects

__all__ = [
    "IndexedSession",
    "ProjectCatalog",
    "ProjectRow",
    "ProjectSort",
    "SessionCatalog",
    "SessionSort",
    "list_indexed",
    "list_projects",
]
