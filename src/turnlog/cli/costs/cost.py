"""``turnlog cost``: usage and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from msgspec import Struct, structs

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
)
from turnlog.cli.terminal.console import console
from turnlog.cli.terminal.empty_results import print_nothing_found
from turnlog.cli.terminal.output import show_data
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.costs import Budgets, Prices, Question, UsageSource

REPORTS: Final = (
    *("hour", "day", "week", "month", "session", "project", "model"),
    *("agent", "subagent", "branch", "tool", "tag"),
)
_SAME: Final = ("hourly", "daily", "weekly", "monthly")
_OTHERS: Final = ("blocks", "budgets")
# A subagent is one of its session, and a branch one of its project.
WITH: Final = {"subagent": ("session", "subagent"), "branch": ("project", "branch")}
_DEFAULT_DAYS: Final = 30
_EXPLAINED_RESPONSES: Final = 5
_TAGS_NOTE: Final = "Sessions with several tags are in several rows; the total counts them once."


class _CostCommand(click.Command):
    """Reads ``--by project model`` as ``--by project,model``, and ``--explain`` alike."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words: list[str] = []
        is_list = has_value = False
        for word in args:
            if word.startswith("-"):
                name, equals, _ = word.partition("=")
                is_list, has_value = name in ("--by", "--explain"), bool(equals)
                words.append(word)
            elif is_list and has_value:
                words[-1] += f",{word}"
            else:
                has_value = True
                words.append(word)
        return super().parse_args(ctx, words)


@click.command(
    name="cost",
    cls=_CostCommand,
    epilog="""\b
Examples:
  turnlog cost                          the last 30 days, by day
  turnlog cost month                    all months
  turnlog cost --by project model --since "this month"
  turnlog cost --by project model --explain orchard opus-4-6
                                        why this number: tokens x rate = cost
  turnlog cost --explain total
  turnlog cost project --since 7d --compare
                                        compared with the previous seven days
  turnlog cost blocks --since 1d        five-hour blocks
  turnlog cost budgets                  budget use; exit code 1 if exceeded
  turnlog cost --by day model --csv     for a spreadsheet
In config.toml:
  [budgets]                             # in dollars, all optional
  monthly = 300                         # or daily, weekly
  block = 10                            # the current five-hour block
  [budgets.projects."~/src/orchard"]
  monthly = 50
  [cost]
  week_starts = "sunday\"""",
)
@click.argument(
    "reports",
    type=click.Choice((*REPORTS, *_SAME, *_OTHERS)),
    nargs=-1,
    metavar="[REPORT]...",
)
@report_options
@markdown_option
@period_options
@limit_option(None, "all; 5 responses with --explain")
@click.option("--by", metavar="UNITS", help="Group by these units, such as project model.")
@session_option
@model_option
@timezone_option
@click.option(
    "--mode",
    type=click.Choice(("auto", "calculate", "recorded")),
    default="calculate",
    show_default=True,
    help="Calculate costs, use the recorded ones, or use recorded ones if present (auto).",
)
@click.option("--explain", "row", metavar="ROW", help="Explain a row, or total: tokens x rate.")
@click.option("--compare", "is_compared", is_flag=True, help="Compare with the previous period.")
def command(reports: tuple[str, ...], homes: tuple[str, ...], **options: Any) -> int:
    """Show usage and its cost at API prices; every response is counted once.

    REPORT is hour, day, week, month, session, project, model, agent, subagent, branch, tool or tag,
    or several of them; or blocks or budgets. Rows by hour or day cover the last 30 days unless
    --since is given. Days are in local time unless --timezone is given.
    """
    from turnlog.api.arguments import resolve_zone
    from turnlog.api.costs import (
        Budgets,
        budgets_from,
        cost_question,
        open_source,
        units_named,
        week_starts_from,
    )
    from turnlog.api.homes import all_homes, turnlog_home
    from turnlog.config import load_config
    from turnlog.pricing.cost import configured_prices

    _check(reports, options)
    other = next((name for name in reports if name in _OTHERS), None)
    units = units_named("hour" if other else _units(reports, options["by"]))
    places = all_homes(homes)
    now = datetime.now(UTC)
    since = options["since"]
    is_default = _has_default_period(units, options)
    if is_default:
        since = _days_ago(_DEFAULT_DAYS - 1, now, resolve_zone(options["timezone"]))
    home = turnlog_home()
    config = load_config(home)
    week_starts, cost_problems = week_starts_from(config.cost)
    names = ("until", "project", "session", "model", "timezone", "mode")
    question = cost_question(
        places,
        units,
        since=since,
        week_starts=week_starts,
        **{name: options[name] for name in names},
    )
    prices, problems = configured_prices(home, config)
    budgets = Budgets()
    if config.budgets:
        budgets, budget_problems = budgets_from(config.budgets)
        problems = (*problems, *budget_problems)
    print_problems((*problems, *cost_problems))
    with open_source(
        places,
        prices,
        is_traced=question.is_traced,
        open_index=open_index,
        notify=lambda why: print_notices([why]),
    ) as source:
        report = _Reports(
            source, prices, question, budgets, now, homes, options, is_default=is_default
        )
        if other == "blocks":
            return report.blocks()
        if other == "budgets":
            return report.budget_report()
        if options["row"] is not None:
            return report.explanation(options["row"])
        if options["is_compared"]:
            return report.comparison()
        return report.ledger()


