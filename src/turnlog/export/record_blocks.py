"""What one record says, in the words of a conversation: pieces of prompts, answers, calls, results.

What the agent program slipped in for the model, signs of life and bookkeeping say nothing to a
reader and are left out; the log itself has them. A record or block of a kind that nobody has met is
shown as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import json

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
from turnlog.export.wrapped_tags import TagKind, unwrap, without_colours
from turnlog.records import call_lines
from turnlog.records.meaning import Author, Meaning, author_of, meaning_of
from turnlog.records.record import (
    Assistant,
    CallBlock,
    DocumentBlock,
    ImageBlock,
    Record,
    RedactedThinkingBlock,
    ResultBlock,
    Spoken,
    Summary,
    System,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    Unknown,
    UnknownBlock,
    User,
)
from turnlog.records.record import Call as CallRecord
from turnlog.records.record import Result as ResultRecord
from turnlog.sessions.reading.tree import Gap, GapReason
from turnlog.text import utf8_safe

RASTER: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Images that are nothing but pixels."""

_CALL_ID: Final = re.compile(r"(?:toolu|call|srvtoolu)_[A-Za-z0-9]{1,64}")
_MADE: Final = {
    TagKind.COMMAND: PromptPieceKind.COMMAND,
    TagKind.OUTPUT: PromptPieceKind.OUTPUT,
    TagKind.NOTE: PromptPieceKind.NOTE,
    TagKind.INTERRUPTED: PromptPieceKind.INTERRUPTED,
}


class Unmasked:
    """Passes texts on as they are: people see their own logs on a terminal of their own.

    Whoever lets texts out of the machine gives `Blocks` a `Masking` instead.
    """

    def text(self, text: str) -> str:
        """Return *text* as it may leave."""
        return text if text.isascii() else str(utf8_safe(text))

    def name(self, name: str) -> str:
        """Return a short text that comes again and again as it may leave."""
        return self.text(name)

    def value(self, value: Any) -> Any:
        """Return plain JSON as it may leave."""
        return value


class CallRequest(NamedTuple):
    """A call as a record has it."""

    id: str
    name: str
    input: Any
    at: datetime | None
    cwd: str | None


class Answered(NamedTuple):
    """A result as a record has it; *detail* is what the tool reported beside it."""

    id: str
    block: ResultBlock
    detail: Any
    at: datetime | None
    cwd: str | None


