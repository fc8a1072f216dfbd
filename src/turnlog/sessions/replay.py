"""A session as an API would take it: messages in turn, calls and results in pairs.

The log tells what happened; an API insists on form. In the view, and only there, the parts of one
response become one message, results stand right behind their calls, a call that nobody answered
gets a result that says so, a result without its call is dropped, and so are messages without
content. The log is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from turnlog.records.record import Assistant, Call, Record, Result, User

INTERRUPTED: Final = "[No result: the call was interrupted.]"
OMITTED: Final = "[{} earlier messages omitted for performance. Full history available.]"

Message = dict[str, Any]


def replay(records: Iterable[Record], *, last: int | None = None) -> list[Message]:
    """Give the messages of a thread's *records*; of many only the *last*, with a word on the rest.

    Cutting never parts a call from its result: the view begins at the next message a human said.
    """
    messages = _balanced(_merged(records))
    if last is None or len(messages) <= last:
        return messages
    start = len(messages) - last
    while start < len(messages) and not _is_prompt(messages[start]):
        start += 1
    marker = {"role": "user", "content": [_text(OMITTED.format(start))]}
    return _merged_roles([marker, *messages[start:]])


def _merged(records: Iterable[Record]) -> list[Message]:
    """Turn records into messages; parts of one response, and results in a row, are one."""
    messages: list[Message] = []
    part_of: str | None = None
    for record in records:
        if isinstance(record, User) and _is_for_people_only(record):
            continue
        role = "assistant" if isinstance(record, Assistant | Call) else "user"
        response = record.message.id if isinstance(record, Assistant) and record.message else None
        blocks = _blocks(record)
        if not blocks:
            continue
        same = messages and messages[-1]["role"] == role
        # A call that is a record of its own belongs to the response before it.
        joins = role == "user" or isinstance(record, Call)
        if same and (joins or (response is not None and response == part_of)):
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
        part_of = part_of if isinstance(record, Call) else response
    return messages


def _is_for_people_only(record: User) -> bool:
    """A summary is marked like that too, but stands for all that it sums up."""
    return bool(record.is_visible_in_transcript_only) and not record.is_compact_summary


def _blocks(record: Record) -> list[Message]:
    if isinstance(record, Call):
        asked = record.input if isinstance(record.input, dict) else {}
        return [{"type": "tool_use", "id": record.call_id, "name": record.name, "input": asked}]
    if isinstance(record, Result):
        answer = record.content if isinstance(record.content, str) else str(record.content)
        block = {"type": "tool_result", "tool_use_id": record.call_id, "content": answer}
        return [block | {"is_error": True} if record.is_error else block]
    if not isinstance(record, User | Assistant):
        return []
    if record.dialect != "claude":
        return [{"type": "text", "text": record.text}] if record.text.strip() else []
    content = record.fields.get("message", {}).get("content")
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    kept = []
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and not str(block.get("text") or "").strip():
            continue
        if block.get("type") == "thinking" and not block.get("signature"):
            continue  # An API takes back only what it has signed.
        kept.append(block)
    return kept


def _balanced(messages: Sequence[Message]) -> list[Message]:
    """Put every result behind its call; answer the calls that nobody did; drop the rest."""
    answers: dict[str, Message] = {}
    for message in messages:
        for block in message["content"]:
            if block.get("type") == "tool_result" and isinstance(block.get("tool_use_id"), str):
                answers.setdefault(block["tool_use_id"], block)
    balanced: list[Message] = []
    for message in messages:
        rest = [block for block in message["content"] if block.get("type") != "tool_result"]
        calls = [block for block in rest if block.get("type") == "tool_use"]
        if rest:
            balanced.append({"role": message["role"], "content": rest})
        if calls:
            results = [answers.get(str(call.get("id"))) or _interrupted(call) for call in calls]
            balanced.append({"role": "user", "content": results})
    return _merged_roles(balanced)


def _merged_roles(messages: Iterable[Message]) -> list[Message]:
    """Join neighbours of one role, as an API wants turns to alternate."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            joined[-1] = {
                "role": message["role"],
                "content": [*joined[-1]["content"], *message["content"]],
            }
        else:
            joined.append(message)
    return joined


def _interrupted(call: Message) -> Message:
    return {
        "type": "tool_result",
        "tool_use_id": call.get("id"),
        "content": INTERRUPTED,
        "is_error": True,
    }


def _is_prompt(message: Message) -> bool:
    return message["role"] == "user" and not any(
        block.get("type") == "tool_result" for block in message["content"]
    )


def _text(words: str) -> Message:
    return {"type": "text", "text": words}
