"""What commands that ask the index have in common: its options, and refreshing it first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from turnlog.inert import inert

if TYPE_CHECKING:
    from turnlog.index.opening import Index
    from turnlog.index.refresh import Refreshed, Stage
    from turnlog.layout import Home

_WORTH_A_BAR_BYTES = 20_000_000

no_refresh_option = click.option(
    "--no-refresh",
    is_flag=True,
    help="Ask the index as it is, without reading what was appended since.",
)


def refresh_shown(homes: Sequence[Home], *, rebuild: bool = False) -> Refreshed:
    """Refresh the index of *homes*, with a bar on stderr if it takes long and somebody watches."""
    from turnlog.index.refresh import refresh

    with bar() as progress:
        done = refresh(homes, rebuild=rebuild, progress=progress)
    tell_notices(done)
    return done


def open_index(homes: Sequence[Home], *, no_refresh: bool = False, stage: Stage = "text") -> Index:
    """Open the index of *homes*, refreshed first unless *no_refresh*."""
    from turnlog.index.opening import open_fresh

    with bar() as progress:
        index = open_fresh(homes, stage=stage, is_stale_allowed=no_refresh, progress=progress)
    if index.refreshed is not None:
        tell_notices(index.refreshed)
    return index


def tell_notices(done: Refreshed) -> None:
    """Say on stderr what a refresh found that a person should know."""
    for notice in done.notices:
        click.echo(f"notice: {inert(notice)}", err=True)


@contextmanager
def bar(what: str = "reading logs") -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on stderr if much is to be read and somebody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = _Bar(what)
    try:
        yield shown.show
    finally:
        shown.close()


class _Bar:
    """A bar that appears only when there is much to do: rich is slow to import."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._advance: Callable[[int, int], None] | None = None
        self._close: Callable[[], None] | None = None

    def show(self, done: int, total: int) -> None:
        if total < _WORTH_A_BAR_BYTES:
            return
        if self._advance is None:
            self._open(total)
        if self._advance is not None:
            self._advance(done, total)

    def _open(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn(self._what), BarColumn(), DownloadColumn())
        bar = Progress(
            *columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        task = bar.add_task("", total=total)
        bar.start()
        self._advance = lambda done, total: bar.update(task, completed=done, total=total)
        self._close = bar.stop

    def close(self) -> None:
        if self._close is not None:
            self._close()