class Blocks:
    """Turns records into blocks; everything it gives has gone out."""

    def __init__(
        self, choice: ConversationOptions, out: Unmasked, *, is_subagent: bool = False
    ) -> None:
        self._choice, self._out, self._is_subagent = choice, out, is_subagent

    def of(self, record: Record) -> Iterator[Block | CallRequest | Answered]:
        """Return what *record* says; calls and results are to be put together first."""
        meaning = meaning_of(record)
        if isinstance(record, System):
            yield from self._system(record)
        elif meaning is Meaning.SUMMARY and isinstance(record, User | Summary):
            text = self._out.text(record.text.strip())
            yield Mark(kind=MarkKind.SUMMARY, text=text, at=record.at)
        elif meaning is Meaning.PROMPT and isinstance(record, User):
            yield from self._prompt(record)
        elif meaning is Meaning.NOTICE:
            yield from self._pieces(record.text, record)
        elif isinstance(record, CallRecord):
            if self._choice.tools:
                call_id, name = record.call_id or record.uuid or "", record.name or "?"
                yield CallRequest(call_id, name, record.input, record.at, record.cwd)
        elif isinstance(record, ResultRecord):
            if self._choice.tools:
                yield from self.answers(record)
        elif isinstance(record, User | Assistant) and meaning is not Meaning.CONTEXT:
            yield from self._spoken(record)
        elif isinstance(record, Unknown):
            yield Other(kind=self._out.text(record.type), text=self._json(record.fields))

    def answers(self, record: Record) -> Iterator[Answered]:
        """Return the results that *record* carries."""
        if isinstance(record, ResultRecord):
            said = record.content if isinstance(record.content, str | dict) else record.text
            block = ResultBlock(record.call_id or "", said, record.is_error)
            yield Answered(block.tool_use_id, block, None, record.at, record.cwd)
        elif isinstance(record, Spoken):
            detail = record.tool_use_result if isinstance(record, User) else None
            for block in record.results:
                yield Answered(block.tool_use_id, block, detail, record.at, record.cwd)

    def call(self, asked: CallRequest | None, answer: Answered | None) -> ToolCall:
        """Put a call and its result together; one of them may be missing."""
        out = self._out
        given = out.value(asked.input) if asked else None
        cwd = asked.cwd if asked else answer.cwd if answer else None
        result = self._result(answer) if answer else None
        words = call_lines.CallText("no result")
        if result is not None and answer is not None:
            plain = ResultBlock("", result.text, result.is_error)
            words = call_lines.result_text(plain, answer.detail, cwd)
            if result.images and not result.text:
                words = call_lines.CallText("an image")
        question = (
            call_lines.call_text(given, cwd)
            if asked
            else call_lines.CallText("the call is not in the log")
        )
        taken = None
        if asked and answer and asked.at and answer.at:
            taken = max(0, round((answer.at - asked.at).total_seconds() * 1000))
        return ToolCall(
            id=_id(asked.id if asked else answer.id if answer else "", out),
            name=out.name(asked.name) if asked else "?",
            input=given,
            asked=" ".join(question.text.split()),
            answered=" ".join(words.text.split()) + words.suffix,
            at=asked.at if asked else answer.at if answer else None,
            elapsed_ms=taken,
            result=result,
        )

    def gap(self, gap: Gap) -> Mark:
        """Say that a record does not follow the one that it names."""
        if gap.reason is GapReason.CYCLE:
            words = "the parents of this record lead back to itself"
        else:
            words = f"the record {gap.named[:8]} before this one is not in the log"
        return Mark(kind=MarkKind.GAP, text=self._out.text(words))

    # -- kinds of records -------------------------------------------------------------------

    def _system(self, record: System) -> Iterator[Block]:
        if record.subtype == "compact_boundary":
            yield Mark(
                kind=MarkKind.COMPACTION, text="what stands above was summarised", at=record.at
            )
        elif meaning_of(record) is Meaning.ERROR:
            said = record.text or _message_in(record.error) or "the API failed"
            yield Mark(kind=MarkKind.ERROR, text=self._out.text(said), at=record.at)
        elif record.subtype == "local_command":
            yield from self._pieces(record.text, record)

    def _prompt(self, record: User) -> Iterator[Block]:
        yield from self._pieces(record.text, record)
        for block in record.blocks:
            if not isinstance(block, TextBlock):
                yield from self._media(block)

    def _pieces(self, text: str, record: Record) -> Iterator[Block]:
        """Return what was typed, and what the program made of it."""
        plain = PromptPieceKind.PROMPT
        if meaning_of(record) is Meaning.NOTICE:
            plain = PromptPieceKind.NOTE
        elif self._is_subagent or author_of(record) is Author.CALLER:
            plain = PromptPieceKind.CALLER
        for piece in unwrap(self._out.text(text)):
            yield PromptPiece(kind=_MADE.get(piece.kind, plain), text=piece.text)

    def _spoken(self, record: User | Assistant) -> Iterator[Block | CallRequest | Answered]:
        choice, out = self._choice, self._out
        failed = isinstance(record, Assistant) and bool(record.is_api_error_message)
        answers = {id(each.block): each for each in self.answers(record)}
        for block in record.blocks:
            if isinstance(block, CallBlock):
                if choice.tools:
                    yield CallRequest(block.id, block.name, block.input, record.at, record.cwd)
            elif isinstance(block, ResultBlock):
                if choice.tools:
                    yield answers[id(block)]
            elif isinstance(block, ThinkingBlock):
                if choice.thinking and block.thinking.strip():
                    yield Thinking(text=out.text(block.thinking.strip()))
            elif isinstance(block, TextBlock):
                if block.text.strip() and isinstance(record, Assistant):
                    yield Answer(text=out.text(block.text.strip()), is_error=failed)
                elif block.text.strip():
                    yield from self._pieces(block.text, record)
            else:
                yield from self._media(block)

    # -- parts ------------------------------------------------------------------------------

    def _media(self, block: Any) -> Iterator[Block]:
        if isinstance(block, ImageBlock):
            yield self._picture(block)
        elif isinstance(block, DocumentBlock):
            title = self._out.text(block.title) if block.title else ""
            yield Other(kind="document", text=title)
        elif isinstance(block, UnknownBlock) and self._choice.tools:
            yield Other(kind=self._out.text(block.type), text=self._json(block.value))
        elif isinstance(block, RedactedThinkingBlock) and self._choice.thinking:
            yield Thinking(text="(the provider keeps this thought to itself)")

    def _picture(self, block: ImageBlock) -> Picture:
        source = block.source if isinstance(block.source, dict) else {}
        kind, data = source.get("media_type"), source.get("data")
        known = kind in RASTER and isinstance(data, str) and self._choice.images
        return Picture(
            media_type=self._out.text(kind) if isinstance(kind, str) else "image",
            data=data if known else None,
        )

    def _result(self, answer: Answered) -> ToolResult:
        content = answer.block.content
        if isinstance(content, dict):
            text = self._json(content)
        else:
            text = self._out.text(without_colours(answer.block.text))
        parts = content if isinstance(content, tuple) else ()
        images = [self._picture(block) for block in parts if isinstance(block, ImageBlock)]
        named = [block.tool_name for block in parts if isinstance(block, ToolReferenceBlock)]
        if not text and named:
            text = self._out.text(", ".join(named))
        return ToolResult(
            text=text,
            is_error=bool(answer.block.is_error),
            at=answer.at,
            images=images,
            hunks=self._hunks(answer.detail),
        )

    def _hunks(self, detail: Any) -> list[Hunk]:
        """Read the changes that an edit reports."""
        patch = detail.get("structuredPatch") if isinstance(detail, dict) else None
        found = []
        for hunk in patch if isinstance(patch, list) else ():
            lines = hunk.get("lines") if isinstance(hunk, dict) else None
            if isinstance(lines, list):
                # Together: a private key has many lines and is a secret as a whole.
                text = self._out.text("\n".join(str(line) for line in lines))
                old, new = hunk.get("oldStart"), hunk.get("newStart")
                found.append(
                    Hunk(
                        old_start=old if isinstance(old, int) else None,
                        new_start=new if isinstance(new, int) else None,
                        lines=text.split("\n"),
                    )
                )
        return found

    def _json(self, value: Any) -> str:
        safe = self._out.value(value)
        try:
            return json.format(json.encode(safe)).decode()
        except (TypeError, ValueError, OverflowError, RecursionError):
            return self._out.text(str(safe))


def _id(name: str, out: Unmasked) -> str:
    """Return the name of a call; what providers make up is no secret, and needs no look."""
    return name if _CALL_ID.fullmatch(name) else out.text(name)


def _message_in(error: Any) -> str:
    """Find the words of an API's error, however deep they are wrapped."""
    for _ in range(5):
        if not isinstance(error, dict):
            break
        if isinstance(error.get("message"), str):
            return str(error["message"])
        error = error.get("error")
    return error if isinstance(error, str) else ""
