"""When it happened: days, hours of the week, streaks, weeks.

All of it is the ledger, grouped by times: so the days add up to the total, but for what no record
dates. A day is active if a model answered on it. A streak is a run of active days; the current one
reaches the last day of the period, or the day before, which may not be over yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct

from turnlog.costs.ledger import Figures, Ledger, ledger, sum_of
from turnlog.costs.usage import UsageScan
from turnlog.insights.scope import Scope, figures_in
from turnlog.pricing.cost import Prices
from turnlog.pricing.money import total_usd
from turnlog.records.dates import LocalTimes

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS: Final = 24
_DAY: Final = timedelta(days=1)


class DayRow(Figures, kw_only=True):
    """What was used on a day, and how many prompts were typed."""

    day: str
    prompts: int


class WeekRow(Figures, kw_only=True):
    """What was used in a week, which is named by its Monday."""

    week: str
    prompts: int


class HeatMap(Struct, kw_only=True):
    """Messages and their cost by day of the week, Monday first, and hour of the day."""

    messages: list[list[int]]
    cost_usd: list[list[str]]


class Streaks(Struct, kw_only=True):
    """Runs of days on which a model answered, within the period."""

    active_days: int
    longest_days: int
    longest_from: str | None
    longest_to: str | None
    current_days: int


def hours_of(scan: UsageScan, prices: Prices, asked: Scope) -> Ledger:
    """Return the ledger by hours, which days, weeks and the hours of the week are added up from."""
    return ledger(scan, prices, asked.by("hour"))


def days_of(hours: Ledger, prompts: dict[str, int]) -> list[DayRow]:
    """Return the days on which something happened, in their order."""
    found = _grouped((str(row.hour)[:10], row) for row in hours.rows if row.hour)
    return [
        DayRow(**figures_in(found.get(day)), day=day, prompts=prompts.get(day, 0))
        for day in sorted({*found, *prompts})
    ]


def weeks_of(days: Iterable[DayRow]) -> list[WeekRow]:
    """Return the weeks in which something happened, in their order."""
    rows = [(monday_of(row.day), row) for row in days]
    typed: dict[str, int] = {}
    for week, row in rows:
        typed[week] = typed.get(week, 0) + row.prompts
    return [
        WeekRow(**figures_in(figures), week=week, prompts=typed[week])
        for week, figures in sorted(_grouped(rows).items())
    ]


def heat_of(hours: Ledger) -> HeatMap:
    """Return the hours of the week; the clock's, so that two hours of one name are one."""
    messages = [[0] * _HOURS for _ in WEEKDAYS]
    costs: list[list[list[Decimal]]] = [[[] for _ in range(_HOURS)] for _ in WEEKDAYS]
    for row in hours.rows:
        if row.hour:
            weekday, hour = hour_of_week(str(row.hour))
            messages[weekday][hour] += row.messages
            costs[weekday][hour].append(Decimal(row.cost_usd))
    return HeatMap(
        messages=messages,
        cost_usd=[[f"{total_usd(each):f}" for each in day] for day in costs],
    )


def streaks_of(days: Iterable[str], last: str) -> Streaks:
    """Find the runs of *days*; *last* is the period's last day."""
    active = sorted(set(days))
    runs: list[tuple[str, str, int]] = []
    for day in active:
        if runs and _next(runs[-1][1]) == day:
            runs[-1] = (runs[-1][0], day, runs[-1][2] + 1)
        else:
            runs.append((day, day, 1))
    # Of two that are as long, the later.
    best = max(runs, key=lambda run: (run[2], run[0]), default=None)
    is_current = bool(runs) and last in {runs[-1][1], _next(runs[-1][1])}
    return Streaks(
        active_days=len(active),
        longest_days=best[2] if best else 0,
        longest_from=best[0] if best else None,
        longest_to=best[1] if best else None,
        current_days=runs[-1][2] if is_current else 0,
    )


def last_day(asked: Scope) -> str:
    """Name the last day of the period that has come."""
    inside = asked.end
    if asked.until is not None and inside == asked.until:
        inside -= timedelta(microseconds=1)
    return LocalTimes(asked.zone).name("day", inside)


def hour_of_week(hour: str) -> tuple[int, int]:
    """Return the day of the week, Monday as 0, and the hour of a name such as 2026-07-22 14:00."""
    return date.fromisoformat(hour[:10]).weekday(), int(hour[11:13])


def monday_of(day: str) -> str:
    """Name the week that a day is in."""
    at = date.fromisoformat(day)
    try:
        return (at - _DAY * at.weekday()).isoformat()
    except OverflowError:  # The very first days there are.
        return day


def _grouped(rows: Iterable[tuple[str, Figures]]) -> dict[str, Figures]:
    groups: dict[str, list[Figures]] = {}
    for name, row in rows:
        groups.setdefault(name, []).append(row)
    return {name: sum_of(group) for name, group in groups.items()}


def _next(day: str) -> str:
    try:
        return (date.fromisoformat(day) + _DAY).isoformat()
    except OverflowError:
        return ""
