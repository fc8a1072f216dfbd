"""Failures: the errors that tools and the API reported, by what they have in common.

The documents are those that ``turnlog errors`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.query.errors import (
    ErrorContext,
    ErrorPattern,
    Nearby,
    Occurrence,
    error_context,
    error_patterns,
)

__all__ = [
    "ErrorContext",
    "ErrorPattern",
    "Nearby",
    "Occurrence",
    "error_context",
    "error_patterns",
]
