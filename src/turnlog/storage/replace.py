"""Replace a log by a rewritten version, in one step and under its lock.

The new file is created next to the log, private and synced, verified, and renamed into place. A
kill at any moment leaves the old log or the new one, complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal, NamedTuple, Self, get_args

import msgspec

from turnlog.errors import LogError, StorageFull, WriteFailed
from turnlog.storage import locks, system
from turnlog.storage.atomic_files import NO_LINKS
from turnlog.storage.logger import logger
from turnlog.storage.sources import open_regular
from turnlog.storage.writer import LOCK_TIMEOUT, Handle

_COPY_BYTES: Final = 1024 * 1024
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LINKS: Final = frozenset((*NO_LINKS, errno.EACCES, errno.ENOSYS, errno.EXDEV))
_MOST_LOOKS: Final = 100

Aside = Literal["original", "replaced"]
"""Why a log was set aside: it was rewritten, or a kept copy replaced it."""


class Locked:
    """A log locked for a rewrite: its descriptor, and its size when it was locked.

    *aside* is the word in the second name that the old log gets.
    """

    def __init__(self, path: Path, fd: int, size_bytes: int, aside: Aside = "original") -> None:
        self.path = path
        self.fd = fd
        self.size_bytes = size_bytes
        self.is_replaced = False
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.original = path.with_name(f"{path.name}.{aside}-{stamp}")
        self.quarantine = path.with_name(f"{path.name}.quarantine-{stamp}")
        self.fresh = path.with_name(f".{path.name}.repair-{stamp}")

    def keep_original(self) -> None:
        """Hard-link the log under a second name, or copy it where links are unsupported."""
        try:
            os.link(self.path, self.original, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with NewFile(self.original) as copy:
                for chunk in chunks(self.fd, 0, self.size_bytes):
                    copy.write(chunk)

    def make_fresh(self, pieces: Iterable[bytes], what: str, *, is_as_old: bool = True) -> int:
        """Write the new log from *pieces*, as private as the old one, and read it back.

        It gets the old mtime too, unless *is_as_old* is false. Returns a descriptor to read it by.
        Raises LogError, which names *what*, if it does not hold what was written.
        """
        status = os.fstat(self.fd)
        written, found = sha256(), sha256()
        with NewFile(self.fresh) as new:
            for data in pieces:
                written.update(data)
                new.write(data)
            new.belong_like(status)
        if is_as_old:
            os.utime(self.fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
        fd = open_regular(self.fresh)
        try:
            for data in chunks(fd, 0, os.fstat(fd).st_size):
                found.update(data)
            if found.digest() != written.digest():
                raise self.unproved(what)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def unproved(self, what: str) -> LogError:
        """Return the error for a new log that failed verification."""
        return LogError(
            f"{what} {self.path} does not read back as written",
            path=self.path,
            hint="the disk may be failing; the log itself was not touched",
        )

    def discard(self) -> None:
        """Delete the new files if the log was not replaced."""
        if not self.is_replaced:
            for made in (self.fresh, self.quarantine, self.original):
                made.unlink(missing_ok=True)

    def take_place(self) -> None:
        """Rename the new log into place and carry over what was written to the old one meanwhile.

        The new log is locked until that is done, so no other writer can append in between.
        """
        fd = os.open(self.fresh, os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        try:
            locks.lock(fd, 0)
            system.sync_directory_at(self.path.parent)
            self.is_replaced = True  # Set first: an interrupt must not delete the original.
            try:
                os.replace(self.fresh, self.path)
            except OSError:
                self.is_replaced = False
                raise
            self._finish(fd)
        except OSError as error:
            if not self.is_replaced:
                raise
            late = "what other programs appended while it was rewritten"
            is_linked = os.fstat(self.fd).st_nlink > 0
            raise WriteFailed(
                f"{self.path} was rewritten, but not all is on the disk: {error.strerror or error}",
                path=self.path,
                errno=error.errno,
                hint=f"{late} is in {self.original}"
                if is_linked
                else f"{late} may be lost: append it again",
            ) from None
        finally:
            os.close(fd)

    def _finish(self, fd: int) -> None:
        """Make the rename durable, and carry over late appends."""
        system.sync_directory_at(self.path.parent)
        if hasattr(os, "fchmod") and os.fstat(self.fd).st_nlink == 1:
            os.fchmod(self.fd, 0o600)  # From now on it is the original, which is private.
        done = self.size_bytes
        for _ in range(_MOST_LOOKS):
            late = b"".join(chunks(self.fd, done, os.fstat(self.fd).st_size))
            if not late:
                return
            system.write_all(fd, late)
            system.sync(fd)
            done += len(late)
            logger.warning("%s: %d bytes came while it was rewritten", self.path, len(late))
        logger.warning("%s: another program still writes to %s", self.path, self.original)


@contextlib.contextmanager
def locked(path: Path, lock_timeout: float | None, aside: Aside = "original") -> Iterator[Locked]:
    """Lock the log at *path* against other threads and processes.

    Files that were created but did not replace it are deleted at the end.
    """
    handle = Handle(path, create=False, lock_timeout=lock_timeout)
    try:
        size = handle.lock()
        _sweep(path)
        held = Locked(path, handle.fd, size, aside)
        try:
            yield held
        finally:
            held.discard()
    finally:
        handle.abandon()
        handle.close()


class Replacement(NamedTuple):
    """A range of a log, and the bytes that replace it."""

    offset: int
    length: int
    new: Iterable[bytes]


def rewrite(
    path: Path,
    changes: Callable[[Locked], Iterable[Replacement]],
    what: str,
    *,
    lock_timeout: float | None = LOCK_TIMEOUT,
) -> Path:
    """Replace ranges of the log at *path*; return the path of the original.

    *changes* is called under the lock and returns ranges in log order. *what* (a repair, a
    recovery) names the operation in errors.
    """
    try:
        with locked(path, lock_timeout) as held:
            changed = list(changes(held))
            fd = held.make_fresh(_changed(held, changed), f"the {what} of", is_as_old=False)
            os.close(fd)
            held.keep_original()
            # The bytes are in the original. `compact --undo` skips originals with this file.
            with NewFile(held.quarantine) as rest:
                for change in changed:
                    described = {"offset": change.offset, "length": change.length, "reason": what}
                    rest.write(msgspec.json.encode(described) + b"\n")
            held.take_place()
            return held.original
    except OSError as error:
        raise failed(error, what, path) from None


def _changed(held: Locked, changes: Iterable[Replacement]) -> Iterator[bytes]:
    """Yield the log with *changes* applied."""
    done = 0
    for change in changes:
        yield from chunks(held.fd, done, change.offset)
        yield from change.new
        done = change.offset + change.length
    yield from chunks(held.fd, done, held.size_bytes)


def _sweep(path: Path) -> None:
    """Delete the files of a rewrite that was killed, while the log is locked.

    These are an unnamed new log, and a second name of the unchanged log with its quarantine file.
    """
    fresh = f".{path.name}.repair-"
    asides = tuple(f"{path.name}.{word}-" for word in get_args(Aside))
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            other = path.with_name(name)
            if name.startswith(fresh):
                other.unlink()
            elif (
                name.startswith(asides) and not other.is_symlink() and os.path.samefile(path, other)
            ):
                stamp = name.rpartition("-")[2]
                path.with_name(f"{path.name}.quarantine-{stamp}").unlink(missing_ok=True)
                other.unlink()


class NewFile:
    """A private file that must not exist yet, synced when the block ends."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._file = os.fdopen(self._fd, "wb", buffering=_COPY_BYTES)
        self.write = self._file.write

    def belong_like(self, other: os.stat_result) -> None:
        """Copy the owner and mode of the file this one will replace."""
        if sys.platform != "win32":
            os.fchmod(self._fd, other.st_mode & 0o777)
            if os.geteuid() == 0:
                os.fchown(self._fd, other.st_uid, other.st_gid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._file.flush()
            system.sync(self._fd)
        finally:
            self._file.close()


def chunks(fd: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes from *start* to *end* in chunks."""
    while start < end and (chunk := system.read_at(fd, min(_COPY_BYTES, end - start), start)):
        yield chunk
        start += len(chunk)


def failed(error: OSError, what: str, path: str | os.PathLike[str]) -> LogError:
    """Return the error for a failed *what* (a repair, a compaction) that changed nothing."""
    if isinstance(error, LogError):
        return error
    kind = StorageFull if error.errno in _FULL else LogError
    return kind(
        f"{what} of {os.fspath(path)} failed, the log is unchanged: {error.strerror or error}",
        path=path,
        errno=error.errno,
        hint=f"a {what} needs room for twice the log's size, and write access to its directory",
    )
