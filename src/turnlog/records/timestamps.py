"""Timestamps in any notation that logs use.

ISO 8601 text and milliseconds since 1970 become aware UTC datetimes. An invalid timestamp
(``9999-99-99T99:99:99Z`` occurs in real logs) becomes None and never invalidates its record.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Epoch values below this are seconds: 1e11 seconds is the year 5138, 1e11 ms is March 1973.
_SMALLEST_MS = 100_000_000_000


def instant(value: Any) -> datetime | None:
    """Return *value* as a datetime, or None if it is not a timestamp."""
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            if at.tzinfo is UTC:  # As nearly all are: no conversion needed.
                return at
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            ms = value if abs(value) >= _SMALLEST_MS else value * 1000
            return _EPOCH + timedelta(milliseconds=ms)
    except (ValueError, OverflowError):
        pass
    return None


def instant_of_ns(at_ns: int) -> datetime | None:
    """Return the datetime of *at_ns*, a file time in nanoseconds; None if out of range."""
    try:
        return _EPOCH + timedelta(microseconds=at_ns // 1000)
    except OverflowError:
        return None


def iso(at: datetime) -> str:
    """Format *at* as Claude Code does: UTC, milliseconds, Z."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
