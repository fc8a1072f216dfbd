"""The orchestrator's dialect: four types, plain-text content, usage at the top level.

    {"type":"user","content":"…","timestamp":"…","metadata":{"source":"cli","sessionId":"…"}}
    {"type":"assistant","content":"…","usage":{"cache_creation_tokens":0,…},"model":"…","stopReason":"…"}
    {"type":"tool_call","tool":"Read","arguments":{…},"toolCallId":"…"}
    {"type":"tool_result","tool":"Read","result":…,"duration_ms":543,"toolCallId":"…"}   or "error"

An older variant has ``role`` instead of ``type`` and camelCase names; it is read too. Other fields
stay where they are. A round trip loses nothing: blocks become text, and are kept as leftovers.
"""

from __future__ import annotations

from typing import Any

from turnlog.errors import NotSerialisable
from turnlog.records.dialects.leftovers import (
    KEY,
    Dialect,
    Fields,
    add_leftovers,
    join,
    same,
    split_leftovers,
)
from turnlog.records.record import text_in
from turnlog.records.usage import with_api_names

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

# Names for each part of a line; the first present wins. The last is other dialects'.
_CALL_ID = ("toolCallId", "id")
_CALL_NAME = ("tool", "toolName", "name")
_CALL_INPUT = ("arguments", "toolInput", "input")
_RESULT_ID = ("toolCallId", "tool_use_id")
_RESULT_NAME = ("tool", "toolName")
_ANSWER = ("result", "output", "content")
_DURATION = ("duration_ms", "executionTimeMs")

_TAKEN = {
    "user": frozenset({"message", "content"}),
    "assistant": frozenset({"message", "content", "usage", "model", "stopReason"})
    | frozenset(_SIBLING_COUNTERS),
    "tool_call": frozenset({*_CALL_ID, *_CALL_NAME, *_CALL_INPUT}),
    "tool_result": frozenset(
        {"message", "error", "is_error", *_RESULT_ID, *_RESULT_NAME, *_ANSWER, *_DURATION}
    ),
}
_OWN_COUNTERS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_creation_input_tokens": "cache_creation_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
}


def recognises(fields: Fields) -> bool:
    kind = _kind(fields)
    if "message" in fields and kind != "tool_call":
        return False
    if kind in _SPEAKERS:
        return isinstance(fields.get("content"), str)
    if kind == "tool_result":
        return any(key in fields for key in ("tool", "toolName", "toolCallId"))
    return kind == "tool_call"


def to_house(fields: Fields) -> Fields:
    line, aside = split_leftovers(fields)
    kind = _kind(line)
    rest = dict(line)
    if rest.pop("type", None) is None:
        rest.pop("role", None)
    metadata = rest.get("metadata")
    if "sessionId" not in rest and isinstance(metadata, dict) and "sessionId" in metadata:
        rest["sessionId"] = metadata["sessionId"]
    if kind in _SPEAKERS:
        made: Fields = {"message": _message(kind, rest)}
    elif kind == "tool_call":
        made = {
            "id": _take(rest, _CALL_ID),
            "name": _take(rest, _CALL_NAME),
            "input": _take(rest, _CALL_INPUT),
        }
    else:
        made = _result(rest)
    clash = {key: rest.pop(key) for key in (*made, KEY) if key in rest}
    house = rest | {"type": kind} | made
    if clash:  # Names with another meaning in Claude Code's shape: kept for the way back.
        house[KEY] = {"line": clash}
    return add_leftovers(house, aside)


def from_house(fields: Fields) -> Fields:
    kind = "tool_call" if fields.get("type") == "tool_use" else fields.get("type")
    if kind not in _TYPES:
        raise NotSerialisable(
            f"the orchestrator's dialect has no record of type {kind!r}",
            hint=f"it has {', '.join(_TYPES)}",
        )
    others = {key: value for key, value in fields.items() if key != "type"}
    if kind in _SPEAKERS:
        line = _own_speech(kind, others.pop("message", None))
    elif kind == "tool_call":
        line = {"type": kind, "tool": others.pop("name", None)}
        arguments = others.pop("input", None)
        line["arguments"] = {} if arguments is None else arguments
        line |= _present(toolCallId=others.pop("id", None))
    else:
        line = _own_result(others)
    metadata = others.get("metadata")
    if isinstance(metadata, dict) and same(metadata.get("sessionId"), others.get("sessionId")):
        others.pop("sessionId", None)
    clash = others.get(KEY)
    if isinstance(clash, dict) and clash.keys() == {"line"} and isinstance(clash["line"], dict):
        others = {key: value for key, value in others.items() if key != KEY} | clash["line"]
    return join(line, others, fields, _TAKEN[kind], ORCHESTRATOR)


def _kind(fields: Fields) -> str | None:
    kind = fields.get("type")
    if kind is None:
        role = fields.get("role")
        kind = _TYPE_OF_ROLE.get(role) if isinstance(role, str) else None
    return kind if isinstance(kind, str) else None


def _take(rest: Fields, names: tuple[str, ...]) -> Any:
    """Remove the first of *names* that is present from *rest* and return its value."""
    return next((rest.pop(name) for name in names if name in rest), None)


def _message(kind: str | None, rest: Fields) -> Fields:
    message: Fields = {"role": kind, "content": rest.pop("content", None)}
    if kind == "assistant":
        usage = rest.pop("usage", None)
        if usage is None:
            usage = {key: rest.pop(key) for key in _SIBLING_COUNTERS if key in rest} or None
        message["usage"] = with_api_names(usage) if isinstance(usage, dict) else usage
        message["model"] = rest.pop("model", None)
        message["stop_reason"] = rest.pop("stopReason", None)
    return message


def _result(rest: Fields) -> Fields:
    answered = any(name in rest for name in _ANSWER)
    if "error" in rest and (rest["error"] is not None or not answered):
        answer, failed = rest.pop("error"), True
    else:
        answer = _take(rest, _ANSWER)
        failed = rest.get("status") == "error" or rest.pop("is_error", False)
    return {
        "tool_use_id": _take(rest, _RESULT_ID),
        "tool": _take(rest, _RESULT_NAME),
        "content": answer,
        "is_error": failed,
        "duration_ms": _take(rest, _DURATION),
    }


def _own_speech(kind: str, message: Any) -> Fields:
    message_fields: Fields = message if isinstance(message, dict) else {}
    line: Fields = {"type": kind, "content": text_in(message_fields.get("content"))}
    if kind == "assistant":
        line["usage"] = _own_usage(message_fields.get("usage"))
        line["model"] = message_fields.get("model")
        line |= _present(stopReason=message_fields.get("stop_reason"))
    return line


def _own_result(others: Fields) -> Fields:
    answer = "error" if others.pop("is_error", None) else "result"
    line: Fields = {"type": "tool_result", "tool": others.pop("tool", None)}
    line[answer] = others.pop("content", None)
    duration, call_id = others.pop("duration_ms", None), others.pop("tool_use_id", None)
    return line | _present(duration_ms=duration, toolCallId=call_id)


def _own_usage(usage: Any) -> Fields:
    """Return *usage* with this dialect's names, including all four counters."""
    counted: Fields = usage if isinstance(usage, dict) else {}
    counters = {own: counted.get(name, 0) for name, own in _OWN_COUNTERS.items()}
    return counters | {key: value for key, value in counted.items() if key not in _OWN_COUNTERS}


def _present(**values: Any) -> Fields:
    return {key: value for key, value in values.items() if value is not None}


ORCHESTRATOR = Dialect("orchestrator", recognises, to_house, from_house)
