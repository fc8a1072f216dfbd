"""Costs: usage and what it costs at API prices, every response counted once.

    with open_source(homes, prices) as source:
        ledger = cost(source, prices, cost_question(homes, "day", since="7d"), now=now)

A source is the index, or the logs if there is no index.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import TypeVar

from msgspec import Struct, structs

from turnlog.api.arguments import (
    When,
    check_count,
    configured_prices,
    resolve_scope,
    resolve_session_id,
)
from turnlog.catalog.period import Period
from turnlog.config import load_config
from turnlog.costs.blocks import BlockLedger, BlockRow, active_block, responses_about
from turnlog.costs.blocks import blocks as _blocks
from turnlog.costs.breakdown import (
    EMPTY,
    MAIN,
    NAMELESS,
    SUBAGENTS,
    CostBreakdown,
    TimeStep,
    TimeUnit,
    UsageNames,
    breakdown,
    filter_by_name,
    usage_names,
)
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
from turnlog.costs.explanation import (
    Charge,
    Explanation,
    PriceCharges,
    ResponseRow,
    explain,
)
from turnlog.costs.ledger import (
    TRACED,
    UNIT_NAMES,
    UNITS,
    Figures,
    Ledger,
    LedgerRow,
    Question,
    RowFilter,
    SkippedDocument,
    Unit,
    add_trends,
    cut_rows,
    ledger,
    rows_as_lists,
    units_named,
    usage_for,
    week_starts_from,
)
from turnlog.costs.usage import IndexSource, UsageSource, counted_elsewhere, open_source
from turnlog.errors import UsageError
from turnlog.formats import Home, turnlog_home
from turnlog.pricing.cost import Mode, Prices
from turnlog.records.dates import TIMES, WEEKDAYS, Weekday
from turnlog.storage.logger import warn_of_settings

R = TypeVar("R", Ledger, CostComparison, Explanation, BlockLedger)

__all__ = [
    "EMPTY",
    "MAIN",
    "NAMELESS",
    "SUBAGENTS",
    "TRACED",
    "UNITS",
    "UNIT_NAMES",
    "BlockLedger",
    "BlockRow",
    "BudgetReport",
    "BudgetRow",
    "Budgets",
    "Charge",
    "ComparedRow",
    "CostBreakdown",
    "CostComparison",
    "Explanation",
    "Figures",
    "IndexSource",
    "Ledger",
    "LedgerRow",
    "Mode",
    "Pace",
    "Period",
    "PriceCharges",
    "Prices",
    "Question",
    "ResponseRow",
    "RowFilter",
    "SkippedDocument",
    "Span",
    "TimeStep",
    "TimeUnit",
    "Unit",
    "UsageChange",
    "UsageNames",
    "UsageSource",
    "blocks",
    "breakdown",
    "budget_report",
    "budgets_from",
    "compare_costs",
    "compared_as_lists",
    "configured_budgets",
    "configured_week_start",
    "cost",
    "cost_question",
    "counted_elsewhere",
    "cut_rows",
    "explain_cost",
    "filter_by_name",
    "ledger",
    "older_usage",
    "open_source",
    "pace",
    "report",
    "rows_as_lists",
    "units_named",
    "usage_names",
    "week_starts_from",
]


def cost_question(  # noqa: PLR0917 - Store passes them in this order.
    homes: Iterable[Home],
    by: str | Iterable[Unit],
    since: When | None = None,
    until: When | None = None,
    project: str | os.PathLike[str] | None = None,
    session: str | None = None,
    model: str | None = None,
    timezone: str | tzinfo | None = None,
    week_starts: Weekday | None = None,
    mode: Mode = "calculate",
) -> Question:
    """Return the question; times, projects and sessions are written as on the command line.

    Without *week_starts*, weeks begin as config.toml says.
    """
    homes = tuple(homes)
    if week_starts is None:
        week_starts = configured_week_start()
    if week_starts not in WEEKDAYS:
        hint = f"there are {', '.join(WEEKDAYS)}"
        raise UsageError(f"no week starts on {week_starts!r}", hint=hint)
    within = resolve_scope(homes, since, until, project, timezone)
    return Question(
        by=units_named(by),
        zone=within.zone,
        week_starts=WEEKDAYS.index(week_starts),
        period=Period(
            since=within.since,
            until=within.until,
            project=within.project,
            model=model,
            session=resolve_session_id(session, homes),
        ),
        mode=mode,
    )


def report(
    homes: tuple[Home, ...],
    question: Question,
    ask: Callable[[UsageSource, Prices, Question], R],
    *,
    limit: int = 0,
    no_index: bool = False,
) -> R:
    """Open the index or the logs, and return what *ask* answers, with at most *limit* rows."""
    check_count(limit)
    prices = configured_prices()
    with open_source(homes, prices, no_index=no_index, is_traced=question.is_traced) as source:
        answer = ask(source, prices, question)
    cut_rows(answer, () if isinstance(answer, Explanation) else question.by, limit)
    return answer


def configured_week_start() -> Weekday:
    """Return the first day of the week in config.toml, or Monday."""
    week_starts, problems = week_starts_from(load_config(turnlog_home()).cost)
    warn_of_settings(problems)
    return week_starts


def configured_budgets(homes: tuple[Home, ...], question: Question) -> BudgetReport:
    """Return how much of every budget in config.toml is spent."""
    prices = configured_prices()
    budgets, problems = budgets_from(load_config(turnlog_home()).budgets)
    warn_of_settings(problems)
    with open_source(homes, prices) as source:
        return budget_report(budgets, source, prices, question, now=datetime.now(UTC))


class Pace(Struct, kw_only=True):
    """How fast money is spent now."""

    block: BlockRow | None
    """The active five-hour block."""
    budgets: list[BudgetRow]


def pace(source: UsageSource, prices: Prices, asked: Question, *, now: datetime) -> Pace:
    """Return the active block, and how much of every budget in config.toml is spent."""
    budgets, problems = budgets_from(load_config(turnlog_home()).budgets)
    warn_of_settings(problems)
    spent = budget_report(budgets, source, prices, asked, now=now)
    return Pace(block=active_block(source, prices, now=now)[0], budgets=spent.budgets)


def cost(
    source: UsageSource,
    prices: Prices,
    asked: Question,
    *,
    now: datetime,
    trend: bool | None = False,
) -> Ledger:
    """Return usage and cost; with *trend*, also the course of each row's cost.

    If *trend* is None, it is added where it is possible.
    """
    scan = usage_for(source, asked)
    report = ledger(scan, prices, asked)
    if trend:
        add_trends(report, scan, prices, asked, now=now)
    elif trend is None and not any(unit in TIMES for unit in asked.by):
        with suppress(UsageError):
            add_trends(report, scan, prices, asked, now=now)
    return report


def older_usage(source: UsageSource, asked: Question) -> tuple[datetime, datetime] | None:
    """Return when the usage before the period of *asked* began and ended; None if there is none."""
    before = structs.replace(asked.period, since=None, until=asked.period.since)
    found = source.sums(before).responses
    times = [each.at for each in found if each.at is not None and before.holds(each)]
    return (min(times), max(times)) if times else None


def compare_costs(
    source: UsageSource, prices: Prices, asked: Question, *, now: datetime
) -> CostComparison:
    """Compare the costs of a period with those of the previous one, row by row."""
    asked, before = with_previous_period(asked, now)
    books = [ledger(usage_for(source, each), prices, each) for each in (asked, before)]
    return compare(books[0], asked, books[1], before)


def explain_cost(source: UsageSource, prices: Prices, asked: Question, row: str) -> Explanation:
    """Return what one *row* of ``cost``, or its ``total``, consists of."""
    scan = usage_for(source, asked, is_added_up=False)
    return explain(scan, prices, asked, row)


def blocks(source: UsageSource, prices: Prices, asked: Question, *, now: datetime) -> BlockLedger:
    """Return the usage of each five-hour block, and the rate of the current one."""
    scan = responses_about(source, asked.period)
    return _blocks(scan, prices, now=now, period=asked.period, mode=asked.mode)
