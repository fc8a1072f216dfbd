"""Budgets: how much of what was meant to be spent is spent, and where this pace leads.

    [budgets]                            # dollars
    daily = 20
    weekly = 100
    monthly = 300
    block = 10                           # the five-hour block that lasts now
    warn_at = 0.8                        # the part of a budget from which on it is told

    [budgets.projects."~/src/orchard"]   # sessions that began there or below
    monthly = 50

A day, a week and a month are those of now, in the time zone and with the first day of the week that
a report has. A budget is exceeded when more than it was spent. Pace is reckoned once a fiftieth of
the period has passed: before that a single response would seem to ruin its owner. What is broken is
reported and changes nothing.
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
from turnlog.costs.blocks import BlockRow, active_block
from turnlog.costs.ledger import Question, SkippedDocument, UnpricedRow, ledger
from turnlog.costs.source import UsageSource
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
    """What may be spent in each period; in one project, if it names one."""

    name: BudgetName
    limit_usd: Decimal
    project: str | None = None


class Budgets(Struct, frozen=True, kw_only=True):
    """Every budget that is set."""

    budgets: tuple[Budget, ...] = ()
    warn_at: Decimal = _WARN_AT


class BudgetRow(Struct, kw_only=True):
    """One budget, and what is spent of it."""

    budget: BudgetName
    project: str | None
    start_at: datetime | None
    """When its period began; null if no block lasts now."""
    end_at: datetime | None
    used_usd: str
    limit_usd: str
    percent: float | None
    """Null if the limit is nothing."""
    state: BudgetState
    projected_usd: str | None
    """What it will be at its end if it goes on like this, to the cent; null if it is too early."""


class BudgetReport(Struct, kw_only=True):
    """What `turnlog cost budgets --json` prints."""

    budgets: list[BudgetRow] = field(default_factory=list)
    skipped: SkippedDocument = field(default_factory=SkippedDocument)


class _InvalidBudget(Exception):
    """It never leaves this module, which turns it into a problem."""


def budgets_from(settings: Mapping[str, Any]) -> tuple[Budgets, tuple[SettingProblem, ...]]:
    """Read the plain ``[budgets]`` table of a parsed config.toml."""
    found: list[Budget] = []
    problems: list[SettingProblem] = []
    warn_at = _WARN_AT
    for where, name, value, project in _settings(settings):
        try:
            if name == "warn_at" and project is None:
                warn_at = _part(value)
            elif name == "block" and project is None:
                found.append(Budget(name="block", limit_usd=_limit(value)))
            else:
                found.append(_budget(name, value, project))
        except _InvalidBudget as error:
            problems.append(SettingProblem(where, str(error)))
    return Budgets(budgets=tuple(found), warn_at=warn_at), tuple(problems)


def budget_report(
    budgets: Budgets, source: UsageSource, prices: Prices, asked: Question, *, now: datetime
) -> BudgetReport:
    """Say what is spent of every budget, in the zone, the weeks and the mode of *asked*."""
    report = BudgetReport()
    skipped: list[SkippedDocument] = []
    for budget in budgets.budgets:
        if budget.name == "block":
            block, left_out = active_block(source, prices, now=now, mode=asked.mode)
            row = _row_of_block(budget, block, budgets.warn_at)
        else:
            local = LocalTimes(asked.zone, asked.week_starts)
            since, until = local.begin(_UNITS[budget.name], now)
            period = Period(since=since, until=until, project=budget.project)
            scan = source.sums(period) if asked.mode == "calculate" else source.responses(period)
            question = Question(by=("model",), zone=asked.zone, period=period, mode=asked.mode)
            book = ledger(scan, prices, question)
            left_out = book.skipped
            used = Decimal(book.totals.cost_usd)
            row = _row(budget, used, budgets.warn_at)
            row.start_at, row.end_at = since, until
            row.projected_usd = _projected(used, since, until, now)
        report.budgets.append(row)
        skipped.append(left_out)
    if skipped:
        report.skipped = skipped[0]
        report.skipped.unpriced = _largest(row for each in skipped for row in each.unpriced)
    return report


def _row_of_block(budget: Budget, block: BlockRow | None, warn_at: Decimal) -> BudgetRow:
    row = _row(budget, Decimal(block.cost_usd) if block else Decimal(0), warn_at)
    if block is not None:
        row.start_at, row.end_at = block.start_at, block.end_at
        row.projected_usd = block.projected_usd
    return row


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
    ahead = used * Decimal(length // _MICROSECOND) / Decimal(passed // _MICROSECOND)
    return f"{ahead.quantize(_CENT, ROUND_HALF_UP):f}"


def _largest(rows: Iterable[UnpricedRow]) -> list[UnpricedRow]:
    """Return one row for each model: a month holds what a day of it holds."""
    found: dict[tuple[str, str], UnpricedRow] = {}
    for row in rows:
        kept = found.setdefault((row.model, row.reason), row)
        if row.tokens > kept.tokens:
            found[row.model, row.reason] = row
    return list(found.values())


# -- what config.toml says ------------------------------------------------------------------


def _settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str | None]]:
    """Return every setting: where it stands, its name, its value, and whose project it is for."""
    for name, value in settings.items():
        if name != "projects" or not isinstance(value, Mapping):
            yield f"budgets.{name}", name, value, None
            continue
        for project, table in value.items():
            where = f"budgets.projects.{project}"
            if not isinstance(table, Mapping):
                yield where, "", table, project
                continue
            for each, amount in table.items():
                yield f"{where}.{each}", each, amount, project


def _budget(name: str, value: Any, project: str | None) -> Budget:
    if name in {"", "projects"}:
        raise _InvalidBudget(f"a table of budgets is expected, not {_said(value)}")
    for known in _UNITS:
        if known == name:
            return Budget(name=known, limit_usd=_limit(value), project=_place(project))
    others = "" if project else ", block, warn_at"
    raise _InvalidBudget(f"no such budget; there are {', '.join(_UNITS)}{others}")


def _place(project: str | None) -> str | None:
    if project is None:
        return None
    path = os.path.expanduser(project)
    if not os.path.isabs(path):
        raise _InvalidBudget("a project is named by its whole path")
    return os.path.normpath(path)


def _limit(value: Any) -> Decimal:
    amount = _number(value)
    if amount is None or not 0 <= amount <= _LARGEST:
        raise _InvalidBudget(f"{_said(value)} is not an amount in dollars")
    if amount != round(amount, _DIGITS):
        raise _InvalidBudget(f"{_said(value)} has more than {_DIGITS} decimals")
    return abs(amount)  # Minus nothing is nothing.


def _part(value: Any) -> Decimal:
    part = _number(value)
    if part is None or not 0 < part <= 1:
        raise _InvalidBudget(f"{_said(value)} is not a part of a budget, such as {_WARN_AT}")
    return part


def _number(value: Any) -> Decimal | None:
    """Read a number as it was typed; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _said(value: Any) -> str:
    """Return *value* in few characters."""
    try:
        said = repr(value)
    except ValueError:  # Python writes no number of five thousand digits.
        return "that number"
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
