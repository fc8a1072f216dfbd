"""A session's records as entries of a conversation, and entries as lines of text.

The end of the log is read first, so that long sessions open at once; ``earlier`` reads further
back. A call and its result are one entry: when the result arrives, the entry is returned again with
the same number. Lines are pieces of escaped text, each with the name of a style.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct
from rich.cells import cell_len, chop_cells, set_cell_size

from turnlog.api.live import LogFollower, Placed, Restart, read_last, read_log
from turnlog.cli.terminal.console import when
from turnlog.errors import TurnlogError
from turnlog.export.conversation import (
    Answer,
    Block,
    ConversationOptions,
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
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.records.annotations import session_of
from turnlog.records.damage import Damage
from turnlog.records.meaning import Meaning, meaning_of
from turnlog.records.record import Linked, Record
from turnlog.text import inert, inert_line

STEPS: Final = (1_000, 5_000, 20_000)
"""How many of the last records are read: first, and each time more are requested."""
_SHOWN_LENGTH: Final = 100_000


class ConversationEntry(Struct, frozen=True):
    """A block of the conversation. An updated entry has the same *number*."""

    number: int
    block: Block
    at: datetime | None

    @property
    def is_prompt(self) -> bool:
        """Whether this is a prompt."""
        return isinstance(self.block, PromptPiece) and self.block.is_prompt


class Growth(Struct, frozen=True):
    """New entries. If *begins*, they replace all earlier ones."""

    entries: list[ConversationEntry]
    begins: bool = False
    is_whole: bool = True
    """Whether the first entry is the first of the log; set if *begins*."""
    records: int = 0
    problem: str = ""


class ConversationReader:
    """Reads the log of a session or subagent; with *session*, only that session's records.

    Use it from one thread only.
    """

    def __init__(self, path: str | os.PathLike[str], *, session: str | None = None) -> None:
        self.path = os.fspath(path)
        self._session = session
        self._step = -1
        self._follower: LogFollower | None = None
        self._seen: tuple[int, int] | None = None
        self._begin()

    def look(self) -> Growth | None:
        """Return new entries, or None."""
        try:
            if self._step < 0:
                return self._read_last(0)
            status = os.stat(self.path)
            seen = (status.st_size, status.st_mtime_ns)
            if self._follower is None or seen == self._seen:
                return None
            self._seen = seen
            return self._read_on(self._follower)
        except (OSError, TurnlogError) as error:
            if self._step >= 0:
                return None  # The log was moved or deleted.
            self._step = 0
            return Growth([], begins=True, problem=str(error))

    def earlier(self) -> Growth | None:
        """Read further back, or return None if that is not possible."""
        if not self.can_go_back:
            return None
        try:
            return self._read_last(self._step + 1)
        except (OSError, TurnlogError):
            return None

    @property
    def can_go_back(self) -> bool:
        """Whether there are earlier records that may be read."""
        return not self._is_whole and self._step + 1 < len(STEPS)

    def _begin(self) -> None:
        self._blocks = Blocks(ConversationOptions(), Unmasked())
        self._count = 0
        self._records = 0
        self._calls: dict[str, tuple[int, CallRequest]] = {}
        self._places: dict[str, int] = {}
        self._last_prompt = -1
        self._is_whole = True

    def _read_last(self, step: int) -> Growth:
        self._begin()
        last = read_last(self.path, STEPS[step])
        start = last[0].offset if last else 0
        self._step, self._is_whole = step, start == 0
        if self.path.endswith(".jsonl"):
            status = os.stat(self.path)
            self._seen = (status.st_size, status.st_mtime_ns)
            self._follower = LogFollower(self.path, start=start)
            entries = list(self._read_all(self._follower))
        else:
            entries = self._entries_of(last if start else read_log(self.path))
        return Growth(entries, begins=True, is_whole=self._is_whole, records=self._records)

    def _read_all(self, follower: LogFollower) -> Iterator[ConversationEntry]:
        while items := follower.look():
            yield from self._entries_of(items)

    def _read_on(self, follower: LogFollower) -> Growth | None:
        entries: list[ConversationEntry] = []
        begins = False
        while items := follower.look():
            if any(isinstance(item, Restart) for item in items):
                self._begin()
                entries, begins = [], True
            entries += self._entries_of(items)
        if not entries and not begins:
            return None
        return Growth(entries, begins=begins, records=self._records)

    def _entries_of(self, items: Iterable[Placed | Damage | Restart]) -> list[ConversationEntry]:
        """Return the new and changed entries."""
        entries: dict[int, ConversationEntry] = {}
        for item in items:
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._records += 1
                for entry in self._entries(item.record):
                    entries[entry.number] = entry
            elif isinstance(item, Damage):
                mark = Mark(kind=MarkKind.DAMAGE, text=f"{item.length:,} damaged bytes")
                entry = self._new(mark, None)
                entries[entry.number] = entry
        return list(entries.values())

    def _entries(self, record: Record) -> Iterator[ConversationEntry]:
        if isinstance(record, Linked):
            yield from self._turned_back(record)
        for block in self._blocks.of(record):
            if isinstance(block, CallRequest):
                entry = self._new(self._blocks.call(block, None), block.at)
                self._calls[block.id] = (entry.number, block)
                yield entry
            elif isinstance(block, Answered):
                yield self._answered(block)
            else:
                yield self._new(block, record.at)

    def _answered(self, answer: Answered) -> ConversationEntry:
        number, request = self._calls.pop(answer.id, (None, None))
        call = self._blocks.call(request, answer)
        if call.result is not None and len(call.result.text) > _SHOWN_LENGTH:
            left = len(call.result.text) - _SHOWN_LENGTH
            call.result.text = f"{call.result.text[:_SHOWN_LENGTH]}\n… {left:,} more characters"
        if number is None:
            return self._new(call, answer.at)
        return ConversationEntry(number, call, request.at if request else answer.at)

    def _turned_back(self, record: Linked) -> Iterator[ConversationEntry]:
        """Yield a mark if a prompt continues from before the previous prompt."""
        place = len(self._places)
        if meaning_of(record) is Meaning.PROMPT and not record.is_sidechain:
            parent = self._places.get(record.parent_uuid or "")
            if parent is not None and parent < self._last_prompt:
                words = "conversation rewound to an earlier point"
                yield self._new(Mark(kind=MarkKind.BRANCH, text=words), record.at)
            self._last_prompt = place
        if record.uuid:
            self._places[record.uuid] = place

    def _new(self, block: Block, at: datetime | None) -> ConversationEntry:
        self._count += 1
        return ConversationEntry(self._count - 1, block, at)

    def _is_mine(self, record: Record) -> bool:
        return self._session is None or session_of(record) == self._session


Piece = tuple[str, str]
"""Escaped text, and its kind."""
Line = tuple[Piece, ...]

KINDS: Final = (
    "prompt", "command", "answer", "code", "heading", "thinking", "tool", "dim", "error", "mark",
    "added", "removed", "bar", "running", "match", "name",
)  # fmt: skip
"""All kinds; plain text has none."""

_PROSE_WIDTH: Final = 100
_LEAST_WIDTH: Final = 12
_MOST_LINES: Final = 400
_WORDS: Final = re.compile(r"\S+\s*|\s+")
_LEAD: Final = re.compile(r"\s*(?:[-*+•>]\s+|\d{1,3}[.)]\s+)?")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_HEADING: Final = re.compile(r"#{1,6} ")


class LineStyle(NamedTuple):
    """The width of lines, and what is shown."""

    width: int
    thinking: bool = False
    unfolded: bool = False


def lines_of(entry: ConversationEntry, look: LineStyle) -> list[Line]:
    """Return the lines of *entry*, or none if it is hidden."""
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
    """Return whether an entry can be unfolded."""
    return isinstance(entry.block, ToolCall) or (
        isinstance(entry.block, Mark) and entry.block.kind is MarkKind.SUMMARY
    )


def text_of(entry: ConversationEntry) -> str:
    """Return all text of an entry, folded or not, to be searched."""
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
    """Cut a line to *room* columns, with an ellipsis."""
    if cell_len(text) <= room:
        return text
    return set_cell_size(text, max(0, room - 1)).rstrip() + "…" if room > 0 else ""


def justified(
    left: list[Piece], right: list[Piece], width: int, *, gap: int = 1, least: int = 8
) -> Line:
    """Return a line with pieces at both ends.

    The left ones are cut; the right ones are dropped if they leave less than *least* columns.
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
    """Wrap one line at *width*; list items get a hanging indent."""
    line = inert(text.rstrip().expandtabs(4))
    width = max(_LEAST_WIDTH, width)
    if len(line) * 2 <= width or cell_len(line) <= width:
        return [line]
    lead = _LEAD.match(line)
    hang = lead.end() if lead and lead.end() <= width // 3 else 0
    lines, now, room = [], line[:hang], width - hang
    for word in _WORDS.findall(line[hang:]):
        bare = word.rstrip()
        size = cell_len(bare)
        if size > room and room < width - hang:
            lines.append(now.rstrip())
            now, room = " " * hang, width - hang
        *full, rest = chop_cells(bare, room) if size > room else [bare]
        for part in full:
            lines.append(now + part)
            now = " " * hang
        rest += word[len(bare) :]
        now += rest
        room -= cell_len(rest)
    return [*lines, now.rstrip()]


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
    """Return the lines of Markdown text; headings and code have their own kinds."""
    room = min(_PROSE_WIDTH, width - 1) - 2
    lines: list[Line] = []
    is_code = False
    for line in text.split("\n")[: _MOST_LINES * 10]:
        fence = _FENCE.match(line) is not None
        is_code = is_code != fence
        here = "code" if is_code or fence else "heading" if _HEADING.match(line) else kind
        here = kind if kind not in ("answer", "prompt") else here
        lines += ((("  ", ""), (part, here)) for part in wrapped(line, room))
    return lines


