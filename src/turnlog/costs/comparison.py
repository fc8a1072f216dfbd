"""Compare the costs of a period with those of the period before it.

A period of whole calendar months is compared with as many months, one of whole days with as many
days, whatever the clock changes; any other period with the same span of time. Rows are matched by
name, times by position: the third day with the third day.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType, structs

from turnlog.catalog.period import Period, check_period
from turnlog.costs.ledger import (
    Figures,
    Ledger,
    LedgerRow,
    Question,
    SkippedDocument,
    Unit,
    sum_unpriced,
)
from turnlog.errors import UsageError
from turnlog.pricing.money import total_usd
from turnlog.records.dates import TIMES, LocalTimes

Key = tuple[str | int | None, ...]


class Span(Struct, kw_only=True):
    """A half-open range of time."""

    since_at: datetime
    until_at: datetime


class UsageChange(Struct, kw_only=True):
    """Usage and cost now and before."""

    messages: int
    before_messages: int
    cost_usd: str
    before_usd: str
    difference_usd: str
    percent: float | None
    """The change of the cost; null if there was none before."""


class ComparedRow(UsageChange, kw_only=True):
    """One group in both periods. Only the units of the grouping are present."""

    hour: str | UnsetType | None = UNSET
    day: str | UnsetType | None = UNSET
    week: str | UnsetType | None = UNSET
    month: str | UnsetType | None = UNSET
    """A time is null if the period is shorter than the one before it."""
    compared_with: str | UnsetType | None = UNSET
    """The time at the same position in the period before; null if that is shorter."""
    session: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    subagent: str | UnsetType | None = UNSET
    branch: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET
    tag: str | UnsetType | None = UNSET


class CostComparison(Struct, kw_only=True):
    """The result of `turnlog cost --compare --json`."""

    period: Span
    before: Span
    rows: list[ComparedRow]
    totals: UsageChange
    skipped: SkippedDocument


def with_previous_period(question: Question, now: datetime) -> tuple[Question, Question]:
    """Return *question* with both ends of its period, and the same for the period before."""
    period = question.period
    if period.since is None:
        raise UsageError(
            "a comparison needs the start of a period",
            hint="set since and until, such as 2026-10-01 and 2026-11-01",
            code="period-without-start",
        )
    if sum(unit in TIMES for unit in question.by) > 1:
        raise UsageError(
            "cannot compare periods by several units of time",
            hint="group by one unit of time",
            code="several-time-units",
        )
    since, until = period.since, now if period.until is None else period.until
    check_period(since, until)
    try:
        earlier = _earlier(since, until, question.zone)
    except (OverflowError, ValueError):
        raise UsageError(
            "the period before would start before the year 1", hint="use a shorter period"
        ) from None
    whole = structs.replace(period, until=until)
    before = structs.replace(period, since=earlier, until=since)
    return structs.replace(question, period=whole), structs.replace(question, period=before)


def compare(now: Ledger, question: Question, before: Ledger, earlier: Question) -> CostComparison:
    """Compare the ledgers of two periods, row by row."""
    by = question.by
    unit = next((unit for unit in by if unit in TIMES), None)
    spans = [_span(question.period), _span(earlier.period)]
    local = LocalTimes(question.zone, question.week_starts)
    times = [
        local.names_between(unit, span.since_at, span.until_at) if unit else [] for span in spans
    ]
    rows_now = {_key(row, by, times[0]): row for row in now.rows}
    rows_before = {_key(row, by, times[1]): row for row in before.rows}
    rows = {
        key: _row(key, by, rows_now.get(key), rows_before.get(key), times)
        for key in {**rows_now, **rows_before}
    }
    return CostComparison(
        period=spans[0],
        before=spans[1],
        rows=[row for _, row in sorted(rows.items(), key=lambda item: _order(*item))],
        totals=_change(now.totals, before.totals),
        skipped=structs.replace(
            now.skipped, unpriced=sum_unpriced([*now.skipped.unpriced, *before.skipped.unpriced])
        ),
    )


def compared_as_lists(comparison: CostComparison, by: Sequence[Unit]) -> list[list[str]]:
    """Return the header and the rows as text for CSV and Markdown; exact, not rounded."""
    names: list[str] = list(by)
    if any(unit in TIMES for unit in by):
        names.append("compared_with")
    figures = structs.fields(UsageChange)
    rows = [[*names, *(field.name for field in figures)]]
    total = ["total", *[""] * (len(names) - 1)]
    for row in (*comparison.rows, comparison.totals):
        is_row = isinstance(row, ComparedRow)
        named = [getattr(row, name) or "" for name in names] if is_row else total
        values = (getattr(row, field.name) for field in figures)
        rows.append([*named, *("" if value is None else str(value) for value in values)])
    return rows


def _earlier(since: datetime, until: datetime, zone: tzinfo) -> datetime:
    """Return the start of the period before the given one."""
    local = LocalTimes(zone)
    if any(local.begin("day", at)[0] != at for at in (since, until)):
        return since - (until - since)
    first, last = (at.astimezone(zone).date() for at in (since, until))
    if first.day == last.day == 1:
        months = (last.year - first.year) * 12 + last.month - first.month
        year, month = divmod(first.year * 12 + first.month - 1 - months, 12)
        day = date(year, month + 1, 1)
    else:
        day = first - (last - first)
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(since.tzinfo)


def _key(row: LedgerRow, by: Sequence[Unit], times: Sequence[str]) -> Key:
    """Return what identifies a row in both periods: the position of a time, other names."""
    names = [getattr(row, unit) for unit in by]
    return tuple(
        bisect_right(times, name) - 1 if unit in TIMES else name
        for unit, name in zip(by, names, strict=True)
    )


def _row(
    key: Key,
    by: Sequence[Unit],
    now: Figures | None,
    before: Figures | None,
    times: Sequence[Sequence[str]],
) -> ComparedRow:
    row = ComparedRow(**structs.asdict(_change(now, before)))
    for unit, name in zip(by, key, strict=True):
        if isinstance(name, int):
            here, there = (names[name] if name < len(names) else None for names in times)
            setattr(row, unit, here)
            row.compared_with = there
        else:
            setattr(row, unit, name)
    return row


def _change(now: Figures | None, before: Figures | None) -> UsageChange:
    cost = Decimal(now.cost_usd) if now else Decimal(0)
    was = Decimal(before.cost_usd) if before else Decimal(0)
    difference = total_usd((cost, -was))
    return UsageChange(
        messages=now.messages if now else 0,
        before_messages=before.messages if before else 0,
        cost_usd=f"{cost:f}",
        before_usd=f"{was:f}",
        difference_usd=f"{difference:f}",
        percent=round(float(difference / was * 100), 1) if was else None,
    )


def _order(key: Key, row: ComparedRow) -> tuple[list[int], Decimal, Decimal, list[str]]:
    """Sort by time, then the most expensive first, then by name."""
    times = [part for part in key if isinstance(part, int)]
    names = [part for part in key if isinstance(part, str)]
    return times, -Decimal(row.cost_usd), -Decimal(row.before_usd), names


def _span(period: Period) -> Span:
    assert period.since is not None
    assert period.until is not None
    return Span(since_at=period.since, until_at=period.until)
