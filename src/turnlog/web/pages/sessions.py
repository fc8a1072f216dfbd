"""The first page: the list of sessions with its filters, recent costs, and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, cast

from msgspec import Struct, UnsetType

from turnlog.api.arguments import resolve_instant
from turnlog.api.homes import last_part
from turnlog.api.insights import Attention, Overview, overview
from turnlog.api.sessions.lists import (
    FacetValue,
    IndexedSession,
    SessionCatalog,
    SessionCosts,
    SessionFacets,
    SessionSort,
    list_indexed,
    project_directories,
)
from turnlog.errors import UsageError
from turnlog.export.html.charts import count, counted, short
from turnlog.export.html.insights_page import card
from turnlog.export.html.page import Child, Fragment, OwnUrl, element, joined
from turnlog.pricing.money import shown
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, copied_responses, framed

_LIMIT: Final = 50
"""How many rows are loaded at once: about two screens."""
_VALUES: Final = 8
"""How many values of a facet are listed."""
_SWAPPED: Final = "filters chips facets total overview list"
_KEPT: Final = {"gone": "gone", "restorable": "deleted, restorable", "kept": "kept", "live": ""}
_RISING: Final = ("title", "project")
"""The columns that are first sorted by the alphabet, not with the most first."""

# Name, words, and what may be typed.
_TEXTS: Final = (
    ("words", "words", "in the title or first prompt"),
    ("project", "project", "name or path"),
    ("since", "since", "7d, monday, 2026-11"),
    ("until", "until", "yesterday, 2026-11-30"),
    ("model", "model", "part of a name"),
    ("branch", "branch", "main"),
    ("tool", "tool", "Bash"),
    ("tag", "tag", "billing"),
    ("agent", "agent", "Claude Code"),
    ("cost", "cost at least $", "5"),
)
_FIRST_TEXTS: Final = 3
_FLAGS: Final = {
    "running": "running",
    "errors": "has errors",
    "subagents": "has subagents",
    "damaged": "damaged",
    "pinned": "pinned",
    "kept": "kept",
    "gone": "gone at their source",
}
_FILTERS: Final = (*(name for name, _, _ in _TEXTS), *_FLAGS)
_FACETS: Final = {
    "project": "projects",
    "model": "models",
    "branch": "branches",
    "tool": "tools",
    "tag": "tags",
    "agent": "agents",
}


class _Column(Struct, frozen=True):
    """A column of the list: how it is sorted, and what a cell has."""

    sort: str
    words: str
    cell: Callable[[IndexedSession], str]
    name: str = "number"


def _lasted(row: IndexedSession) -> str:
    if row.started_at is None or row.last_active_at is None:
        return ""
    minutes = max(timedelta(), row.last_active_at - row.started_at) // timedelta(minutes=1)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60:02}" if hours else f"{minutes} min"


def _size(row: IndexedSession) -> str:
    size = row.size_bytes / 1000
    return f"{size:,.0f} kB" if size < 1000 else f"{size / 1000:,.1f} MB"


_NUMBERS: Final = (
    _Column("cost", "cost", lambda row: shown(Decimal(row.cost_usd)) if row.cost_usd else ""),
    _Column("tokens", "tokens", lambda row: short(row.tokens) if row.tokens else ""),
    _Column("prompts", "prompts", lambda row: count(row.prompts)),
    _Column("duration", "duration", _lasted),
    _Column("errors", "errors", lambda row: count(row.errors) if row.errors else "", "number bad"),
    _Column("subagents", "subagents", lambda row: count(row.subagents) if row.subagents else ""),
    _Column("size", "size", _size),
)
_HEADS: Final = {
    "title": "session", "project": "project", "active": "active", "started": "started",
    **{column.sort: column.words for column in _NUMBERS},
}  # fmt: skip
_SORTS: Final = {"active": "", **_HEADS}


class _Asked:
    """The filters of a request, and what is wrong with them."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self.problems: dict[str, str] = {}
        """What is wrong with a field, by its name."""
        self.sort = params.one_of("sort", _SORTS)
        self.is_reversed = params.is_on("reverse")
        self.given = {name: text for name in _FILTERS if (text := params.text(name))}

    def filters(self, directories: Callable[[str], tuple[list[str], str]]) -> dict[str, Any]:
        """Return the filters for a list; fields that cannot be understood are left out."""
        given = self.given
        found: dict[str, Any] = {
            name: given.get(name) for name in ("model", "branch", "tool", "tag", "agent")
        }
        found["words"] = given.get("words", "").split()
        for name in ("since", "until"):
            found[name] = self._parsed(name, partial(resolve_instant, zone=self.params.ctx.zone))
        found["cost_at_least"] = self._parsed("cost", _dollars)
        if project := given.get("project"):
            found["project"], note = directories(project)
            if note:
                self.problems["project"] = note
        flags = {
            "running": "running", "errors": "has_errors", "subagents": "has_subagents",
            "damaged": "has_damage", "pinned": "pinned", "kept": "kept",
        }  # fmt: skip
        found |= {flags[name]: True for name in given if name in flags}
        return found | {"gone": "gone" in given}

    def _parsed(self, name: str, parse: Callable[[str], Any]) -> Any:
        if name not in self.given:
            return None
        try:
            return parse(self.given[name])
        except UsageError as error:
            self.problems[name] = error.message
            return None

    def url(self, **changes: str | int | None) -> OwnUrl:
        """Return the URL of this list with other filters; None takes one away."""
        order = {"sort": self.sort if self.sort != "active" else None}
        order["reverse"] = "1" if self.is_reversed else None
        return address("/", **{**self.given, **order, **changes})


