"""Append to a log without ever losing an acknowledged record.

    with LogWriter(path) as log:
        log.append({"type": "user", ...})     # returns when the record is on disk

Each append or batch is one ``write`` on an O_APPEND descriptor, under the lock, and is synced after
the lock is released (a sync covers everything before it). Acknowledged bytes never move or change.
A record that was not acknowledged is complete, absent, or a fragment; the next append starts with a
newline if the log does not end in one, so a fragment never merges with a record. Threads, processes
and forked children may all append to one log.

A Handle is an open log with its lock, and the only code that writes to a log. It locks the file
that the path names at that moment. The file is created when the handle is opened, or never: if it
is gone later, an append raises NotFound. A handle stays usable after a full disk. After any other
failed write or sync (the kernel may have dropped the pages) it refuses further writes.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from turnlog.errors import (
    ClosedLog,
    FormatTooNew,
    LogError,
    LogLocked,
    NotFound,
    NotSerialisable,
    StorageFull,
    SyncFailed,
    TurnlogError,
    UnsafeFilesystem,
    UsageError,
    WriteFailed,
)
from turnlog.records.annotations import newer_format
from turnlog.records.codec import encode
from turnlog.records.record import Record
from turnlog.storage import Closing, locks, system
from turnlog.storage.atomic_files import open_for_append
from turnlog.storage.locks import interrupted, is_owned, refuse_if_abandoned
from turnlog.storage.logger import logger
from turnlog.storage.reader import Reader
from turnlog.storage.sources import LINE_CAP, PlainSource, open_error, open_regular

LOCK_TIMEOUT: Final = 10.0

_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_MAX_REOPENS: Final = 100
_HEAD_BYTES: Final = 4096
_LAST_BYTES: Final = 256

Durability = Literal["fsync", "flush"]

_open_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


class Handle:
    """A log opened for appending. *reopened* counts how often the path named another file."""

    def __init__(
        self,
        path: Path,
        *,
        create: bool,
        lock_timeout: float | None,
        root: Path | None = None,
        allow_network_filesystem: bool = False,
    ) -> None:
        self.path = path
        self.lock_timeout = lock_timeout
        self.reopened = 0
        self.fd = -1
        self._closed = False
        self._held = False
        self._refused_inside = 0
        self._name = str(path)
        self._root = root
        self._allow_network = allow_network_filesystem
        self._mutex = threading.RLock()
        self._ownership = threading.Condition(self._mutex)
        self._refusal: TurnlogError | None = None
        self._open(create=create)
        _open_handles.add(self)

    # -- the lock ---------------------------------------------------------------------------

    def lock(self) -> int:
        """Lock the log against other threads and processes; return its size.

        An interrupt may come at any point, even between locking and returning. So callers must call
        ``abandon`` on every exception, including this method's own.
        """
        timeout = self.lock_timeout
        if self._held and is_owned(self._ownership):
            # A nested append, by a *decide* callback or a signal handler.
            self._refused_inside += 1
            raise interrupted(self.path)
        refuse_if_abandoned(self._mutex, self.path)
        if not (
            self._mutex.acquire(blocking=False)
            or (timeout != 0 and self._mutex.acquire(timeout=-1 if timeout is None else timeout))
        ):
            raise self._locked(os.getpid())
        self._held = True
        if self._refusal is not None or self._closed:
            raise self._refused()
        try:
            return self._lock_named_file()
        except OSError as error:
            raise self._typed(error) from None

    def release(self, *, sync: bool) -> int:
        """Unlock the log for other processes; return when what was written is on disk.

        Other threads wait until the sync is done: the descriptor must not change under it. Returns
        where the last write ended, which is later than the writer expects if a program that does
        not lock wrote in between.
        """
        locks.unlock(self.fd)
        end = os.lseek(self.fd, 0, os.SEEK_CUR)
        if sync:
            self._sync()
        self._held = False
        self._mutex.release()
        return end

    def abandon(self) -> None:
        """Release whatever this thread holds."""
        if not is_owned(self._ownership):
            return
        if self._refused_inside:  # The lock belongs to the enclosing append.
            self._refused_inside -= 1
            return
        try:
            if self.fd >= 0:
                locks.unlock(self.fd)
        finally:
            self._held = False
            while is_owned(self._ownership):
                self._mutex.release()

    def _lock_named_file(self) -> int:
        """Lock the file that the path names now, which may differ from the one that was opened."""
        for _ in range(_MAX_REOPENS):
            if self.fd < 0:  # An earlier reopening failed: disk full, or path gone.
                self._reopen()
                self.reopened += 1
            if not locks.lock(self.fd, self.lock_timeout):
                raise self._locked(locks.lock_holder(self.fd))
            try:
                named = os.stat(self._name, follow_symlinks=False)
                if named.st_ino == self._inode and named.st_dev == self._device:
                    return named.st_size
            except FileNotFoundError:
                pass
            logger.warning("%s: replaced or removed by another program; reopening", self.path)
            fd, self.fd = self.fd, -1
            os.close(fd)  # This releases the lock, too.
        raise LogError(f"{self.path} is replaced faster than it can be opened", path=self.path)

    def _locked(self, holder: int | None) -> LogLocked:
        who = f" by process {holder}" if holder else ""
        return LogLocked(
            f"{self.path} is locked{who}",
            path=self.path,
            holder=holder,
            hint="wait for the other writer, or raise lock_timeout",
        )

    def _refused(self) -> ClosedLog:
        if self._refusal is None:
            return ClosedLog(f"{self.path} is closed", hint="open it again")
        refused = ClosedLog(
            f"this handle refuses writes since a failure: {self._refusal}", hint=self._refusal.hint
        )
        refused.__cause__ = self._refusal
        return refused

    # -- writing, under the lock ------------------------------------------------------------

    def ends_in_newline(self, size: int) -> bool:
        """Return whether the last line, of a log of *size* bytes, is complete."""
        return size == 0 or self.read_at(1, size - 1) == b"\n"

    def read_at(self, length: int, offset: int) -> bytes:
        """Read *length* bytes at *offset*."""
        try:
            return system.read_at(self.fd, length, offset)
        except OSError as error:
            raise self._typed(error) from None

    def write(self, data: bytes, size: int) -> None:
        """Write all of *data* at the end, which is at *size*, or raise."""
        written = 0
        try:
            written = os.write(self.fd, data)
            if written < len(data):  # A full disk or a limit: the second try reports which.
                written += self._write_rest(data, size, written)
        except OSError as error:
            if written:
                self._take_back(size, written)
            raise self._write_error(error) from None
        if written < len(data):
            self._take_back(size, written)
            raise self._write_error(OSError(errno.ENOSPC, "short write"))

    def _write_rest(self, data: bytes, size: int, written: int) -> int:
        """Continue after a short write, unless another program wrote after the fragment."""
        if os.fstat(self.fd).st_size != size + written:
            raise OSError(errno.ENOSPC, "short write, and another program wrote behind it")
        count = os.write(self.fd, data[written:])
        if os.fstat(self.fd).st_size != size + written + count:
            raise OSError(errno.ENOSPC, "another program wrote into the record")
        return count

    def _take_back(self, size: int, written: int) -> None:
        """Remove the fragment of a failed write, unless another program wrote after it."""
        try:
            if os.fstat(self.fd).st_size == size + written:
                os.ftruncate(self.fd, size)
        except OSError:
            # The fragment stays; the next append separates it with a newline.
            logger.warning("%s: a fragment of %d bytes stays at %d", self.path, written, size)

    def _typed(self, error: OSError) -> LogError:
        """Return the typed error for a failure before anything was written."""
        return error if isinstance(error, LogError) else open_error(error, self.path)

    def _write_error(self, error: OSError) -> LogError:
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return StorageFull(
                f"not saved, no room for {self.path}: {reason}",
                path=self.path,
                errno=error.errno,
                hint="free some space and append again; the log is intact",
            )
        self._refusal = failed = WriteFailed(
            f"not saved, writing {self.path} failed: {reason}",
            path=self.path,
            errno=error.errno,
            hint="reopen the log; append again if the record is not there",
        )
        return failed

    # -- and after it -----------------------------------------------------------------------

    def sync(self) -> None:
        """Return when everything written is on disk."""
        with self._mutex:
            if self._refusal is not None or self._closed:
                raise self._refused()
            self._sync()

    def _sync(self) -> None:
        try:
            system.sync(self.fd)
        except OSError as error:
            # Never sync this descriptor again: a second try may succeed without the data.
            self._refusal = failed = SyncFailed(
                f"{self.path} may not be on disk: {error.strerror or error}",
                path=self.path,
                errno=error.errno,
                hint="reopen the log; append again if the record is not there",
            )
            raise failed from None

    def close(self) -> None:
        """Close the descriptor, which releases its lock."""
        with self._mutex:
            self._closed = True
            if self.fd >= 0:
                fd, self.fd = self.fd, -1  # Closed or not, it must not be closed again.
                try:
                    os.close(fd)
                except OSError as error:
                    raise self._typed(error) from None
                logger.info("%s: closed", self.path)

    def __del__(self) -> None:
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)

    # -- opening ----------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Open the file that the path names now; never create one.

        Acknowledged records may have moved to an archive, and a new file under the old name would
        hide them.
        """
        try:
            self._open(create=False)
        except NotFound:
            raise NotFound(
                f"{self.path} is gone: it was moved, archived or deleted since it was opened",
                hint="open it again; resuming a session restores one that is archived",
            ) from None

    def _open(self, *, create: bool) -> None:
        try:
            fd = open_for_append(self.path, root=self._root, create=create)
        except OSError as error:
            raise self._typed(error) from None
        try:
            self._check_filesystem(fd)
            newer = newer_format(system.read_at(fd, _HEAD_BYTES, 0))
            if newer:
                raise FormatTooNew(
                    f"{self.path} has format {newer}, which this turnlog may read but not write",
                    path=self.path,
                    hint="upgrade turnlog: pip install -U turnlog",
                )
            # While the descriptor is open, no other file can have the same device and inode.
            status = os.fstat(fd)
            self._inode, self._device = status.st_ino, status.st_dev
        except OSError as error:
            os.close(fd)
            raise self._typed(error) from None
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd
        logger.info("%s: opened for appending", self.path)

    def _check_filesystem(self, fd: int) -> None:
        kind = locks.filesystem(fd)
        if locks.is_network(kind) and not self._allow_network:
            raise UnsafeFilesystem(
                f"{self.path} is on {kind}, where locks do not reach other machines",
                path=self.path,
                hint="keep the log on a local disk, or pass allow_network_filesystem=True "
                "if only this machine writes it",
            )
        if locks.is_network(kind) or locks.is_doubtful(kind):
            logger.warning("%s: on %s; only one machine may write here", self.path, kind)

    def after_fork_in_child(self) -> None:
        """Close the parent's descriptor; the next append opens a new one."""
        self._mutex = threading.RLock()
        self._ownership = threading.Condition(self._mutex)
        self._held = False
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _reopen_in_child() -> None:
    for handle in list(_open_handles):
        handle.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen_in_child)


