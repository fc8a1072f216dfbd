"""How entries of a conversation look as lines: pieces of harmless text, each of a kind.

A kind is a name that the widget has a style for; no text is ever read as markup. Prose runs no
wider than is good to read. A call takes one line, and as many as it needs when it is unfolded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from turnlog.cli.live.entries import ConversationEntry
from turnlog.cli.terminal.console import when
from turnlog.export.conversation import (
    Answer,
    Hunk,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    PromptPieceKind,
    Thinking,
    ToolCall,
    ToolResult,
)
from turnlog.text import inert, inert_line

Piece = tuple[str, str]
"""A text without any active character, and its kind."""
Line = tuple[Piece, ...]

KINDS: Final = (
    "prompt", "command", "answer", "code", "heading", "thinking", "tool", "dim", "error", "mark",
    "added", "removed", "bar", "running", "match", "name",
)  # fmt: skip
"""Every kind there is, but for plain text, which has none."""

_PROSE_WIDTH: Final = 100
_LEAST_WIDTH: Final = 12
_MOST_LINES: Final = 400
_WORDS: Final = re.compile(r"\S+\s*|\s+")
_LEAD: Final = re.compile(r"\s*(?:[-*+•>]\s+|\d{1,3}[.)]\s+)?")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_HEADING: Final = re.compile(r"#{1,6} ")


class LineStyle(NamedTuple):
    """How wide lines may be, and what is shown."""

    width: int
    thinking: bool = False
    unfolded: bool = False


def lines_of(entry: ConversationEntry, look: LineStyle) -> list[Line]:
    """Draw *entry*; nothing, if it is not to be shown."""
    block = entry.block
    match block:
        case PromptPiece():
            return _said(entry, block, look)
        case Answer():
            kind = "error" if block.is_error else "answer"
            return [(), *_prose(block.text, kind, look.width)]
        case Thinking():
            return [(), *_prose(block.text, "thinking", look.width)] if look.thinking else []
        case ToolCall():
            return list(_call(block, look))
        case Picture():
            return [(("  [an image]", "dim"),)]
        case Mark():
            return _mark(block, look)
        case Other():
            return [
                _cut((("  ", ""), (inert_line(f"{block.kind} {block.text}"), "dim")), look.width)
            ]


def folds(entry: ConversationEntry) -> bool:
    """Return whether an entry has more to show when it is unfolded."""
    return isinstance(entry.block, ToolCall) or (
        isinstance(entry.block, Mark) and entry.block.kind is MarkKind.SUMMARY
    )


def text_of(entry: ConversationEntry) -> str:
    """Return all the text of an entry, folded or not, for who searches."""
    match entry.block:
        case ToolCall() as call:
            given = "\n".join(_given(call.input))
            result = call.result
            hunks = (
                "\n".join(line for hunk in result.hunks for line in hunk.lines) if result else ""
            )
            return "\n".join((call.name, call.asked, given, result.text if result else "", hunks))
        case Picture():
            return ""
        case block:
            return block.text


def fit(text: str, room: int) -> str:
    """Cut a line where its room ends, with a sign that it was cut."""
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, max(0, room - 1)).rstrip() + "…" if room > 0 else ""


def justified(
    left: list[Piece], right: list[Piece], width: int, *, gap: int = 1, least: int = 8
) -> Line:
    """Put pieces at both ends of a line: the left are cut, the right go if they leave too little.

    Between them is a *gap*; *least* is what the left must have, with it.
    """
    taken = sum(cell_len(text) for text, _ in right)
    if taken > width - least:
        right, taken = [], 0
    gap = gap if right else 0
    room = width - taken - gap
    line: list[Piece] = []
    for text, kind in left:
        part = fit(text, room)
        line.append((part, kind))
        room -= cell_len(part)
        if part != text:
            break
    return (*line, (" " * max(0, room + gap), ""), *right)


def wrapped(text: str, width: int) -> list[str]:
    """Make lines of *width* of one line; what follows hangs below the words of a list's item."""
    line = inert(text.rstrip().expandtabs(4))
    width = max(_LEAST_WIDTH, width)
    if len(line) * 2 <= width or cell_len(line) <= width:
        return [line]
    lead = _LEAD.match(line)
    hang = lead.end() if lead and lead.end() <= width // 3 else 0
    found, now, room = [], line[:hang], width - hang
    for word in _WORDS.findall(line[hang:]):
        bare = word.rstrip()
        size = cell_len(bare)
        if size > room and room < width - hang:
            found.append(now.rstrip())
            now, room = " " * hang, width - hang
        *full, rest = chop_cells(bare, room) if size > room else [bare]
        for part in full:
            found.append(now + part)
            now = " " * hang
        rest += word[len(bare) :]
        now += rest
        room -= cell_len(rest)
    return [*found, now.rstrip()]


def _said(entry: ConversationEntry, block: PromptPiece, look: LineStyle) -> list[Line]:
    if not entry.is_prompt:
        kind = "error" if block.kind is PromptPieceKind.INTERRUPTED else "dim"
        words = (
            "✗ interrupted" if block.kind is PromptPieceKind.INTERRUPTED else inert_line(block.text)
        )
        return [_cut((("  ", ""), (words, kind)), look.width)]
    kind = "command" if block.kind is PromptPieceKind.COMMAND else "prompt"
    at = clock(entry.at)
    lines = _prose(block.text, kind, look.width)
    barred = [(("▌ ", "bar"), *line[1:]) for line in lines]
    return [(), (("▌ ", "bar"), (at, "dim")), *barred]


