"""Five-hour blocks: how much of one is used up, how fast, and where that leads.

A block begins at the full hour (UTC) of its first response and lasts five hours; the first response
after its end, or after five hours of silence, begins the next. It is active while it lasts and was
used within five hours. Speed is reckoned from its first response until now, and what it leads to
from that speed until the block's end. Plans with limits do not say where those are; nor does this.

All responses make the blocks, whatever is asked for: where one begins depends on those before it.
Who asks for a time is told the blocks that lie in it or reach into it, whole; who asks for a
project, a model or a session, what it had of each block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Final

from msgspec import Struct, structs

from turnlog.catalog.period import Period
from turnlog.costs.ledger import Figures, SkippedDocument, figures_of, skipped_of, sum_of
from turnlog.costs.scanned_usage import UsageScan
from turnlog.costs.source import UsageSource
from turnlog.pricing.cost import Bill, Mode, Prices
from turnlog.pricing.rates import Unpriced
from turnlog.records.responses import Response

LENGTH: Final = timedelta(hours=5)
_SHORTEST: Final = timedelta(minutes=1)
_CENT: Final = Decimal("0.01")


class BlockRow(Figures, kw_only=True):
    """One block. The last four tell of the active one only."""

    start_at: datetime
    end_at: datetime
    first_at: datetime
    last_at: datetime
    is_active: bool
    models: list[str]
    left_min: int | None = None
    usd_per_hour: str | None = None
    tokens_per_min: int | None = None
    projected_usd: str | None = None
    """What it will have cost at its end, if it goes on like this; rounded to cents."""


class BlockLedger(Struct, kw_only=True):
    """What `turnlog cost blocks --json` prints."""

    rows: list[BlockRow]
    totals: Figures
    skipped: SkippedDocument


def blocks(
    scan: UsageScan,
    prices: Prices,
    *,
    now: datetime,
    period: Period = Period(),  # noqa: B008 - Frozen.
    mode: Mode = "calculate",
) -> BlockLedger:
    """Account for what *scan* found, block by block; what has no date is in no block.

    Of a *period* the blocks are right if *scan* holds what ``responses_about`` gives.
    """
    rows: list[BlockRow] = []
    unpriced: list[Unpriced] = []
    of_any_time = structs.replace(period, since=None, until=None)
    for group in _grouped(each for each in scan.responses if each.at is not None):
        if any(map(period.holds, group)):
            told = [each for each in group if of_any_time.holds(each)]
            bill = prices.bill(told, mode=mode)
            unpriced += bill.unpriced
            rows.append(_row(group, told, bill, now))
    return BlockLedger(rows=rows, totals=sum_of(rows), skipped=skipped_of(scan, unpriced))


def active_block(
    source: UsageSource, prices: Prices, *, now: datetime, mode: Mode = "calculate"
) -> tuple[BlockRow | None, SkippedDocument]:
    """Return the block that lasts now, if one does, and what is in no figure of it."""
    found = blocks(responses_about(source, Period(since=now)), prices, now=now, mode=mode)
    active = [row for row in found.rows if row.is_active]
    return active[-1] if active else None, found.skipped


def responses_about(source: UsageSource, period: Period) -> UsageScan:
    """Return the responses that make the blocks of a *period*: those before and behind it, too.

    Before it up to a pause as long as a block, since after that one begins whatever was before: no
    more is read than it takes to find one.
    """
    until = None if period.until is None else _later(period.until, LENGTH)
    for days in (2, 16, 128, None):
        since = None
        if days is not None and period.since is not None:
            since = _later(period.since, -timedelta(days=days))
        scan = source.responses(Period(since=since, until=until))
        if since is None or period.since is None or _has_pause(scan, since, period.since):
            break
    return scan


def _has_pause(scan: UsageScan, first: datetime, last: datetime) -> bool:
    """Return whether a block must have begun between *first* and *last*, or with the latter."""
    between = (each.at for each in scan.responses if each.at is not None)
    times = [first, *sorted(at for at in between if first <= at <= last), last]
    return any(after - before >= LENGTH for before, after in pairwise(times))


def _grouped(responses: Iterable[Response]) -> Iterator[list[Response]]:
    group: list[Response] = []
    start = last = datetime.min.replace(tzinfo=UTC)
    for response in sorted(responses, key=_at):
        at = _at(response)
        if group and (at - start >= LENGTH or at - last >= LENGTH):
            yield group
            group = []
        if not group:
            start = _hour(at)
        group.append(response)
        last = at
    if group:
        yield group


def _row(group: list[Response], told: list[Response], bill: Bill, now: datetime) -> BlockRow:
    """Make the row of a block that *group* makes, and of which *told* is asked for."""
    first, last = _at(group[0]), _at(group[-1])
    start = _hour(first)
    end = _later(start, LENGTH)
    row = BlockRow(
        **structs.asdict(figures_of(bill)),
        start_at=start,
        end_at=end,
        first_at=first,
        last_at=last,
        is_active=start <= now < end and now - last < LENGTH,
        models=sorted({each.model_name for each in told}),
    )
    if row.is_active:
        _look_ahead(row, bill, now)
    return row


def _look_ahead(row: BlockRow, bill: Bill, now: datetime) -> None:
    cost, tokens = bill.total_usd, bill.used.total
    hours = Decimal(max(now - row.first_at, _SHORTEST).total_seconds()) / 3600
    left = row.end_at - now
    rate = cost / hours
    row.left_min = int(left.total_seconds() // 60)
    row.usd_per_hour = f"{rate.quantize(_CENT):f}"
    row.tokens_per_min = int(tokens / (hours * 60))
    ahead = cost + rate * Decimal(left.total_seconds()) / 3600
    row.projected_usd = f"{ahead.quantize(_CENT):f}"


def _at(response: Response) -> datetime:
    assert response.at is not None
    return response.at


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _later(at: datetime, time: timedelta) -> datetime:
    try:
        return at + time
    except OverflowError:  # At the very ends of the calendar.
        if time > timedelta():
            return datetime.max.replace(tzinfo=UTC)
        return datetime.min.replace(tzinfo=UTC)
