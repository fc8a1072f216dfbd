"""The flat store's dialect: five types, block content at the top, milliseconds for time.

    {"type":"system_init","timestamp":1703001600000,"cwd":"…","model":"…"}
    {"type":"user","uuid":"…","content":[{…}],"timestamp":…}
    {"type":"assistant","uuid":"…","content":[{…}],"thinking":{…},"timestamp":…,"usage":{…}}
    {"type":"tool_use","uuid":"tool-001","name":"…","input":{…},"timestamp":…}
    {"type":"tool_result","tool_use_id":"tool-001","content":"…","is_error":false,"timestamp":…}

A call is named by its ``id`` if it has one, else by its ``uuid``: its result points there.
"""

from __future__ import annotations

from typing import Any

from turnlog.errors import NotSerialisable

NAME = "flat"

_SPEAKERS = ("user", "assistant")
_TYPES = ("system_init", *_SPEAKERS, "tool_use", "tool_result")
_IN_MESSAGE = ("content", "thinking", "usage", "model", "stop_reason", "stopReason")


def recognises(fields: dict[str, Any]) -> bool:
    if "message" in fields:
        return False
    kind = fields.get("type")
    if kind in _SPEAKERS:
        return isinstance(fields.get("content"), list)
    if kind == "tool_result":
        return "tool_use_id" in fields
    return kind in ("system_init", "tool_use")


def to_house(fields: dict[str, Any]) -> dict[str, Any]:
    kind = fields.get("type")
    if kind in _SPEAKERS:
        content = list(fields["content"])
        thinking = fields.get("thinking")
        if isinstance(thinking, dict):
            content.insert(0, {"type": "thinking"} | thinking)
        message = {"role": kind, "content": content}
        for key in ("usage", "model", "stop_reason"):
            if key in fields:
                message[key] = fields[key]
        if "stopReason" in fields:
            message["stop_reason"] = fields["stopReason"]
        rest = {key: value for key, value in fields.items() if key not in _IN_MESSAGE}
        return rest | {"message": message}
    if kind == "tool_use" and "id" not in fields and "uuid" in fields:
        return fields | {"id": fields["uuid"]}
    return fields


def from_house(fields: dict[str, Any]) -> dict[str, Any]:
    kind = fields.get("type")
    if kind not in _TYPES:
        raise NotSerialisable(
            f"the flat store's dialect has no record of type {kind!r}",
            hint=f"it has {', '.join(_TYPES)}",
        )
    if kind in _SPEAKERS:
        message = fields.get("message") or {}
        content = message.get("content") or []
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        own = {key: value for key, value in fields.items() if key != "message"}
        first = blocks[0] if blocks and isinstance(blocks[0], dict) else {}
        if kind == "assistant" and first.get("type") == "thinking":
            own["thinking"] = {k: v for k, v in blocks.pop(0).items() if k != "type"}
        own["content"] = blocks
        for key in ("usage", "model", "stop_reason"):
            if message.get(key) is not None:
                own[key] = message[key]
        return own
    if kind == "tool_use" and fields.get("id") == fields.get("uuid"):
        return {key: value for key, value in fields.items() if key != "id"}
    return fields
