"""The costs that lists of sessions and projects show."""

from __future__ import annotations

from datetime import UTC
from typing import Literal

from turnlog.catalog.period import Period
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource
from turnlog.index.connection import Index
from turnlog.pricing.cost import Prices


def costs_by(
    unit: Literal["session", "project"], index: Index, prices: Prices, period: Period | None = None
) -> dict[str, str]:
    """Return the cost of each session id or project path, as `turnlog cost` reports it."""
    asked = Question(by=(unit,), zone=UTC, period=period or Period())
    report = ledger(IndexSource(index, prices).sums(asked.period), prices, asked)
    return {
        name: row.cost_usd for row in report.rows if isinstance(name := getattr(row, unit), str)
    }
