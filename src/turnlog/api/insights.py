"""Insights: what was done in a period, how it went and what it cost; and the overview of now."""

from __future__ import annotations

from turnlog.insights.cache import REASONS
from turnlog.insights.explanation import InsightsExplanation, explain
from turnlog.insights.groups import WEEKDAYS
from turnlog.insights.overview import (
    WITHIN_DAYS,
    Attention,
    BareOverview,
    Overview,
    bare_overview,
    overview,
)
from turnlog.insights.report import Insights, insights, last_active
from turnlog.insights.scope import Evidence, Scope

__all__ = [
    "REASONS",
    "WEEKDAYS",
    "WITHIN_DAYS",
    "Attention",
    "BareOverview",
    "Evidence",
    "Insights",
    "InsightsExplanation",
    "Overview",
    "Scope",
    "bare_overview",
    "explain",
    "insights",
    "last_active",
    "overview",
]
