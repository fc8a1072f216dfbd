"""The user's own prices, from the ``[prices]`` table of config.toml.

    [prices."my-model"]                  # the name as in logs
    input = 3.00                         # dollars per million tokens
    output = 15.00
    cache_write_5m = 3.75                # defaults for the cache, relative to input:
    cache_write_1h = 6.00                # 1.25 times, 2 times, 0.1 times
    cache_read = 0.30
    web_search = 10                      # dollars per thousand
    since = 2026-01-01                   # first day; default: always
    until = 2026-07-01                   # end (exclusive)
    long_context = {above = 200000, input = 6.00, output = 22.50}

    [prices."gateway-model"]
    like = "claude-sonnet-4-5"           # priced like another model

Several prices of one model are a list, ``[[prices."my-model"]]``; of those valid on a day the last
counts. Invalid prices are reported and have no effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from turnlog.config import SettingProblem
from turnlog.pricing.money import PRICE_DIGITS, Rates, Tier, rates_of

_CACHE: Final = ("cache_write_5m", "cache_write_1h", "cache_read")
_PRICES: Final = ("input", "output", *_CACHE, "web_search")
_OTHERS: Final = ("since", "until", "like", "long_context")
_MAX_PRICE: Final = Decimal(1_000_000)


class Override(Struct, frozen=True, kw_only=True):
    """A price that the user has set for a model and a period."""

    model: str
    rates: Rates | None = None
    tiers: tuple[Tier, ...] = ()
    like: str | None = None
    since: date | None = None
    until: date | None = None

    def holds_on(self, day: date) -> bool:
        after = self.since is None or day >= self.since
        return after and (self.until is None or day < self.until)


class _InvalidPrice(Exception):
    """Internal: converted to a SettingProblem."""


def overrides_from(
    settings: Mapping[str, Any],
) -> tuple[tuple[Override, ...], tuple[SettingProblem, ...]]:
    """Parse the plain ``[prices]`` table of config.toml."""
    found: list[Override] = []
    problems: list[SettingProblem] = []
    for model, value in settings.items():
        for where, table in _tables(f"prices.{model}", value):
            try:
                found.append(_override(model, table))
            except _InvalidPrice as error:
                problems.append(SettingProblem(where, str(error)))
    return tuple(found), tuple(problems)


def _tables(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{where}[{number}]", table) for number, table in enumerate(value))
    else:
        yield where, value


def _override(model: str, table: Any) -> Override:
    if not isinstance(table, Mapping):
        raise _InvalidPrice(f"a table of prices is expected, not {table!r}")
    unknown = sorted(set(table) - {*_PRICES, *_OTHERS})
    if unknown:
        raise _InvalidPrice(f"{unknown[0]!r} is not part of a price; use {', '.join(_PRICES)}")
    since, until = _day(table, "since"), _day(table, "until")
    if since is not None and until is not None and since >= until:
        raise _InvalidPrice(f"it ends ({until}) before it begins ({since})")
    if "like" in table:
        other = table["like"]
        if not isinstance(other, str) or not other.strip() or other == model:
            raise _InvalidPrice("'like' is the name of another model")
        if any(name in table for name in (*_PRICES, "long_context")):
            raise _InvalidPrice("it is either like another model or has prices of its own")
        return Override(model=model, like=other, since=since, until=until)
    rates = _rates(table, {})
    return Override(model=model, rates=rates, tiers=_long_context(table), since=since, until=until)


def _long_context(table: Mapping[str, Any]) -> tuple[Tier, ...]:
    inner = table.get("long_context")
    if inner is None:
        return ()
    if not isinstance(inner, Mapping) or set(inner) - {*_PRICES, "above"}:
        raise _InvalidPrice("'long_context' is a table of 'above' and of prices")
    above = inner.get("above")
    if not isinstance(above, int) or isinstance(above, bool) or above <= 0:
        raise _InvalidPrice("'long_context.above' is a number of tokens")
    return (Tier(above, _rates(inner, table)),)


def _rates(table: Mapping[str, Any], usual: Mapping[str, Any]) -> Rates:
    prices = {name: _price(table, name) for name in _PRICES}
    if prices["input"] is None or prices["output"] is None:
        raise _InvalidPrice("'input' and 'output' are needed, in dollars per million tokens")
    search = prices["web_search"]
    if search is None:
        search = _price(usual, "web_search") or Decimal(0)
    return rates_of(
        prices["input"],
        prices["output"],
        cache_write_5m=prices["cache_write_5m"],
        cache_write_1h=prices["cache_write_1h"],
        cache_read=prices["cache_read"],
        web_search=search,
    )


def _price(table: Mapping[str, Any], name: str) -> Decimal | None:
    value = table.get(name)
    if value is None:
        return None
    price: Decimal | None = None
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        try:
            price = Decimal(value)
        except ArithmeticError:
            price = None
    elif isinstance(value, float) and math.isfinite(value):
        price = Decimal(repr(value))  # As it was typed.
    if price is None or not price.is_finite() or not 0 <= price <= _MAX_PRICE:
        raise _InvalidPrice(f"{name} = {value!r} is not a price in dollars")
    if price != round(price, PRICE_DIGITS):
        raise _InvalidPrice(f"{name} = {value!r} has more than {PRICE_DIGITS} decimals")
    return price


def _day(table: Mapping[str, Any], name: str) -> date | None:
    value = table.get(name)
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    if value is None:
        return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise _InvalidPrice(f"{name} = {value!r} is not a day, such as 2026-01-31")
