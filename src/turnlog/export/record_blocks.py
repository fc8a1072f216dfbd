"""Convert one record to the parts of a conversation: prompts, answers, calls, results, marks.

Context that the agent program injected for the model, progress and bookkeeping are left out; they
are in the log. A record or block of an unknown kind is shown as JSON.

A prompt in a log is not always what was typed: commands, shell lines and their output, open files
and notifications are text in tags. ``unwrap`` splits it into pieces. Unknown tags stay as they are.
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
from turnlog.records import call_lines
from turnlog.records.meaning import (
    ASIDE_TAGS,
    COMMAND_TAGS,
    NEWS_TAGS,
    OUTPUT_TAGS,
    Author,
    Meaning,
    author_of,
    meaning_of,
)
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
"""Image types that cannot contain scripts."""

_CALL_ID: Final = re.compile(r"(?:toolu|call|srvtoolu)_[A-Za-z0-9]{1,64}")
_TAGS: Final = (*COMMAND_TAGS, "bash-input", *OUTPUT_TAGS, *NEWS_TAGS, *ASIDE_TAGS)
_OPENED: Final = re.compile(rf"<({'|'.join(_TAGS)})>")
_INTERRUPTED: Final = re.compile(r"\[Request interrupted by user[^\[\]]*\]")
_NEWS_PARTS: Final = re.compile(r"<(summary|status)>")
# Color escapes of a command's output, which would be shown as symbols.
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")


class Unmasked:
    """Returns texts unmasked, for showing people their own logs. For exports, use ``Masking``."""

    is_redacted: bool = False

    def text(self, text: str) -> str:
        """Return *text*, safe to output."""
        return text if text.isascii() else str(utf8_safe(text))

    def name(self, name: str) -> str:
        """Return a short, often repeated text, safe to output."""
        return self.text(name)

    def value(self, value: Any) -> Any:
        """Return plain JSON, safe to output."""
        return value


class CallRequest(NamedTuple):
    """A call in a record."""

    id: str
    name: str
    input: Any
    at: datetime | None
    cwd: str | None


class Answered(NamedTuple):
    """A result in a record; *detail* is the tool's structured result."""

    id: str
    block: ResultBlock
    detail: Any
    at: datetime | None
    cwd: str | None


