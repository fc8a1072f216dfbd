"""The app of ``turnlog top``: its screens, theme and dialogs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.theme import Theme
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from turnlog.api.homes import Home
from turnlog.api.live import Live, LiveNews, LiveSession, LiveWatch, subagent_logs_near
from turnlog.cli.live.entries import Line
from turnlog.cli.live.session_screen import SessionScreen
from turnlog.cli.live.sessions_screen import SessionsScreen, content_of
from turnlog.errors import TurnlogError
from turnlog.text import inert, inert_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.api.live import LiveSession


THEME: Final = Theme(
    name="turnlog",
    primary="#7aa2c8",
    secondary="#a3b8cc",
    accent="#7fb8c9",
    warning="#e5b567",
    error="#d9796f",
    success="#8fb573",
    foreground="#d6d9de",
    background="#14161a",
    surface="#1d2026",
    panel="#1d2026",
    dark=True,
    variables={"footer-key-foreground": "#7fb8c9", "footer-background": "#14161a"},
)


_TERMINAL_CHECK_SECONDS: Final = 2.0


class TopApp(App[None]):
    """Shows *live*, and updates it while it runs."""

    TITLE = "turnlog top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    * {
        scrollbar-color: $foreground 25%;
        scrollbar-color-hover: $foreground 40%;
        scrollbar-color-active: $foreground 40%;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True)
    ]

    class Changed(Message):
        """Some session changed."""

        def __init__(self, news: LiveNews) -> None:
            super().__init__()
            self.news = news

    def __init__(self, live: Live, *, poll: float | None = None) -> None:
        super().__init__()
        self.live = live
        self._sessions = SessionsScreen()
        self._watch = LiveWatch(live, self._post, poll=poll)

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        self.push_screen(self._sessions)
        self._watch.start()
        if not self.is_headless:
            self.set_interval(_TERMINAL_CHECK_SECONDS, self._exit_without_terminal)

    def on_unmount(self) -> None:
        self._watch.close()

    def _exit_without_terminal(self) -> None:
        """Exit if the terminal is gone: without it, Textual reads its end in a busy loop.

        A terminal that closes sends SIGHUP, but not to programs started with nohup or setsid.
        """
        if not os.isatty(0):
            self.exit()

    def _post(self, news: LiveNews) -> None:
        """Post news; called from the watching threads."""
        self.post_message(self.Changed(news))

    def on_top_app_changed(self, message: Changed) -> None:
        """Update all screens."""
        for screen in self.screen_stack:
            if isinstance(screen, SessionsScreen | SessionScreen):
                screen.show_news(message.news)

    @property
    def chosen(self) -> LiveSession | None:
        """The open session, or the one under the cursor."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, SessionScreen):
                return screen.session
        return self._sessions.chosen

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(HelpBox())

    def action_resume(self) -> None:
        """Show how to resume the session."""
        if self.chosen is not None:
            self.push_screen(ResumeBox(self.live.homes, self.chosen))

    def action_subagents(self) -> None:
        """Choose one of the session's subagents and open it."""
        session = self.chosen
        if session is None:
            return

        def opened(subagent: Path | None) -> None:
            if subagent is not None:
                self.push_screen(SessionScreen(session, subagent))

        self.push_screen(SubagentsBox(subagent_choices(session)), opened)


_KEYS: Final = (
    ("", "the sessions"),
    ("↑ ↓, mouse", "select"),
    ("Enter, click", "open"),
    ("f", "filter by project, title or id"),
    ("s", "sort by urgency, cost, context, project"),
    ("c", "copy the session's id"),
    ("r", "how to resume it in Claude Code"),
    ("", ""),
    ("", "a session"),
    ("↑ ↓, wheel", "scroll; at the end it follows"),
    ("Enter, click", "fold or unfold a call"),
    ("e", "fold or unfold everything"),
    ("t", "show or hide thinking"),
    ("] [", "next prompt, previous prompt"),
    ("/ n N", "find, next, previous"),
    ("g G", "start, end; g again reads further back"),
    ("a", "subagents"),
    ("Esc", "back"),
    ("", ""),
    ("◆ ● ○", "waiting for you, working, done"),
    ("· ✗", "not running, crashed"),
    ("q", "quit"),
)
_CSS: Final = """
    align: center middle;
    background: $background 60%;
    .box { width: auto; max-width: 90%; height: auto; max-height: 100%; padding: 0 2;
        background: $surface; border: round $foreground 25%; scrollbar-size-vertical: 1; }
    Static { width: auto; max-width: 100%; }
"""


