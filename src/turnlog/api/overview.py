"""The overview: what is going on, what it cost lately, and what needs a person's attention.

The document is the one that ``turnlog --json`` prints.
"""

from __future__ import annotations

from turnlog.insights.overview import (
    WITHIN_DAYS,
    Attention,
    BareOverview,
    Overview,
    bare_overview,
    overview,
)

__all__ = [
    "WITHIN_DAYS",
    "Attention",
    "BareOverview",
    "Overview",
    "bare_overview",
    "overview",
]
