"""The small boxes of ``turnlog top``: help, how to resume, which subagent."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from turnlog.cli.live.lines import Line
from turnlog.cli.live.sessions_screen import content_of
from turnlog.errors import TurnlogError
from turnlog.formats import Home, subagent_logs_near
from turnlog.text import inert, inert_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.live.sessions import LiveSession

_KEYS: Final = (
    ("", "the sessions"),
    ("↑ ↓, mouse", "choose"),
    ("Enter, click", "open"),
    ("f", "show only some: words of project, title or id"),
    ("s", "sort by urgency, cost, context, project"),
    ("c", "copy the session's id"),
    ("r", "how to go on with it in Claude Code"),
    ("", ""),
    ("", "a session"),
    ("↑ ↓, wheel", "scroll; at the end it follows"),
    ("Enter, click", "fold a call, or unfold it"),
    ("e", "unfold everything, or fold it"),
    ("t", "show what was thought, or hide it"),
    ("] [", "next prompt, previous prompt"),
    ("/ n N", "find, next, previous"),
    ("g G", "beginning, end; g once more reads further back"),
    ("a", "the subagents of the session"),
    ("Esc", "back"),
    ("", ""),
    ("◆ ● ○", "waits for you, is at work, has answered"),
    ("· ✗", "does not run, crashed"),
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
    """What can be typed."""

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
    """How to go on with a session, and what stands in the way."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,r,enter", "dismiss", "Close"),
        Binding("c", "copy", "Copy"),
    ]
    # As wide as may be: a path has no place to be broken at.
    CSS = f"ResumeBox {{ {_CSS} .box {{ width: 90%; }} Static {{ width: 100%; }} }}"

    class Found(Message):
        """The way to go on is known."""

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
        """Find out in the background: a long log may have to be read."""
        from turnlog.api.reading import Session
        from turnlog.api.resume import resumption

        try:
            plan = resumption(Session.find(self._homes, self._session.id))
        except (TurnlogError, OSError) as error:
            self.post_message(self.Found("", [str(error)]))
            return
        notes = [f"{each.message}; {each.hint}" for each in plan.obstacles]
        self.post_message(self.Found(plan.line, notes))

    def on_resume_box_found(self, message: Found) -> None:
        self.line = message.line
        lines: list[Line] = []
        if message.line:
            lines += [((inert(message.line), "title"),), (), (("c copies it, Esc closes", "dim"),)]
        for note in message.notes:
            lines += [(), ((inert_line(note), "high"),)]
        self.query_one(Static).update(content_of(lines))
        # The answer may come before the box was laid out for the first time.
        self.call_after_refresh(self.refresh, layout=True)

    def action_copy(self) -> None:
        """Copy the command line."""
        if self.line:
            self.app.copy_to_clipboard(self.line)
            self.notify("copied", timeout=2, markup=False)


class SubagentsBox(ModalScreen[Path | None]):
    """Which of a session's subagents to look at; the newest first."""

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
                yield Static(Content("This session has no subagents of its own."))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._subagents[event.option_index])


def subagent_choices(session: LiveSession) -> list[Path]:
    """Return the logs of a session's subagents, the newest first."""
    try:
        found = list(subagent_logs_near(session.path, session.id))
        return sorted(found, key=lambda path: -path.stat().st_mtime_ns)
    except (OSError, TurnlogError):
        return []
