"""Translate one of Claude Code's records to another dialect.

The other dialects have separate records for calls and results, and one has only plain text. So one
record may become several, and some cannot be translated: those stay as they are, since a log may
mix dialects. Translation is for programs that read only their own dialect; a note can keep the
original line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnlog.records.dates import instant
from turnlog.records.dialects import BY_NAME
from turnlog.records.dialects.leftovers import Fields

_CALL_TYPES: Final = {"flat": "tool_use", "orchestrator": "tool_call"}


def in_dialect(
    fields: Mapping[str, Any], dialect: str, tools: Mapping[str, str] | None = None
) -> list[Fields] | None:
    """Return a user's or assistant's record in *dialect*; None if it cannot hold all of it.

    *tools* maps the ids of earlier calls to tool names, for the dialect whose results repeat them.
    """
    message = fields.get("message")
    if dialect not in _CALL_TYPES or not isinstance(message, Mapping):
        return None
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if fields.get("type") not in ("user", "assistant") or not isinstance(blocks, list):
        return None
    parts = _parts(dict(fields), dict(message), blocks, _CALL_TYPES[dialect])
    if parts is None or (dialect == "orchestrator" and not all(map(_is_plain, parts))):
        return None
    for part in parts:
        if part["type"] == "tool_result" and tools:
            part.setdefault("tool", tools.get(part["tool_use_id"]))
    lines = [BY_NAME[dialect].from_house(_with_plain_text(part, dialect)) for part in parts]
    if dialect == "flat":
        for line in lines:
            at = instant(line.get("timestamp"))
            if at is not None:
                line["timestamp"] = round(at.timestamp() * 1000)
    return lines


def _parts(
    fields: Fields, message: Fields, blocks: list[Any], call_type: str
) -> list[Fields] | None:
    """Split a record into text, calls and results, in Claude Code's shape."""
    content: list[Any] = []
    separate: list[Fields] = []
    stamp = {key: fields[key] for key in ("timestamp", "sessionId", "cwd") if key in fields}
    for block in blocks:
        match block:
            case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": arguments}:
                separate.append(
                    {"type": call_type, "id": call_id, "name": name, "input": arguments} | stamp
                )
            case {"type": "tool_result", "tool_use_id": str(call_id)}:
                answer = {key: block[key] for key in block if key != "type"}
                separate.append({"type": "tool_result"} | answer | stamp)
            case {"type": str()}:
                content.append(block)
            case _:
                return None
    if separate and "toolUseResult" in fields:
        separate[0]["toolUseResult"] = fields.pop("toolUseResult")
    used = message.get("usage") if fields["type"] == "assistant" else None
    if content or not separate or (isinstance(used, Mapping) and any(used.values())):
        fields_of_line = {key: value for key, value in fields.items() if key != "message"}
        return [fields_of_line | {"message": message | {"content": content}}, *separate]
    if "uuid" in fields:
        separate[0]["uuid"] = fields["uuid"]
    return separate


def _is_plain(part: Fields) -> bool:
    """Return whether the message is a single text, which is all the orchestrator can hold."""
    content = part.get("message", {}).get("content", [])
    return not content or (len(content) == 1 and set(content[0]) == {"type", "text"})


def _with_plain_text(part: Fields, dialect: str) -> Fields:
    if dialect != "orchestrator" or "message" not in part:
        return part
    content = part["message"]["content"]
    return part | {"message": part["message"] | {"content": content[0]["text"] if content else ""}}
