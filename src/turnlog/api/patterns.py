"""Patterns: tools called in a row, files that were used, figures over time.

The documents are those that ``turnlog query`` prints with ``--json``.
"""

from __future__ import annotations

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

__all__ = [
    "FileAccess",
    "Interval",
    "Metric",
    "Sequence",
    "Series",
    "SeriesPoint",
    "file_access",
    "time_series",
    "tool_sequences",
]
