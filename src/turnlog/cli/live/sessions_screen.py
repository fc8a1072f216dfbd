"""The first screen of ``turnlog top``: every session that runs or was active lately."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from turnlog.cli.live.lines import Line
from turnlog.cli.live.rows import STYLES, head_lines, project_name, row_lines, side_lines
from turnlog.live.sessions import LiveSession, urgency
from turnlog.live.watch import LiveNews

SORTS: Final[dict[str, Callable[[LiveSession], Any]]] = {
    "urgency": urgency,
    "cost": lambda session: (-Decimal(session.cost_usd), urgency(session)),
    "context": lambda session: (-(session.context_percent or 0), urgency(session)),
    "project": lambda session: (project_name(session).casefold(), urgency(session)),
}
"""The orders there are; the first is the usual one."""
_PANEL_FROM: Final = 130
_TICK_SECONDS: Final = 1.0
_RECENT: Final = "-recent"


def content_of(lines: Iterable[Line]) -> Content:
    """Return lines as what textual draws; nothing in them is read as markup."""
    parts: list[Any] = []
    for line in lines:
        parts += ["\n"] if parts else []
        parts += [(text, STYLES[kind]) if STYLES.get(kind) else text for text, kind in line]
    return Content.assemble(*parts)


class SessionListView(OptionList):
    """The sessions; what Enter does is told at the foot of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open"),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]


