"""Logs are read by several processes at once, while one of them writes what all have found.

Reading takes longer than writing, so the one that writes reads too, whenever nothing waits for it.
All take logs from one queue and make batches of what they read, words and all; the others send
theirs through pipes. Only where it is safe (see ``processes``); what another process left undone is
read here. Whoever reads, the same chunks come, those of one log in their order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from mmap import mmap
from typing import BinaryIO, Final

import msgspec

from turnlog.index.batches import Batch, Gathering
from turnlog.index.chunks import Work
from turnlog.index.database import TEXT_BYTES_AT_ONCE
from turnlog.index.ids import LANES
from turnlog.index.processes import can_fork, processors
from turnlog.index.reading import chunks_of
from turnlog.index.writing import MOST_CHUNKS

_LENGTH_BYTES: Final = 8
_PIPE_BYTES: Final = 1024 * 1024
# So far the others may run ahead.
_AHEAD_BYTES: Final = 48 * 1024 * 1024
# Below this a second process costs more time than it saves.
_WORTH_A_PROCESS_BYTES: Final = 4_000_000
# So many entries fit into a pipe wherever there are pipes.
_MOST_ENTRIES: Final = 2_000
_ENTRY_BYTES: Final = 4
# The last batches are small, or all would wait for one when the logs are read: of the text that is
# left each process takes about this part at a time.
_PART_OF_REST: Final = 8
_LEAST_TEXT_BYTES: Final = 8 * 1024 * 1024
_COUNTER_BYTES: Final = 8

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Batch).decode


def is_worth_it(size_bytes: int) -> bool:
    """Tell whether so much is read faster by several processes, and they can be had."""
    return size_bytes >= _WORTH_A_PROCESS_BYTES and can_fork()


class Readers:
    """The reading of many logs by several processes."""

    def __init__(
        self,
        works: Sequence[Work],
        size_bytes: int,
        gathering: Callable[[int], Gathering],
        tell: Callable[[int], None],
    ) -> None:
        """Read *works*, which hold about *size_bytes* that are new.

        *gathering* makes batches whose ids are of any lane; *tell* is told how many bytes were read
        so far.
        """
        self._works, self._size_bytes = works, size_bytes
        self._gathering, self._tell = gathering, tell
        self._processes = min(LANES, max(2, processors()))
        self._most_text_bytes = TEXT_BYTES_AT_ONCE // self._processes
        self._read_bytes_by = _Counters(self._processes)
        self.left = {work.id: work for work in works}
        """What was in no batch that was taken."""

    def batches(self) -> Generator[Batch, None, None]:
        """Read every log. Whoever asks for the next batch has taken the one before."""
        queue = _Queue(self._works)
        with ExitStack() as endings:
            endings.callback(queue.close)
            children: list[_Child] = []
            endings.callback(_end, children)
            with suppress(OSError):  # As many as can be had.
                for lane in range(1, self._processes):
                    children.append(self._started(queue, lane, children))
            waiting = _Ahead(len(children))
            endings.callback(waiting.close)
            for child in children:  # Not before: who has threads does not fork.
                child.receive_into(waiting)
            gathering = self._gathering(0)
            for batch in self._shared(queue, waiting, gathering):
                yield batch
                self._strike_off(batch)
            for batch in self._gathered(list(self.left.values()), gathering):
                yield batch
                self._strike_off(batch)

    @property
    def read_bytes(self) -> int:
        """What all of them have read so far."""
        return self._read_bytes_by.total()

    def _shared(self, queue: _Queue, waiting: _Ahead, gathering: Gathering) -> Iterator[Batch]:
        """Give what the others send, and read where nothing waits."""
        while some := queue.take():
            yield from self._full(some, gathering)
            while not waiting.is_empty and (batch := waiting.get()):
                yield batch
        if gathering.chunks:
            yield gathering.batch()
        while batch := waiting.get():
            yield batch

    def _gathered(self, works: Iterable[Work], gathering: Gathering) -> Iterator[Batch]:
        """Read *works* to the end."""
        yield from self._full(works, gathering)
        if gathering.chunks:
            yield gathering.batch()

    def _full(self, works: Iterable[Work], gathering: Gathering, lane: int = 0) -> Iterator[Batch]:
        """Read *works* and give whatever is enough for a batch; the rest is gathered still."""
        for work in works:
            for chunk in chunks_of(work):
                gathering.add(chunk)
                self._read_bytes_by.add(lane, chunk.bookmark.offset - chunk.start)
                if not lane:
                    self._tell(self.read_bytes)
                if self._is_enough(gathering):
                    yield gathering.batch()

    def _is_enough(self, gathering: Gathering) -> bool:
        part = (self._size_bytes - self.read_bytes) // _PART_OF_REST
        enough_bytes = max(_LEAST_TEXT_BYTES, min(part, self._most_text_bytes))
        return gathering.text_bytes >= enough_bytes or len(gathering.chunks) >= MOST_CHUNKS

    def _started(self, queue: _Queue, lane: int, others: Iterable[_Child]) -> _Child:
        """Start a process that reads."""
        here, there = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(here)
            os.close(there)
            raise
        if pid:
            os.close(there)
            return _Child(pid, os.fdopen(here, "rb", buffering=_PIPE_BYTES))
        try:  # The child's own world: it never returns to the caller's.
            os.close(here)
            for other in others:  # Or it would never learn that nobody receives any more.
                other.pipe.close()
            _widen(there)
            with os.fdopen(there, "wb", buffering=0) as pipe:
                gathering = self._gathering(lane)
                while some := queue.take():
                    for batch in self._full(some, gathering, lane):
                        _send(batch, pipe)
                if gathering.chunks:
                    _send(gathering.batch(), pipe)
            os._exit(0)
        finally:
            os._exit(1)

    def _strike_off(self, batch: Batch) -> None:
        """Note that a batch was taken; if its reader ends now, what is left begins behind it."""
        for chunk in batch.chunks:
            work = self.left.pop(chunk.log)
            if not chunk.is_last:
                start, folded = chunk.bookmark.offset, chunk.folded
                self.left[work.id] = msgspec.structs.replace(work, start=start, folded=folded)


class _Child:
    """Another process that reads, and what it sends through."""

    def __init__(self, pid: int, pipe: BinaryIO) -> None:
        self.pid, self.pipe = pid, pipe
        self.receiver: threading.Thread | None = None

    def receive_into(self, waiting: _Ahead) -> None:
        """Take what it sends, however busy everybody else is."""
        work = (self.pipe, waiting)
        self.receiver = threading.Thread(target=_receive, args=work, daemon=True)
        self.receiver.start()


class _Queue:
    """Works that several processes take from, each of them taken once: the system sees to it.

    A pipe holds the number of every entry; an entry is a work, or a few where there are very many.
    """

    def __init__(self, works: Sequence[Work]) -> None:
        size = len(works) // _MOST_ENTRIES + 1
        self._entries = [works[at : at + size] for at in range(0, len(works), size)]
        self._numbers, full = os.pipe()
        try:
            numbers = range(len(self._entries))
            os.write(full, b"".join(each.to_bytes(_ENTRY_BYTES, "big") for each in numbers))
        finally:
            os.close(full)

    def take(self) -> Sequence[Work]:
        """Take the next entry; nothing if none is left."""
        number = os.read(self._numbers, _ENTRY_BYTES)
        return self._entries[int.from_bytes(number, "big")] if number else ()

    def close(self) -> None:
        os.close(self._numbers)


class _Counters:
    """A number for every process, in memory that all of them share; each adds to its own."""

    def __init__(self, processes: int) -> None:
        self._numbers = memoryview(mmap(-1, processes * _COUNTER_BYTES)).cast("q")

    def add(self, process: int, more: int) -> None:
        self._numbers[process] += more

    def total(self) -> int:
        return sum(self._numbers)


class _Ahead:
    """What was received and not yet taken; no more of it than a number of bytes."""

    def __init__(self, senders: int) -> None:
        self._senders = senders
        self._batches: deque[bytes] = deque()
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, packed: bytes) -> None:
        with self._changed:
            while self._bytes > _AHEAD_BYTES and not self._is_closed:
                self._changed.wait()
            self._batches.append(packed)
            self._bytes += len(packed)
            self._changed.notify_all()

    def end(self) -> None:
        """Note that one of the senders will send no more."""
        with self._changed:
            self._senders -= 1
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        return not self._batches

    def get(self) -> Batch | None:
        """Wait for a batch; None if no more will come."""
        with self._changed:
            while not self._batches and self._senders:
                self._changed.wait()
            if not self._batches:
                return None
            packed = self._batches.popleft()
            self._bytes -= len(packed)
            self._changed.notify_all()
        return _unpack(packed)

    def close(self) -> None:
        """Let go of whoever waits for room."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _send(batch: Batch, pipe: BinaryIO) -> None:
    data = _pack(batch)
    _write_all(pipe, len(data).to_bytes(_LENGTH_BYTES, "big"))
    _write_all(pipe, data)


def _receive(pipe: BinaryIO, waiting: _Ahead) -> None:
    """Take batches from a pipe as long as whole ones come."""
    try:
        while len(head := pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            length = int.from_bytes(head, "big")
            data = pipe.read(length)
            if len(data) < length:
                break
            waiting.put(data)
    except OSError:
        pass  # Whatever did not arrive whole is read by the other one itself.
    finally:
        waiting.end()


def _end(children: Iterable[_Child]) -> None:
    """End the children, whether or not they are done."""
    for child in children:
        with suppress(OSError):
            os.kill(child.pid, signal.SIGKILL)
    for child in children:
        if child.receiver is not None:
            child.receiver.join()
        child.pipe.close()
        with suppress(OSError):
            os.waitpid(child.pid, 0)


def _widen(pipe: int) -> None:
    """Let a pipe hold more at once, where that can be: its ends wait for each other less often."""
    with suppress(ImportError, AttributeError, OSError):
        from fcntl import F_SETPIPE_SZ, fcntl  # noqa: PLC0415 - Not everywhere.

        fcntl(pipe, F_SETPIPE_SZ, _PIPE_BYTES)


def _write_all(pipe: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]
