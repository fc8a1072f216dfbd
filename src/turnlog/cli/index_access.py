"""Open the index for a command: refresh it first, with a progress bar."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from turnlog.cli.terminal.progress import bar
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.costs import UsageSource
    from turnlog.api.homes import Home
    from turnlog.api.index import Index
    from turnlog.api.refresh import Fallback, Stage
    from turnlog.pricing.cost import Prices


__all__ = ["bar", "no_refresh_option", "open_index", "print_notices"]

no_refresh_option = click.option(
    "--no-refresh",
    is_flag=True,
    help="Use the index as it is, without reading new records first.",
)


def open_index(
    homes: Sequence[Home],
    *,
    no_refresh: bool = False,
    stage: Stage = "text",
    fallback: Fallback = "made",
) -> Index:
    """Open the index of *homes*, refreshed first unless *no_refresh*."""
    from turnlog.api.index import open_fresh

    with bar() as progress:
        index = open_fresh(
            homes, stage=stage, is_stale_allowed=no_refresh, progress=progress, fallback=fallback
        )
    if index.refreshed is not None:
        print_notices(index.refreshed.notices)
    return index


def print_notices(notices: Sequence[str]) -> None:
    """Print notices on stderr."""
    for notice in notices:
        click.echo(f"notice: {inert(notice)}", err=True)


def open_source(
    homes: tuple[Home, ...], prices: Prices, *, no_index: bool, is_traced: bool
) -> AbstractContextManager[UsageSource]:
    """Open the index, or read the logs if it is not wanted or not available."""
    from turnlog.api import costs

    return costs.open_source(
        homes,
        prices,
        no_index=no_index,
        is_traced=is_traced,
        open_index=open_index,
        notify=lambda why: print_notices([why]),
    )
