"""Query records, messages and calls: filters and groups, SQL, errors, patterns over time."""

from __future__ import annotations

from turnlog.query.errors import (
    ErrorContext,
    ErrorPattern,
    Nearby,
    Occurrence,
    error_context,
    error_patterns,
)
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
from turnlog.query.patterns import (
    FileAccess,
    Interval,
    Metric,
    Sequence,
    Series,
    SeriesPoint,
    file_access,
    time_series,
    tool_sequences,
)
from turnlog.query.query import QueryDocument, answer, answer_of, input_of, query
from turnlog.query.sql import (
    MOST_ROWS,
    MOST_STATEMENT_BYTES,
    Cell,
    Parameters,
    SchemaDocument,
    SqlDocument,
    run_sql,
    schema,
)
from turnlog.query.turns import RecordTurn, record_turns
from turnlog.search.regex import BUDGET_SECONDS, SLOW_PATTERN, TOOK_TOO_LONG

__all__ = [
    "BUDGET_SECONDS",
    "MOST_ROWS",
    "MOST_STATEMENT_BYTES",
    "RESOURCES",
    "SLOW_PATTERN",
    "TOOK_TOO_LONG",
    "TOOLS",
    "Aggregate",
    "Cell",
    "ErrorContext",
    "ErrorPattern",
    "FileAccess",
    "Interval",
    "Metric",
    "Nearby",
    "Occurrence",
    "Output",
    "Parameters",
    "Query",
    "QueryConditions",
    "QueryDocument",
    "QueryFilter",
    "RecordTurn",
    "Resource",
    "SchemaDocument",
    "Sequence",
    "Series",
    "SeriesPoint",
    "SqlDocument",
    "Transform",
    "answer",
    "answer_of",
    "conditions_of",
    "error_context",
    "error_patterns",
    "file_access",
    "input_of",
    "parse_query",
    "projects_in",
    "query",
    "record_turns",
    "resource_named",
    "run_sql",
    "schema",
    "time_series",
    "tool_sequences",
]
