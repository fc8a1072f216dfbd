"""Chat messages, as agent programs use them.

    ChatMessage(role="user", content="Hello")
    ChatMessage.response("Let me look.", calls=[build.call("Read", {"file_path": "a.py"})])

A message is one record of a log. Its content is text, or blocks as in the API: text, thinking,
calls, results and future kinds. ``extra`` contains the other fields of the record. Converting a
message to a record and back, or a record to a message and back, loses nothing. ``metadata``
belongs to the caller.

How the fields of a chat message are spelled in a record, and how they are read back.

A slot is one such field: its key on the wire, its name in the message, and both directions. A
value that its slot would spell otherwise (a time without milliseconds, a null, a number where text
should be) stays beside the others in its own spelling, and goes back as it came for as long as it
still means what the message says. So a record loses nothing by becoming a message. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, Self, get_args
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import force_setattr

from turnlog.errors import UsageError
from turnlog.records.codec import build, encode
from turnlog.records.dates import instant, iso
from turnlog.records.dialects import BY_NAME
from turnlog.records.lenient_json import loads
from turnlog.records.record import (
    AnyBlock,
    CallBlock,
    Message,
    Record,
    ResultBlock,
    ThinkingBlock,
    text_of,
)
from turnlog.sessions.writing import build as built

Fields = dict[str, Any]
Value = Callable[[str], Any]


class Slot(NamedTuple):
    """A field of a message. None is not written."""

    key: str
    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def split_fields(fields: Mapping[str, Any], slots: Sequence[Slot]) -> tuple[Fields, Fields]:
    """Return the values that the slots read from *fields*, and the remaining fields."""
    found: Fields = {}
    rest = dict(fields)
    for slot in slots:
        if slot.key in rest:
            found[slot.name] = slot.read(rest[slot.key])
            if _is_spelled(slot, found[slot.name], rest[slot.key]):
                del rest[slot.key]
    return found, rest


def join_fields(rest: Mapping[str, Any], slots: Sequence[Slot], value: Value) -> Fields:
    """Return the fields of *value* that the slots write, and the *rest*."""
    fields = dict(rest)
    for slot in slots:
        said = value(slot.name)
        if slot.key in rest and slot.read(rest[slot.key]) == said:
            continue
        fields.pop(slot.key, None)
        written = slot.write(said)
        if written is not None:
            fields[slot.key] = written
    return fields


def tidy(rest: Mapping[str, Any], slots: Sequence[Slot], value: Value) -> Fields:
    """Return *rest* without fields that the message has itself."""
    kept = dict(rest)
    for slot in slots:
        if slot.key in kept:
            said = value(slot.name)
            spelling = kept[slot.key]
            if slot.read(spelling) != said or _is_spelled(slot, said, spelling):
                del kept[slot.key]
    return kept


def content_slot(role: str) -> Slot:
    """Return the slot of the content, which is a list of blocks for assistant messages."""
    if role == "assistant":
        return Slot("content", "content", plain_content, _as_blocks)
    if role == "system":
        return Slot("content", "content", read_content, lambda said: None if said == [] else said)
    return Slot("content", "content", read_content, _same)


def read_content(value: Any) -> Any:
    """Return text or blocks; anything else is no content."""
    if isinstance(value, str):
        return value
    is_blocks = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    return value if is_blocks else []


def plain_content(value: Any) -> Any:
    """Return text or blocks; a single plain text block becomes its text."""
    found = read_content(value)
    if isinstance(found, list) and len(found) == 1:
        text = found[0].get("text")
        if isinstance(text, str) and found == _as_blocks(text):
            return text
    return found


def _as_blocks(said: Any) -> Any:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _is_spelled(slot: Slot, said: Any, spelling: Any) -> bool:
    written = slot.write(said)
    return written is not None and bool(written == spelling)


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: Any) -> Fields | None:
    return value if isinstance(value, dict) else None


def _filled(value: Any) -> Fields:
    return value if isinstance(value, dict) else {}


def _written_at(at: datetime | None) -> str | None:
    if at is None or at.microsecond % 1000 == 0:
        return None if at is None else iso(at)
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


RECORD_SLOTS: Final = (
    Slot("uuid", "id", _name, _same),
    Slot("parentUuid", "parent_id", _text, _same),
    Slot("sessionId", "session_id", _text, _same),
    Slot("agentId", "agent_id", _text, _same),
    Slot("requestId", "request_id", _text, _same),
    Slot("timestamp", "timestamp", instant, _written_at),
    Slot("metadata", "metadata", _filled, lambda said: said or None),
)
MESSAGE_SLOTS: Final = (
    Slot("id", "response_id", _text, _same),
    Slot("model", "model", _text, _same),
    Slot("stop_reason", "stop_reason", _text, _same),
    Slot("usage", "usage", _object, _same),
)


Role = Literal["user", "assistant", "system"]
ROLES: Final = get_args(Role)

_TEXTS: Final = (
    "parent_id",
    "session_id",
    "agent_id",
    "request_id",
    "response_id",
    "model",
    "stop_reason",
)
_OF_MODELS: Final = tuple(slot.name for slot in MESSAGE_SLOTS)


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    role: Role
    content: str | Sequence[Mapping[str, Any]]
    """Text or blocks; a single plain text block of a model becomes its text."""
    id: str = field(default_factory=lambda: str(uuid4()))
    """The uuid of the record. Logging an id twice is harmless."""
    parent_id: str | None = None
    """The uuid of the previous record; set it to follow an earlier message."""
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: datetime | None = None
    """The timestamp in UTC; None until it is logged."""
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    """The usage of the response, as in the API."""
    stop_reason: str | None = None
    response_id: str | None = None
    """The response id of the API, shared by all parts of a response."""
    request_id: str | None = None
    metadata: Mapping[str, Any] = {}
    """Data of the caller."""
    extra: Mapping[str, Any] = {}
    """Other fields of the record: cwd, gitBranch, isSidechain, toolUseResult …"""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UsageError(
                f"unknown role {str(self.role)[:40]!r}",
                hint=f"use one of {', '.join(ROLES)}; tool results have the role user",
            )
        force_setattr(self, "content", _checked_content(self.role, self.content))
        _check(self)
        if self.timestamp is not None:
            force_setattr(self, "timestamp", self.timestamp.astimezone(UTC))
        force_setattr(self, "extra", _tidied(self))

    @classmethod
    def prompt(cls, text: str, **more: Any) -> Self:
        """Return a user message."""
        return cls(role="user", content=text, **more)

    @classmethod
    def response(
        cls,
        text: str = "",
        *,
        thinking: str | None = None,
        calls: Iterable[Mapping[str, Any]] = (),
        **more: Any,
    ) -> Self:
        """Return an assistant message; `turnlog.build.call` makes a call."""
        blocks = [built.thinking(thinking)] if thinking is not None else []
        blocks += [built.text(text)] if text else []
        return cls(role="assistant", content=[*blocks, *calls], **more)

    @classmethod
    def result(cls, call_id: str, content: Any, *, failed: bool = False, **more: Any) -> Self:
        """Return a tool result."""
        said = built.result(call_id, content, failed=failed)
        return cls(role="user", content=said["message"]["content"], **more)

    @classmethod
    def from_record(cls, record: Record | Mapping[str, Any]) -> Self:
        """Return the message of *record*, or of the fields of one."""
        fields = _fields_of(record)
        role = fields.pop("type", None)
        if role not in ROLES:
            raise UsageError(
                f"a record of type {str(role)[:40]!r} is no chat message",
                hint=f"records of type {', '.join(ROLES)} are",
            )
        found, rest = split_fields(fields, RECORD_SLOTS)
        message = rest.get("message")
        if role == "system" and ("content" in rest or not isinstance(message, dict)):
            more, rest = split_fields(rest, (content_slot(role),))
            if isinstance(message, dict):
                rest["content"] = fields["content"]
        elif isinstance(message, dict):
            more, rest["message"] = split_fields(message, _message_slots(role))
        else:
            more = {}
        if found.get("id") is None:
            found.pop("id", None)
        said: Fields = {"content": []} | found | more
        return cls(role=role, extra=rest, **said)

    def to_record(self) -> Fields:
        """Return the fields of the message's record."""
        rest = dict(self.extra)
        if _is_bare(self.role, self.extra):
            bare = (*RECORD_SLOTS, content_slot(self.role))
            return {"type": self.role, **join_fields(rest, bare, self._said)}
        message = rest.pop("message", None)
        if isinstance(message, dict) or message is None or not _is_silent(self):
            inner = message if isinstance(message, dict) else {}
            slots = _message_slots(self.role)
            message = {"role": self.role, **join_fields(inner, slots, self._said)}
        placed = join_fields(rest, RECORD_SLOTS, self._said)
        return {"type": self.role, "message": message, **placed}

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The content as typed blocks."""
        said = self.content if isinstance(self.content, str) else list(self.content)
        return build(Message, {"content": said})[0].blocks

    @property
    def text(self) -> str:
        """The text, without thinking, calls and results."""
        return self.content if isinstance(self.content, str) else text_of(self.blocks)

    @property
    def thinking(self) -> str:
        """The thinking of the model."""
        thought = (each.thinking for each in self.blocks if isinstance(each, ThinkingBlock))
        return "\n".join(thought)

    @property
    def calls(self) -> tuple[CallBlock, ...]:
        """The tool calls."""
        return tuple(each for each in self.blocks if isinstance(each, CallBlock))

    @property
    def results(self) -> tuple[ResultBlock, ...]:
        """The tool results."""
        return tuple(each for each in self.blocks if isinstance(each, ResultBlock))

    def _said(self, name: str) -> Any:
        return getattr(self, name)


def _message_slots(role: str) -> tuple[Slot, ...]:
    return (*MESSAGE_SLOTS, content_slot(role))


def _fields_of(record: Record | Mapping[str, Any]) -> Fields:
    """Return the fields of a record in Claude Code's dialect."""
    if not isinstance(record, Record):
        return dict(record)
    fields: Fields = record.fields or loads(encode(record))
    return fields if record.dialect == "claude" else dict(BY_NAME[record.dialect].to_house(fields))


