"""Cache savings, and the cost of cache misses.

The savings are the cost of all cached tokens as fresh input, minus their actual cost. Cache writes,
which cost more than input, are not part of it.

A miss is a response that read less from the cache than it could: the response before it in the
same session or subagent had read or written at least 1,024 tokens more. Its repeated tokens are as
many of its own input and cache-write tokens, and its cost is the difference to reading them from
the cache. The reason is inferred: another model responded, the context was replaced by a smaller
one (compaction, rewind), the pause was longer than the lifetime of the cache (five minutes, or an
hour if written for one), or something else changed, such as tools or instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnlog.costs.usage import UsageScan
from turnlog.formats.projects import is_within
from turnlog.index.connection import Index
from turnlog.index.ids import ANSWERED_BY, instant_at, microseconds
from turnlog.insights.scope import Evidence, Scope, names_of
from turnlog.pricing.cost import Prices
from turnlog.pricing.money import total_usd
from turnlog.records.responses import Response
from turnlog.records.usage import Counters

LEAST_TOKENS: Final = 1_024
"""The smallest prompt that is cached."""
REASONS: Final = {
    "pause": "after a pause longer than the cache lives",
    "model": "another model answered",
    "context": "the context was replaced",
    "other": "something else changed",
}
"""The reasons for cache misses, with their descriptions."""
_FIVE_MINUTES: Final = timedelta(minutes=5)
_HOUR: Final = timedelta(hours=1)

_EVERY: Final = (
    f"SELECT at, record, id, session, {ANSWERED_BY}, is_sidechain, cache_read,"  # noqa: S608 - No user input.
    " cache_write_5m + cache_write_1h + cache_read"
    " FROM messages WHERE at IS NOT NULL AND part = ''"
)
# Only sessions with a response since then.
_ACTIVE: Final = "(session IS NULL OR session IN (SELECT session FROM messages WHERE at >= ?))"
_MESSAGE: Final = (
    f"SELECT session, {ANSWERED_BY}, at, project, model, speed, service_tier,"  # noqa: S608 - No user input.
    " inference_geo, record, input, output, cache_write_5m, cache_write_1h, cache_read,"
    " web_searches FROM messages WHERE id = ?"
)


class Miss(NamedTuple):
    """A response that missed the cache."""

    response: Response
    record: int
    reason: str
    tokens: int
    """The tokens paid again."""
    cost: Decimal
    """The additional cost."""


class MissRow(Struct, kw_only=True):
    """Misses for one reason."""

    reason: str
    misses: int
    tokens: int
    cost_usd: str


class Cache(Struct, kw_only=True):
    """Cache savings and misses."""

    efficiency: float | None
    """The share of tokens read that came from the cache."""
    saved_usd: str
    misses: int
    missed_tokens: int
    missed_usd: str
    reasons: list[MissRow]


def cache_figures(
    scan: UsageScan,
    misses: Iterable[Miss],
    prices: Prices,
    asked: Scope,
    efficiency: float | None,
) -> Cache:
    """Return the savings, and the misses by reason."""
    rows = {reason: MissRow(reason=reason, misses=0, tokens=0, cost_usd="0") for reason in REASONS}
    costs: dict[str, list[Decimal]] = {reason: [] for reason in REASONS}
    for miss in misses:
        rows[miss.reason].misses += 1
        rows[miss.reason].tokens += miss.tokens
        costs[miss.reason].append(miss.cost)
    for reason, row in rows.items():
        row.cost_usd = f"{total_usd(costs[reason]):f}"
    missed = [row for row in rows.values() if row.misses]
    return Cache(
        efficiency=efficiency,
        saved_usd=f"{_saved(scan, prices, asked):f}",
        misses=sum(row.misses for row in missed),
        missed_tokens=sum(row.tokens for row in missed),
        missed_usd=f"{total_usd(Decimal(row.cost_usd) for row in missed):f}",
        reasons=sorted(missed, key=lambda row: (-Decimal(row.cost_usd), -row.misses)),
    )


def misses_of(index: Index, prices: Prices, asked: Scope) -> list[Miss]:
    """Return the misses of the period, in chronological order."""
    since, until = microseconds(asked.since), microseconds(asked.until)
    names = names_of(index)
    before: dict[tuple[int | None, ...], tuple[int, int]] = {}
    misses: list[Miss] = []
    every, bounds = _EVERY, list[int]()
    if since is not None:
        every, bounds = f"{_EVERY} AND {_ACTIVE}", [since]
    # By time, then by place in the log. SQLite would take longer for it than for everything else.
    for at, _, message, session, subagent, is_sidechain, read, cached in sorted(
        index.db.execute(every, bounds)
    ):
        key = (session, subagent, is_sidechain)
        last = before.get(key)
        before[key] = (message, cached)
        if last is None or last[1] - read < LEAST_TOKENS or (until is not None and at >= until):
            continue
        if since is not None and at < since:
            continue
        response, record = _response(index, message, names)
        if asked.project is None or is_within(response.project, asked.project):
            miss = _miss(response, record, _response(index, last[0], names)[0], prices)
            if miss.tokens > 0:
                misses.append(miss)
    return misses


def explain_misses(index: Index, misses: Iterable[Miss], reason: str | None) -> list[Evidence]:
    """Return the responses of misses, the most expensive first."""
    rows = []
    for miss in sorted(misses, key=lambda miss: (-miss.cost, miss.record)):
        if reason in {None, miss.reason}:
            log, offset = index.place(miss.record)
            rows.append(
                Evidence(
                    at=miss.response.at,
                    session=miss.response.session,
                    project=miss.response.project,
                    what=f"{miss.response.model_name}: {miss.reason}",
                    log=log,
                    offset=offset,
                    tokens=miss.tokens,
                    cost_usd=f"{miss.cost:f}",
                )
            )
    return rows


def _response(index: Index, message: int, names: dict[int, str]) -> tuple[Response, int]:
    """Return a response with the fields that prices need, and its record."""
    row = index.db.execute(_MESSAGE, (message,)).fetchone()
    session, subagent, at, project, model, speed, tier, geo, record, *used = row
    response = Response(
        message_id=None,
        request_id=None,
        part="",
        session=names.get(session),
        subagent=subagent,
        is_sidechain=False,
        at=instant_at(at),
        model=names.get(model),
        counters=Counters(*used),
        speed=names.get(speed),
        service_tier=names.get(tier),
        inference_geo=names.get(geo),
        recorded_usd=None,
        cwd=None,
        project=names.get(project),
        log="",
        offset=0,
    )
    return response, record


def _miss(response: Response, record: int, before: Response, prices: Prices) -> Miss:
    used, was = response.counters, before.counters
    cached = was.cache_write_5m + was.cache_write_1h + was.cache_read
    as_read, tokens = _read_instead(used, cached - used.cache_read)
    hit = structs.replace(response, counters=as_read)
    cost = total_usd((prices.bill((response,)).total_usd, -prices.bill((hit,)).total_usd))
    return Miss(response, record, _reason(response, before), tokens, cost)


def _reason(response: Response, before: Response) -> str:
    if before.model != response.model:
        return "model"
    if response.counters.context * 2 < before.counters.context:
        return "context"
    assert response.at is not None
    assert before.at is not None
    lives = _HOUR if before.counters.cache_write_1h else _FIVE_MINUTES
    return "pause" if response.at - before.at > lives else "other"


def _read_instead(used: Counters, most: int) -> tuple[Counters, int]:
    """Return the usage if up to *most* tokens had been cached, and how many were not."""
    left = most
    cached = structs.replace(used)
    for name in ("cache_write_5m", "cache_write_1h", "input"):
        moved = min(left, getattr(cached, name))
        setattr(cached, name, getattr(cached, name) - moved)
        left -= moved
    tokens = most - left
    cached.cache_read += tokens
    return cached, tokens


def _saved(scan: UsageScan, prices: Prices, asked: Scope) -> Decimal:
    """Return the cost without a cache minus the actual cost."""
    period = asked.period
    cached = [row for row in scan.responses if row.counters.cache_read and period.holds(row)]
    uncached = []
    for response in cached:
        counters = structs.replace(response.counters)
        counters.input += counters.cache_read
        counters.cache_read = 0
        uncached.append(structs.replace(response, counters=counters))
    return total_usd((prices.bill(uncached).total_usd, -prices.bill(cached).total_usd))
