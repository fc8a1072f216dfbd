"""How the work went: the report of `turnlog insights`, drawn as its own page draws it."""

from __future__ import annotations

from turnlog.export.html.insights_page import INSIGHTS_CSS, insights_sections, span_of
from turnlog.export.html.page import element
from turnlog.web.layout import field, form, framed, period_field
from turnlog.web.params import Params


def insights_page_for(asked: Params) -> str:
    """Draw the report of the period that was *asked* for."""
    desk = asked.desk
    found = desk.store.insights(since=asked.period, project=asked.project, timezone=desk.zone)
    since, until = span_of(found, desk.zone)
    return framed(
        "Insights",
        "Insights",
        element("h1", f"{since} to {until}" if since else f"up to {until}"),
        form(
            "/insights",
            period_field(asked),
            field("project", asked.text("project"), "project"),
        ),
        insights_sections(found, desk.zone, desk.clean),
        css=INSIGHTS_CSS,
    )
