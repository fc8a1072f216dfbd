"""Queries: records, messages and calls, chosen, grouped and counted; and SQL over the index.

The documents are those that ``turnlog query`` and ``turnlog sql`` print with ``--json``.
"""

from __future__ import annotations

from turnlog.query.query import QueryDocument, query
from turnlog.query.sql import MOST_ROWS, Parameters, SqlDocument, run_sql

__all__ = ["MOST_ROWS", "Parameters", "QueryDocument", "SqlDocument", "query", "run_sql"]
