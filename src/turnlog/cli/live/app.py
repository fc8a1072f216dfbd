"""The app of ``turnlog top``: its screens, its look, and the news that reach them."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.theme import Theme

from turnlog.cli.live.dialogs import HelpBox, ResumeBox, SubagentsBox, subagent_choices
from turnlog.cli.live.session_screen import SessionScreen
from turnlog.cli.live.sessions_screen import SessionsScreen
from turnlog.live.sessions import Live, LiveSession
from turnlog.live.watch import LiveNews, LiveWatch

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


class TopApp(App[None]):
    """Shows *live*, and keeps it up to date while it runs."""

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
        """Something is other than it was."""

        def __init__(self, news: LiveNews) -> None:
            super().__init__()
            self.news = news

    def __init__(self, live: Live, *, poll: float | None = None) -> None:
        super().__init__()
        self.live = live
        self._sessions = SessionsScreen()
        self._watch = LiveWatch(live, self._tell, poll=poll)

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        self.push_screen(self._sessions)
        self._watch.start()

    def on_unmount(self) -> None:
        self._watch.close()

    def _tell(self, news: LiveNews) -> None:
        """Pass news on; called from the threads that watch."""
        self.post_message(self.Changed(news))

    def on_top_app_changed(self, message: Changed) -> None:
        """Give the news to every screen that shows them."""
        for screen in self.screen_stack:
            if isinstance(screen, SessionsScreen | SessionScreen):
                screen.show_news(message.news)

    @property
    def chosen(self) -> LiveSession | None:
        """The session that is open, or that the cursor is on."""
        for screen in reversed(self.screen_stack):
            if isinstance(screen, SessionScreen):
                return screen.session
        return self._sessions.chosen

    def action_help(self) -> None:
        """Show what can be typed."""
        self.push_screen(HelpBox())

    def action_resume(self) -> None:
        """Show how to go on with the session."""
        if self.chosen is not None:
            self.push_screen(ResumeBox(self.live.homes, self.chosen))

    def action_subagents(self) -> None:
        """Let one of the session's subagents be chosen, and open it."""
        session = self.chosen
        if session is None:
            return

        def opened(subagent: Path | None) -> None:
            if subagent is not None:
                self.push_screen(SessionScreen(session, subagent))

        self.push_screen(SubagentsBox(subagent_choices(session)), opened)
