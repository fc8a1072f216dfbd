"""Insights: what was done in a period, how it went, and what it cost.

The document is the one that ``turnlog insights`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.insights.report import Insights, insights
from turnlog.insights.scope import Scope

__all__ = ["Insights", "Scope", "insights"]
