"""A session as a self-contained page: folded calls, diffs, subagents inside their calls.

The page is yielded turn by turn, so it is never in memory as a whole; therefore the list of turns
comes last, and the style puts it first. Everything from a log is text to ``page``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Final

from turnlog.export.conversation import Conversation, ConversationTurn, Head
from turnlog.export.html.blocks import BlockRenderer, at_text, count_text, duration, duration_of
from turnlog.export.html.page import Fragment, asset, element, joined, page

__all__ = ["CSS", "NOT_MASKED", "SCRIPT", "duration", "duration_of", "notices_of", "session_page"]

CSS: Final = asset("blocks.css") + asset("session.css")
SCRIPT: Final = asset("session.js")
"""Find, fold and hide. Without it everything is readable."""

_HERE: Final = "\0body\0"  # Texts of a page never contain a NUL.
_LISTED: Final = 160
_DAY: Final = len("2026-11-17")
NOT_MASKED: Final = "Secrets were not masked in this export."


def session_page(conversation: Conversation, zone: tzinfo = UTC) -> Iterator[str]:
    """Yield the page of a conversation, piece by piece."""
    head = conversation.head
    title = head.title or f"Session {head.id[:8]}"
    shell = page(
        title, Fragment(_HERE), css=CSS, script=SCRIPT, description="A session of an agent"
    )
    before, after = shell.split(_HERE)
    yield before
    yield joined(head_of(head, title, notices_of(head), zone), _bar())
    yield "<main>"
    draw = BlockRenderer(zone)
    listed: list[Fragment] = []
    for turn in conversation.turns:
        listed.append(_listed(turn))
        yield draw.turn(turn)
    strays = [draw.subagent(subagent) for subagent in conversation.strays]
    if strays:
        words = element("p", "Subagents whose calls are not above", class_="mark")
        yield element("section", words, strays, class_="turn")
    if not listed and not strays:
        yield element("section", element("p", "Nothing was said.", class_="faint"), class_="turn")
    yield joined(
        Fragment("</main>"), element("nav", element("ol", listed), id="turns", aria_label="Turns")
    )
    yield after


def head_of(head: Head, title: str, notices: Iterable[str], zone: tzinfo) -> Fragment:
    """Return the title, the facts and the notices of a session."""
    used = head.figures
    facts = (
        ("project", head.project),
        ("branch", head.git_branch),
        ("model", ", ".join(head.models)),
        ("when", _span(head.started_at, head.last_active_at, zone)),
        ("responses", f"{used.messages:,}" if used.messages else None),
        ("tokens", f"{used.tokens:,}" if used.tokens else None),
        ("cost at API prices", used.cost if used.messages else None),
        ("subagents", f"{head.subagents:,}" if head.subagents else None),
        ("session", head.id),
    )
    listed = [
        element("div", element("dt", name), element("dd", value)) for name, value in facts if value
    ]
    shown = [element("p", text, class_="notice") for text in notices]
    return element("header", element("h1", title), element("dl", listed, class_="facts"), shown)


def notices_of(head: Head) -> Iterator[str]:
    """Yield notices about what the page does not show."""
    if head.damaged.places:
        count = count_text(head.damaged.places, "place")
        yield f"{count} of the log ({head.damaged.size_bytes:,} bytes) could not be read."
    if head.other_branches:
        count = count_text(head.other_branches, "other branch", "other branches")
        yield f"The conversation has {count} not shown here."
    if not head.is_redacted:
        yield NOT_MASKED


def _bar() -> Fragment:
    def choice(name: str, words: str) -> Fragment:
        box = element("input", type="checkbox", id=name, checked=True)
        return element("label", box, f" {words}")

    return element(
        "div",
        element(
            "input",
            type="search",
            id="find",
            placeholder="Find  /",
            aria_label="Find",
        ),
        element("button", "\u2039", id="before", type="button", title="The one before"),
        element("button", "\u203a", id="next", type="button", title="The next one"),
        element("output", id="told"),
        choice("tools", "Tools"),
        choice("thinking", "Thinking"),
        element("button", "Open all", id="fold", type="button"),
        id="bar",
        role="search",
        hidden=True,
    )


def _listed(turn: ConversationTurn) -> Fragment:
    words = " ".join(turn.label[: 2 * _LISTED].split())[:_LISTED] or "(no prompt)"
    number = str(turn.number) if turn.number else "…"
    return element(
        "li",
        element(
            "a",
            element("b", number),
            element("span", words, class_=None if turn.prompt else "faint"),
            href=f"#{turn.anchor}",
        ),
    )


def _span(first: datetime | None, last: datetime | None, zone: tzinfo) -> str:
    if first is None or last is None:
        return ""
    begin, end = at_text(first, zone), at_text(last, zone)
    is_one_day = begin[:_DAY] == end[:_DAY]
    return f"{begin} \u2013 {end[_DAY + 1 :] if is_one_day else end}"
