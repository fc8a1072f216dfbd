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
ol.hits > li { padding: .8rem 0 .4rem; border-top: 1px solid var(--line); }
ol.hits > li.same { padding-top: .2rem; border-top: 0; }
ol.hits a { color: inherit; font-weight: 600; text-decoration: none; }
ol.hits a:hover { color: var(--accent); }
ol.hits .facts { color: var(--faint); font-size: .87rem; margin: 0; }
ol.hits .facts a { font-weight: inherit; }
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
    hits = element("ol", list(_hits(found.hits, ctx)), class_="hits")
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


def _hits(hits: list[Hit], ctx: PageContext) -> Iterator[Fragment]:
    """Yield the hits; the first of a session has its title, the last how many more there are."""
    for before, hit, after in zip([None, *hits], hits, [*hits[1:], None], strict=False):
        is_first = before is None or hit.session is None or hit.session != before.session
        is_last = after is None or hit.session != after.session
        yield _hit(hit, ctx, is_first=is_first, is_last=is_last)


def _hit(hit: Hit, ctx: PageContext, *, is_first: bool, is_last: bool) -> Fragment:
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
    about: Child = " · ".join(each for each in facts if each)
    title: Child = hit.title or (f"session {hit.session[:8]}" if hit.session else "in no session")
    if hit.session and is_first:
        title = element("a", title, href=_place(hit))
    elif hit.session:
        about = element("a", about, href=_place(hit))
    more = None
    if hit.more and is_last:
        more = element("p", f"{hit.more:,} more in this session", class_="facts")
    return element(
        "li",
        element("b", title) if is_first else None,
        element("p", about, class_="facts"),
        element("p", list(_marked(hit)), class_="snippet"),
        more,
        class_=None if is_first else "same",
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