class SessionsScreen(Screen[None]):
    """The list, a head above it, and beside it, where there is room, all of one session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f,slash", "filter", "Filter", key_display="f"),
        Binding("s", "sort", "Sort"),
        Binding("c", "copy", "Copy id"),
        Binding("r", "app.resume", "Resume"),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("q", "app.quit", "Quit"),
        Binding("escape", "clear", "Clear", show=False),
    ]
    CSS = """
    SessionsScreen {
        #head { height: auto; padding: 0 1; }
        #rule { height: 1; color: $foreground 20%; }
        #list { width: 1fr; height: 1fr; max-height: 100%; border: none; padding: 0;
            background: $background; background-tint: $background 0%;
            scrollbar-size-vertical: 1;
            &:focus { border: none; background-tint: $background 0%; }
            & > .option-list--option { padding: 0 1; }
            & > .option-list--option-highlighted { background: $foreground 10%;
                color: $foreground; text-style: none; }
            & > .option-list--option-hover { background: $foreground 5%; }
            & > .option-list--option-disabled { color: $foreground 40%; } }
        #panel { width: 60; padding: 0 2; border-left: solid $foreground 15%;
            scrollbar-size-vertical: 1; display: none; }
        #filter { display: none; height: 1; border: none; padding: 0 1; background: $surface; }
        &.-wide #panel { display: block; }
        &.-filtering #filter { display: block; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.news: LiveNews | None = None
        self.words = ""
        self.sort = next(iter(SORTS))
        self._minute = 0
        self._drawn: dict[str, list[Line]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Static(id="rule")
        with Horizontal():
            yield SessionListView(id="list", markup=False)
            with VerticalScroll(id="panel", can_focus=False):
                yield Static(id="side")
        yield Input(id="filter", placeholder="project, title or id", select_on_focus=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(SessionListView).focus()
        self.set_interval(_TICK_SECONDS, self._tick)

    def on_resize(self) -> None:
        self.set_class(self.app.size.width >= _PANEL_FROM, "-wide")
        self.call_after_refresh(self.draw)

    def show_news(self, news: LiveNews) -> None:
        """Show what is going on now."""
        self.news = news
        self.draw()

    def _tick(self) -> None:
        """Draw what time has changed: seconds where something runs, else minutes."""
        minute = int(time.time() // 60)
        if minute != self._minute or (self.news is not None and self.news.document.running):
            self._minute = minute
            self.draw()

    @property
    def sessions(self) -> list[LiveSession]:
        """Those that are listed, in their order."""
        found = self.news.document.sessions if self.news else []
        words = self.words.casefold().split()
        kept = [each for each in found if all(word in _searched(each) for word in words)]
        return sorted(kept, key=SORTS[self.sort])

    @property
    def chosen(self) -> LiveSession | None:
        """The one that the cursor is on."""
        option = self.query_one(SessionListView).highlighted_option
        wanted = option.id if option is not None else None
        return next((each for each in self.sessions if each.id == wanted), None)

    def draw(self) -> None:
        """Draw what has changed, and nothing else."""
        if self.news is None or not self.is_running or not self.query(SessionListView):
            return  # News came before there is anything to see, or after.
        now = datetime.now(UTC)
        width = max(1, self.app.size.width - 2)
        _update(self.query_one("#head", Static), content_of(head_lines(self.news, width, now)))
        _update(self.query_one("#rule", Static), Content("─" * self.app.size.width))
        self._draw_list(now)
        self._draw_side(now)

    def _draw_list(self, now: datetime) -> None:
        listed = self.query_one(SessionListView)
        sessions = self.sessions
        width = max(8, (listed.size.width or self.app.size.width) - 3)
        drawn = {each.id: row_lines(each, width, now) for each in sessions}
        ids = _with_border(sessions) if self.sort == "urgency" else list(drawn)
        if not ids:
            self._say_nothing(listed)
        elif [option.id for option in listed.options] != ids:
            self._replace(listed, ids, drawn)
        else:
            for place, name in enumerate(ids):
                if name != _RECENT and self._drawn.get(name) != drawn[name]:
                    prompt = content_of(drawn[name])
                    listed.replace_option_prompt_at_index(place, prompt)
        self._drawn = drawn

    def _replace(
        self, listed: SessionListView, ids: list[str], drawn: dict[str, list[Line]]
    ) -> None:
        """Put other rows in the list; the cursor stays on its session, if that is still there."""
        option, place = listed.highlighted_option, listed.highlighted or 0
        before = option.id if option is not None else None
        listed.set_options(
            Option(Content("\nrecently active"), id=name, disabled=True)
            if name == _RECENT
            else Option(content_of(drawn[name]), id=name)
            for name in ids
        )
        there = ids.index(before) if before in ids else min(place, len(ids) - 1)
        listed.highlighted = there + 1 if ids[there] == _RECENT else there

    def _draw_side(self, now: datetime) -> None:
        panel, chosen = self.query_one("#panel"), self.chosen
        if panel.display and chosen is not None:
            width = max(20, panel.size.width - 5)
            _update(self.query_one("#side", Static), content_of(side_lines(chosen, width, now)))

    def _say_nothing(self, listed: SessionListView) -> None:
        words = "\nNo session runs, and none was active lately.\n\nturnlog sessions lists all."
        if self.words:
            words = "\nNo session has these words; Esc shows all."
        elif self.news is None or self.news.document.today is None:
            words = "\nReading the logs …"
        options = listed.options
        if len(options) != 1 or str(options[0].prompt) != words:
            listed.set_options([Option(Content(words), disabled=True)])

    # -- what a person does -----------------------------------------------------------------

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_open()

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        self._draw_side(datetime.now(UTC))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.words = event.value
        self.draw()

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.query_one(SessionListView).focus()
        self.set_class(bool(self.words), "-filtering")

    def action_open(self) -> None:
        """Open the session that the cursor is on."""
        from turnlog.cli.live.session_screen import SessionScreen

        chosen = self.chosen
        if chosen is not None:
            self.app.push_screen(SessionScreen(chosen))

    def action_filter(self) -> None:
        """Ask for words that a session must have."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def action_clear(self) -> None:
        """Show all sessions again."""
        self.query_one(Input).value = ""
        self.remove_class("-filtering")
        self.query_one(SessionListView).focus()

    def action_sort(self) -> None:
        """Put the sessions in the next order."""
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        self.notify(f"sorted by {self.sort}", timeout=2, markup=False)
        self.draw()

    def action_copy(self) -> None:
        """Copy the id of the session that the cursor is on."""
        chosen = self.chosen
        if chosen is not None:
            self.app.copy_to_clipboard(chosen.id)
            self.notify(f"copied {chosen.id}", timeout=2, markup=False)


def _with_border(sessions: list[LiveSession]) -> list[str]:
    """Return the ids, with a border between those that run and those that do not."""
    running = [each.id for each in sessions if each.is_running]
    others = [each.id for each in sessions if not each.is_running]
    return [*running, _RECENT, *others] if running and others else [*running, *others]


def _searched(session: LiveSession) -> str:
    parts = (session.project, session.title, session.id, session.git_branch)
    return " ".join(part for part in parts if part).casefold()


def _update(widget: Static, content: Content) -> None:
    """Draw *content*, unless it is what is drawn already."""
    before = widget.content
    if not (isinstance(before, Content) and before.is_same(content)):
        widget.update(content)
