"""One cost report from several sides, from a single reading: over time, by group, and by session.

All parts are ledgers of the same responses, so each of them adds up to the same total.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal

from msgspec import Struct, structs

from turnlog.catalog.names import no_such_model, projects_named
from turnlog.catalog.period import Period, check_period
from turnlog.catalog.tags import tags_by_session
from turnlog.costs.comparison import CostComparison, compare, with_previous_period
from turnlog.costs.ledger import (
    Figures,
    Ledger,
    LedgerRow,
    Question,
    RowFilter,
    SkippedDocument,
    Unit,
    groups_of,
    ledger,
    span_of_usage,
    usage_for,
)
from turnlog.costs.usage import UsageScan, UsageSource
from turnlog.errors import UsageError
from turnlog.formats.projects import is_within
from turnlog.index.connection import Index
from turnlog.pricing.cost import Prices
from turnlog.records.dates import LocalTimes
from turnlog.records.responses import model_name_of

TimeUnit = Literal["hour", "day", "week", "month"]
MOST_STEPS: Final = 1_100
"""Of a longer time, only the last steps are listed: three years of days."""
NAMELESS: Final = "-"
"""How a filter writes the row that has no name."""
EMPTY: Final = '""'
"""How a filter writes the row whose name is empty: some logs have an empty branch."""
MAIN: Final = "main"
SUBAGENTS: Final = "subagents"
_DAYS: Final[dict[TimeUnit, int]] = {"hour": 2, "day": 100, "week": 800}
"""The longest period that is shown by hour, by day or by week unless a unit is chosen."""
_LENGTHS: Final[dict[TimeUnit, timedelta]] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}


class TimeStep(Struct, kw_only=True, frozen=True):
    """An hour, a day, a week or a month; only the part of it that is within the period."""

    name: str
    since_at: datetime
    until_at: datetime


class CostBreakdown(Struct, kw_only=True):
    """The costs of a period by time and group, by group, by cells, and by session."""

    unit: TimeUnit
    group: Unit
    totals: Figures
    steps: list[TimeStep]
    """At most MOST_STEPS, the last ones."""
    rows: list[LedgerRow]
    """By time and group."""
    groups: list[LedgerRow]
    """By group, the most expensive first."""
    cells: list[LedgerRow]
    """By project and by model or session."""
    sessions: list[LedgerRow]
    comparison: CostComparison | None
    """By group, with the period before; null if the period has no start."""
    skipped: SkippedDocument


class UsageNames(Struct, kw_only=True):
    """The names that filters of costs can have."""

    projects: list[str]
    models: list[str]
    branches: list[str]
    tags: list[str]


def breakdown(
    source: UsageSource,
    prices: Prices,
    asked: Question,
    *,
    unit: TimeUnit | None,
    group: Unit,
    inner: Unit,
    now: datetime,
) -> CostBreakdown:
    """Return the costs that *asked* is about, by *unit* and *group*.

    Without a *unit*, it depends on the length of the period. The cells are projects by *inner*.
    """
    check_period(asked.period.since, asked.period.until)
    by_group = structs.replace(asked, by=(group,))
    scan = usage_for(source, structs.replace(asked, by=(group, inner)))
    scan.responses = groups_of(scan, structs.replace(asked, by=())).get((), [])
    since, until = span_of_usage(scan, asked.period, now)
    step = unit or _fitting(until - since)

    def book(*by: Unit) -> Ledger:
        # The responses are filtered already.
        return ledger(scan, prices, structs.replace(asked, by=by, period=Period(), only=()))

    groups = book(group)
    return CostBreakdown(
        unit=step,
        group=group,
        totals=groups.totals,
        steps=_steps(step, since, until, asked),
        rows=book(step, group).rows,
        groups=groups.rows,
        cells=book("project", inner).rows,
        sessions=book("session").rows,
        comparison=_compared(source, scan, prices, by_group, now),
        skipped=groups.skipped,
    )


def usage_names(index: Index) -> UsageNames:
    """Return the projects and models with usage, and the branches and tags of sessions."""
    db = index.db
    used = "SELECT name FROM names WHERE id IN (SELECT DISTINCT project FROM usage_sums)"
    models = db.execute(
        "SELECT DISTINCT m.name, s.name FROM usage_sums LEFT JOIN names AS m ON m.id = model"
        " LEFT JOIN names AS s ON s.id = speed"
    )
    branches = db.execute("SELECT DISTINCT git_branch FROM sessions WHERE git_branch IS NOT NULL")
    return UsageNames(
        projects=sorted(name for (name,) in db.execute(used)),
        models=sorted({model_name_of(model, speed) for model, speed in models}),
        branches=sorted(name for (name,) in branches),
        tags=sorted({tag for tags in tags_by_session(index).values() for tag in tags}),
    )


def filter_by_name(unit: Unit, text: str, names: UsageNames, *, is_exact: bool) -> RowFilter:
    """Return the filter for a typed name, or for NAMELESS or EMPTY.

    A model is its name or a part of names, and a project its path, that of a directory above it or
    its last part. With *is_exact*, projects inside a project do not count. The subagent may be
    MAIN, or SUBAGENTS for all others.
    """
    if text == NAMELESS or (unit == "subagent" and text == MAIN):
        return RowFilter(unit=unit, names=frozenset({None}))
    if unit == "subagent" and text == SUBAGENTS:
        return RowFilter(unit=unit, names=frozenset({None}), is_excluded=True)
    found = {"" if text == EMPTY else text}
    if unit == "model" and text not in names.models:
        found = {each for each in names.models if text.casefold() in each.casefold()}
        if not found:
            raise UsageError(f"no such model: {text!r}", hint=no_such_model(text, names.models))
    elif unit == "project":
        found = set(projects_named(text, names.projects))
        if not is_exact:
            found = {each for each in names.projects if any(is_within(each, up) for up in found)}
    return RowFilter(unit=unit, names=frozenset(found))


def _fitting(length: timedelta) -> TimeUnit:
    return next((unit for unit, days in _DAYS.items() if length <= timedelta(days=days)), "month")


def _steps(unit: TimeUnit, since: datetime, until: datetime, asked: Question) -> list[TimeStep]:
    local = LocalTimes(asked.zone, asked.week_starts)
    longest = _LENGTHS[unit] * MOST_STEPS
    first = max(since, until - longest) if until - since > longest else since
    steps = []
    for name in local.names_between(unit, first, until)[-MOST_STEPS:]:
        begin, end = step_bounds(unit, name, local, asked.zone)
        period = asked.period
        steps.append(
            TimeStep(
                name=name,
                since_at=max(begin, period.since) if period.since else begin,
                until_at=min(end, period.until) if period.until else end,
            )
        )
    return steps


def step_bounds(
    unit: TimeUnit, name: str, local: LocalTimes, zone: tzinfo
) -> tuple[datetime, datetime]:
    """Return when the hour, day, week or month called *name* begins and ends."""
    if unit != "hour":
        return local.begin(unit, local.midnight(name))
    hour = datetime.fromisoformat(name)
    begin, end = (at.replace(tzinfo=zone) for at in (hour, hour + timedelta(hours=1)))
    return begin.astimezone(UTC), end.astimezone(UTC)


def _compared(
    source: UsageSource, scan: UsageScan, prices: Prices, asked: Question, now: datetime
) -> CostComparison | None:
    try:
        asked, before = with_previous_period(asked, now)
    except UsageError:  # It has no start, or none before it.
        return None
    earlier = ledger(usage_for(source, before), prices, before)
    return compare(ledger(scan, prices, asked), asked, earlier, before)
