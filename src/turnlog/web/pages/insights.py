"""The page of insights."""

from __future__ import annotations

from turnlog.export.html.insights_page import INSIGHTS_CSS, insights_sections, span_of
from turnlog.export.html.page import element
from turnlog.web.context import Params
from turnlog.web.layout import field, form, framed, period_field


def insights_page_for(params: Params) -> str:
    """Return the report on a period."""
    ctx = params.ctx
    found = ctx.store.insights(since=params.period, project=params.project, timezone=ctx.zone)
    since, until = span_of(found, ctx.zone)
    return framed(
        "Insights",
        "Insights",
        element("h1", f"{since} to {until}" if since else f"up to {until}"),
        form(
            "/insights",
            period_field(params),
            field("project", params.text("project"), "project"),
        ),
        insights_sections(found, ctx.zone, ctx.clean),
        css=INSIGHTS_CSS,
    )
