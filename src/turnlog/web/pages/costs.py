"""The page of costs: one filter strip, charts in which every mark narrows it, and what is behind.

The last step is the responses of a session or a period, each with a link to its place.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from starlette.responses import HTMLResponse, Response

from turnlog.api.arguments import redaction_rules, shown_name
from turnlog.api.costs import (
    MAIN,
    SUBAGENTS,
    BudgetRow,
    Figures,
    LedgerRow,
    ResponseRow,
    TimeStep,
    TimeUnit,
    UsageChange,
    UsageNames,
    usage_names,
)
from turnlog.errors import UsageError
from turnlog.export.csv_cells import cell
from turnlog.export.html.charts import count, counted, part, short, table
from turnlog.export.html.insights_page import card
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.export.masking import Masking
from turnlog.pricing.money import shown
from turnlog.web.context import Params
from turnlog.web.cost_view import (
    GROUPS,
    INNER,
    MOST_ROWS,
    MOST_SESSIONS,
    PAGE,
    PARAMS,
    TIMES,
    CostView,
    cost_view,
    dollars,
    instant_text,
    last_offset,
    name_in,
    name_shown,
    narrowed,
    opened_usage,
    page_of,
    period_of,
    swap_link,
    usd_of,
)
from turnlog.web.layout import address, framed, pager
from turnlog.web.linked_charts import (
    COLORS,
    REST,
    Segment,
    Series,
    Stack,
    TreeCell,
    legend,
    stacked_bars,
    treemap,
)
from turnlog.web.report_strip import ReportFilter

_MOST_GROUPS: Final = 12
_MOST_INSIDE: Final = 6
_FEW_ROWS: Final = 15
_MOST_LINKED: Final = 62
"""With more steps, only the totals in the table of a chart are links."""
_HEADS: Final = ("cost", "messages", "input", "output", "cache written", "cache read", "cached")


def costs_page(params: Params) -> Response:
    """Return the page of costs."""
    asked = ReportFilter("/costs", params, PARAMS)
    with opened_usage(params.ctx) as source:
        names = usage_names(source.index)
        view = cost_view(asked, source, names)
    if view is None:
        note = element("p", "Correct the marked fields to see costs.", class_="note bad")
        head: Child = element("h1", "Costs")
        body: Child = note
    else:
        head = _head(view)
        body = _body(view)
    page = framed(
        "Costs",
        "Costs",
        element("div", head, id="head", data_live=True),
        _strip(asked, names),
        element("div", body, id="figures", data_live=True),
        styles=("costs",),
    )
    return HTMLResponse(page)  # Also with a mistake: one that is being typed is no error.


def costs_csv(params: Params) -> Response:
    """Return what the page shows as comma-separated values: the chart, or the responses."""
    asked = ReportFilter("/costs.csv", params, PARAMS)
    with opened_usage(params.ctx) as source:
        view = cost_view(asked, source, usage_names(source.index))
    if view is None:
        name, problem = next(iter(asked.problems.items()))
        raise UsageError(f"{name}: {problem}")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    rows = _response_cells(view) if view.behind and params.text("show") else _ledger_cells(view)
    writer.writerows([cell(each) for each in row] for row in rows)
    headers = {"content-disposition": 'attachment; filename="costs.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _strip(asked: ReportFilter, names: UsageNames) -> Fragment:
    tick = element(
        "label",
        element("input", type="checkbox", name="exact", value="1", checked="exact" in asked.values),
        "without subdirectories",
        class_="tick",
    )
    return asked.strip(
        asked.text_field("project", "project", "all", names.projects),
        tick if asked.values.get("project") else None,
        asked.select("model", "model", {each: shown_name("model", each) for each in names.models}),
        asked.select("subagent", "who", {MAIN: "main", SUBAGENTS: "subagents"}),
        asked.text_field("branch", "branch", "all", names.branches),
        asked.text_field("tag", "tag", "all", names.tags)
        if names.tags or "tag" in asked.values
        else None,
        hidden=("session", "tool", "time", "by", "inner", "show"),
    )


def _choices(
    view: CostView, name: str, options: dict[str, str], chosen: str, words: str
) -> Fragment:
    links = [
        swap_link(
            said,
            view.filter.link(**{name: value}),
            aria_current="true" if value == chosen else None,
        )
        for value, said in options.items()
        if value
    ]
    return element("span", links, class_="choices", role="group", aria_label=words)


# -- the head --------------------------------------------------------------------------------


def _head(view: CostView) -> Child:
    found = view.found
    return [
        element("h1", shown(usd_of(found.totals))),
        element("p", _delta(view)),
        element(
            "p",
            f"An estimate at the API's prices; each of {counted(found.totals.messages, 'response')}"
            " counts once. ",
            element(
                "a", "CSV", href=OwnUrl(str(view.filter.link()).replace("/costs", "/costs.csv", 1))
            ),
            class_="faint",
        ),
    ]


def _delta(view: CostView) -> Child:
    compared = view.found.comparison
    if compared is None:
        return None
    change, before = compared.totals, compared.before
    zone = view.ctx.zone
    first, last = before.since_at.astimezone(zone), before.until_at.astimezone(zone)
    days = (before.until_at - before.since_at).total_seconds() / 86_400
    if abs(days - round(days)) < 0.05 and days >= 1:
        span = "the day before" if round(days) == 1 else f"the {round(days):,} days before"
    else:
        span = f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    href = view.filter.link(
        since=instant_text(before.since_at), until=instant_text(before.until_at), show=None
    )
    was = [" (", swap_link(shown(Decimal(change.before_usd)), href), ")"]
    if change.percent is None:
        return [f"Nothing was used in {span}."]
    return [_change(change), f" vs. {span}", was]


def _change(change: UsageChange | None) -> Child:
    if change is None:
        return None
    if change.percent is None:
        return "new" if Decimal(change.cost_usd) else None
    direction = "up" if change.percent > 0 else "down" if change.percent < 0 else None
    return element("span", f"{change.percent:+,.0f} %".replace("-", "−"), class_=direction)  # noqa: RUF001


# -- figures ---------------------------------------------------------------------------------


def _body(view: CostView) -> Child:
    found = view.found
    narrowed = [_chip(view, each) for each in ("session", "tool") if each in view.filter.values]
    chips = element("ul", narrowed, class_="narrowed") if narrowed else None
    if not found.totals.messages and not found.groups:
        return [chips, _cards(view), element("p", "Nothing was used then.")]
    return [
        chips,
        _cards(view),
        _over_time(view),
        _tree(view),
        _groups(view),
        _sessions(view),
        _responses(view),
        _unpriced(view),
    ]


def _chip(view: CostView, name: str) -> Fragment:
    value = view.filter.values[name]
    words = f"{name}: {name_shown(view, name, value)} ×"  # noqa: RUF001 - A cross.
    link = swap_link(
        words, view.filter.link(**{name: None, "show": None}), title="Remove this filter"
    )
    return element("li", link)


def _cards(view: CostView) -> Fragment:
    totals, now = view.found.totals, view.pace
    tokens = totals.input + totals.output + totals.cache_write_5m + totals.cache_write_1h
    cards = [
        card(count(len(view.found.sessions)), "sessions"),
        card(short(tokens + totals.cache_read), "tokens"),
        card(part(totals.cache_efficiency), "read from the cache"),
    ]
    block = now.block
    if block is not None:
        href = address(
            "/costs", since=instant_text(block.start_at), until=instant_text(block.end_at)
        )
        words = f"in this five-hour block, until {block.end_at.astimezone(view.ctx.zone):%H:%M}"
        if block.projected_usd is not None:
            words += f"; ${block.usd_per_hour} an hour leads to ${block.projected_usd}"
        cards.append(_card(swap_link(shown(usd_of(block)), href), words))
    cards += [_budget(view, each) for each in now.budgets]
    return element("div", cards, class_="cards")


def _card(value: Child, words: str, *more: Child) -> Fragment:
    return element("div", element("b", value), element("span", words), more, class_="card")


def _budget(view: CostView, row: BudgetRow) -> Fragment:
    used, limit = Decimal(row.used_usd), Decimal(row.limit_usd)
    where = f" in {view.ctx.project_name(row.project)}" if row.project else ""
    words = f"of {shown(limit)}, {row.budget} budget{where}"
    if row.projected_usd is not None:
        words += f"; this pace leads to ${row.projected_usd}"
    value: Child = shown(used)
    if row.start_at is not None and row.end_at is not None:
        href = address(
            "/costs",
            since=instant_text(row.start_at),
            until=instant_text(row.end_at),
            project=row.project,
        )
        value = swap_link(value, href)
    meter = element(
        "meter",
        value=float(used),
        max=float(limit) or 1.0,
        low=float(limit) * 0.8 or None,
        high=float(limit) or None,
        optimum="0",
        aria_label=f"{row.budget} budget{where}",
    )
    state = {"ok": None, "near": "near its limit", "exceeded": "exceeded"}[row.state]
    return _card(value, f"{words}: {state}" if state else words, meter)


class _Group(NamedTuple):
    """A series of the chart."""

    name: str | None
    words: str
    color: int
    row: LedgerRow


def _series(view: CostView) -> tuple[list[_Group], list[LedgerRow]]:
    """Return the series with colors of their own, and the others."""
    found = view.found
    rows = [row for row in found.groups if usd_of(row)]
    top = rows if len(rows) <= COLORS else rows[: COLORS - 1]
    groups = [
        _Group(name, name_shown(view, found.group, name), number, row)
        for number, row in enumerate(top)
        for name in [name_in(found.group, row)]
    ]
    return groups, rows[len(top) :]


def _over_time(view: CostView) -> Fragment:
    found = view.found
    groups, others = _series(view)
    costs: dict[str | None, dict[str | None, Decimal]] = {}
    for row in found.rows:
        costs.setdefault(name_in(found.unit, row), {})[name_in(found.group, row)] = usd_of(row)
    stacks = [_stack(view, step, costs.get(step.name, {}), groups) for step in found.steps]
    entries = [
        Series(
            each.words,
            shown(usd_of(each.row)),
            each.color,
            narrowed(view, (found.group, each.name)),
        )
        for each in groups
    ]
    if others:
        total = sum((usd_of(row) for row in others), Decimal(0))
        entries.append(Series(counted(len(others), "other"), shown(total), REST, OwnUrl("#by")))
    times = {**TIMES, found.unit: found.unit}
    title = f"Cost by {found.unit} and {GROUPS[found.group]}"
    return element(
        "section",
        element(
            "h2",
            element("span", "Over time"),
            _choices(view, "time", times, found.unit, "Bars"),
            _choices(view, "by", {each: f"by {each}" for each in GROUPS}, found.group, "Colors"),
        ),
        stacked_bars(title, stacks, shown=dollars),
        legend(entries),
        _tags_note(view),
        _numbers(view, costs, groups, has_others=bool(others)),
    )


def _tags_note(view: CostView) -> Child:
    if view.found.group != "tag":
        return None
    note = "A session with several tags is in the rows of all of them, and once in the total."
    return element("p", note, class_="faint")


def _stack(
    view: CostView, step: TimeStep, costs: dict[str | None, Decimal], groups: Sequence[_Group]
) -> Stack:
    within = period_of(view, step)
    group = view.found.group
    href = narrowed(view, **within)
    segments = [
        Segment(
            each.words,
            float(costs[each.name]),
            each.color,
            narrowed(view, (group, each.name), **within),
        )
        for each in groups
        if costs.get(each.name)
    ]
    own = {each.name for each in groups}
    rest = sum((usd for name, usd in costs.items() if name not in own), Decimal(0))
    if rest:
        segments.append(Segment("others", float(rest), REST, href))
    return Stack(step.name, segments, href, _label(view.found.unit, step.name))


def _label(unit: TimeUnit, name: str) -> str:
    """Return the name of a bar for the axis."""
    if unit == "hour":
        return name[11:]
    day = date.fromisoformat(f"{name}-01" if unit == "month" else name)
    return f"{day:%b %Y}" if unit == "month" else f"{day:%b} {day.day}"


def _numbers(
    view: CostView,
    costs: dict[str | None, dict[str | None, Decimal]],
    groups: Sequence[_Group],
    *,
    has_others: bool,
) -> Fragment:
    """Return the table with the numbers of the bars, the latest first."""
    found = view.found
    is_linked = len(found.steps) <= _MOST_LINKED
    own = {each.name for each in groups}
    rows: list[list[Child]] = []
    for step in reversed(found.steps):
        used = costs.get(step.name, {})
        within = period_of(view, step)
        row: list[Child] = [swap_link(step.name, narrowed(view, **within))]
        for each in groups:
            usd = used.get(each.name)
            words = shown(usd) if usd else ""
            href = narrowed(view, (found.group, each.name), **within)
            row.append(swap_link(words, href) if usd and is_linked else words)
        rest = sum((usd for name, usd in used.items() if name not in own), Decimal(0))
        row += [shown(rest) if rest else ""] if has_others else []
        rows.append([*row, shown(sum(used.values(), Decimal(0)))])
    heads = [
        found.unit,
        *(each.words for each in groups),
        *(["others"] if has_others else []),
        "all",
    ]
    undated = costs.get(None)
    total = sum(undated.values(), Decimal(0)) if undated else Decimal(0)
    return element(
        "details",
        element("summary", "The numbers of this chart"),
        table(heads, rows),
        element("p", f"{shown(total)} has no date.", class_="faint") if total else None,
        id="numbers",
    )


def _tree(view: CostView) -> Child:
    found, inner = view.found, view.filter.params.one_of("inner", INNER)
    projects: dict[str | None, list[LedgerRow]] = {}
    for row in sorted(found.cells, key=usd_of, reverse=True):
        if usd_of(row):
            projects.setdefault(name_in("project", row), []).append(row)
    sums = {name: sum(map(usd_of, rows), Decimal(0)) for name, rows in projects.items()}
    ranked = sorted(sums, key=lambda name: -sums[name])
    cells = []
    for number, name in enumerate(ranked[:_MOST_GROUPS]):
        rows, words = projects[name], name_shown(view, "project", name)
        inside = [
            TreeCell(
                name_shown(view, inner, name_in(inner, row)),
                float(usd_of(row)),
                number,
                narrowed(view, ("project", name), (inner, name_in(inner, row))),
            )
            for row in rows[:_MOST_INSIDE]
        ]
        rest = sum(map(usd_of, rows[_MOST_INSIDE:]), Decimal(0))
        href = narrowed(view, ("project", name))
        if rest:
            inside.append(TreeCell(f"{len(rows) - _MOST_INSIDE} more", float(rest), number, href))
        cells.append(TreeCell(words, float(sums[name]), number, href, inside))
    rest = sum((sums[name] for name in ranked[_MOST_GROUPS:]), Decimal(0))
    if rest:
        more = counted(len(ranked) - _MOST_GROUPS, "more project")
        cells.append(TreeCell(more, float(rest), REST, view.filter.link(by="project")))
        cells.sort(key=lambda each: -each.value)
    if not cells:
        return None
    table_rows = [
        (
            swap_link(name_shown(view, "project", name), narrowed(view, ("project", name))),
            swap_link(
                name_shown(view, inner, name_in(inner, row)),
                narrowed(view, ("project", name), (inner, name_in(inner, row))),
            ),
            shown(usd_of(row)),
        )
        for name in ranked[:_MOST_GROUPS]
        for row in projects[name][:_MOST_INSIDE]
    ]
    return element(
        "section",
        element(
            "h2",
            element("span", "Where it went"),
            _choices(
                view,
                "inner",
                {each: f"project and {each}" for each in INNER},
                inner,
                "Cells",
            ),
        ),
        treemap(f"Cost by project and {inner}", cells, shown=dollars),
        element(
            "details",
            element("summary", "The numbers of this map"),
            table(("project", inner, "cost"), table_rows, names=2),
            id="cells",
        ),
    )


def _groups(view: CostView) -> Fragment:
    found = view.found
    compared = found.comparison
    changes: dict[object, UsageChange] = {}
    if compared is not None:
        changes = {getattr(row, found.group): row for row in compared.rows}

    def figures(row: Figures, change: UsageChange | None) -> tuple[Child, ...]:
        usd, *others = _figures(row)
        return (usd, _change(change), *others) if compared else (usd, *others)

    rows: list[tuple[Child, ...]] = []
    for row in found.groups[:MOST_ROWS]:
        name = name_in(found.group, row)
        words = swap_link(name_shown(view, found.group, name), narrowed(view, (found.group, name)))
        path = view.ctx.clean(name) if found.group == "project" and name else None
        cells = figures(row, changes.get(name))
        rows.append(([words, element("small", path) if path else None], *cells))
    total = figures(found.totals, compared.totals if compared else None)
    rows.insert(0, (element("b", "all together"), *total))
    heads = (found.group, "cost", *(["change"] if compared else []), *_HEADS[1:])
    return element(
        "section",
        element("h2", f"By {GROUPS[found.group]}", id="by"),
        table(heads, rows[: _FEW_ROWS + 1]),
        _folded(heads, rows[_FEW_ROWS + 1 :]),
        _more(len(found.groups) - MOST_ROWS, "row"),
    )


def _folded(heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Child:
    if not rows:
        return None
    summary = element("summary", counted(len(rows), "more row"))
    return element("details", summary, table(heads, rows), id="more-rows")


def _more(left: int, noun: str) -> Child:
    return (
        element("p", f"{counted(left, f'more {noun}')} in the CSV.", class_="more")
        if left > 0
        else None
    )


def _figures(row: Figures) -> tuple[Child, ...]:
    return (
        shown(usd_of(row)),
        count(row.messages),
        short(row.input),
        short(row.output),
        short(row.cache_write_5m + row.cache_write_1h),
        short(row.cache_read),
        part(row.cache_efficiency),
    )


# -- what is behind --------------------------------------------------------------------------


def _sessions(view: CostView) -> Fragment:
    found = view.found
    rows = []
    for row in found.sessions[:MOST_SESSIONS]:
        name = name_in("session", row)
        title: Child = name_shown(view, "session", name)
        usd: Child = shown(usd_of(row))
        if name:
            link = element("a", title, href=address(f"/session/{name}"))
            title = [link, element("small", name[:8])]
            usd = swap_link(usd, narrowed(view, ("session", name)))
        rows.append((title, usd, *_figures(row)[1:]))
    more = len(found.sessions) - MOST_SESSIONS
    return element(
        "section",
        element("h2", f"{counted(len(found.sessions), 'session')} behind it"),
        table(("session", *_HEADS), rows),
        element(
            "p",
            swap_link(counted(more, "more session"), view.filter.link(by="session")),
            class_="more",
        )
        if more > 0
        else None,
    )


def _responses(view: CostView) -> Fragment:
    behind, params = view.behind, view.filter.params
    if behind is None:
        words = f"List the {count(view.found.totals.messages)} responses behind it"
        return element("p", swap_link(words, view.filter.link(show="responses")), id="responses")
    offset = min(params.offset, last_offset(behind.rows))
    rows = [_response(view, row) for row in page_of(behind.rows, offset)]
    heads = ("when", "cost", "model", "session", "input", "output", "cache written", "cache read")
    values = {**view.filter.values, "show": "responses"}
    is_more = offset + PAGE < len(behind.rows)
    return element(
        "section",
        element("h2", f"{counted(len(behind.rows), 'response')} behind it", id="responses"),
        element("p", "The most expensive first; each link leads to its place.", class_="faint"),
        table(heads, rows, names=4),
        pager("/costs", values, offset, PAGE, is_more),
    )


def _response(view: CostView, row: ResponseRow) -> tuple[Child, ...]:
    when = view.ctx.when(row.at) or "no date"
    uuid = view.uuids.get((row.log, row.offset))
    place: Child = when
    if row.session:
        place = element("a", when, href=address(f"/session/{row.session}", record=uuid))
    return (
        place,
        f"${usd_of(row):.4f}" if not row.unpriced else "no price",
        view.ctx.clean(shown_name("model", row.model)),
        [
            name_shown(view, "session", row.session),
            element("small", "subagent") if row.subagent else None,
        ],
        count(row.input),
        count(row.output),
        count(row.cache_write_5m + row.cache_write_1h),
        count(row.cache_read),
    )


def _unpriced(view: CostView) -> list[Fragment]:
    return [
        element(
            "p",
            f"No price is known for {view.ctx.clean(each.model)}: {count(each.messages)} messages,"
            f" {short(each.tokens)} tokens are in no cost.",
            class_="note",
        )
        for each in view.found.skipped.unpriced
    ]


# -- files -----------------------------------------------------------------------------------

_COLUMNS: Final = (
    "messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "cost_usd",
)  # fmt: skip


def _ledger_cells(view: CostView) -> Iterator[list[Any]]:
    found, mask = view.found, _mask(view)
    yield [found.unit, found.group, *_COLUMNS]
    for row in found.rows:
        name = name_in(found.group, row)
        words = "" if name is None else mask(name)
        yield [name_in(found.unit, row), words, *_exact(row)]
    yield ["total", "", *_exact(found.totals)]


def _response_cells(view: CostView) -> Iterator[list[Any]]:
    assert view.behind is not None
    mask = _mask(view)
    yield ["at", "model", "session", "subagent", *_COLUMNS]
    for row in view.behind.rows:
        names = (mask(each or "") for each in (row.model, row.session, row.subagent))
        yield [row.at, *names, *_exact(row)]
    yield ["total", "", "", "", *_exact(view.behind.totals)]


def _mask(view: CostView) -> Callable[[str], str]:
    """Return what masks secrets: files leave this machine, so they never contain any."""
    return view.ctx.mask or Masking(rules=redaction_rules()).text


def _exact(row: Figures) -> list[Any]:
    return [getattr(row, name) for name in _COLUMNS]
