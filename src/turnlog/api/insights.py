"""Insights: what was done in a period, how it went, and what it cost.

The documents are those that ``turnlog insights`` prints with ``--json``.
"""

from __future__ import annotations

from turnlog.insights.cache import REASONS
from turnlog.insights.days import WEEKDAYS
from turnlog.insights.explanation import InsightsExplanation, explain
from turnlog.insights.report import Insights, insights, last_active
from turnlog.insights.scope import Evidence, Scope

__all__ = [
    "REASONS",
    "WEEKDAYS",
    "Evidence",
    "Insights",
    "InsightsExplanation",
    "Scope",
    "explain",
    "insights",
    "last_active",
]
