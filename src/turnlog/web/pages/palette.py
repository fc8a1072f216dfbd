"""What the palette (Ctrl-K) lists for what was typed: pages, sessions, projects, a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.responses import Response

from turnlog.api.sessions.lists import list_indexed, list_projects
from turnlog.export.html.page import Fragment, OwnUrl, element
from turnlog.web.context import Params
from turnlog.web.layout import TABS, address, fragment

_MOST_SESSIONS: Final = 8
_MOST_PROJECTS: Final = 4


def palette(params: Params) -> Response:
    """Return the list as a fragment."""
    return fragment(
        [_option(number, *found) for number, found in enumerate(_found(params, params.text("q")))]
    )


def _found(params: Params, words: str) -> Iterator[tuple[str, str, OwnUrl]]:
    """Yield a text, what it is, and its URL."""
    ctx = params.ctx
    lowered = words.lower()
    if words:
        yield f"Search for {words}", "search", address("/search", q=words)
    for name, path in TABS.items():
        if words and name and lowered in name.lower():
            yield name, "page", OwnUrl(path)
    with ctx.store.index() as index:
        sessions = list_indexed(
            index, text_in_title=words or None, limit=_MOST_SESSIONS, detailed=0
        )
        projects = list_projects(index).projects if words else []
    for row in sessions.sessions:
        title = ctx.clean(row.title) or f"session {row.id[:8]}"
        about = f"{ctx.project_name(row.project)} {ctx.when(row.last_active_at)[:10]}"
        yield title, about, address(f"/session/{row.id}")
    named = [each.path for each in projects if each.path and lowered in each.path.lower()]
    for project in named[:_MOST_PROJECTS]:
        yield ctx.project_name(project), "project", address("/", project=project)


def _option(number: int, text: str, about: str, url: OwnUrl) -> Fragment:
    return element(
        "a",
        element("span", text),
        element("small", about),
        href=url,
        id=f"option-{number}",
        role="option",
        aria_selected="false",
    )
