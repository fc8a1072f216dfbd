"""Queries: records, messages and calls; chosen, grouped, counted and added up.

The document is the one that ``turnlog query`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.query.fields import (
    RESOURCES,
    TOOLS,
    Aggregate,
    Output,
    Query,
    QueryFilter,
    Resource,
    Transform,
)
from turnlog.query.filters import (
    QueryConditions,
    conditions_of,
    parse_query,
    projects_in,
    resource_named,
)
from turnlog.query.query import QueryDocument, answer, query
from turnlog.query.record_text import answer_of, input_of
from turnlog.search.budget import PATIENCE_SECONDS, SLOW_PATTERN, TOOK_TOO_LONG

__all__ = [
    "PATIENCE_SECONDS",
    "RESOURCES",
    "SLOW_PATTERN",
    "TOOK_TOO_LONG",
    "TOOLS",
    "Aggregate",
    "Output",
    "Query",
    "QueryConditions",
    "QueryDocument",
    "QueryFilter",
    "Resource",
    "Transform",
    "answer",
    "answer_of",
    "conditions_of",
    "input_of",
    "parse_query",
    "projects_in",
    "query",
    "resource_named",
]
