"""The small JSON files of a flat store: checked when read, replaced atomically, locked.

A change reads the file first and holds the store's lock meanwhile. The lock is on the directory
itself, by its descriptor: the kernel releases it when its process dies, and there is no lock file
to leave behind. Only where a directory cannot be locked (Windows) there is a permanent lock file.

A file that is not a JSON object is never overwritten: it is renamed and kept.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.errors import LogError, LogLocked, NotALog
from turnlog.records.lenient_json import BOM, loads_finite
from turnlog.storage.atomic_files import NO_LINKS, Unreadable, failure, put, read_file
from turnlog.storage.locks import lock, lock_holder, unlock
from turnlog.storage.sources import open_error
from turnlog.storage.writer import LOCK_TIMEOUT

Fields = dict[str, Any]

LOCK_FILE: Final = ".index.lock"
LIMIT: Final = 256 * 1024 * 1024
_MAX_DEPTH: Final = 100
_LOCKS_DIRECTORIES: Final = hasattr(os, "O_DIRECTORY")
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)


# -- reading --------------------------------------------------------------------------------


class DamagedFile(Unreadable, frozen=True):
    """The file was read, but is not valid."""


class JsonFile(Struct, frozen=True):
    """A JSON object, and the bytes it was read from."""

    data: bytes
    fields: Fields


def read_object(path: Path) -> JsonFile | Unreadable:
    """Return the JSON object at *path*, or why there is none."""
    data = read_file(path, limit=LIMIT, follow=False)
    if isinstance(data, Unreadable):
        return data
    if not data.strip():
        return DamagedFile("empty")
    try:
        value = _parsed(data)
    except (ValueError, RecursionError):
        return DamagedFile("not JSON")
    if not isinstance(value, dict):
        return DamagedFile("not an object")
    return DamagedFile("nested too deep") if _is_deep(value) else JsonFile(data, value)


def is_missing(found: JsonFile | Unreadable) -> bool:
    return isinstance(found, Unreadable) and found.reason == "missing"


def _parsed(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # A BOM or a lone surrogate loses nothing.
        return loads_finite(data.removeprefix(BOM).decode("utf-8"))


def _is_deep(value: Any) -> bool:
    """Return whether *value* is nested so deeply that writing it might fail."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner = (
            item.values() if isinstance(item, dict) else item
            for item in level
            if isinstance(item, dict | list)
        )
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


# -- writing, while the store is held -------------------------------------------------------


def write_object(path: Path, fields: Fields, before: bytes | None) -> bool:
    """Write *fields* to *path* if they differ from *before*; return whether they did."""
    data = pretty(fields)
    if data == before:
        return False
    if path.is_symlink():
        raise refusal(path, "a symbolic link")
    try:
        put(path.parent, (path.name,), [data], overwrite=True)
    except OSError as error:
        raise failure(error, path) from None
    return True


def pretty(fields: Fields) -> bytes:
    """Return *fields* as indented JSON with a newline at the end."""
    try:
        return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"
    except (UnicodeEncodeError, msgspec.DecodeError):  # A lone surrogate needs its escape.
        return json.dumps(fields, indent=2, allow_nan=False).encode("ascii") + b"\n"


def set_aside(path: Path) -> Path:
    """Rename the damaged file at *path* to ``….damaged-N`` and return that path."""
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.damaged-{number}")
        try:
            # A link, so that the file always exists: the next step replaces the first name.
            os.link(path, aside)
        except FileExistsError:
            number += 1
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise failure(error, aside) from None
            return _moved(path, aside)
        else:
            return aside


def _moved(path: Path, aside: Path) -> Path:
    """Move *path* where there are no hard links; under the lock no other process takes the name."""
    try:
        os.rename(path, aside)
    except OSError as error:
        raise failure(error, aside) from None
    return aside


def refusal(path: Path, reason: str) -> LogError:
    """Return the error for a file at *path* that is not changed."""
    hint = "remove it or put it right; it is rebuilt from the logs then"
    return NotALog(f"cannot use {path}: {reason}", path=path, hint=hint)


# -- the lock -------------------------------------------------------------------------------


class _DirectoryLock:
    """Serializes the threads of this process; the kernel serializes processes."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.owner: int | None = None
        self.fd = -1

    def after_fork_in_child(self) -> None:
        """Release what another thread of the parent holds; the lock stays the parent's."""
        fd, self.fd = self.fd, -1
        self.turn, self.owner = threading.Lock(), None
        if fd >= 0:
            os.close(fd)


_door = _DirectoryLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_door.after_fork_in_child)


@contextmanager
def hold(directory: Path, timeout: float | None = LOCK_TIMEOUT) -> Iterator[None]:
    """Lock the flat store at *directory* against threads and processes; create it if missing.

    *timeout* is in seconds: 0 tries once, None waits forever.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    mine, turn = threading.get_ident(), _door.turn
    # A signal handler may interrupt its own thread in here: waiting would deadlock.
    if _door.owner == mine or not turn.acquire(timeout=-1 if timeout is None else timeout):
        raise _locked(directory, os.getpid())
    try:
        _door.owner = mine
        _door.fd = fd = _lock(directory, deadline)
        try:
            yield
        finally:
            if _door.fd == fd:  # Otherwise this is a forked child, which holds nothing.
                _door.fd = -1
                _unlock(fd)
    finally:
        _door.owner = None
        turn.release()


@contextmanager
def hold_directory(directory: Path, timeout: float | None = LOCK_TIMEOUT) -> Iterator[None]:
    """Lock one directory of a flat store, not the whole store; create it if missing."""
    fd = _lock(directory, None if timeout is None else time.monotonic() + timeout)
    try:
        yield
    finally:
        _unlock(fd)


def _unlock(fd: int) -> None:
    try:
        unlock(fd)
    finally:
        os.close(fd)


def _lock(directory: Path, deadline: float | None) -> int:
    """Lock what the path names now; the directory may have been replaced while we waited."""
    place = directory if _LOCKS_DIRECTORIES else directory / LOCK_FILE
    while True:
        try:
            fd = _open(directory, place)
        except OSError as error:
            raise open_error(error, place) from None
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not lock(fd, left):
                raise _locked(directory, lock_holder(fd))
            if _is_named(fd, place):
                return fd
        except LogError:
            os.close(fd)
            raise
        except OSError as error:
            os.close(fd)
            raise failure(error, place) from None
        os.close(fd)


def _open(directory: Path, place: Path) -> int:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if place == directory:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | _CLOEXEC)
    return os.open(place, os.O_RDWR | os.O_CREAT | _CLOEXEC | _NOFOLLOW, 0o600)


def _is_named(fd: int, place: Path) -> bool:
    try:
        named, held = os.stat(place), os.fstat(fd)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


def _locked(directory: Path, holder: int | None) -> LogLocked:
    who = f" by process {holder}" if holder else ""
    return LogLocked(
        f"{directory} is locked{who}",
        path=directory,
        holder=holder,
        hint="wait for the other writer, or raise lock_timeout",
    )
