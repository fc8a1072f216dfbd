"""Price usage exactly, and report what has no price.

    prices = load_prices(turnlog_home())
    prices.cost(usage, "claude-sonnet-4-5-20250929", at=instant)   # Decimal, or Unpriced
    prices.bill(totals.responses).total_usd                        # and .unpriced, by model

A model without a price gives an Unpriced value and raises only with *strict*. Each request is
priced separately, with the prices of its day and its own terms; a context above a model's threshold
makes the whole request more expensive. The user's prices in config.toml override the table's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from turnlog.config import Config, SettingProblem, load_config
from turnlog.errors import UsageError
from turnlog.pricing import extras
from turnlog.pricing.money import Price, Unpriced, attodollars, dollars
from turnlog.pricing.overrides import Override, overrides_from
from turnlog.pricing.table import Table, load_table, prices_of
from turnlog.records.responses import UNKNOWN, Response
from turnlog.records.usage import Counters, Usage, count_of, counters_of

Mode = Literal["auto", "calculate", "recorded"]
MODES: Final[tuple[Mode, ...]] = ("auto", "calculate", "recorded")
NOT_RECORDED: Final = "no cost was recorded"
"""Why a response has no cost when only recorded costs count."""

# Names for the standard terms. Capacity of the priority tier is bought beforehand; its tokens are
# accounted for at the usual prices. https://platform.claude.com/docs/en/api/service-tiers
_STANDARD_SPEEDS: Final = {None, "", "standard"}
_STANDARD_TIERS: Final = {None, "", "standard", "default", "auto", "priority"}
_STANDARD_PLACES: Final = {None, "", "global", "not_available"}

AnyUsage = Usage | Counters | Mapping[str, Any]


class PriceTerms(NamedTuple):
    """What decides a price besides the model and the day."""

    speed: str | None = None
    service_tier: str | None = None
    inference_geo: str | None = None


class PriceFactors(NamedTuple):
    """How a request's terms change its price. *unknown* is why that cannot be determined."""

    permille: tuple[int, ...] = ()
    assumed: tuple[str, ...] = ()
    """Terms without a known price that were treated as standard."""
    unknown: str = ""


class Quote(Struct, frozen=True):
    """The price of a model on a day under some terms, or why there is none."""

    price: Price | None
    """With the factors of the terms applied."""
    assumed: tuple[str, ...] = ()
    reason: str = ""

    def attodollars(self, counters: Counters, context: int | None = None) -> int:
        """Return the cost of one request, or of several with the same *context*."""
        assert self.price is not None
        price = self.price
        if not price.tiers:
            return price.rates.cost(counters)
        return price.rates_for(counters.context if context is None else context).cost(counters)


class Bill(Struct, kw_only=True):
    """The total cost of some responses, estimated at API prices."""

    used: Counters = field(default_factory=Counters)
    """What they used, priced or not."""
    messages: int = 0
    total_usd: Decimal = Decimal(0)
    by_model: dict[str, Decimal] = field(default_factory=dict)
    unpriced: list[Unpriced] = field(default_factory=list)
    """By model and reason; their tokens are not part of any figure of the bill."""
    assumed: dict[str, int] = field(default_factory=dict)
    """Terms without a known price that were treated as standard, and how often."""
    recorded: int = 0
    """Responses whose cost was taken from the log."""


class _Tab(Struct):
    """Usage of responses with the same price: added up first, and priced once."""

    model: str
    quote: Quote
    is_recorded: bool
    used: Counters = field(default_factory=Counters)
    messages: int = 0
    requests: int = 0
    atto: int = 0
    """The cost of what was priced one by one: recorded, or with a long context."""


