"""The orchestrator's dialect: four types, plain-text content, usage beside it.

    {"type":"user","content":"…","timestamp":"…","metadata":{"source":"cli","sessionId":"…"}}
    {"type":"assistant","content":"…","usage":{"cache_creation_tokens":0,…},"model":"…","stopReason":"…"}
    {"type":"tool_call","tool":"Read","arguments":{…},"toolCallId":"…"}
    {"type":"tool_result","tool":"Read","result":…,"duration_ms":543,"toolCallId":"…"}   or "error"

Its older sibling says ``role`` for ``type`` and spells everything in camelCase; it is read too.
"""

from __future__ import annotations

from typing import Any

from turnlog.errors import NotSerialisable
from turnlog.records.usage import with_api_names

NAME = "orchestrator"

_SPEAKERS = ("user", "assistant")
_TYPES = (*_SPEAKERS, "tool_call", "tool_result")
_SIBLING_COUNTERS = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
_TYPE_OF_ROLE = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool_result",
    "tool_call": "tool_call",
    "tool_result": "tool_result",
}


def recognises(fields: dict[str, Any]) -> bool:
    kind = _kind(fields)
    if "message" in fields and kind != "tool_call":
        return False
    if kind in _SPEAKERS:
        return isinstance(fields.get("content"), str)
    if kind == "tool_result":
        return any(key in fields for key in ("tool", "toolName", "toolCallId"))
    return kind == "tool_call"


def to_house(fields: dict[str, Any]) -> dict[str, Any]:
    kind = _kind(fields)
    metadata = fields.get("metadata")
    house = {
        key: fields[key]
        for key in ("uuid", "parentUuid", "sessionId", "timestamp", "cwd", "metadata")
        if key in fields
    }
    if "sessionId" not in house and isinstance(metadata, dict) and "sessionId" in metadata:
        house["sessionId"] = metadata["sessionId"]
    if kind in _SPEAKERS:
        return house | {"type": kind, "message": _message(kind, fields)}
    call_id = fields.get("toolCallId")
    name = fields.get("tool", fields.get("toolName"))
    if kind == "tool_call":
        asked = fields.get("arguments", fields.get("toolInput"))
        return house | {"type": kind, "id": call_id, "name": name, "input": asked}
    failed = "error" in fields or fields.get("status") == "error"
    answer = (
        fields.get("error") if "error" in fields else fields.get("result", fields.get("output"))
    )
    return house | {
        "type": kind,
        "tool_use_id": call_id,
        "tool": name,
        "content": answer,
        "is_error": failed,
        "duration_ms": fields.get("duration_ms", fields.get("executionTimeMs")),
    }


def from_house(fields: dict[str, Any]) -> dict[str, Any]:
    kind = fields.get("type")
    if kind not in _TYPES:
        raise NotSerialisable(
            f"the orchestrator's dialect has no record of type {kind!r}",
            hint=f"it has {', '.join(_TYPES)}",
        )
    own = {
        key: fields[key]
        for key in ("uuid", "parentUuid", "sessionId", "timestamp", "cwd", "metadata")
        if fields.get(key) is not None
    }
    if kind in _SPEAKERS:
        message = fields.get("message") or {}
        own = {"type": kind, "content": message.get("content") or ""} | own
        if kind == "assistant":
            own["usage"] = _own_usage(message.get("usage") or {})
            own["model"] = message.get("model")
            if message.get("stop_reason"):
                own["stopReason"] = message["stop_reason"]
        return own
    if kind == "tool_call":
        asked = fields.get("input") or {}
        own = {"type": kind, "tool": fields.get("name"), "arguments": asked} | own
        return own | _given(toolCallId=fields.get("id"))
    answer = "error" if fields.get("is_error") else "result"
    own = {"type": "tool_result", "tool": fields.get("tool"), answer: fields.get("content")} | own
    return own | _given(duration_ms=fields.get("duration_ms"), toolCallId=fields.get("tool_use_id"))


def _kind(fields: dict[str, Any]) -> str | None:
    kind = fields.get("type")
    if kind is None:
        role = fields.get("role")
        kind = _TYPE_OF_ROLE.get(role) if isinstance(role, str) else None
    return kind if isinstance(kind, str) else None


def _message(kind: str | None, fields: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": kind, "content": fields.get("content")}
    if kind == "assistant":
        usage = fields.get("usage")
        if usage is None:
            usage = {key: fields[key] for key in _SIBLING_COUNTERS if key in fields} or None
        message["usage"] = with_api_names(usage) if isinstance(usage, dict) else usage
        message["model"] = fields.get("model")
        message["stop_reason"] = fields.get("stopReason")
    return message


def _own_usage(usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "cache_creation_tokens": usage.get("cache_creation_input_tokens", 0),
        "cache_read_tokens": usage.get("cache_read_input_tokens", 0),
    }


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
