"""The places in a session where words are."""

from __future__ import annotations

from typing import Final

from turnlog.api.sessions.reader import FoundPlace
from turnlog.export.html.blocks import count_text
from turnlog.export.html.page import Fragment, element
from turnlog.web.pages.session.view import SessionView

_LONGEST: Final = 400
_SHORTEST: Final = 2


def find_form(view: SessionView, words: str) -> Fragment:
    """Return the box to find words in the session; scripts add the buttons."""
    thread = view.thread.name
    return element(
        "form",
        element(
            "input",
            type="search",
            name="find",
            id="find",
            value=words or None,
            placeholder="Find in this session  /",
            aria_label="Find in this session",
            data_find=True,
        ),
        element("input", type="hidden", name="thread", value=thread) if thread != "whole" else None,
        element("button", "Find", class_="without-js"),
        _button("previous", "\u2039", "Previous place"),
        _button("next", "\u203a", "Next place"),
        element("output", id="told", for_="find"),
        action=view.url(),
        role="search",
        id="finding",
        data_places=view.url("find"),
    )


def _button(name: str, sign: str, words: str) -> Fragment:
    return element(
        "button", sign, id=name, type="button", title=words, aria_label=words, class_="needs-js"
    )


def places(view: SessionView, words: str) -> Fragment:
    """Return links to the places with *words*."""
    words = words[:_LONGEST]
    found = view.thread.find(words) if len(words) >= _SHORTEST else None
    rows = [_row(view, place) for place in found.places] if found else []
    more = "more than " if found and found.is_cut else ""
    told = f"{more}{count_text(len(rows), 'place')}" if rows else "not found" if words else ""
    return element(
        "details",
        element("summary", told),
        element("ol", rows),
        id="places",
        open=bool(rows),
        hidden=not words,
        data_words=words,
    )


def _row(view: SessionView, place: FoundPlace) -> Fragment:
    begin, end = place.highlight
    by = f"#{place.turn} {place.kind}" + (" of a subagent" if place.subagent else "")
    return element(
        "li",
        element("a", by, href=view.place(place.anchor), data_place=place.anchor),
        " ",
        place.snippet[:begin],
        element("mark", place.snippet[begin:end]),
        place.snippet[end:],
    )
