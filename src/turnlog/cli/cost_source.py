"""Opening what a report asks: the index, with a bar while it is brought up to date, or the logs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.costs.source import UsageSource
    from turnlog.formats import Home
    from turnlog.pricing.cost import Prices


def open_source(
    homes: tuple[Home, ...], prices: Prices, *, no_index: bool, is_traced: bool
) -> AbstractContextManager[UsageSource]:
    """Open the index, or read the logs without it; say so if it cannot be had."""
    from turnlog.cli.indexed import open_index
    from turnlog.costs import source

    return source.open_source(
        homes,
        prices,
        no_index=no_index,
        is_traced=is_traced,
        open_index=open_index,
        tell=lambda why: click.echo(f"notice: {inert(why)}", err=True),
    )
