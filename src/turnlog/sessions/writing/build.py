"""Build well-formed records from a few arguments.

Each function returns the fields of a record in Claude Code's shape, without uuid, parent,
timestamp, directory and branch, which are added when it is appended to a session. They are plain
dicts, so callers can add fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal
from uuid import uuid4

from turnlog.errors import UsageError

Fields = dict[str, Any]
Block = Mapping[str, Any]


def user(content: str | Iterable[Block]) -> Fields:
    """Return a human's prompt."""
    words = content if isinstance(content, str) else _blocks(content)
    return {"type": "user", "message": {"role": "user", "content": words}}


def assistant(
    content: str | Iterable[Block],
    *,
    model: str,
    usage: Mapping[str, Any] | None = None,
    stop_reason: str | None = "",
    message_id: str | None = None,
    request_id: str | None = None,
) -> Fields:
    """Return a model's response, or a part of it: parts share *message_id*.

    Unless *stop_reason* is given, it is ``tool_use`` if there is a call, else ``end_turn``.
    """
    blocks = [text(content)] if isinstance(content, str) else _blocks(content)
    if stop_reason == "":
        has_call = any(block.get("type") == "tool_use" for block in blocks)
        stop_reason = "tool_use" if has_call else "end_turn"
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
    """Return a tool's result of the call *call_id*; *detail* is its structured result."""
    block: Fields = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    if failed:
        block["is_error"] = True
    fields: Fields = {"type": "user", "message": {"role": "user", "content": [block]}}
    if detail is not None:
        fields["toolUseResult"] = detail
    return fields


def system(content: str, *, subtype: str = "informational", level: str = "info") -> Fields:
    """Return a note of the program itself."""
    return {"type": "system", "subtype": subtype, "content": _text(content), "level": level}


def summary(words: str, *, leaf_uuid: str) -> Fields:
    """Return a summary of the thread that ends in *leaf_uuid*."""
    return {"type": "summary", "summary": _text(words), "leafUuid": leaf_uuid}


def queue_operation(
    operation: Literal["enqueue", "dequeue", "remove", "popAll"], content: str | None = None
) -> Fields:
    """Return a queue operation: a prompt entered or left the queue."""
    fields: Fields = {"type": "queue-operation", "operation": operation}
    return fields if content is None else fields | {"content": content}


def title(words: str) -> Fields:
    """Return a title given by a person."""
    return {"type": "custom-title", "customTitle": _text(words)}


def tag(word: str) -> Fields:
    """Return a tag for the session; an empty one clears it."""
    return {"type": "tag", "tag": _text(word)}


def labels(called: str | None, tagged: str | None) -> list[Fields]:
    """Return the records that set title and tag; None leaves one as it is."""
    records = [title(called)] if called is not None else []
    return records if tagged is None else [*records, tag(tagged)]


def text(words: str) -> Fields:
    """Return a text block."""
    return {"type": "text", "text": _text(words)}


def thinking(words: str, signature: str = "") -> Fields:
    """Return a thinking block."""
    return {"type": "thinking", "thinking": _text(words), "signature": signature}


def call(name: str, arguments: Mapping[str, Any], *, call_id: str | None = None) -> Fields:
    """Return a tool call block."""
    made = call_id or f"toolu_{uuid4().hex}"
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"a tool's input is an object, not a {type(arguments).__name__}",
            hint='such as {"command": "ls"}',
        )
    return {"type": "tool_use", "id": made, "name": _text(name), "input": dict(arguments)}


def _blocks(content: Iterable[Block]) -> list[Fields]:
    """Return the blocks of a message as dicts; raise if they are anything else."""
    is_one = isinstance(content, bytes | Mapping) or not isinstance(content, Iterable)
    given: list[Any] = [content] if is_one else list(content)
    for block in given:
        if not isinstance(block, Mapping):
            raise UsageError(
                f"a message is text or a list of blocks, not a {type(block).__name__}",
                hint="decode bytes; build.text, build.call and others make blocks",
            )
    return [dict(block) for block in given]


def _text(words: str) -> str:
    if not isinstance(words, str):
        raise UsageError(f"a {type(words).__name__} is not text", hint="pass a str")
    return words
