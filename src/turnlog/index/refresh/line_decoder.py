"""Decode one line of a log for the index.

Nearly all lines are responses and tool results in Claude Code's dialect, and nearly all their bytes
are repeated outside the message. These lines, and the notes between them, are decoded without the
repeated parts, several times as fast. All others (prompts, titles, other dialects, odd shapes) are
decoded in full. Both ways give the same facts, and a test compares them.
"""

# Without postponed annotations, which msgspec would have to evaluate at every start.

from collections.abc import Collection, Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from turnlog.index.texts import Text, TextKind, leaves, texts_of
from turnlog.records.dialects import Dialect
from turnlog.records.meaning import Author, Meaning, author_of, is_in_subagent, meaning_of
from turnlog.records.record import (
    AnyBlock,
    Assistant,
    Call,
    CallBlock,
    FileHistory,
    KnownBlock,
    Linked,
    Record,
    Result,
    ResultBlock,
    Spoken,
)
from turnlog.records.record_types import STATE_TYPES
from turnlog.records.usage_entries import UsageLine, UsageMessage

IS_ERROR: Final = 1
OF_SUBAGENT: Final = 2
SLIPPED_IN: Final = 4

# The argument of a call that names a file, and what the call does with it.
_FILES: Final = {
    "Read": ("file_path", "read"),
    "NotebookRead": ("notebook_path", "read"),
    "Edit": ("file_path", "edit"),
    "MultiEdit": ("file_path", "edit"),
    "NotebookEdit": ("notebook_path", "edit"),
    "Write": ("file_path", "write"),
    "Grep": ("path", "search"),
    "Glob": ("path", "search"),
    "LS": ("path", "search"),
}
# Notes of the agent program between messages.
_NOTES: Final = frozenset({"attachment", "queue-operation", "system"})
# Marks of which only type and time are indexed, however large they are.
_MARKS: Final = frozenset(
    {
        "bridge-session",
        "file-history-delta",
        "file-history-snapshot",
        "mode",
        "permission-mode",
        "pr-link",
    }
)

_DIGEST_BYTES: Final = 8
_SIGNATURE_CHARACTERS: Final = 100


class MessageContent(UsageMessage, gc=False):
    content: str | tuple[KnownBlock, ...] | None = None


class _Reported(Struct, gc=False, rename="camel"):
    """What a tool reported in addition to its result."""

    agent_id: Any = None


class LineFields(UsageLine, gc=False, rename="camel"):
    """A line of Claude Code, without repeated parts."""

    message: MessageContent | None = None
    parent_uuid: str | None = None
    git_branch: str | None = None
    version: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    tool_use_result: _Reported | list[Raw] | str | float | bool | None = None
    attachment: Any = None
    content: Any = None
    subtype: str | None = None
    parent_call_id: str | None = field(default=None, name="parentToolUseID")


class CallFacts(Struct, gc=False):
    """A call of a tool."""

    block: int
    call_id: str | None
    tool: str
    digest: bytes
    path: str | None
    action: str


class ResultFacts(Struct, gc=False):
    """The result of a call."""

    call_id: str
    is_error: bool
    signature: bytes | None
    duration_us: int | None


class RecordFacts(Struct, gc=False):
    """What the index stores of a record."""

    type: str
    author: Author
    uuid: str | None
    parent: str | None
    at: datetime | None
    model: str | None
    branch: str | None
    message: str | None
    flags: int
    texts: list[Text]
    calls: list[CallFacts]
    results: list[ResultFacts]
    session: str | None = None
    """The session that it names."""
    is_copy: bool = False
    origin: str | None = None
    """The uuid of the record that it is a copy of."""


_decode_line = msgspec.json.Decoder(LineFields).decode
_from_json = msgspec.json.Decoder().decode


def fast_line(data: bytes) -> LineFields | None:
    """Decode *data* fast; None if it needs to be decoded in full."""
    try:
        line = _decode_line(data)
    except (ValueError, RecursionError):
        return None
    return _usual(line)


def fast_line_in(data: bytes, dialect: Dialect) -> LineFields | None:
    """Decode *data*, a line of another dialect, fast; None if it needs to be decoded in full."""
    try:
        fields = _from_json(data)
        if not isinstance(fields, dict) or not dialect.recognises(fields):
            return None
        line = msgspec.convert(dialect.to_house(fields), LineFields)
    except (ValueError, TypeError, RecursionError):
        return None
    return line if line.type in STATE_TYPES else _usual(line)


def _usual(line: LineFields) -> LineFields | None:
    """Return a line of which only these fields are indexed; None if it is another one."""
    if line.type == "progress":
        return line if line.data is not None else None
    if line.message is None:
        if line.type in _NOTES:
            return line
        return _without_place(line) if line.type in _MARKS else None
    content = line.message.content
    if type(content) is not tuple:
        return None
    if line.type == "assistant":
        return None if ResultBlock in map(type, content) else line
    if line.type != "user" or line.is_compact_summary is True:
        return None
    shapes = [*map(type, content)]
    return line if ResultBlock in shapes and CallBlock not in shapes else None