def _prose(text: str, kind: str, width: int) -> list[Line]:
    """Draw text that a person reads: headings and code set off, the rest as it is."""
    room = min(_PROSE_WIDTH, width - 1) - 2
    found: list[Line] = []
    is_code = False
    for line in text.split("\n")[: _MOST_LINES * 10]:
        fence = _FENCE.match(line) is not None
        is_code = is_code != fence
        here = "code" if is_code or fence else "heading" if _HEADING.match(line) else kind
        here = kind if kind not in ("answer", "prompt") else here
        found += ((("  ", ""), (part, here)) for part in wrapped(line, room))
    return found


def _call(call: ToolCall, look: LineStyle) -> Iterator[Line]:
    sign = "▾ " if look.unfolded else "▸ "
    name = fit(inert_line(call.name), max(4, look.width // 3))
    answer, kind = _answer(call)
    elapsed = (call.elapsed_ms or 0) / 1000
    took = f" · {seconds(elapsed)}" if elapsed >= 1 else ""
    left = look.width - cell_len(name) - len("▸   → ") - len(took) - 1
    # The answer gets what the question leaves, and at least a third.
    question = fit(inert_line(call.asked), left - min(cell_len(answer), left // 3))
    answer = fit(answer, left - cell_len(question))
    yield _cut(
        (
            (sign, "dim"),
            (name, "tool"),
            (f" {question}", ""),
            (" → ", "dim"),
            (answer, kind),
            (took, "dim"),
        ),
        look.width,
    )
    if look.unfolded:
        yield from _capped(list(_unfolded(call, look.width - 5)), look.width)


def _answer(call: ToolCall) -> Piece:
    if call.result is None:
        return "no answer yet", "running"
    failed = call.result.is_error
    words = inert_line(call.answered) or "nothing"
    return (f"✗ {words}", "error") if failed else (words, "dim")


def _unfolded(call: ToolCall, width: int) -> Iterator[Line]:
    for text in _given(call.input):
        for line in text.split("\n"):
            yield from ((("  │ ", "dim"), (part, "code")) for part in wrapped(line, width))
    if call.result is None:
        return
    yield (("  ├─", "dim"),)
    yield from _result(call.result, width)
    for subagent in call.subagents:
        yield (("  │ ", "dim"), (inert_line(f"subagent {subagent.id}"), "name"))


def _result(result: ToolResult, width: int) -> Iterator[Line]:
    if result.hunks:
        for hunk in result.hunks:
            yield from _hunk(hunk, width)
        return
    kind = "error" if result.is_error else "dim"
    for line in result.text.split("\n"):
        yield from ((("  │ ", "dim"), (part, kind)) for part in wrapped(line, width))
    if result.images:
        yield (("  │ ", "dim"), ("[an image]", "dim"))


def _hunk(hunk: Hunk, width: int) -> Iterator[Line]:
    kinds = {"+": "added", "-": "removed"}
    yield (("  │ ", "dim"), (f"@@ {hunk.old_start or 0} → {hunk.new_start or 0}", "dim"))
    for line in hunk.lines:
        kind = kinds.get(line[:1], "dim")
        yield (("  │ ", "dim"), (fit(inert(line.expandtabs(4)), width), kind))


def _given(value: Any) -> Iterator[str]:
    """Write what a call was given, one text for each argument."""
    if not isinstance(value, dict):
        yield str(value)[: _MOST_LINES * 200]
        return
    for key, each in value.items():
        text = each if isinstance(each, str) else str(each)
        yield text if len(value) == 1 else f"{key}: {text}"


def _mark(mark: Mark, look: LineStyle) -> list[Line]:
    if mark.kind is MarkKind.SUMMARY:
        first = inert_line(mark.text)
        sign = "▾ " if look.unfolded else "▸ "
        head = _cut(((sign, "dim"), ("summary ", "mark"), (first, "dim")), look.width)
        lines = _prose(mark.text, "thinking", look.width) if look.unfolded else []
        return [head, *lines]
    kind = "error" if mark.kind in (MarkKind.ERROR, MarkKind.DAMAGE) else "mark"
    return [(), _cut(((f"── {inert_line(mark.text)} ──", kind),), look.width)]


def _capped(lines: Sequence[Line], width: int) -> Iterator[Line]:
    yield from (_cut(line, width) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        yield _cut((("  │ ", "dim"), (f"… {left:,} more lines", "dim")), width)


def _cut(line: Line, width: int) -> Line:
    """Cut a line where the screen ends."""
    found: list[Piece] = []
    room = max(1, width)
    for text, kind in line:
        part = fit(text, room)
        found.append((part, kind))
        room -= cell_len(part)
        if part != text or room <= 0:
            break
    return tuple(found)


def clock(at: datetime | None) -> str:
    """Write the time of day by this machine's clock."""
    return when(at)[-5:]


def seconds(count: float) -> str:
    """Write how long something takes, the way people say it."""
    count = max(0, count)
    if count < 60:
        is_short = isinstance(count, float) and count < 9.95
        return f"{count:.1f} s" if is_short else f"{int(count)} s"
    if count < 3600:
        return f"{count // 60:.0f} min"
    if count < 86_400:
        return f"{count // 3600:.0f} h {count % 3600 // 60:.0f} min"
    return f"{count // 86_400:.0f} d"
