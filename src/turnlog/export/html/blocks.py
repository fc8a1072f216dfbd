"""Turns, calls and subagents as HTML, for exports and for the page of a server.

An edit is shown as a diff, a new file as code, todos as a list, and a subagent's prompt and answer
as prose. Other tools show the names and values of their arguments. Every block has its id, and a
link to it. A server shows the same blocks, and loads what is folded when it is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Any, Final

from msgspec import json

from turnlog.export import diffs
from turnlog.export.conversation import (
    Answer,
    Block,
    ConversationTurn,
    Hunk,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    PromptPieceKind,
    SubagentRun,
    Thinking,
    ToolCall,
)
from turnlog.export.html.diff_table import diff_table
from turnlog.export.html.markdown import Highlighter, language_of, prose
from turnlog.export.html.page import Child, Fragment, element, joined
from turnlog.export.html.terminal import terminal

_PROSE: Final = frozenset({"Task", "Agent", "WebFetch", "ExitPlanMode", "WebSearch"})
_TYPED: Final = (PromptPieceKind.PROMPT, PromptPieceKind.CALLER)
_SHORT: Final = 120
_LONG: Final = 1_000
_MANY_LINES: Final = 8
_DONE: Final = {"completed": "☑", "in_progress": "◐", "pending": "☐"}


class BlockRenderer:
    """Renders the blocks of one page; everything that is folded is in the page."""

    def __init__(self, zone: tzinfo, highlighter: Highlighter | None = None) -> None:
        self._zone = zone
        self._highlighter = highlighter or Highlighter()

    # What a server does in another way.

    def address(self, anchor: str) -> str:
        """Return the address of a block or a turn."""
        return f"#{anchor}"

    def is_open(self, _anchor: str) -> bool:
        """Return whether a folded block is opened."""
        return False

    def folded(self, block: Block) -> Fragment:
        """Return what is inside of a folded block."""
        return element("div", self.inside(block), class_="inside")

    def subagent_inside(self, subagent: SubagentRun) -> Fragment:
        """Return what is inside of a folded subagent."""
        turns = [self.blocks(turn.blocks) for turn in subagent.turns]
        return element("div", turns, class_="inside")

    def picture(self, picture: Picture) -> Fragment:
        """Return an image of a message."""
        return image(picture)

    def calls_of(self, subagent: SubagentRun) -> int:
        """Return how many calls a subagent made."""
        return sum(turn.calls for turn in subagent.turns)

    # What is the same everywhere.

    def turn(
        self, turn: ConversationTurn, *, here: str | None = None, window: int | None = None
    ) -> Fragment:
        """Return a turn, of the *window* with that number.

        The block with the id *here* is marked as the place to scroll to.
        """
        name = f"#{turn.number}" if turn.number else "#…"
        facts = [at_text(turn.at, self._zone), duration_of(turn), count_text(turn.calls, "call")]
        head = element(
            "h2",
            element("a", name, href=self.address(turn.anchor)),
            [element("span", fact) for fact in facts if fact],
        )
        blocks = self.blocks(turn.blocks, here=here)
        shown_in = None if window is None else str(window)
        return element("section", head, blocks, class_="turn", id=turn.anchor, data_w=shown_in)

    def blocks(self, blocks: Iterable[Block], *, here: str | None = None) -> list[Fragment]:
        """Return blocks."""
        drawn = []
        for block in blocks:
            if here is not None and block.anchor == here:
                drawn.append(element("span", id="here"))
            drawn.append(self.block(block))
        return drawn

    def subagent(self, subagent: SubagentRun) -> Fragment:
        """Return a folded subagent."""
        words = subagent.description or subagent.kind or subagent.id
        note = " (its call is not in the logs)" if subagent.is_orphan else ""
        summary = element(
            "summary",
            element("b", f"subagent {subagent.kind or ''}".rstrip()),
            element("span", words + note),
            element("span", count_text(self.calls_of(subagent), "call"), class_="came"),
        )
        is_open = self.is_open(subagent.id)
        inside = self.subagent_inside(subagent)
        return element("details", summary, inside, class_="subagent call", open=is_open)

    def block(self, block: Block) -> Fragment:
        """Return a block with its id and a link to it."""
        link = self._link(block)
        match block:
            case PromptPiece():
                name = f"said {block.kind}"
                said: Child = block.text
                if block.kind in _TYPED:
                    said, name = prose(block.text, self._highlighter), f"{name} prose"
                is_long = len(block.text) > _LONG or block.text.count("\n") > _MANY_LINES
                tab = "0" if is_long else None  # It scrolls.
                return element("div", said, link, class_=name, id=block.anchor, tabindex=tab)
            case Answer():
                name = "answer failed" if block.is_error else "answer"
                said = prose(block.text, self._highlighter)
                return element("div", said, link, class_=f"{name} prose", id=block.anchor)
            case Thinking():
                return self._folded(block, "thinking", "thought", block.text)
            case Picture():
                drawn = self.picture(block)
                return element("div", drawn, link, class_="picture", id=block.anchor)
            case ToolCall():
                return self._call(block)
            case Mark(kind=MarkKind.SUMMARY):
                return self._folded(
                    block, "summary", "a summary of what was said before", block.text
                )
            case Mark():
                text = element("span", block.text)
                name = f"mark {block.kind}"
                return element("p", text, link, class_=name, id=block.anchor or None)
            case Other():
                if block.text:
                    return self._folded(block, "other", block.kind, block.text)
                text = element("span", f"[{block.kind}]")
                return element("p", text, link, class_="mark", id=block.anchor)

    def inside(self, block: Block) -> Child:
        """Return the content of a block that is folded at first."""
        if isinstance(block, ToolCall):
            result = block.result
            failed = result is not None and result.is_error
            changes = None if failed else diffs.changes_of(block)
            images = [image(each) for each in result.images] if result else None
            return [*self._inside(block, changes), images]
        if isinstance(block, Mark):
            return element("div", prose(block.text, self._highlighter), class_="prose")
        if isinstance(block, Other):
            return element("pre", block.text, tabindex="0")
        return getattr(block, "text", "")

    def _link(self, block: Block) -> Fragment | None:
        if not block.anchor:
            return None
        return element(
            "a",
            "#",
            class_="permalink",
            href=self.address(block.anchor),
            title="Link to this place",
            aria_label="Link to this place",
        )

    def _folded(self, block: Block, name: str, words: str, text: str) -> Fragment:
        first = " ".join(text[:400].split())[:120]
        kind = element("span", words, class_="kind")
        summary = element("summary", kind, element("span", first, class_="came"))
        is_open = self.is_open(block.anchor)
        details = element("details", summary, self.folded(block), class_=name, open=is_open)
        return element("div", details, self._link(block), class_="folded", id=block.anchor)

    def _call(self, call: ToolCall) -> Fragment:
        failed = call.result is not None and call.result.is_error
        changes = None if failed else diffs.changes_of(call)
        answer: Child = call.answered
        if changes:
            added, removed = diffs.counted(changes)
            answer = [
                element("span", f"+{added:,}", class_="plus"),
                " ",
                element("span", f"\u2212{removed:,}", class_="minus"),
            ]
        summary = element(
            "summary",
            element("b", call.name),
            element("code", call.asked),
            element("span", answer, class_="came"),
        )
        details = element(
            "details",
            summary,
            self.folded(call),
            class_="call failed" if failed else "call",
            open=self.is_open(call.anchor),
        )
        drawn = element("div", details, self._link(call), class_="folded", id=call.anchor)
        if not call.subagents:
            return drawn
        subagents = [self.subagent(subagent) for subagent in call.subagents]
        return joined(drawn, element("div", subagents, class_="subagents"))

    def _inside(self, call: ToolCall, changes: list[Hunk] | None) -> list[Fragment]:
        """Return the content of *call*; *changes* is what it changed in a file."""
        drawn = self._arguments(call, changes)
        result = call.result
        if result is None:
            drawn.append(element("p", "There is no result.", class_="faint"))
        elif result.text.strip() and not (changes and not result.is_error):
            is_prose = call.name in _PROSE and not result.is_error
            drawn.append(self._long_text(result.text, is_prose=is_prose))
        return drawn

    def _arguments(self, call: ToolCall, changes: list[Hunk] | None) -> list[Fragment]:
        arguments = call.input
        if not isinstance(arguments, dict):
            return [_json(arguments)] if arguments not in (None, "") else []
        path = arguments.get("file_path") or arguments.get("notebook_path")
        named = [element("div", path, class_="path")] if isinstance(path, str) else []
        language = language_of(path) if isinstance(path, str) else None
        if changes is not None:
            return [*named, diff_table(changes, language, self._highlighter)]
        if call.name == "Bash" and isinstance(arguments.get("command"), str):
            rest = dict(arguments)
            command, words = rest.pop("command"), rest.pop("description", None)
            is_described = isinstance(words, str) and words
            drawn = [element("div", words, class_="faint")] if is_described else []
            code = self._highlighter.code(command, "bash")
            return [*drawn, element("pre", code, tabindex="0"), *self._fields(rest)]
        if call.name == "Write" and isinstance(arguments.get("content"), str):
            code = self._highlighter.code(arguments["content"], language)
            return [*named, element("pre", code, tabindex="0")]
        if call.name == "TodoWrite" and isinstance(arguments.get("todos"), list):
            return [todo_list(arguments["todos"])]
        return self._fields(arguments, is_prose=call.name in _PROSE)

    def _fields(self, arguments: dict[str, Any], *, is_prose: bool = False) -> list[Fragment]:
        """Return names and values as a list, long texts separately below it."""
        short: list[Fragment] = []
        long: list[Fragment] = []
        for name, value in arguments.items():
            if isinstance(value, str) and (len(value) > _SHORT or "\n" in value):
                body = self._long_text(value, is_prose=is_prose)
                long += [element("div", name, class_="path"), body]
            elif isinstance(value, dict | list) and value:
                long += [element("div", name, class_="path"), _json(value)]
            else:
                short += [element("dt", name), element("dd", str(value))]
        return [*([element("dl", short, class_="given")] if short else []), *long]

    def _long_text(self, text: str, *, is_prose: bool) -> Fragment:
        if is_prose:
            return element("div", prose(text, self._highlighter), class_="answer prose")
        return element("pre", terminal(text), tabindex="0")


def _json(value: Any) -> Fragment:
    text = value if isinstance(value, str) else json.format(json.encode(value)).decode()
    return element("pre", text, tabindex="0")


def todo_list(todos: Iterable[Any]) -> Fragment:
    """Return todos, as a tool got them, as a list."""
    items = []
    for todo in todos:
        item = todo if isinstance(todo, dict) else {"content": str(todo)}
        state = str(item.get("status"))
        text = f"{_DONE.get(state, '☐')} {item.get('content') or item.get('subject') or ''}"
        items.append(element("li", text, class_="done" if state == "completed" else None))
    return element("ul", items, class_="todos")


def image_data(picture: Picture) -> str:
    """Return the base64 of an image; "" if it is missing or invalid."""
    data = re.sub(r"\s", "", picture.data) if picture.data else ""
    return data if re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", data) else ""


def image(picture: Picture) -> Fragment:
    """Return an inline image, or a note if its data is missing."""
    data = image_data(picture)
    if not data:
        return element("p", f"[an image, {picture.media_type}]", class_="faint")
    return element(
        "img", src=f"data:{picture.media_type};base64,{data}", alt="an image", loading="lazy"
    )


def at_text(at: datetime | None, zone: tzinfo) -> str:
    """Format an instant; "" if it is unknown."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}" if at else ""


def duration_of(turn: ConversationTurn) -> str:
    """Format how long *turn* took; "" if unknown."""
    if turn.at is None or turn.ended_at is None:
        return ""
    return duration((turn.ended_at - turn.at).total_seconds())


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 1:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if seconds and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours < 48 else f"{hours // 24:,} days"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun; "" for none."""
    if not count:
        return ""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
