"""Cost reports: usage in groups, each priced exactly.

Every report is built here, so all totals agree. Responses are grouped by any combination of time,
session, project, model, subagent, branch, tools and tag. No figure is rounded, so the rows of any
grouping add up to the same total, except by tag: a session with several tags is in several rows,
and counts once in the total. A response without a known price is counted in its row, adds nothing
to the cost, and is listed under ``skipped`` with everything else that was not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeVar, get_args

from msgspec import UNSET, Struct, UnsetType, field, structs

from turnlog.catalog.period import Period
from turnlog.config import SettingProblem
from turnlog.costs.usage import TracedResponse, UsageScan, UsageSource
from turnlog.errors import UsageError
from turnlog.index.usage.entries import SkippedUsage
from turnlog.pricing.cost import Bill, Mode, Prices
from turnlog.pricing.money import Unpriced, total_usd
from turnlog.records.dates import TIMES, WEEKDAYS, LocalTimes, Weekday
from turnlog.records.responses import Response
from turnlog.records.usage import Counters

Unit = Literal[
    "hour",
    "day",
    "week",
    "month",
    "session",
    "project",
    "model",
    "agent",
    "subagent",
    "branch",
    "tool",
    "tag",
]
R = TypeVar("R")
F = TypeVar("F", bound="Figures")
_TOKENS: Final = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_COLUMNS: Final = ("messages", *_TOKENS)
TRACED: Final = ("branch", "tool", "tag")
"""Units that only the index knows."""
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
UNIT_NAMES: Final = {
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
}
"""Other names of units."""


class Figures(Struct, kw_only=True):
    """Usage and its cost."""

    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    cost_usd: str
    """Exact, an estimate at API prices."""
    cache_efficiency: float | None
    """The share of the tokens read that came from the cache; null if none were read."""


class LedgerRow(Figures, kw_only=True):
    """The figures of one group. Only the units of the grouping are present; null is unknown."""

    hour: str | UnsetType | None = UNSET
    day: str | UnsetType | None = UNSET
    week: str | UnsetType | None = UNSET
    month: str | UnsetType | None = UNSET
    session: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    agent: str | UnsetType | None = UNSET
    subagent: str | UnsetType | None = UNSET
    branch: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET
    """The tools that a response called, joined by ``+``; null if it called none."""
    tag: str | UnsetType | None = UNSET
    """A tag of the session; a session with several is in the rows of all of them."""
    trend: list[str] | UnsetType = UNSET
    """The cost in each of the ledger's steps, if requested."""


class UnpricedRow(Struct, kw_only=True):
    """The usage of a model without a known price."""

    model: str
    reason: str
    messages: int
    tokens: int


class SkippedDocument(Struct, kw_only=True):
    """What is missing from the figures, in all logs, whatever the period."""

    unpriced: list[UnpricedRow] = field(default_factory=list)
    """Only for the requested period."""
    repeats: int = 0
    """Records of a response that another record counts for."""
    synthetic: int = 0
    """Messages made up by agent programs."""
    pending: int = 0
    """Logs whose last line may be incomplete."""
    undated: int = 0
    """Responses without a date, which are in no period."""
    places: list[SkippedUsage] = field(default_factory=list)
    """Damaged, odd or unreadable places in logs."""


class Ledger(Struct, kw_only=True):
    """The result of `turnlog cost --json`."""

    rows: list[LedgerRow]
    totals: Figures
    skipped: SkippedDocument
    since_at: datetime | None = None
    until_at: datetime | None = None
    """The requested period (exclusive end); null if it is open."""
    steps: list[str] | UnsetType = UNSET
    """The hours, days or months of the rows' trends, if requested."""


class RowFilter(Struct, frozen=True, kw_only=True):
    """Keeps the responses that a report by *unit* has in the rows called *names*."""

    unit: Unit
    names: frozenset[str | None]
    is_excluded: bool = False
    """Keep the responses in all other rows instead."""


class Question(Struct, frozen=True, kw_only=True):
    """What to report: the grouping, the time zone of days, the responses, the kind of cost."""

    by: tuple[Unit, ...]
    zone: tzinfo
    week_starts: int = 0
    """0 is Monday."""
    period: Period = Period()
    mode: Mode = "calculate"
    only: tuple[RowFilter, ...] = ()

    @property
    def is_traced(self) -> bool:
        """Whether only the index can answer it."""
        return any(unit in TRACED for unit in (*self.by, *(each.unit for each in self.only)))


def units_named(by: str | Iterable[str]) -> tuple[Unit, ...]:
    """Return the units to group by, from names or from one comma-separated string."""
    names = (name.strip() for name in (by.split(",") if isinstance(by, str) else by))
    wanted = dict.fromkeys(UNIT_NAMES.get(name, name) for name in names if name)
    unknown = [name for name in wanted if name not in UNITS]
    if unknown or not wanted:
        what = repr(unknown[0]) if unknown else "nothing"
        raise UsageError(f"cannot group by {what}", hint=f"use {', '.join(UNITS)}")
    return tuple(unit for name in wanted for unit in UNITS if unit == name)


