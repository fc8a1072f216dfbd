"""A session as a self-contained page: folded calls, diffs, subagents inside their calls.

The page is yielded turn by turn, so it is never in memory as a whole; therefore the list of turns
comes last, and the style puts it first. Everything from a log is text to ``page``.

An edit is shown as a diff, a new file as code, todos as a list, and a subagent's prompt and answer
as prose. Other tools show the names and values of their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, NamedTuple

from msgspec import json

from turnlog.export import diffs
from turnlog.export.conversation import (
    Answer,
    Block,
    Conversation,
    ConversationTurn,
    Head,
    Hunk,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    SubagentRun,
    Thinking,
    ToolCall,
)
from turnlog.export.html.markdown import Highlighter, language_of, prose
from turnlog.export.html.page import Child, Fragment, asset, element, joined, page

CSS: Final = asset("session.css")
SCRIPT: Final = asset("session.js")
"""Find, fold and hide. Without it everything is readable."""

_PROSE: Final = frozenset({"Task", "Agent", "WebFetch", "ExitPlanMode", "WebSearch"})
_SHORT: Final = 120
_DONE: Final = {"completed": "☑", "in_progress": "◐", "pending": "☐"}
_HERE: Final = "\0body\0"  # Texts of a page never contain a NUL.
_LISTED: Final = 160
_DAY: Final = len("2026-11-17")
NOT_MASKED: Final = "Secrets were not masked in this export."


class PageFrame(NamedTuple):
    """What a server adds to the page of a session."""

    above: Fragment
    css: str
    at: datetime | None = None
    """The time to scroll to."""
    find: str = ""
    """The text to find on the page, from there on."""


def session_page(
    conversation: Conversation, frame: PageFrame | None = None, zone: tzinfo = UTC
) -> Iterator[str]:
    """Yield the page of a conversation, piece by piece; a server adds a *frame*."""
    head = conversation.head
    title = head.title or f"Session {head.id[:8]}"
    shell = page(
        title,
        Fragment(_HERE),
        css=CSS + (frame.css if frame else ""),
        script=SCRIPT,
        description="A session of an agent",
        has_forms=frame is not None,
    )
    before, after = shell.split(_HERE)
    yield before
    notices = [words for words in notices_of(head) if frame is None or words != NOT_MASKED]
    yield joined(
        frame.above if frame else None,
        _head(head, title, notices, zone),
        _bar(frame.find if frame else ""),
    )
    yield "<main>"
    draw = _SessionPage(zone)
    listed: list[Fragment] = []
    sought = frame.at if frame else None
    for number, turn in enumerate(conversation.turns, 1):
        anchor = f"t{number}"
        listed.append(_listed(turn, anchor))
        is_here = sought is not None and turn.ended_at is not None and sought <= turn.ended_at
        yield draw.turn(turn, anchor, sought if is_here else None)
        sought = None if is_here else sought
    strays = [draw.subagent(subagent) for subagent in conversation.strays]
    if strays:
        words = element("p", "Subagents whose calls are not above", class_="mark")
        yield element("section", words, strays, class_="turn")
    if not listed and not strays:
        yield element("section", element("p", "Nothing was said.", class_="faint"), class_="turn")
    yield joined(
        Fragment("</main>"), element("nav", element("ol", listed), id="turns", aria_label="Turns")
    )
    yield after


class _SessionPage:
    """Renders the blocks of one page."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._highlighter = Highlighter()

    def turn(self, turn: ConversationTurn, anchor: str, sought: datetime | None) -> Fragment:
        number = str(turn.number) if turn.number else "…"
        facts = [_at(turn.at, self._zone), duration_of(turn), _count(turn.calls, "call")]
        head = element(
            "h2",
            element("a", f"#{number}", href=f"#{anchor}"),
            [element("span", fact) for fact in facts if fact],
        )
        blocks = self.blocks(turn.blocks)
        if sought is not None:
            blocks.insert(_place_of(sought, turn.blocks), element("span", id="here"))
        return element("section", head, blocks, class_="turn", id=anchor)

    def blocks(self, blocks: Iterable[Block]) -> list[Fragment]:
        return [self._block(block) for block in blocks]

    def subagent(self, subagent: SubagentRun) -> Fragment:
        words = subagent.description or subagent.kind or subagent.id
        note = " (its call is not in the logs)" if subagent.is_orphan else ""
        turns = [self.blocks(turn.blocks) for turn in subagent.turns]
        calls = sum(turn.calls for turn in subagent.turns)
        return element(
            "details",
            element(
                "summary",
                element("b", f"subagent {subagent.kind or ''}".rstrip()),
                element("span", words + note),
                element("span", _count(calls, "call"), class_="came"),
            ),
            element("div", turns, class_="inside"),
            class_="subagent call",
        )

    def _block(self, block: Block) -> Fragment:
        match block:
            case PromptPiece():
                return element("div", block.text, class_=f"said {block.kind}")
            case Answer():
                name = "answer failed" if block.is_error else "answer"
                return element("div", prose(block.text, self._highlighter), class_=name)
            case Thinking():
                return _folded("thinking", "thought", block.text)
            case Picture():
                return _image(block)
            case ToolCall():
                return self._call(block)
            case Mark(kind=MarkKind.SUMMARY):
                return _folded("summary", "a summary of what was said before", block.text)
            case Mark():
                return element("p", element("span", block.text), class_=f"mark {block.kind}")
            case Other():
                if block.text:
                    return _folded("other", block.kind, block.text)
                return element("p", element("span", f"[{block.kind}]"), class_="mark")

    def _call(self, call: ToolCall) -> Fragment:
        result = call.result
        failed = result is not None and result.is_error
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
        images = [_image(image) for image in result.images] if result else None
        inside = element("div", self._inside(call, changes), images, class_="inside")
        folded = element("details", summary, inside, class_="call failed" if failed else "call")
        if not call.subagents:
            return folded
        subagents = [self.subagent(subagent) for subagent in call.subagents]
        return joined(folded, element("div", subagents, class_="subagents"))

    def _inside(self, call: ToolCall, changes: list[Hunk] | None) -> list[Fragment]:
        """Return the unfolded content of *call*; *changes* is what it changed in a file."""
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
        if changes is not None:
            return [*named, diffs.as_html(changes)]
        if call.name == "Bash" and isinstance(arguments.get("command"), str):
            rest = dict(arguments)
            command, words = rest.pop("command"), rest.pop("description", None)
            is_described = isinstance(words, str) and words
            drawn = [element("div", words, class_="faint")] if is_described else []
            return [*drawn, element("pre", command), *self._fields(rest)]
        if call.name == "Write" and isinstance(arguments.get("content"), str):
            language = language_of(path) if isinstance(path, str) else None
            return [*named, element("pre", self._highlighter.code(arguments["content"], language))]
        if call.name == "TodoWrite" and isinstance(arguments.get("todos"), list):
            return [_todos(arguments["todos"])]
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
            return element("div", prose(text, self._highlighter), class_="answer")
        return element("pre", text)


