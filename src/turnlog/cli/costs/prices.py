"""``turnlog prices``: model prices, their dates and sources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import configured_prices, csv_option, json_option, when_option
from turnlog.cli.terminal.console import at_most, console, safe, settings_file
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.pricing.cost import Prices
    from turnlog.pricing.money import Price, Rates


class Amounts(Struct, kw_only=True):
    """Dollars per million tokens, and per thousand web searches."""

    input: str
    output: str
    cache_write_5m: str
    cache_write_1h: str
    cache_read: str
    web_search: str


class LongContext(Amounts, kw_only=True):
    """The price of a whole request with more than *above* input tokens."""

    above: int


class FactorsRow(Struct, kw_only=True):
    """Factors on the price of tokens; null if they do not apply to the model."""

    fast: str | None
    batch: str | None
    us_only: str | None


class PriceRow(Amounts, kw_only=True):
    """One price of a model."""

    model: str
    provider: str
    source: str
    since: date | None
    """Null for a model's first price: release dates are unknown."""
    until: date | None
    hours: str | None
    long_context: list[LongContext]
    factors: FactorsRow


class PriceDocument(Struct, kw_only=True):
    """What `turnlog prices --json` prints."""

    prices: list[PriceRow]
    next: None = None
    genai_prices: str
    """The version of genai-prices."""
    problem: str | None
    """Why there is no price table, or null."""


@click.command(
    name="prices",
    epilog="""\b
Examples:
  turnlog prices                              prices of Claude models
  turnlog prices opus-4-6                     price history of a model
  turnlog prices opus-4-6 --at 2026-02-10     price on a date
In config.toml, to set or change a price:
  [prices."my-model"]             # the name used in logs
  input = 3.00                    # dollars per million tokens
  output = 15.00                  # cache prices follow from input
  [prices."gateway-model"]
  like = "claude-sonnet-4-5"      # same price as another model""",
)
@click.argument("model", required=False)
@when_option("--at", "Prices on a date: 2026-01-31, yesterday, 3mo …")
@click.option("--home", multiple=True, hidden=True, expose_value=False)  # For scripts.
@json_option
@csv_option
def command(model: str | None, at: datetime | None, *, as_json: bool, as_csv: bool) -> int:
    """Show model prices, their sources and their dates.

    MODEL is a name as used in logs; without it, Anthropic's models are listed. A model's first
    known price applies to all earlier dates.
    """
    prices = configured_prices()
    document = describe(prices, model, at)
    if not show_data(document, PriceRow, document.prices, as_json=as_json, as_csv=as_csv):
        _show(document, model, at, _listed(prices))
    return 0 if document.prices else 1


def describe(prices: Prices, model: str | None, at: datetime | None) -> PriceDocument:
    """Return the prices of *model*, or of all of Anthropic's models, on a date or of all time."""
    if model is None:
        matches = [price for name in _listed(prices) if (price := prices.find(name, at))]
    else:  # Allow a name without "claude-".
        matches = _prices_of(prices, model, at) or _prices_of(prices, f"claude-{model}", at)
    return PriceDocument(
        prices=[_row(price) for price in matches],
        genai_prices=prices.table.version,
        problem=prices.table.problem or None,
    )


def _prices_of(prices: Prices, model: str, at: datetime | None) -> list[Price]:
    if at is None:
        return prices.history(model)
    price = prices.find(model, at)
    return [price] if price else []


def _listed(prices: Prices) -> list[str]:
    """Return the names of the user's own models and of Anthropic's."""
    from turnlog.pricing.extras import MODELS

    names = [
        model.id
        for provider in prices.table.providers
        if provider.id == "anthropic"
        for model in provider.models
    ]
    own = [override.model for override in prices.overrides]
    return list(dict.fromkeys((*own, *sorted({*names, *MODELS}))))