def week_starts_from(settings: Mapping[str, Any]) -> tuple[Weekday, tuple[SettingProblem, ...]]:
    """Return the first day of the week in the [cost] table of config.toml, and what is invalid."""
    start: Weekday = "monday"
    problems: list[SettingProblem] = []
    for name, value in settings.items():
        if name != "week_starts":
            problems.append(SettingProblem(f"cost.{name}", "no such setting"))
        elif value in WEEKDAYS:
            start = value
        else:
            problems.append(SettingProblem(f"cost.{name}", f"{value!r} is not a day of the week"))
    return start, tuple(problems)


def usage_for(source: UsageSource, question: Question, *, is_added_up: bool = True) -> UsageScan:
    """Return the usage that *question* is about, added up if that changes no figure."""
    if question.is_traced:
        scan = source.traced(question.period)
    elif question.mode != "calculate" or not is_added_up:
        scan = source.responses(question.period)
    else:
        scan = source.sums(question.period)
    if "agent" in (*question.by, *(each.unit for each in question.only)):
        scan.agents = source.agents()
    return scan


def ledger(scan: UsageScan, prices: Prices, question: Question) -> Ledger:
    """Return the report on *scan* that *question* asks for."""
    rows: list[LedgerRow] = []
    unpriced: list[Unpriced] = []
    for key, group in groups_of(scan, question).items():
        bill = prices.bill(group, mode=question.mode)
        unpriced += bill.unpriced
        rows.append(figures_of(bill, LedgerRow, **dict(zip(question.by, key, strict=True))))
    # By time, then the most expensive first, then by name.
    times = [unit for unit in question.by if unit in TIMES]
    rows.sort(key=lambda row: [getattr(row, unit) or "" for unit in question.by])
    rows.sort(key=lambda row: Decimal(row.cost_usd), reverse=True)
    rows.sort(key=lambda row: [getattr(row, unit) or "" for unit in times])
    totals, skipped = sum_of(rows), skipped_of(scan, unpriced)
    if "tag" in question.by:  # A session may be in several rows, but counts once.
        by = tuple(unit for unit in question.by if unit != "tag")
        once = ledger(scan, prices, structs.replace(question, by=by))
        totals, skipped = once.totals, once.skipped
    return Ledger(
        rows=rows,
        totals=totals,
        skipped=skipped,
        since_at=question.period.since,
        until_at=question.period.until,
    )


class ReportRows(Protocol[R]):
    """A report with rows."""

    rows: list[R]


def cut_rows(report: ReportRows[R], by: Sequence[Unit], limit: int) -> int:
    """Keep the latest or the most expensive rows; return how many only the totals contain."""
    left = max(0, len(report.rows) - limit) if limit else 0
    if left:
        report.rows = report.rows[left:] if by and by[0] in TIMES else report.rows[:limit]
    return left


def groups_of(scan: UsageScan, question: Question) -> dict[tuple[str | None, ...], list[Response]]:
    """Return the responses that *question* is about, by the names of their row."""
    local = LocalTimes(question.zone, question.week_starts)
    keys = [_key(unit, scan) for unit in question.by]
    groups: dict[tuple[str | None, ...], list[Response]] = {}
    responses = scan.responses
    if question.period != Period():
        responses = [response for response in responses if question.period.holds(response)]
    for each in question.only:
        responses = _filtered(responses, each, local, scan)
    for response in responses:
        key = tuple(name(response, local) for name in keys)
        if "tag" not in question.by:
            groups.setdefault(key, []).append(response)
            continue
        place = question.by.index("tag")
        for tag in scan.tags.get(response.session or "", (None,)):
            tagged = (*key[:place], tag, *key[place + 1 :])
            groups.setdefault(tagged, []).append(response)
    return groups


_Key = Callable[[Response, LocalTimes], str | None]


def _key(unit: Unit, scan: UsageScan) -> _Key:
    """Return the function that returns the name of a response's row."""
    if unit == "agent":
        return lambda each, _: scan.agents.get(each.session or "")
    return _KEYS[unit]


_KEYS: Final[dict[str, _Key]] = {
    "hour": lambda each, local: local.name("hour", each.at) if each.at else None,
    "day": lambda each, local: local.name("day", each.at) if each.at else None,
    "week": lambda each, local: local.name("week", each.at) if each.at else None,
    "month": lambda each, local: local.name("month", each.at) if each.at else None,
    "session": lambda each, _: each.session,
    "project": lambda each, _: each.project,
    "model": lambda each, _: each.model_name,
    "subagent": lambda each, _: each.subagent,
    "branch": lambda each, _: each.branch if isinstance(each, TracedResponse) else None,
    "tool": lambda each, _: each.tools if isinstance(each, TracedResponse) else None,
    "tag": lambda _each, _: None,  # A response may have several.
}


def _filtered(
    responses: Iterable[Response],
    only: RowFilter,
    local: LocalTimes,
    scan: UsageScan,
) -> list[Response]:
    name, tags = _key(only.unit, scan), scan.tags
    if only.unit != "tag":
        return [each for each in responses if (name(each, local) in only.names) != only.is_excluded]
    return [
        each
        for each in responses
        if only.names.isdisjoint(tags.get(each.session or "", (None,))) == only.is_excluded
    ]


