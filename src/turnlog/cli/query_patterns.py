"""``turnlog query sequences``, ``files`` and ``series``: what happens again and again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from turnlog.cli.indexed import (
    no_refresh_option,
    open_index,
    page,
    page_options,
    period,
    period_options,
)
from turnlog.cli.moments import zone_named
from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.index.opening import Index
    from turnlog.questions.patterns import Interval, Metric, Series

_INTERVALS = ("hour", "day", "week")
_METRICS = ("calls", "errors", "error_rate", "messages", "tokens", "prompts")
_BAR = 30


@click.command(name="sequences", short_help="Tools that are called one after another.")
@home_option
@json_option
@no_refresh_option
@period_options
@click.option("--pattern", metavar="TOOLS", help='Only this sequence, such as "Read -> Edit".')
@click.option("--min", "least", default=3, show_default=True, help="How often, at least.")
@click.option("--shortest", default=2, show_default=True, help="How many calls, at least.")
@click.option("--longest", default=5, show_default=True, help="How many calls, at most.")
@page_options
def sequences(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    no_refresh: bool,
    since: str | None,
    until: str | None,
    project: str | None,
    pattern: str | None,
    least: int,
    shortest: int,
    longest: int,
    limit: int,
    offset: int,
) -> int:
    """Show which tools are called one after another, again and again."""
    from turnlog.questions.patterns import tool_sequences

    wanted = period(since, until) | page(limit, offset)

    def find(index: Index) -> Any:
        return tool_sequences(
            index,
            pattern=pattern,
            min_occurrences=least,
            shortest=shortest,
            longest=longest,
            project=project,
            **wanted,
        )

    columns = ["count", "sessions", "last_at", "sequence"]
    return _list(homes, find, "sequences", columns, as_json=as_json, no_refresh=no_refresh)


@click.command(name="files", short_help="What calls did with each file.")
@click.argument("file", metavar="[FILE]", required=False)
@home_option
@json_option
@no_refresh_option
@period_options
@page_options
def files(
    file: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    no_refresh: bool,
    since: str | None,
    until: str | None,
    project: str | None,
    limit: int,
    offset: int,
) -> int:
    """Show which files calls named, and what they did with them.

    FILE is a path as it was written, or the end of one, such as src/app.py.
    """
    from turnlog.questions.patterns import file_access

    wanted = period(since, until) | page(limit, offset)

    def find(index: Index) -> Any:
        return file_access(index, file, project=project, **wanted)

    columns = ["reads", "edits", "writes", "sessions", "last_at", "file"]
    return _list(homes, find, "files", columns, as_json=as_json, no_refresh=no_refresh)


@click.command(name="series", short_help="How much happened in each hour, day or week.")
@home_option
@json_option
@no_refresh_option
@period_options
@click.option("--interval", type=click.Choice(_INTERVALS), default="day", show_default=True)
@click.option("--metric", type=click.Choice(_METRICS), default="calls", show_default=True)
@click.option("--timezone", metavar="ZONE", help="Whose days they are.  [default: this machine's]")
def series(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    no_refresh: bool,
    since: str | None,
    until: str | None,
    project: str | None,
    interval: Interval,
    metric: Metric,
    timezone: str | None,
) -> int:
    """Show how much happened in each hour, day or week."""
    from turnlog.cli.query_shown import tell_nothing, tell_rest
    from turnlog.layout import all_homes
    from turnlog.questions.patterns import time_series

    zone = zone_named(timezone)
    wanted = period(since, until, zone)
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = time_series(index, interval, metric, zone=zone, project=project, **wanted)
    if as_json:
        show_json(found)
    elif found.points:
        _show_series(found, zone)
        tell_rest(None, found.notes)
    else:
        tell_nothing(metric, "ask for a longer time, or name a home with --home")
    return 0 if found.points else 1


def _list(
    homes: tuple[str, ...],
    find: Callable[[Index], Any],
    noun: str,
    columns: list[str],
    *,
    as_json: bool,
    no_refresh: bool,
) -> int:
    from turnlog.cli.query_shown import show_table, tell_nothing, tell_rest
    from turnlog.layout import all_homes

    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = find(index)
    rows = [structs.asdict(each) for each in getattr(found, noun)]
    if as_json:
        show_json(found)
    elif rows:
        show_table(columns, rows)
        tell_rest(found.next)
    else:
        tell_nothing(noun, "ask for less, or name a home with --home")
    return 0 if rows else 1


def _show_series(found: Series, zone: tzinfo) -> None:
    from turnlog.cli.terminal import console

    out = console()
    form = "%Y-%m-%d %H:%M" if found.interval == "hour" else "%Y-%m-%d"
    most = max((point.value or 0 for point in found.points), default=0) or 1
    for point in found.points:
        try:
            begins = point.at.astimezone(zone)
        except OverflowError:
            begins = point.at
        value = point.value
        shown = "-" if value is None else f"{value:.1%}" if _is_rate(found) else f"{value:,}"
        bar = "█" * round((value or 0) / most * _BAR)
        out.print(f"{begins.strftime(form)}  {shown:>14}  [cyan]{bar}[/]".rstrip())


def _is_rate(found: Series) -> bool:
    return found.metric == "error_rate"
