"""What the palette (Ctrl-K) lists for what was typed: pages, sessions, projects, hits, commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from starlette.responses import Response

from turnlog.api.index import Index
from turnlog.api.search import Hit, parse, search
from turnlog.api.sessions.lists import quick_find
from turnlog.errors import UsageError
from turnlog.export.html.page import Fragment, OwnUrl, element
from turnlog.web.context import PageContext, Params
from turnlog.web.layout import TABS, address, fragment
from turnlog.web.pages.search import hit_place

_MOST_SESSIONS: Final = 8
_MOST_PROJECTS: Final = 4
_MOST_HITS: Final = 4
_SHORTEST_SEARCH: Final = 3
_BEFORE: Final = 30
"""Characters of a hit that are shown before its first match."""
_PAGES: Final[dict[str, str]] = {str(name): path for name, path in TABS.items()} | {
    "Compare two sessions": "/compare"
}
_BUTTONS: Final = {"Light or dark": "theme", "Keys": "keys", "Notify me": "bell"}
"""What buttons of the page do, and their ids."""
_COMMANDS: Final = {
    "turnlog keep": "copy sessions before they are deleted",
    "turnlog doctor": "find problems and how to fix them",
    "turnlog verify": "check that kept copies can be read",
    "turnlog resume latest": "continue the latest session",
    "turnlog top": "what agents do now, in a terminal",
    "turnlog export": "write a session to a file, without secrets",
}


class _Option(NamedTuple):
    text: str
    about: str
    url: OwnUrl = OwnUrl("#")
    button: str | None = None
    copied: str | None = None


def palette(params: Params) -> Response:
    """Return the list as a fragment."""
    words = params.text("q")
    return fragment([_drawn(*each) for each in enumerate(_options(params.ctx, words))])


def _options(ctx: PageContext, words: str) -> Iterator[_Option]:
    lowered = words.lower()
    if words:
        yield _Option(f"Search for {words}", "search", address("/search", q=words))
    for name, path in _PAGES.items():
        if words and name and lowered in name.lower():
            yield _Option(name, "page", OwnUrl(path))
    with ctx.store.index() as index:
        found = quick_find(index, words, limit=_MOST_SESSIONS)
        hits = _hits(index, ctx, words)
    for row in found.sessions:
        title = ctx.clean(row.title) or f"session {row.id[:8]}"
        about = f"{ctx.project_name(row.project)} {ctx.when(row.last_active_at)[:10]}"
        yield _Option(title, about, address(f"/session/{row.id}"))
    for project in found.projects[:_MOST_PROJECTS]:
        if ctx.clean(project) == project:  # An address would tell what is masked.
            yield _Option(ctx.project_name(project), "project", address("/", project=project))
    for name, button in _BUTTONS.items():
        if words and lowered in name.lower():
            yield _Option(name, "this page", button=button)
    for command, does in _COMMANDS.items():
        if words and (lowered in command or lowered in does):
            yield _Option(command, f"copy: {does}", copied=command)
    for hit in hits:
        begin = max(0, hit.highlights[0][0] - _BEFORE) if hit.highlights else 0
        yield _Option(hit.snippet[begin:], hit.kind, hit_place(hit))


def _hits(index: Index, ctx: PageContext, words: str) -> list[Hit]:
    """Return the best hits; what is typed may not be a query yet."""
    if len(words) < _SHORTEST_SEARCH:
        return []
    try:
        found = search(index, parse(words, now=ctx.now(), zone=ctx.zone), now=ctx.now(),
                       zone=ctx.zone, limit=_MOST_HITS, mask=ctx.mask)  # fmt: skip
    except UsageError:
        return []
    return [hit for hit in found.hits if hit.session]


def _drawn(number: int, option: _Option) -> Fragment:
    return element(
        "a",
        element("span", option.text),
        element("small", option.about),
        href=option.url,
        id=f"option-{number}",
        role="option",
        aria_selected="false",
        data_press=option.button,
        data_copy=option.copied,
    )
