"""The page of a session, and its exports."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from turnlog.api.sessions.reading import Session
from turnlog.api.sessions.resume import resumption
from turnlog.errors import NotFound, TurnlogError
from turnlog.export.conversation import ConversationOptions
from turnlog.export.exporter import SHAPES, Shape, exported
from turnlog.export.html.page import Child, Fragment, OwnUrl, element, joined
from turnlog.export.html.session_page import NOT_MASKED, head_of, notices_of
from turnlog.web.context import Params
from turnlog.web.layout import address, framed
from turnlog.web.pages.session.find import find_form, places
from turnlog.web.pages.session.outline import outline, rail
from turnlog.web.pages.session.panel import panel
from turnlog.web.pages.session.turns import turn_windows
from turnlog.web.pages.session.view import THREADS, SessionView

MEDIA: Final[dict[Shape, str]] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}


def session_page(view: SessionView) -> str:
    """Return the page of a session: its outline, and the window that was asked for."""
    head = view.thread.head
    title = head.title or f"Session {head.id[:8]}"
    notices = [words for words in notices_of(head) if words != NOT_MASKED]
    words = view.params.text("find")
    return framed(
        title,
        "Sessions",
        element(
            "div",
            head_of(head, title, [*notices, *filter(None, [view.notice])], view.params.ctx.zone),
            _more(view),
            element("div", find_form(view, words), _switches(), id="bar"),
            places(view, words),
            outline(view),
            turn_windows(view),
            _side(view),
            rail(view),
            id="session",
            data_session=view.id,
            data_tag=view.tag,
            data_windows=str(len(view.thread.windows)),
            data_turns=view.url("turns"),
        ),
        styles=("blocks", "reader"),
        scripts=("reader", "labels"),
    )


def session_export(name: str, shape: str, params: Params) -> tuple[str, str, str]:
    """Return a session as text with masked secrets, its media type and a file name."""
    if shape not in SHAPES:
        raise NotFound(f"there is no export as {shape}", hint=f"there are {', '.join(SHAPES)}")
    session = Session.find(params.ctx.store.homes, name)
    text = exported(session, shape, ConversationOptions(colors=shape == "html"))
    return text, MEDIA[shape], f"session-{session.id[:8]}.{shape}"


def _switches() -> Fragment:
    """Return what only a script can do."""

    def switch(name: str, words: str, *, is_on: bool = True) -> Fragment:
        box = element("input", type="checkbox", id=name, checked=is_on)
        return element("label", box, f" {words}")

    return element(
        "span",
        switch("tools", "Tools"),
        switch("thinking", "Thinking"),
        element("button", "Open all", id="fold", type="button"),
        switch("follow", "Follow", is_on=False),
        class_="needs-js switches",
    )


def _more(view: SessionView) -> Fragment:
    """Return links to other threads, exports, and commands to resume the session."""
    base = address(f"/session/{view.id}")
    threads = [
        element(
            "a",
            words,
            href=address(f"/session/{view.id}", thread=name),
            aria_current="true" if name == view.thread.name else None,
        )
        for name, words in THREADS.items()
    ]
    exports = [element("a", shape, href=OwnUrl(f"{base}/export.{shape}")) for shape in SHAPES]
    ends = [
        element("a", "first turn", href=view.url(hash_="turns")),
        element("a", "last turn", href=view.url(end=1, hash_="end")),
    ]
    about_link = element("a", "title, tags and pin", href=view.url("about"))
    return element(
        "div",
        element("span", _spaced(threads)),
        element("span", _spaced(ends)),
        element("span", "export without secrets: ", _spaced(exports)),
        _command(f"turnlog resume {view.id[:8]}"),
        _resume(view),
        element("div", about_link, data_src=view.url("about")),
        id="links",
    )


def _resume(view: SessionView) -> Child:
    """Return the agent's own command that resumes the session, if there is one."""
    with suppress(TurnlogError, OSError):
        found = resumption(view.reader.session)
        if found.command:
            return _command(view.reader.out.text(found.line))
    return None


def _command(line: str) -> Fragment:
    copy = element("button", "Copy", type="button", class_="needs-js", data_copy=line)
    return element("span", element("code", line), " ", copy, class_="command")


def _side(view: SessionView) -> Fragment:
    is_open = view.params.is_on("side")
    words = "Files, context, tools"
    if is_open:
        body = element("div", panel(view), class_="panel")
    else:
        link = element("a", "Show", href=view.url(side=1, hash_="side"))
        body = element("div", element("p", link, data_src=view.url("side")), class_="panel")
    details = element("details", element("summary", words), body, open=is_open)
    return element("aside", details, id="side", aria_label=words)


def _spaced(links: list[Fragment]) -> Fragment:
    return joined([[" · " if number else None, link] for number, link in enumerate(links)])