def _is_bare(role: str, extra: Mapping[str, Any]) -> bool:
    """Return True if the content is in the record itself, not in a message."""
    in_message = isinstance(extra.get("message"), dict) and "content" not in extra
    return role == "system" and not in_message


def _is_silent(message: ChatMessage) -> bool:
    """Return True if no field needs a message."""
    said = any(getattr(message, name) is not None for name in _OF_MODELS)
    return message.content == [] and not said


def _checked_content(role: str, content: Any) -> Any:
    if isinstance(content, str):
        return content
    is_blocks = isinstance(content, Sequence) and not isinstance(content, bytes | bytearray)
    if not is_blocks or not all(isinstance(each, Mapping) for each in content):
        raise UsageError(
            f"a {type(content).__name__} is not what a message can say",
            hint='give text, or a list of blocks such as {"type": "text", "text": "…"}',
        )
    blocks = [dict(each) for each in content]
    return plain_content(blocks) if role == "assistant" else blocks


def _check(message: ChatMessage) -> None:
    """Raise UsageError for invalid fields."""
    if not isinstance(message.id, str) or not message.id:
        raise UsageError("a message's id is text", hint="leave it out to get a new one")
    for name in _TEXTS:
        value = getattr(message, name)
        if value is not None and not isinstance(value, str):
            raise UsageError(
                f"{name} is a {type(value).__name__}", hint="give text, or leave it out"
            )
    for name in ("usage", "metadata", "extra"):
        value = getattr(message, name)
        if isinstance(value, Mapping):
            force_setattr(message, name, dict(value))
        elif value is not None or name != "usage":
            raise UsageError(f"{name} is a {type(value).__name__}", hint="give a dict")
    at = message.timestamp
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise UsageError(
            "a message's timestamp is an aware datetime",
            hint="such as datetime.now(UTC); leave it out to have it set when it is logged",
        )
    if _is_bare(message.role, message.extra) and any(
        getattr(message, name) is not None for name in _OF_MODELS
    ):
        raise UsageError(
            "a system's message comes from no model",
            hint=f"{', '.join(_OF_MODELS)} belong to an assistant's message",
        )


def _tidied(message: ChatMessage) -> Fields:
    """Return the extra fields without those that the message has itself."""
    said = message._said  # noqa: SLF001
    extra = tidy({k: v for k, v in message.extra.items() if k != "type"}, RECORD_SLOTS, said)
    inner = extra.get("message")
    if _is_bare(message.role, message.extra):
        slot = content_slot(message.role)
        extra = tidy(extra, (slot,), said)
        if isinstance(inner, dict):  # It would be taken for the place of the content.
            extra.setdefault("content", slot.write(message.content))
        return extra
    if isinstance(inner, dict):
        inner = tidy(inner, _message_slots(message.role), said)
        if message.role == "system":
            inner = {"role": "system"} | inner  # This says where its content stands.
        elif inner.get("role") == message.role:
            del inner["role"]
        extra["message"] = inner
        if not inner and message.role != "system":
            del extra["message"]
    elif inner is None or not _is_silent(message):
        extra.pop("message", None)
    return extra
