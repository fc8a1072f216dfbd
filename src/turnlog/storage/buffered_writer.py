"""Buffered appends: records wait in memory and are written together. Also ``open_log``.

This is the weakest durability and must be requested: a crash (SIGKILL, ``os._exit``, power loss)
loses the waiting records. An orderly end does not: ``close``, exit of the interpreter or of a
multiprocessing child, SIGTERM, SIGHUP and SIGINT all write them, in one synced write. If a write
fails, the records keep waiting and the next call at the latest raises the error.

A record may wait only while every orderly end would save it. It is written at once when the process
has begun to exit, and when no signal handler is installed: handlers can be installed only in the
main thread, and not in a child of multiprocessing.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, Generic, Literal, TypeVar, overload

from turnlog import __version__
from turnlog.errors import ClosedLog, StorageFull, TurnlogError
from turnlog.records.annotations import format_marker
from turnlog.records.record import Record
from turnlog.storage import Closing
from turnlog.storage.locks import interrupted, is_owned, refuse_if_abandoned
from turnlog.storage.logger import logger
from turnlog.storage.sources import LINE_CAP
from turnlog.storage.writer import LOCK_TIMEOUT, LogWriter

EVERY_SECONDS: Final = 5.0
MAX_RECORDS: Final = 500
MAX_BYTES: Final = 1024 * 1024

_ENDING: Final = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, name)
)

_DEFAULT_HANDLERS: Final = {signal.SIGINT: signal.default_int_handler}

T = TypeVar("T")

_open_buffers: weakref.WeakSet[Buffer[Any]] = weakref.WeakSet()


class Buffer(Generic[T]):
    """Holds waiting items and passes them to *save* every *every_seconds*, or earlier if many wait.

    If *save* fails, everything keeps waiting, unless *written*, a count of completed writes, shows
    that the items reached the log.
    """

    def __init__(
        self,
        save: Callable[[list[T]], object],
        *,
        path: os.PathLike[str],
        written: Callable[[], int] = int,
        every_seconds: float = EVERY_SECONDS,
        max_records: int = MAX_RECORDS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._save = save
        self._path = path
        self._written = written
        self._every = every_seconds
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._waiting: list[T] = []
        self._bytes = 0
        self._lock = threading.RLock()
        self._ownership = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._closed = False
        self._failure: TurnlogError | None = None
        self._saver: threading.Thread | None = None
        _open_buffers.add(self)
        _handle_signals()

    def __len__(self) -> int:
        with self._lock:  # Items being saved count as waiting until they are written.
            return len(self._waiting)

    def take(self, things: Sequence[T], size_bytes: int) -> None:
        """Buffer *things* or save them at once. On an error, none of them was accepted."""
        is_inside = is_owned(self._ownership)  # The enclosing call, or the next one, saves them.
        refuse_if_abandoned(self._lock, self._path)
        with _Undisturbed(), self._lock:
            if self._closed:
                raise ClosedLog(f"{self._path} is closed", hint="open it again")
            self._raise_failure()
            waits = is_inside or (_may_wait() and self._has_saver())
            is_full = len(self._waiting) >= self._max_records or self._bytes >= self._max_bytes
            if not waits or (is_full and not is_inside):
                self._drain()
            self._waiting.extend(things)  # In place: a nested call may extend it, too.
            self._bytes += size_bytes
            if not waits:
                self._drain_new(things)

    def flush(self) -> None:
        """Save everything that waits."""
        if is_owned(self._ownership):
            raise interrupted(self._path)
        refuse_if_abandoned(self._lock, self._path)
        with _Undisturbed(), self._lock:
            self._failure = None
            self._drain()

    def close(self, then: Callable[[], object]) -> None:
        """Save what waits, then call *then*. If saving fails, the buffer stays open."""
        with _Undisturbed():
            self.flush()
            with self._lock:
                if self._closed:
                    return
                self._closed = True
                try:
                    self._drain()  # Items accepted since the flush.
                except BaseException:
                    self._closed = False
                    raise
                self._wake.set()
                then()

    def _has_saver(self) -> bool:
        """Start the saving thread if there is none; return whether it runs."""
        if self._saver is None:
            saver = threading.Thread(
                target=self._save_periodically, daemon=True, name="turnlog-save"
            )
            try:
                saver.start()
            except RuntimeError:  # No more threads, or the interpreter is shutting down.
                return False
            self._saver = saver
        return True

    def _drain(self) -> None:
        while self._waiting:
            count, before, is_saved = len(self._waiting), self._written(), False
            try:
                self._save(self._waiting[:count])
                is_saved = True
            finally:
                # An interrupt may come after the write: do not write the same records twice.
                if is_saved or self._written() != before:
                    del self._waiting[:count]
                    self._bytes = 0

    def _drain_new(self, things: Sequence[T]) -> None:
        """Save *things*, the only waiting items; on failure they do not wait any more."""
        try:
            self._drain()
        except BaseException:
            if things and self._waiting and self._waiting[0] is things[0]:
                del self._waiting[: len(things)]
            raise

    def _save_periodically(self) -> None:
        while not self._wake.wait(self._every) and not _Exit.has_begun:
            with self._lock:
                try:
                    self._drain()
                except TurnlogError as error:
                    logger.error("%s: not saved: %s", self._path, error)
                    self._failure = error

    def _raise_failure(self) -> None:
        failure = self._failure
        if isinstance(failure, StorageFull):  # There may be room by now; other failures are final.
            self._failure = None
        if failure is not None:
            raise failure

    def _after_fork_in_child(self) -> None:
        """Drop what waits: the parent saves it."""
        self._lock = threading.RLock()
        self._ownership = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._waiting = []
        self._bytes = 0
        self._saver = None


class BufferedLog(Closing):
    """Collects records and passes them to *writer* every *every_seconds*, or if many wait."""

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
            path=writer.path,
            written=lambda: writer.written,
            every_seconds=every_seconds,
            max_records=max_records,
            max_bytes=max_bytes,
        )

    @property
    def path(self) -> os.PathLike[str]:
        """The path of the log."""
        return self._writer.path

    @property
    def waiting(self) -> int:
        """The number of records not yet on disk."""
        return len(self._buffer)

    def append(self, record: Record | Mapping[str, Any]) -> None:
        """Accept *record*, to be written soon. On an error, it was not accepted."""
        self.append_many((record,))

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> None:
        """Accept *records*, to be written soon. On an error, none was accepted."""
        lines = self._writer.lines_of(records)
        self._buffer.take(lines, sum(map(len, lines)))

    def flush(self) -> None:
        """Return when everything accepted so far is on disk."""
        self._buffer.flush()

    def close(self) -> None:
        """Save what waits, then close. If saving fails, the log stays open; close it again."""
        self._buffer.close(self._writer.close)


@overload
def open_log(
    path: str | os.PathLike[str],
    *,
    durability: Literal["fsync", "flush"] = "fsync",
    create: bool = True,
    lock_timeout: float | None = LOCK_TIMEOUT,
    root: str | os.PathLike[str] | None = None,
    line_cap: int = LINE_CAP,
    allow_network_filesystem: bool = False,
) -> LogWriter: ...
@overload
def open_log(
    path: str | os.PathLike[str],
    *,
    durability: Literal["buffered"],
    create: bool = True,
    lock_timeout: float | None = LOCK_TIMEOUT,
    root: str | os.PathLike[str] | None = None,
    line_cap: int = LINE_CAP,
    allow_network_filesystem: bool = False,
) -> BufferedLog: ...
def open_log(
    path: str | os.PathLike[str],
    *,
    durability: Literal["fsync", "flush", "buffered"] = "fsync",
    create: bool = True,
    lock_timeout: float | None = LOCK_TIMEOUT,
    root: str | os.PathLike[str] | None = None,
    line_cap: int = LINE_CAP,
    allow_network_filesystem: bool = False,
) -> LogWriter | BufferedLog:
    """Open the log at *path* for appending; a new one begins with turnlog's format marker.

    *durability* defines when an append returns: ``fsync``, when the record is on disk; ``flush``,
    when the operating system has it (a power failure may lose it); ``buffered``, at once (a crash
    loses up to five seconds). *lock_timeout* is in seconds: 0 fails at once if another writer holds
    the lock, None waits forever. Below *root* no symbolic link is followed.
    """
    writer = LogWriter(
        path,
        create=create,
        durability="fsync" if durability == "buffered" else durability,
        head=format_marker(f"turnlog {__version__}"),
        lock_timeout=lock_timeout,
        root=root,
        line_cap=line_cap,
        allow_network_filesystem=allow_network_filesystem,
    )
    return BufferedLog(writer) if durability == "buffered" else writer


def drain_all() -> None:
    """Save what waits in every buffer."""
    for buffer in list(_open_buffers):
        try:
            buffer.flush()
        except TurnlogError as error:
            logger.error("not saved at exit: %s", error)


class _Exit:
    """What this process does before it ends; once *has_begun* is true, no record may wait."""

    has_begun = False
    finalizer: Any = None
    """Runs at the end of a multiprocessing child, which does not call atexit handlers."""
    is_inherited = False
    """Whether children of multiprocessing install their own finalizer when they start."""


def _begin_exit() -> None:
    with _Undisturbed():
        _Exit.has_begun = True
        drain_all()


atexit.register(_begin_exit)


def _may_wait() -> bool:
    """Return whether every orderly end of this process will save what waits."""
    if _Exit.has_begun:
        return False
    _hook_multiprocessing()
    unhandled = (signal.SIG_DFL, None)  # None: a handler not installed from Python.
    return all(signal.getsignal(number) not in unhandled for number in _ENDING)


def _hook_multiprocessing(_: object = None) -> None:
    """Have multiprocessing save what waits when this process ends, if it is in use.

    A child drops the finalizers it inherited and calls this again.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is None or (_Exit.finalizer is not None and _Exit.finalizer.still_active()):
        return
    _Exit.finalizer = util.Finalize(None, _begin_exit, exitpriority=0)
    if not _Exit.is_inherited:
        util.register_after_fork(_Exit, _hook_multiprocessing)
        _Exit.is_inherited = True
    if _is_worker() and threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is _exit_orderly:
                signal.signal(number, _DEFAULT_HANDLERS.get(number, signal.SIG_DFL))


