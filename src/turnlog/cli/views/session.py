"""A session on a terminal: prompts, answers, one line for each call and its result.

Text from logs is escaped. Subagents are shown below the calls that started them. Prose is wrapped
at a readable width; tool lines use the whole terminal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from turnlog.api.sessions.reading import Gap, Node
from turnlog.cli.terminal.console import at_most, counted, safe, when
from turnlog.export.conversation import (
    Answer,
    ConversationOptions,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    PromptPieceKind,
    Thinking,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.records.call_lines import CallText, call_text, result_text
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import Record, System
from turnlog.text import inert, inert_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from turnlog.api.sessions.reading import Subagent

Pair = tuple[Node | None, Record]
Spans = Callable[[str], list[tuple[int, int]]]
"""Returns where the words to mark are in a text."""
ReadSubagent = Callable[["Subagent"], Iterable[Pair]]

_PROSE_WIDTH: Final = 100
_PASTE_LINES: Final = 24
_LINE_LENGTH: Final = 100
_AT_ONCE: Final = 500
_DEEPEST: Final = 6
_MARKED: Final = "not dim bold yellow"
_LEAD: Final = re.compile(r"\s*(?:[-*+•>]\s+|\d{1,3}[.)]\s+)?")


class Transcript:
    """Prints records. A call is printed when its result is known, on one line."""

    _most_lines = _PASTE_LINES
    """How many lines of a paste to print."""
    _cuts_answers = False

    def __init__(
        self,
        out: Console,
        *,
        thinking: bool = False,
        full: bool = False,
        gaps: Mapping[str, Gap] | None = None,
        subagents: Mapping[str, list[Subagent]] | None = None,
        read_subagent: ReadSubagent | None = None,
        margin: int = 0,
        is_cut: bool = False,
        is_live: Callable[[], bool] = bool,
        marks: Spans | None = None,
    ) -> None:
        self.out = out
        self.thinking = thinking
        self.full = full
        self.gaps = gaps or {}
        self.subagents = subagents or {}
        self.read_subagent = read_subagent
        self.margin = margin
        self.is_cut = is_cut
        """More follows that is not shown; it may contain results."""
        self.is_live = is_live
        """Returns whether the session is still being written, so that results may follow."""
        self.marks = marks
        self.shown: set[str] = set()
        """The ids of the subagents printed so far."""
        self._blocks = Blocks(ConversationOptions(thinking=thinking, images=False), Unmasked())
        self._open: dict[str, CallRequest] = {}
        self._late: dict[str, CallRequest] = {}
        self._before: Literal["", "prose", "tool"] = ""

    def show(self, pairs: Iterable[Pair]) -> Iterator[None]:
        """Print records, yielding after each; calls without a result were interrupted."""
        yield from self._records(pairs)
        self._interrupt(at_end=True)
        yield

    def _records(self, pairs: Iterable[Pair]) -> Iterator[None]:
        for node, record in pairs:
            if node is not None and node.uuid in self.gaps:
                gap = self._blocks.gap(self.gaps[node.uuid])
                self._space("prose")
                self._print(Text(f"──── {inert_line(gap.text)} ────", "yellow"))
            self._record(record)
            yield

    @property
    def is_blank(self) -> bool:
        """Whether nothing has been printed."""
        return not self._before and not self.shown

    def rule(self, words: str) -> None:
        """Print *words* as a rule."""
        self._space("prose")
        self._print(Text.from_markup(f"[dim]──── {words} ────[/]", emoji=False))

    def prose(self, text: str, style: str = "", *, cut: bool = False) -> None:
        """Print text; with *cut*, only the start of a long paste."""
        left = ""
        if cut and not self.full:
            text, left = _beginning(text, self._most_lines)
        room = self.out.width - 3 * self.margin
        self._space("prose")
        self._paragraphs(harmless(text), style, min(room, at_most(_PROSE_WIDTH, room)) - 2)
        if left:
            self._print(Text(f"  … {left}; use --full", "dim"))

    def _paragraphs(self, text: Text, style: str, width: int) -> None:
        """Print lines of text, each wrapped at *width*."""
        lines = list(self._marked(text).split("\n", allow_blank=True))
        for start in range(0, len(lines), _AT_ONCE):  # The first page of a long text appears early.
            wrapped = (_wrapped(self.out, line, width) for line in lines[start : start + _AT_ONCE])
            words = Text("\n", style).join(line for parts in wrapped for line in parts)
            self._print(words, indent=2)

    def _marked(self, text: Text) -> Text:
        """Mark the words to be marked."""
        for begin, end in self.marks(text.plain) if self.marks else ():
            text.stylize(_MARKED, begin, end)
        return text

    def subagent(self, subagent: Subagent) -> None:
        """Print the session of *subagent* behind a bar."""
        if subagent.id in self.shown or self.read_subagent is None:
            return
        self.shown.add(subagent.id)
        what = safe(subagent.description or subagent.kind or "")
        orphan = "" if subagent.spawn else " [yellow](its call is not in the logs)[/]"
        self._print(
            Text.from_markup(
                f"  [magenta]╭ [bold]subagent {safe(subagent.id)}[/] {what}[/]{orphan}", emoji=False
            )
        )
        inner = Transcript(
            self.out,
            thinking=self.thinking,
            full=self.full,
            subagents=self.subagents if self.margin < _DEEPEST else None,
            read_subagent=self.read_subagent,
            margin=self.margin + 1,
            is_live=self.is_live,
            marks=self.marks,
        )
        inner.shown = self.shown
        for _ in inner.show(self.read_subagent(subagent)):
            pass
        self._print(Text.from_markup("  [magenta]╰[/]"))
        self._before = "tool"

    # -- records ----------------------------------------------------------------------------

    def _record(self, record: Record) -> None:
        if isinstance(record, System) and record.subtype != "compact_boundary":
            return
        meaning = meaning_of(record)
        is_prompt = meaning is Meaning.PROMPT
        if is_prompt or meaning is Meaning.NOTICE:
            self._interrupt()
        if is_prompt:
            self._prompt_head(record)
        for block in self._blocks.of(record):
            match block:
                case CallRequest():
                    self._open[block.id] = block
                case Answered():
                    self._result(block)
                case PromptPiece():
                    self._piece(block)
                case Answer():
                    self.prose(block.text, "red" if block.is_error else "", cut=self._cuts_answers)
                case Thinking():
                    self.prose(block.text, "dim italic", cut=self._cuts_answers)
                case Mark(kind=MarkKind.COMPACTION):
                    self._interrupt()
                    self.rule(block.text)
                case Mark():
                    self.prose(block.text, "dim italic", cut=True)
                case Picture() if is_prompt:
                    self._aside("[an image]", "dim")
                case Other(kind="document") if is_prompt:
                    self._aside("[a document]", "dim")

    def _prompt_head(self, record: Record) -> None:
        at = f" [dim]{when(record.at)}[/]" if record.at else ""
        colour = "magenta" if author_of(record) is Author.CALLER else "green"
        self._space("prose")
        self._print(Text.from_markup(f"[bold {colour}]▌[/]{at}"))
        self._before = ""

    def _piece(self, piece: PromptPiece) -> None:
        """Print a piece of a prompt."""
        match piece.kind:
            case PromptPieceKind.PROMPT | PromptPieceKind.CALLER:
                self.prose(piece.text, "bold", cut=True)
            case PromptPieceKind.COMMAND:
                self.prose(piece.text, "bold green", cut=True)
            case PromptPieceKind.INTERRUPTED:
                self._aside("✗ interrupted by the user", "yellow")
            case PromptPieceKind.OUTPUT if self.full:
                self.prose(piece.text, "dim")
            case _:
                self._aside(piece.text, "dim")

    # -- calls ------------------------------------------------------------------------------

    def _result(self, answer: Answered) -> None:
        call = self._open.pop(answer.id, None) or self._late.pop(answer.id, None)
        words = result_text(answer.block, answer.detail, call.cwd if call else answer.cwd)
        if answer.block.is_error:
            self._call(call, words._replace(text=f"✗ {words.text}"), "red")
        else:
            self._call(call, words, "dim")
        self._subagents_of(answer.id)

    def _interrupt(self, *, at_end: bool = False) -> None:
        """Print the calls that have no result yet."""
        words, style = "no result: interrupted", "yellow"
        if at_end and self.is_cut:
            words, style = "result not shown here", "dim"
        elif at_end and self._open and self.is_live():
            words, style = "no result yet", "dim"
        for call in self._open.values():
            self._call(call, CallText(words), style)
            self._subagents_of(call.id)
        self._late |= self._open
        self._open.clear()

    def _call(self, call: CallRequest | None, answer: CallText, style: str) -> None:
        name = inert_line(call.name) if call else "?"
        question = call_text(call.input, call.cwd) if call else CallText("call not shown here")
        left = self.out.width - 3 * self.margin - cell_len(name) - len("    → ")
        # The result gets what the call leaves, and at least a third.
        least = min(cell_len(inert_line(answer.text)) + len(answer.suffix), left // 3)
        words = _fit(question, left - least)
        self._space("tool")
        line = Text.assemble(
            ("  " + name, "cyan"),
            (" " + words, "" if call else "dim"),
            (" → ", "dim"),
            (_fit(answer, left - cell_len(words)), style),
            no_wrap=True,
        )
        self._print(self._marked(line))

    def _subagents_of(self, call_id: str) -> None:
        for subagent in self.subagents.get(call_id, ()):
            self.subagent(subagent)

    # -- lines ------------------------------------------------------------------------------

    def _aside(self, text: str, style: str) -> None:
        """Print one line that is not prose."""
        line = Text("  " + inert_line(text), style, no_wrap=True, overflow="ellipsis")
        self._space("tool")
        self._print(self._marked(line))

    def _space(self, kind: Literal["prose", "tool"]) -> None:
        """Print a blank line, except between two tool lines."""
        if self._before and not (kind == self._before == "tool"):
            self._print(Text())
        self._before = kind

    def _print(self, what: Text, *, indent: int = 0) -> None:
        """Print text; enclosing subagents are bars on its left."""
        bars = Segment("  │" * self.margin, Style(color="magenta"))
        self._print_barred(what, bars, indent)

    def _print_barred(self, what: Text, bar: Segment, indent: int) -> None:
        self.out.print(_Barred(what, bar, indent), soft_wrap=False, crop=False, end="")


class _Barred:
    """Indented text with a bar on its left."""

    def __init__(self, what: Text, bar: Segment, indent: int) -> None:
        self.what = what
        self.edge = [bar, Segment(" " * indent)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        taken = Segment.get_line_length(self.edge)
        room = options.update(width=max(20, options.max_width - taken))
        for line in console.render_lines(self.what, room, pad=False):
            if any(segment.text.strip() for segment in line):
                yield from (*self.edge, *line)
            else:
                yield self.edge[0]
            yield Segment.line()


def harmless(text: str) -> Text:
    """Return *text* with its lines, and with every active character made visible."""
    return Text("\n".join(inert(line.rstrip().expandtabs(4)) for line in text.split("\n")))


def _wrapped(out: Console, line: Text, width: int) -> list[Text]:
    """Wrap a line of prose; list items get a hanging indent."""
    if cell_len(line.plain) <= width:
        return [line]
    lead = _LEAD.match(line.plain)
    hang = lead.end() if lead and lead.end() <= width // 3 else 0
    head, rest = line.divide([hang])
    wrapped: list[Text] = []
    for part in rest.wrap(out, max(20, width - hang)):
        part.rstrip()  # Rich leaves the space at which it broke a line.
        wrapped.append(Text.assemble(Text(" " * hang) if wrapped else head, part))
    return wrapped


def _fit(words: CallText, room: int) -> str:
    """Return *words* as one escaped line that fits; of a path, keep the end."""
    text = inert_line(words.text)
    suffix = words.suffix if room - len(words.suffix) >= 8 else ""
    room = max(1, room - len(suffix))
    if cell_len(text) <= room:
        return text + suffix
    if words.is_path:
        text = text.replace("\\", "/")
        start = further = text.rfind("/") + 1
        while further and cell_len(text[further:]) <= room - 2:
            start, further = further, text.rfind("/", 0, further - 1) + 1
        text = "…/" + text[start:]
    cut = Text(text)
    cut.truncate(room, overflow="ellipsis")
    return cut.plain + suffix


def _beginning(text: str, most_lines: int) -> tuple[str, str]:
    """Return the start of a paste, and how much is left out, as text."""
    lines = text.splitlines()
    most = most_lines * _LINE_LENGTH
    # A little more than fits is not worth a hint.
    if len(lines) <= most_lines + 3 and len(text) <= most * 5 // 4:
        return text, ""
    head = "\n".join(lines[:most_lines])
    if len(head) > most:
        head = head[:most].rsplit(maxsplit=1)[0] + " …"
    left = len(lines) - len(head.splitlines())
    if left > 1:
        return head, counted(left, "more line")
    return head, counted(len(text) - len(head), "more character")
