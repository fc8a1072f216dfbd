"""``turnlog cost``: what was used, and what it cost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    limit_option,
    markdown_option,
    model_option,
    period_options,
    print_problems,
    session_option,
    show_json,
    timezone_option,
    when_option,
)
from turnlog.records.dates import WEEKDAYS

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.costs import Budgets, Ledger, Prices, Question, Unit, UsageSource
    from turnlog.formats import Home

Shape = Literal["table", "json", "csv", "markdown"]

REPORTS: Final[dict[str, tuple[Unit, ...]]] = {
    "hourly": ("hour",),
    "daily": ("day",),
    "weekly": ("week",),
    "monthly": ("month",),
    "session": ("session",),
    "project": ("project",),
    "model": ("model",),
    "subagent": ("session", "subagent"),
    "branch": ("project", "branch"),
    "tool": ("tool",),
}
_OTHERS: Final[dict[str, tuple[Unit, ...]]] = {"blocks": ("hour",), "budgets": ("day",)}


@click.command(
    name="cost",
    epilog="""\b
Examples:
  turnlog cost                          day by day
  turnlog cost monthly --last 1y
  turnlog cost model --since 2026-01-01
  turnlog cost blocks --last 1d         five-hour blocks, the active one with its pace
  turnlog cost --explain 2026-07-22     the responses behind a day's figures
  turnlog cost --by day,model --csv     any combination, for a spreadsheet
  turnlog cost project --last 7d --compare
                                        with the seven days before
  turnlog cost budgets                  how much of them is spent; exit code 1 if too much
  turnlog cost project --since monday --json
