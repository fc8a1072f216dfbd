"""Appends that wait in memory and reach the disk together.

They go every few seconds, or when enough of them wait. This is the weakest durability, chosen by
name: a crash loses what waits; a clean exit, ``close``, SIGTERM and SIGHUP do not. What reaches the
disk gets there the way LogWriter does it: one write, synced. If that fails, the records keep
waiting and the caller is told, at the latest by the next call.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from turnlog.errors import ClosedLog, StorageFull, TurnlogError
from turnlog.log.closing import Closing
from turnlog.log.telling import logger
from turnlog.log.writer import LogWriter
from turnlog.records.record import Record

EVERY_SECONDS: Final = 5.0
MAX_RECORDS: Final = 500
MAX_BYTES: Final = 1024 * 1024

T = TypeVar("T")

_open_buffers: weakref.WeakSet[Buffer[Any]] = weakref.WeakSet()


class Buffer(Generic[T]):
    """Holds what waits, and hands all of it to *save* every *every_seconds*, or sooner when much.

    If *save* fails, everything keeps waiting, unless *written*, which counts what reached the log,
    says that this did.
    """

    def __init__(
        self,
        save: Callable[[list[T]], object],
        *,
        name: object,
        written: Callable[[], int] = int,
        every_seconds: float = EVERY_SECONDS,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._save = save
        self._name = name
        self._written = written
        self._every = every_seconds
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._waiting: list[T] = []
        self._waiting_bytes = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._closed = False
        self._failure: TurnlogError | None = None
        self._saver: threading.Thread | None = None
        _open_buffers.add(self)
        _drain_on_signals()

    def __len__(self) -> int:
        with self._lock:  # What is being saved waits until it is.
            return len(self._waiting)

    def take(self, things: Sequence[T], size_bytes: int) -> None:
        """Let *things* wait. An error means that none of them does."""
        with _Undisturbed(), self._lock:
            if self._closed:
                raise ClosedLog(f"{self._name} is closed", hint="open it again")
            self._raise_failure()
            if len(self._waiting) >= self._max_records or self._waiting_bytes >= self._max_bytes:
                self._drain()
            self._waiting += things
            self._waiting_bytes += size_bytes
            if self._saver is None:
                self._saver = threading.Thread(
                    target=self._save_again_and_again, daemon=True, name="turnlog-save"
                )
                self._saver.start()

    def flush(self) -> None:
        """Return when nothing waits any more."""
        with _Undisturbed(), self._lock:
            self._failure = None
            self._drain()

    def close(self, then: Callable[[], object]) -> None:
        """Save what waits, *then* do the rest. If saving fails it stays open."""
        with _Undisturbed(), self._lock:
            if self._closed:
                return
            self.flush()
            self._closed = True
            self._wake.set()
            then()

    def _drain(self) -> None:
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        size, self._waiting_bytes = self._waiting_bytes, 0
        before = self._written()
        try:
            self._save(batch)
        except BaseException:
            # An interrupt may come after the write; what is in the log must not be written twice.
            if self._written() == before:
                self._waiting = batch + self._waiting
                self._waiting_bytes += size
            raise

    def _save_again_and_again(self) -> None:
        while not self._wake.wait(self._every):
            with self._lock:
                try:
                    self._drain()
                except TurnlogError as error:
                    logger.error("%s: not saved: %s", self._name, error)
                    self._failure = error

    def _raise_failure(self) -> None:
        failure = self._failure
        if isinstance(failure, StorageFull):  # There may be room by now; the rest does not heal.
            self._failure = None
        if failure is not None:
            raise failure

    def _after_fork_in_child(self) -> None:
        """What waits is the parent's to save."""
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._waiting = []
        self._waiting_bytes = 0
        self._saver = None


class BufferedLog(Closing):
    """Gathers records and hands them to *writer* every *every_seconds*, or sooner when many."""

    def __init__(
        self,
        writer: LogWriter,
        *,
        every_seconds: float = EVERY_SECONDS,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._writer = writer
        self._buffer: Buffer[bytes] = Buffer(
            writer.append_lines,
            name=writer.path,
            written=lambda: writer.written,
            every_seconds=every_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    @property
    def path(self) -> os.PathLike[str]:
        """Where the log lies."""
        return self._writer.path

    @property
    def waiting(self) -> int:
        """How many records are not on disk yet."""
        return len(self._buffer)

    def append(self, record: Record | Mapping[str, Any]) -> None:
        """Take *record*; it reaches the disk soon. An error means that it was not taken."""
        self.append_many((record,))

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> None:
        """Take *records*; they reach the disk soon. An error means that none was taken."""
        lines = self._writer.lines_of(records)
        self._buffer.take(lines, sum(map(len, lines)))

    def flush(self) -> None:
        """Return when everything taken so far is on disk."""
        self._buffer.flush()

    def close(self) -> None:
        """Save what waits, then close. If saving fails the log stays open, to be closed again."""
        self._buffer.close(self._writer.close)


def drain_all() -> None:
    """Save what waits anywhere."""
    for each in list(_open_buffers):
        try:
            each.flush()
        except TurnlogError as error:
            logger.error("not saved at exit: %s", error)


atexit.register(drain_all)


def _reset_in_child() -> None:
    _Undisturbed.depth, _Undisturbed.waiting = 0, None  # The thread that was at it stayed behind.
    for each in list(_open_buffers):
        each._after_fork_in_child()  # noqa: SLF001 - this module's own.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


class _Undisturbed:
    """Keeps signals waiting while records are between memory and disk.

    Signals are handled in the main thread, between any two steps of it: without this, one of them
    could come after a batch left the buffer and before it is in the log, or before that is known.
    """

    depth = 0
    waiting: int | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _Undisturbed.depth += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if threading.current_thread() is threading.main_thread():
            _Undisturbed.depth -= 1
            number, _Undisturbed.waiting = _Undisturbed.waiting, None
            if number is not None and _Undisturbed.depth == 0:
                _exit_orderly(number, None)


def _drain_on_signals() -> None:
    """Turn a signal that would end the process on the spot into an orderly exit."""
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        number = getattr(signal, name, None)
        usual = (signal.SIG_DFL, signal.default_int_handler)
        if number is not None and signal.getsignal(number) in usual:
            signal.signal(number, _exit_orderly)


def _exit_orderly(number: int, _frame: FrameType | None) -> None:
    if _Undisturbed.depth:
        _Undisturbed.waiting = number
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise SystemExit(128 + number)
