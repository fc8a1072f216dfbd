"""``turnlog cost``: usage and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec import Struct

from turnlog.cli.options import (
    limit_option,
    markdown_option,
    model_option,
    open_index,
    period_options,
    print_notices,
    print_problems,
    report_options,
    session_option,
    show_json,
    timezone_option,
    when_option,
)
from turnlog.cli.terminal.console import console
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data
from turnlog.records.dates import WEEKDAYS

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.costs import Budgets, Prices, Question, Unit, UsageSource

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
  turnlog cost                          by day
  turnlog cost monthly --last 1y
  turnlog cost model --since 2026-01-01
  turnlog cost blocks --last 1d         five-hour blocks, with the pace of the current one
  turnlog cost --explain 2026-07-22     the responses of one day
  turnlog cost --by day,model --csv     any combination, for a spreadsheet
  turnlog cost project --last 7d --compare
                                        compared with the previous seven days
  turnlog cost budgets                  budget use; exit code 1 if one is exceeded
  turnlog cost project --since monday --json
In config.toml:
  [budgets]                             # in dollars, all optional
  monthly = 300                         # or daily, weekly
  block = 10                            # the current five-hour block
  [budgets.projects."~/src/orchard"]
  monthly = 50""",
)
@click.argument(
    "report", type=click.Choice((*REPORTS, *_OTHERS)), default="daily", metavar="[REPORT]"
)
@report_options
@markdown_option
@period_options
@limit_option(0)
@click.option("--by", metavar="UNITS", help="Group by these units, such as day,model.")
@when_option("--last", "The last 12h, 7d, 4w or 3mo; the same as --since.")
@session_option
@model_option
@timezone_option
@click.option(
    "--week-starts",
    type=click.Choice(WEEKDAYS),
    default="monday",
    show_default=True,
    help="First day of the week.",
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "calculate", "recorded")),
    default="calculate",
    show_default=True,
    help="Calculate costs, use the recorded ones, or use recorded ones if present (auto).",
)
@click.option("--explain", "row", metavar="ROW", help="List the responses of one row.")
@click.option("--compare", "is_compared", is_flag=True, help="Compare with the previous period.")
@click.option(
    "--trend",
    "has_trend",
    is_flag=True,
    help="Show each row's cost over time.",
)
@click.option("--no-index", is_flag=True, help="Read the logs instead of the index.")
def command(report: str, homes: tuple[str, ...], **options: Any) -> int:
    """Show usage and its cost at API prices; every response is counted once.

    REPORT is hourly, daily, weekly, monthly, session, project, model, subagent, branch, tool,
    blocks or budgets. Days are in local time unless --timezone is given.
    """
    from turnlog.api.costs import Budgets, budgets_from, cost_question, open_source
    from turnlog.api.homes import all_homes, turnlog_home
    from turnlog.config import load_config
    from turnlog.pricing.cost import configured_prices

    places = all_homes(homes)
    by = options["by"]
    names = ("until", "project", "session", "model", "timezone", "week_starts", "mode")
    question = cost_question(
        places,
        by if by is not None else (REPORTS | _OTHERS)[report],
        since=options["since"] or options["last"],
        **{name: options[name] for name in names},
    )
    _check(report, options)
    home = turnlog_home()
    config = load_config(home)
    prices, problems = configured_prices(home, config)
    budgets = Budgets()
    if config.budgets:
        budgets, budget_problems = budgets_from(config.budgets)
        problems = (*problems, *budget_problems)
    print_problems(problems)
    with open_source(
        places,
        prices,
        no_index=options["no_index"],
        is_traced=question.is_traced,
        open_index=open_index,
        notify=lambda why: print_notices([why]),
    ) as source:
        reports = _Reports(source, prices, question, budgets, datetime.now(UTC), homes, options)
        if report == "blocks":
            return reports.blocks()
        if report == "budgets":
            return reports.budget_report()
        if options["row"] is not None:
            return reports.explanation(options["row"])
        if options["is_compared"]:
            return reports.comparison()
        return reports.ledger()


def _check(report: str, options: dict[str, Any]) -> None:
    """Reject options that do not go together."""
    kinds = [name for name in ("row", "is_compared", "has_trend") if options[name]]
    as_csv, as_markdown = options["as_csv"], options["as_markdown"]
    if len(kinds) > 1:
        raise click.UsageError("--explain, --compare and --trend are mutually exclusive")
    if report in _OTHERS and (options["by"] or kinds or as_markdown):
        raise click.UsageError(
            f"{report} cannot be combined with --by, --explain, --compare, --trend or --markdown"
        )
    if kinds == ["row"] and as_markdown:
        raise click.UsageError("--explain and --markdown are mutually exclusive")
    if kinds == ["has_trend"] and (as_csv or as_markdown):
        raise click.UsageError("--trend can be printed as a table or with --json only")


