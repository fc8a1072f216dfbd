"""The page of insights, and the records behind each of its figures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from msgspec import UNSET, structs
from starlette.responses import HTMLResponse, Response

from turnlog.api.costs import NAMELESS
from turnlog.api.insights import Evidence, InsightsExplanation, Scope, explain, insights
from turnlog.api.sessions.lists import list_projects, uuids_at
from turnlog.export.html.charts import count, short, table, time
from turnlog.export.html.insights_page import InsightLinks, insights_sections, span_of
from turnlog.export.html.page import Child, OwnUrl, element
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params, one_project
from turnlog.web.layout import address, framed, pager
from turnlog.web.report_strip import SWAPPED, ReportFilter

_PARAMS: Final = ("since", "until", "project", "figure", "offset")
_ROWS: Final = 100
_NOT_KNOWN: Final = "not known"
Uuids = dict[tuple[str, int], str]


def insights_page_for(params: Params) -> Response:
    """Return the report on a period, or what is behind one of its figures."""
    ctx, asked = params.ctx, ReportFilter("/insights", params, _PARAMS)
    with ctx.store.index() as index:
        projects = sorted({row.path for row in list_projects(index).projects if row.path})
        since, until = asked.period()
        project = asked.parse("project", lambda text: one_project(text, projects))
        scope = Scope(
            zone=ctx.zone,
            now=ctx.now(),
            since=since,
            until=until,
            project=project,
            mask=ctx.mask or str,
        )
        head: Child = element("h1", "Insights")
        body: Child = element("p", "Correct the marked fields to see insights.", class_="note bad")
        figure = asked.values.get("figure")
        if figure and not asked.problems:
            wanted = structs.replace(scope, limit=_ROWS)
            behind = explain(index, ctx.prices, wanted, figure, params.offset)
            if params.offset and not behind.rows:  # The last page was left behind.
                behind = explain(index, ctx.prices, wanted, figure)
                asked.values.pop("offset", None)
            uuids = uuids_at(index, ((row.log, row.offset) for row in behind.rows))
            name = ctx.clean(behind.figure).replace(":", " · ", 1)
            head = element("h1", f"{name}: {count(behind.total)}")
            body = _behind(asked, behind, uuids)
        elif not asked.problems:
            found = insights(index, ctx.prices, scope)
            places = ((row.log, row.offset) for row in found.turns.longest)
            links = _links(asked, scope, uuids_at(index, places))
            first, last = span_of(found, ctx.zone)
            head = element("h1", f"{first} to {last}" if first else f"up to {last}")
            body = insights_sections(found, ctx.zone, ctx.clean, links)
    page = framed(
        "Insights",
        "Insights",
        element("div", head, id="head", data_live=True),
        asked.strip(asked.text_field("project", "project", "all", projects), hidden=("figure",)),
        element("div", body, id="figures", data_live=True),
        styles=("charts", "insights", "costs"),
    )
    return HTMLResponse(page)  # Also with a mistake: one that is being typed is no error.


# -- links -----------------------------------------------------------------------------------


def _links(asked: ReportFilter, scope: Scope, uuids: Uuids) -> InsightLinks:
    """Return where the rows lead: to costs if they are about money, else to what is behind."""
    ctx = asked.params.ctx
    period = {name: asked.values.get(name) for name in ("since", "until", "project")}

    def behind(figure: str, row: str | None) -> OwnUrl | None:
        if row is not None and ctx.clean(row) != row:
            return None  # The address would contain a secret.
        if figure == "days":
            return address("/costs", **{**period, **(_within(row, scope) if row else {})})
        if figure == "models" and row:
            return address("/costs", **period, model=row)
        if figure == "projects" and row:
            # The row does not count projects inside of it.
            project = NAMELESS if row == _NOT_KNOWN else row
            return address("/costs", **{**period, "project": project, "exact": "1"})
        return asked.link(figure=f"{figure}:{row}" if row else figure)

    def place(session: str | None, log: str, offset: int) -> OwnUrl | None:
        return _place(session, uuids.get((log, offset)))

    def period_of(since: datetime, until: datetime) -> OwnUrl | None:
        return asked.link(since=_instant(since), until=_instant(until))

    return InsightLinks(behind, place, period_of)


def _within(day: str, scope: Scope) -> dict[str, str | None]:
    """Return the period of a day; the first and the last one may be cut by the scope."""
    begin = date.fromisoformat(day)
    since, until = begin.isoformat(), (begin + timedelta(days=1)).isoformat()
    if scope.since and scope.since.astimezone(scope.zone).date() == begin:
        since = _instant(scope.since)
    if scope.until and scope.until.astimezone(scope.zone).date() == begin:
        until = _instant(scope.until)
    return {"since": since, "until": until}


def _instant(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _place(session: str | None, uuid: str | None) -> OwnUrl | None:
    return address(f"/session/{session}", record=uuid) if session else None


# -- what is behind a figure -----------------------------------------------------------------


def _behind(asked: ReportFilter, behind: InsightsExplanation, uuids: Uuids) -> Child:
    ctx, offset = asked.params.ctx, int(asked.values.get("offset", "0"))
    back = element("a", "← all insights", href=asked.link(figure=None), data_swap=SWAPPED)
    figures = (_HEADS.get(name, name) for name, _ in _COLUMNS if _has(behind, name))
    heads = ("when", "what", "project", *figures)
    rows = [_row(row, behind, uuids, ctx) for row in behind.rows]
    return [
        element("p", back),
        element("p", behind.about),
        table(heads, rows, names=3) if rows else element("p", "There is nothing in this period."),
        pager("/insights", asked.values, offset, _ROWS, behind.next is not None),
    ]


def _row(row: Evidence, behind: InsightsExplanation, uuids: Uuids, ctx: PageContext) -> list[Child]:
    href = _place(row.session, uuids.get((row.log, row.offset)))
    when = ctx.when(row.at) or "no date"
    what = ctx.clean(row.what)
    cells: list[Child] = [
        element("a", when, href=href) if href else when,
        what if len(what) <= _LONGEST else f"{what[:_LONGEST]}…",
        ctx.project_name(row.project),
    ]
    for name, words in _COLUMNS:
        if _has(behind, name):
            value = getattr(row, name)
            cells.append("" if value is UNSET else words(value))
    return cells


def _has(behind: InsightsExplanation, name: str) -> bool:
    return any(getattr(row, name) is not UNSET for row in behind.rows)


_LONGEST: Final = 300
_HEADS: Final = {"cost_usd": "cost", "duration_ms": "took"}
_COLUMNS: Final[tuple[tuple[str, Callable[[Any], str]], ...]] = (
    ("cost_usd", lambda usd: shown(Decimal(usd))),
    ("tokens", short),
    ("duration_ms", time),
    ("added", lambda lines: f"+{lines:,}"),
    ("removed", lambda lines: f"−{lines:,}"),  # noqa: RUF001 - A minus.
)
