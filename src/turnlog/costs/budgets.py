"""Budgets: how much of each is spent, and where the current pace leads.

    [budgets]                            # dollars
    daily = 20
    weekly = 100
    monthly = 300
    block = 10                           # the active five-hour block
    warn_at = 0.8                        # warn when this share of a budget is spent

    [budgets.projects."~/src/orchard"]   # sessions started there or below
    monthly = 50

Days, weeks and months are the current ones, in the time zone of the report. A budget is exceeded
when more than its limit is spent. There is no projection during the first fiftieth of a period,
when it would depend on a single response. Invalid settings are reported and ignored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, Literal

from msgspec import Struct, field

from turnlog.catalog.period import Period
from turnlog.config import SettingProblem
from turnlog.costs.blocks import active_block
from turnlog.costs.ledger import Question, SkippedDocument, UnpricedRow, ledger, usage_for
from turnlog.costs.usage import UsageSource
from turnlog.pricing.cost import Prices
from turnlog.records.dates import LocalTimes

BudgetName = Literal["daily", "weekly", "monthly", "block"]
BudgetState = Literal["ok", "near", "exceeded"]

_UNITS: Final[dict[BudgetName, str]] = {"daily": "day", "weekly": "week", "monthly": "month"}
_WARN_AT: Final = Decimal("0.8")
_LARGEST: Final = Decimal(10**9)
_DIGITS: Final = 6
_TOO_EARLY: Final = 50
_CENT: Final = Decimal("0.01")
_MICROSECOND: Final = timedelta(microseconds=1)
_SHOWN: Final = 40


class Budget(Struct, frozen=True, kw_only=True):
    """A limit for each period, in one project or in all."""

    name: BudgetName
    limit_usd: Decimal
    project: str | None = None


class Budgets(Struct, frozen=True, kw_only=True):
    """All configured budgets."""

    budgets: tuple[Budget, ...] = ()
    warn_at: Decimal = _WARN_AT


class BudgetRow(Struct, kw_only=True):
    """One budget and its use."""

    budget: BudgetName
    project: str | None
    start_at: datetime | None
    """The start of its period; null if no block is active."""
    end_at: datetime | None
    used_usd: str
    limit_usd: str
    percent: float | None
    """Null if the limit is 0."""
    state: BudgetState
    projected_usd: str | None
    """The cost at the end of the period at this pace, in cents; null if it is too early."""


class BudgetReport(Struct, kw_only=True):
    """The result of `turnlog cost budgets --json`."""

    budgets: list[BudgetRow] = field(default_factory=list)
    skipped: SkippedDocument = field(default_factory=SkippedDocument)


class _InvalidBudget(Exception):
    """An invalid setting; reported as a SettingProblem."""


def budgets_from(settings: Mapping[str, Any]) -> tuple[Budgets, tuple[SettingProblem, ...]]:
    """Parse the ``[budgets]`` table of config.toml; return it with its problems."""
    budgets: list[Budget] = []
    problems: list[SettingProblem] = []
    warn_at = _WARN_AT
    for where, name, value, project in _settings(settings):
        try:
            if name == "warn_at" and project is None:
                warn_at = _share(value)
            elif name == "block" and project is None:
                budgets.append(Budget(name="block", limit_usd=_limit(value)))
            else:
                budgets.append(_budget(name, value, project))
        except _InvalidBudget as error:
            problems.append(SettingProblem(where, str(error)))
    return Budgets(budgets=tuple(budgets), warn_at=warn_at), tuple(problems)


def budget_report(
    budgets: Budgets, source: UsageSource, prices: Prices, question: Question, *, now: datetime
) -> BudgetReport:
    """Return the use of every budget, with the time zone, weeks and mode of *question*."""
    report = BudgetReport()
    skipped: list[SkippedDocument] = []
    local = LocalTimes(question.zone, question.week_starts)
    for budget in budgets.budgets:
        if budget.name == "block":
            block, missing = active_block(source, prices, now=now, mode=question.mode)
            row = _row(budget, Decimal(block.cost_usd if block else 0), budgets.warn_at)
            if block is not None:
                row.start_at, row.end_at = block.start_at, block.end_at
                row.projected_usd = block.projected_usd
        else:
            since, until = local.begin(_UNITS[budget.name], now)
            period = Period(since=since, until=until, project=budget.project)
            spent = Question(by=("model",), zone=question.zone, period=period, mode=question.mode)
            costs = ledger(usage_for(source, spent), prices, spent)
            missing = costs.skipped
            used = Decimal(costs.totals.cost_usd)
            row = _row(budget, used, budgets.warn_at)
            row.start_at, row.end_at = since, until
            row.projected_usd = _projected(used, since, until, now)
        report.budgets.append(row)
        skipped.append(missing)
    if skipped:
        report.skipped = skipped[0]
        report.skipped.unpriced = _largest(row for each in skipped for row in each.unpriced)
    return report


def _row(budget: Budget, used: Decimal, warn_at: Decimal) -> BudgetRow:
    limit = budget.limit_usd
    state: BudgetState = "ok"
    if used > limit:
        state = "exceeded"
    elif limit and used >= limit * warn_at:
        state = "near"
    return BudgetRow(
        budget=budget.name,
        project=budget.project,
        start_at=None,
        end_at=None,
        used_usd=f"{used:f}",
        limit_usd=f"{limit:f}",
        percent=round(float(used / limit * 100), 1) if limit else None,
        state=state,
        projected_usd=None,
    )


def _projected(used: Decimal, since: datetime, until: datetime, now: datetime) -> str | None:
    passed, length = now - since, until - since
    if passed * _TOO_EARLY < length:
        return None
    projected = used * Decimal(length // _MICROSECOND) / Decimal(passed // _MICROSECOND)
    return f"{projected.quantize(_CENT, ROUND_HALF_UP):f}"


def _largest(rows: Iterable[UnpricedRow]) -> list[UnpricedRow]:
    """Return the largest row of each model: the month's usage includes the day's."""
    largest: dict[tuple[str, str], UnpricedRow] = {}
    for row in rows:
        known = largest.setdefault((row.model, row.reason), row)
        if row.tokens > known.tokens:
            largest[row.model, row.reason] = row
    return list(largest.values())


# -- settings -------------------------------------------------------------------------------


def _settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str | None]]:
    """Yield every setting: its full name, its name, its value and its project."""
    for name, value in settings.items():
        if name != "projects" or not isinstance(value, Mapping):
            yield f"budgets.{name}", name, value, None
            continue
        for project, table in value.items():
            where = f"budgets.projects.{project}"
            if not isinstance(table, Mapping):
                yield where, "", table, project
                continue
            for budget, amount in table.items():
                yield f"{where}.{budget}", budget, amount, project


def _budget(name: str, value: Any, project: str | None) -> Budget:
    if name in {"", "projects"}:
        raise _InvalidBudget(f"expected a table of budgets, not {_short(value)}")
    known = next((budget for budget in _UNITS if budget == name), None)
    if known is None:
        others = "" if project else ", block, warn_at"
        raise _InvalidBudget(f"unknown budget; use {', '.join(_UNITS)}{others}")
    limit = _limit(value)
    if project is not None:
        project = os.path.expanduser(project)
        if not os.path.isabs(project):
            raise _InvalidBudget("a project must be an absolute path")
        project = os.path.normpath(project)
    return Budget(name=known, limit_usd=limit, project=project)


def _limit(value: Any) -> Decimal:
    amount = _number(value)
    if amount is None or not 0 <= amount <= _LARGEST:
        raise _InvalidBudget(f"{_short(value)} is not an amount in dollars")
    if amount != round(amount, _DIGITS):
        raise _InvalidBudget(f"{_short(value)} has more than {_DIGITS} decimals")
    return abs(amount)  # -0 is 0.


def _share(value: Any) -> Decimal:
    share = _number(value)
    if share is None or not 0 < share <= 1:
        raise _InvalidBudget(f"{_short(value)} is not a share of a budget, such as {_WARN_AT}")
    return share


def _number(value: Any) -> Decimal | None:
    """Return the number exactly as it was typed, or None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers with thousands of digits.
        return "that number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
