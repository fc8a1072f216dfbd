"""How the fields of a chat message are spelled in a record, and how they are read back.

A slot is one such field: its key on the wire, its name in the message, and both directions. A value
that its slot would spell otherwise (a time without milliseconds, a null, a number where text should
be) stays beside the others in its own spelling, and goes back as it came for as long as it still
means what the message says. So a record loses nothing by becoming a message. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from turnlog.records.timestamps import instant, iso

Fields = dict[str, Any]
Value = Callable[[str], Any]


class Slot(NamedTuple):
    """One field of a message. What it writes as None is not written at all."""

    key: str
    name: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]


def take_apart(fields: Mapping[str, Any], slots: Sequence[Slot]) -> tuple[Fields, Fields]:
    """Give what the slots read from *fields*, by name, and all that is left."""
    found: Fields = {}
    rest = dict(fields)
    for slot in slots:
        if slot.key in rest:
            found[slot.name] = slot.read(rest[slot.key])
            if _is_spelled(slot, found[slot.name], rest[slot.key]):
                del rest[slot.key]
    return found, rest


def put_together(rest: Mapping[str, Any], slots: Sequence[Slot], value: Value) -> Fields:
    """Give the fields that say what the slots' names have for *value*, and the *rest*."""
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
    """Leave out of *rest* what the message says itself, or no longer says."""
    kept = dict(rest)
    for slot in slots:
        if slot.key in kept:
            said = value(slot.name)
            spelling = kept[slot.key]
            if slot.read(spelling) != said or _is_spelled(slot, said, spelling):
                del kept[slot.key]
    return kept


def content_slot(role: str) -> Slot:
    """Give the slot of what was said: a model's words are always blocks on the wire."""
    if role == "assistant":
        return Slot("content", "content", plain_content, _as_blocks)
    if role == "system":
        return Slot("content", "content", read_content, lambda said: None if said == [] else said)
    return Slot("content", "content", read_content, _same)


def read_content(value: Any) -> Any:
    """Read text or blocks; whatever else stands there is no content."""
    if isinstance(value, str):
        return value
    is_blocks = isinstance(value, list) and all(isinstance(each, dict) for each in value)
    return value if is_blocks else []


def plain_content(value: Any) -> Any:
    """Read text or blocks; a single block that is nothing but text is that text."""
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