def figures_of(bill: Bill, row_type: type[F], **more: Any) -> F:
    """Return a row of *row_type* with the figures of *bill* and the fields in *more*."""
    used = bill.used
    context = used.context
    return row_type(
        messages=bill.messages,
        input=used.input,
        output=used.output,
        cache_write_5m=used.cache_write_5m,
        cache_write_1h=used.cache_write_1h,
        cache_read=used.cache_read,
        web_searches=used.web_searches,
        cost_usd=f"{bill.total_usd:f}",
        cache_efficiency=round(used.cache_read / context, 4) if context else None,
        **more,
    )


def sum_of(rows: Iterable[Figures]) -> Figures:
    """Return the exact sum of *rows*."""
    rows = list(rows)
    used = {name: sum(getattr(row, name) for row in rows) for name in (*_TOKENS, "web_searches")}
    bill = Bill(
        used=Counters(**used),
        messages=sum(row.messages for row in rows),
        total_usd=total_usd(Decimal(row.cost_usd) for row in rows),
    )
    return figures_of(bill, Figures)


def skipped_of(scan: UsageScan, unpriced: Iterable[Unpriced]) -> SkippedDocument:
    """Return what is missing from the figures of a report."""
    rows = [
        UnpricedRow(
            model=usage.model,
            reason=usage.reason,
            messages=usage.messages,
            tokens=usage.counters.total,
        )
        for usage in unpriced
    ]
    return SkippedDocument(
        unpriced=sum_unpriced(rows),
        repeats=max(0, scan.duplicates),
        synthetic=scan.synthetic,
        pending=scan.pending,
        undated=scan.undated,
        places=sorted(scan.skipped, key=attrgetter("path", "offset", "why", "detail")),
    )


def sum_unpriced(rows: Iterable[UnpricedRow]) -> list[UnpricedRow]:
    """Return one row for each model and reason."""
    sums: dict[tuple[str, str], UnpricedRow] = {}
    for row in rows:
        empty = structs.replace(row, messages=0, tokens=0)
        total = sums.setdefault((row.model, row.reason), empty)
        total.messages += row.messages
        total.tokens += row.tokens
    return list(sums.values())


def rows_as_lists(report: Ledger, by: Sequence[Unit]) -> Iterator[list[str]]:
    """Yield the header and the rows as text for CSV and Markdown; exact, not rounded."""
    yield [*by, *_COLUMNS, "cost_usd"]
    total = ["total", *[""] * (len(by) - 1)] if by else []
    for row in (*report.rows, report.totals):
        is_row = isinstance(row, LedgerRow)
        names = [getattr(row, unit) or "" for unit in by] if is_row else total
        yield [*names, *(str(getattr(row, name)) for name in _COLUMNS), row.cost_usd]


# -- the trend of each row ------------------------------------------------------------------

_BY_HOUR: Final = timedelta(days=2)
_BY_DAY: Final = timedelta(days=366)
_LONGEST_TREND: Final = timedelta(days=366 * 100)
_INSTANT: Final = timedelta(microseconds=1)


def add_trends(
    report: Ledger, scan: UsageScan, prices: Prices, question: Question, *, now: datetime
) -> None:
    """Add to each row its cost per hour, day or month, in the ledger of *scan*.

    A trend spans the period, or the time from the first response to the last. Its steps add up to
    the cost of the row, except for undated responses.
    """
    if any(unit in TIMES for unit in question.by):
        raise UsageError(
            "a report by time is a trend already", hint="group by project, model or session"
        )
    since, until = span_of_usage(scan, question.period, now)
    if until - since > _LONGEST_TREND:
        raise UsageError(
            f"{since:%Y-%m-%d} to {until:%Y-%m-%d} is too long for a trend",
            hint="use a shorter period",
            code="trend-too-long",
        )
    unit: Unit = "month"
    if until - since <= _BY_DAY:
        unit = "hour" if until - since <= _BY_HOUR else "day"
    costs: dict[tuple[str | None, ...], str] = {}
    for row in ledger(scan, prices, structs.replace(question, by=(*question.by, unit))).rows:
        costs[*(getattr(row, name) for name in question.by), getattr(row, unit)] = row.cost_usd
    steps = LocalTimes(question.zone, question.week_starts).names_between(unit, since, until)
    report.steps = steps
    for row in report.rows:
        key = [getattr(row, name) for name in question.by]
        row.trend = [costs.get((*key, step), "0") for step in steps]


def span_of_usage(scan: UsageScan, period: Period, now: datetime) -> tuple[datetime, datetime]:
    """Return the period, or the time from the first response to the last where it is open."""
    instants = (each.at for each in scan.responses if each.at is not None and period.holds(each))
    # Sums know only the quarter of an hour, and must give the same steps as single responses.
    times = [at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0) for at in instants]
    last = max(times, default=now) + _INSTANT
    since = period.since or min(times, default=now)
    until = max(last, now) if period.since else last  # No steps in the future.
    return since, until if period.until is None else min(period.until, max(last, now))
