"""Costs: what was used, and what that costs at the API's prices, every response counted once.

    with open_source(homes, prices) as source:
        found = cost(source, prices, cost_question(homes, "day", since="7d"), now=now)

A source is the index, or the logs where there is none. The documents are those that ``turnlog
cost`` prints with ``--json``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, tzinfo

from turnlog.api.arguments import When, resolve_scope, resolve_session_id, weekday_number
from turnlog.catalog.period import Period
from turnlog.costs.blocks import BlockLedger, BlockRow, responses_about
from turnlog.costs.blocks import blocks as _blocks
from turnlog.costs.budgets import BudgetReport, BudgetRow, Budgets, budget_report, budgets_from
from turnlog.costs.comparison import (
    ComparedRow,
    CostComparison,
    Span,
    UsageChange,
    compare,
    compared_as_lists,
    with_previous_period,
)
from turnlog.costs.ledger import (
    TRACED,
    Explanation,
    Figures,
    Ledger,
    LedgerRow,
    Question,
    ResponseRow,
    SkippedDocument,
    Unit,
    add_trends,
    cut_rows,
    explain,
    ledger,
    rows_as_lists,
    units_named,
    usage_for,
)
from turnlog.costs.usage import IndexSource, UsageSource, counted_elsewhere, open_source
from turnlog.errors import UsageError
from turnlog.formats import Home
from turnlog.pricing.cost import Mode, Prices
from turnlog.records.dates import TIMES, Weekday

__all__ = [
    "TRACED",
    "BlockLedger",
    "BlockRow",
    "BudgetReport",
    "BudgetRow",
    "Budgets",
    "ComparedRow",
    "CostComparison",
    "Explanation",
    "Figures",
    "IndexSource",
    "Ledger",
    "LedgerRow",
    "Mode",
    "Period",
    "Prices",
    "Question",
    "ResponseRow",
    "SkippedDocument",
    "Span",
    "Unit",
    "UsageChange",
    "UsageSource",
    "blocks",
    "budget_report",
    "budgets_from",
    "compare_costs",
    "compared_as_lists",
    "cost",
    "cost_question",
    "counted_elsewhere",
    "cut_rows",
    "explain_cost",
    "ledger",
    "open_source",
    "rows_as_lists",
]


def cost_question(
    homes: Iterable[Home],
    by: str | Iterable[Unit],
    *,
    since: When | None = None,
    until: When | None = None,
    project: str | os.PathLike[str] | None = None,
    session: str | None = None,
    model: str | None = None,
    timezone: str | tzinfo | None = None,
    week_starts: Weekday = "monday",
    mode: Mode = "calculate",
) -> Question:
    """Return the question that is meant; times, projects and sessions are said in words."""
    homes = tuple(homes)
    within = resolve_scope(homes, since, until, project, timezone)
    return Question(
        by=units_named(by),
        zone=within.zone,
        week_starts=weekday_number(week_starts),
        period=Period(
            since=within.since,
            until=within.until,
            project=within.project,
            model=model,
            session=resolve_session_id(session, homes),
        ),
        mode=mode,
    )


def cost(
    source: UsageSource,
    prices: Prices,
    asked: Question,
    *,
    now: datetime,
    trend: bool | None = False,
) -> Ledger:
    """Return what was used and what it cost; with *trend*, also how each row's cost went.

    If *trend* is None, it is added where there can be one.
    """
    scan = usage_for(source, asked)
    report = ledger(scan, prices, asked)
    if trend:
        add_trends(report, scan, prices, asked, now=now)
    elif trend is None and not any(unit in TIMES for unit in asked.by):
        with suppress(UsageError):
            add_trends(report, scan, prices, asked, now=now)
    return report


def compare_costs(
    source: UsageSource, prices: Prices, asked: Question, *, now: datetime
) -> CostComparison:
    """Compare the costs of a period with those of the one before, row by row."""
    asked, before = with_previous_period(asked, now)
    books = [ledger(usage_for(source, each), prices, each) for each in (asked, before)]
    return compare(books[0], asked, books[1], before)


def explain_cost(source: UsageSource, prices: Prices, asked: Question, row: str) -> Explanation:
    """List the responses behind one *row* of ``cost``, the most expensive first."""
    scan = (source.traced if asked.is_traced else source.responses)(asked.period)
    return explain(scan, prices, asked, row)


def blocks(source: UsageSource, prices: Prices, asked: Question, *, now: datetime) -> BlockLedger:
    """Return what was used in each five-hour block; of the one that lasts now, how fast."""
    scan = responses_about(source, asked.period)
    return _blocks(scan, prices, now=now, period=asked.period, mode=asked.mode)
