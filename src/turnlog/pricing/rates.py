"""The price of a model at a time: rates, long-context tiers and their source.

Rates are integer attodollars for one token or one search; see ``money``.
"""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from turnlog.pricing.money import rate_per_search, rate_per_token
from turnlog.records.usage import Counters

Source = Literal["genai-prices", "turnlog", "override"]

# Anthropic's cache factors: a five-minute write costs 1.25 times the input, a one-hour write twice,
# a read a tenth. https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
WRITE_5M_PERMILLE, WRITE_1H_PERMILLE, READ_PERMILLE = 1250, 2000, 100


class Rates(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The price of one token of each kind and of one search, in attodollars."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_search: int = 0

    def cost(self, counters: Counters) -> int:
        """Return the cost of *counters* in attodollars."""
        return (
            self.input * counters.input
            + self.output * counters.output
            + self.cache_write_5m * counters.cache_write_5m
            + self.cache_write_1h * counters.cache_write_1h
            + self.cache_read * counters.cache_read
            + self.web_search * counters.web_searches
        )

    def times(self, permille: int) -> Rates:
        """Return the token rates times thousandths; searches cost the same in every mode."""
        return Rates(
            _scaled(self.input, permille),
            _scaled(self.output, permille),
            _scaled(self.cache_write_5m, permille),
            _scaled(self.cache_write_1h, permille),
            _scaled(self.cache_read, permille),
            self.web_search,
        )


def _scaled(rate: int, permille: int) -> int:
    whole, rest = divmod(rate * permille, 1000)
    assert not rest, "rates have digits to spare for every factor"
    return whole


class Tier(Struct, frozen=True, array_like=True):
    """Other rates for the whole request when the model reads more than *above* tokens."""

    above: int
    rates: Rates


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model in a period."""

    model: str
    """The model's name in the table of origin."""
    provider: str
    source: Source
    rates: Rates
    tiers: tuple[Tier, ...] = ()
    since: date | None = None
    until: date | None = None
    """The end of the period (exclusive); None if no later price is known."""
    hours: tuple[time, time] | None = None
    """The hours of the day, in UTC, to which it is limited."""
    is_by_hour: bool = False
    """Whether the model has prices for other hours."""

    def rates_for(self, context: int) -> Rates:
        """Return the rates of a request that reads *context* tokens."""
        found = self.rates
        for tier in self.tiers:
            if context > tier.above:
                found = tier.rates
        return found


class Unpriced(Struct, frozen=True, kw_only=True):
    """Usage without a price: the model, what it used, and why."""

    model: str
    counters: Counters
    messages: int
    reason: str


def rates_of(
    input_price: Decimal | str,
    output_price: Decimal | str,
    *,
    cache_write_5m: Decimal | str | None = None,
    cache_write_1h: Decimal | str | None = None,
    cache_read: Decimal | str | None = None,
    web_search: Decimal | str = "0",
) -> Rates:
    """Return rates from prices per million tokens; cache rates default to multiples of input."""
    fresh = rate_per_token(Decimal(input_price))

    def rate(price: Decimal | str | None, permille: int) -> int:
        return fresh * permille // 1000 if price is None else rate_per_token(Decimal(price))

    return Rates(
        fresh,
        rate_per_token(Decimal(output_price)),
        rate(cache_write_5m, WRITE_5M_PERMILLE),
        rate(cache_write_1h, WRITE_1H_PERMILLE),
        rate(cache_read, READ_PERMILLE),
        rate_per_search(Decimal(web_search)),
    )
