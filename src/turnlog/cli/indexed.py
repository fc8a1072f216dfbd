"""What commands that ask the index have in common: its options, and refreshing it first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from turnlog.cli.bars import bar
from turnlog.errors import IndexUnavailable
from turnlog.text import inert

__all__ = ["bar", "no_refresh_option", "open_index", "refreshed", "tell_all", "tell_notices"]

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.index.connection import Index
    from turnlog.index.fallback import Fallback
    from turnlog.index.refresh.result import RefreshResult, Stage

no_refresh_option = click.option(
    "--no-refresh",
    is_flag=True,
    help="Ask the index as it is, without reading what was appended since.",
)


def refreshed(homes: Sequence[Home], *, rebuild: bool = False) -> RefreshResult:
    """Refresh the index of *homes*, with a progress bar on a terminal if it takes long."""
    from turnlog.index.refresh.refresh import refresh

    with bar() as progress:
        try:
            return refresh(homes, rebuild=rebuild, progress=progress)
        except IndexUnavailable as error:
            return _nothing_to_write(homes, error, rebuild=rebuild)


def _nothing_to_write(
    homes: Sequence[Home], error: IndexUnavailable, *, rebuild: bool
) -> RefreshResult:
    """Where the index cannot be written: that is no failure if there is nothing new."""
    from turnlog.index.fallback import refreshed_otherwise

    if rebuild:
        raise error
    done = refreshed_otherwise(homes, error, stage="text", fallback="read")
    if done.notices:
        raise error
    return done


def open_index(
    homes: Sequence[Home],
    *,
    no_refresh: bool = False,
    stage: Stage = "text",
    fallback: Fallback = "made",
) -> Index:
    """Open the index of *homes*, refreshed first unless *no_refresh*."""
    from turnlog.index.connection import open_fresh

    with bar() as progress:
        index = open_fresh(
            homes,
            stage=stage,
            is_stale_allowed=no_refresh,
            progress=progress,
            fallback=fallback,
        )
    if index.refreshed is not None:
        tell_notices(index.refreshed)
    return index


def tell_notices(done: RefreshResult) -> None:
    """Say on stderr what a refresh found that a person should know."""
    tell_all(done.notices)


def tell_all(notices: Sequence[str]) -> None:
    """Say notices on stderr."""
    for notice in notices:
        click.echo(f"notice: {inert(notice)}", err=True)
