"""How the cost of each row of a report went over its period: by the hour, the day or the month.

A trend is the same ledger, grouped by one unit more; so its steps add up to the row's cost, without
what has no date. It spans the period that is asked for, or from the first response to the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct, structs

from turnlog.costs.ledger import Ledger, LedgerRow, Question, Unit, ledger
from turnlog.costs.scanned_usage import UsageScan
from turnlog.errors import UsageError
from turnlog.pricing.cost import Prices
from turnlog.records.dates import TIMES, LocalTimes

Step = Literal["hour", "day", "month"]

_FEW: Final = timedelta(days=2)
_MANY: Final = timedelta(days=366)
_TOO_MANY: Final = timedelta(days=366 * 100)
_INSTANT: Final = timedelta(microseconds=1)
_NOTHING: Final = Decimal(0)


class Trends(Struct, frozen=True, kw_only=True):
    """What every row cost in each step."""

    by: tuple[Unit, ...]
    unit: Step
    steps: list[str]
    costs: dict[tuple[str | None, ...], dict[str, Decimal]]

    def of(self, row: LedgerRow) -> list[Decimal]:
        """Return what *row* cost, step by step."""
        known = self.costs.get(_key(row, self.by), {})
        return [known.get(step, _NOTHING) for step in self.steps]


def trends(scan: UsageScan, prices: Prices, asked: Question, *, now: datetime) -> Trends:
    """Account for what *scan* found, step by step; times and all of time have no trend."""
    if any(unit in TIMES for unit in asked.by):
        raise UsageError(
            "rows of times are a trend themselves", hint="ask for one by project, model or session"
        )
    since, until = _span(scan, asked, now)
    if until - since > _TOO_MANY:
        raise UsageError(
            f"{since:%Y-%m-%d} to {until:%Y-%m-%d} is too long for a trend",
            hint="say a shorter period",
            code="trend-too-long",
        )
    unit = _step(until - since)
    fine = ledger(scan, prices, structs.replace(asked, by=(*asked.by, unit)))
    costs: dict[tuple[str | None, ...], dict[str, Decimal]] = {}
    for row in fine.rows:
        step = getattr(row, unit)
        if step is not None:
            costs.setdefault(_key(row, asked.by), {})[step] = Decimal(row.cost_usd)
    steps = LocalTimes(asked.zone, asked.week_starts).names_between(unit, since, until)
    return Trends(by=asked.by, unit=unit, steps=steps, costs=costs)


def add_trends(found: Ledger, trends: Trends) -> None:
    """Write the trends into the rows of *found*."""
    found.steps = trends.steps
    for row in found.rows:
        row.trend = [f"{cost:f}" for cost in trends.of(row)]


def _span(scan: UsageScan, asked: Question, now: datetime) -> tuple[datetime, datetime]:
    period = asked.period
    held = (each.at for each in scan.responses if each.at is not None and period.holds(each))
    # By quarters of an hour: sums know no more, and must give the same steps as responses do.
    times = [at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0) for at in held]
    last = max(times, default=now) + _INSTANT
    since = period.since or min(times, default=now)
    # What is still to come is no part of a trend.
    until = max(last, now) if period.since else last
    return since, until if period.until is None else min(period.until, max(last, now))


def _step(length: timedelta) -> Step:
    if length <= _FEW:
        return "hour"
    return "day" if length <= _MANY else "month"


def _key(row: LedgerRow, by: Sequence[Unit]) -> tuple[str | None, ...]:
    return tuple(getattr(row, unit) for unit in by)
