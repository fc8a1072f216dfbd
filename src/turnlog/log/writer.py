"""Appending to a log so that nothing acknowledged is ever lost.

    with LogWriter(path) as log:
        log.append({"type": "user", ...})     # returns when the record is on the disk

One append, one batch: one ``write`` on an O_APPEND descriptor, under the lock, synced after the
lock is given back (a sync covers everything before it, so an acknowledgement does too).

What holds, and is tested by killing, starving and lying to this code:
- Acknowledged means durable, unless a weaker durability was chosen by name.
- Acknowledged bytes never move or change.
- A record that was not acknowledged is whole, absent, or a fragment. The next append starts with a
  newline if the log does not end in one, so a fragment never merges with a record.
- What cannot be written as JSON is refused before a byte is written.
- After a full disk the handle stays usable; after any other failed write, and after a failed sync
  (the kernel may have dropped the pages and forgotten it), the handle refuses further writes.
- Locks are the kernel's and die with their holder. Threads, processes and forked children may all
  append to one log.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from turnlog.errors import (
    ClosedLog,
    FormatTooNew,
    LogError,
    LogLocked,
    NotSerialisable,
    StorageFull,
    SyncFailed,
    TurnlogError,
    UnsafeFilesystem,
    UsageError,
    WriteFailed,
)
from turnlog.records.codec import encode
from turnlog.records.format import newer_format
from turnlog.records.record import Record

from . import system
from .lines import LINE_CAP
from .private import open_for_append
from .reader import Reader
from .sources import PlainSource

logger = logging.getLogger("turnlog.log")

Durability = Literal["fsync", "flush"]
LOCK_TIMEOUT: Final = 10.0

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_MAX_REOPENS: Final = 100
_HEAD_BYTES: Final = 4096

_open_writers: weakref.WeakSet[LogWriter] = weakref.WeakSet()


class Appended(NamedTuple):
    """Where a record came to stand; *length* does not count its newline."""

    offset: int
    length: int


class News(NamedTuple):
    """What others appended since this writer last looked.

    *restarted* tells that the log is another than before and *items* begins at its start.
    """

    items: Reader
    restarted: bool


Decide = Callable[[News], Iterable[Record | Mapping[str, Any]]]


class LogWriter:
    """One handle for appending to one log.

    *head* is written before the first record of an empty log. *lock_timeout* is in seconds: 0
    fails at once with LogLocked, None waits for ever. *root* is a directory below which no symbolic
    link is followed. *seen* is the offset up to which the caller knows the log already.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        durability: Durability = "fsync",
        head: bytes = b"",
        lock_timeout: float | None = LOCK_TIMEOUT,
        root: str | os.PathLike[str] | None = None,
        seen: int = 0,
        line_cap: int = LINE_CAP,
        allow_network_filesystem: bool = False,
    ) -> None:
        if durability not in ("fsync", "flush"):
            raise UsageError(
                f"no durability called {durability!r}", hint="choose 'fsync', 'flush' or 'buffered'"
            )
        self.path = Path(path)
        self._name = str(self.path)
        self.durability = durability
        self.lock_timeout = lock_timeout
        self.seen = seen
        self._create = create
        self._head = head
        self._root = Path(root) if root is not None else None
        self._line_cap = line_cap
        self._allow_network = allow_network_filesystem
        self._mutex = threading.Lock()
        self._refusal: TurnlogError | None = None
        self._restarted = False
        self._fd = -1
        self._open()
        _open_writers.add(self)

    def append(self, record: Record | Mapping[str, Any]) -> Appended:
        """Append one record; return when it is as durable as this handle promises."""
        return self.append_many((record,))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> tuple[Appended, ...]:
        """Append *records* in one write. After a crash a prefix of them may stand."""
        return self.append_lines(self.lines_of(records))

    def lines_of(self, records: Iterable[Record | Mapping[str, Any]]) -> list[bytes]:
        """Encode *records*; raise NotSerialisable if one of them cannot be a line."""
        lines = [encode(record) for record in records]
        for line in lines:
            if len(line) > self._line_cap:
                raise NotSerialisable(
                    f"a record of {len(line):,} bytes is longer than the cap of {self._line_cap:,}",
                    hint="raise line_cap for writers and readers, or store the content elsewhere",
                )
            if b"\n" in line:
                raise NotSerialisable(
                    "a record's bytes contain a newline", hint="pass the record as one line"
                )
        return lines

    def append_lines(self, lines: Sequence[bytes]) -> tuple[Appended, ...]:
        """Append what ``lines_of`` gave."""
        if not lines:
            return ()
        size = self._lock()
        try:
            placed = self._write(lines, size)
        finally:
            self._unlock()
        self._sync()
        return placed

    def append_after(self, decide: Decide) -> tuple[Appended, ...]:
        """Under the lock, let *decide* see what others appended and say what to write.

        This is the seam on which parents, idempotent retries and summaries stand: nobody can
        append between what *decide* read and what it wrote.
        """
        size = self._lock()
        try:
            with self._news(size) as news:
                lines = self.lines_of(decide(news))
            placed = self._write(lines, size)
        finally:
            self._unlock()
        if placed:
            self._sync()
        return placed

    def sync(self) -> None:
        """Make durable what was appended with a weaker durability."""
        self._check_open()
        self._sync(always=True)

    def close(self) -> None:
        """Close the handle. Everything acknowledged is already where it should be."""
        with self._mutex:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
                logger.info("%s: closed", self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    # -- the lock ---------------------------------------------------------------------------

    def _lock(self) -> int:
        """Hold the log alone, among threads and processes; give its size."""
        timeout = self.lock_timeout
        if not (
            self._mutex.acquire(blocking=False)
            or (timeout != 0 and self._mutex.acquire(timeout=-1 if timeout is None else timeout))
        ):
            raise self._locked(os.getpid())
        try:
            if self._refusal is not None or self._fd < 0:
                self._check_open()
            return self._lock_current_file()
        except BaseException:
            self._mutex.release()
            raise

    def _unlock(self) -> None:
        try:
            system.unlock(self._fd)
        finally:
            self._mutex.release()

    def _lock_current_file(self) -> int:
        """Lock the file that the path names now; it may not be the one that was opened."""
        for _ in range(_MAX_REOPENS):
            if not system.lock(self._fd, self.lock_timeout):
                raise self._locked(system.lock_holder(self._fd))
            mine = os.fstat(self._fd)
            try:
                named = os.stat(self._name, follow_symlinks=False)
            except FileNotFoundError:
                named = None
            if named and named.st_ino == mine.st_ino and named.st_dev == mine.st_dev:
                return mine.st_size
            system.unlock(self._fd)
            logger.warning("%s: replaced or removed by somebody; reopening", self.path)
            os.close(self._fd)
            self._fd = -1
            self._open()
            self.seen = 0
            self._restarted = True
        raise LogError(f"{self.path} is replaced faster than it can be opened", path=self.path)

    def _locked(self, holder: int | None) -> LogLocked:
        who = f" by process {holder}" if holder else ""
        return LogLocked(
            f"{self.path} is locked{who}",
            path=self.path,
            holder=holder,
            hint="wait for the other writer, or raise lock_timeout",
        )

    # -- writing ----------------------------------------------------------------------------

    def _write(self, lines: Sequence[bytes], size: int) -> tuple[Appended, ...]:
        if not lines:
            return ()
        prefix = self._head if size == 0 else self._seal(size)
        data = prefix + b"\n".join(lines) + b"\n"
        self._write_whole(data, size)
        self.seen = size + len(data)
        offset = size + len(prefix)
        placed = []
        for line in lines:
            placed.append(Appended(offset, len(line)))
            offset += len(line) + 1
        logger.debug("%s: appended %d records at %d", self.path, len(lines), size)
        return tuple(placed)

    def _seal(self, size: int) -> bytes:
        """A newline if the log does not end in one: evidence is kept, nothing merges."""
        if os.pread(self._fd, 1, size - 1) == b"\n":
            return b""
        logger.warning("%s: the last line was cut short; sealed it at %d", self.path, size)
        return b"\n"

    def _write_whole(self, data: bytes, size: int) -> None:
        written = 0
        try:
            written = os.write(self._fd, data)
            if written < len(data):  # A full disk or a limit: the second try says which.
                written += os.write(self._fd, data[written:])
        except OSError as error:
            if written:
                self._take_back(size, written)
            raise self._write_error(error) from None
        if written < len(data):
            self._take_back(size, written)
            raise self._write_error(OSError(errno.ENOSPC, "short write"))

    def _take_back(self, size: int, written: int) -> None:
        """Remove the fragment of a failed write, unless somebody wrote behind it."""
        try:
            if os.fstat(self._fd).st_size == size + written:
                os.ftruncate(self._fd, size)
        except OSError:
            # The fragment stays; the next append seals it off.
            logger.warning("%s: a fragment of %d bytes stays at %d", self.path, written, size)

    def _write_error(self, error: OSError) -> LogError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return StorageFull(
                f"not saved, no room for {self.path}: {reason}",
                path=self.path,
                errno=error.errno,
                hint="free some space and append again; the log is intact",
            )
        failed = WriteFailed(
            f"not saved, writing {self.path} failed: {reason}",
            path=self.path,
            errno=error.errno,
            hint="reopen the log; append again if the record is not there",
        )
        self._refusal = failed
        return failed

    def _sync(self, *, always: bool = False) -> None:
        if self.durability != "fsync" and not always:
            return
        try:
            system.sync(self._fd)
        except OSError as error:
            # Never sync again on this descriptor: the second try may succeed without the data.
            failed = SyncFailed(
                f"{self.path} may not be on disk: {error.strerror or error}",
                path=self.path,
                errno=error.errno,
                hint="reopen the log; append again if the record is not there",
            )
            self._refusal = failed
            raise failed from None

    # -- opening ----------------------------------------------------------------------------

    def _open(self) -> None:
        fd = open_for_append(self.path, root=self._root, create=self._create)
        try:
            self._check_filesystem(fd)
            newer = newer_format(os.pread(fd, _HEAD_BYTES, 0))
            if newer:
                raise FormatTooNew(
                    f"{self.path} has format {newer}, which this turnlog may read but not write",
                    path=self.path,
                    hint="upgrade turnlog: pip install -U turnlog",
                )
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        logger.info("%s: opened for appending", self.path)

    def _check_filesystem(self, fd: int) -> None:
        kind = system.filesystem(fd)
        if system.is_network(kind) and not self._allow_network:
            raise UnsafeFilesystem(
                f"{self.path} is on {kind}, where locks do not reach other machines",
                path=self.path,
                hint="keep the log on a local disk, or pass allow_network_filesystem=True "
                "if only this machine writes it",
            )
        if system.is_network(kind) or system.is_doubtful(kind):
            logger.warning("%s: on %s; only one machine may write here", self.path, kind)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise ClosedLog(
                f"this handle refuses writes since a failure: {self._refusal}",
                hint=self._refusal.hint,
            ) from self._refusal
        if self._fd < 0:
            raise ClosedLog(f"{self.path} is closed", hint="open it again")

    @contextmanager
    def _news(self, size: int) -> Iterator[News]:
        restarted, self._restarted = self._restarted, False
        if self.seen > size:  # Somebody cut the log in place.
            self.seen, restarted = 0, True
        source = PlainSource(os.dup(self._fd), self.seen)
        with Reader(self.path, start=self.seen, cap=self._line_cap, source=source) as reader:
            yield News(reader, restarted)
        self.seen = size

    def _after_fork_in_child(self) -> None:
        """Give the child its own descriptor: a shared one would share the parent's lock."""
        self._mutex = threading.Lock()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            try:
                self._open()
            except (TurnlogError, OSError) as error:
                self._refusal = LogError(f"cannot reopen after fork: {error}", path=self.path)


def _reopen_in_child() -> None:
    for writer in list(_open_writers):
        writer._after_fork_in_child()  # noqa: SLF001 - this module's own.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_in_child)
