"""The page of a session, scrolled to a search hit, and its exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

from turnlog.api.sessions.reading import Session
from turnlog.errors import NotFound
from turnlog.export.conversation import ConversationOptions
from turnlog.export.conversation_builder import read_conversation
from turnlog.export.exporter import SHAPES, Shape, exported
from turnlog.export.html.page import Fragment, OwnUrl, element, joined
from turnlog.export.html.session_page import PageFrame, session_page
from turnlog.web.context import Params
from turnlog.web.layout import TOP_CSS, address, top

_THREADS: Final[dict[str, str]] = {
    "whole": "from the beginning",
    "current": "since the last compaction",
    "all": "every branch",
}
MEDIA: Final[dict[Shape, str]] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
_CSS: Final = f"""
body {{ grid-template: "top top" auto "head head" auto "bar bar" auto "nav main" 1fr
    / minmax(13rem, 19rem) minmax(0, 1fr); }}
{TOP_CSS}
#above {{ grid-area: top; }}
#top input {{ padding: .35rem .65rem; border: 1px solid var(--line); border-radius: 6px;
  background: var(--paper); color: inherit; font: inherit; }}
#more {{ display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: .6rem 2rem 0;
  font-size: .88rem; color: var(--faint); }}
#more a[aria-current] {{ color: inherit; text-decoration: none; }}
#here {{ scroll-margin-top: 4rem; }}
@media (max-width: 56rem) {{
  body {{ grid-template: "top" auto "head" auto "bar" auto "nav" auto "main" auto
    / minmax(0, 1fr); }}
  #top, #more {{ padding-left: 1rem; padding-right: 1rem; }}
}}
"""


def session_pieces(name: str, params: Params) -> Iterator[str]:
    """Yield the page of a session piece by piece; raise at once if it cannot be read."""
    ctx = params.ctx
    session = Session.find(ctx.store.homes, name)
    thread = params.one_of("thread", _THREADS)
    told = read_conversation(session, ConversationOptions(thread=thread), ctx.outgoing(session))
    at = None
    with suppress(ValueError):  # An invalid time is ignored.
        at = datetime.fromisoformat(params.text("at"))
    setting = PageFrame(
        above=element("div", top(""), _more(session, thread), id="above"),
        css=_CSS,
        at=at if at is not None and at.tzinfo is not None else None,
        find=params.text("find"),
    )
    return session_page(told, setting, ctx.zone)


def session_export(name: str, shape: str, params: Params) -> tuple[str, str, str]:
    """Return a session as text with masked secrets, its media type and a file name."""
    if shape not in SHAPES:
        raise NotFound(f"there is no export as {shape}", hint=f"there are {', '.join(SHAPES)}")
    session = Session.find(params.ctx.store.homes, name)
    text = exported(session, shape, ConversationOptions())
    return text, MEDIA[shape], f"session-{session.id[:8]}.{shape}"


def _more(session: Session, thread: str) -> Fragment:
    """Return links to other threads and exports."""
    threads = [
        element(
            "a",
            words,
            href=address(f"/session/{session.id}", thread=name),
            aria_current="true" if name == thread else None,
        )
        for name, words in _THREADS.items()
    ]
    exports = [
        element("a", shape, href=OwnUrl(f"{address(f'/session/{session.id}')}/export.{shape}"))
        for shape in SHAPES
    ]
    return element(
        "div",
        element("span", _spaced(threads)),
        element("span", "export without secrets: ", _spaced(exports)),
        element("span", "go on: ", element("code", f"turnlog resume {session.id[:8]}")),
        id="more",
    )


def _spaced(links: list[Fragment]) -> Fragment:
    return joined([[" · " if number else None, link] for number, link in enumerate(links)])
