"""Why a row of a cost report is what it is: counts times rates, and the responses behind them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal, get_args

from msgspec import Struct, structs

from turnlog.catalog.names import resolve_key, whole_name
from turnlog.costs.ledger import (
    Figures,
    Question,
    SkippedDocument,
    figures_of,
    groups_of,
    skipped_of,
    sum_of,
)
from turnlog.costs.usage import UsageScan
from turnlog.pricing.cost import NOT_RECORDED, Mode, Prices
from turnlog.pricing.money import (
    Price,
    Rates,
    Source,
    Unpriced,
    attodollars,
    dollars,
    price_per_million,
    price_per_thousand,
    written,
)
from turnlog.records.responses import Response
from turnlog.records.usage import Counters

ChargeKind = Literal[
    "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches"
]
TOTAL: Final = "total"
"""The name of the row with the sum of all others."""
_KINDS: Final[tuple[ChargeKind, ...]] = get_args(ChargeKind)
_TOKENS: Final = 1_000_000
_SEARCHES: Final = 1_000


class Charge(Struct, kw_only=True):
    """A count times a rate: ``cost_usd = count * rate_usd / per``, exactly."""

    kind: ChargeKind
    count: int
    rate_usd: str
    per: int
    """The number of tokens or searches that the rate is for."""
    cost_usd: str


class PriceCharges(Struct, kw_only=True):
    """The usage that one price of a model applies to."""

    model: str
    messages: int
    source: Source | Literal["recorded"] | None
    """The origin of the price; null if there is none."""
    since: date | None
    until: date | None
    """When the price is valid (exclusive end); null if it is open."""
    terms: list[str]
    """What changed the usual price: fast mode, batches, long contexts."""
    charges: list[Charge]
    """Empty if the cost was recorded or is not known."""
    cost_usd: str
    unpriced: str | None
    """Why there is no cost, if so."""


class ResponseRow(Figures, kw_only=True):
    """One response behind a figure, and the position of its record."""

    at: datetime | None
    model: str
    session: str | None
    subagent: str | None
    message_id: str | None
    log: str
    offset: int
    unpriced: str | None
    """Why it has no cost, if so."""


class Explanation(Struct, kw_only=True):
    """The result of `turnlog cost --explain ROW --json`."""

    row: str
    prices: list[PriceCharges]
    """They add up to the cost of the row."""
    genai_prices: str
    """The version of genai-prices."""
    rows: list[ResponseRow]
    totals: Figures
    skipped: SkippedDocument


def explain(scan: UsageScan, prices: Prices, question: Question, row: str) -> Explanation:
    """Return what the one row whose name is *row*, or the total, consists of.

    Both prices and responses are listed with the most expensive first.
    """
    if row.casefold() == TOTAL:
        name = TOTAL
        responses = groups_of(scan, structs.replace(question, by=())).get((), [])
    else:
        groups = groups_of(scan, question)
        key = resolve_key(row, question.by, groups)
        name, responses = whole_name(question.by, key), groups[key]
    rows: list[ResponseRow] = []
    unpriced: list[Unpriced] = []
    for response in responses:
        bill = prices.bill((response,), mode=question.mode)
        unpriced += bill.unpriced
        rows.append(
            figures_of(
                bill,
                ResponseRow,
                at=response.at,
                model=response.model_name,
                session=response.session,
                subagent=response.subagent,
                message_id=response.message_id,
                log=response.log,
                offset=response.offset,
                unpriced=bill.unpriced[0].reason if bill.unpriced else None,
            )
        )
    rows.sort(key=lambda row: (-Decimal(row.cost_usd), row.log, row.offset))
    return Explanation(
        row=name,
        prices=_charges(responses, prices, question.mode),
        genai_prices=prices.table.version,
        rows=rows,
        totals=sum_of(rows),
        skipped=skipped_of(scan, unpriced),
    )


class _Sum(Struct):
    """What was used at one price, or at none."""

    model: str
    price: Price | None
    rates: Rates | None
    reason: str
    terms: list[str]
    used: Counters
    messages: int = 0
    recorded: int = 0
    """In attodollars."""


def _charges(responses: Iterable[Response], prices: Prices, mode: Mode) -> list[PriceCharges]:
    sums: dict[tuple[object, ...], _Sum] = {}
    for response in responses:
        price: Price | None = None
        rates: Rates | None = None
        reason = ""
        if mode != "calculate" and response.recorded_usd is not None:
            pass
        elif mode == "recorded":
            reason = NOT_RECORDED
        else:
            quote = prices.quote_for(response)
            price, reason = quote.price, quote.reason
            rates = price.rates_for(response.context) if price else None
        key = (response.model_name, price, rates, reason)
        group = sums.get(key)
        if group is None:
            terms = _terms(response, prices, price) if price else []
            group = _Sum(response.model_name, price, rates, reason, terms, Counters())
            sums[key] = group
        group.used.add(response.counters)
        group.messages += response.messages
        if price is None and not reason:
            assert response.recorded_usd is not None
            group.recorded += attodollars(response.recorded_usd)
    found = [_price_charges(group) for group in sums.values()]
    found.sort(key=lambda each: (-Decimal(each.cost_usd), each.model, str(each.since)))
    return found


def _terms(response: Response, prices: Prices, price: Price) -> list[str]:
    """Return why *price* is not the usual one."""
    terms: list[str] = []
    usual = prices.find(response.model or "", response.at)
    if usual is not None and usual.rates != price.rates:
        is_special = {
            "fast mode": response.speed == "fast",
            "batch": response.service_tier == "batch",
            "US-only inference": response.inference_geo == "us",
        }
        terms += [term for term, is_true in is_special.items() if is_true]
    above = [tier.above for tier in price.tiers if response.context > tier.above]
    terms += [f"above {max(above):,} tokens"] if above else []
    return terms


def _price_charges(group: _Sum) -> PriceCharges:
    price, rates = group.price, group.rates
    charges: list[Charge] = []
    atto = group.recorded
    if rates is not None:
        atto = rates.cost(group.used)
        charges = [
            _charge(kind, getattr(group.used, kind), rates)
            for kind in _KINDS
            if kind != "web_searches" or group.used.web_searches
        ]
    source = price.source if price else None if group.reason else "recorded"
    return PriceCharges(
        model=group.model,
        messages=group.messages,
        source=source,
        since=price.since if price else None,
        until=price.until if price else None,
        terms=group.terms,
        charges=charges,
        cost_usd=written(dollars(atto)),
        unpriced=group.reason or None,
    )


def _charge(kind: ChargeKind, count: int, rates: Rates) -> Charge:
    if kind == "web_searches":
        rate, per, usd = rates.web_search, _SEARCHES, price_per_thousand(rates.web_search)
    else:
        rate = getattr(rates, kind)
        per, usd = _TOKENS, price_per_million(rate)
    return Charge(
        kind=kind,
        count=count,
        rate_usd=written(usd),
        per=per,
        cost_usd=written(dollars(count * rate)),
    )
