"""What a request asks of a session: which thread, which window, which place."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from turnlog.api.sessions.reader import Location, SessionReader, ThreadReader
from turnlog.export.html.page import OwnUrl
from turnlog.web.context import Params
from turnlog.web.layout import address

THREADS: Final[dict[str, str]] = {
    "whole": "from the beginning",
    "current": "since the last compaction",
    "all": "every branch",
}
_MOST_DIGITS: Final = 9


class SessionView(NamedTuple):
    """A session, a thread of it, and a place in it."""

    reader: SessionReader
    thread: ThreadReader
    params: Params
    tag: str
    """Changes with the logs."""
    window: int
    location: Location | None
    notice: str = ""

    @property
    def id(self) -> str:
        """The id of the session."""
        return self.reader.session.id

    def url(self, part: str = "", /, *, hash_: str = "", **params: str | int | None) -> OwnUrl:
        """Return the URL of the session or a part of it, in the same thread."""
        thread = None if self.thread.name == "whole" else self.thread.name
        path = f"/session/{self.id}{f'/{part}' if part else ''}"
        return OwnUrl(address(path, thread=thread, **params) + (f"#{hash_}" if hash_ else ""))

    def place(self, anchor: str) -> OwnUrl:
        """Return the URL of a block or a turn."""
        if anchor.startswith("t"):
            number = anchor[1:]
            if number == "0":
                return self.url(hash_=anchor)
            return self.url(turn=number if number.isdecimal() else None, hash_=anchor)
        return self.url(record=anchor, hash_=anchor)


def view_of(name: str, params: Params) -> SessionView:
    """Return what *params* ask of the session whose id begins with *name*."""
    ctx = params.ctx
    reader, tag = ctx.readers.get(ctx.store.homes, name)
    thread_name = params.one_of("thread", THREADS)
    sought = params.text("record") or params.text("call") or _at(reader, params)
    thread = reader.thread(thread_name)
    location = None
    notice = ""
    if sought:
        if not params.text("thread"):
            thread = reader.thread_with(thread_name, sought)
        location = thread.locate(sought)
        if location is None:
            notice = "The record that the link names is not in this thread."
    last = max(0, len(thread.windows) - 1)
    window = min(number_in(params, "window") or 0, last)
    turn = number_in(params, "turn")
    if location is not None:
        window = location.window
    elif turn:
        found = thread.window_of_turn(turn)
        window = last if found is None else found
    elif params.is_on("end"):
        window = last
    return SessionView(reader, thread, params, tag, window, location, notice)


def _at(reader: SessionReader, params: Params) -> str:
    """Return the block that was written at a time; "" for none or an invalid time."""
    with suppress(ValueError):
        at = datetime.fromisoformat(params.text("at"))
        if at.tzinfo is not None:
            return reader.at(at) or ""
    return ""


def number_in(params: Params, name: str) -> int | None:
    """Return a number, or None if it is missing or invalid."""
    text = params.text(name)
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None