def _call(call: ToolCall, look: LineStyle) -> Iterator[Line]:
    sign = "▾ " if look.unfolded else "▸ "
    name = fit(inert_line(call.name), max(4, look.width // 3))
    answer, kind = _answer(call)
    elapsed = (call.elapsed_ms or 0) / 1000
    took = f" · {seconds(elapsed)}" if elapsed >= 1 else ""
    left = look.width - cell_len(name) - len("▸   → ") - len(took) - 1
    # The result gets what the call leaves, and at least a third.
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
        return "no result yet", "running"
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
    """Yield the arguments of a call as text."""
    if not isinstance(value, dict):
        yield str(value)[: _MOST_LINES * 200]
        return
    for key, argument in value.items():
        text = argument if isinstance(argument, str) else str(argument)
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
    """Cut a line to *width*."""
    cut: list[Piece] = []
    room = max(1, width)
    for text, kind in line:
        part = fit(text, room)
        cut.append((part, kind))
        room -= cell_len(part)
        if part != text or room <= 0:
            break
    return tuple(cut)


def clock(at: datetime | None) -> str:
    """Return the local time of day."""
    return when(at)[-5:]


def seconds(count: float) -> str:
    """Format a duration."""
    count = max(0, count)
    if count < 60:
        is_short = isinstance(count, float) and count < 9.95
        return f"{count:.1f} s" if is_short else f"{int(count)} s"
    if count < 3600:
        return f"{count // 60:.0f} min"
    if count < 86_400:
        return f"{count // 3600:.0f} h {count % 3600 // 60:.0f} min"
    return f"{count // 86_400:.0f} d"
