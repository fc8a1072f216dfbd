"""One record on a terminal, whole and with a bar on its left, between its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from turnlog.cli.terminal.console import counted, when
from turnlog.cli.views.session import Transcript, harmless, json_text
from turnlog.export import diffs
from turnlog.export.conversation import Hunk, ToolCall
from turnlog.export.record_blocks import CallRequest, without_colors
from turnlog.records.call_lines import call_text
from turnlog.records.record import (
    Assistant,
    Call,
    CallBlock,
    DocumentBlock,
    ImageBlock,
    Record,
    RedactedThinkingBlock,
    Result,
    ResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    UnknownBlock,
    User,
)
from turnlog.text import inert_line, utf8_safe

if TYPE_CHECKING:
    from rich.markdown import Markdown

    from turnlog.api.sessions.place import Place

_BAR: Final = Segment("┃", Style(color="yellow", bold=True))
_EDITED: Final = ("old_string", "new_string", "edits")


class PlaceTranscript(Transcript):
    """Prints a record whole, and its neighbours as in any transcript."""

    _most_lines = 8
    _cuts_answers = True
    _is_here = False

    def show_place(self, place: Place) -> Iterator[None]:
        """Print the neighbours before, the record, and the neighbours after."""
        if place.earlier and place.around:
            self.rule(f"{counted(place.earlier, 'earlier step')} omitted")
        yield from self._records(place.before)
        asked = self._calls_of(*place.asked)
        for call_id in asked:
            self._open.pop(call_id, None)  # It is printed with its result.
        self._head(place, asked)
        self._is_here = True
        self._whole(place, asked)
        self._is_here = False
        yield
        if place.around:
            self._open |= self._calls_of(place.record)
            yield from self.show(place.after)
        if place.later and place.around:
            more = f"; -C {max(10, 4 * place.around)} shows more"
            self.rule(f"{counted(place.later, 'later step')} omitted{more}")
            yield

    def _head(self, place: Place, asked: dict[str, CallRequest]) -> None:
        """Print when the record was written, what it is, and its name."""
        record = place.record
        tools = [call.name for call in (*asked.values(), *self._calls_of(record).values())]
        kinds = list(dict.fromkeys(kind for kind, _ in place.texts)) or [record.type]
        what = " ".join([", ".join(kinds), *dict.fromkeys(tools)])
        at = when(record.at)
        self._space("prose")
        self._print(
            Text.assemble(
                ("▶", "bold yellow"),
                (f" {at}" if at else "", "dim"),
                (f" {inert_line(what)}", "bold"),
                (f"  {inert_line(place.name)}", "dim"),
            )
        )
        self._before = ""

    # -- the record -------------------------------------------------------------------------

    def _whole(self, place: Place, asked: dict[str, CallRequest]) -> None:
        record = place.record
        if isinstance(record, Call):
            self._call_whole(record.input, record.name or "?")
        elif isinstance(record, Result):
            content = record.content if isinstance(record.content, str | dict) else record.text
            result = ResultBlock(record.call_id or "", content, record.is_error)
            self._result_whole(result, asked.get(result.tool_use_id))
        elif isinstance(record, User | Assistant):
            for block in record.blocks:
                if isinstance(block, CallBlock):
                    is_named = len(record.blocks) > 1
                    self._call_whole(block.input, block.name, is_named=is_named)
                else:
                    self._block(block, record, asked)
        else:
            for _, text in place.texts:
                self.prose(text)
        if not self._before:  # It has no text.
            self._wide(json_text(record.fields))

    def _block(self, block: Any, record: Record, asked: dict[str, CallRequest]) -> None:
        match block:
            case TextBlock(text=text) if text.strip():
                is_prompt = isinstance(record, User)
                style = "bold" if is_prompt else ""
                self.prose(text.strip("\n"), style, markdown=not is_prompt)
            case ThinkingBlock(thinking=text) if text.strip():
                self.prose(text.strip("\n"), "dim italic", markdown=True)
            case RedactedThinkingBlock():
                self._aside("[encrypted thinking]", "dim")
            case ResultBlock():
                self._result_whole(block, asked.get(block.tool_use_id))
            case _:
                self._other(block)

    def _other(self, block: Any) -> None:
        match block:
            case ImageBlock():
                self._aside("[an image]", "dim")
            case DocumentBlock(title=title):
                self._aside(f"[a document] {title or ''}", "dim")
            case ToolReferenceBlock(tool_name=name):
                self._aside(name, "dim")
            case UnknownBlock(value=value):
                self._wide(json_text(value))

    def _call_whole(self, arguments: Any, name: str, *, is_named: bool = False) -> None:
        """Print the whole input of a call, below its *name* if the head does not have it."""
        self._space("prose")
        if is_named:
            self._print(Text(inert_line(name), "cyan"), indent=2)
        changes = _changes(name, arguments)
        if changes:
            kept = {key: value for key, value in arguments.items() if key not in _EDITED}
            self.inputs(kept)
            self.diff(changes)
        else:
            self.inputs(arguments)

    def _result_whole(self, block: ResultBlock, call: CallRequest | None) -> None:
        """Print a result with all its lines, below the call that it answers."""
        self._space("prose")
        if call is not None:
            question = Text.assemble(
                (inert_line(call.name), "cyan"),
                " ",
                inert_line(call_text(call.input, call.cwd).text),
            )
            question.truncate(max(20, self.out.width - 2), overflow="ellipsis")
            self._print(self._marked(question), indent=2)
        if isinstance(block.content, dict):
            text = json_text(block.content)
        else:
            text = str(utf8_safe(without_colors(block.text)))
        if text.strip():
            self._lines(harmless(text.strip("\n")), "red" if block.is_error else "")
        for part in block.content if isinstance(block.content, tuple) else ():
            if not isinstance(part, TextBlock):
                self._other(part)

    # -- lines ------------------------------------------------------------------------------

    def _wide(self, text: str) -> None:
        self._space("prose")
        self._lines(harmless(text))

    def _print(self, what: Text | Markdown, *, indent: int = 0, width: int | None = None) -> None:
        if self._is_here:
            self._print_barred(what, _BAR, max(0, indent - 1), width)
        else:
            super()._print(what, indent=indent, width=width)


def _changes(name: str, arguments: Any) -> list[Hunk] | None:
    """Return what an edit changes; None for other calls."""
    return diffs.changes_of(ToolCall(id="", name=name, input=arguments, asked="", answered=""))
