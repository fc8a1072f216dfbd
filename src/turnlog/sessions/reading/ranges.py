"""Ranges of a thread in steps, and a thread as API messages (``replay``).

A step is a prompt, a response with all its records, or a result. Other records (notes, attachments,
injected text) are not counted and stay with the step they follow. A range is a contiguous part of
the thread, and what was left out adds up with it to the whole. It works for nodes of a tree and for
records.

``replay`` returns messages in the form an API requires: the parts of a response become one message,
results directly follow their calls, a call without a result gets one that says so, and results
without a call and empty messages are dropped. The log is never changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.records.record import Assistant, Call, Linked, Record, Result, User
from turnlog.sessions.reading.tree import Node

INTERRUPTED: Final = "[No result: the call was interrupted.]"
OMITTED: Final = "[{} earlier messages omitted for performance. Full history available.]"

Message = dict[str, Any]


def replay(records: Iterable[Record], *, last: int | None = None) -> list[Message]:
    """Return the messages of a thread's *records*; at most the *last*, with a note on the rest.

    A call is never separated from its result: the view begins at the next human message.
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
    """Convert records to messages; parts of one response, and consecutive results, are one."""
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
    """Return whether a record is only for people. Summaries are marked like that too, but count."""
    return bool(record.is_visible_in_transcript_only) and not record.is_compact_summary


def _blocks(record: Record) -> list[Message]:
    if isinstance(record, Call):
        arguments = record.input if isinstance(record.input, dict) else {}
        return [{"type": "tool_use", "id": record.call_id, "name": record.name, "input": arguments}]
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
            continue  # An API accepts only thinking that it has signed.
        kept.append(block)
    return kept


def _balanced(messages: Sequence[Message]) -> list[Message]:
    """Put every result after its call; answer calls without a result; drop the rest."""
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
    """Join neighbours with the same role, since an API requires them to alternate."""
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


T = TypeVar("T", Node, Record)

_Key = tuple[str, str | None]
_STEPS: Final = frozenset({"user", "assistant", "tool_use", "tool_call", "tool_result"})


class ThreadRange(Struct, Generic[T], frozen=True):
    """A range of a thread: its steps from *first* up to *stop* (exclusive) of *total*."""

    items: list[T]
    first: int
    stop: int
    total: int

    @property
    def earlier(self) -> int:
        """The number of steps left out before it."""
        return self.first

    @property
    def later(self) -> int:
        """The number of steps left out after it."""
        return self.total - self.stop

    @property
    def marker(self) -> str | None:
        """The text that replaces the steps left out before it; None if there are none."""
        return OMITTED.format(self.earlier) if self.earlier else None


def part_of(
    items: Iterable[T],
    *,
    last: int | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> ThreadRange[T]:
    """Return the *last* steps, or those after the first *offset*, at most *limit*."""
    if last is not None and (offset is not None or limit is not None):
        raise UsageError(
            "last counts from the end, offset and limit from the beginning",
            hint="give last alone, or offset and limit",
        )
    for name, number in (("last", last), ("offset", offset), ("limit", limit)):
        if number is not None and number < 0:
            raise UsageError(f"{name} is {number}", hint="give a number of steps, 0 or more")
    if last is not None:
        return last_of(items, last)
    first = offset or 0
    return range_of(items, first, None if limit is None else first + limit)


def range_of(items: Iterable[T], first: int | None, stop: int | None) -> ThreadRange[T]:
    """Return the steps from *first* up to *stop* (exclusive), counted as in a slice.

    The first is number 0, negative numbers count from the end, and None means no limit.
    """
    thread = list(items)
    seen: set[_Key] = set()
    starts: list[int] = [index for index, item in enumerate(thread) if _begins(item, seen)]
    start, end, _ = slice(first, stop).indices(len(starts))
    end = max(start, end)
    if not starts:
        return ThreadRange(thread, 0, 0, 0)
    # Records before the first step belong to it, and records after the last step to that.
    edges = [0, *starts[1:], len(thread)]
    return ThreadRange(thread[edges[start] : edges[end]], start, end, len(starts))


def last_of(items: Iterable[T], count: int) -> ThreadRange[T]:
    """Return the last *count* steps, holding no more than those at a time."""
    held: deque[tuple[bool, T]] = deque()
    seen: set[_Key] = set()
    begun = total = 0
    for item in items:
        is_new = _begins(item, seen)
        held.append((is_new, item))
        begun += is_new
        total += is_new
        while begun > count:
            begun -= held.popleft()[0]
            while held and not held[0][0]:
                held.popleft()
    kept = [item for _, item in held] if count or not total else []
    return ThreadRange(kept, total - begun, total, total)


def count_steps(items: Iterable[T]) -> int:
    """Count the steps of a thread or a log; parts of one response count once."""
    seen: set[_Key] = set()
    return sum(_begins(item, seen) for item in items)


def numbered(items: Iterable[T]) -> Iterator[tuple[int | None, T]]:
    """Yield each item with the number of the step that it begins, or None."""
    seen: set[_Key] = set()
    number = 0
    for item in items:
        is_new = _begins(item, seen)
        yield number if is_new else None, item
        number += is_new


def _begins(item: Node | Record, seen: set[_Key]) -> bool:
    """Return whether *item* is the first of a step, and remember it."""
    if item.type not in _STEPS or (isinstance(item, Node | Linked) and item.is_meta):
        return False
    if isinstance(item, Node):
        response: str | None = item.message_id
    else:
        message = item.message if isinstance(item, Assistant) else None
        response = message.id if message else None
    # A duplicate record, as resuming once wrote, is one record.
    key = ("response", response) if response else ("record", item.uuid)
    if key in seen:
        return False
    if key[1] is not None:
        seen.add(key)
    return True