class Prices:
    """A price table with the user's overrides."""

    def __init__(self, table: Table, overrides: Iterable[Override] = ()) -> None:
        self.table = table
        self.overrides = tuple(overrides)
        self._quotes: dict[tuple[str, date, PriceTerms], Quote] = {}
        self._tabled: dict[str, list[Price]] = {}

    def find(self, model: str, at: datetime | None = None) -> Price | None:
        """Return the price of *model* at *at*, or now; None if there is none."""
        return self._find(model, _moment(at), ())

    def history(self, model: str) -> list[Price]:
        """Return every price that *model* ever had, oldest first, overrides last."""
        known = list(self._known(model))
        own = [override for override in self.overrides if _is_for(override, model)]
        return known + [
            price for override in own if (price := self._overriding(override, (), None))
        ]

    def quote(self, model: str, at: datetime | None, terms: PriceTerms = PriceTerms()) -> Quote:  # noqa: B008
        """Return the price of a request to *model* under *terms*."""
        moment = _moment(at)
        key = (model, moment.date(), terms)
        quote = self._quotes.get(key)
        if quote is None:
            price = self._find(model, moment, ())
            if price is None:
                quote = Quote(None, reason="no price is known")
            else:
                factors = factors_of(price.model, price.provider, *terms)
                for permille in factors.permille:
                    price = price.times(permille)
                quote = Quote(None if factors.unknown else price, factors.assumed, factors.unknown)
            if price is None or not price.is_by_hour:
                self._quotes[key] = quote
        return quote

    def quote_for(self, response: Response) -> Quote:
        """Return the price of *response*."""
        terms = PriceTerms(response.speed, response.service_tier, response.inference_geo)
        return self.quote(response.model or UNKNOWN, response.at, terms)

    def cost(
        self, usage: AnyUsage, model: str, *, at: datetime | None = None, strict: bool = False
    ) -> Decimal | Unpriced:
        """Return the cost of one request in dollars, or Unpriced; *strict* raises instead."""
        counters, terms = _read(usage)
        if not isinstance(model, str):
            raise UsageError(
                f"a model name is a string, not a {type(model).__name__}",
                hint='such as "claude-sonnet-4-5"',
            )
        quote = self.quote(model, at, terms)
        if quote.price is not None:
            return dollars(quote.attodollars(counters))
        if strict:
            raise UsageError(
                f"{model}: {quote.reason}", hint=f'set one in config.toml under [prices."{model}"]'
            )
        return Unpriced(model=model, counters=counters, messages=1, reason=quote.reason)

    def bill(self, responses: Iterable[Response], *, mode: Mode = "calculate") -> Bill:
        """Price *responses*: computed, as recorded in their logs, or recorded where available."""
        if mode not in MODES:
            raise UsageError(f"invalid cost mode: {mode!r}", hint=f"use {', '.join(MODES)}")
        running = RunningBill(self, mode)
        for response in responses:
            running.take(response)
        return running.now()

    def _find(self, model: str, at: datetime, passed: tuple[str, ...]) -> Price | None:
        moment = at.astimezone(UTC)
        day = moment.date()
        for override in reversed(self.overrides):
            if _is_for(override, model) and override.holds_on(day):
                return self._overriding(override, passed, at)
        known = self._known(model)
        for price in reversed(known):
            if price.since is None or day >= price.since:
                if price.hours is None:
                    return price
                now = moment.time()
                start, end = price.hours
                if start <= now < end if start <= end else now >= start or now < end:
                    return price
        return known[0] if known else None

    def _known(self, model: str) -> list[Price]:
        """Return the table's prices of *model*; cached, since a lookup is slow."""
        known = self._tabled.get(model)
        if known is None:
            found = self.table.find(model)
            known = self._tabled[model] = prices_of(*found) if found else []
        return known

    def _overriding(
        self, override: Override, passed: tuple[str, ...], at: datetime | None
    ) -> Price | None:
        """Return the price that *override* sets; None if its ``like`` leads back to itself."""
        model = self.table.find(override.like or override.model)
        if override.rates is None:
            name = override.like or ""
            if name.lower() in passed:
                return None
            price = self._find(name, _moment(at), (*passed, override.model.lower()))
            return price and replace(
                price, source="override", since=override.since, until=override.until
            )
        return Price(
            # Keep the table's name, if there is one: fast mode and batch prices depend on it.
            model=model[1].id if model else override.model,
            provider=model[0].id if model else "",
            source="override",
            rates=override.rates,
            tiers=override.tiers,
            since=override.since,
            until=override.until,
        )


class RunningBill(Struct):
    """A bill to which responses can be added and from which they can be removed."""

    prices: Prices
    mode: Mode = "calculate"
    tabs: dict[tuple[Any, ...], _Tab] = field(default_factory=dict)

    def take(self, response: Response, times: int = 1) -> None:
        """Add *response*; -1 times removes one that was added before."""
        is_recorded = self.mode != "calculate" and response.recorded_usd is not None
        at = response.at
        key: tuple[Any, ...] = (
            response.model,
            at and at.date(),
            response.speed,
            response.service_tier,
            response.inference_geo,
            is_recorded,
        )
        tab = self.tabs.get(key)
        if tab is None:
            if is_recorded or self.mode == "recorded":
                quote = Quote(None, reason="" if is_recorded else NOT_RECORDED)
            else:
                quote = self.prices.quote_for(response)
            if quote.price is not None and quote.price.is_by_hour:
                key = (*key, at)
            tab = self.tabs.setdefault(key, _Tab(response.model_name, quote, is_recorded))
        tab.used.add(response.counters, times)
        tab.messages += times * response.messages
        tab.requests += times
        if is_recorded:
            assert response.recorded_usd is not None
            tab.atto += times * attodollars(response.recorded_usd)
        elif tab.quote.price is not None and tab.quote.price.tiers:
            rates = tab.quote.price.rates_for(response.context)
            tab.atto += times * rates.cost(response.counters)
        if not tab.requests:
            del self.tabs[key]

    def now(self) -> Bill:
        """Return the current bill."""
        bill = Bill()
        by_model: dict[str, int] = {}
        unpriced: dict[tuple[str, str], Unpriced] = {}
        for tab in self.tabs.values():
            name, price, reason = tab.model, tab.quote.price, tab.quote.reason
            bill.used.add(tab.used)
            bill.messages += tab.messages
            bill.recorded += tab.requests if tab.is_recorded else 0
            if tab.is_recorded or price is not None:
                atto = tab.atto if price is None or price.tiers else price.rates.cost(tab.used)
                by_model[name] = by_model.get(name, 0) + atto
                for what in tab.quote.assumed:
                    bill.assumed[what] = bill.assumed.get(what, 0) + tab.requests
                continue
            empty = Unpriced(model=name, counters=Counters(), messages=0, reason=reason)
            kept = unpriced.setdefault((name, reason), empty)
            kept.counters.add(tab.used)
            unpriced[name, reason] = replace(kept, messages=kept.messages + tab.messages)
        bill.by_model = {name: dollars(atto) for name, atto in by_model.items()}
        bill.total_usd = dollars(sum(by_model.values()))
        bill.unpriced = list(unpriced.values())
        return bill