def _dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text.lstrip("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or not 0 <= amount < 10**6:
        raise UsageError(f"invalid amount: {text[:20]!r}", hint="use a number such as 5 or 0.50")
    return amount


def sessions_page(params: Params) -> str:
    """Return the list of sessions; with the parameter *rows*, only further rows of it."""
    ctx, asked, offset = params.ctx, _Asked(params), params.offset
    is_part = params.is_on("rows")
    with ctx.store.index() as index:
        filters = asked.filters(lambda typed: project_directories(index, typed))
        found = list_indexed(
            index,
            sort=cast("SessionSort", asked.sort),
            reverse=asked.is_reversed,
            limit=_LIMIT,
            offset=offset,
            with_tools=False,
            facets=None if is_part else _VALUES,
            costs=SessionCosts(index, ctx.prices),
            now=ctx.now(),
            **filters,
        )
        is_plain = not asked.given and not offset and not is_part
        seen = (
            overview(index, ctx.store.homes, ctx.prices, now=ctx.now(), zone=ctx.zone)
            if is_plain
            else None
        )
        gone = list_indexed(index, gone=True, limit=0).total if is_plain else 0
    rows = joined(_rows(found, asked, offset))
    if is_part:
        return rows
    facets = found.facets
    assert not isinstance(facets, UnsetType)
    return framed(
        "Sessions",
        "Sessions",
        element(
            "h1",
            f"{count(found.total)} session{'' if found.total == 1 else 's'}",
            id="total",
            data_live=True,
        ),
        element("div", _seen(seen, gone) if seen else None, id="overview"),
        _form(asked, facets),
        element("div", _chips(asked, ctx), id="chips", class_="chips"),
        element(
            "div",
            element("aside", _facets(facets, asked, ctx), id="facets", aria_label="Filters"),
            element(
                "section",
                _table(asked, rows) if found.sessions else _nothing(found, asked, offset),
                id="list",
                aria_label="Sessions",
                data_live=True,
            ),
            class_="browse",
        ),
        styles=("sessions",),
        scripts=("saved",),
    )


def _form(asked: _Asked, facets: SessionFacets) -> Fragment:
    """Return the filters as a form that applies while one types."""
    fields = [_text_field(asked, *each) for each in _TEXTS]
    counts = {
        "running": facets.running, "errors": facets.errors, "subagents": facets.subagents,
        "damaged": facets.damaged, "pinned": facets.pinned, "kept": facets.kept,
    }  # fmt: skip
    ticks = [_tick(name, words, asked, counts.get(name)) for name, words in _FLAGS.items()]
    is_open = any(name in asked.given for name in _FILTERS[_FIRST_TEXTS : len(_TEXTS)])
    return element(
        "form",
        element("div", fields[:_FIRST_TEXTS], class_="fields"),
        element(
            "details",
            element("summary", "More filters"),
            element("div", fields[_FIRST_TEXTS:], class_="fields"),
            open=is_open,
        ),
        element("div", ticks, class_="ticks"),
        element("input", type="hidden", name="sort", value=asked.sort)
        if asked.sort != "active"
        else None,
        element("input", type="hidden", name="reverse", value="1") if asked.is_reversed else None,
        element("button", "Show"),
        action=OwnUrl("/"),
        id="filters",
        data_swap=_SWAPPED,
        role="search",
        aria_label="Filter sessions",
    )


def _text_field(asked: _Asked, name: str, words: str, example: str) -> Fragment:
    problem = asked.problems.get(name)
    box = element(
        "input",
        type="text",
        id=f"field-{name}",
        name=name,
        value=asked.given.get(name),
        placeholder=example,
        inputmode="decimal" if name == "cost" else None,
        aria_invalid="true" if problem else None,
        aria_describedby=f"problem-{name}" if problem else None,
    )
    told = element("span", problem, class_="problem", id=f"problem-{name}") if problem else None
    return element("label", element("span", words), box, told)


def _tick(name: str, words: str, asked: _Asked, number: int | None) -> Fragment:
    is_on = name in asked.given
    box = element("input", type="checkbox", id=f"field-{name}", name=name, value="1", checked=is_on)
    told = element("small", count(number)) if number else None
    return element("label", box, f" {words} ", told)


def _chips(asked: _Asked, ctx: PageContext) -> Child:
    """Return the active filters, each with a link that removes it."""
    if not asked.given:
        return None
    words = {name: said for name, said, _ in _TEXTS}
    chips: list[Child] = []
    for name, value in asked.given.items():
        said = _FLAGS.get(name) or f"{words[name]}: {ctx.clean(value)}"
        link = element(
            "a",
            said,
            element("span", " \u00d7", aria_hidden="true"),
            href=asked.url(**{name: None}),
            data_swap=_SWAPPED,
            aria_label=f"Remove the filter {said}",
            class_="chip",
        )
        chips.append(link)
    clear = element("a", "Clear all", href=OwnUrl("/"), data_swap=_SWAPPED, class_="clear")
    save = element("button", "Save this filter", type="button", id="save", class_="needs-js")
    return [*chips, clear, save]


def _facets(facets: SessionFacets, asked: _Asked, ctx: PageContext) -> Iterator[Child]:
    """Yield the most frequent values of each filter, as links that narrow the list."""
    yield element("div", id="saved", class_="needs-js")
    for name, field in _FACETS.items():
        values: list[FacetValue] = getattr(facets, field)
        if not values or (name == "agent" and len(values) == 1 and name not in asked.given):
            continue
        yield facet(
            field,
            values,
            partial(_narrowed, asked, name),
            asked.given.get(name, ""),
            ctx,
            swapped=_SWAPPED,
            is_path=name == "project",
        )


def _narrowed(asked: _Asked, name: str, value: str) -> OwnUrl:
    return asked.url(**{name: value})


def facet(
    words: str,
    values: list[FacetValue],
    url: Callable[[str], OwnUrl],
    chosen: str,
    ctx: PageContext,
    *,
    swapped: str,
    is_path: bool = False,
) -> Fragment:
    """Return the values of a filter with their counts; each is a link to the narrower list."""
    labels = _labels(each.value for each in values) if is_path else {}
    rows = []
    for each in values:
        label = ctx.clean(labels.get(each.value, each.value))
        link = element(
            "a",
            label,
            href=url(each.value),
            data_swap=swapped,
            title=ctx.clean(each.value) if is_path else None,
            aria_current="true" if chosen == each.value else None,
        )
        # A link would tell what is masked.
        shown_value = link if ctx.clean(each.value) == each.value else element("span", label)
        rows.append(element("li", shown_value, element("small", count(each.count))))
    return element("section", element("h2", words), element("ul", rows))


def _labels(paths: Iterable[str]) -> dict[str, str]:
    """Return the names of projects; with the directory above where two have the same name."""
    known = list(paths)
    names = [last_part(path) for path in known]
    return {
        path: name if names.count(name) == 1 else "/".join(path.rstrip("/").split("/")[-2:])
        for path, name in zip(known, names, strict=True)
    }


def _table(asked: _Asked, rows: Child) -> Fragment:
    heads = [
        element(
            "th",
            element("a", words, href=_sorted_by(asked, sort), data_swap=_SWAPPED),
            class_=None if sort in {"title", "project", "active", "started"} else "number",
            aria_sort=_direction(asked, sort),
        )
        for sort, words in _HEADS.items()
    ]
    compare = element("form", element("button", "Compare"), " two chosen sessions",
                      id="compare", action=OwnUrl("/compare"))  # fmt: skip
    table = element(
        "table",
        element("thead", element("tr", heads)),
        element("tbody", rows),
        class_="sessions",
    )
    return joined([compare, table])


def _sorted_by(asked: _Asked, sort: str) -> OwnUrl:
    """Return the URL of the list sorted by a column, or the other way round if it is."""
    is_again = sort == asked.sort and not asked.is_reversed
    return asked.url(sort=sort if sort != "active" else None, reverse="1" if is_again else None)


def _direction(asked: _Asked, sort: str) -> str | None:
    if sort != asked.sort:
        return None
    return "ascending" if (sort in _RISING) != asked.is_reversed else "descending"


def _rows(found: SessionCatalog, asked: _Asked, offset: int) -> Iterator[Fragment]:
    """Yield the rows, and one that loads the next when one scrolls to it."""
    ctx = asked.params.ctx
    for row in found.sessions:
        yield _row(row, ctx, asked)
    links: list[Child] = []
    if offset and not asked.params.is_on("rows"):
        before = asked.url(offset=max(0, offset - _LIMIT))
        links.append(element("a", "← before", href=before, rel="prev"))
    if found.next is not None:
        links.append(element("a", "more →", href=asked.url(offset=found.next), rel="next"))
    if links:
        source = None if found.next is None else asked.url(offset=found.next, rows="1")
        cell = element("td", links, colspan=len(_HEADS))
        yield element("tr", cell, class_="more", data_src=source)


def _nothing(found: SessionCatalog, asked: _Asked, offset: int) -> Child:
    if found.total:
        last = (found.total - 1) // _LIMIT * _LIMIT
        return element(
            "p",
            f"There are only {counted(found.total, 'session')}: nothing is at {count(offset)}. ",
            element("a", "Go to the last page", href=asked.url(offset=last or None), rel="last"),
            class_="note",
        )
    if not asked.given:
        return element("p", "There are no sessions.")
    return element("p", "No session matches all of these filters.", class_="note")


def _seen(seen: Overview, gone: int) -> Fragment:
    cards = [
        card(
            shown(Decimal(each.cost_usd)),
            f"{each.period}: {short(each.tokens)} tokens, {counted(each.sessions, 'session')}",
        )
        for each in seen.periods
    ]
    words = f"{counted(gone, 'more session')}, whose own log is gone"
    lost = element("p", "Costs count ", element("a", words, href=address("/", gone="1")), ".")
    return element(
        "div",
        element("div", cards, class_="cards"),
        list(_attention(seen.attention)),
        lost if gone else None,
    )


def _attention(attention: Attention) -> Iterable[Fragment]:
    """Yield a note for each kind of problem, with the command that helps."""
    said = (
        (attention.about_to_be_deleted, "The agent's cleanup deletes {} within a week", "keep"),
        (attention.crashed, "{} crashed", "recover"),
        (attention.damaged, "There is damage in the logs of {}", "doctor"),
    )
    for number, words, command in said:
        if number:
            told = f"{words.format(counted(number, 'session'))}: "
            yield element("p", told, element("code", f"turnlog {command}"), class_="note")


def _row(row: IndexedSession, ctx: PageContext, asked: _Asked) -> Fragment:
    title, copied = ctx.clean(row.title) or "(no prompt)", copied_responses(row)
    box = element("input", type="checkbox", name="id", value=row.id, form="compare", data_keep=True)
    facts: list[Child] = [element("label", box, " ", row.id[:8], title="Choose two to compare")]
    if row.git_branch:
        facts.append(ctx.clean(row.git_branch))
    facts += [_narrowing(asked, "tag", tag, f"#{ctx.clean(tag)}") for tag in row.tags]
    return element(
        "tr",
        element(
            "td",
            element("a", title, href=address(f"/session/{row.id}")),
            element("small", _spaced([*facts, *_marks(row)])),
            element("small", copied, class_="copied") if copied else None,
            class_="title",
        ),
        element(
            "td",
            _narrowing(asked, "project", row.project, ctx.project_name(row.project))
            if row.project
            else None,
            class_="project",
        ),
        element("td", _time(row.last_active_at, ctx), class_="when"),
        element("td", ctx.when(row.started_at)[:10], class_="when started"),
        [
            element("td", text, class_=column.name, data_label=column.words if text else None)
            for column, text in ((each, each.cell(row)) for each in _NUMBERS)
        ],
        id=f"row-{row.id}",
        data_row=True,
    )


def _narrowing(asked: _Asked, name: str, value: str, words: str) -> Child:
    """Return a link that narrows the list to a value; only its words if they are masked."""
    if asked.params.ctx.clean(value) != value:
        return words
    return element("a", words, href=_narrowed(asked, name, value), data_swap=_SWAPPED, title=value)


def _time(at: datetime | None, ctx: PageContext) -> Child:
    return element("time", ctx.when(at), datetime=at.isoformat()) if at else None


def _marks(row: IndexedSession) -> Iterator[Child]:
    if row.running:
        yield element("span", f"● {row.running}", class_="live")
    if row.pinned:
        yield element("span", "★ pinned", class_="pin")
    if row.damages:
        yield element("span", f"! {counted(row.damages, 'damage')}", class_="bad")
    if row.crashed:
        yield element("span", "crashed", class_="bad")
    if _KEPT[row.keeping]:
        yield element("span", _KEPT[row.keeping])


def _spaced(parts: Iterable[Child], gap: str = " · ") -> Fragment:
    return joined([[gap if number else None, part] for number, part in enumerate(parts)])
