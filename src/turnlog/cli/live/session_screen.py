"""One session in ``turnlog top``: its conversation, followed as it grows.

The conversation is drawn line by line; only visible lines are rendered. Enter folds the entry under
the cursor. While the cursor is on the last line, the view follows new entries.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Footer, Input, Static

from turnlog.api.live import LiveSession, shared_by
from turnlog.cli.live.entries import (
    KINDS,
    ConversationEntry,
    ConversationReader,
    Growth,
    Line,
    LineStyle,
    Piece,
    folds,
    justified,
    lines_of,
    text_of,
)
from turnlog.cli.live.sessions_screen import content_of, doing_pieces, elapsed, project_name
from turnlog.cli.terminal.console import counted
from turnlog.export.conversation import ToolCall
from turnlog.pricing.money import shown
from turnlog.text import inert_line

if TYPE_CHECKING:
    from turnlog.api.live import LiveNews


_NOT_THERE: Final = -1


class ConversationView(ScrollView, can_focus=True):
    """The entries of a session as lines with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"conversation--{kind}" for kind in KINDS} | {
        "conversation--cursor"
    }
    DEFAULT_CSS = """
    ConversationView {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        .conversation--prompt { text-style: bold; }
        .conversation--command { color: $success; text-style: bold; }
        .conversation--bar { color: $success; }
        .conversation--code { color: $secondary; }
        .conversation--heading { text-style: bold; }
        .conversation--thinking { color: $foreground 55%; text-style: italic; }
        .conversation--tool { color: $accent; }
        .conversation--dim { color: $foreground 55%; }
        .conversation--error { color: $error; }
        .conversation--mark { color: $warning; }
        .conversation--running { color: $warning; }
        .conversation--added { color: $success; }
        .conversation--removed { color: $error; }
        .conversation--name { color: $secondary; }
        .conversation--match { color: $background; background: $warning; }
        .conversation--cursor { background: $foreground 8%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,b", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "top", "Beginning", show=False),
        Binding("end,G", "bottom", "End", show=False),
        Binding("enter,space", "fold", "Fold"),
        Binding("e", "fold_all", "All"),
        Binding("t", "thinking", "Thinking"),
        Binding("right_square_bracket", "prompt(1)", "Prompt", key_display="]"),
        Binding("left_square_bracket", "prompt(-1)", "Previous prompt", show=False),
    ]

    class WantsEarlier(Message):
        """Earlier entries were requested."""

    class Scrolled(Message):
        """The cursor moved, or the content changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - The name in Textual.
        super().__init__(id=id)
        self.entries: list[ConversationEntry] = []
        self.thinking = False
        self.unfolded: set[int] = set()
        self.cursor = 0
        self.needle: re.Pattern[str] | None = None
        self._lines: list[list[Line]] = []
        self._starts: list[int] = [0]
        """The first line of each entry; the last item is the number of lines."""
        self._drawn_width = 0

    # -- entries ----------------------------------------------------------------------------

    def show(self, entries: list[ConversationEntry]) -> None:
        """Replace all entries."""
        before = len(self.entries) - self._entry_at(self.cursor) if self.entries else 0
        was_following = self.is_following
        self.entries = list(entries)
        self.unfolded.clear()
        self._draw()
        if was_following or not before:
            self._go(self.last_line)
        else:  # Earlier entries were added: stay in place.
            self._go(self._head(max(0, len(self.entries) - before)), to_top=True)

    def grow(self, entries: list[ConversationEntry]) -> None:
        """Add entries, or replace those with the same numbers."""
        was_following = self.is_following
        first = len(self.entries)
        for entry in entries:
            if entry.number < len(self.entries):
                self.entries[entry.number] = entry
                first = min(first, entry.number)
            else:
                self.entries.append(entry)
        self._draw(first)
        if was_following:
            self._go(self.last_line)
        self.post_message(self.Scrolled())

    @property
    def last_line(self) -> int:
        """The number of the last line."""
        return max(0, self._starts[-1] - 1)

    @property
    def is_following(self) -> bool:
        """Whether the view follows new entries."""
        return self.cursor >= self.last_line

    def _draw(self, first: int = 0) -> None:
        """Compute the lines of the entries from *first* on."""
        self._drawn_width = self._room
        del self._lines[first:]
        del self._starts[first + 1 :]
        for entry in self.entries[first:]:
            lines = self._drawn(entry, len(self._lines))
            self._lines.append(lines)
            self._starts.append(self._starts[-1] + len(lines))
        self.virtual_size = Size(self._room, self._starts[-1])
        self.refresh()

    def _drawn(self, entry: ConversationEntry, place: int) -> list[Line]:
        is_unfolded = entry.number in self.unfolded
        lines = lines_of(entry, LineStyle(self._room, self.thinking, is_unfolded))
        if place == 0:
            return lines[1:] if lines and not lines[0] else lines
        is_first = not isinstance(self.entries[place - 1].block, ToolCall)
        return [(), *lines] if lines and is_first and isinstance(entry.block, ToolCall) else lines

    @property
    def _room(self) -> int:
        return max(1, self.size.width - 1)

    def _entry_at(self, line: int) -> int:
        """Return the entry that a line belongs to."""
        return max(0, min(bisect_right(self._starts, line) - 1, len(self.entries) - 1))

    # -- drawing ----------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        number = y + self.scroll_offset.y
        width = self.size.width
        if not self.entries or number > self.last_line:
            return Strip.blank(width, self.rich_style)
        place = self._entry_at(number)
        line = self._lines[place][number - self._starts[place]]
        if self.needle is not None:
            line = _marked(line, self.needle)
        over = Style()
        if number == self.cursor and self.has_focus:
            over = Style(bgcolor=self._component("cursor").bgcolor)
        segments = [Segment(text, self._style(kind) + over) for text, kind in line]
        return Strip(segments).crop(0, width).extend_cell_length(width, self.rich_style + over)

    def _style(self, kind: str) -> Style:
        return self._component(kind) if kind else self.rich_style

    def _component(self, kind: str) -> Style:
        return self.get_component_rich_style(f"conversation--{kind}")

    def on_resize(self) -> None:
        """Redraw if the width changed; the same entry stays visible."""
        if self._drawn_width != self._room:
            was_following, place = self.is_following, self._entry_at(self.cursor)
            self._draw()
            self._go(self.last_line if was_following else self._head(place))

    # -- moving -----------------------------------------------------------------------------

    def _go(self, line: int, *, to_top: bool = False) -> None:
        """Move the cursor to a line and scroll to it."""
        self.cursor = max(0, min(line, self.last_line))
        height = max(1, self.size.height)
        top = self.scroll_offset.y
        if to_top:
            top = self.cursor - min(3, height // 4)
        elif self.cursor < top:
            top = self.cursor
        elif self.cursor >= top + height:
            top = self.cursor - height + 1
        if self.cursor == self.last_line:
            top = self._starts[-1] - height
        self.scroll_to(y=max(0, top), animate=False, immediate=True, force=True)
        self.refresh()
        self.post_message(self.Scrolled())

    def action_move(self, lines: int) -> None:
        """Move the cursor; beyond the first line, request earlier entries."""
        if self.cursor + lines < 0:
            self.post_message(self.WantsEarlier())
        self._go(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        """Scroll by a page; at the ends, move only the cursor."""
        top, lines = self.scroll_offset.y, pages * max(1, self.size.height - 2)
        if pages < 0 and top == 0:
            self.action_move(lines)
        elif pages > 0 and top + self.size.height >= self._starts[-1]:
            self.action_bottom()
        else:
            self.cursor = max(0, min(self.cursor + lines, self.last_line))
            self._scroll(lines)

    def action_top(self) -> None:
        if self.cursor == 0:
            self.post_message(self.WantsEarlier())
        self._go(0)

    def action_bottom(self) -> None:
        self._go(self.last_line)

    def action_prompt(self, step: int) -> None:
        """Go to the next or previous prompt."""
        here = self._entry_at(self.cursor)
        places = range(here + 1, len(self.entries)) if step > 0 else range(here - 1, -1, -1)
        for place in places:
            if self.entries[place].is_prompt:
                self._go(self._starts[place] + 1, to_top=True)
                return
        if step < 0:
            self.post_message(self.WantsEarlier())
        self._go(self.last_line if step > 0 else 0)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._scroll(-3)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._scroll(3)

    def _scroll(self, lines: int) -> None:
        """Scroll; the cursor moves only to stay visible."""
        height = max(1, self.size.height)
        top = max(0, min(self.scroll_offset.y + lines, self._starts[-1] - height))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)
        is_end = top + height >= self._starts[-1] and lines > 0
        self.cursor = self.last_line if is_end else max(top, min(self.cursor, top + height - 1))
        if self.is_following and not is_end:
            self.cursor = max(0, self.last_line - 1)
        self.refresh()
        self.post_message(self.Scrolled())

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; a click on the head of an entry folds it."""
        line = event.y + self.scroll_offset.y
        if line > self.last_line or not self.entries:
            return
        self.cursor = line
        place = self._entry_at(line)
        if folds(self.entries[place]) and line == self._head(place):
            self._toggle(place)
        self.refresh()
        self.post_message(self.Scrolled())

    # -- folding ----------------------------------------------------------------------------

    def _head(self, place: int) -> int:
        """Return the line of an entry's head."""
        lines = self._lines[place] if self._lines else []
        return self._starts[place] + (1 if lines and not lines[0] else 0)

    def _toggle(self, place: int) -> None:
        number = self.entries[place].number
        self.unfolded ^= {number}
        self._draw(place)
        self._go(self._head(place))
        # Show as much of the entry as fits.
        below = self._starts[place + 1] - self.size.height
        top = max(self.scroll_offset.y, min(self._head(place), below))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def action_fold(self) -> None:
        """Fold or unfold the entry under the cursor."""
        place = self._entry_at(self.cursor)
        if self.entries and folds(self.entries[place]):
            self._toggle(place)

    def action_fold_all(self) -> None:
        """Fold everything, or unfold everything if nothing is unfolded."""
        place = self._entry_at(self.cursor)
        was_following = self.is_following
        foldable = {entry.number for entry in self.entries if folds(entry)}
        self.unfolded = set() if self.unfolded else foldable
        self._draw()
        self._go(self.last_line if was_following else self._head(place))

    def action_thinking(self) -> None:
        """Show or hide thinking."""
        place = self._entry_at(self.cursor)
        was_following = self.is_following
        self.thinking = not self.thinking
        self._draw()
        self._go(self.last_line if was_following else self._head(place))

    # -- searching --------------------------------------------------------------------------

    def find(self, needle: re.Pattern[str] | None, step: int = 1) -> bool:
        """Go to the next line that contains *needle*, and return whether there is one.

        The search wraps around, and unfolds the entry of a match.
        """
        self.needle = needle
        self.refresh()
        if needle is None or not self.entries:
            return False
        count, here = len(self.entries), self._entry_at(self.cursor)
        for turn in range(count + 1):
            place = (here + step * turn) % count
            line = self._line_with(needle, place, step, is_here=turn == 0)
            if line != _NOT_THERE:
                self._go(line, to_top=True)
                return True
        return False

    def _line_with(self, needle: re.Pattern[str], place: int, step: int, *, is_here: bool) -> int:
        """Return the line of an entry that contains *needle*, beyond the cursor if *is_here*."""
        entry = self.entries[place]
        for attempt in ("as it is", "unfolded"):
            start, lines = self._starts[place], self._lines[place]
            numbers = range(len(lines))
            for number in numbers if step > 0 else reversed(numbers):
                is_beyond = (start + number - self.cursor) * step > 0
                text = "".join(text for text, _ in lines[number])
                if (is_beyond or not is_here) and needle.search(text):
                    return start + number
            is_hidden = folds(entry) and entry.number not in self.unfolded
            if is_here or not lines or needle.search(text_of(entry)) is None:
                return _NOT_THERE
            if attempt == "as it is" and is_hidden:
                self.unfolded.add(entry.number)
                self._draw(place)
        return self._head(place)  # The match spans lines, or is cut off.


def _marked(line: Line, needle: re.Pattern[str]) -> Line:
    """Highlight matches."""
    whole = "".join(text for text, _ in line)
    spans = [match.span() for match in needle.finditer(whole) if match.end() > match.start()]
    if not spans:
        return line
    pieces: list[tuple[str, str]] = []
    offset = 0
    for text, kind in line:
        cuts = sorted({0, len(text), *(edge - offset for span in spans for edge in span)})
        inside = [cut for cut in cuts if 0 <= cut <= len(text)]
        for begin, end in pairwise(inside):
            is_hit = any(a <= offset + begin < b for a, b in spans)
            pieces.append((text[begin:end], "match" if is_hit else kind))
        offset += len(text)
    return tuple(pieces)


_LOOK_SECONDS: Final = 0.25
_TICK_SECONDS: Final = 1.0


class SessionScreen(Screen[None]):
    """The conversation of a session, or of its *subagent*."""

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
        """New entries were read."""

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
        """Read in the background; while the log does not grow, each check is one ``stat``."""
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
        """Show new entries."""
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
        """Show the current state of the session."""
        for session in news.document.sessions:
            if session.id == self.session.id:
                self.session = session
                self._draw_head()

    def on_resize(self) -> None:
        self._draw_head()

    @on(ConversationView.Scrolled)
    def _moved(self) -> None:
        self._draw_head()

    @on(ConversationView.WantsEarlier)
    def _earlier(self) -> None:
        if not self.is_whole:
            self._wants_earlier = True
            self._wanted.set()

    def _draw_head(self) -> None:
        if not self.is_running or not self.query(ConversationView):
            return  # Not shown yet, or no longer.
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
        parts = [elapsed(session, now)]
        if not self.is_whole:
            parts.append(f"the last {counted(self.records, 'record')}")
        parts.append("following" if view.is_following and session.is_running else "")
        right = " · ".join(part for part in parts if part) if width >= 40 else ""
        return _line(doing_pieces(session), right, width)

    # -- actions ----------------------------------------------------------------------------

    def action_back(self) -> None:
        """Stop searching, or go back to the list."""
        if self.has_class("-searching") or self.view.needle is not None:
            self.remove_class("-searching")
            self.view.find(None)
            self.view.focus()
        else:
            self.dismiss()

    def action_search(self) -> None:
        """Edit the search."""
        self.add_class("-searching")
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _search(self, event: Input.Submitted) -> None:
        self.remove_class("-searching")
        self.view.focus()
        self._find(event.value, 1)

    def action_again(self, step: int) -> None:
        """Go to the next or previous match."""
        words = self.query_one(Input).value
        if words:
            self._find(words, step)

    def _find(self, words: str, step: int) -> None:
        if not words.strip():
            self.view.find(None)
            return
        # Smart case: capitals make the search case-sensitive.
        flags = re.IGNORECASE if words == words.lower() else re.NOFLAG
        if not self.view.find(re.compile(re.escape(words), flags), step):
            where = "" if self.is_whole else " yet; press g twice to read further back"
            self.notify(f"not found: {inert_line(words)}{where}", timeout=3, markup=False)

    def action_copy(self) -> None:
        """Copy the session's id."""
        self.app.copy_to_clipboard(self.session.id)
        self.notify(f"copied {self.session.id}", timeout=2, markup=False)


def _line(left: list[Piece], right: str, width: int) -> Line:
    return justified(left, [(right, "dim")] if right else [], width, gap=2, least=12)