class _Reports(NamedTuple):
    """Prints each kind of report and returns the exit code."""

    source: UsageSource
    prices: Prices
    question: Question
    budgets: Budgets
    now: datetime
    homes: tuple[str, ...]
    options: dict[str, Any]

    def ledger(self) -> int:
        from turnlog.api.costs import cost, cut_rows, rows_as_lists
        from turnlog.cli.views.cost import WIDE, show_ledger

        units, has_trend = self.question.by, self.options["has_trend"]
        is_data = any(self.options[name] for name in ("as_json", "as_csv", "as_markdown"))
        out = None if is_data else console()
        # A wide terminal shows a trend without being asked.
        trend = None if out and out.width >= WIDE and not has_trend else has_trend
        document = cost(self.source, self.prices, self.question, now=self.now, trend=trend)
        left = cut_rows(document, units, self.options["limit"])
        if out is None:
            self._print_lists(document, lambda: rows_as_lists(document, units))
        else:
            sessions = {row.session for row in document.rows if isinstance(row.session, str)}
            titles = self.source.titles(sessions) if sessions else {}
            show = partial(show_ledger, report=document, units=units, titles=titles)
            self._show(out, document, left, show, has_budgets=True)
        return 0 if document.rows else 1

    def comparison(self) -> int:
        from turnlog.api.costs import compare_costs, compared_as_lists, cut_rows
        from turnlog.cli.views.cost import show_comparison

        units, zone = self.question.by, self.question.zone
        document = compare_costs(self.source, self.prices, self.question, now=self.now)
        left = cut_rows(document, units, self.options["limit"])
        if not self._print_lists(document, lambda: compared_as_lists(document, units)):
            show = partial(show_comparison, report=document, units=units, zone=zone)
            self._show(console(), document, left, show)
        return 0 if document.rows else 1

    def blocks(self) -> int:
        from turnlog.api.costs import BlockRow, blocks, cut_rows
        from turnlog.cli.views.cost import show_blocks

        document = blocks(self.source, self.prices, self.question, now=self.now)
        left = cut_rows(document, self.question.by, self.options["limit"])
        if not self._print_rows(document, BlockRow, document.rows):
            show = partial(show_blocks, report=document, zone=self.question.zone)
            self._show(console(), document, left, show)
        return 0 if document.rows else 1

    def budget_report(self) -> int:
        from turnlog.api.costs import BudgetRow, budget_report
        from turnlog.cli.views.cost import show_budgets, show_no_budget, show_skipped

        document = budget_report(
            self.budgets, self.source, self.prices, self.question, now=self.now
        )
        if not self._print_rows(document, BudgetRow, document.budgets):
            out = console()
            if document.budgets:
                show_budgets(out, document)
                show_skipped(out, document.skipped, mode=self.question.mode)
            else:
                show_no_budget(out)
        return 1 if any(row.state == "exceeded" for row in document.budgets) else 0

    def explanation(self, row: str) -> int:
        from turnlog.api.costs import ResponseRow, cut_rows, explain_cost
        from turnlog.cli.views.cost import show_explanation

        document = explain_cost(self.source, self.prices, self.question, row)
        left = cut_rows(document, (), self.options["limit"])
        if not self._print_rows(document, ResponseRow, document.rows):
            show = partial(show_explanation, report=document, zone=self.question.zone)
            self._show(console(), document, left, show, is_part=True)
        return 0

    def _print_rows(self, document: Any, kind: type[Struct], rows: Sequence[Struct]) -> bool:
        as_json, as_csv = self.options["as_json"], self.options["as_csv"]
        return show_data(document, kind, rows, as_json=as_json, as_csv=as_csv)

    def _print_lists(self, document: Any, lists: Callable[[], Iterable[list[str]]]) -> bool:
        from turnlog.cli.views.cost import write_lists

        as_csv: bool = self.options["as_csv"]
        as_markdown: bool = self.options["as_markdown"]
        if self.options["as_json"]:
            show_json(document)
            return True
        if as_csv or as_markdown:
            rows = list(lists())
            write_lists(rows, rows[0].index("messages"), as_markdown=as_markdown)
        return as_csv or as_markdown

    def _show(
        self,
        out: Console,
        document: Any,
        left: int,
        show: Callable[[Console], None],
        *,
        has_budgets: bool = False,
        is_part: bool = False,
    ) -> None:
        """Print the rows, or what to try if there are none, and what was left out."""
        from turnlog.api.costs import Period, budget_report
        from turnlog.cli.views.cost import show_budgets, show_skipped

        if document.rows:
            show(out)
            if left:
                out.print(f"[dim]… {left:,} more, included in the total; use --limit 0[/]")
        else:
            from turnlog.api.arguments import no_such_model

            filters = dict(self.options)
            if filters["model"] is not None:
                responses = self.source.responses(Period()).responses
                known = {response.model_name for response in responses}
                filters["unknown"] = no_such_model(filters["model"], known)
            print_nothing_found("responses", self.homes, filters)
        if has_budgets and self.budgets.budgets:
            out.print()
            show_budgets(
                out,
                budget_report(self.budgets, self.source, self.prices, self.question, now=self.now),
            )
        show_skipped(
            out,
            document.skipped,
            mode=self.question.mode,
            is_empty=not document.rows,
            is_part=is_part or self.question.period != Period(),
        )
