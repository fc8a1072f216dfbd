"""The first page: recent costs, warnings, and the list of sessions."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, cast

from turnlog.api.insights import Attention, Overview, overview
from turnlog.api.sessions.lists import (
    IndexedSession,
    SessionSort,
    costs_by,
    list_indexed,
    list_projects,
)
from turnlog.export.html.charts import count, counted, short
from turnlog.export.html.insights_page import card
from turnlog.export.html.page import Child, Fragment, element
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import CARDS_CSS, address, choice, field, form, framed, pager, tick

_LIMIT: Final = 50
_SORTS: Final[dict[str, str]] = {
    "active": "latest first",
    "tokens": "most tokens first",
    "prompts": "most prompts first",
    "duration": "longest first",
    "size": "largest first",
    "title": "by title",
}
_KEPT: Final = {"gone": "gone", "restorable": "gone, restorable", "kept": "kept", "live": ""}

CSS: Final = """
td.title { min-width: 16rem; width: 45%; }
td.title a { color: inherit; font-weight: 600; text-decoration: none; }
td.title a:hover { color: var(--accent); }
td.title small, td.when small { display: block; color: var(--faint); }
td.when { white-space: nowrap; }
td.project { white-space: nowrap; }
@media (max-width: 56rem) { td.title { min-width: 12rem; } }
.live { color: var(--good); } .bad { color: var(--bad); }
"""


def sessions_page(params: Params) -> str:
    """Return the list of sessions."""
    ctx, project = params.ctx, params.project
    sort = params.one_of("sort", _SORTS)
    with ctx.store.index() as index:
        found = list_indexed(
            index,
            project=project,
            text_in_title=params.text("title") or None,
            since=params.moment("since"),
            gone=params.is_on("gone"),
            sort=cast("SessionSort", sort),
            limit=_LIMIT,
            offset=params.offset,
            costs=costs_by("session", index, ctx.prices),
            now=ctx.now(),
        )
        is_plain = not any(
            params.text(name) for name in ("title", "project", "since", "gone", "offset")
        )
        seen = (
            overview(index, ctx.store.homes, ctx.prices, now=ctx.now(), zone=ctx.zone)
            if is_plain
            else None
        )
        projects = sorted({row.path for row in list_projects(index).projects if row.path})
    rows = [_row(row, ctx) for row in found.sessions]
    heads = ("session", "project", "active", "prompts", "tokens", "cost")
    numbers = heads[3:]
    top = [element("th", each, class_="number" if each in numbers else None) for each in heads]
    table = element("table", element("thead", element("tr", top)), element("tbody", rows))
    nothing = element("p", "No session is like that." if not is_plain else "There are no sessions.")
    return framed(
        "Sessions",
        "Sessions",
        _seen(seen) if seen else None,
        element("h1", f"{count(found.total)} session{'' if found.total == 1 else 's'}"),
        form(
            "/",
            field("title", params.text("title"), "words in the title"),
            field("project", params.text("project"), "project", listed="projects"),
            field("since", params.text("since"), "since: 7d, monday, 2026-11"),
            choice("sort", sort, "order", list(_SORTS.items())),
            tick("gone", "gone at their source", is_on=params.is_on("gone")),
            element(
                "datalist",
                [element("option", value=ctx.clean(each)) for each in projects],
                id="projects",
            ),
        ),
        element("div", table, class_="scroll") if rows else nothing,
        pager("/", params.fields, params.offset, _LIMIT, found.next is not None),
        css=CARDS_CSS + CSS,
    )


def _seen(seen: Overview) -> Fragment:
    cards = [
        card(
            shown(Decimal(each.cost_usd)),
            f"{each.period}: {short(each.tokens)} tokens, {counted(each.sessions, 'session')}",
        )
        for each in seen.periods
    ]
    return element("div", element("div", cards, class_="cards"), list(_attention(seen.attention)))


def _attention(attention: Attention) -> Iterable[Fragment]:
    """Yield a note for each kind of problem, with the command that helps."""
    said = (
        (attention.about_to_be_deleted, "The agent's cleanup takes {} within a week", "keep"),
        (attention.crashed, "{} did not end in good order", "recover"),
        (attention.damaged, "There is damage in the logs of {}", "doctor"),
    )
    for number, words, command in said:
        if number:
            told = f"{words.format(counted(number, 'session'))}: "
            yield element("p", told, element("code", f"turnlog {command}"), class_="note")


def _row(row: IndexedSession, ctx: PageContext) -> Fragment:
    title = ctx.clean(row.title) or "(nothing was said)"
    facts = [
        ctx.clean(row.git_branch),
        *(f"#{ctx.clean(tag)}" for tag in row.tags),
        counted(row.subagents, "subagent") if row.subagents else "",
    ]
    marks: list[Child] = []
    if row.running:
        marks.append(element("span", f"● {row.running}", class_="live"))
    if row.damages:
        marks.append(element("span", f"! {counted(row.damages, 'damage')}", class_="bad"))
    if _KEPT[row.keeping]:
        marks.append(_KEPT[row.keeping])
    return element(
        "tr",
        element(
            "td",
            element("a", title, href=address(f"/session/{row.id}")),
            element("small", " · ".join(each for each in (row.id[:8], *facts) if each)),
            class_="title",
        ),
        element(
            "td",
            element("a", ctx.project_name(row.project), href=address("/", project=row.project)),
            class_="project",
        ),
        element(
            "td",
            ctx.when(row.last_active_at),
            element("small", [[mark, " "] for mark in marks]) if marks else None,
            class_="when",
        ),
        element("td", count(row.prompts), class_="number"),
        element("td", short(row.tokens), class_="number"),
        element("td", shown(Decimal(row.cost_usd)) if row.cost_usd else "", class_="number"),
    )
