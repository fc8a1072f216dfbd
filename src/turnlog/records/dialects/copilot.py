"""Copilot CLI's dialect: events, each with its data.

    {"type":"session.start","data":{"sessionId":"…","context":{"cwd":"…"}},"id":"…","timestamp":"…"}
    {"type":"user.message","data":{"content":"…"},"id":"…","timestamp":"…","parentId":"…"}
    {"type":"assistant.message","data":{"content":"…","toolRequests":[{"toolCallId":"…",…}]},…}
    {"type":"tool.execution_complete","data":{"toolCallId":"…","success":true,"result":{…}},…}

All other events are records without text. Events have ids, and each follows the one before. There
is no way back, since turnlog does not write Copilot's logs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnlog.errors import NotSerialisable
from turnlog.records.dialects.leftovers import Dialect, Fields


def recognises(fields: Fields) -> bool:
    return (
        isinstance(fields.get("data"), dict)
        and isinstance(fields.get("type"), str)
        and "timestamp" in fields
        and ("." in fields["type"] or fields["type"] == "abort")
        and "message" not in fields
    )


def to_house(fields: Fields) -> Fields:
    data = fields["data"]
    house: Fields = {"type": fields["type"]}
    match fields["type"]:
        case "session.start" | "session.resume":
            house = _session(data)
        case "user.message":
            house = _spoken("user", [{"type": "text", "text": _text(data.get("content"))}])
        case "assistant.message":
            house = _spoken("assistant", [*_said(data), *_calls(data)])
        case "tool.execution_complete":
            house = _spoken("user", [_result(data)])
        case "abort":
            interruption = {"type": "text", "text": "[Request interrupted by user]"}
            house = _spoken("user", [interruption])
    return house | {"uuid": fields.get("id"), "timestamp": fields["timestamp"]}


def from_house(_: Fields) -> Fields:
    raise NotSerialisable(
        "turnlog does not write records of Copilot CLI", hint="convert them to another layout"
    )


def _session(data: Fields) -> Fields:
    context = data.get("context")
    place: Fields = context if isinstance(context, dict) else {}
    return {
        "type": "system_init",
        "cwd": place.get("cwd"),
        "gitBranch": place.get("branch"),
        "version": data.get("copilotVersion"),
        "model": data.get("selectedModel"),
    }


def _spoken(role: str, content: list[Fields]) -> Fields:
    return {"type": role, "message": {"role": role, "content": content}}


def _said(data: Fields) -> list[Fields]:
    thinking, text = _text(data.get("reasoningText")), _text(data.get("content"))
    return [
        *([{"type": "thinking", "thinking": thinking}] if thinking else []),
        *([{"type": "text", "text": text}] if text else []),
    ]


def _calls(data: Fields) -> list[Fields]:
    requests = data.get("toolRequests")
    calls = (
        [each for each in requests if isinstance(each, dict)] if isinstance(requests, list) else []
    )
    return [
        {
            "type": "tool_use",
            "id": _text(each.get("toolCallId")),
            "name": _text(each.get("name")),
            "input": _arguments(each.get("arguments")),
        }
        for each in calls
    ]


def _arguments(given: Any) -> Any:
    if isinstance(given, str):
        try:
            return msgspec.json.decode(given)
        except (ValueError, RecursionError):
            return {"input": given}
    return given


def _result(data: Fields) -> Fields:
    failed = data.get("success") is False
    found = data.get("error" if failed else "result")
    if isinstance(found, dict):
        found = found.get("message" if failed else "content")
    return {
        "type": "tool_result",
        "tool_use_id": _text(data.get("toolCallId")),
        "content": _text(found),
        "is_error": failed,
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


COPILOT = Dialect("copilot", recognises, to_house, from_house)
