"""The tool ``past_costs``: tokens and their cost, grouped by time, model, session or project."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import structs
from pydantic import BeforeValidator, Field

from turnlog.api.arguments import check_period
from turnlog.api.costs import (
    Figures,
    IndexSource,
    Ledger,
    Period,
    Question,
    SkippedDocument,
    configured_week_start,
    ledger,
)
from turnlog.api.homes import turnlog_home
from turnlog.api.index import Index
from turnlog.api.query import projects_in
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import (
    Limit,
    OneSession,
    PageStart,
    Project,
    Since,
    Tool,
    Until,
    listed,
    sparse,
)
from turnlog.pricing.cost import configured_prices
from turnlog.records.dates import TIMES, WEEKDAYS

Unit = Literal["day", "model", "session", "project", "subagent", "hour", "week", "month"]
_MOST_UNITS: Final = 3
_SKIPPED_IN: Final = """
SELECT k.why, count(*) FROM skipped AS k JOIN logs AS l ON l.id = k.log
WHERE l.session IN (SELECT session FROM sessions WHERE project IN {projects}) GROUP BY 1
"""


def past_costs(
    ctx: ToolContext,
    page: PageStart,
    *,
    by: Annotated[
        list[Unit],
        BeforeValidator(listed),
        Field(
            description="Group by one or more of these.",
            min_length=1,
            max_length=_MOST_UNITS,
        ),
    ] = ["day"],  # noqa: B006 - Never modified.
    project: Project = None,
    session: OneSession = None,
    model: Annotated[
        str | None,
        Field(description="Part of a model's name.", min_length=1, max_length=200),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 30,
) -> ToolAnswer:
    """Sum tokens and cost at API prices, every response counted once.

    Totals first, with what could not be counted (`skipped`); then rows, latest or most expensive
    first. Costs are exact dollars, as text.
    """
    units = tuple(dict.fromkeys(by))
    prices, _ = configured_prices(turnlog_home())
    with ctx.index() as index:
        named = None if session is None else ctx.session(index, session).id
        period = Period(
            since=ctx.moment(since),
            until=ctx.moment(until),
            project=ctx.project(project),
            model=model,
            session=named,
        )
        check_period(period.since, period.until)
        weeks = WEEKDAYS.index(configured_week_start())
        question = Question(by=units, zone=ctx.zone, week_starts=weeks, period=period)
        scan = IndexSource(index, prices).sums(period)
        if named is not None:  # The filter matches prefixes.
            scan.responses = [each for each in scan.responses if each.session == named]
        report = ledger(scan, prices, question)
        rows = _in_order(report, units)
        end = page.place + limit
        return ToolAnswer(
            about={
                "totals": _figures(report.totals),
                "skipped": _skipped(index, report.skipped, ctx.project(project)),
                "rows_in_all": len(rows),
            },
            noun="rows",
            rows=rows[page.place : end],
            offset=page.place,
            next=end if end < len(rows) else None,
        )


def _in_order(report: Ledger, units: tuple[Unit, ...]) -> list[dict[str, Any]]:
    """Return the rows in the order of the report, or the latest first if grouped by time."""
    rows = [{unit: getattr(row, unit) for unit in units} | _figures(row) for row in report.rows]
    times = [unit for unit in units if unit in TIMES]
    # A stable sort: within a day the most expensive row stays first.
    rows.sort(key=lambda row: tuple(row[unit] or "" for unit in times), reverse=True)
    return rows


def _figures(row: Figures) -> dict[str, Any]:
    """Return the figures that are not zero, and always the cost."""
    values = {field.name: getattr(row, field.name) for field in structs.fields(Figures)}
    return {name: value for name, value in sparse(values).items() if value or name == "cost_usd"}


def _skipped(index: Index, skipped: SkippedDocument, project: str | None) -> dict[str, Any]:
    """Return what the figures leave out; with *project*, only what is known to belong to it."""
    if project is None:
        places: dict[str, int] = {}
        for each in skipped.places:
            places[each.why] = places.get(each.why, 0) + 1
    else:
        within = _SKIPPED_IN.format(projects=projects_in(index.db, project))
        places = dict(index.db.execute(within))
    counts: dict[str, Any] = {
        "unpriced": [structs.asdict(each) for each in skipped.unpriced],
        "places": places,
    }
    if project is None:
        counts |= {
            "repeats": skipped.repeats,
            "synthetic": skipped.synthetic,
            "undated": skipped.undated,
        }
    return {name: each for name, each in counts.items() if each}


COST = Tool(past_costs, title="Tokens and costs of past sessions")
