"""A conversation that scrolls: drawn line by line, folded and searched, following its end.

Only the lines that are seen are turned into strips. The cursor is a line; what it stands on is what
folds. While the cursor is on the last line, the view follows what is appended.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from turnlog.cli.live.entries import ConversationEntry
from turnlog.cli.live.lines import KINDS, Line, LineStyle, folds, lines_of, text_of
from turnlog.export.conversation import ToolCall

_NOT_THERE: Final = -1


class ConversationView(ScrollView, can_focus=True):
    """The entries of a session as lines, with a cursor."""

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
        """Somebody wants to see what stands before the first entry."""

    class Moved(Message):
        """The cursor is elsewhere, or what is shown has changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - As widgets call it.
        super().__init__(id=id)
        self.entries: list[ConversationEntry] = []
        self.thinking = False
        self.unfolded: set[int] = set()
        self.cursor = 0
        self.needle: re.Pattern[str] | None = None
        self._lines: list[list[Line]] = []
        self._starts: list[int] = [0]
        """Where each entry's lines begin; the last is how many lines there are."""
        self._drawn_width = 0

    # -- entries ----------------------------------------------------------------------------

    def show(self, entries: list[ConversationEntry]) -> None:
        """Show *entries* instead of what was shown."""
        before = len(self.entries) - self._entry_at(self.cursor) if self.entries else 0
        was_following = self.is_following
        self.entries = list(entries)
        self.unfolded.clear()
        self._draw()
        if was_following or not before:
            self._go(self.last_line)
        else:  # More stands above: stay where the reader was.
            self._go(self._head(max(0, len(self.entries) - before)), to_top=True)

    def grow(self, entries: list[ConversationEntry]) -> None:
        """Add entries, or put them in the place of those with the same numbers."""
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
        self.post_message(self.Moved())

    @property
    def last_line(self) -> int:
        """The number of the last line."""
        return max(0, self._starts[-1] - 1)

    @property
    def is_following(self) -> bool:
        """The end is seen, and stays so as more is said."""
        return self.cursor >= self.last_line

    def _draw(self, first: int = 0) -> None:
        """Make the lines of the entries from *first* on."""
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
        """Return which entry a line belongs to."""
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
        """Draw everything anew if the width is another; what was seen stays in sight."""
        if self._drawn_width != self._room:
            was_following, place = self.is_following, self._entry_at(self.cursor)
            self._draw()
            self._go(self.last_line if was_following else self._head(place))

    # -- moving -----------------------------------------------------------------------------

    def _go(self, line: int, *, to_top: bool = False) -> None:
        """Put the cursor on a line and bring it into sight."""
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
        self.post_message(self.Moved())

    def action_move(self, lines: int) -> None:
        """Move the cursor by lines; above the first stands perhaps more."""
        if self.cursor + lines < 0:
            self.post_message(self.WantsEarlier())
        self._go(self.cursor + lines)

    def action_page(self, pages: int) -> None:
        """Move what is seen by a screen; at the ends of the conversation only the cursor."""
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
        """Go to the next prompt, or to the one before."""
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
        """Move what is seen, and the cursor only as far as it must to stay in sight."""
        height = max(1, self.size.height)
        top = max(0, min(self.scroll_offset.y + lines, self._starts[-1] - height))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)
        is_end = top + height >= self._starts[-1] and lines > 0
        self.cursor = self.last_line if is_end else max(top, min(self.cursor, top + height - 1))
        if self.is_following and not is_end:
            self.cursor = max(0, self.last_line - 1)
        self.refresh()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a click on a head folds and unfolds."""
        line = event.y + self.scroll_offset.y
        if line > self.last_line or not self.entries:
            return
        self.cursor = line
        place = self._entry_at(line)
        if folds(self.entries[place]) and line == self._head(place):
            self._toggle(place)
        self.refresh()
        self.post_message(self.Moved())

    # -- folding ----------------------------------------------------------------------------

    def _head(self, place: int) -> int:
        """Tell on which line the head of an entry stands."""
        lines = self._lines[place] if self._lines else []
        return self._starts[place] + (1 if lines and not lines[0] else 0)

    def _toggle(self, place: int) -> None:
        number = self.entries[place].number
        self.unfolded ^= {number}
        self._draw(place)
        self._go(self._head(place))
        # As much of it as there is room for comes into sight.
        below = self._starts[place + 1] - self.size.height
        top = max(self.scroll_offset.y, min(self._head(place), below))
        self.scroll_to(y=top, animate=False, immediate=True, force=True)

    def action_fold(self) -> None:
        """Fold or unfold what the cursor is on."""
        place = self._entry_at(self.cursor)
        if self.entries and folds(self.entries[place]):
            self._toggle(place)

    def action_fold_all(self) -> None:
        """Unfold everything; if anything is unfolded, fold everything."""
        place = self._entry_at(self.cursor)
        was_following = self.is_following
        foldable = {entry.number for entry in self.entries if folds(entry)}
        self.unfolded = set() if self.unfolded else foldable
        self._draw()
        self._go(self.last_line if was_following else self._head(place))

    def action_thinking(self) -> None:
        """Show what was thought, or hide it."""
        place = self._entry_at(self.cursor)
        was_following = self.is_following
        self.thinking = not self.thinking
        self._draw()
        self._go(self.last_line if was_following else self._head(place))

    # -- searching --------------------------------------------------------------------------

    def find(self, needle: re.Pattern[str] | None, step: int = 1) -> bool:
        """Go to the next line with *needle* in it, unfolding what hides it; tell whether any is.

        At the end it goes on from the beginning.
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
        """Tell on which line of an entry the needle stands, beyond the cursor if it is there."""
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
        return self._head(place)  # It runs over the end of a line, or of what is shown.


def _marked(line: Line, needle: re.Pattern[str]) -> Line:
    """Set off what was searched for."""
    whole = "".join(text for text, _ in line)
    spans = [found.span() for found in needle.finditer(whole) if found.end() > found.start()]
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
