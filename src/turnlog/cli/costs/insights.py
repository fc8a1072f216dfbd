"""``turnlog insights``: activity, errors and costs of a period."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import (
    force_option,
    limit_option,
    no_refresh_option,
    open_index,
    period_options,
    print_problems,
    report_options,
    show_json,
    timezone_option,
)
from turnlog.cli.terminal.console import console, size
from turnlog.cli.terminal.output import show_data
from turnlog.errors import UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.index import Index
    from turnlog.api.insights import Insights, Scope
    from turnlog.config import SettingProblem
    from turnlog.pricing.cost import Prices

_DEFAULT_PERIOD = "30d"
_ROWS = 10
_EXPLAINED_ROWS = 20
# A summary adds up what is beyond its few bars, so it needs all rows.
_SUMMARY_ROWS = 1_000


@click.command(
    name="insights",
    epilog="""\b
Examples:
  turnlog insights                           the last 30 days
  turnlog insights --since 2026-01-01 --project .
  turnlog insights --html report.html        as a web page, with charts
  turnlog insights --month 2026-07 --html    a summary to share: no names, no prompts
  turnlog insights --explain tools:Bash      the calls of one row, with log and offset
  turnlog insights --since 1y --json
Exit code: 0 success, 1 no activity, 2 usage error, 3 failure.""",
)
@report_options
@no_refresh_option
@period_options
@click.option("--month", metavar="MONTH", help="A calendar month, such as 2026-07.")
@click.option("--year", metavar="YEAR", help="A calendar year, such as 2026.")
@timezone_option
@limit_option(None, "10 per list, 20 with --explain")
@click.option("--explain", "figure", metavar="FIGURE", help="Define a figure and list its records.")
@click.option(
    "--html",
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="Write a self-contained web page; with --month or --year, a summary to share.",
)
@click.option("--with-names", is_flag=True, help="Name projects, tools and models in a summary.")
@force_option
def command(homes: tuple[str, ...], *, as_json: bool, no_refresh: bool, **options: Any) -> int:
    """Show activity, errors and costs of the last 30 days, or any period.

    Costs and tokens are those of `turnlog cost`. FIGURE is tools, tools:Bash, days:2026-07-22 and
    so on.
    """
    from turnlog.api.arguments import configured_prices, resolve_zone
    from turnlog.api.homes import all_homes

    _check(options, as_json=as_json)
    problems: list[SettingProblem] = []
    scope = _scope(options, resolve_zone(options["timezone"]), problems)
    prices = configured_prices(problems.extend)
    print_problems(dict.fromkeys(problems))
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        if options["figure"] is not None:
            return _explain(index, prices, scope, options, as_json=as_json)
        return _report(index, prices, scope, {**options, "homes": homes}, as_json=as_json)


def _check(options: dict[str, Any], *, as_json: bool) -> None:
    """Reject options that do not go together."""
    if sum(options[name] is not None for name in ("month", "year")) > 1:
        raise click.UsageError("--month and --year are mutually exclusive")
    is_calendar = options["month"] is not None or options["year"] is not None
    if is_calendar and (options["since"] is not None or options["until"] is not None):
        raise click.UsageError("--month and --year exclude --since and --until")
    if options["html"] is not None and (as_json or options["figure"] is not None):
        raise click.UsageError("--html excludes --json and --explain")
    if options["as_csv"] and options["figure"] is None:
        raise click.UsageError("--csv needs --explain FIGURE")
    if options["with_names"] and (options["html"] is None or not is_calendar):
        raise click.UsageError("--with-names needs --html and --month or --year")
    if options["force"] and options["html"] is None:
        raise click.UsageError("--force needs --html")


def _scope(options: dict[str, Any], zone: tzinfo, problems: list[SettingProblem]) -> Scope:
    from turnlog.api.arguments import check_period, redaction_rules
    from turnlog.api.insights import Scope
    from turnlog.records.dates import moment

    now = datetime.now(UTC)
    until: datetime | None
    is_calendar = options["month"] is not None or options["year"] is not None
    if is_calendar:
        since, until = _calendar(options["month"], options["year"], zone)
    else:
        since = options["since"] or moment(_DEFAULT_PERIOD, now=now, zone=zone)
        until = options["until"]
    check_period(since, until)
    limit = options["limit"]
    if limit is None:
        limit = _ROWS if options["figure"] is None else _EXPLAINED_ROWS
        limit = _SUMMARY_ROWS if options["html"] is not None and is_calendar else limit
    mask: Callable[[str], str] = str
    if options["html"] is not None:  # Mask all secrets: a page may be shared.
        from turnlog.export.masking import Masking

        mask = Masking(rules=redaction_rules(problems.extend)).text
    return Scope(
        zone=zone,
        now=now,
        since=since,
        until=until,
        project=options["project"],
        limit=limit or None,
        mask=mask,
    )


def _calendar(month: str | None, year: str | None, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the start of a month or year, and of the next one."""
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
        option = f"--month {month}" if month is not None else f"--year {year}"
        raise UsageError(
            f"invalid period: {option}", hint="use --month 2026-07 or --year 2026"
        ) from None


def _report(
    index: Index, prices: Prices, scope: Scope, options: dict[str, Any], *, as_json: bool
) -> int:
    from turnlog.api.insights import insights, last_active

    report = insights(index, prices, scope)
    is_empty = not report.overview.prompts and not report.overview.messages
    if as_json:
        show_json(report)
    else:
        from turnlog.cli.views.insights import show_insights, show_no_activity

        if options["html"] is not None:
            _write(report, scope, options)
        elif not is_empty:
            show_insights(console(), report, scope.zone)
        if is_empty:
            show_no_activity(console(), options["homes"], last_active(index), scope.zone)
    return 1 if is_empty else 0


def _write(report: Insights, scope: Scope, options: dict[str, Any]) -> None:
    """Write the web page."""
    from turnlog.api.export import write_file

    name = options["month"] or options["year"]
    if name is not None:
        from turnlog.export.html.summary_page import summary_page

        text = summary_page(report, name, scope.zone, scope.mask, with_names=options["with_names"])
    else:
        from turnlog.export.html.insights_page import insights_page

        text = insights_page(report, scope.zone, scope.mask)
    target = Path(options["html"] or f"turnlog-{name or 'insights'}.html")
    written = write_file(target, [text.encode()], force=options["force"])
    click.echo(f"wrote {inert(str(target))} ({size(written)})", err=True)


def _explain(
    index: Index, prices: Prices, scope: Scope, options: dict[str, Any], *, as_json: bool
) -> int:
    from turnlog.api.insights import Evidence, explain

    document = explain(index, prices, scope, options["figure"])
    if not show_data(document, Evidence, document.rows, as_json=as_json, as_csv=options["as_csv"]):
        from turnlog.cli.views.insights import show_explanation

        show_explanation(console(), document, scope.zone)
    return 0 if document.rows else 1