def load_prices(
    directory: str | os.PathLike[str] | None = None, overrides: Iterable[Override] = ()
) -> Prices:
    """Load the prices; *directory*, turnlog's home, caches the compiled table."""
    return Prices(load_table(directory), overrides)


def cost(
    usage: AnyUsage,
    model: str,
    *,
    at: datetime | None = None,
    strict: bool = False,
    prices: Prices | None = None,
) -> Decimal | Unpriced:
    """Return the exact cost of one request in dollars, at the prices of the day it was made.

    Without *at*, today's prices are used; without *prices*, those shipped with turnlog.
    """
    return (prices or _usual_prices()).cost(usage, model, at=at, strict=strict)


@cache
def _usual_prices() -> Prices:
    return load_prices()


def factors_of(
    model: str,
    provider: str,
    speed: str | None,
    service_tier: str | None,
    inference_geo: str | None,
) -> PriceFactors:
    """Return the price factors of a request's terms for *model*, named as in the table."""
    permille: list[int] = []
    assumed: list[str] = []
    is_anthropic = provider == "anthropic"
    if speed not in _STANDARD_SPEEDS:
        factor = extras.FAST.get(model) if is_anthropic and speed == "fast" else None
        if factor is None:
            return PriceFactors(unknown=f"no price is known for speed {speed!r}")
        permille.append(factor)
    if service_tier == "batch" and is_anthropic:
        permille.append(extras.BATCH)
    elif service_tier not in _STANDARD_TIERS:
        assumed.append(f"service tier {service_tier!r} priced as standard")
    if inference_geo == "us" and is_anthropic:
        permille.extend([] if model.startswith(extras.WITHOUT_GEOGRAPHY) else [extras.US_ONLY])
    elif inference_geo not in _STANDARD_PLACES:
        assumed.append(f"geography {inference_geo!r} priced as global")
    return PriceFactors(tuple(permille), tuple(assumed))


def _is_for(override: Override, model: str) -> bool:
    return override.model.lower() == model.lower()


def _moment(at: datetime | None) -> datetime:
    """Return the time whose prices apply: undated usage is priced as of now."""
    if at is None:
        return datetime.now(UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _read(usage: AnyUsage) -> tuple[Counters, PriceTerms]:
    """Return the counters and terms of a usage in any of the accepted forms."""
    if isinstance(usage, Counters):
        return usage, PriceTerms()
    if isinstance(usage, Usage):
        counters, _ = counters_of(
            {
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "cache_creation_input_tokens": usage.cache_write_5m,
                "cache_read_input_tokens": usage.cache_read,
                "server_tool_use": {"web_search_requests": usage.web_searches},
            }
        )
        counters.cache_write_1h = count_of(usage.cache_write_1h) or 0
        return counters, PriceTerms(usage.speed, usage.service_tier, usage.inference_geo)
    if not isinstance(usage, Mapping):
        raise UsageError(
            f"usage is a {type(usage).__name__}, not what a response used",
            hint='pass record.usage, or a mapping such as {"input_tokens": 5}',
        )
    counters, _ = counters_of(usage)
    terms = [usage.get(name) for name in PriceTerms._fields]
    return counters, PriceTerms(*(value if isinstance(value, str) else None for value in terms))


def configured_prices(
    home: str | os.PathLike[str], config: Config | None = None
) -> tuple[Prices, tuple[SettingProblem, ...]]:
    """Load the prices of turnlog's *home* and its *config*; return them with its problems."""
    config = config or load_config(home)
    overrides, problems = overrides_from(config.prices) if config.prices else ((), ())
    return Prices(load_table(home), overrides), (*config.problems, *problems)
