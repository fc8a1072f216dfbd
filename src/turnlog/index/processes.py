"""Child processes that share the work of this one.

    mine, *theirs = share_out(logs, 2, size_of)
    with Children(work, theirs) as children:
        ...
        for share, message in children.messages():
            ...

Children are forked, which is safe only on Linux and in a process with one thread: ask ``can_fork``
first. A child may be killed, so the caller does the shares for which nothing arrived.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from queue import Queue
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from turnlog.storage import Closing

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

T = TypeVar("T")

# How many messages a child makes before it waits for the parent.
_AHEAD: Final = 8


def share_out(items: Iterable[T], shares: int, size: Callable[[T], int]) -> list[list[T]]:
    """Divide *items* into shares of similar size; none but the first is empty."""
    parts: list[list[T]] = [[] for _ in range(max(1, shares))]
    weights = [0] * len(parts)
    for weight, item in sorted(((size(item), item) for item in items), key=lambda pair: -pair[0]):
        lightest = weights.index(min(weights))
        parts[lightest].append(item)
        weights[lightest] += max(1, weight)
    return [part for part in parts if part] or [[]]


class Children(Closing, Generic[T]):
    """One process for each share; each sends the messages that ``work(share)`` yields.

    No process is started for a share if the system allows no more.
    """

    def __init__(self, work: Callable[[T], Iterable[bytes]], shares: Sequence[T]) -> None:
        self._running: dict[Connection, tuple[T, ForkProcess]] = {}
        if not shares:
            return
        # Imported here: few commands have enough work to share.
        from multiprocessing import current_process  # noqa: PLC0415

        if current_process().daemon:  # Such a process may have no children.
            return
        with suppress(OSError):
            for share in shares:
                self._start(work, share)

    def _start(self, work: Callable[[T], Iterable[bytes]], share: T) -> None:
        from multiprocessing import get_context  # noqa: PLC0415 - As above.

        context = get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        receivers = [*self._running, receiver]
        child = context.Process(target=_run, args=(work, share, sender, receivers), daemon=True)
        try:
            child.start()
        except OSError:
            receiver.close()
            raise
        finally:
            sender.close()
        self._running[receiver] = share, child

    def messages(self) -> Iterator[tuple[T, bytes]]:
        """Yield each message with its share, as they arrive, until all children have ended."""
        if not self._running:
            return
        from multiprocessing.connection import wait  # noqa: PLC0415 - As above.

        while self._running:
            for receiver in cast("list[Connection]", wait(self._running)):
                share, _ = self._running[receiver]
                try:
                    message = receiver.recv_bytes()
                except (EOFError, OSError):
                    self._end(receiver)
                else:
                    yield share, message

    def close(self) -> None:
        """Kill the children that are still running."""
        for receiver in list(self._running):
            self._end(receiver)

    def _end(self, receiver: Connection) -> None:
        _, child = self._running.pop(receiver)
        receiver.close()
        child.kill()
        child.join()
        child.close()


def can_fork() -> bool:
    """Return whether a forked copy of this process works: other threads may hold locks."""
    return sys.platform == "linux" and threading.active_count() == 1


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(
    work: Callable[[T], Iterable[bytes]],
    share: T,
    sender: Connection,
    receivers: Iterable[Connection],
) -> None:
    """Do the work of a child."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends the children.
    for receiver in receivers:  # Or writing would not fail after the parent has gone.
        receiver.close()
    outbox: Queue[bytes | None] = Queue(_AHEAD)
    thread = threading.Thread(target=_send, args=(outbox, sender), daemon=True)
    thread.start()
    try:
        for message in work(share):
            outbox.put(message)
    except Exception:  # noqa: BLE001 - The parent does the share itself and meets the error there.
        os._exit(1)
    outbox.put(None)
    thread.join()


def _send(outbox: Queue[bytes | None], sender: Connection) -> None:
    try:
        while (message := outbox.get()) is not None:
            sender.send_bytes(message)
    except OSError:  # The parent has gone.
        os._exit(1)
