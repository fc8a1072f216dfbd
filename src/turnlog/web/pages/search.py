"""The page of search results, with links to the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.api.search import Hit, search
from turnlog.export.html.page import Child, Fragment, OwnUrl, element
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import address, field, form, framed, pager, tick

_LIMIT: Final = 20
_WIDTH: Final = 320

_CSS: Final = """
ol.hits { list-style: none; margin: 0; padding: 0; max-width: 60rem; }
ol.hits > li { padding: .8rem 0; border-bottom: 1px solid var(--line); }
ol.hits a { color: inherit; font-weight: 600; text-decoration: none; }
ol.hits a:hover { color: var(--accent); }
ol.hits .facts { color: var(--faint); font-size: .87rem; margin: 0; }
ol.hits .snippet { margin: .25rem 0 0; overflow-wrap: anywhere; }
mark { background: #ffe58f; color: inherit; border-radius: 2px; }
@media (prefers-color-scheme: dark) { mark { background: #6b5200; } }
dl.help { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.4rem; }
dl.help dd { margin: 0; color: var(--faint); }
"""
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
    """Return the hits of a search."""
    ctx, query = params.ctx, params.text("q")
    is_newest, with_results = params.is_on("newest"), params.is_on("results")
    asking = form(
        "/search",
        element("input", type="hidden", name="q", value=query),
        field("project", params.text("project"), "project"),
        tick("results", "what tools answered, too", is_on=with_results),
        tick("newest", "newest first", is_on=is_newest),
    )
    if not query:
        return framed("Search", "Search", element("h1", "Search"), _help(), css=_CSS)
    with ctx.store.index() as index:
        found = search(
            index,
            query,
            now=ctx.now(),
            zone=ctx.zone,
            project=params.project,
            with_results=with_results,
            newest=is_newest,
            limit=_LIMIT,
            offset=params.offset,
            width=_WIDTH,
            mask=ctx.mask,
        )
    notes = [element("p", ctx.clean(note), class_="note") for note in found.notes]
    hits = element("ol", [_hit(hit, ctx) for hit in found.hits], class_="hits")
    return framed(
        query,
        "Search",
        asking,
        notes,
        hits if found.hits else element("p", "Nothing was found."),
        pager("/search", params.fields, params.offset, _LIMIT, found.next is not None),
        css=_CSS,
        query=query,
    )


def _hit(hit: Hit, ctx: PageContext) -> Fragment:
    kind = f"{hit.kind}, {hit.tool}" if hit.tool else hit.kind
    subagent = "by a subagent" if hit.subagent else ""
    facts = [
        ctx.when(hit.at),
        ctx.project_name(hit.project),
        kind,
        subagent,
        "failed" if hit.is_error else "",
    ]
    if hit.gone:
        facts.append("its log is gone at its source")
    title = hit.title or (f"session {hit.session[:8]}" if hit.session else "in no session")
    more = element("p", f"{hit.more:,} more in this session", class_="facts") if hit.more else None
    return element(
        "li",
        element("a", title, href=_place(hit)) if hit.session else element("b", title),
        element("p", " · ".join(each for each in facts if each), class_="facts"),
        element("p", list(_marked(hit)), class_="snippet"),
        more,
    )


def _place(hit: Hit) -> OwnUrl:
    """Return the URL of a session, scrolled to the hit."""
    found = hit.snippet[slice(*hit.highlights[0])] if hit.highlights else ""
    at = hit.at.isoformat() if hit.at else None
    return OwnUrl(address(f"/session/{hit.session}", at=at, find=found) + ("#here" if at else ""))


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
