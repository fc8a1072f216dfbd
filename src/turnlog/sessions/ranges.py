"""Parts of a thread: the last steps, a page, a range; and a word on what was left out.

What is counted are steps: a prompt, a response with all the records that carry parts of it, a
result. Records between them (notes of the program, attachments, what it injected) are not counted
and stay with the step they follow. A part is always a run of the thread as it stands: nothing
is moved, and what is in it and what was left out add up to the whole.

The same works for nodes of a tree and for records. Ranges of a log are ``log.reader.read_range``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.records.record import Assistant, Linked, Record
from turnlog.sessions.replay import OMITTED
from turnlog.sessions.tree import Node

T = TypeVar("T", Node, Record)

_Key = tuple[str, str | None]
_STEPS: Final = frozenset({"user", "assistant", "tool_use", "tool_call", "tool_result"})


class Part(Struct, Generic[T], frozen=True):
    """A run of a thread: its steps number *first* up to, not including, *stop* of *total*."""

    items: list[T]
    first: int
    stop: int
    total: int

    @property
    def earlier(self) -> int:
        """How many steps were left out before it."""
        return self.first

    @property
    def later(self) -> int:
        """How many steps were left out behind it."""
        return self.total - self.stop

    @property
    def marker(self) -> str | None:
        """What to say in place of the steps left out before it; None if there are none."""
        return OMITTED.format(self.earlier) if self.earlier else None


def part_of(
    items: Iterable[T],
    *,
    last: int | None = None,
    offset: int | None = None,
    limit: int | None = None,
) -> Part[T]:
    """Give the *last* so many steps, or those behind the first *offset*, at most *limit*."""
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


def range_of(items: Iterable[T], first: int | None, stop: int | None) -> Part[T]:
    """Give the steps number *first* up to, not including, *stop*, as a slice counts them.

    The first is number 0, negative numbers count from the end, and None means as far as it goes.
    """
    thread = list(items)
    seen: set[_Key] = set()
    starts: list[int] = [index for index, item in enumerate(thread) if _begins(item, seen)]
    start, end, _ = slice(first, stop).indices(len(starts))
    end = max(start, end)
    if not starts:
        return Part(thread, 0, 0, 0)
    # What stands before the first step belongs to it, and what follows the last to that.
    edges = [0, *starts[1:], len(thread)]
    return Part(thread[edges[start] : edges[end]], start, end, len(starts))


def last_of(items: Iterable[T], count: int) -> Part[T]:
    """Give the last *count* steps, holding no more than those at a time."""
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
    return Part(kept, total - begun, total, total)


def count_steps(items: Iterable[T]) -> int:
    """Count the steps of a thread or a log; parts of one response count once."""
    seen: set[_Key] = set()
    return sum(_begins(item, seen) for item in items)


def numbered(items: Iterable[T]) -> Iterator[tuple[int | None, T]]:
    """Give each item with the number of the step that it begins; None if it begins none."""
    seen: set[_Key] = set()
    number = 0
    for item in items:
        is_new = _begins(item, seen)
        yield number if is_new else None, item
        number += is_new


def _begins(item: Node | Record, seen: set[_Key]) -> bool:
    """Tell whether *item* is the first of a step, and remember that it was met."""
    if item.type not in _STEPS or (isinstance(item, Node | Linked) and item.is_meta):
        return False
    if isinstance(item, Node):
        response: str | None = item.message_id
    else:
        said = item.message if isinstance(item, Assistant) else None
        response = said.id if said else None
    # A record that was written twice, as resuming once did, is one record all the same.
    key = ("response", response) if response else ("record", item.uuid)
    if key in seen:
        return False
    if key[1] is not None:
        seen.add(key)
    return True
