"""The page of costs, by day, project, model or session."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, cast

from turnlog.api.arguments import shown_name
from turnlog.api.costs import Figures, Ledger, LedgerRow, Unit
from turnlog.api.sessions.lists import list_indexed
from turnlog.export.html.charts import (
    CHART_CSS,
    Bar,
    ChartPoint,
    bars,
    count,
    counted,
    lines,
    part,
    short,
    table,
)
from turnlog.export.html.insights_page import spending
from turnlog.export.html.page import Child, Fragment, element
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, choice, field, form, framed, period_field

_UNITS: Final[dict[str, str]] = {
    "day": "by day",
    "week": "by week",
    "month": "by month",
    "project": "by project",
    "model": "by model",
    "session": "by session",
    "branch": "by branch",
    "tool": "by tool",
}
_TIMES: Final = ("day", "week", "month")
_MOST_BARS: Final = 12
_LIMIT: Final = 200


def costs_page(params: Params) -> str:
    """Return the page of costs."""
    ctx = params.ctx
    unit = cast("Unit", params.one_of("by", _UNITS))
    found = ctx.store.cost(
        by=[unit],
        since=params.period,
        project=params.project,
        timezone=ctx.zone,
    )
    titles = _titles(ctx) if unit == "session" else {}
    rows = found.rows if unit in _TIMES else sorted(found.rows, key=_usd, reverse=True)
    listed = (rows[::-1] if unit in _TIMES else rows)[:_LIMIT]
    heads = (unit, "messages", "input", "output", "cache written", "cache read", "cached", "cost")
    cells = [(_name(unit, row, titles, ctx), *_figures(row)) for row in listed]
    cells.append((element("b", "all together"), *_figures(found.totals)))
    left = len(rows) - len(listed)
    return framed(
        "Costs",
        "Costs",
        element("h1", shown(Decimal(found.totals.cost_usd))),
        element("p", "An estimate at the API's prices; each response counts once.", class_="faint"),
        form(
            "/costs",
            choice("by", unit, "rows", list(_UNITS.items())),
            period_field(params),
            field("project", params.text("project"), "project"),
        ),
        _chart(unit, rows, titles, ctx) if rows else None,
        table(heads, cells) if rows else element("p", "Nothing was used then."),
        element("p", f"{counted(left, 'more row')}: turnlog cost --by {unit}", class_="faint")
        if left > 0
        else None,
        _unpriced(found, ctx),
        css=CHART_CSS + "table { margin-top: 1.4rem; }",
    )


def _usd(row: Figures) -> Decimal:
    return Decimal(row.cost_usd)


def _named(unit: Unit, row: LedgerRow) -> str | None:
    name = getattr(row, unit)
    return name if isinstance(name, str) else None


def _chart(unit: Unit, rows: list[LedgerRow], titles: dict[str, str], ctx: PageContext) -> Fragment:
    def label(row: LedgerRow) -> str:
        name = _named(unit, row)
        return ctx.clean(titles.get(name or "") or shown_name(unit, name))

    if unit == "day":
        costs = {row.day: float(_usd(row)) for row in rows if isinstance(row.day, str)}
        return spending(costs, min(costs), max(costs)) if costs else bars("Cost", [])
    if unit in _TIMES:
        points = [ChartPoint(label(row), float(_usd(row))) for row in rows]
        return lines("Cost over time", points, shown=lambda usd: f"${usd:,.2f}", width=900)
    dear = [Bar(label(row), float(_usd(row)), shown(_usd(row))) for row in rows[:_MOST_BARS]]
    return bars(f"Cost {_UNITS[unit]}", dear, width=760)


def _name(unit: Unit, row: LedgerRow, titles: dict[str, str], ctx: PageContext) -> Child:
    name = _named(unit, row)
    words = ctx.clean(titles.get(name or "") or shown_name(unit, name))
    if unit == "session" and name:
        return element("a", words, href=address(f"/session/{name}"))
    if unit == "project" and name:
        return element("a", words, href=address("/", project=name))
    return words


def _figures(row: Figures) -> tuple[str, ...]:
    return (
        count(row.messages),
        short(row.input),
        short(row.output),
        short(row.cache_write_5m + row.cache_write_1h),
        short(row.cache_read),
        part(row.cache_efficiency),
        shown(_usd(row)),
    )


def _titles(ctx: PageContext) -> dict[str, str]:
    with ctx.store.index() as index:
        found = list_indexed(index, archived=None, detailed=0)
    return {row.id: row.title for row in found.sessions if row.title}


def _unpriced(found: Ledger, ctx: PageContext) -> list[Fragment]:
    return [
        element(
            "p",
            f"No price is known for {ctx.clean(each.model)}: {count(each.messages)} messages,"
            f" {short(each.tokens)} tokens are in no cost.",
            class_="note",
        )
        for each in found.skipped.unpriced
    ]