class Blocks:
    """Converts records to blocks; all texts go through *out*."""

    def __init__(
        self, choice: ConversationOptions, out: Unmasked, *, is_subagent: bool = False
    ) -> None:
        self._choice, self._out, self._is_subagent = choice, out, is_subagent

    def of(self, record: Record) -> Iterator[Block | CallRequest | Answered]:
        """Yield the blocks of *record*; the caller pairs calls with results."""
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
            if self._choice.has_tools:
                call_id, name = record.call_id or record.uuid or "", record.name or "?"
                yield CallRequest(call_id, name, record.input, record.at, record.cwd)
        elif isinstance(record, ResultRecord):
            if self._choice.has_tools:
                yield from self.answers(record)
        elif isinstance(record, User | Assistant) and meaning is not Meaning.CONTEXT:
            yield from self._spoken(record)
        elif isinstance(record, Unknown):
            yield Other(kind=self._out.text(record.type), text=self._json(record.fields))

    def answers(self, record: Record) -> Iterator[Answered]:
        """Yield the results in *record*."""
        if isinstance(record, ResultRecord):
            content = record.content if isinstance(record.content, str | dict) else record.text
            block = ResultBlock(record.call_id or "", content, record.is_error)
            yield Answered(block.tool_use_id, block, None, record.at, record.cwd)
        elif isinstance(record, Spoken):
            detail = record.tool_use_result if isinstance(record, User) else None
            for block in record.results:
                yield Answered(block.tool_use_id, block, detail, record.at, record.cwd)

    def call(self, asked: CallRequest | None, answer: Answered | None) -> ToolCall:
        """Return a call with its result; one of them may be missing."""
        out = self._out
        arguments = out.value(asked.input) if asked else None
        cwd = asked.cwd if asked else answer.cwd if answer else None
        cwd = out.name(cwd) if cwd else None
        result = self._result(answer) if answer else None
        words = call_lines.CallText("no result")
        if result is not None and answer is not None:
            plain = ResultBlock("", without_colors(result.text), result.is_error)
            words = call_lines.result_text(plain, answer.detail, cwd)
            if result.images and not result.text:
                words = call_lines.CallText("an image")
        question = call_lines.CallText("the call is not in the log")
        if asked:
            question = call_lines.call_text(arguments, cwd)
        elapsed_ms = None
        if asked and answer and asked.at and answer.at:
            elapsed_ms = max(0, round((answer.at - asked.at).total_seconds() * 1000))
        return ToolCall(
            id=_id(asked.id if asked else answer.id if answer else "", out),
            name=out.name(asked.name) if asked else "?",
            input=arguments,
            asked=" ".join(question.text.split()),
            answered=" ".join(words.text.split()) + words.suffix,
            at=asked.at if asked else answer.at if answer else None,
            elapsed_ms=elapsed_ms,
            result=result,
        )

    def gap(self, gap: Gap) -> Mark:
        """Return the mark for a record whose parent is missing."""
        if gap.reason is GapReason.CYCLE:
            words = "the parents of this record lead back to itself"
        else:
            words = f"the record {gap.named[:8]} before this one is not in the log"
        return Mark(kind=MarkKind.GAP, text=self._out.text(words))

    def _system(self, record: System) -> Iterator[Block]:
        if record.subtype == "compact_boundary":
            yield Mark(
                kind=MarkKind.COMPACTION, text="everything above was summarised", at=record.at
            )
        elif meaning_of(record) is Meaning.ERROR:
            text = record.text or _message_in(record.error) or "the API failed"
            yield Mark(kind=MarkKind.ERROR, text=self._out.text(text), at=record.at)
        elif record.subtype == "local_command":
            yield from self._pieces(record.text, record)

    def _prompt(self, record: User) -> Iterator[Block]:
        yield from self._pieces(record.text, record)
        for block in record.blocks:
            if not isinstance(block, TextBlock):
                yield from self._media(block)

    def _pieces(self, text: str, record: Record) -> Iterator[Block]:
        """Yield what was typed, and what the program added."""
        plain = PromptPieceKind.PROMPT
        if meaning_of(record) is Meaning.NOTICE:
            plain = PromptPieceKind.NOTE
        elif self._is_subagent or author_of(record) is Author.CALLER:
            plain = PromptPieceKind.CALLER
        for piece in unwrap(self._out.text(text)):
            piece.kind = plain if piece.kind is PromptPieceKind.PROMPT else piece.kind
            yield piece

    def _spoken(self, record: User | Assistant) -> Iterator[Block | CallRequest | Answered]:
        choice, out = self._choice, self._out
        failed = isinstance(record, Assistant) and bool(record.is_api_error_message)
        answers = {id(answer.block): answer for answer in self.answers(record)}
        for block in record.blocks:
            if isinstance(block, CallBlock):
                if choice.has_tools:
                    yield CallRequest(block.id, block.name, block.input, record.at, record.cwd)
            elif isinstance(block, ResultBlock):
                if choice.has_tools:
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

    def _media(self, block: Any) -> Iterator[Block]:
        if isinstance(block, ImageBlock):
            yield self._picture(block)
        elif isinstance(block, DocumentBlock):
            title = self._out.text(block.title) if block.title else ""
            yield Other(kind="document", text=title)
        elif isinstance(block, UnknownBlock) and self._choice.has_tools:
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
            text = self._colored(answer.block.text)
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

    def _colored(self, text: str) -> str:
        """Return the text of a result without colors, or with them if nothing in it is masked.

        An escape inside a secret would hide it from the search for secrets.
        """
        plain = without_colors(text)
        safe = self._out.text(plain)
        return text if self._choice.colors and safe == plain else safe

    def _hunks(self, detail: Any) -> list[Hunk]:
        """Return the patch that an edit reports."""
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


def prompt_text(record: Record, out: Unmasked, *, is_subagent: bool = False) -> str:
    """Return the typed prompt in *record*, or all text of a person's record if it has none."""
    blocks = Blocks(ConversationOptions(), out, is_subagent=is_subagent).of(record)
    pieces = [piece for piece in blocks if isinstance(piece, PromptPiece)]
    typed = [piece.text for piece in pieces if piece.is_prompt]
    return "\n\n".join(typed or [piece.text for piece in pieces])


def answer_text(record: Record, out: Unmasked) -> str:
    """Return what the model said in *record*."""
    blocks = Blocks(ConversationOptions(thinking=False, images=False), out).of(record)
    return "\n\n".join(block.text for block in blocks if isinstance(block, Answer))


