"""Opening what a report asks: the index, brought up to date, or the logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from turnlog.inert import inert

if TYPE_CHECKING:
    from turnlog.layout import Home
    from turnlog.prices.cost import Prices
    from turnlog.questions.sources import Source


@contextmanager
def open_source(
    homes: tuple[Home, ...], prices: Prices, *, no_index: bool, is_traced: bool
) -> Iterator[Source]:
    """Open the index, or read the logs without it; what is *is_traced* the logs do not tell."""
    from turnlog.errors import IndexUnavailable
    from turnlog.questions.sources import IndexSource, LogsSource

    index = None
    if not no_index:
        from turnlog.cli.indexed import open_index

        try:
            index = open_index(homes, stage="text" if is_traced else "usage")
        except IndexUnavailable as error:
            if is_traced:
                raise
            click.echo(f"notice: {inert(error.message)}; read the logs instead", err=True)
    if index is not None:
        with index:
            yield IndexSource(index, prices)
        return
    from turnlog.questions.usage_scan import scan_usage

    yield LogsSource(scan_usage(homes, workers=os.cpu_count() or 1))
