"""The flat store's dialect: five types, content blocks at the top level, epoch milliseconds.

    {"type":"system_init","timestamp":1703001600000,"cwd":"…","model":"…"}
    {"type":"user","uuid":"…","content":[{…}],"timestamp":…}
    {"type":"assistant","uuid":"…","content":[{…}],"thinking":{…},"timestamp":…,"usage":{…}}
    {"type":"tool_use","uuid":"tool-001","name":"…","input":{…},"timestamp":…}
    {"type":"tool_result","tool_use_id":"tool-001","content":"…","is_error":false,"timestamp":…}

A call's id is its ``id``, else its ``uuid``: its result refers to that. The ``id`` of an
assistant's line is the API's message id. Other fields stay where they are. A round trip loses
nothing, except that a plain string becomes a text block.
"""

from __future__ import annotations

from turnlog.errors import NotSerialisable
from turnlog.records.dialects.leftovers import (
    Dialect,
    Fields,
    add_leftovers,
    join,
    same,
    split_leftovers,
)

_SPEAKERS = ("user", "assistant")
_TYPES = ("system_init", *_SPEAKERS, "tool_use", "tool_result")
_OF_MESSAGE = ("id", "model", "stop_reason", "stop_sequence", "usage")
_TAKEN = frozenset({*_OF_MESSAGE, "message", "content", "thinking", "stopReason"})
# A result with one of these is the orchestrator's.
_FOREIGN = frozenset({"message", "tool", "toolName", "toolCallId"})


def recognises(fields: Fields) -> bool:
    if "message" in fields:
        return False
    kind = fields.get("type")
    if kind in _SPEAKERS:
        return isinstance(fields.get("content"), list)
    if kind == "tool_result":
        return "tool_use_id" in fields and _FOREIGN.isdisjoint(fields)
    return kind in ("system_init", "tool_use")


def to_house(fields: Fields) -> Fields:
    line, aside = split_leftovers(fields)
    kind = line.get("type")
    if kind in _SPEAKERS:
        line = _message_parts(line)
    elif kind == "tool_use" and "id" not in line and "uuid" in line:
        line = line | {"id": line["uuid"]}
    return add_leftovers(line, aside)


def from_house(fields: Fields) -> Fields:
    kind = "tool_use" if fields.get("type") == "tool_call" else fields.get("type")
    if kind not in _TYPES:
        raise NotSerialisable(
            f"the flat store's dialect has no record of type {kind!r}",
            hint=f"it has {', '.join(_TYPES)}",
        )
    if kind in _SPEAKERS:
        others = {key: value for key, value in fields.items() if key != "message"}
        line, house = _line(fields)
        return join(line, others, house, _TAKEN, FLAT)
    line = {"type": kind}
    others = {key: value for key, value in fields.items() if key != "type"}
    if kind == "tool_use" and same(fields.get("id"), fields.get("uuid")):
        others.pop("id", None)
    if kind == "tool_result" and "tool_use_id" not in fields:
        line["tool_use_id"] = None
    return join(line, others, fields, _FOREIGN, FLAT)


def _message_parts(line: Fields) -> Fields:
    """Collect the parts of a message from the top level of *line*."""
    rest = dict(line)
    content = list(rest.pop("content", None) or [])
    thinking = rest.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type", "thinking") == "thinking":
        content.insert(0, {"type": "thinking"} | rest.pop("thinking"))
    message: Fields = {"role": rest.get("type"), "content": content}
    if rest.get("type") == "assistant" and "id" in rest:
        message["type"] = "message"
    message |= {key: rest.pop(key) for key in _OF_MESSAGE if key in rest}
    if "stop_reason" not in message and "stopReason" in rest:
        message["stop_reason"] = rest.pop("stopReason")
    return rest | {"message": message}


def _line(fields: Fields) -> tuple[Fields, Fields]:
    """Spread the message of *fields* into a line; return it, and *fields* with text as blocks."""
    message = fields.get("message")
    message_fields: Fields = message if isinstance(message, dict) else {}
    content = message_fields.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
        fields = fields | {"message": message_fields | {"content": content}}
    blocks = list(content) if isinstance(content, list) else []
    line: Fields = {key: fields[key] for key in ("type", "uuid") if key in fields}
    line["content"] = blocks
    first = blocks[0] if blocks else None
    if isinstance(first, dict) and first.get("type") == "thinking" and "thinking" not in fields:
        line["thinking"] = {key: value for key, value in blocks.pop(0).items() if key != "type"}
    if "timestamp" in fields:
        line["timestamp"] = fields["timestamp"]
    return line | {key: message_fields[key] for key in _OF_MESSAGE if key in message_fields}, fields


FLAT = Dialect("flat", recognises, to_house, from_house)
