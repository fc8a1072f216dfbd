"""What an operation did to the disk, recorded as it really happened.

With strace: the system calls, with all their bytes. Without: the functions of ``os``, wrapped in
the child. Paths outside the scene's directory are left out. An acknowledgement stands in the same
sequence, so it is known which syncs came before it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from .child import Tell, run_child
from .tracing import STRACE, Call, Traced

_CALLS = "openat,mkdir,mkdirat,write,fsync,fdatasync,ftruncate,rename,renameat,renameat2,unlink"
_HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")
_FD = re.compile(r"\d+<(.*?)>")
_QUOTED = re.compile(r'"(.*?)"')


class Event(NamedTuple):
    """One step: make, mkdir, write, truncate, sync, rename, unlink or ack."""

    kind: str
    path: str
    data: Any = None


def record(work: Callable[[Tell], None], directory: Path) -> list[Event]:
    """Run *work* in a child and give what it did below *directory*, in order."""
    if STRACE is None:
        return _record_wrapped(work, directory)
    out = directory.with_suffix(".trace")
    traced = Traced(work, out, "-xx", "-s", str(1 << 20), calls=_CALLS)
    traced.go()
    told = traced.end()
    if failed := [word for word in told if word[0] == "failed"]:
        raise RuntimeError(f"the scene failed: {failed[0]}")
    below = os.path.realpath(directory)
    events = [event for call in traced.calls() if (event := _event(call, below))]
    out.unlink()
    return events


def _event(call: Call, below: str) -> Event | None:
    if call.result.startswith(("-1", "?")):
        return None
    if call.name == "write":
        return _write_event(call, below)
    arguments = _HEX.sub(lambda run: _bytes(run[0]).decode(errors="replace"), call.arguments)
    result = _HEX.sub(lambda run: _bytes(run[0]).decode(errors="replace"), call.result)
    paths = [_joined(arguments, name) for name in _QUOTED.findall(arguments)]
    fd = _FD.search(result if call.name == "openat" else arguments)
    path = paths[-1] if paths else ""
    event = None
    if call.name == "openat" and "O_CREAT" in arguments and fd:
        event = Event("make", fd[1])
    elif call.name in ("mkdir", "mkdirat"):
        event = Event("mkdir", path)
    elif call.name in ("fsync", "fdatasync") and fd:
        event = Event("sync", fd[1])
    elif call.name == "ftruncate" and fd:
        event = Event("truncate", fd[1], int(arguments.rpartition(", ")[2]))
    elif call.name.startswith("rename"):
        event = Event("rename", paths[0], paths[1])
    elif call.name == "unlink":
        event = Event("unlink", path)
    return event if event and event.path.startswith(below) else None


def _write_event(call: Call, below: str) -> Event | None:
    fd = _FD.search(call.arguments)
    text = _QUOTED.search(call.arguments)
    if not fd or not text:
        return None
    path = _bytes(fd[1]).decode(errors="replace") if "\\x" in fd[1] else fd[1]
    data = _bytes(text[1])[: int(call.result.split()[0])]
    if path.startswith(below):
        return Event("write", path, data)
    if path.startswith("pipe:") and data.startswith(b'["ack"'):
        return Event("ack", "", int(data.strip(b'"ack[], \n')))
    return None


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _joined(arguments: str, name: str) -> str:
    directory = re.match(r"(?:AT_FDCWD|\d+)<(.*?)>", arguments)
    return os.path.join(directory[1], name) if directory else name


def _record_wrapped(work: Callable[[Tell], None], directory: Path) -> list[Event]:
    below = os.path.realpath(directory)

    def wrapped(tell: Tell) -> None:
        def note(kind: str, path: str, data: object = None) -> None:
            if path.startswith(below):
                tell("event", kind, path, data)

        _wrap(note)
        work(tell)

    told, _ = run_child(wrapped)
    if failed := [word for word in told if word[0] == "failed"]:
        raise RuntimeError(f"the scene failed: {failed[0]}")
    events = []
    for word in told:
        if word[0] == "event":
            data = word[3].encode("latin-1") if word[1] == "write" else word[3]
            events.append(Event(word[1], word[2], data))
        elif word[0] == "ack":
            events.append(Event("ack", "", word[1]))
    return events


def _wrap(note: Callable[..., None]) -> None:
    """Let the functions of ``os`` tell what they did. Buffered files of Python go unseen."""
    write, datasync, sync, truncate = os.write, os.fdatasync, os.fsync, os.ftruncate
    open_, mkdir = os.open, os.mkdir

    def path_of(fd: int | None, name: str = "") -> str:
        base = os.readlink(f"/proc/self/fd/{fd}") if fd is not None else ""
        return os.path.join(base, name) if name else base

    def noting_write(fd: int, data: bytes) -> int:
        written = write(fd, data)
        note("write", path_of(fd), bytes(data[:written]).decode("latin-1"))
        return written

    def noting_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        fd = open_(path, flags, mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            note("make", path_of(fd))
        return fd

    def noting_mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        mkdir(path, mode, dir_fd=dir_fd)
        note("mkdir", path_of(dir_fd, path))

    def noting(kind: str, function: Callable[..., None]) -> Callable[..., None]:
        def noted(fd: int, *size: int) -> None:
            function(fd, *size)
            note(kind, path_of(fd), *size)

        return noted

    os.write, os.open, os.mkdir = noting_write, noting_open, noting_mkdir
    os.fdatasync, os.fsync = noting("sync", datasync), noting("sync", sync)
    os.ftruncate = noting("truncate", truncate)
