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
  turnlog insights last month
  turnlog insights --since 7d --output report.html
                                             as a web page, with charts
  turnlog insights 2026-07 --output july.html
                                             to share: no names, no prompts
  turnlog insights --explain tools:Bash      the calls of one row
  turnlog insights --since 1y --json
Exit codes: 0 success, 1 no activity, 2 usage error, 3 failure.""",
)
@click.argument("words", metavar="[PERIOD]", nargs=-1)
@report_options
@no_refresh_option
@period_options
@timezone_option
@limit_option(None, "10 per list, 20 with --explain")
@click.option("--explain", "figure", metavar="FIGURE", help="Define a figure and list its records.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write a web page to FILE.html; with PERIOD, a summary to share.",
)
@click.option("--with-names", is_flag=True, help="Name projects, tools and models in a summary.")
@force_option
def command(homes: tuple[str, ...], *, as_json: bool, no_refresh: bool, **options: Any) -> int:
    """Show activity, errors and costs of the last 30 days, or any period.

    PERIOD is a year, month, week or day: 2026, 2026-07, last month, this week, yesterday. Costs and
    tokens are those of `turnlog cost`. FIGURE is tools, tools:Bash, days:2026-07-22 and so on.
    """
    from turnlog.api.arguments import configured_prices, resolve_zone
    from turnlog.api.homes import all_homes

    problems: list[SettingProblem] = []
    zone = resolve_zone(options["timezone"])
    options["period"] = _period(" ".join(options["words"]), zone)
    _check(options, as_json=as_json)
    scope = _scope(options, zone, problems)
    prices = configured_prices(problems.extend)
    print_problems(dict.fromkeys(problems))
    with open_index(all_homes(homes), no_refresh=no_refresh) as index:
        if options["figure"] is not None:
            return _explain(index, prices, scope, options, as_json=as_json)
        return _report(index, prices, scope, {**options, "homes": homes}, as_json=as_json)


def _check(options: dict[str, Any], *, as_json: bool) -> None:
    """Reject options that do not go together."""
    output = options["output"]
    if options["period"] and (options["since"] is not None or options["until"] is not None):
        raise click.UsageError("PERIOD excludes --since and --until")
    if output is not None and (as_json or options["figure"] is not None):
        raise click.UsageError("--output excludes --json and --explain")
    if output is not None and Path(output).suffix.lower() not in (".html", ".htm"):
        raise UsageError(
            f"cannot write {output!r}: only web pages", hint="use a name such as x.html"
        )
    if options["as_csv"] and options["figure"] is None:
        raise click.UsageError("--csv needs --explain FIGURE")
    if options["with_names"] and (output is None or not options["period"]):
        raise click.UsageError("--with-names needs PERIOD and --output")
    if options["force"] and output is None:
        raise click.UsageError("--force needs --output")


def _scope(options: dict[str, Any], zone: tzinfo, problems: list[SettingProblem]) -> Scope:
    from turnlog.api.arguments import check_period, redaction_rules
    from turnlog.api.insights import Scope
    from turnlog.records.dates import moment

    now = datetime.now(UTC)
    until: datetime | None
    if options["period"]:
        _, since, until = options["period"]
    else:
        since = options["since"] or moment(_DEFAULT_PERIOD, now=now, zone=zone)
        until = options["until"]
    check_period(since, until)
    limit = options["limit"]
    if limit is None:
        limit = _ROWS if options["figure"] is None else _EXPLAINED_ROWS
        limit = _SUMMARY_ROWS if options["output"] and options["period"] else limit
    mask: Callable[[str], str] = str
    if options["output"] is not None:  # Mask all secrets: a page may be shared.
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


def _period(words: str, zone: tzinfo) -> tuple[str, datetime, datetime] | None:
    """Return the name, start and end of the named period; None if there is none."""
    from turnlog.records.dates import calendar_period

    try:
        found = calendar_period(words, now=datetime.now(UTC), zone=zone) if words else None
    except (UsageError, ValueError, OverflowError):
        found = None
    if words and found is None:
        raise UsageError(
            f"invalid period: {words!r}",
            hint="use 2026, 2026-07, last month or this week, or --since 7d",
        )
    return found


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

        if options["output"] is not None:
            _write(report, scope, options)
        elif not is_empty:
            show_insights(console(), report, scope.zone)
        if is_empty:
            show_no_activity(console(), options["homes"], last_active(index), scope.zone)
    return 1 if is_empty else 0


def _write(report: Insights, scope: Scope, options: dict[str, Any]) -> None:
    """Write the web page."""
    from turnlog.api.export import write_file

    if options["period"]:
        from turnlog.export.html.summary_page import summary_page

        name = options["period"][0]
        if "week" in options["words"]:
            name = f"week of {name}"
        text = summary_page(report, name, scope.zone, scope.mask, with_names=options["with_names"])
    else:
        from turnlog.export.html.insights_page import insights_page

        text = insights_page(report, scope.zone, scope.mask)
    target = Path(options["output"])
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
