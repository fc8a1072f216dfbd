"""The layout of pages: navigation bar, style sheets, scripts, forms, and links to other pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote, quote_plus

from starlette.responses import HTMLResponse

from turnlog.api.sessions.lists import IndexedSession
from turnlog.export.html.charts import counted
from turnlog.export.html.page import Child, Fragment, OwnUrl, element, escaped, joined
from turnlog.web.static_files import static_url

Tab = Literal["Sessions", "Now", "Search", "Files", "Costs", "Insights", "Health", ""]
TABS: Final[Mapping[Tab, str]] = {
    "Sessions": "/",
    "Now": "/now",
    "Search": "/search",
    "Files": "/files",
    "Costs": "/costs",
    "Insights": "/insights",
    "Health": "/health",
}


def address(path: str, /, **params: str | int | None) -> OwnUrl:
    """Return the URL of one of our pages, without empty parameters."""
    query = "&".join(f"{name}={_quoted(str(value))}" for name, value in params.items() if value)
    return OwnUrl(quote(path) + (f"?{query}" if query else ""))


_quoted = lru_cache(1_000)(quote_plus)  # The links of a page have few values, very often.


def top(tab: Tab, query: str = "") -> Fragment:
    """Return the header: navigation, search box, and buttons for scripts."""
    links = [
        element("a", name, href=OwnUrl(path), aria_current="page" if name == tab else None)
        for name, path in TABS.items()
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
        "header",
        element("a", "turnlog", href=OwnUrl("/"), class_="name"),
        element("nav", links, aria_label="Pages"),
        element("form", box, action=OwnUrl("/search"), role="search"),
        element(
            "span",
            _button("find-all", "Ctrl-K", "Find a session, a project or a page"),
            _button("bell", "Notify", "Notify me when a session waits for me", is_hidden=True),
            _button("theme", "◐", "Light or dark"),
            _button("keys", "?", "Keys"),
            class_="tools needs-js",
        ),
        id="top",
    )


def _button(name: str, sign: str, words: str, *, is_hidden: bool = False) -> Fragment:
    return element(
        "button", sign, type="button", id=name, title=words, aria_label=words, hidden=is_hidden
    )


def framed(
    title: str,
    tab: Tab,
    *body: Child,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    query: str = "",
) -> str:
    """Return a page: the header, and *body* as its main part.

    *styles* and *scripts* name files in ``static``, without their endings.
    """
    head = [
        Fragment('<meta charset="utf-8">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", escaped(f"{title} · turnlog", keep="")),
        [
            element("link", rel="stylesheet", href=static_url(f"{name}.css"))
            for name in ("page", "layout", *styles)
        ],
        element("script", src=static_url("theme.js")),
        [
            element("script", type="module", src=static_url(f"{name}.js"))
            for name in ("main", *scripts)
        ],
    ]
    skip = element("a", "Skip to content", href="#main", class_="skip")
    main = element("main", body, id="main", tabindex="-1")
    whole = element(
        "html", element("head", head), element("body", skip, top(tab, query), main), lang="en"
    )
    return f"<!doctype html>\n{whole}\n"


def fragment(*children: Child) -> HTMLResponse:
    """Return a part of a page, for ``data-src`` (static/swap.js)."""
    return HTMLResponse(joined(children))


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


def tick(name: str, words: str, *, is_on: bool) -> Fragment:
    """Return a check box."""
    box = element("input", type="checkbox", name=name, value="1", checked=is_on)
    return element("label", box, f" {words}")


def copied_responses(row: IndexedSession) -> Child:
    """Explain responses that a session has and does not pay for; None if it has none."""
    if not row.copied:
        return None
    origins = [
        [", " if number else None, element("a", each[:8], href=address(f"/session/{each}"))]
        for number, each in enumerate(name for name in row.copied_from if name != row.id)
    ]
    where: Child = ["session ", origins] if origins else "its copy in another home"
    return [f"{counted(row.copied, 'response')} copied, counted in ", where]


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
