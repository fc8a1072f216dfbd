"""Exact money: amounts, rates and prices.

Amounts are integer attodollars (10⁻¹⁸) inside and Decimal outside; they are rounded only for
display. Prices per million tokens have at most six decimals here, so the rate of a token is an
integer number of attodollars with six digits to spare for the factors of caches, batches, regions
and fast mode. Costs are products and sums of integers and are never rounded, whatever the order of
addition.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from turnlog.records.usage import Counters

Source = Literal["genai-prices", "turnlog", "override"]
ATTO_DIGITS: Final = 18
PRICE_DIGITS: Final = 6
_PER_MILLION: Final = 6
_PER_THOUSAND: Final = 3
# Enough precision for any sum of valid counts, unlike the default context.
_EXACT: Final = Context(prec=100)
_CENT: Final = Decimal("0.01")


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

    def times(self, permille: int) -> Price:
        """Return the price with all token rates times thousandths."""
        tiers = tuple(Tier(tier.above, tier.rates.times(permille)) for tier in self.tiers)
        return replace(self, rates=self.rates.times(permille), tiers=tiers)

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


def dollars(atto: int) -> Decimal:
    """Return attodollars as dollars, exactly and without trailing zeros."""
    exact = Decimal(atto).scaleb(-ATTO_DIGITS, _EXACT).normalize(_EXACT)
    exponent = exact.as_tuple().exponent
    return exact.quantize(Decimal(1), context=_EXACT) if int(exponent) > 0 else exact


def attodollars(usd: Decimal) -> int:
    """Return dollars as attodollars, rounded to the nearest."""
    scaled = usd.scaleb(ATTO_DIGITS, _EXACT)
    return int(scaled.to_integral_value(ROUND_HALF_EVEN, _EXACT))


def rate_per_token(per_million: Decimal) -> int:
    """Return a price in dollars per million tokens as attodollars per token.

    Decimals beyond the sixth are floating-point noise in price tables.
    """
    return _rate(per_million, ATTO_DIGITS - _PER_MILLION)


def rate_per_search(per_thousand: Decimal) -> int:
    """Return a price in dollars per thousand searches as attodollars per search."""
    return _rate(per_thousand, ATTO_DIGITS - _PER_THOUSAND)


def price_per_million(rate: int) -> Decimal:
    """Return attodollars per token as dollars per million tokens."""
    return dollars(rate * 10**_PER_MILLION)


def price_per_thousand(rate: int) -> Decimal:
    """Return attodollars per search as dollars per thousand."""
    return dollars(rate * 10**_PER_THOUSAND)


def total_usd(costs: Iterable[Decimal]) -> Decimal:
    """Return the exact sum, however many and however small the amounts."""
    return dollars(sum(map(attodollars, costs)))


def shown(usd: Decimal) -> str:
    """Format *usd* for people: to the cent, half up. The only place where money is rounded."""
    return f"${usd.quantize(_CENT, ROUND_HALF_UP, _EXACT):,}"


def written(usd: Decimal) -> str:
    """Format *usd* for programs: every digit, no exponent."""
    return f"{usd:f}"


def _rate(price: Decimal, digits: int) -> int:
    kept = price.quantize(Decimal(1).scaleb(-PRICE_DIGITS), ROUND_HALF_UP, _EXACT)
    return int(kept.scaleb(digits, _EXACT))
