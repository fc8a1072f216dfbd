"""The layout of pages: navigation bar, style, forms, and links to other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal
from urllib.parse import quote, urlencode

from turnlog.export.html.page import Child, Fragment, OwnUrl, element, page
from turnlog.web.context import PERIODS, Params

Tab = Literal["Sessions", "Now", "Search", "Costs", "Insights", ""]
_TABS: Final[Mapping[Tab, str]] = {
    "Sessions": "/",
    "Now": "/now",
    "Search": "/search",
    "Costs": "/costs",
    "Insights": "/insights",
}

TOP_CSS: Final = """
#top { display: flex; flex-wrap: wrap; gap: .4rem 1.3rem; align-items: center;
  padding: .55rem 2rem; border-bottom: 1px solid var(--line); background: var(--raised);
  font-size: .95rem; }
#top a { color: var(--faint); text-decoration: none; }
#top a:hover { color: var(--ink); }
#top a.name { color: var(--ink); font-weight: 700; }
#top a[aria-current] { color: var(--ink); box-shadow: inset 0 -2px var(--accent); }
#top form { flex: 1 1 14rem; display: flex; justify-content: flex-end; }
#top input { width: 100%; max-width: 24rem; }
"""
"""The style of the bar, for pages with their own layout."""

CARDS_CSS: Final = """
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: .7rem; }
.card { background: var(--raised); border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .9rem; }
.card b { display: block; font-size: 1.35rem; line-height: 1.3;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); font-size: .87rem; }
@media (max-width: 56rem) { .cards { grid-template-columns: 1fr 1fr; } }
"""
"""Figures in cards."""

_CSS: Final = f"""
body {{ max-width: none; padding: 0; }}
h1 {{ margin-top: 1.1rem; }}
main {{ max-width: 76rem; margin: 0 auto; padding: 1.6rem 2rem 4rem; overflow-wrap: anywhere; }}
{TOP_CSS}
input, select, button {{ padding: .35rem .65rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--raised); color: inherit; font: inherit; font-size: .95rem;
  min-width: 0; }}
#top input {{ background: var(--paper); }}
button {{ cursor: pointer; }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 1px; }}
form.asked {{ display: flex; flex-wrap: wrap; gap: .5rem .7rem; align-items: center;
  margin: .9rem 0 1.1rem; }}
form.asked input[type=search], form.asked input[type=text] {{ flex: 1 1 10rem; max-width: 20rem; }}
form.asked label {{ white-space: nowrap; }}
.note {{ margin: .7rem 0; padding: .45rem .8rem; border-left: 3px solid var(--warn);
  background: var(--raised); border-radius: 0 6px 6px 0; }}
.scroll table {{ min-width: 34rem; }}
.note code {{ overflow-wrap: anywhere; }}
p.pages {{ display: flex; gap: 1.4rem; margin: 1.2rem 0; }}
@media (max-width: 56rem) {{ main {{ padding: 1rem 1rem 3rem; }} #top {{ padding: .5rem 1rem; }} }}
"""


def address(path: str, /, **params: str | int | None) -> OwnUrl:
    """Return the URL of one of our pages, without empty parameters."""
    query = urlencode({name: value for name, value in params.items() if value})
    return OwnUrl(quote(path) + (f"?{query}" if query else ""))


def top(tab: Tab, query: str = "") -> Fragment:
    """Return the navigation bar with the search box."""
    links = [
        element("a", name, href=OwnUrl(path), aria_current="page" if name == tab else None)
        for name, path in _TABS.items()
    ]
    box = element(
        "input",
        type="search",
        name="q",
        value=query or None,
        placeholder="Search everything that was said",
        aria_label="Search",
        autofocus=tab == "Search" and not query,
    )
    return element(
        "div",
        element("a", "turnlog", href=OwnUrl("/"), class_="name"),
        links,
        element("form", box, action=OwnUrl("/search"), role="search"),
        id="top",
    )


def framed(
    title: str,
    tab: Tab,
    *body: Child,
    css: str = "",
    query: str = "",
    again_seconds: int | None = None,
) -> str:
    """Return a page with the navigation bar above its *body*."""
    return page(
        f"{title} · turnlog",
        [top(tab, query), element("main", body)],
        css=_CSS + css,
        has_forms=True,
        again_seconds=again_seconds,
    )


def form(path: str, *fields: Child) -> Fragment:
    """Return a form that reloads the page at *path*."""
    return element(
        "form",
        fields,
        element("button", "Show"),
        action=OwnUrl(path),
        class_="asked",
    )


def field(name: str, value: str | None, words: str, *, listed: str | None = None) -> Fragment:
    """Return a text field; *listed* is the id of its datalist."""
    return element(
        "input",
        type="text",
        name=name,
        value=value or None,
        placeholder=words,
        aria_label=words,
        list=listed,
    )


def choice(name: str, chosen: str, words: str, options: Sequence[tuple[str, str]]) -> Fragment:
    """Return a select box of *options* (value, words)."""
    return element(
        "select",
        [element("option", said, value=value, selected=value == chosen) for value, said in options],
        name=name,
        aria_label=words,
    )


def period_field(params: Params) -> Fragment:
    """Return the select box for the period of a report."""
    return choice("since", params.period or "all", "period", list(PERIODS.items()))


def tick(name: str, words: str, *, is_on: bool) -> Fragment:
    """Return a check box."""
    box = element("input", type="checkbox", name=name, value="1", checked=is_on)
    return element("label", box, f" {words}")


def pager(path: str, params: Mapping[str, str], offset: int, limit: int, more: bool) -> Child:  # noqa: FBT001
    """Return links to the previous and the next page."""
    rest = {name: value for name, value in params.items() if name != "offset"}
    links = []
    if offset:
        before = address(path, **rest, offset=max(0, offset - limit))
        links.append(element("a", "← before", href=before, rel="prev"))
    if more:
        links.append(
            element("a", "more →", href=address(path, **rest, offset=offset + limit), rel="next")
        )
    return element("p", links, class_="pages") if links else None
