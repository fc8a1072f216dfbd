"""Work shared out among processes, for those who have the cores and are in a hurry.

    first, *others = share_out(logs, 2, size_of)
    with Children(work, others) as children:
        mine = work(first)
        theirs = list(children.answers())

Only where it is safe and quick: by forking, on Linux, from a process of one thread. Elsewhere, and
for whatever a child did not finish, the work is done here; the answers are the same. Children read
and answer, hold nothing, and do not outlive their parent's interest in them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from turnlog.log.closing import Closing

T = TypeVar("T")

_LENGTH_BYTES: Final = 8


def share_out(items: Iterable[T], shares: int, size: Callable[[T], int]) -> list[list[T]]:
    """Part *items* into shares of about the same size; at least one, and no other one empty."""
    parts: list[list[T]] = [[] for _ in range(max(1, shares))]
    weights = [0] * len(parts)
    for weight, item in sorted(((size(item), item) for item in items), key=lambda pair: -pair[0]):
        lightest = weights.index(min(weights))
        parts[lightest].append(item)
        weights[lightest] += max(1, weight)
    return [part for part in parts if part] or [[]]


class Children(Closing, Generic[T]):
    """Processes that do the same *work*, each for its share."""

    def __init__(self, work: Callable[[Sequence[T]], bytes], shares: Iterable[Sequence[T]]) -> None:
        self._work = work
        self._waiting: list[tuple[Sequence[T], int, int]] = []
        self._undone: list[Sequence[T]] = []
        for share in shares:
            if can_fork():
                self._waiting.append((share, *_start(work, share)))
            else:
                self._undone.append(share)

    def answers(self) -> Iterator[bytes]:
        """Give every child's answer when it is there, and those that only we can give."""
        while self._waiting:
            share, child, pipe = self._waiting[0]
            with os.fdopen(pipe, "rb", closefd=False) as file:
                length, answer = file.read(_LENGTH_BYTES), file.read()
            self._waiting.pop(0)
            _end(child, pipe)
            if len(length) == _LENGTH_BYTES and int.from_bytes(length, "big") == len(answer):
                yield answer
            else:
                self._undone.append(share)
        while self._undone:
            yield self._work(self._undone.pop(0))

    def close(self) -> None:
        """End the children nobody waits for any more."""
        while self._waiting:
            _, child, pipe = self._waiting.pop()
            _end(child, pipe)


def can_fork() -> bool:
    """Tell whether a copy of this process can be trusted to work."""
    return sys.platform == "linux" and threading.active_count() == 1


def processors() -> int:
    """Tell how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start(work: Callable[[Sequence[T]], bytes], share: Sequence[T]) -> tuple[int, int]:
    """Start a child that does *work* for *share*; give its id and where it will answer."""
    here, there = os.pipe()
    child = os.fork()
    if child:
        os.close(there)
        return child, here
    try:  # The child's own world: it never returns to the caller's.
        os.close(here)
        answer = work(share)
        with os.fdopen(there, "wb") as pipe:
            pipe.write(len(answer).to_bytes(_LENGTH_BYTES, "big"))
            pipe.write(answer)
        os._exit(0)
    finally:
        os._exit(1)


def _end(child: int, pipe: int) -> None:
    """Let go of a child, whether it has answered or not."""
    os.close(pipe)
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(child, 0)
