"""``turnlog query sequences``, ``files`` and ``series``: what happens again and again."""

from __future__ import annotations

from datetime import tzinfo
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, structs

from turnlog.cli.index_access import no_refresh_option, open_index
from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    show_json,
    timezone_option,
)
from turnlog.cli.terminal.output import show_csv
from turnlog.formats import all_homes

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.patterns import Interval, Metric, Series, SeriesPoint

_INTERVALS = ("hour", "day", "week")
_METRICS = ("calls", "errors", "error_rate", "messages", "tokens", "prompts")
_BAR = 30
_STRETCH = 3


@click.command(
    name="sequences",
    short_help="Tools that are called one after another.",
    epilog="""\b
Examples:
  turnlog query sequences --since 30d
  turnlog query sequences --pattern "Read -> Edit\"""",
)
@home_option
@json_option
@csv_option
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
    as_csv: bool,
    no_refresh: bool,
    least: int,
    limit: int,
    **asked: Any,
) -> int:
    """Show which tools are called one after another, again and again."""
    from turnlog.api.patterns import Sequence, tool_sequences

    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = tool_sequences(index, min_occurrences=least, limit=limit or None, **asked)
    columns = ["count", "sessions", "last_at", "sequence"]
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv}
    return _list(found, "sequences", Sequence, columns, asked | shape)


@click.command(
    name="files",
    short_help="What calls did with each file.",
    epilog="""\b
Examples:
  turnlog query files --since 7d          the files that were touched most
  turnlog query files src/app.py          one of them, wherever it lies""",
)
@click.argument("file", metavar="[FILE]", required=False)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@page_options
def files(
    file: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    limit: int,
    **asked: Any,
) -> int:
    """Show which files calls named, and what they did with them.

    FILE is a path as it was written, or the end of one, such as src/app.py.
    """
    from turnlog.api.patterns import FileAccess, file_access

    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = file_access(index, file, limit=limit or None, **asked)
    columns = ["reads", "edits", "writes", "sessions", "last_at", "file"]
    shape = {"homes": homes, "as_json": as_json, "as_csv": as_csv}
    return _list(found, "files", FileAccess, columns, asked | shape)


@click.command(
    name="series",
    short_help="How much happened in each hour, day or week.",
    epilog="""\b
Examples:
  turnlog query series --since 30d                       calls, day by day
  turnlog query series --metric tokens --interval week
  turnlog query series --metric error_rate --since 7d --csv""",
)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@click.option(
    "--interval",
    type=click.Choice(_INTERVALS),
    default="day",
    show_default=True,
    help="How long each step is.",
)
@click.option(
    "--metric",
    type=click.Choice(_METRICS),
    default="calls",
    show_default=True,
    help="What is counted.",
)
@timezone_option
def series(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    interval: Interval,
    metric: Metric,
    timezone: str | None,
    **asked: Any,
) -> int:
    """Show how much happened in each hour, day or week."""
    from turnlog.api.arguments import resolve_zone
    from turnlog.api.patterns import SeriesPoint, time_series
    from turnlog.cli.terminal.empty_results import print_nothing_found
    from turnlog.cli.terminal.output import print_rest

    zone = resolve_zone(timezone)
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        found = time_series(index, interval, metric, zone=zone, **asked)
    if as_json:
        show_json(found)
    elif as_csv:
        show_csv(SeriesPoint, found.points)
    elif found.points:
        _show_series(found, zone)
        print_rest(None, found.notes)
    else:
        print_nothing_found(metric.replace("_", " "), homes, asked)
    return 0 if found.points else 1


def _list(
    found: Any, noun: str, kind: type[Struct], columns: list[str], asked: dict[str, Any]
) -> int:
    from turnlog.cli.terminal.empty_results import print_nothing_found
    from turnlog.cli.terminal.output import print_rest, show_table

    listed = getattr(found, noun)
    if asked["as_json"]:
        show_json(found)
    elif asked["as_csv"]:
        show_csv(kind, listed, more=found.next)
    elif listed:
        show_table(columns, [structs.asdict(each) for each in listed])
        print_rest(found.next)
    else:
        print_nothing_found(noun, asked["homes"], asked, hint="--min 1 shows what happened once")
    return 0 if listed else 1


def _show_series(found: Series, zone: tzinfo) -> None:
    from turnlog.cli.terminal.console import console, counted

    out = console()
    most = max((point.value or 0 for point in found.points), default=0) or 1
    for is_empty, points in groupby(found.points, key=lambda point: not point.value):
        stretch = list(points)
        if is_empty and len(stretch) > _STRETCH:
            out.print(f"[dim]…  {counted(len(stretch), found.interval)} without any[/]")
            continue
        _show_points(out, found, stretch, zone, most)


def _show_points(
    out: Console, found: Series, points: list[SeriesPoint], zone: tzinfo, most: float
) -> None:
    form = "%Y-%m-%d %H:%M" if found.interval == "hour" else "%Y-%m-%d"
    for point in points:
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