def _without_place(mark: LineFields) -> LineFields:
    """Clear the place of a mark, which its record does not have either."""
    mark.parent_uuid = mark.cwd = mark.git_branch = mark.version = mark.agent_id = None
    mark.is_sidechain = None
    return mark


def noted(line: LineFields) -> tuple[Text | None, int]:
    """Return the text of a note of the agent program, and its flags."""
    match line.type:
        case "progress":
            return None, SLIPPED_IN
        case "attachment":
            kind, text, flags = TextKind.CONTEXT, leaves(line.attachment), SLIPPED_IN
        case "queue-operation":
            kind, text, flags = TextKind.NOTE, leaves(line.content), 0
        case "system":
            kind, text = TextKind.NOTE, line.content if isinstance(line.content, str) else ""
            flags = IS_ERROR if line.subtype == "api_error" else SLIPPED_IN
        case _:
            return None, 0
    return Text(kind, text) if text else None, flags


def names_subagent(line: LineFields) -> bool:
    """Return whether a tool result names a subagent."""
    reported = line.tool_use_result
    return isinstance(reported, _Reported) and reported.agent_id is not None


def answers(line: LineFields, calls: Collection[str]) -> bool:
    """Return whether a line has the result of one of *calls*."""
    content = line.message.content if line.message is not None else None
    blocks = content if calls and isinstance(content, tuple) else ()
    return any(type(block) is ResultBlock and block.tool_use_id in calls for block in blocks)


def facts_of(record: Record) -> RecordFacts:
    """Return what the index stores of *record*."""
    author = author_of(record)
    meaning = meaning_of(record, author)
    linked = record if isinstance(record, Linked) else None
    calls, results = _calls_of(record)
    is_error = meaning is Meaning.ERROR or any(result.is_error for result in results)
    response = record if isinstance(record, Assistant) else None
    copied = linked.forked_from if linked else None
    origin = copied.get("messageUuid") if isinstance(copied, dict) else None
    return RecordFacts(
        record.type,
        author,
        record.uuid,
        linked.parent_uuid if linked else None,
        record.at,
        response.model if response else None,
        linked.git_branch if linked else None,
        response.message.id if response and response.message else None,
        (IS_ERROR if is_error else 0)
        | (OF_SUBAGENT if is_in_subagent(record) else 0)
        | (SLIPPED_IN if meaning is Meaning.CONTEXT else 0),
        texts_of(record),
        calls,
        results,
        record.session_id,
        copied is not None,
        origin if isinstance(origin, str) else None,
    )


def _calls_of(record: Record) -> tuple[list[CallFacts], list[ResultFacts]]:
    match record:
        case Call():
            return [_call(0, record.call_id, record.name or "", record.input)], []
        case Result(call_id=str(call_id)):
            text, failed = record.text, record.is_error is True
            duration = record.duration_ms
            took = int(duration * 1000) if duration is not None and 0 <= duration < 1e12 else None
            return [], [ResultFacts(call_id, failed, signature_of(text) if failed else None, took)]
        case FileHistory(path=str(path)):
            tool = record.operation or "edit"
            digest = _digest(path.encode(errors="replace"))
            return [CallFacts(0, None, f"file-{tool}", digest, path, "edit")], []
        case Spoken():
            return _calls(record.blocks), _results(record.blocks)
    return [], []


def _calls(blocks: Iterable[AnyBlock]) -> list[CallFacts]:
    return [
        _call(number, block.id, block.name, block.input)
        for number, block in enumerate(blocks)
        if type(block) is CallBlock
    ]


def _call(number: int, call_id: str | None, tool: str, given: Any) -> CallFacts:
    path, action = touched(tool, given)
    return CallFacts(number, call_id, tool, digest_of(given), path, action)


def touched(tool: str, given: Any) -> tuple[str | None, str]:
    """Return the file that a call names, and what it does with it."""
    argument = _FILES.get(tool)
    if argument is not None and isinstance(given, dict):
        value = given.get(argument[0])
        if isinstance(value, str) and value:
            return value, argument[1]
    return None, ""


def digest_of(given: Any) -> bytes:
    """Return the digest of a call's input."""
    return _digest(_as_json(given))


def _results(blocks: Iterable[AnyBlock]) -> list[ResultFacts]:
    return [
        ResultFacts(block.tool_use_id, True, signature_of(block.text), None)
        if block.is_error is True
        else ResultFacts(block.tool_use_id, False, None, None)
        for block in blocks
        if type(block) is ResultBlock
    ]


def _as_json(given: Any) -> bytes:
    try:
        return msgspec.json.encode(given)
    except (ValueError, TypeError, RecursionError):  # A lone surrogate, or absurd depth.
        return repr(given).encode(errors="surrogatepass")


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def signature_of(text: str) -> bytes:
    """Return a digest of how an error begins, without digits and spaces, which often differ."""
    head = text[: _SIGNATURE_CHARACTERS * 2].lower()
    plain = "".join("0" if each.isdigit() else each for each in head)
    while "00" in plain:
        plain = plain.replace("00", "0")
    words = " ".join(plain.split())[:_SIGNATURE_CHARACTERS]
    return _digest(words.encode(errors="surrogatepass"))
