"""Well-formed records, from a few words.

Each function gives the fields of a record in Claude Code's shape, without its place in the tree:
uuid, parent, time, directory and branch are filled in when it is appended to a session. They are
plain dicts, so that anything else a caller wants to say can be put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal
from uuid import uuid4

Fields = dict[str, Any]
Block = Mapping[str, Any]


def user(content: str | Iterable[Block]) -> Fields:
    """A human's prompt."""
    return {"type": "user", "message": {"role": "user", "content": _content(content)}}


def assistant(
    content: str | Iterable[Block],
    *,
    model: str,
    usage: Mapping[str, Any] | None = None,
    stop_reason: str | None = "end_turn",
    message_id: str | None = None,
    request_id: str | None = None,
) -> Fields:
    """A model's response, or a part of it: parts of one response share *message_id*."""
    blocks = [text(content)] if isinstance(content, str) else [dict(block) for block in content]
    message = {
        "id": message_id or f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": dict(usage or {"input_tokens": 0, "output_tokens": 0}),
    }
    fields: Fields = {"type": "assistant", "message": message}
    if request_id is not None:
        fields["requestId"] = request_id
    return fields


def result(call_id: str, content: Any, *, failed: bool = False, detail: Any = None) -> Fields:
    """A tool's answer to the call *call_id*; *detail* is what it reports beside the answer."""
    block: Fields = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    if failed:
        block["is_error"] = True
    fields: Fields = {"type": "user", "message": {"role": "user", "content": [block]}}
    if detail is not None:
        fields["toolUseResult"] = detail
    return fields


def system(content: str, *, subtype: str = "informational", level: str = "info") -> Fields:
    """A note of the program itself."""
    return {"type": "system", "subtype": subtype, "content": content, "level": level}


def summary(words: str, *, leaf_uuid: str) -> Fields:
    """What the thread that ends in *leaf_uuid* was about."""
    return {"type": "summary", "summary": words, "leafUuid": leaf_uuid}


def queue_operation(
    operation: Literal["enqueue", "dequeue", "remove", "popAll"], content: str | None = None
) -> Fields:
    """A prompt entered or left the queue."""
    fields: Fields = {"type": "queue-operation", "operation": operation}
    return fields if content is None else fields | {"content": content}


def title(words: str) -> Fields:
    """What a person calls the session."""
    return {"type": "custom-title", "customTitle": words}


def tag(word: str) -> Fields:
    """A tag for the session; an empty one clears it."""
    return {"type": "tag", "tag": word}


def labels(called: str | None, tagged: str | None) -> list[Fields]:
    """What a person sets of a session, title and tag; what is None is left as it is."""
    said = [title(called)] if called is not None else []
    return said if tagged is None else [*said, tag(tagged)]


def text(words: str) -> Fields:
    """A block of text."""
    return {"type": "text", "text": words}


def thinking(words: str, signature: str = "") -> Fields:
    """A block of thinking."""
    return {"type": "thinking", "thinking": words, "signature": signature}


def call(name: str, asked: Mapping[str, Any], *, call_id: str | None = None) -> Fields:
    """A block that asks a tool."""
    made = call_id or f"toolu_{uuid4().hex}"
    return {"type": "tool_use", "id": made, "name": name, "input": dict(asked)}


def _content(content: str | Iterable[Block]) -> str | list[Fields]:
    return content if isinstance(content, str) else [dict(block) for block in content]
