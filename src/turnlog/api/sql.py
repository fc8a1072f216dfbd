"""SQL: one SELECT over the views of the index.

The documents are those that ``turnlog sql`` prints with ``--json``.
"""

from __future__ import annotations

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

__all__ = [
    "MOST_ROWS",
    "MOST_STATEMENT_BYTES",
    "Cell",
    "Parameters",
    "SchemaDocument",
    "SqlDocument",
    "run_sql",
    "schema",
]
