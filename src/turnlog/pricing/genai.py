"""Compile the prices of the genai-prices package into turnlog's table.

Importing genai-prices takes a third of a second, so only ``table_cache`` imports this module, when
the cached table is missing or outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time
from decimal import Decimal
from typing import Any, Final

from turnlog.pricing.rates import WRITE_1H_PERMILLE, Rates, Tier, rates_of
from turnlog.pricing.table import Match, Model, PriceEntry, Provider, Table

# Providers that cannot be recognized by a model's name, but by the form of their names.
_BY_FORM: Final = frozenset({"aws", "openrouter", "zai"})
_CLAUSES: Final = {
    "equals": "equals",
    "starts_with": "starts",
    "ends_with": "ends",
    "contains": "contains",
    "regex": "regex",
}
_TOKENS: Final = ("input", "output", "cache_write", "cache_write_1h", "cache_read")


def compile_table() -> Table:
    """Return the table of genai-prices; if the package is missing, the table says so."""
    try:
        from importlib.metadata import version  # noqa: PLC0415

        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

        providers = tuple(
            Provider(provider.id, _match(provider.model_match), tuple(_models(provider)))
            for provider in get_snapshot().providers
            if provider.model_match is not None or provider.id in _BY_FORM
        )
        return Table(version("genai-prices"), providers)
    except Exception as error:  # noqa: BLE001 - whatever another version of it does.
        return Table("", (), f"genai-prices cannot be read: {type(error).__name__}: {error}")


def _models(provider: Any) -> Iterator[Model]:
    for model in provider.models:
        prices = model.prices if isinstance(model.prices, list) else [model]
        found = [_entry(price, is_claude="claude" in model.id) for price in prices]
        entries = tuple(entry for entry in found if entry is not None)
        if entries:
            yield Model(model.id, _match(model.match) or ["equals", model.id], entries)


def _entry(price: Any, *, is_claude: bool) -> PriceEntry | None:
    """Return one price as an entry; None if it is not per token."""
    by_name = {name: getattr(price.prices, f"{name}_mtok", None) for name in _TOKENS}
    if by_name["input"] is None and by_name["output"] is None:
        return None
    searches = _at(getattr(price.prices, "web_searches_kcount", None), 0) or Decimal(0)
    starts = sorted({tier.start for cost in by_name.values() for tier in _tiers(cost)})
    constraint = getattr(price, "constraint", None)
    since = getattr(constraint, "start_date", None)
    start, end = getattr(constraint, "start_time", None), getattr(constraint, "end_time", None)
    return PriceEntry(
        _rates(by_name, searches, 0, is_claude=is_claude),
        tuple(
            Tier(above, _rates(by_name, searches, above + 1, is_claude=is_claude))
            for above in starts
        ),
        since,
        (_utc(start), _utc(end)) if start is not None and end is not None else None,
    )


def _rates(prices: dict[str, Any], searches: Decimal, context: int, *, is_claude: bool) -> Rates:
    """Return the rates of a request that reads *context* tokens.

    A cached token without a price of its own costs as much as any other, as in genai-prices. Only
    Claude's one-hour cache writes are known to cost twice the input if unlisted.
    """
    fresh = _at(prices["input"], context) or Decimal(0)
    written = _at(prices["cache_write"], context)
    kept = _at(prices["cache_write_1h"], context)
    if kept is None:
        is_known = is_claude and written is not None
        kept = fresh * WRITE_1H_PERMILLE / 1000 if is_known else written
    read = _at(prices["cache_read"], context)
    return rates_of(
        fresh,
        _at(prices["output"], context) or Decimal(0),
        cache_write_5m=fresh if written is None else written,
        cache_write_1h=fresh if kept is None else kept,
        cache_read=fresh if read is None else read,
        web_search=searches,
    )


def _at(price: Any, context: int) -> Decimal | None:
    """Return the price per million where the model reads *context* tokens."""
    if price is None or isinstance(price, Decimal):
        return price
    found: Decimal = price.base
    for tier in price.tiers:
        if context > tier.start:
            found = tier.price
    return found


def _tiers(price: Any) -> list[Any]:
    return getattr(price, "tiers", None) or []


def _utc(clock: time) -> time:
    return clock.replace(tzinfo=None)


def _match(clause: Any) -> Match | None:
    """Translate the clause that matches a model's name."""
    if clause is None:
        return None
    for field, how in (("or_", "any"), ("and_", "all")):
        if hasattr(clause, field):
            return [how, [_match(each) for each in getattr(clause, field)]]
    for field, how in _CLAUSES.items():
        if hasattr(clause, field):
            text = getattr(clause, field)
            return [how, text if how == "regex" else text.lower()]
    raise TypeError(f"an unknown clause: {clause!r}")