class HelpBox(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "Close")
    ]
    CSS = f"HelpBox {{ {_CSS} }}"

    def compose(self) -> ComposeResult:
        lines: list[Line] = [
            ((f"{key:<14}", "tool"), (what, "")) if key else ((what, "bold"),)
            for key, what in _KEYS
        ]
        with VerticalScroll(classes="box"):
            yield Static(content_of(lines))


class ResumeBox(ModalScreen[None]):
    """How to resume a session, and what prevents it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,r,enter", "dismiss", "Close"),
        Binding("c", "copy", "Copy"),
    ]
    # Wide, because paths cannot be wrapped.
    CSS = f"ResumeBox {{ {_CSS} .box {{ width: 90%; }} Static {{ width: 100%; }} }}"

    class Found(Message):
        """The command that resumes the session, or why there is none."""

        def __init__(self, line: str, notes: list[str]) -> None:
            super().__init__()
            self.line, self.notes = line, notes

    def __init__(self, homes: Sequence[Home], session: LiveSession) -> None:
        super().__init__()
        self._homes, self._session = homes, session
        self.line = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Static(Content("looking …"))

    def on_mount(self) -> None:
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        """Find the command in the background: it may have to read a long log."""
        from turnlog.api.sessions.reading import Session
        from turnlog.api.sessions.resume import resumption

        try:
            plan = resumption(Session.find(self._homes, self._session.id))
        except (TurnlogError, OSError) as error:
            self.post_message(self.Found("", [str(error)]))
            return
        notes = [f"{obstacle.message}; {obstacle.hint}" for obstacle in plan.obstacles]
        self.post_message(self.Found(plan.line, notes))

    def on_resume_box_found(self, message: Found) -> None:
        self.line = message.line
        lines: list[Line] = []
        if message.line:
            lines += [((inert(message.line), "title"),), (), (("c copies it, Esc closes", "dim"),)]
        for note in message.notes:
            lines += [(), ((inert_line(note), "high"),)]
        self.query_one(Static).update(content_of(lines))
        # The message may arrive before the first layout.
        self.call_after_refresh(self.refresh, layout=True)

    def action_copy(self) -> None:
        """Copy the command line."""
        if self.line:
            self.app.copy_to_clipboard(self.line)
            self.notify("copied", timeout=2, markup=False)


class SubagentsBox(ModalScreen[Path | None]):
    """A choice of a session's subagents, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,a", "dismiss", "Close")]
    CSS = f"""SubagentsBox {{ {_CSS}
        OptionList {{ width: 60; max-width: 100%; height: auto; max-height: 20;
            background: $surface; border: none; padding: 0; }} }}"""

    def __init__(self, subagents: list[Path]) -> None:
        super().__init__()
        self._subagents = subagents

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box", can_focus=False):
            if self._subagents:
                names = (Content(inert_line(path.stem)) for path in self._subagents)
                yield OptionList(*(Option(name) for name in names), markup=False)
            else:
                yield Static(Content("This session has no subagents."))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._subagents[event.option_index])


def subagent_choices(session: LiveSession) -> list[Path]:
    """Return the logs of a session's subagents, the newest first."""
    try:
        logs = list(subagent_logs_near(session.path, session.id))
        return sorted(logs, key=lambda path: -path.stat().st_mtime_ns)
    except (OSError, TurnlogError):
        return []
