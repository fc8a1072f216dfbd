"""Exact money: integer attodollars (10⁻¹⁸) inside, Decimal outside, rounded only for display.

Prices per million tokens have at most six decimals here, so a price per token is an integer number
of attodollars with six digits to spare for the factors of caches, batches, regions and fast mode.
Costs are products and sums of integers and are never rounded, whatever the order of addition.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Final

ATTO_DIGITS: Final = 18
PRICE_DIGITS: Final = 6
_PER_MILLION: Final = 6
_PER_THOUSAND: Final = 3
# Enough precision for any sum of valid counts, unlike the default context.
_EXACT: Final = Context(prec=100)
_CENT: Final = Decimal("0.01")


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
