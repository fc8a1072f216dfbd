"""The page of search results: by session, with counts, and links to the marked words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Final

from msgspec import UnsetType

from turnlog.api.arguments import resolve_instant
from turnlog.api.search import (
    COUNTED,
    FieldFilter,
    Hit,
    SearchDocument,
    SearchFacets,
    narrow,
    parse,
    search,
)
from turnlog.api.sessions.lists import FacetValue, project_directories
from turnlog.errors import UsageError
from turnlog.export.html.charts import count, counted
from turnlog.export.html.page import Child, Fragment, OwnUrl, element, joined
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, framed, pager, tick
from turnlog.web.pages.sessions import facet

_LIMIT: Final = 30
_MORE: Final = 20
"""How many further hits of one session are loaded at once."""
_PER_SESSION: Final = 3
_VALUES: Final = 8
_WIDTH: Final = 320
_SWAPPED: Final = "searching facets results"
_FACETS: Final = {"kind": "kinds", "tool": "tools", "project": "projects", "month": "months"}
_FILTERS: Final = (*_FACETS, "session")
_IS: Final = frozenset({"prompt", "response", "thinking", "call", "result", "title", "summary"})

_HELP: Final = (
    ("how did we fix the flaky retry", "what matches best, also if words are missing"),
    ("+flaky +retry", "texts with both words"),
    ('"connection refused"', "the words in that order"),
    ("migrat*", "words that begin so"),
    ("retry OR backoff -test", "either, without the third"),
    ("tool:Bash is:error docker", "what went wrong in Bash"),
    ("file:*.sql since:2w", "what was done with SQL files in two weeks"),
    ("project:orchard role:human", "what people typed there"),
)


def search_page(params: Params) -> str:
    """Return the hits of a search; with the parameter *hits*, only further ones of a session."""
    query = params.text("q")
    if not query:
        return _page(params, "Search", [element("h1", "Search"), _help()], None, None)
    try:
        found = _found(params, query)
    except UsageError as error:  # The form stays, with what was typed.
        told = element("p", error.message, f": {error.hint}" if error.hint else None, id="problem")
        return _page(params, query, element("h1", "Search"), told, None)
    if params.is_on("hits"):
        return joined(_hits(found.hits, params), _more_link(found, params))
    facets = found.facets
    is_counted = not isinstance(facets, UnsetType)
    results = [
        element("h1", _total(facets, found) if is_counted else "Search"),
        [element("p", params.ctx.clean(note), class_="note") for note in found.notes],
        _in_results(found, params),
        [_session(list(group), params) for _, group in groupby(found.hits, key=_group)],
        None if found.hits else _nothing(params),
        pager("/search", params.fields, params.offset, _LIMIT, found.next is not None),
    ]
    return _page(params, query, results, None, _facets(facets, params) if is_counted else None)


def _found(params: Params, query: str) -> SearchDocument:
    ctx, is_part = params.ctx, params.is_on("hits")
    parsed = parse(query, now=ctx.now(), zone=ctx.zone)
    nodes = []
    if kind := params.text("kind"):
        nodes.append(FieldFilter("is" if kind in _IS else "type", kind))
    if tool := params.text("tool"):
        nodes.append(FieldFilter("tool", tool))
    since, until = _month(params)
    with ctx.store.index() as index:
        project = params.text("project")
        if project:
            directories, _ = project_directories(index, project)
            # One filter for all: a name, if several directories have it, or a path.
            nodes.append(
                FieldFilter("project", directories[0] if len(directories) == 1 else project)
            )
        return search(
            index,
            narrow(parsed, *nodes),
            now=ctx.now(),
            zone=ctx.zone,
            since=since,
            until=until,
            session=params.text("session") or None,
            with_results=params.is_on("results"),
            newest=params.is_on("newest"),
            limit=_MORE if is_part else _LIMIT,
            offset=params.offset,
            per_session=0 if is_part else None,
            width=_WIDTH,
            facets=None if is_part else _VALUES,
            mask=ctx.mask,
        )


def _month(params: Params) -> tuple[datetime | None, datetime | None]:
    """Return the beginning and the end of the chosen month."""
    month = params.text("month")
    if not month:
        return None, None
    since = resolve_instant(month, params.ctx.zone)
    assert since is not None
    local = since.astimezone(params.ctx.zone)
    following = f"{local.year + local.month // 12}-{local.month % 12 + 1:02}"
    return since, resolve_instant(following, params.ctx.zone)


def _page(params: Params, title: str, results: Child, problem: Child, aside: Child) -> str:
    query = params.text("q")
    box = element(
        "input",
        type="search",
        id="words",
        name="q",
        value=query or None,
        placeholder="words, a phrase, tool:Bash, since:7d",
        aria_label="Search for",
        aria_invalid="true" if problem else None,
        aria_describedby="problem" if problem else None,
    )
    given = {name: params.text(name) for name in _FILTERS if params.text(name)}
    asking = element(
        "form",
        box,
        tick("results", "what tools answered, too", is_on=params.is_on("results")),
        tick("newest", "newest first", is_on=params.is_on("newest")),
        [element("input", type="hidden", name=name, value=given[name]) for name in given],
        element("button", "Search"),
        element("div", problem, class_="problem") if problem else None,
        action=OwnUrl("/search"),
        class_="asked",
        id="searching",
        data_swap=_SWAPPED,
        role="search",
        aria_label="Search results",
    )
    chips = [
        element(
            "a",
            f"{name}: {params.ctx.clean(value)}",
            element("span", " \u00d7", aria_hidden="true"),
            href=_url(params, **{name: None}),
            data_swap=_SWAPPED,
            aria_label=f"Remove the filter {name}",
            class_="chip",
        )
        for name, value in given.items()
    ]
    return framed(
        title,
        "Search",
        asking,
        element(
            "div",
            element("aside", aside, id="facets", aria_label="Narrow the search"),
            element(
                "section",
                element("p", chips, class_="chips") if chips else None,
                results,
                id="results",
                aria_label="Results",
            ),
            class_="browse" if query else None,
        ),
        styles=("sessions", "search"),
        query=query,
    )


def _url(params: Params, **changes: str | int | None) -> OwnUrl:
    """Return the URL of this search with other filters; None takes one away."""
    kept = ("q", "results", "newest", *_FILTERS)
    return address("/search", **{**{name: params.text(name) for name in kept}, **changes})


def _total(facets: SearchFacets | UnsetType, found: SearchDocument) -> str:
    if isinstance(facets, UnsetType) or not found.hits:
        return "Nothing was found"
    more = "" if facets.is_complete else "More than "
    return f"{more}{counted(facets.total, 'hit')} in {counted(facets.sessions, 'session')}"


def _nothing(params: Params) -> Child:
    if params.offset:
        return element(
            "p",
            "Nothing was found beyond this place. ",
            element("a", "Go to the first page", href=_url(params)),
            class_="note",
        )
    return element("p", "Nothing was found.")


def _in_results(found: SearchDocument, params: Params) -> Child:
    """Return a link to the tool results that were not searched."""
    if not found.in_results:
        return None
    number = f"{count(COUNTED)} or more" if found.in_results >= COUNTED else count(found.in_results)
    link = _url(params, results="1")
    return element(
        "p", element("a", f"{number} more in tool output", href=link, data_swap=_SWAPPED)
    )


def _facets(facets: SearchFacets | UnsetType, params: Params) -> Iterator[Fragment]:
    for name, field in _FACETS.items():
        values: list[FacetValue] = [] if isinstance(facets, UnsetType) else getattr(facets, field)
        if not values:
            continue
        yield facet(
            field,
            values,
            partial(_narrowed, params, name),
            params.text(name),
            params.ctx,
            swapped=_SWAPPED,
            is_path=name == "project",
        )


def _narrowed(params: Params, name: str, value: str) -> OwnUrl:
    return _url(params, **{name: value})


def _group(hit: Hit) -> str:
    return hit.session or hit.log


def _session(hits: list[Hit], params: Params) -> Fragment:
    """Return the hits of one session, and a place where further ones are loaded."""
    first, ctx = hits[0], params.ctx
    title: Child = first.title or (
        f"session {first.session[:8]}" if first.session else "in no session"
    )
    if first.session:
        title = element("a", title, href=hit_place(first))
    about = [
        ctx.project_name(first.project),
        ctx.when(first.at),
        "its log is gone at its source" if first.gone else "",
    ]
    rest = None
    may_be_more = first.more is None and len(hits) == _PER_SESSION
    is_whole = params.is_on("newest") or params.text("session")
    if first.session and (first.more or may_be_more) and not is_whole:
        number = f"{count(first.more)} more" if first.more else "More"
        alone = _url(params, session=first.session)
        rest = element(
            "details",
            element("summary", f"{number} in this session"),
            element(
                "div",
                element("a", "Show only this session", href=alone),
                data_src=_url(params, session=first.session, hits="1", offset=len(hits)),
            ),
        )
    return element(
        "article",
        element("h2", title),
        element("p", " · ".join(filter(None, about)), class_="facts"),
        _hits(hits, params),
        rest,
        class_="hits",
        data_row=True,
    )


def _more_link(found: SearchDocument, params: Params) -> Child:
    if found.next is None:
        return None
    link = element("a", "more →", href=_url(params, offset=found.next))
    return element("div", link, data_src=_url(params, hits="1", offset=found.next))


def _hits(hits: list[Hit], params: Params) -> Fragment:
    return element("ol", [_hit(hit, params.ctx) for hit in hits])


def _hit(hit: Hit, ctx: PageContext) -> Fragment:
    kind = f"{hit.kind}, {hit.tool}" if hit.tool else hit.kind
    facts = [
        kind,
        "by a subagent" if hit.subagent else "",
        "failed" if hit.is_error else "",
        ctx.when(hit.at),
    ]
    about: Child = " · ".join(filter(None, facts))
    if hit.session:
        about = element("a", about, href=hit_place(hit))
    return element(
        "li",
        element("p", about, class_="facts"),
        element("p", list(_marked(hit)), class_="snippet"),
    )


def hit_place(hit: Hit) -> OwnUrl:
    """Return the URL of a session, at the record and the marked words of the hit."""
    found = hit.snippet[slice(*hit.highlights[0])] if hit.highlights else ""
    at = hit.at.isoformat() if hit.at else None
    link = address(f"/session/{hit.session}", record=hit.uuid, at=at, find=found)
    return OwnUrl(link + ("#here" if at or hit.uuid else ""))


def _marked(hit: Hit) -> Iterator[Child]:
    """Yield the snippet with its matches marked."""
    place = 0
    for begin, end in hit.highlights:
        yield hit.snippet[place:begin]
        yield element("mark", hit.snippet[begin:end])
        place = end
    yield hit.snippet[place:]


def _help() -> Fragment:
    rows = [
        (
            element("dt", element("a", element("code", said), href=address("/search", q=said))),
            element("dd", words),
        )
        for said, words in _HELP
    ]
    return element("dl", rows, class_="help")
