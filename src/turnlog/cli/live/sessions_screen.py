"""The first screen of ``turnlog top``: running and recently active sessions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from turnlog.api.costs import BlockRow
from turnlog.api.homes import last_part
from turnlog.api.live import ASKED_FOR, Doing, LiveNews, LiveSession, urgency
from turnlog.api.sessions.lists import Keeping
from turnlog.cli.live.entries import Line, Piece, clock, fit, justified, seconds, wrapped
from turnlog.cli.terminal.console import age, counted, short_count
from turnlog.pricing.money import shown
from turnlog.text import inert_line

SORTS: Final[dict[str, Callable[[LiveSession], Any]]] = {
    "urgency": urgency,
    "cost": lambda session: (-Decimal(session.cost_usd), urgency(session)),
    "context": lambda session: (-(session.context_percent or 0), urgency(session)),
    "project": lambda session: (project_name(session).casefold(), urgency(session)),
}
"""Sort orders; the first is the default."""
_PANEL_FROM: Final = 130
_TICK_SECONDS: Final = 1.0
_RECENT: Final = "-recent"


def content_of(lines: Iterable[Line]) -> Content:
    """Return lines as textual content, without interpreting markup."""
    parts: list[Any] = []
    for line in lines:
        parts += ["\n"] if parts else []
        parts += [(text, STYLES[kind]) if STYLES.get(kind) else text for text, kind in line]
    return Content.assemble(*parts)


class SessionListView(OptionList):
    """The list of sessions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open"),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
    ]


