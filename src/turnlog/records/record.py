"""Typed, immutable records: the meaning of one line of a log.

A record keeps ``raw``, the bytes it was decoded from, and encoding it returns those bytes, so
nothing this version does not understand is lost. Every field except the type is optional, because
real logs omit each of them somewhere. ``odd`` names fields with an unexpected shape, which were
left out; ``fields`` is the whole line as plain JSON, with unknown keys.

Names in lines are Claude Code's (camelCase). Records of other dialects become the same types, see
``dialects``. A record does not know its log.

A message consists of blocks. Unknown kinds become UnknownBlock, which keeps the value. Free-form
JSON (a tool's input, an image's source) is plain dicts and lists. Treat them as read-only: changing
them does not change the record's bytes.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

from collections.abc import Iterable
from datetime import datetime
from typing import Any, get_args

from msgspec import Struct, field

from turnlog.records.dates import instant
from turnlog.records.lenient_json import loads
from turnlog.records.usage import Usage


class TextBlock(Struct, frozen=True, tag="text"):
    """Text."""

    text: str
    citations: Any = None


class ThinkingBlock(Struct, frozen=True, tag="thinking"):
    """The model's thinking before it answered."""

    thinking: str = ""
    signature: str | None = None


class RedactedThinkingBlock(Struct, frozen=True, tag="redacted_thinking"):
    data: str = ""


class CallBlock(Struct, frozen=True, tag="tool_use"):
    """A tool call."""

    id: str
    name: str
    input: Any = None
    caller: Any = None


class ResultBlock(Struct, frozen=True, tag="tool_result"):
    """A tool result."""

    tool_use_id: str
    content: "str | tuple[KnownBlock, ...] | dict[str, Any] | None" = None
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The readable text of the result."""
        if isinstance(self.content, str):
            return self.content
        return text_of(self.content) if isinstance(self.content, tuple) else ""


class ImageBlock(Struct, frozen=True, tag="image"):
    source: Any = None


class DocumentBlock(Struct, frozen=True, tag="document"):
    source: Any = None
    title: str | None = None


class ToolReferenceBlock(Struct, frozen=True, tag="tool_reference"):
    tool_name: str = ""


class UnknownBlock(Struct, frozen=True):
    """A block of a kind or shape that this version does not know."""

    type: str
    value: Any


KnownBlock = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | CallBlock
    | ResultBlock
    | ImageBlock
    | DocumentBlock
    | ToolReferenceBlock
)
AnyBlock = KnownBlock | UnknownBlock
"""UnknownBlock has no tag: only the lenient decoder builds it."""

BLOCK_BY_TYPE: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(KnownBlock)
}


def text_of(blocks: Iterable[Any]) -> str:
    """Join the visible text of *blocks*, without thinking, calls and results."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def text_in(content: Any) -> str:
    """Return the readable text of *content* as JSON: a string, or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


# No string annotations here: msgspec would have to evaluate them at every start.


class Message(Struct, frozen=True):
    """One API message, or the part of it in this record."""

    role: str | None = None
    content: str | tuple[KnownBlock, ...] | None = None
    id: str | None = None
    type: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The content blocks; plain text counts as one text block."""
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return self.content or ()

    @property
    def text(self) -> str:
        """The readable text, without thinking, calls and results."""
        return self.content if isinstance(self.content, str) else text_of(self.content or ())