class Appended(NamedTuple):
    """Where a record was written; *length* does not include its newline."""

    offset: int
    length: int


class News(NamedTuple):
    """What others appended since this writer last looked.

    If *restarted*, the log is a different one and *items* begins at its start.
    """

    items: Reader | tuple[()]
    restarted: bool


Decide = Callable[[News], Iterable[Record | Mapping[str, Any]]]


class LogWriter(Closing):
    """Appends records to one log.

    *head* is written before the first record of an empty log. *lock_timeout* is in seconds: 0 fails
    at once with LogLocked, None waits forever. *root* is a directory below which no symbolic link
    is followed. *seen* is the offset up to which the caller has read the log.
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
                f"no durability called {durability!r}",
                hint="choose 'fsync' or 'flush'; open_log also takes 'buffered'",
            )
        self.path = Path(os.path.abspath(path))  # The program may change its working directory.
        self.durability = durability
        self._synced = durability == "fsync"
        self.seen = seen
        self.written = 0
        """The number of successful writes, synced or not."""
        self.began = False
        """Whether the last write started the log, with its head."""
        self._head = head
        self._line_cap = line_cap
        self._handle = Handle(
            self.path,
            create=create,
            lock_timeout=lock_timeout,
            root=Path(root) if root is not None else None,
            allow_network_filesystem=allow_network_filesystem,
        )
        self._reopened = 0

    @property
    def seen(self) -> int:
        """The offset up to which this writer, or its caller, has read the log."""
        return self._seen

    @seen.setter
    def seen(self, offset: int) -> None:
        self._seen, self._last_seen = offset, b""

    def append(self, record: Record | Mapping[str, Any]) -> Appended:
        """Append one record; return when it is as durable as this writer promises."""
        return self.append_lines(self.lines_of((record,)))[0]

    def append_many(self, records: Iterable[Record | Mapping[str, Any]]) -> tuple[Appended, ...]:
        """Append *records* in one write. After a crash, a prefix of them may be in the log."""
        return self.append_lines(self.lines_of(records))

    def append_after(self, decide: Decide) -> tuple[Appended, ...]:
        """Under the lock, pass what others appended to *decide* and write what it returns.

        Parents, idempotent retries and summaries depend on this: no record can be appended between
        what *decide* read and what it wrote.
        """
        try:
            size = self._handle.lock()
            with self._news(size) as news:
                lines = self.lines_of(decide(news))
            data = b"\n".join((*lines, b""))
            prefix = self._write(data, size) if lines else b""
            end = self._handle.release(sync=self._synced and bool(lines))
        except BaseException:
            self._handle.abandon()
            raise
        return self._placed(lines, size, prefix, end - len(data)) if lines else ()

    def lines_of(self, records: Iterable[Record | Mapping[str, Any]]) -> list[bytes]:
        """Encode *records*; raise NotSerialisable if one of them cannot be a line."""
        lines = [encode(record) for record in records]
        for line in lines:
            if len(line) > self._line_cap:
                raise NotSerialisable(
                    f"a record of {len(line):,} bytes is longer than the cap of {self._line_cap:,}",
                    hint="raise line_cap for writers and readers, or store the content elsewhere",
                )
            if b"\n" in line:  # JSON never needs a newline: these are a caller's raw bytes.
                raise NotSerialisable(
                    "a record's bytes contain a newline", hint="pass the record as one line"
                )
        return lines

    def append_lines(self, lines: Sequence[bytes]) -> tuple[Appended, ...]:
        """Append what ``lines_of`` returned."""
        if not lines:
            return ()
        data = b"\n".join((*lines, b""))
        try:
            # Others wait for this lock: do as much as possible before or after it.
            size = self._handle.lock()
            prefix = self._write(data, size)
            end = self._handle.release(sync=self._synced)
        except BaseException:
            self._handle.abandon()
            raise
        return self._placed(lines, size, prefix, end - len(data))

    def sync(self) -> None:
        """Make durable what was appended with a weaker durability."""
        self._handle.sync()

    def close(self) -> None:
        """Close the log. Everything acknowledged is already durable."""
        self._handle.close()

    def _write(self, data: bytes, size: int) -> bytes:
        """Write *data* under the lock; return the prefix that was needed before it."""
        if size == 0:
            prefix = self._head
        elif self._handle.ends_in_newline(size):
            prefix = b""
        else:
            prefix = b"\n"  # Separates a truncated last line, so that no record merges with it.
        self._handle.write(prefix + data if prefix else data, size)
        self.written += 1
        self.began = size == 0
        return prefix

    def _placed(
        self, lines: Sequence[bytes], size: int, prefix: bytes, offset: int
    ) -> tuple[Appended, ...]:
        """Return the location of each of *lines*, which begin at *offset*."""
        if prefix and size:
            logger.warning("%s: the last line was cut short; sealed it at %d", self.path, size)
        strangers = offset != size + len(prefix) or self.seen != size
        placed = []
        for line in lines:
            placed.append(Appended(offset, len(line)))
            offset += len(line) + 1
        if not strangers:  # Otherwise another program wrote records not yet seen here.
            self.seen = offset
            self._last_seen = (lines[-1] + b"\n")[-_LAST_BYTES:]
            self._reopened = self._handle.reopened
        logger.debug("%s: appended %d records at %d", self.path, len(lines), size)
        return tuple(placed)

    @contextmanager
    def _news(self, size: int) -> Iterator[News]:
        is_other = self._handle.reopened != self._reopened or self.seen > size
        restarted = is_other or not self._is_as_seen()
        start = 0 if restarted else self.seen
        if start == size and not restarted:
            yield News((), restarted=False)
            return
        # A separate descriptor: a duplicate would share the lock with any child forked now.
        source = PlainSource(open_regular(self.path), start, end=size)
        with Reader(self.path, start=start, cap=self._line_cap, source=source) as reader:
            try:
                yield News(reader, restarted)
            except BaseException:
                # Whatever *decide* was shown has been seen, even if it failed.
                self._saw(reader, reader.offset)
                raise
            self._saw(reader, size)

    def _saw(self, reader: Reader, end: int) -> None:
        """Record that the log was read up to *end*, or to a partial last line."""
        pending = reader.pending
        if pending is not None:
            end = pending.offset + (pending.length if pending.record is not None else 0)
        if end != self.seen or not self._last_seen:
            self.seen = end
            length = min(end, _LAST_BYTES)
            self._last_seen = self._handle.read_at(length, end - length)
        self._reopened = self._handle.reopened

    def _is_as_seen(self) -> bool:
        """Return whether the bytes before ``seen`` are still the same.

        A log may have been rolled back in place to an earlier state and have grown since.
        """
        last = self._last_seen
        return self._handle.read_at(len(last), self.seen - len(last)) == last