In config.toml:
  [budgets]                             # dollars; leave out what you do not want
  monthly = 300                         # or daily, weekly
  block = 10                            # the five-hour block that lasts now
  [budgets.projects."~/src/orchard"]
  monthly = 50""",
)
@click.argument(
    "report", type=click.Choice((*REPORTS, *_OTHERS)), default="daily", metavar="[REPORT]"
)
@home_option
@json_option
@csv_option
@markdown_option
@period_options
@limit_option(0)
@click.option("--by", metavar="UNITS", help="Group by these instead, such as day,model.")
@when_option("--last", "Only the last 12h, 7d, 4w or 3mo; the same as --since.")
@session_option
@model_option
@timezone_option
@click.option(
    "--week-starts",
    type=click.Choice(WEEKDAYS),
    default="monday",
    show_default=True,
    help="The first day of a week.",
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "calculate", "recorded")),
    default="calculate",
    show_default=True,
    help="Reckon costs, take those that logs recorded, or those where there are any.",
)
@click.option("--explain", "row", metavar="ROW", help="List the responses behind a row's figures.")
@click.option(
    "--compare", "is_compared", is_flag=True, help="Compare the period with the one before it."
)
@click.option(
    "--trend",
    "has_trend",
    is_flag=True,
    help="How each row's cost went, hour by hour or day by day.",
)
@click.option("--no-index", is_flag=True, help="Read the logs themselves, all of them.")
def command(report: str, homes: tuple[str, ...], **options: Any) -> int:
    """Show what was used and what it cost at the API's prices, every response counted once.

    REPORT is hourly, daily, weekly, monthly, session, project, model, subagent, branch, tool,
    blocks or budgets. Days are those of this machine's time zone unless another is named.
    """
    from turnlog.api.costs import budgets_from
    from turnlog.cli.index_access import open_source
    from turnlog.config import load_config
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.pricing.cost import configured_prices

    now = datetime.now(UTC)
    places = all_homes(homes)
    asked = _question(report, options, places)
    shape = _shape(report, options)
    home = turnlog_home()
    config = load_config(home)
    prices, problems = configured_prices(home, config)
    budgets, broken = budgets_from(config.budgets)
    print_problems((*problems, *broken))
    no_index, is_traced, limit = options["no_index"], asked.is_traced, options["limit"]
    with open_source(places, prices, no_index=no_index, is_traced=is_traced) as source:
        report_on = _Report(source, prices, asked, budgets, shape, now, homes, options)
        if report == "blocks":
            return _blocks(report_on, limit)
        if report == "budgets":
            return _budgets(report_on)
        if options["row"] is not None:
            return _explain(report_on, options["row"], limit)
        if options["is_compared"]:
            return _compare(report_on, limit)
        return _ledger(report_on, limit, has_trend=options["has_trend"])


class _Report(NamedTuple):
    """What every kind of report needs."""

    source: UsageSource
    prices: Prices
    asked: Question
    budgets: Budgets
    shape: Shape
    now: datetime
    homes: tuple[str, ...]
    given: dict[str, Any]

    def tell_nothing(self) -> None:
        """Say that no response was found."""
        from turnlog.api.costs import Period
        from turnlog.api.names import no_such_model
        from turnlog.cli.terminal.empty_results import print_nothing_found

        given, model = self.given, self.given["model"]
        if model is not None:
            known = {each.model_name for each in self.source.responses(Period()).responses}
            given = given | {"unknown": no_such_model(model, known)}
        print_nothing_found("responses", self.homes, given)


def _question(report: str, options: dict[str, Any], homes: tuple[Home, ...]) -> Question:
    from turnlog.api.costs import cost_question

    by = options["by"]
    return cost_question(
        homes,
        by if by is not None else (REPORTS | _OTHERS)[report],
        since=options["since"] or options["last"],
        until=options["until"],
        project=options["project"],
        session=options["session"],
        model=options["model"],
        timezone=options["timezone"],
        week_starts=options["week_starts"],
        mode=options["mode"],
    )


def _shape(report: str, options: dict[str, Any]) -> Shape:
    """Return how the answer is to look; refuse what goes with nothing."""
    shapes: dict[str, Shape] = {"as_json": "json", "as_csv": "csv", "as_markdown": "markdown"}
    shape: Shape = next((shapes[option] for option in shapes if options[option]), "table")
    kinds = [name for name in ("row", "is_compared", "has_trend") if options[name]]
    if len(kinds) > 1:
        raise click.UsageError("--explain, --compare and --trend are one or the other")
    if report in _OTHERS and (options["by"] or kinds or shape == "markdown"):
        raise click.UsageError(f"{report} are a table, --json or --csv, and are grouped by nothing")
    if (shape == "markdown" and kinds == ["row"]) or (
        shape in {"csv", "markdown"} and kinds == ["has_trend"]
    ):
        raise click.UsageError("--trend has --json, --explain --json and --csv, and no other shape")
    return shape


def _ledger(report: _Report, limit: int, *, has_trend: bool) -> int:
    from turnlog.api.costs import cost, cut_rows, rows_as_lists
    from turnlog.cli.terminal.console import console
    from turnlog.cli.views.cost import WIDE, write_lists

    asked = report.asked
    out = console() if report.shape == "table" else None
    # There is room for one that nobody asked for.
    trend = None if out and out.width >= WIDE and not has_trend else has_trend
    found = cost(report.source, report.prices, asked, now=report.now, trend=trend)
    left = cut_rows(found, asked.by, limit)
    if report.shape == "json":
        show_json(found)
    elif out is not None:
        _show(out, report, found, left)
    else:
        rows = rows_as_lists(found, asked.by)
        write_lists(rows, len(asked.by), as_markdown=report.shape == "markdown")
    return 0 if found.rows else 1


def _show(out: Console, report: _Report, found: Ledger, left: int) -> None:
    from turnlog.api.costs import Period
    from turnlog.cli.views.cost import show_ledger, show_skipped

    if found.rows:
        sessions = {row.session for row in found.rows if isinstance(row.session, str)}
        titles = report.source.titles(sessions) if "session" in report.asked.by else {}
        show_ledger(out, found, report.asked.by, titles)
        _tell_rest(out, left)
    else:
        report.tell_nothing()
    if report.budgets.budgets:
        from turnlog.api.costs import budget_report
        from turnlog.cli.views.cost import show_budgets

        out.print()
        show_budgets(
            out,
            budget_report(
                report.budgets, report.source, report.prices, report.asked, now=report.now
            ),
        )
    show_skipped(
        out,
        found.skipped,
        mode=report.asked.mode,
        is_empty=not found.rows,
        is_part=report.asked.period != Period(),
    )


def _tell_rest(out: Console, left: int) -> None:
    """Say how many rows are left out, but for the totals."""
    if left:
        out.print(f"[dim]… and {left:,} more in the total; --limit 0 shows all[/]")


def _compare(report: _Report, limit: int) -> int:
    from turnlog.api.costs import compare_costs, compared_as_lists, cut_rows

    asked = report.asked
    found = compare_costs(report.source, report.prices, asked, now=report.now)
    left = cut_rows(found, asked.by, limit)
    if report.shape == "json":
        show_json(found)
    elif report.shape == "table":
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.cost import show_comparison, show_skipped

        out = console()
        if found.rows:
            show_comparison(out, found, asked.by, asked.zone)
            _tell_rest(out, left)
        else:
            report.tell_nothing()
        show_skipped(out, found.skipped, mode=asked.mode, is_empty=not found.rows)
    else:
        from turnlog.cli.views.cost import write_lists

        rows = compared_as_lists(found, asked.by)
        names = rows[0].index("messages")
        write_lists(rows, names, as_markdown=report.shape == "markdown")
    return 0 if found.rows else 1


def _blocks(report: _Report, limit: int) -> int:
    from turnlog.api.costs import BlockRow, Period, blocks, cut_rows
    from turnlog.cli.terminal.output import show_csv

    asked = report.asked
    found = blocks(report.source, report.prices, asked, now=report.now)
    left = cut_rows(found, asked.by, limit)
    if report.shape == "json":
        show_json(found)
    elif report.shape == "csv":
        show_csv(BlockRow, found.rows)
    else:
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.cost import show_blocks, show_skipped

        out = console()
        if found.rows:
            show_blocks(out, found, asked.zone)
            _tell_rest(out, left)
        else:
            report.tell_nothing()
        show_skipped(
            out,
            found.skipped,
            mode=asked.mode,
            is_empty=not found.rows,
            is_part=asked.period != Period(),
        )
    return 0 if found.rows else 1


def _budgets(report: _Report) -> int:
    from turnlog.api.costs import BudgetRow, budget_report
    from turnlog.cli.terminal.output import show_csv

    found = budget_report(
        report.budgets, report.source, report.prices, report.asked, now=report.now
    )
    if report.shape == "json":
        show_json(found)
    elif report.shape == "csv":
        show_csv(BudgetRow, found.budgets)
    else:
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.cost import show_budgets, show_no_budget, show_skipped

        out = console()
        if found.budgets:
            show_budgets(out, found)
            show_skipped(out, found.skipped, mode=report.asked.mode)
        else:
            show_no_budget(out)
    return 1 if any(row.state == "exceeded" for row in found.budgets) else 0


def _explain(report: _Report, row: str, limit: int) -> int:
    from turnlog.api.costs import ResponseRow, cut_rows, explain_cost
    from turnlog.cli.terminal.output import show_csv

    found = explain_cost(report.source, report.prices, report.asked, row)
    left = cut_rows(found, (), limit)
    if report.shape == "json":
        show_json(found)
    elif report.shape == "csv":
        show_csv(ResponseRow, found.rows)
    else:
        from turnlog.cli.terminal.console import console
        from turnlog.cli.views.cost import show_explanation, show_skipped

        out = console()
        show_explanation(out, found, report.asked.zone)
        _tell_rest(out, left)
        show_skipped(out, found.skipped, mode=report.asked.mode)
    return 0
