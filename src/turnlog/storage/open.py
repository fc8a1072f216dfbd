"""Open a log for appending with the requested durability."""

from __future__ import annotations

import os
from typing import Literal, overload

from turnlog import __version__
from turnlog.records.annotations import format_marker
from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.lines import LINE_CAP
from turnlog.storage.writer import LOCK_TIMEOUT, LogWriter


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