def _is_worker() -> bool:
    """Return whether this process is a child of multiprocessing.

    Its parent may end it with SIGTERM and wait for that, as a pool does. A Python handler would be
    too late if the signal comes just before the child blocks in a system call, and the parent would
    wait forever. So none is installed here, and records are written at once.
    """
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _reset_in_child() -> None:
    _Undisturbed.depth, _Undisturbed.waiting = 0, None  # The thread inside it stayed in the parent.
    _Exit.has_begun, _Exit.finalizer = False, None
    for buffer in list(_open_buffers):
        buffer._after_fork_in_child()  # noqa: SLF001 - this module's own.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)


class _Undisturbed:
    """Defers signals while records are between memory and disk.

    Signals are handled in the main thread between any two bytecodes. Without this, one could arrive
    after a batch left the buffer and before it is in the log, or before that is known.
    """

    depth = 0
    waiting: int | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _Undisturbed.depth += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if threading.current_thread() is threading.main_thread():
            _Undisturbed.depth -= 1
            if _Undisturbed.depth == 0 and _Undisturbed.waiting is not None:
                number, _Undisturbed.waiting = _Undisturbed.waiting, None
                _exit_orderly(number, None)


def _handle_signals() -> None:
    """Turn signals that would end the process at once into an orderly exit."""
    if threading.current_thread() is not threading.main_thread() or _is_worker():
        return
    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            try:
                signal.signal(number, _exit_orderly)
            except ValueError:  # Only the main interpreter may.
                return


def _exit_orderly(number: int, _frame: FrameType | None) -> None:
    if _Undisturbed.depth:
        _Undisturbed.waiting = number
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise SystemExit(128 + number)
