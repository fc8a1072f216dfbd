"""A session on a terminal: prompts, answers as Markdown, calls and their results.

Text from logs is escaped. Subagents are shown below the calls that started them. Prose is wrapped
at a readable width; tool lines use the whole terminal. Into a pipe, Markdown is printed as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from turnlog.api.sessions.reading import Gap, Node
from turnlog.cli.terminal.console import at_most, counted, safe, when
from turnlog.export import diffs
from turnlog.export.conversation import (
    Answer,
    ConversationOptions,
    Hunk,
    Mark,
    MarkKind,
    Other,
    Picture,
    PromptPiece,
    PromptPieceKind,
    Thinking,
    ToolDetail,
)
from turnlog.export.record_blocks import Answered, Blocks, CallRequest, Unmasked
from turnlog.records.call_lines import CallText, call_text, result_text
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import Record, System
from turnlog.text import inert, inert_line, utf8_safe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown

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
_ONE_LINE: Final = 200
_LONGEST_MARKDOWN: Final = 100_000
"""Characters above which a text is not rendered: it would take long and is rarely prose."""
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}
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
        tools: ToolDetail = "line",
        gaps: Mapping[str, Gap] | None = None,
        branches: Mapping[str, str | None] | None = None,
        subagents: Mapping[str, list[Subagent]] | None = None,
        read_subagent: ReadSubagent | None = None,
        margin: int = 0,
        is_cut: bool = False,
        is_live: Callable[[], bool] = bool,
        marks: Spans | None = None,
    ) -> None:
        self.out = out
        self.thinking = thinking
        self.tools: ToolDetail = tools
        self.gaps = gaps or {}
        self.branches = branches or {}
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
        options = ConversationOptions(tools=tools, thinking=thinking, images=False)
        self._blocks = Blocks(options, Unmasked())
        self._open: dict[str, CallRequest] = {}
        self._late: dict[str, CallRequest] = {}
        self._before: Literal["", "prose", "tool"] = ""

    def show(self, pairs: Iterable[Pair]) -> Iterator[None]:
        """Print records, yielding after each; calls without a result were interrupted."""
        yield from self._records(pairs)
        self._interrupt(at_end=True)
        yield

    def expect_results(self, records: Iterable[Record]) -> None:
        """Remember the calls in *records*, which are not printed, for the lines of results."""
        self._late |= self._calls_of(*records)

    def _calls_of(self, *records: Record) -> dict[str, CallRequest]:
        blocks = (block for record in records for block in self._blocks.of(record))
        return {block.id: block for block in blocks if isinstance(block, CallRequest)}

    def _records(self, pairs: Iterable[Pair]) -> Iterator[None]:
        for node, record in pairs:
            if node is not None and node.uuid in self.gaps:
                gap = self._blocks.gap(self.gaps[node.uuid])
                self._space("prose")
                self._print(Text(f"──── {inert_line(gap.text)} ────", "yellow"))
            if node is not None and node.uuid in self.branches:
                self._interrupt()
                parting = self.branches[node.uuid]
                self.rule(f"branch at {safe(parting[:8])}" if parting else "another branch")
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

    def prose(
        self, text: str, style: str = "", *, cut: str | None = None, markdown: bool = False
    ) -> None:
        """Print text; with *cut*, the name of its record, only the start of a long paste."""
        left = ""
        if cut is not None and self.tools != "full":
            text, left = _beginning(text, self._most_lines)
        room = self.out.width - 3 * self.margin
        width = min(room, at_most(_PROSE_WIDTH, room)) - 2
        self._space("prose")
        if markdown and self.out.is_terminal and len(text) <= _LONGEST_MARKDOWN:
            from turnlog.cli.views.markdown import markdown_of

            self._print(markdown_of(text, style), indent=2, width=width)
        else:
            self._paragraphs(harmless(text), style, width)
        if left:
            where = f"use --at {inert_line(cut)}" if cut else "use --tools full"
            self._print(Text(f"  … {left}; {where}", "dim"))

    def _paragraphs(self, text: Text, style: str, width: int, indent: int = 2) -> None:
        """Print lines of text, each wrapped at *width*."""
        lines = list(self._marked(text).split("\n", allow_blank=True))
        for start in range(0, len(lines), _AT_ONCE):  # The first page of a long text appears early.
            wrapped = (_wrapped(self.out, line, width) for line in lines[start : start + _AT_ONCE])
            words = Text("\n", style).join(line for parts in wrapped for line in parts)
            self._print(words, indent=indent)

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
            tools=self.tools,
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
        name = (record.uuid or "")[:8]
        cut_answers = name if self._cuts_answers else None
        for block in self._blocks.of(record):
            match block:
                case CallRequest():
                    self._open[block.id] = block
                case Answered():
                    self._result(block)
                case PromptPiece():
                    self._piece(block, name)
                case Answer():
                    style = "red" if block.is_error else ""
                    self.prose(block.text, style, cut=cut_answers, markdown=True)
                case Thinking():
                    self.prose(block.text, "dim italic", cut=cut_answers, markdown=True)
                case Mark(kind=MarkKind.COMPACTION):
                    self._interrupt()
                    self.rule(block.text)
                case Mark():
                    self.prose(block.text, "dim italic", cut=name, markdown=True)
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

    def _piece(self, piece: PromptPiece, name: str) -> None:
        """Print a piece of the prompt called *name*."""
        match piece.kind:
            case PromptPieceKind.PROMPT | PromptPieceKind.CALLER:
                self.prose(piece.text, "bold", cut=name)
            case PromptPieceKind.COMMAND:
                self.prose(piece.text, "bold green", cut=name)
            case PromptPieceKind.INTERRUPTED:
                self._aside("✗ interrupted by the user", "yellow")
            case PromptPieceKind.OUTPUT:
                self._output(piece.text, name)
            case _:
                self._aside(piece.text, "dim")

    def _output(self, text: str, name: str) -> None:
        """Print what a local command printed, line by line."""
        left = ""
        if self.tools != "full":
            text, left = _beginning(text, self._most_lines)
        self._space("tool")
        self._lines(harmless(text), "dim")
        if left:
            self._print(Text(f"  … {left}; use --at {inert_line(name)}", "dim"))

    # -- calls ------------------------------------------------------------------------------

    def _result(self, answer: Answered) -> None:
        call = self._open.pop(answer.id, None) or self._late.pop(answer.id, None)
        words = result_text(answer.block, answer.detail, call.cwd if call else answer.cwd)
        if answer.block.is_error:
            self._call(call, words._replace(text=f"✗ {words.text}"), "red")
        else:
            self._call(call, words, "dim")
        if self.tools == "full":
            self._in_full(call, answer)
        self._subagents_of(answer.id)

    def _in_full(self, call: CallRequest | None, answer: Answered | None) -> None:
        """Print the input and the output of a call; of an edit, what it changed."""
        found = self._blocks.call(call, answer)
        result = found.result
        changes = None if result is not None and result.is_error else diffs.changes_of(found)
        if changes:
            self.diff(changes, indent=4)
        elif call is not None:
            self.inputs(call.input, indent=4)
        if result is not None and result.text.strip() and not changes:
            self._lines(Text("output:", "dim"), indent=4)
            style = "red" if result.is_error else ""
            self._lines(harmless(result.text.strip("\n")), style, indent=6)
        self._before = "prose"

    def inputs(self, arguments: Any, *, indent: int = 2) -> None:
        """Print the whole input of a call."""
        if not isinstance(arguments, dict):
            if arguments is not None:
                self._lines(harmless(value_text(arguments)), indent=indent)
            return
        for key, value in arguments.items():
            text = harmless(value_text(value))
            line = Text(f"{inert_line(str(key))}:", "dim")
            is_short = "\n" not in text.plain and len(text) <= _ONE_LINE
            self._lines(Text.assemble(line, " ", text) if is_short else line, indent=indent)
            if not is_short:
                self._lines(text, indent=indent + 2)

    def diff(self, changes: list[Hunk], *, indent: int = 2) -> None:
        """Print the lines of a diff, in colour."""
        for line in diffs.as_text(changes).split("\n"):
            self._lines(harmless(line), _DIFF_STYLES.get(line[:1], ""), indent=indent)

    def _interrupt(self, *, at_end: bool = False) -> None:
        """Print the calls that have no result yet."""
        words, style = "no result: interrupted", "yellow"
        if at_end and self.is_cut:
            words, style = "result not shown here", "dim"
        elif at_end and self._open and self.is_live():
            words, style = "no result yet", "dim"
        for call in self._open.values():
            self._call(call, CallText(words), style)
            if self.tools == "full":
                self._in_full(call, None)
            self._subagents_of(call.id)
        self._late |= self._open
        self._open.clear()

    def _call(self, call: CallRequest | None, answer: CallText, style: str) -> None:
        name = inert_line(call.name) if call else "result"
        question = call_text(call.input, call.cwd) if call else CallText("of an earlier call")
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

    def _lines(self, text: Text, style: str = "", *, indent: int = 2) -> None:
        """Print lines that are not prose, over the whole width."""
        width = max(20, self.out.width - 3 * self.margin - indent)
        self._paragraphs(text, style, width, indent)

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

    def _print(self, what: Text | Markdown, *, indent: int = 0, width: int | None = None) -> None:
        """Print text; enclosing subagents are bars on its left."""
        bars = Segment("  │" * self.margin, Style(color="magenta"))
        self._print_barred(what, bars, indent, width)

    def _print_barred(
        self, what: Text | Markdown, bar: Segment, indent: int, width: int | None
    ) -> None:
        marks = None if isinstance(what, Text) else self.marks  # Text is marked already.
        self.out.print(
            _Barred(what, bar, indent, width, marks), soft_wrap=False, crop=False, end=""
        )


class _Barred:
    """Indented text with a bar on its left."""

    def __init__(
        self,
        what: Text | Markdown,
        bar: Segment,
        indent: int,
        width: int | None,
        marks: Spans | None,
    ) -> None:
        self.what, self.width, self.marks = what, width, marks
        self.edge = [bar, Segment(" " * indent)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        taken = Segment.get_line_length(self.edge)
        room = max(20, min(options.max_width - taken, self.width or options.max_width))
        for line in console.render_lines(self.what, options.update(width=room), pad=False):
            text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
            text.rstrip()  # Rich fills the lines of lists and tables.
            if not text:
                yield self.edge[0]
            else:
                for begin, end in self.marks(text.plain) if self.marks else ():
                    text.stylize(_MARKED, begin, end)
                yield from (*self.edge, *text.render(console))
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


def value_text(value: Any) -> str:
    """Return a value of a call's input as text."""
    return str(utf8_safe(value)) if isinstance(value, str) else json_text(value)


def json_text(value: Any) -> str:
    """Return *value* as JSON, on one line if it is short."""
    text = json.dumps(utf8_safe(value), ensure_ascii=False, default=str)
    if len(text) <= _ONE_LINE:
        return text
    return json.dumps(utf8_safe(value), ensure_ascii=False, default=str, indent=2)


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
