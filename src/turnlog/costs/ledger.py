"""What did it cost? One engine for every report, so that all totals agree by construction.

Responses, each counted once, are put into groups by any combination of time, session, project,
model, subagent, branch and tools, and each group is priced exactly: no figure is rounded here, so
the rows of any grouping add up to the same total. A response without a known price is in the counts
of its row and in no cost; it is listed under what was skipped, with everything else that was not
counted.

Days are those of the time zone that is asked for. Branches and tools are known of responses that
were traced, and of no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Final, Literal, Protocol, TypeVar, get_args

from msgspec import UNSET, Struct, UnsetType, field, structs

from turnlog.catalog.names import resolve_key, whole_name
from turnlog.catalog.period import Period
from turnlog.costs.indexed_usage import TracedResponse
from turnlog.costs.scanned_usage import UsageScan
from turnlog.errors import UsageError
from turnlog.index.usage.scan import SkippedUsage
from turnlog.pricing.cost import Bill, Mode, Prices
from turnlog.pricing.money import total_usd
from turnlog.pricing.rates import Unpriced
from turnlog.records.dates import TIMES, LocalTimes
from turnlog.records.responses import Response
from turnlog.records.usage import Counters

Unit = Literal[
    "hour", "day", "week", "month", "session", "project", "model", "subagent", "branch", "tool"
]
R = TypeVar("R")
_COLUMNS: Final = ("messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
_COUNTS: Final = (*_COLUMNS, "web_searches")
TRACED: Final = ("branch", "tool")
"""What only the index knows."""
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)
_OLD_UNITS: Final = {"agent": "subagent"}


class Figures(Struct, kw_only=True):
    """Counts and their cost."""

    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int
    cost_usd: str
    """Exact, an estimate at the API's prices."""
    cache_efficiency: float | None
    """Which part of what models read came from the cache; null if they read nothing."""


class LedgerRow(Figures, kw_only=True):
    """The figures of one group. Only what it is grouped by is there; null is not known."""

    hour: str | UnsetType | None = UNSET
    day: str | UnsetType | None = UNSET
    week: str | UnsetType | None = UNSET
    month: str | UnsetType | None = UNSET
    session: str | UnsetType | None = UNSET
    project: str | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    subagent: str | UnsetType | None = UNSET
    branch: str | UnsetType | None = UNSET
    tool: str | UnsetType | None = UNSET
    """The tools a response called, joined by ``+``; null if it called none."""
    trend: list[str] | UnsetType = UNSET
    """What it cost in each of the ledger's steps, if asked for."""


class UnpricedRow(Struct, kw_only=True):
    """What a model used that has no known price."""

    model: str
    reason: str
    messages: int
    tokens: int


class SkippedDocument(Struct, kw_only=True):
    """What is in no figure, or not as it was written: in all logs, whatever part was asked for."""

    unpriced: list[UnpricedRow] = field(default_factory=list)
    """Only of what was asked for."""
    repeats: int = 0
    """Records that told of a response which another record tells of."""
    synthetic: int = 0
    """Messages that agent programs made up themselves."""
    pending: int = 0
    """Logs whose last line may still be being written."""
    undated: int = 0
    """Responses that no record dates: they are in no period."""
    places: list[SkippedUsage] = field(default_factory=list)
    """Damaged, odd or unreadable places in logs."""


class Ledger(Struct, kw_only=True):
    """What `turnlog cost --json` prints."""

    rows: list[LedgerRow]
    totals: Figures
    skipped: SkippedDocument
    steps: list[str] | UnsetType = UNSET
    """The hours, days or months of the rows' trends, if asked for."""


class Question(Struct, frozen=True, kw_only=True):
    """What is asked: the groups, whose days, which responses, which costs."""

    by: tuple[Unit, ...]
    zone: tzinfo
    week_starts: int = 0
    """0 is Monday."""
    period: Period = Period()
    mode: Mode = "calculate"

    @property
    def is_traced(self) -> bool:
        """Whether it is about what only the index knows."""
        return any(unit in TRACED for unit in self.by)


def units_named(by: str | Iterable[str]) -> tuple[Unit, ...]:
    """Return what to group by: names, or one text with commas between them."""
    said = by.split(",") if isinstance(by, str) else by
    names = (each.strip() for each in said)
    asked = dict.fromkeys(_OLD_UNITS.get(name, name) for name in names if name)
    unknown = [each for each in asked if each not in UNITS]
    if unknown or not asked:
        what = repr(unknown[0]) if unknown else "nothing"
        raise UsageError(f"rows cannot be by {what}", hint=f"there are {', '.join(UNITS)}")
    return tuple(unit for each in asked for unit in UNITS if unit == each)


def ledger(scan: UsageScan, prices: Prices, asked: Question) -> Ledger:
    """Account for what *scan* found."""
    rows: list[LedgerRow] = []
    unpriced: list[Unpriced] = []
    for key, group in _groups(scan, asked).items():
        bill = prices.bill(group, mode=asked.mode)
        unpriced += bill.unpriced
        rows.append(_row(asked.by, key, figures_of(bill)))
    rows.sort(key=lambda row: _order(row, asked.by))
    return Ledger(rows=rows, totals=sum_of(rows), skipped=skipped_of(scan, unpriced))


class ReportRows(Protocol[R]):
    """A report of rows."""

    rows: list[R]


def cut_rows(found: ReportRows[R], by: Sequence[Unit], limit: int) -> int:
    """Keep the latest rows, or the dearest; give how many are left out, but for the totals."""
    left = max(0, len(found.rows) - limit) if limit else 0
    if left:
        found.rows = found.rows[left:] if by and by[0] in TIMES else found.rows[:limit]
    return left