def _row(price: Price) -> PriceRow:
    from turnlog.pricing.cost import factors_of

    def factor(*terms: str | None) -> str | None:
        permille = factors_of(price.model, price.provider, *terms).permille
        return f"{Decimal(permille[0]) / 1000:f}" if permille else None

    hours = price.hours and f"{price.hours[0]:%H:%M} to {price.hours[1]:%H:%M} UTC"
    return PriceRow(
        model=price.model,
        provider=price.provider,
        source=price.source,
        since=price.since,
        until=price.until,
        hours=hours,
        long_context=[
            LongContext(above=tier.above, **_amounts(tier.rates)) for tier in price.tiers
        ],
        factors=FactorsRow(
            fast=factor("fast", None, None),
            batch=factor(None, "batch", None),
            us_only=factor(None, None, "us"),
        ),
        **_amounts(price.rates),
    )


def _amounts(rates: Rates) -> dict[str, str]:
    from turnlog.pricing.money import price_per_million, price_per_thousand, written

    tokens = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    amounts = {name: written(price_per_million(getattr(rates, name))) for name in tokens}
    return amounts | {"web_search": written(price_per_thousand(rates.web_search))}


def _show(
    document: PriceDocument, model: str | None, at: datetime | None, known: Sequence[str]
) -> None:
    from turnlog.api.arguments import no_such_model

    out = console()
    if document.problem:
        out.print(f"[yellow]{safe(document.problem)}[/]")
    if not document.prices:
        out.print(f"No price known for {safe(model or 'any model')}.")
        if model:
            _, _, similar = no_such_model(model, known).partition("; ")
            if similar:
                out.print(f"[dim]hint: {safe(similar)}[/]", soft_wrap=True)
            out.print(f"[dim]hint: set one in {settings_file()}, for example[/]", soft_wrap=True)
            name = safe(json.dumps(model, ensure_ascii=False))
            out.print(f'[dim]  \\[prices.{name}]\n  like = "claude-sonnet-4-5"[/]')
            out.print("[dim]see also turnlog prices --help[/]")
        return
    if model is not None:
        last = document.prices[-1]
        provider = f" of {safe(last.provider)}" if last.provider else ""
        out.print(f"[bold]{safe(model)}[/]\npriced as {safe(last.model)}{provider}\n")
    _show_table(out, document, by_time=model is not None)
    if model is not None:
        _show_terms(out, document.prices[-1])
    if at is not None and any(row.since is None for row in document.prices):
        out.print("\n[dim]A model's first known price applies to all earlier dates.[/]")
    out.print(
        f"\n[dim]Dollars per million tokens at the API, from genai-prices {document.genai_prices}"
        " and\nturnlog's own table. With a subscription, costs are an estimate.[/]"
    )


def _show_table(out: Console, document: PriceDocument, *, by_time: bool) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    first = "valid" if by_time else "model"
    most = at_most(40, out.width)
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=18, max_width=most)
    for name in ("input", "output", "cache 5 min", "cache 1 h", "cache read"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document.prices:
        name = _validity(row) if by_time else safe(row.model)
        mark = " *" if row.source == "override" else ""
        table.add_row(f"[bold]{name}[/]{mark}", *_cells(row))
        for long in row.long_context:
            table.add_row(f"[dim]  above {long.above:,} tokens[/]", *_cells(long))
    out.print(table)
    if any(row.source == "override" for row in document.prices):
        out.print("[dim]* set in config.toml[/]")


def _show_terms(out: Console, row: PriceRow) -> None:
    """Print what else affects the price."""
    terms = [
        ("fast mode", row.factors.fast),
        ("batches", row.factors.batch),
        ("US-only inference", row.factors.us_only),
    ]
    factors = [f"{name} x {factor}" for name, factor in terms if factor]
    if factors:
        out.print("\n" + ", ".join(factors))
    if Decimal(row.web_search):
        out.print(f"web search ${_padded(row.web_search)} per thousand")


def _cells(amounts: Amounts) -> tuple[str, ...]:
    names = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read")
    return tuple(_padded(getattr(amounts, name)) for name in names)


def _padded(amount: str) -> str:
    """Return an amount with at least two decimals."""
    whole, _, rest = amount.partition(".")
    return f"{whole}.{rest.ljust(2, '0')}"


def _validity(row: PriceRow) -> str:
    if row.hours:
        return row.hours
    if row.since and row.until:
        return f"{row.since} to {row.until}"
    if row.until:
        return f"until {row.until}"
    return f"since {row.since}" if row.since else "always"
