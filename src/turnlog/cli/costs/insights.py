"""``turnlog insights``: what was done, how it went, and what it cost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.index_access import no_refresh_option, open_index
from turnlog.cli.options import (
    csv_option,
    force_option,
    home_option,
    json_option,
    limit_option,
    period_options,
    print_problems,
    redaction_rules,
    show_json,
    timezone_option,
)
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from turnlog.api.index import Index
    from turnlog.api.insights import Insights, Scope
    from turnlog.pricing.cost import Prices

_USUAL = "30d"
_FIRST = 10
_FIRST_BEHIND = 20
# A summary puts what is beyond its few bars together; it must know of all of that.
_ON_A_SUMMARY = 1_000


@click.command(
    name="insights",
    epilog="""\b
Examples:
  turnlog insights                           the last 30 days
  turnlog insights --since 2026-01-01 --project .
  turnlog insights --html report.html        the same with pictures, as one page
  turnlog insights --month 2026-07 --html    a summary to share: no names, no prompts
  turnlog insights --explain tools:Bash      the calls behind a row, with log and offset
  turnlog insights --since 1y --json
Exit code: 0 done, 1 nothing happened then, 2 a mistake, 3 a failure.""",
)
@home_option
@json_option
@csv_option
@no_refresh_option
@period_options
@click.option("--month", metavar="MONTH", help="A calendar month, such as 2026-07.")
@click.option("--year", metavar="YEAR", help="A calendar year, such as 2026.")
@timezone_option
@limit_option(None, "10 of each list, or 20 with --explain")
@click.option("--explain", "figure", metavar="FIGURE", help="List the records behind a figure.")
@click.option(
    "--html",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Write a self-contained page; with --month or --year, a summary to share.",
)
@click.option("--with-names", is_flag=True, help="Let a summary name projects, tools and models.")
@force_option
def command(homes: tuple[str, ...], *, as_json: bool, no_refresh: bool, **options: Any) -> int:
    """Show what was done, how it went, and what it cost: the last 30 days, or any period.

    Costs and tokens are those of `turnlog cost`. --explain defines a figure and lists the records
    behind it; FIGURE is tools, tools:Bash, days:2026-07-22 and so on.
    """
    from turnlog.api.arguments import resolve_zone
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.pricing.cost import configured_prices

    _check(options, as_json=as_json)
    zone = resolve_zone(options["timezone"])
    asked = _asked(options, zone)
    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        if options["figure"] is not None:
            return _explain(index, prices, asked, options, as_json=as_json)
        return _report(index, prices, asked, {**options, "homes": homes}, as_json=as_json)


def _check(options: dict[str, Any], *, as_json: bool) -> None:
    """Refuse what goes with nothing."""
    if sum(options[name] is not None for name in ("month", "year")) > 1:
        raise click.UsageError("--month and --year are one or the other")
    is_calendar = options["month"] is not None or options["year"] is not None
    if is_calendar and (options["since"] is not None or options["until"] is not None):
        raise click.UsageError("--month and --year say the period; --since and --until do too")
    if options["html"] is not None and (as_json or options["figure"] is not None):
        raise click.UsageError("--html writes a page; --json and --explain do not")
    if options["as_csv"] and options["figure"] is None:
        raise click.UsageError("--csv is for one list: say which with --explain FIGURE")
    if options["with_names"] and (options["html"] is None or not is_calendar):
        raise click.UsageError("--with-names is for summaries: --month or --year with --html")
    if options["force"] and options["html"] is None:
        raise click.UsageError("--force is for --html")


def _asked(options: dict[str, Any], zone: tzinfo) -> Scope:
    from turnlog.api.arguments import check_period
    from turnlog.api.insights import Scope
    from turnlog.records.dates import moment

    now = datetime.now(UTC)
    until: datetime | None
    if options["month"] is not None or options["year"] is not None:
        since, until = _calendar(options["month"], options["year"], zone)
    else:
        since = options["since"] or moment(_USUAL, now=now, zone=zone)
        until = options["until"]
    check_period(since, until)
    usual = _FIRST if options["figure"] is None else _FIRST_BEHIND
    limit = usual if options["limit"] is None else options["limit"]
    is_summary = options["month"] is not None or options["year"] is not None
    if options["html"] is not None and options["limit"] is None and is_summary:
        limit = _ON_A_SUMMARY
    return Scope(
        zone=zone,
        now=now,
        since=since,
        until=until,
        project=options["project"],
        limit=limit or None,
        mask=str if options["html"] is None else _mask(),
    )


def _mask() -> Callable[[str], str]:
    """Return what takes secrets out of a page: all of them, as it may be handed on."""
    from turnlog.export.masking import Masking

    return Masking(rules=redaction_rules(only_own_problems=True)).text


def _calendar(month: str | None, year: str | None, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the first instant of a month or year and of the next."""
    try:
        if month is not None:
            first = datetime.strptime(month, "%Y-%m").replace(tzinfo=zone)
            number = first.year * 12 + first.month
            following = first.replace(year=number // 12, month=number % 12 + 1)
        else:
            first = datetime.strptime(year or "", "%Y").replace(tzinfo=zone)
            following = first.replace(year=first.year + 1)
        return first.astimezone(UTC), following.astimezone(UTC)
    except (ValueError, OverflowError):
        said = f"--month {month}" if month is not None else f"--year {year}"
        raise UsageError(
            f"{said} is no such time", hint="say --month 2026-07 or --year 2026"
        ) from None


def _report(
    index: Index, prices: Prices, asked: Scope, options: dict[str, Any], *, as_json: bool
) -> int:
    from turnlog.api.insights import insights, last_active

    found = insights(index, prices, asked)
    is_empty = not found.overview.prompts and not found.overview.messages
    if as_json:
        show_json(found)
    else:
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.insights import show_insights, show_no_activity

        if options["html"] is not None:
            _write(found, asked, options)
        elif not is_empty:
            show_insights(console(), found, asked.zone)
        if is_empty:
            show_no_activity(console(), options["homes"], last_active(index), asked.zone)
    return 1 if is_empty else 0


def _write(found: Insights, asked: Scope, options: dict[str, Any]) -> None:
    """Write the page, whole or not at all."""
    from turnlog.cli.terminal.console import size
    from turnlog.cli.terminal.output import write_file
    from turnlog.text import inert

    name = options["month"] or options["year"]
    if name is not None:
        from turnlog.export.html.summary_page import summary_page

        text = summary_page(found, name, asked.zone, asked.mask, with_names=options["with_names"])
    else:
        from turnlog.export.html.insights_page import insights_page

        text = insights_page(found, asked.zone, asked.mask)
    target = Path(options["html"] or f"turnlog-{name or 'insights'}.html")
    written = write_file(target, [text.encode()], force=options["force"])
    click.echo(f"wrote {inert(str(target))} ({size(written)})", err=True)


def _explain(
    index: Index, prices: Prices, asked: Scope, options: dict[str, Any], *, as_json: bool
) -> int:
    from turnlog.api.insights import explain

    found = explain(index, prices, asked, options["figure"])
    if as_json:
        show_json(found)
    elif options["as_csv"]:
        from turnlog.api.insights import Evidence
        from turnlog.cli.terminal.output import show_csv

        show_csv(Evidence, found.rows, more=found.next)
    else:
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.insights import show_explanation

        show_explanation(console(), found, asked.zone)
    return 0 if found.rows else 1
