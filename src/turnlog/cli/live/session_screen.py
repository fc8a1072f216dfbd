"""One session in ``turnlog top``: its conversation, read on while it goes on."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from turnlog.cli.live.conversation import ConversationView
from turnlog.cli.live.entries import ConversationReader, Growth
from turnlog.cli.live.lines import Line, Piece, justified
from turnlog.cli.live.rows import doing_pieces, project_name, when
from turnlog.cli.live.sessions_screen import content_of
from turnlog.cli.terminal.console import counted
from turnlog.live.sessions import LiveSession, shared_by
from turnlog.pricing.money import shown
from turnlog.text import inert_line

if TYPE_CHECKING:
    from turnlog.live.watch import LiveNews

_LOOK_SECONDS: Final = 0.25
_TICK_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 2.0


class SessionScreen(Screen[None]):
    """The conversation of a session, or with *subagent* that of one of its subagents."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("n", "again(1)", "Next", show=False),
        Binding("N", "again(-1)", "Previous", show=False),
        Binding("a", "app.subagents", "Subagents", show=False),
        Binding("c", "copy", "Copy id", show=False),
        Binding("r", "app.resume", "Resume", show=False),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
    ]
    CSS = """
    SessionScreen {
        #head { height: auto; padding: 0 1; }
        #rule { height: 1; color: $foreground 20%; }
        #conversation { height: 1fr; padding: 0 0 0 1; background: $background; }
        #search { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
        &.-searching #search { display: block; }
    }
    """

    class Grown(Message):
        """Something was read."""

        def __init__(self, growth: Growth) -> None:
            super().__init__()
            self.growth = growth

    def __init__(self, session: LiveSession, subagent: Path | None = None) -> None:
        super().__init__()
        self.session, self.subagent = session, subagent
        self.records, self.is_whole, self.problem = 0, True, ""
        self._stop, self._wanted = threading.Event(), threading.Event()
        self._wants_earlier = False
        self._reader = threading.Thread(target=self._read, name="turnlog-top-reads", daemon=True)

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="rule")
        yield ConversationView(id="conversation")
        yield Input(id="search", placeholder="find", select_on_focus=True)
        yield Footer(show_command_palette=False)

    @property
    def view(self) -> ConversationView:
        """The conversation."""
        return self.query_one(ConversationView)

    def on_mount(self) -> None:
        self.view.focus()
        self._draw_head()
        self.set_interval(_TICK_SECONDS, self._draw_head)
        self._reader.start()

    def on_unmount(self) -> None:
        self._stop.set()
        self._wanted.set()

    def _read(self) -> None:
        """Read in the background; every look at a log that has not grown is one ``stat``."""
        session = shared_by(self.session.id, self.session.layout)
        reading = ConversationReader(self.subagent or self.session.path, session=session)
        while not self._stop.is_set():
            growth = reading.earlier() if self._wants_earlier else reading.look()
            self._wants_earlier = False
            if growth is not None and not self._stop.is_set():
                self.post_message(self.Grown(growth))
            self._wanted.wait(_LOOK_SECONDS)
            self._wanted.clear()

    def on_session_screen_grown(self, message: Grown) -> None:
        """Show what was read."""
        growth = message.growth
        if not self.query(ConversationView):
            return
        if growth.begins:
            self.is_whole, self.problem = growth.is_whole, growth.problem
            self.view.show(growth.entries)
        else:
            self.view.grow(growth.entries)
        self.records = growth.records
        self._draw_head()

    def show_news(self, news: LiveNews) -> None:
        """Show what the session is doing now."""
        for session in news.document.sessions:
            if session.id == self.session.id:
                self.session = session
                self._draw_head()

    def on_resize(self) -> None:
        self._draw_head()

    @on(ConversationView.Moved)
    def _moved(self) -> None:
        self._draw_head()

    @on(ConversationView.WantsEarlier)
    def _earlier(self) -> None:
        if not self.is_whole:
            self._wants_earlier = True
            self._wanted.set()

    def _draw_head(self) -> None:
        if not self.is_running or not self.query(ConversationView):
            return  # News came before there is anything to see, or after.
        width = max(1, self.app.size.width - 2)
        lines = [self._first(width), self._second(width)]
        self.query_one("#head", Static).update(content_of(lines))
        self.query_one("#rule", Static).update(content_of([(("─" * (width + 2), ""),)]))

    def _first(self, width: int) -> Line:
        session = self.session
        title = inert_line(session.title or session.prompt or "untitled")
        if self.subagent is not None:
            title = inert_line(f"{self.subagent.stem} · {title}")
        left: list[Piece] = [(project_name(session), "project"), ("  ", ""), (title, "title")]
        percent = session.context_percent
        share = f"{percent:.0f}% context  " if percent is not None and width >= 60 else ""
        return _line(left, f"{share}{shown(Decimal(session.cost_usd))}", width)

    def _second(self, width: int) -> Line:
        session, view, now = self.session, self.view, datetime.now(UTC)
        if self.problem:
            return _line([(inert_line(self.problem), "crashed")], "", width)
        parts = [when(session, now)]
        if not self.is_whole:
            parts.append(f"the last {counted(self.records, 'record')}")
        parts.append("following" if view.is_following and session.is_running else "")
        right = " · ".join(part for part in parts if part) if width >= 40 else ""
        return _line(doing_pieces(session), right, width)

    # -- what a person does -----------------------------------------------------------------

    def action_back(self) -> None:
        """Stop searching, or go back to the list."""
        if self.has_class("-searching") or self.view.needle is not None:
            self.remove_class("-searching")
            self.view.find(None)
            self.view.focus()
        else:
            self.dismiss()

    def action_search(self) -> None:
        """Ask what to look for."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _search(self, event: Input.Submitted) -> None:
        self.remove_class("-searching")
        self.view.focus()
        self._find(event.value, 1)

    def action_again(self, step: int) -> None:
        """Go to the next place, or to the one before."""
        words = self.query_one(Input).value
        if words:
            self._find(words, step)

    def _find(self, words: str, step: int) -> None:
        if not words.strip():
            self.view.find(None)
            return
        # Who types capitals means them.
        flags = re.IGNORECASE if words == words.lower() else re.NOFLAG
        if not self.view.find(re.compile(re.escape(words), flags), step):
            where = "" if self.is_whole else " in what is read; g twice reads further back"
            self.notify(f"not found: {inert_line(words)}{where}", timeout=3, markup=False)

    def action_copy(self) -> None:
        """Copy the session's id."""
        self.app.copy_to_clipboard(self.session.id)
        self.notify(f"copied {self.session.id}", timeout=2, markup=False)


def _line(left: list[Piece], right: str, width: int) -> Line:
    return justified(left, [(right, "dim")] if right else [], width, gap=2, least=12)
