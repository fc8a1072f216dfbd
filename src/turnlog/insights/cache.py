"""What the cache saved, and what it cost where it was missed.

What it saved is what all that was read from it would have cost as fresh input, less what it did
cost; so writing to the cache, which is dearer than plain input, is not in it.

A miss is a response that could have read more from the cache than it did: the one before it, in
the same session or subagent, had read or written at least 1,024 tokens more there. What it then
paid again is as many of its own fresh and written tokens; what that cost is the difference to
having read them from the cache, by the prices of the ledger. Why it was missed is told by what
changed: another model answered, the context was replaced by a smaller one (a compaction, a rewind),
the pause was longer than the cache lives (five minutes, or an hour if it was written for one), or
none of these, as when tools or instructions changed.
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
"""Fewer than that no cache holds."""
REASONS: Final = {
    "pause": "after a pause longer than the cache lives",
    "model": "another model answered",
    "context": "the context was replaced",
    "other": "something else changed",
}
"""Why the cache was missed: what reports call it, and what they say."""
_FIVE_MINUTES: Final = timedelta(minutes=5)
_HOUR: Final = timedelta(hours=1)

# Every response, to be looked at in the order of time.
_EVERY: Final = (
    f"SELECT at, id, session, {ANSWERED_BY}, is_sidechain, cache_read,"  # noqa: S608 - Ours.
    " cache_write_5m + cache_write_1h + cache_read"
    " FROM messages WHERE at IS NOT NULL AND part = ''"
)
# Whose session answered since then: of all others nothing is asked.
_ACTIVE: Final = "(session IS NULL OR session IN (SELECT session FROM messages WHERE at >= ?))"
_MESSAGE: Final = (
    f"SELECT session, {ANSWERED_BY}, at, project, model, speed, service_tier,"  # noqa: S608 - Ours.
    " inference_geo, record, input, output, cache_write_5m, cache_write_1h, cache_read,"
    " web_searches FROM messages WHERE id = ?"
)


class Miss(NamedTuple):
    """A response that missed the cache."""

    response: Response
    record: int
    reason: str
    tokens: int
    """How many it paid again."""
    cost: Decimal
    """By how much that made it dearer."""


class MissRow(Struct, kw_only=True):
    """Misses for one reason."""

    reason: str
    misses: int
    tokens: int
    cost_usd: str


class Cache(Struct, kw_only=True):
    """What the cache was good for."""

    efficiency: float | None
    """Which part of what models read came from the cache."""
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
    """Say what the cache saved and what misses cost."""
    rows = {reason: MissRow(reason=reason, misses=0, tokens=0, cost_usd="0") for reason in REASONS}
    costs: dict[str, list[Decimal]] = {reason: [] for reason in REASONS}
    for miss in misses:
        rows[miss.reason].misses += 1
        rows[miss.reason].tokens += miss.tokens
        costs[miss.reason].append(miss.cost)
    for reason, row in rows.items():
        row.cost_usd = f"{total_usd(costs[reason]):f}"
    found = [row for row in rows.values() if row.misses]
    return Cache(
        efficiency=efficiency,
        saved_usd=f"{_saved(scan, prices, asked):f}",
        misses=sum(row.misses for row in found),
        missed_tokens=sum(row.tokens for row in found),
        missed_usd=f"{total_usd(Decimal(row.cost_usd) for row in found):f}",
        reasons=sorted(found, key=lambda row: (-Decimal(row.cost_usd), -row.misses)),
    )


def misses_of(index: Index, prices: Prices, asked: Scope) -> list[Miss]:
    """Find the misses of the period, in the order of time."""
    since, until = microseconds(asked.since), microseconds(asked.until)
    names = names_of(index)
    before: dict[tuple[int | None, ...], tuple[int, int]] = {}
    found: list[Miss] = []
    every, bounds = _EVERY, list[int]()
    if since is not None:
        every, bounds = f"{_EVERY} AND {_ACTIVE}", [since]
    # By instant, then by id. Sorted here: SQLite would take longer for it than for all the rest.
    for at, message, session, subagent, is_sidechain, read, cached in sorted(
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
                found.append(miss)
    return found


def explain_misses(index: Index, misses: Iterable[Miss], reason: str | None) -> list[Evidence]:
    """Describe misses by the record of their response, the dearest first."""
    found = []
    for miss in sorted(misses, key=lambda each: (-each.cost, each.record)):
        if reason in {None, miss.reason}:
            log, offset = index.place(miss.record)
            found.append(
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
    return found


def _response(index: Index, message: int, names: dict[int, str]) -> tuple[Response, int]:
    """Read a response, as far as prices ask, and the record that counts."""
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
    """Return what would have been used if up to *most* tokens had been found in the cache."""
    left = most
    found = structs.replace(used)
    for name in ("cache_write_5m", "cache_write_1h", "input"):
        moved = min(left, getattr(found, name))
        setattr(found, name, getattr(found, name) - moved)
        left -= moved
    tokens = most - left
    found.cache_read += tokens
    return found, tokens


def _saved(scan: UsageScan, prices: Prices, asked: Scope) -> Decimal:
    """Reckon what it would have cost to read everything afresh, less what it did cost."""
    period = asked.period
    asked_for = [each for each in scan.responses if each.counters.cache_read and period.holds(each)]
    afresh = []
    for each in asked_for:
        counters = structs.replace(each.counters)
        counters.input += counters.cache_read
        counters.cache_read = 0
        afresh.append(structs.replace(each, counters=counters))
    return total_usd((prices.bill(afresh).total_usd, -prices.bill(asked_for).total_usd))