class SessionsScreen(Screen[None]):
    """The list, a header, and on wide terminals a panel about the selected session."""

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
        """Show the current state."""
        self.news = news
        self.draw()

    def _tick(self) -> None:
        """Redraw every second if something runs, else every minute."""
        minute = int(time.time() // 60)
        if minute != self._minute or (self.news is not None and self.news.document.running):
            self._minute = minute
            self.draw()

    @property
    def sessions(self) -> list[LiveSession]:
        """The listed sessions, sorted."""
        sessions = self.news.document.sessions if self.news else []
        words = self.words.casefold().split()
        matches = [row for row in sessions if all(word in _searched(row) for word in words)]
        return sorted(matches, key=SORTS[self.sort])

    @property
    def chosen(self) -> LiveSession | None:
        """The session under the cursor."""
        option = self.query_one(SessionListView).highlighted_option
        wanted = option.id if option is not None else None
        return next((each for each in self.sessions if each.id == wanted), None)

    def draw(self) -> None:
        """Redraw what has changed."""
        if self.news is None or not self.is_running or not self.query(SessionListView):
            return  # Not shown yet, or no longer.
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
        """Replace the rows; the cursor stays on its session."""
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
        words = "\nNo running or recently active sessions.\n\nturnlog sessions lists all."
        if self.words:
            words = "\nNo matching session; Esc shows all."
        elif self.news is None or self.news.document.today is None:
            words = "\nReading the logs …"
        options = listed.options
        if len(options) != 1 or str(options[0].prompt) != words:
            listed.set_options([Option(Content(words), disabled=True)])

    # -- actions ----------------------------------------------------------------------------

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
        """Open the session under the cursor."""
        from turnlog.cli.live.session_screen import SessionScreen

        chosen = self.chosen
        if chosen is not None:
            self.app.push_screen(SessionScreen(chosen))

    def action_filter(self) -> None:
        """Edit the filter."""
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
        """Copy the id of the session under the cursor."""
        chosen = self.chosen
        if chosen is not None:
            self.app.copy_to_clipboard(chosen.id)
            self.notify(f"copied {chosen.id}", timeout=2, markup=False)


def _with_border(sessions: list[LiveSession]) -> list[str]:
    """Return the ids, with a separator between running sessions and others."""
    running = [row.id for row in sessions if row.is_running]
    others = [row.id for row in sessions if not row.is_running]
    return [*running, _RECENT, *others] if running and others else [*running, *others]


def _searched(session: LiveSession) -> str:
    parts = (session.project, session.title, session.id, session.git_branch)
    return " ".join(part for part in parts if part).casefold()


def _update(widget: Static, content: Content) -> None:
    """Update a widget if its content changed."""
    before = widget.content
    if not (isinstance(before, Content) and before.is_same(content)):
        widget.update(content)


STYLES: Final = {
    "": "",
    "bold": "bold",
    "dim": "$foreground 55%",
    "project": "$accent",
    "title": "bold",
    "waiting": "bold $warning",
    "working": "$success",
    "tool": "$accent",
    "crashed": "$error",
    "low": "$success",
    "high": "$warning",
    "full": "$error",
    "empty": "$foreground 20%",
}
"""Textual styles, by kind of piece."""

_SIGNS: Final = {
    Doing.WAITING: ("◆", "waiting"),
    Doing.CALLING: ("●", "working"),
    Doing.THINKING: ("●", "working"),
    Doing.ANSWERING: ("●", "working"),
    Doing.IDLE: ("○", "bold"),
    Doing.CRASHED: ("✗", "crashed"),
}
_KEPT: Final[dict[Keeping, str]] = {
    "live": "no",
    "kept": "yes",
    "restorable": "yes; the log is gone",
    "gone": "no; the log is gone",
}
_BUSY_PERCENT, _FULL_PERCENT = 50, 80
_BAR: Final = 8


def row_lines(session: LiveSession, width: int, now: datetime) -> list[Line]:
    """Return the two lines of a session."""
    return [_first(session, width), _second(session, width, now)]


def head_lines(news: LiveNews, width: int, now: datetime) -> list[Line]:
    """Return the header: running sessions, today's cost, the five-hour block."""
    document = news.document
    running: list[Piece] = [("turnlog top", "bold"), ("   ", "")]
    running.append((f"{document.running} running", "working" if document.running else "dim"))
    if document.waiting:
        running += [(" · ", "dim"), (f"{document.waiting} waiting for you", "waiting")]
    today = document.today
    right = [(f"{shown(Decimal(today.cost_usd))} today", "")] if today else []
    return [justified(running, right, width), justified(*_block(news, now), width)]


def side_lines(session: LiveSession, width: int, now: datetime) -> list[Line]:
    """Return the lines of the panel about one session."""
    lines: list[Line] = [((part, "title"),) for part in wrapped(_title(session), width)[:3]]
    facts = (
        ("project", session.project or "?"),
        ("branch", session.git_branch or ""),
        ("session", session.id),
        ("model", session.model or ""),
        ("started", age(now, session.started_at)),
        ("process", str(session.pid) if session.pid else ""),
        ("kept", _KEPT[session.keeping]),
    )
    lines.append(())
    lines += [_fact(name, value, width) for name, value in facts if value]
    lines.append(())
    lines.append(_fact("cost", shown(Decimal(session.cost_usd)), width))
    written = session.cache_write_5m + session.cache_write_1h
    tokens = (session.input, "in"), (session.output, "out")
    cache = (written, "written"), (session.cache_read, "read")
    lines.append(_fact("tokens", _counts(*tokens) or "none", width))
    if cached := _counts(*cache):
        lines.append(_fact("cache", cached, width))
    percent = session.context_percent
    if percent is not None and session.context_tokens is not None:
        words = f" {percent:.0f}% of {short_count(session.context_window or 0)}"
        lines.append((("context  ", "dim"), *bar(percent, min(20, width - 26)), (words, "")))
    lines += [(), *_doing_block(session, width, now)]
    if session.prompt:
        lines += [(), (("last prompt", "dim"),)]
        parts = [part for text in session.prompt.split("\n") for part in wrapped(text, width)]
        lines += [((part, ""),) for part in parts[:8]]
    return lines


def bar(percent: float, width: int) -> list[Piece]:
    """Return a bar of how full a context is."""
    width = max(1, width)
    full = min(width, max(round(percent * width / 100), 1 if percent > 0 else 0))
    return [("━" * full, _fill(percent)), ("━" * (width - full), "empty")]


def doing_pieces(session: LiveSession) -> list[Piece]:
    """Return what a session is doing."""
    match session.doing:
        case Doing.WAITING:
            wanted = ASKED_FOR.get(session.waiting_for or "", session.waiting_for or "you")
            reason = "" if wanted == "you" else f": {inert_line(wanted)}"
            words = f"waiting for you{reason}"
            return [(words, "waiting"), *_call(session, " · ")]
        case Doing.CALLING:
            return _call(session) or [("working", "working")]
        case Doing.THINKING:
            return [("thinking", "working"), *_about(session)]
        case Doing.ANSWERING:
            return [("answering", "working"), *_about(session)]
        case Doing.IDLE:
            return [("your turn", "bold"), *_about(session)]
        case Doing.CRASHED:
            return [("crashed", "crashed"), *_about(session)]
    said = inert_line(session.prompt or "")
    return [] if said == _title(session) else [(said, "dim")]


def elapsed(session: LiveSession, now: datetime) -> str:
    """Return how long a session has been doing this, or when it was last active."""
    if session.is_running and session.since_at is not None:
        return seconds(int((now - session.since_at).total_seconds()))
    return age(now, session.last_active_at)


def project_name(session: LiveSession) -> str:
    """Return the last part of a project's path, or "?"."""
    return inert_line(last_part(session.project or "")) or "?"


def plain(lines: Iterable[Line]) -> str:
    """Return lines as text."""
    return "\n".join("".join(text for text, _ in line) for line in lines)


def _first(session: LiveSession, width: int) -> Line:
    sign = _SIGNS.get(session.doing, ("·", "dim"))
    right = _figures(session, width)
    room = width - 2 - sum(cell_len(text) for text, _ in right)
    name = fit(project_name(session), max(4, min(24, room // 3)))
    is_past = not session.is_running
    title = fit(_title(session), room - cell_len(name) - 3)
    left: list[Piece] = [
        (f"{sign[0]} ", sign[1]),
        (name, "dim" if is_past else "project"),
        ("  ", ""),
        (title, "" if is_past else "title"),
    ]
    return justified(left, right, width)


def _second(session: LiveSession, width: int, now: datetime) -> Line:
    right = [(elapsed(session, now), "waiting" if session.doing is Doing.WAITING else "dim")]
    return justified([("  ", ""), *doing_pieces(session)], right, width)


def _figures(session: LiveSession, width: int) -> list[Piece]:
    """Return the figures of a row that fit."""
    percent = session.context_percent
    cost = (f"{shown(Decimal(session.cost_usd)):>9}", "")
    full = f"{min(percent, 999):3.0f}%" if percent is not None else "    "
    share: Piece = (f"  {full}", _fill(percent) if percent is not None else "")
    if width < 40:
        return []
    if width < 60:
        return [cost]
    if width < 90:
        return [share, cost]
    drawn = bar(percent, _BAR) if percent is not None else [(" " * _BAR, "")]
    model = fit(_model(session.model), 16)
    tokens = f"{short_count(session.tokens):>8}" if session.tokens else " " * 8
    return [(f"  {model:<16}", "dim"), (tokens, "dim"), ("  ", ""), *drawn, share, cost]


def _block(news: LiveNews, now: datetime) -> tuple[list[Piece], list[Piece]]:
    if news.problem:
        return [(inert_line(news.problem), "crashed")], []
    if news.reading is not None:
        done, total = news.reading
        return [(f"reading the logs: {100 * done // max(1, total)}%", "dim")], []
    row: BlockRow | None = news.document.block
    if row is None or row.end_at <= now:
        idle = "no active block" if news.document.today else "reading the logs"
        return [(idle, "dim")], []
    left = seconds((row.end_at - now).total_seconds())
    block: list[Piece] = [
        ("block ", "dim"),
        (shown(Decimal(row.cost_usd)), ""),
        (f"  {left} left", "dim"),
    ]
    if row.usd_per_hour is None or row.projected_usd is None:
        return block, []
    rate = f"{shown(Decimal(row.usd_per_hour))}/h"
    goal = f" → {shown(Decimal(row.projected_usd))} by {clock(row.end_at)}"
    return block, [(rate, ""), (goal, "dim")]


def _doing_block(session: LiveSession, width: int, now: datetime) -> list[Line]:
    lines = [justified(doing_pieces(session), [(elapsed(session, now), "dim")], width)]
    for call in session.calls[:6] if len(session.calls) > 1 else []:
        since = seconds(int((now - call.at).total_seconds())) if call.at else ""
        who: list[Piece] = [("subagent: ", "dim")] if call.subagent else []
        words: list[Piece] = [(inert_line(call.tool), "tool"), (f" {inert_line(call.asked)}", "")]
        lines.append(justified([("  ", ""), *who, *words], [(since, "dim")], width))
    return lines


def _call(session: LiveSession, before: str = "") -> list[Piece]:
    """Return the running call; those of subagents are preferred."""
    if not session.calls:
        return []
    subagents = [call for call in session.calls if call.subagent is not None]
    call = (subagents or session.calls)[-1]
    left = len(session.calls) - 1 - (1 if subagents else 0)
    pieces: list[Piece] = [(before, "dim")] if before else []
    if call.subagent is not None:
        pieces.append((f"{counted(max(1, session.subagents), 'subagent')}: ", "dim"))
    pieces += [(inert_line(call.tool), "tool"), (f" {inert_line(call.asked)}", "")]
    return [*pieces, (f" +{left}", "dim")] if left > 0 else pieces


def _about(session: LiveSession) -> list[Piece]:
    """Return the last prompt, unless it is the title."""
    said = inert_line(session.prompt or "")
    return [(" · ", "dim"), (said, "dim")] if said and said != _title(session) else []


def _title(session: LiveSession) -> str:
    return inert_line(session.title or session.prompt or "untitled")


def _model(name: str | None) -> str:
    return inert_line((name or "").removeprefix("claude-"))


def _counts(*parts: tuple[int, str]) -> str:
    return " · ".join(f"{short_count(count)} {name}" for count, name in parts if count)


def _fact(name: str, value: str, width: int) -> Line:
    return ((f"{name:<9}", "dim"), (fit(inert_line(value), width - 9), ""))


def _fill(percent: float) -> str:
    return "full" if percent >= _FULL_PERCENT else "high" if percent >= _BUSY_PERCENT else "low"
