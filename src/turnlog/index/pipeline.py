"""Logs are read by another process while this one writes what was found.

Decoding and inserting take about the same time, so two cores halve the wait. Both take logs from
one queue: the other process always, this one whenever it would have to wait. Only where it is safe
(see ``processes``); elsewhere, and for whatever the other process left undone, the logs are read
here. Either way the same chunks come, those of one log in their order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, Final

import msgspec

from turnlog.index.chunks import Chunk, Work
from turnlog.index.processes import can_fork
from turnlog.index.reading import chunks_of

_LENGTH_BYTES: Final = 8
_PIPE_BYTES: Final = 1024 * 1024
# So far the reading process may run ahead.
_AHEAD_BYTES: Final = 80 * 1024 * 1024
# Below this a second process costs more time than it saves.
_WORTH_A_PROCESS_BYTES: Final = 4_000_000
# So many entries fit into a pipe wherever there are pipes.
_MOST_ENTRIES: Final = 2_000
_ENTRY_BYTES: Final = 4

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Chunk).decode


def read_all(works: Sequence[Work], size_bytes: int) -> Iterator[Chunk]:
    """Read every log of *works*, which hold about *size_bytes* that are new."""
    left = {work.id: work for work in works}
    if size_bytes >= _WORTH_A_PROCESS_BYTES and can_fork():
        for chunk in _read_together(works):
            yield chunk
            work = left.pop(chunk.log)
            if not chunk.is_last:
                left[work.id] = _rest_of(work, chunk)
    for work in left.values():
        yield from chunks_of(work)


def _rest_of(work: Work, read: Chunk) -> Work:
    """Give what is left of a log when the other process has ended in the middle of it."""
    return msgspec.structs.replace(work, start=read.bookmark.offset, folded=read.folded)


def _read_together(works: Sequence[Work]) -> Iterator[Chunk]:
    """Give the chunks that another process reads, and read where none waits."""
    queue = _Queue(works)
    here, there = os.pipe()
    _widen(there)
    child = os.fork()
    if not child:
        try:
            os.close(here)
            _answer(queue, there)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(there)
    pipe = os.fdopen(here, "rb", buffering=1024 * 1024)
    waiting = _Ahead()
    reader = threading.Thread(target=_receive, args=(pipe, waiting), daemon=True)
    reader.start()
    try:
        while True:
            while waiting.is_empty and (some := queue.take()):
                for work in some:
                    yield from chunks_of(work)
            chunk = waiting.get()
            if chunk is None:
                return
            yield chunk
    finally:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
        waiting.close()
        reader.join()
        pipe.close()
        queue.close()
        with suppress(OSError):
            os.waitpid(child, 0)


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


class _Ahead:
    """What was received and not yet taken; no more of it than a number of bytes."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[Chunk | None, int]] = deque()
        self._bytes = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, chunk: Chunk | None, size_bytes: int = 0) -> None:
        with self._changed:
            while self._bytes > _AHEAD_BYTES and not self._is_closed:
                self._changed.wait()
            self._chunks.append((chunk, size_bytes))
            self._bytes += size_bytes
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        return not self._chunks

    def get(self) -> Chunk | None:
        with self._changed:
            while not self._chunks:
                self._changed.wait()
            chunk, size_bytes = self._chunks.popleft()
            self._bytes -= size_bytes
            self._changed.notify_all()
            return chunk

    def close(self) -> None:
        """Let go of whoever waits for room."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _answer(queue: _Queue, there: int) -> None:
    """Read as the other process does: every chunk goes into the pipe."""
    with os.fdopen(there, "wb", buffering=0) as pipe:
        while some := queue.take():
            for work in some:
                for chunk in chunks_of(work):
                    data = _pack(chunk)
                    _write_all(pipe, len(data).to_bytes(_LENGTH_BYTES, "big"))
                    _write_all(pipe, data)


def _widen(pipe: int) -> None:
    """Let a pipe hold more at once, where that can be: its ends wait for each other less often."""
    with suppress(ImportError, AttributeError, OSError):
        from fcntl import F_SETPIPE_SZ, fcntl  # noqa: PLC0415 - Not everywhere.

        fcntl(pipe, F_SETPIPE_SZ, _PIPE_BYTES)


def _write_all(pipe: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) or 0 :]


def _receive(pipe: BinaryIO, waiting: _Ahead) -> None:
    """Take chunks from the pipe as long as whole ones come."""
    try:
        while len(head := pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
            length = int.from_bytes(head, "big")
            data = pipe.read(length)
            if len(data) < length:
                break
            waiting.put(_unpack(data), length)  # Here, while the other thread waits for SQLite.
    except (OSError, ValueError):
        pass  # Whatever did not arrive whole is read by the other one itself.
    finally:
        waiting.put(None)
