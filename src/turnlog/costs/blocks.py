"""Five-hour blocks: the usage of each, and the pace and projection of the active one.

A block begins at the full hour (UTC) of its first response and lasts five hours; the first response
after its end, or after five hours without one, begins the next. A block is active while it lasts,
if it was used in the last five hours. Its pace is the average since its first response; the
projection assumes that pace until its end.

All responses form the blocks, whatever the filter, since a block's start depends on what was before
it. A time filter selects whole blocks that overlap it; a filter by project, model or session
selects the usage shown for each block.
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
from turnlog.costs.usage import UsageScan, UsageSource
from turnlog.pricing.cost import Bill, Mode, Prices
from turnlog.pricing.money import Unpriced
from turnlog.records.responses import Response

LENGTH: Final = timedelta(hours=5)
_SHORTEST: Final = timedelta(minutes=1)
_CENT: Final = Decimal("0.01")


class BlockRow(Figures, kw_only=True):
    """One block. The last four fields are set for the active block only."""

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
    """The cost at its end at the current pace, rounded to cents."""


class BlockLedger(Struct, kw_only=True):
    """The result of `turnlog cost blocks --json`."""

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
    """Return the usage of each block; undated responses are in none.

    With a *period*, *scan* must hold the responses that ``responses_about`` returns.
    """
    rows: list[BlockRow] = []
    unpriced: list[Unpriced] = []
    at_any_time = structs.replace(period, since=None, until=None)
    for block in _blocks(response for response in scan.responses if response.at is not None):
        if any(map(period.holds, block)):
            shown = [response for response in block if at_any_time.holds(response)]
            bill = prices.bill(shown, mode=mode)
            unpriced += bill.unpriced
            rows.append(_row(block, shown, bill, now))
    return BlockLedger(rows=rows, totals=sum_of(rows), skipped=skipped_of(scan, unpriced))


def active_block(
    source: UsageSource, prices: Prices, *, now: datetime, mode: Mode = "calculate"
) -> tuple[BlockRow | None, SkippedDocument]:
    """Return the active block or None, and what is missing from its figures."""
    report = blocks(responses_about(source, Period(since=now)), prices, now=now, mode=mode)
    active = [row for row in report.rows if row.is_active]
    return active[-1] if active else None, report.skipped


def responses_about(source: UsageSource, period: Period) -> UsageScan:
    """Return the responses that form the blocks of *period*, including some around it.

    Blocks before a pause of five hours do not influence those after it, so reading starts at such
    a pause before the period.
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
    """Return whether a pause as long as a block ends between *first* and *last*."""
    dated = (response.at for response in scan.responses if response.at is not None)
    times = [first, *sorted(at for at in dated if first <= at <= last), last]
    return any(after - before >= LENGTH for before, after in pairwise(times))


def _blocks(responses: Iterable[Response]) -> Iterator[list[Response]]:
    block: list[Response] = []
    start = last = datetime.min.replace(tzinfo=UTC)
    for response in sorted(responses, key=_at):
        at = _at(response)
        if block and (at - start >= LENGTH or at - last >= LENGTH):
            yield block
            block = []
        if not block:
            start = _hour(at)
        block.append(response)
        last = at
    if block:
        yield block


def _row(block: list[Response], shown: list[Response], bill: Bill, now: datetime) -> BlockRow:
    """Return the row of *block* with the figures of *shown*, the responses that pass the filter."""
    first, last = _at(block[0]), _at(block[-1])
    start = _hour(first)
    end = _later(start, LENGTH)
    row = figures_of(
        bill,
        BlockRow,
        start_at=start,
        end_at=end,
        first_at=first,
        last_at=last,
        is_active=start <= now < end and now - last < LENGTH,
        models=sorted({response.model_name for response in shown}),
    )
    if row.is_active:
        hours = Decimal(max(now - first, _SHORTEST).total_seconds()) / 3600
        seconds_left = Decimal((end - now).total_seconds())
        rate = bill.total_usd / hours
        projected = bill.total_usd + rate * seconds_left / 3600
        row.left_min = int(seconds_left // 60)
        row.usd_per_hour = f"{rate.quantize(_CENT):f}"
        row.tokens_per_min = int(bill.used.total / (hours * 60))
        row.projected_usd = f"{projected.quantize(_CENT):f}"
    return row


def _at(response: Response) -> datetime:
    assert response.at is not None
    return response.at


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _later(at: datetime, time: timedelta) -> datetime:
    try:
        return at + time
    except OverflowError:  # At the ends of the calendar.
        if time > timedelta():
            return datetime.max.replace(tzinfo=UTC)
        return datetime.min.replace(tzinfo=UTC)
