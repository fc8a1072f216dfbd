"""``turnlog prices``: what models cost, since when, and who says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import csv_option, json_option, print_problems, show_json, when_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.pricing.cost import Prices
    from turnlog.pricing.rates import Price, Rates


class Amounts(Struct, kw_only=True):
    """Dollars per million tokens; of searches of the web, per thousand."""

    input: str
    output: str
    cache_write_5m: str
    cache_write_1h: str
    cache_read: str
    web_search: str


class LongContext(Amounts, kw_only=True):
    """What a whole request costs once the model reads more tokens than *above*."""

    above: int


class FactorsRow(Struct, kw_only=True):
    """By how much some terms change the price of tokens; null where the model has no such terms."""

    fast: str | None
    batch: str | None
    us_only: str | None


class PriceRow(Amounts, kw_only=True):
    """One price of a model."""

    model: str
    provider: str
    source: str
    since: date | None
    """Null for a model's first price: nobody tells when the model came out."""
    until: date | None
    hours: str | None
    long_context: list[LongContext]
    factors: FactorsRow


class PriceDocument(Struct, kw_only=True):
    """What `turnlog prices --json` prints."""

    prices: list[PriceRow]
    next: None = None
    genai_prices: str
    """The version of the genai-prices package that the table is from."""
    problem: str | None
    """Why there is no table, if so."""


@click.command(
    name="prices",
    epilog="""\b
Examples:
  turnlog prices                                  Claude's models, today
  turnlog prices claude-sonnet-4-6                all prices it ever had
  turnlog prices claude-opus-4-6 --at 2026-02-10  the one of that day
In config.toml, for models that have no price, or another:
  [prices."my-model"]                             # the name as logs have it
  input = 3.00                                    # dollars per million tokens
  output = 15.00                                  # the cache's follow from the input's
  [prices."gateway-model"]
  like = "claude-sonnet-4-5"                      # priced as another model is""",
)
@click.argument("model", required=False)
@when_option("--at", "Only prices of that time: 2026-01-31, yesterday, 3mo …")
@click.option("--home", multiple=True, hidden=True, expose_value=False)  # No home has prices.
@json_option
@csv_option
def command(model: str | None, at: datetime | None, *, as_json: bool, as_csv: bool) -> int:
    """Show the prices used, what they are from, and when they hold.

    MODEL is a name as logs or tables have it. Without one the models of Anthropic are listed.
    Nobody tells when a model came out, so its first price holds for any time before, also for --at.
    """
    from turnlog.formats import turnlog_home
    from turnlog.pricing.cost import configured_prices

    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    document = describe(prices, model, at)
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(PriceRow, document.prices)
    else:
        _show(document, model, at, _listed(prices))
    return 0 if document.prices else 1


def describe(prices: Prices, model: str | None, at: datetime | None) -> PriceDocument:
    """Gather the prices of *model*, or of all of Anthropic's, at *at*, or ever."""
    if model is None:
        found = [price for name in _listed(prices) if (price := prices.find(name, at))]
    else:  # Tables leave out whose it is.
        found = _prices_of(prices, model, at) or _prices_of(prices, f"claude-{model}", at)
    return PriceDocument(
        prices=[_row(price) for price in found],
        genai_prices=prices.table.version,
        problem=prices.table.problem or None,
    )


def _prices_of(prices: Prices, model: str, at: datetime | None) -> list[Price]:
    if at is None:
        return prices.history(model)
    price = prices.find(model, at)
    return [price] if price else []


def _listed(prices: Prices) -> list[str]:
    """Name the models worth listing: Anthropic's, newest names first, and the user's own."""
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
    from turnlog.pricing.extras import factors_of

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
    found: PriceDocument, model: str | None, at: datetime | None, known: Sequence[str]
) -> None:
    from turnlog.api.names import no_such_model
    from turnlog.cli.terminal.console import console, safe, settings_file

    out = console()
    if found.problem:
        out.print(f"[yellow]{safe(found.problem)}[/]")
    if not found.prices:
        out.print(f"No price is known for {safe(model or 'any model')}.")
        if model:
            _, _, meant = no_such_model(model, known).partition("; ")
            if meant:
                out.print(f"[dim]hint: {safe(meant)}[/]", soft_wrap=True)
            out.print(f"[dim]hint: give it one in {settings_file()}, such as[/]", soft_wrap=True)
            name = safe(json.dumps(model, ensure_ascii=False))
            out.print(f'[dim]  \\[prices.{name}]\n  like = "claude-sonnet-4-5"[/]')
            out.print("[dim]turnlog prices --help shows what else[/]")
        return
    if model is not None:
        last = found.prices[-1]
        who = f" of {safe(last.provider)}" if last.provider else ""
        out.print(f"[bold]{safe(model)}[/]\npriced as {safe(last.model)}{who}\n")
    _show_table(out, found, by_time=model is not None)
    if model is not None:
        _show_terms(out, found.prices[-1])
    if at is not None and any(row.since is None for row in found.prices):
        out.print(
            "\n[dim]First prices are listed for any time: when models came out is not known.[/]"
        )
    out.print(
        f"\n[dim]Dollars per million tokens at the API, from genai-prices {found.genai_prices}"
        " and\nturnlog's own table. With a subscription, costs are an estimate.[/]"
    )


def _show_table(out: Console, found: PriceDocument, *, by_time: bool) -> None:
    from rich.table import Table

    from turnlog.cli.terminal.console import at_most, safe

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    first = "holds" if by_time else "model"
    most = at_most(40, out.width)
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=18, max_width=most)
    for name in ("input", "output", "cache 5 min", "cache 1 h", "cache read"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in found.prices:
        name = _holds(row) if by_time else safe(row.model)
        mark = " *" if row.source == "override" else ""
        table.add_row(f"[bold]{name}[/]{mark}", *_cells(row))
        for long in row.long_context:
            table.add_row(f"[dim]  above {long.above:,} tokens[/]", *_cells(long))
    out.print(table)
    if any(row.source == "override" for row in found.prices):
        out.print("[dim]* set in config.toml[/]")


def _show_terms(out: Console, row: PriceRow) -> None:
    """Say what else may change the price."""
    terms = [
        ("fast mode", row.factors.fast),
        ("batches", row.factors.batch),
        ("inference in the US only", row.factors.us_only),
    ]
    said = [f"{name} x {factor}" for name, factor in terms if factor]
    if said:
        out.print("\n" + ", ".join(said))
    if Decimal(row.web_search):
        out.print(f"web search ${_padded(row.web_search)} per thousand")


def _cells(amounts: Amounts) -> tuple[str, ...]:
    return (
        _padded(amounts.input),
        _padded(amounts.output),
        _padded(amounts.cache_write_5m),
        _padded(amounts.cache_write_1h),
        _padded(amounts.cache_read),
    )


def _padded(amount: str) -> str:
    """Write an amount with two decimals, or with more if it has them."""
    whole, _, rest = amount.partition(".")
    return f"{whole}.{rest.ljust(2, '0')}"


def _holds(row: PriceRow) -> str:
    if row.hours:
        return row.hours
    if row.since and row.until:
        return f"{row.since} to {row.until}"
    if row.until:
        return f"until {row.until}"
    return f"since {row.since}" if row.since else "always"