class ResponseRow(Figures, kw_only=True):
    """One response behind a figure, and where its record stands."""

    at: datetime | None
    model: str
    session: str | None
    subagent: str | None
    message_id: str | None
    log: str
    offset: int
    unpriced: str | None
    """Why it has no cost, if it has none."""


class Explanation(Struct, kw_only=True):
    """What `turnlog cost --explain ROW --json` prints."""

    row: str
    rows: list[ResponseRow]
    totals: Figures
    skipped: SkippedDocument


def explain(scan: UsageScan, prices: Prices, asked: Question, row: str) -> Explanation:
    """List the responses behind the one row that is called *row*, as `row_names` tells."""
    groups = _groups(scan, asked)
    key = resolve_key(row, asked.by, groups)
    group = groups[key]
    rows = [_response_row(response, prices, asked.mode) for response in group]
    rows.sort(key=lambda each: (-Decimal(each.cost_usd), each.log, each.offset))
    unpriced = prices.bill(group, mode=asked.mode).unpriced
    left_out = skipped_of(scan, unpriced)
    name = whole_name(asked.by, key)
    return Explanation(row=name, rows=rows, totals=sum_of(rows), skipped=left_out)


def _response_row(response: Response, prices: Prices, mode: Mode) -> ResponseRow:
    bill = prices.bill((response,), mode=mode)
    figures = figures_of(bill)
    return ResponseRow(
        **structs.asdict(figures),
        at=response.at,
        model=response.model_name,
        session=response.session,
        subagent=response.subagent,
        message_id=response.message_id,
        log=response.log,
        offset=response.offset,
        unpriced=bill.unpriced[0].reason if bill.unpriced else None,
    )


def _groups(scan: UsageScan, asked: Question) -> dict[tuple[str | None, ...], list[Response]]:
    keys = [_KEYS[unit] for unit in asked.by]
    local = LocalTimes(asked.zone, asked.week_starts)
    groups: dict[tuple[str | None, ...], list[Response]] = {}
    for response in scan.responses:
        if asked.period.holds(response):
            key = tuple(name(response, local) for name in keys)
            groups.setdefault(key, []).append(response)
    return groups


def skipped_of(scan: UsageScan, unpriced: Iterable[Unpriced]) -> SkippedDocument:
    """Say what is in no figure of a report."""
    rows: dict[tuple[str, str], UnpricedRow] = {}
    for each in unpriced:
        empty = UnpricedRow(model=each.model, reason=each.reason, messages=0, tokens=0)
        row = rows.setdefault((each.model, each.reason), empty)
        row.messages += each.messages
        row.tokens += each.counters.total
    return SkippedDocument(
        unpriced=list(rows.values()),
        repeats=max(0, scan.folded),
        synthetic=scan.synthetic,
        pending=scan.pending,
        undated=scan.undated,
        places=sorted(scan.skipped, key=_place),
    )


def _place(each: SkippedUsage) -> tuple[str, int, str, str]:
    return each.path, each.offset, each.why, each.detail


def _row(by: Sequence[Unit], key: tuple[str | None, ...], figures: Figures) -> LedgerRow:
    row = LedgerRow(**structs.asdict(figures))
    for unit, name in zip(by, key, strict=True):
        setattr(row, unit, name)
    return row


def figures_of(bill: Bill) -> Figures:
    """Return what a bill says as a report does."""
    used = bill.used
    return Figures(
        messages=bill.messages,
        input=used.input,
        output=used.output,
        cache_write_5m=used.cache_write_5m,
        cache_write_1h=used.cache_write_1h,
        cache_read=used.cache_read,
        web_searches=used.web_searches,
        cost_usd=f"{bill.total_usd:f}",
        cache_efficiency=_efficiency(used),
    )


def sum_of(rows: Iterable[Figures]) -> Figures:
    """Add rows up; exactly, whatever there is of them."""
    found = list(rows)
    counts = {name: sum(getattr(row, name) for row in found) for name in _COUNTS}
    cost = total_usd(Decimal(row.cost_usd) for row in found)
    used = Counters(**{name: count for name, count in counts.items() if name != "messages"})
    return Figures(**counts, cost_usd=f"{cost:f}", cache_efficiency=_efficiency(used))


def _efficiency(used: Counters) -> float | None:
    found = used.cache_efficiency
    return None if found is None else round(found, 4)


def _order(row: LedgerRow, by: Sequence[Unit]) -> tuple[tuple[str, ...], Decimal, tuple[str, ...]]:
    """In the order of time; within it the dearest first, and names settle a tie."""
    names = tuple(str(getattr(row, unit) or "") for unit in by)
    times = tuple(name for unit, name in zip(by, names, strict=True) if unit in TIMES)
    return times, -Decimal(row.cost_usd), names


# -- what a response is grouped by ----------------------------------------------------------

Key = Callable[[Response, LocalTimes], str | None]

_KEYS: Final[dict[str, Key]] = {
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
}


def rows_as_lists(found: Ledger, by: Sequence[Unit]) -> Iterator[list[str]]:
    """Return the rows as plain text, heads first, for CSV and Markdown; exact, not rounded."""
    yield [*by, *_COLUMNS, "cost_usd"]
    for row in found.rows:
        named = [getattr(row, unit) or "" for unit in by]
        yield [*named, *(str(getattr(row, name)) for name in _COLUMNS), row.cost_usd]
    totals = found.totals
    yield [
        *("total" if not number else "" for number in range(len(by))),
        *(str(getattr(totals, name)) for name in _COLUMNS),
        totals.cost_usd,
    ]