class Record(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """One line of a log; *raw* is its bytes, *odd* names fields of an unexpected shape."""

    # These three describe the decoding, not the line. Their wire names are never used: a line that
    # has them is decoded leniently, which ignores them.
    raw: bytes = field(default=b"", name="(raw)")
    dialect: str = field(default="claude", name="(dialect)")
    odd: tuple[str, ...] = field(default=(), name="(odd)")

    uuid: str | None = None
    session_id: str | None = None
    timestamp: str | int | float | None = None

    @property
    def type(self) -> str:
        """The record's type as spelled in the log."""
        return str(self.__struct_config__.tag)

    @property
    def at(self) -> datetime | None:
        """When it was written, in UTC; None if the line has no timestamp."""
        return instant(self.timestamp)

    @property
    def text(self) -> str:
        """The readable text; empty if the record has none."""
        return ""

    @property
    def fields(self) -> dict[str, Any]:
        """The whole line as plain JSON, decoded again at each call."""
        value = loads(self.raw) if self.raw else None
        return value if isinstance(value, dict) else {}


class Linked(Record, frozen=True, kw_only=True):
    """A record that is part of a session's tree."""

    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    cwd: str | None = None
    version: str | None = None
    git_branch: str | None = None
    is_sidechain: bool = False
    user_type: str | None = None
    agent_id: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    is_meta: bool | None = None
    team_name: str | None = None
    agent_name: str | None = None
    forked_from: Any = None


class Spoken(Linked, frozen=True, kw_only=True):
    """A record with a message."""

    message: Message | None = None

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The blocks of its message: text, thinking, calls, results, images."""
        return self.message.blocks if self.message else ()

    @property
    def text(self) -> str:
        """The readable text, without thinking, calls and results."""
        return self.message.text if self.message else ""

    @property
    def calls(self) -> tuple[CallBlock, ...]:
        """Its tool calls."""
        return tuple(block for block in self.blocks if isinstance(block, CallBlock))

    @property
    def results(self) -> tuple[ResultBlock, ...]:
        """Its tool results."""
        return tuple(block for block in self.blocks if isinstance(block, ResultBlock))


class User(Spoken, frozen=True, kw_only=True, tag="user"):
    """A human's prompt, a tool's result, or text injected in the human's name."""

    tool_use_result: Any = None
    """The tool's structured result: an object, a string or an array."""
    source_tool_assistant_uuid: str | None = field(default=None, name="sourceToolAssistantUUID")
    source_tool_use_id: str | None = field(default=None, name="sourceToolUseID")
    prompt_id: str | None = None
    prompt_source: str | None = None
    permission_mode: str | None = None
    thinking_metadata: Any = None
    todos: Any = None
    origin: Any = None
    plan_content: str | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    interrupted_message_id: str | None = None
    metadata: Any = None


class Assistant(Spoken, frozen=True, kw_only=True, tag="assistant"):
    """Part of an API response, usually one block; records of a response share message.id."""

    request_id: str | None = None
    is_api_error_message: bool | None = None
    error: Any = None
    effort: str | None = None
    cost_usd: float | None = field(default=None, name="costUSD")
    duration_ms: float | None = None

    @property
    def usage(self) -> Usage | None:
        """The tokens of the whole response, as known when this record was written."""
        return self.message.usage if self.message else None

    @property
    def model(self) -> str | None:
        """The model that answered."""
        return self.message.model if self.message else None


SAID = (User, Assistant)
"""Records of people and models. A tuple: a union would be built for every record."""


class System(Spoken, frozen=True, kw_only=True, tag="system"):
    """A note of the agent program; *subtype* is its kind."""

    subtype: str | None = None
    content: Any = None
    level: str | None = None
    # api_error
    error: Any = None
    cause: Any = None
    retry_in_ms: float | None = None
    retry_attempt: int | None = None
    max_retries: int | None = None
    # compact_boundary, microcompact_boundary
    compact_metadata: Any = None
    microcompact_metadata: Any = None
    # stop_hook_summary
    tool_use_id: str | None = field(default=None, name="toolUseID")
    hook_count: int | None = None
    hook_infos: Any = None
    hook_errors: Any = None
    hook_additional_context: Any = None
    prevented_continuation: bool | None = None
    stop_reason: str | None = None
    has_output: bool | None = None
    # turn_duration
    duration_ms: float | None = None
    message_count: int | None = None
    # bridge_status
    url: str | None = None

    @property
    def text(self) -> str:
        """The text of the note."""
        if isinstance(self.content, str):
            return self.content
        return self.message.text if self.message else ""


class Attachment(Linked, frozen=True, kw_only=True, tag="attachment"):
    """Context injected by the agent program: hook output, reminders, files."""

    attachment: Any = None

    @property
    def kind(self) -> str | None:
        """The kind of context."""
        return _text_at(self.attachment, "type")


class Progress(Linked, frozen=True, kw_only=True, tag="progress"):
    """Progress of a running tool, hook or agent."""

    data: Any = None
    tool_use_id: str | None = field(default=None, name="toolUseID")
    parent_tool_use_id: str | None = field(default=None, name="parentToolUseID")

    @property
    def kind(self) -> str | None:
        """The kind of progress."""
        return _text_at(self.data, "type")


class Call(Linked, frozen=True, kw_only=True, tag="tool_use"):
    """A call as a separate record (orchestrator's ``tool_call``, flat store's ``tool_use``)."""

    call_id: str | None = field(default=None, name="id")
    name: str | None = None
    input: Any = None

    @property
    def type(self) -> str:
        """The type as its dialect spells it."""
        return "tool_call" if self.dialect == "orchestrator" else "tool_use"


class Result(Spoken, frozen=True, kw_only=True, tag="tool_result"):
    """A result as a separate record (orchestrator's and flat store's ``tool_result``)."""

    call_id: str | None = field(default=None, name="tool_use_id")
    name: str | None = field(default=None, name="tool")
    content: Any = None
    is_error: bool | None = field(default=None, name="is_error")
    duration_ms: float | None = field(default=None, name="duration_ms")

    @property
    def text(self) -> str:
        """The text of the result."""
        return self.content if isinstance(self.content, str) else super().text


class SystemInit(Linked, frozen=True, kw_only=True, tag="system_init"):
    """The first record of a flat log: its directory and model."""

    model: str | None = None


class Summary(Linked, frozen=True, kw_only=True, tag="summary"):
    """A summary; *leaf_uuid* is in the current shape, *content* in the older one."""

    summary: str | None = None
    leaf_uuid: str | None = None
    content: Any = None

    @property
    def text(self) -> str:
        """The text of the summary."""
        return self.summary or _text_at(self.content, "summary") or ""


class QueueOperation(Linked, frozen=True, kw_only=True, tag="queue-operation"):
    """A prompt entered or left the queue: enqueue, dequeue, remove, popAll."""

    operation: str | None = None
    content: Any = None


class FileHistory(Linked, frozen=True, kw_only=True, tag="file-history"):
    """A file was created, edited or deleted."""

    path: str | None = None
    operation: str | None = None
    snippet: str | None = None


class FileHistorySnapshot(Record, frozen=True, kw_only=True, tag="file-history-snapshot"):
    """The file versions that belong to a message, for rewinding."""

    message_id: str | None = None
    snapshot: Any = None
    is_snapshot_update: bool | None = None


class FileHistoryDelta(Record, frozen=True, kw_only=True, tag="file-history-delta"):
    """One more file version since a snapshot."""

    message_id: str | None = None
    snapshot_message_id: str | None = None
    tracking_path: str | None = None
    backup: Any = None


class Unknown(Linked, frozen=True, kw_only=True):
    """A record of an unknown type. Nothing of it is lost; see ``fields``."""

    wire_type: str = field(default="", name="(type)")

    @property
    def type(self) -> str:
        """The unknown type."""
        return self.wire_type


def _text_at(value: Any, key: str) -> str | None:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
