"""Chat messages: what was said, as programs that build agents pass it around.

    ChatMessage(role="user", content="Hello")
    ChatMessage.response("Let me look.", calls=[build.call("Read", {"file_path": "a.py"})])

A message is one record of a log in the hand of somebody who cares for the conversation and not for
the log. Its content is text, or blocks as the API has them, in their order: text, thinking, calls,
results, and whatever kinds come later. ``extra`` is what else the record said.

Promises: a message becomes a record and back again and is equal to itself; a record becomes a
message and back again and has lost nothing. ``metadata`` is the caller's own and means nothing to
anybody else, whatever its keys are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, Self, get_args
from uuid import uuid4

from msgspec import Struct, field
from msgspec.structs import force_setattr

from turnlog.adapters.chat_wire import (
    MESSAGE_SLOTS,
    RECORD_SLOTS,
    Fields,
    Slot,
    content_slot,
    plain_content,
    put_together,
    take_apart,
    tidy,
)
from turnlog.errors import UsageError
from turnlog.records.blocks import AnyBlock, CallBlock, ResultBlock, ThinkingBlock, text_of
from turnlog.records.codec import encode
from turnlog.records.dialects import BY_NAME
from turnlog.records.lenient_json import build, loads
from turnlog.records.record import Message, Record
from turnlog.sessions.writing import build as built

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
    """Text, or blocks; of a model's message that is a single plain text block, that text."""
    id: str = field(default_factory=lambda: str(uuid4()))
    """The record's uuid. Two messages of one id are one message: logging it twice is harmless."""
    parent_id: str | None = None
    """The record before it; None until it is logged, unless it shall follow an earlier one."""
    session_id: str | None = None
    agent_id: str | None = None
    timestamp: datetime | None = None
    """When it was said, in UTC; None until it is logged."""
    model: str | None = None
    usage: Mapping[str, Any] | None = None
    """What the response used, as the API tells it."""
    stop_reason: str | None = None
    response_id: str | None = None
    """The API's id of the response; parts of one response share it."""
    request_id: str | None = None
    metadata: Mapping[str, Any] = {}
    """The caller's own."""
    extra: Mapping[str, Any] = {}
    """What else the record says: cwd, gitBranch, isSidechain, toolUseResult, and so on."""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UsageError(
                f"nobody in a conversation is a {str(self.role)[:40]!r}",
                hint=f"the role is one of {', '.join(ROLES)}; results of tools are a user's",
            )
        force_setattr(self, "content", _checked_content(self.role, self.content))
        _check(self)
        if self.timestamp is not None:
            force_setattr(self, "timestamp", self.timestamp.astimezone(UTC))
        force_setattr(self, "extra", _tidied(self))

    @classmethod
    def prompt(cls, text: str, **more: Any) -> Self:
        """What a human says."""
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
        """What a model says, thinks and asks of tools; `turnlog.build.call` makes a call."""
        blocks = [built.thinking(thinking)] if thinking is not None else []
        blocks += [built.text(text)] if text else []
        return cls(role="assistant", content=[*blocks, *calls], **more)

    @classmethod
    def result(cls, call_id: str, content: Any, *, failed: bool = False, **more: Any) -> Self:
        """What a tool answers."""
        said = built.result(call_id, content, failed=failed)
        return cls(role="user", content=said["message"]["content"], **more)

    @classmethod
    def from_record(cls, record: Record | Mapping[str, Any]) -> Self:
        """Give the message that *record*, or the fields of one, carries."""
        fields = _fields_of(record)
        role = fields.pop("type", None)
        if role not in ROLES:
            raise UsageError(
                f"a record of type {str(role)[:40]!r} is no chat message",
                hint=f"records of type {', '.join(ROLES)} are",
            )
        found, rest = take_apart(fields, RECORD_SLOTS)
        message = rest.get("message")
        if role == "system" and ("content" in rest or not isinstance(message, dict)):
            more, rest = take_apart(rest, (content_slot(role),))
            if isinstance(message, dict):
                rest["content"] = fields["content"]
        elif isinstance(message, dict):
            more, rest["message"] = take_apart(message, _message_slots(role))
        else:
            more = {}
        if found.get("id") is None:
            found.pop("id", None)
        said: Fields = {"content": []} | found | more
        return cls(role=role, extra=rest, **said)

    def to_record(self) -> Fields:
        """Give the fields of the record that carries this message."""
        rest = dict(self.extra)
        if _is_bare(self.role, self.extra):
            bare = (*RECORD_SLOTS, content_slot(self.role))
            return {"type": self.role, **put_together(rest, bare, self._said)}
        message = rest.pop("message", None)
        if isinstance(message, dict) or message is None or not _is_silent(self):
            inner = message if isinstance(message, dict) else {}
            slots = _message_slots(self.role)
            message = {"role": self.role, **put_together(inner, slots, self._said)}
        placed = put_together(rest, RECORD_SLOTS, self._said)
        return {"type": self.role, "message": message, **placed}

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        """The parts of the content, typed; plain text is one text block."""
        said = self.content if isinstance(self.content, str) else list(self.content)
        return build(Message, {"content": said})[0].blocks

    @property
    def text(self) -> str:
        """What a person would read, without thinking, calls and results."""
        return self.content if isinstance(self.content, str) else text_of(self.blocks)

    @property
    def thinking(self) -> str:
        """What the model thought."""
        thought = (each.thinking for each in self.blocks if isinstance(each, ThinkingBlock))
        return "\n".join(thought)

    @property
    def calls(self) -> tuple[CallBlock, ...]:
        """What was asked of tools."""
        return tuple(each for each in self.blocks if isinstance(each, CallBlock))

    @property
    def results(self) -> tuple[ResultBlock, ...]:
        """What tools answered."""
        return tuple(each for each in self.blocks if isinstance(each, ResultBlock))

    def _said(self, name: str) -> Any:
        return getattr(self, name)


def _message_slots(role: str) -> tuple[Slot, ...]:
    return (*MESSAGE_SLOTS, content_slot(role))


def _fields_of(record: Record | Mapping[str, Any]) -> Fields:
    """Give the fields of a record in Claude Code's shape."""
    if not isinstance(record, Record):
        return dict(record)
    fields: Fields = record.fields or loads(encode(record))
    return fields if record.dialect == "claude" else dict(BY_NAME[record.dialect].to_house(fields))


def _is_bare(role: str, extra: Mapping[str, Any]) -> bool:
    """Tell whether the record says its content itself, without a message around it."""
    in_message = isinstance(extra.get("message"), dict) and "content" not in extra
    return role == "system" and not in_message


def _is_silent(message: ChatMessage) -> bool:
    """Tell whether nothing is said that would need a message."""
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
    """Raise for what a caller cannot mean."""
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
    """Leave out of a message's extra what the message says itself."""
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
