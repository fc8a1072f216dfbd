"""Two periods side by side: what is asked for, and as long a time before it.

Between two midnights the calendar decides: whole months are compared with as many months, days with
as many days, however long the clocks made them. Any other period is compared with the same span of
time. Rows are matched by their names; times by their position: the third day with the third day.
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
    UnpricedRow,
)
from turnlog.errors import UsageError
from turnlog.pricing.money import total_usd
from turnlog.records.dates import TIMES, LocalTimes

Key = tuple[str | int | None, ...]


class Span(Struct, kw_only=True):
    """A stretch of time, half-open."""

    since_at: datetime
    until_at: datetime


class UsageChange(Struct, kw_only=True):
    """What was used now and before."""

    messages: int
    before_messages: int
    cost_usd: str
    before_usd: str
    difference_usd: str
    percent: float | None
    """By how much it changed; null if there was no cost before."""


class ComparedRow(UsageChange, kw_only=True):
    """One group in both periods. Only what it is grouped by is there."""

    hour: str | UnsetType | None = UNSET
    day: str | UnsetType | None = UNSET
    week: str | UnsetType | None = UNSET
    month: str | UnsetType | None = UNSET
    """A time is null if the period is shorter than the one before, and has none at that place."""
    compared_with: str | UnsetType | None = UNSET
    """The time at the same place of the period before; null if that is shorter."""
    session: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    subagent: str | UnsetType | None = UNSET
    branch: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET


class CostComparison(Struct, kw_only=True):
    """What `turnlog cost --compare --json` prints."""

    period: Span
    before: Span
    rows: list[ComparedRow]
    totals: UsageChange
    skipped: SkippedDocument


def with_the_one_before(asked: Question, now: datetime) -> tuple[Question, Question]:
    """Give *asked* with both ends of its period, and the same question about the time before it."""
    period = asked.period
    if period.since is None:
        raise UsageError(
            "without a beginning there is nothing before it",
            hint="say a period: since and until, such as 2026-10-01 and 2026-11-01",
            code="period-without-start",
        )
    if sum(unit in TIMES for unit in asked.by) > 1:
        raise UsageError(
            "two periods are compared by one unit of time",
            hint="group by one of them",
            code="several-time-units",
        )
    since, until = period.since, now if period.until is None else period.until
    check_period(since, until)
    try:
        earlier = _earlier(since, until, asked.zone)
    except (OverflowError, ValueError):
        raise UsageError(
            "there is not that much time before the period", hint="say a shorter one"
        ) from None
    whole = structs.replace(period, until=until)
    before = structs.replace(period, since=earlier, until=since)
    return structs.replace(asked, period=whole), structs.replace(asked, period=before)


def compare(now: Ledger, asked: Question, before: Ledger, asked_before: Question) -> CostComparison:
    """Put the ledgers of two periods side by side."""
    time = next((unit for unit in asked.by if unit in TIMES), None)
    times = [_names(each, time) if time else [] for each in (asked, asked_before)]
    rows_now = {_key(row, asked.by, times[0]): row for row in now.rows}
    rows_before = {_key(row, asked.by, times[1]): row for row in before.rows}
    found = [
        (key, _row(key, asked.by, rows_now.get(key), rows_before.get(key), times))
        for key in {**rows_now, **rows_before}
    ]
    found.sort(key=lambda each: _order(*each))
    return CostComparison(
        period=_span(asked.period),
        before=_span(asked_before.period),
        rows=[row for _, row in found],
        totals=_change(now.totals, before.totals),
        skipped=structs.replace(
            now.skipped, unpriced=added_up([*now.skipped.unpriced, *before.skipped.unpriced])
        ),
    )


def compared_as_lists(found: CostComparison, by: Sequence[Unit]) -> list[list[str]]:
    """Return the rows as plain text, heads first, for CSV and Markdown; exact, not rounded."""
    names: list[str] = list(by)
    if any(unit in TIMES for unit in by):
        names.append("compared_with")
    figures = structs.fields(UsageChange)
    rows = [[*names, *(field.name for field in figures)]]
    total = ["total", *[""] * (len(names) - 1)]
    for row in (*found.rows, found.totals):
        named = [getattr(row, name) or "" for name in names] if row is not found.totals else total
        values = (getattr(row, field.name) for field in figures)
        rows.append([*named, *("" if value is None else str(value) for value in values)])
    return rows


def added_up(rows: Sequence[UnpricedRow]) -> list[UnpricedRow]:
    """Return one row for each model and reason."""
    found: dict[tuple[str, str], UnpricedRow] = {}
    for row in rows:
        empty = structs.replace(row, messages=0, tokens=0)
        kept = found.setdefault((row.model, row.reason), empty)
        kept.messages += row.messages
        kept.tokens += row.tokens
    return list(found.values())


def _earlier(since: datetime, until: datetime, zone: tzinfo) -> datetime:
    """Return when the period before the given one began."""
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


def _names(asked: Question, time: str) -> list[str]:
    period = asked.period
    assert period.since is not None
    assert period.until is not None
    local = LocalTimes(asked.zone, asked.week_starts)
    return local.names_between(time, period.since, period.until)


def _key(row: LedgerRow, by: Sequence[Unit], times: Sequence[str]) -> Key:
    """Return what a row is known by in both periods: a time by its place, others by their names."""
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
    """In the order of time; within it the dearest first, and names settle a tie."""
    times = [each for each in key if isinstance(each, int)]
    names = [each for each in key if isinstance(each, str)]
    return times, -Decimal(row.cost_usd), -Decimal(row.before_usd), names


def _span(period: Period) -> Span:
    assert period.since is not None
    assert period.until is not None
    return Span(since_at=period.since, until_at=period.until)