def _json(value: Any) -> Fragment:
    text = value if isinstance(value, str) else json.format(json.encode(value)).decode()
    return element("pre", text)


def _todos(todos: list[Any]) -> Fragment:
    items = []
    for todo in todos:
        item = todo if isinstance(todo, dict) else {"content": str(todo)}
        state = str(item.get("status"))
        text = f"{_DONE.get(state, '☐')} {item.get('content') or item.get('subject') or ''}"
        items.append(element("li", text, class_="done" if state == "completed" else None))
    return element("ul", items, class_="todos")


def _place_of(sought: datetime, blocks: Iterable[Block]) -> int:
    """Return the index of the first block at *sought*: after the calls finished before it."""
    place = 0
    for number, block in enumerate(blocks, 1):
        if isinstance(block, ToolCall):
            at = block.result.at if block.result and block.result.at else block.at
            place = number if at is not None and at < sought else place
    return place


def _image(image: Picture) -> Fragment:
    """Return an inline image, or a note if its data is missing."""
    data = re.sub(r"\s", "", image.data) if image.data else ""
    if not re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", data):
        return element("p", f"[an image, {image.media_type}]", class_="faint")
    return element(
        "img", src=f"data:{image.media_type};base64,{data}", alt="an image", loading="lazy"
    )


def _head(head: Head, title: str, notices: Iterable[str], zone: tzinfo) -> Fragment:
    used = head.figures
    facts = (
        ("project", head.project),
        ("branch", head.git_branch),
        ("model", ", ".join(head.models)),
        ("when", _span(head.started_at, head.last_active_at, zone)),
        ("responses", f"{used.messages:,}" if used.messages else None),
        ("tokens", f"{used.tokens:,}" if used.tokens else None),
        ("cost at API prices", used.cost if used.messages else None),
        ("subagents", f"{head.subagents:,}" if head.subagents else None),
        ("session", head.id),
    )
    listed = [
        element("div", element("dt", name), element("dd", value)) for name, value in facts if value
    ]
    shown = [element("p", text, class_="notice") for text in notices]
    return element("header", element("h1", title), element("dl", listed, class_="facts"), shown)


def notices_of(head: Head) -> Iterator[str]:
    """Yield notices about what the page does not show."""
    if head.damaged.places:
        count = _count(head.damaged.places, "place")
        yield f"{count} of the log ({head.damaged.size_bytes:,} bytes) could not be read."
    if head.other_branches:
        count = _count(head.other_branches, "other branch", "other branches")
        yield f"The conversation has {count} that are not shown here."
    if not head.is_redacted:
        yield NOT_MASKED


def _bar(sought: str) -> Fragment:
    def choice(name: str, words: str) -> Fragment:
        box = element("input", type="checkbox", id=name, checked=True)
        return element("label", box, f" {words}")

    return element(
        "div",
        element(
            "input",
            type="search",
            id="find",
            value=sought or None,
            placeholder="Find  /",
            aria_label="Find",
        ),
        element("button", "\u2039", id="before", type="button", title="The one before"),
        element("button", "\u203a", id="next", type="button", title="The next one"),
        element("output", id="told"),
        choice("tools", "Tools"),
        choice("thinking", "Thinking"),
        element("button", "Open all", id="fold", type="button"),
        id="bar",
        role="search",
        hidden=True,
    )


def _listed(turn: ConversationTurn, anchor: str) -> Fragment:
    words = " ".join(turn.label[: 2 * _LISTED].split())[:_LISTED] or "(no prompt)"
    number = str(turn.number) if turn.number else "…"
    return element(
        "li",
        element(
            "a",
            element("b", number),
            element("span", words, class_=None if turn.prompt else "faint"),
            href=f"#{anchor}",
        ),
    )


def _folded(name: str, words: str, text: str) -> Fragment:
    first = " ".join(text[:400].split())[:120]
    summary = element("summary", words, element("span", first, class_="came"))
    return element("details", summary, element("div", text, class_="inside"), class_=name)


def _at(at: datetime | None, zone: tzinfo) -> str:
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


def _span(first: datetime | None, last: datetime | None, zone: tzinfo) -> str:
    if first is None or last is None:
        return ""
    begin, end = _at(first, zone), _at(last, zone)
    is_one_day = begin[:_DAY] == end[:_DAY]
    return f"{begin} \u2013 {end[_DAY + 1 :] if is_one_day else end}"


def _count(count: int, noun: str, plural: str = "") -> str:
    if not count:
        return ""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