def _units(reports: tuple[str, ...], by: str | None) -> Sequence[str]:
    """Return the units to group by: those of the reports, then those of --by."""
    if by is not None:
        return (*reports, *by.split(","))
    return WITH.get(reports[0], reports) if len(reports) == 1 else reports or ("day",)


def _has_default_period(units: Sequence[str], options: dict[str, Any]) -> bool:
    """Return whether only the last days are shown: one by one, and no period is named."""
    is_named = any(options[name] is not None for name in ("since", "until", "session"))
    return not is_named and ("hour" in units or "day" in units)


def _days_ago(days: int, now: datetime, zone: tzinfo) -> datetime:
    """Return the midnight at which the day that many days ago began."""
    from turnlog.records.dates import moment

    day = now.astimezone(zone).date() - timedelta(days=days)
    return moment(day.isoformat(), now=now, zone=zone)


def _check(reports: tuple[str, ...], options: dict[str, Any]) -> None:
    """Reject options that do not go together."""
    kinds = [name for name in ("row", "is_compared") if options[name]]
    if len(kinds) > 1:
        raise click.UsageError("--explain and --compare are mutually exclusive")
    other = next((name for name in reports if name in _OTHERS), None)
    if other and (len(reports) > 1 or options["by"] or kinds or options["as_markdown"]):
        raise click.UsageError(
            f"{other} cannot be combined with other reports, --by, --explain, --compare"
            " or --markdown"
        )
    if kinds == ["row"] and options["as_markdown"]:
        raise click.UsageError("--explain and --markdown are mutually exclusive")


class _Reports(NamedTuple):
    """Prints each kind of report and returns the exit code."""

    source: UsageSource
    prices: Prices
    question: Question
    budgets: Budgets
    now: datetime
    homes: tuple[str, ...]
    options: dict[str, Any]
    is_default: bool
    """Whether the period is the last 30 days because none was named."""

    def ledger(self) -> int:
        from turnlog.api.costs import cost, cut_rows, rows_as_lists
        from turnlog.cli.views.cost import WIDE, show_ledger

        units = self.question.by
        is_data = any(self.options[name] for name in ("as_json", "as_csv", "as_markdown"))
        out = None if is_data else console()
        trend = None if out and out.width >= WIDE else False
        document = cost(self.source, self.prices, self.question, now=self.now, trend=trend)
        left = cut_rows(document, units, self._limit)
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
        left = cut_rows(document, units, self._limit)
        if not self._print_lists(document, lambda: compared_as_lists(document, units)):
            show = partial(show_comparison, report=document, units=units, zone=zone)
            self._show(console(), document, left, show)
        return 0 if document.rows else 1

    def blocks(self) -> int:
        from turnlog.api.costs import BlockRow, blocks, cut_rows
        from turnlog.cli.views.cost import show_blocks

        document = blocks(self.source, self.prices, self.question, now=self.now)
        left = cut_rows(document, self.question.by, self._limit)
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

        question = self.question
        try:
            document = explain_cost(self.source, self.prices, question, row)
        except UsageError:
            if not self.is_default:
                raise
            # A row that is named is meant, even if it is older than the default period.
            period = structs.replace(question.period, since=None)
            question = structs.replace(question, period=period)
            document = explain_cost(self.source, self.prices, question, row)
        limit = self.options["limit"]
        if limit is None:
            is_data = self.options["as_json"] or self.options["as_csv"]
            limit = 0 if is_data else _EXPLAINED_RESPONSES
        left = cut_rows(document, (), limit)
        if not self._print_rows(document, ResponseRow, document.rows):
            show = partial(show_explanation, report=document, question=question, left=left)
            self._show(console(), document, 0, show, is_part=True)
        return 0

    @property
    def _limit(self) -> int:
        return self.options["limit"] or 0

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
        from turnlog.api.costs import Period, budget_report, older_usage
        from turnlog.cli.views.cost import show_budgets, show_skipped

        older = older_usage(self.source, self.question) if self.is_default else None
        if document.rows:
            show(out)
            if left:
                out.print(f"[dim]… {left:,} more, included in the total; use --limit 0[/]")
        else:
            self._show_nothing(out, older)
        if has_budgets and self.budgets.budgets:
            out.print()
            show_budgets(
                out,
                budget_report(self.budgets, self.source, self.prices, self.question, now=self.now),
            )
        note = ""
        if document.rows and older and not is_part:
            first = older[0].astimezone(self.question.zone)
            note = f"The last {_DEFAULT_DAYS} days. For older usage, add --since {first:%Y-%m-%d}."
        if document.rows and "tag" in self.question.by and not is_part:
            note = f"{note} {_TAGS_NOTE}".strip()
        show_skipped(
            out,
            document.skipped,
            mode=self.question.mode,
            is_empty=not document.rows,
            is_part=is_part or self.question.period != Period(),
            note=note,
        )

    def _show_nothing(self, out: Console, older: tuple[datetime, datetime] | None) -> None:
        """Print that nothing was found, and what to try."""
        if older:
            last = older[1].astimezone(self.question.zone)
            out.print(f"No responses found in the last {_DEFAULT_DAYS} days.")
            out.print(
                f"[dim]hint: the last one is from {last:%Y-%m-%d}; add --since {last:%Y-%m}[/]"
            )
            return
        from turnlog.api.arguments import no_such_model
        from turnlog.api.costs import Period

        filters = dict(self.options)
        if filters["model"] is not None:
            responses = self.source.responses(Period()).responses
            known = {response.model_name for response in responses}
            filters["unknown"] = no_such_model(filters["model"], known)
        print_nothing_found("responses", self.homes, filters)