def _id(name: str, out: Unmasked) -> str:
    """Return the id of a call; generated ids are not secrets and skip masking."""
    return name if _CALL_ID.fullmatch(name) else out.text(name)


def _message_in(error: Any) -> str:
    """Return the message of an API error, however deeply nested."""
    for _ in range(5):
        if not isinstance(error, dict):
            break
        if isinstance(error.get("message"), str):
            return str(error["message"])
        error = error.get("error")
    return error if isinstance(error, str) else ""


def without_colors(text: str) -> str:
    """Remove color escapes from *text*."""
    return _COLORS.sub("", text) if "\x1b" in text else text


def unwrap(text: str) -> list[PromptPiece]:
    """Split *text* into what was typed and what the program added."""
    return [piece for piece in _joined(_pieces(text)) if piece.text]


class _Element(NamedTuple):
    tag: str
    inner: str
    start: int
    end: int


def _elements(opened: re.Pattern[str], text: str) -> Iterator[_Element]:
    """Yield the tagged parts of *text*.

    A tag that is never closed is text. Its end is searched once: the text may be full of them.
    """
    end = 0
    unclosed: set[str] = set()
    for found in opened.finditer(text):
        tag = found[1]
        if found.start() < end or tag in unclosed:
            continue
        close = text.find(f"</{tag}>", found.end())
        if close < 0:
            unclosed.add(tag)
            continue
        end = close + len(f"</{tag}>")
        yield _Element(tag, text[found.end() : close], found.start(), end)


def _pieces(text: str) -> Iterator[PromptPiece]:
    end = 0
    for found in _elements(_OPENED, text):
        yield from _plain(text[end : found.start])
        yield _piece(found.tag, found.inner.strip())
        end = found.end
    yield from _plain(text[end:])


def _plain(text: str) -> Iterator[PromptPiece]:
    end = 0
    for found in _INTERRUPTED.finditer(text):
        yield _typed(text[end : found.start()].strip())
        yield PromptPiece(kind=PromptPieceKind.INTERRUPTED, text=found[0].strip("[]"))
        end = found.end()
    yield _typed(text[end:].strip("\n").rstrip())


def _typed(text: str) -> PromptPiece:
    return PromptPiece(kind=PromptPieceKind.PROMPT, text=text)


def _piece(tag: str, inner: str) -> PromptPiece:
    match tag:
        case "command-name":
            return PromptPiece(kind=PromptPieceKind.COMMAND, text=inner)
        case "command-args":
            # The blank marks it as arguments of the command before it.
            return PromptPiece(kind=PromptPieceKind.COMMAND, text=f" {inner}" if inner else "")
        case "command-message" | "command-contents" | "local-command-caveat":
            return PromptPiece(
                kind=PromptPieceKind.NOTE, text=""
            )  # A repetition of the command, or a note to the model.
        case "bash-input":
            return PromptPiece(kind=PromptPieceKind.COMMAND, text=f"! {inner}")
        case "task-notification":
            parts = {found.tag: found.inner for found in _elements(_NEWS_PARTS, inner)}
            return PromptPiece(
                kind=PromptPieceKind.NOTE, text=parts.get("summary") or parts.get("status") or inner
            )
        case _ if tag.endswith(("stdout", "stderr")):
            return PromptPiece(kind=PromptPieceKind.OUTPUT, text=without_colors(inner))
    return PromptPiece(kind=PromptPieceKind.NOTE, text=inner)


def _joined(pieces: Iterator[PromptPiece]) -> Iterator[PromptPiece]:
    """Join commands with their arguments."""
    name: str | None = None
    for piece in pieces:
        if piece.kind is PromptPieceKind.COMMAND and piece.text.startswith(" "):
            yield PromptPiece(kind=PromptPieceKind.COMMAND, text=(name or "") + piece.text)
            name = None
        elif piece.kind is PromptPieceKind.COMMAND and piece.text.startswith("!"):
            yield piece
        elif piece.kind is PromptPieceKind.COMMAND and piece.text:
            if name is not None:
                yield PromptPiece(kind=PromptPieceKind.COMMAND, text=name)
            name = piece.text
        elif piece.text.strip():
            if name is not None:
                yield PromptPiece(kind=PromptPieceKind.COMMAND, text=name)
                name = None
            yield piece
    if name is not None:
        yield PromptPiece(kind=PromptPieceKind.COMMAND, text=name)
