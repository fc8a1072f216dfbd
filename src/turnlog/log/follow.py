"""A log as it grows.

Follow gives what stands in the log, then whatever is appended, until told to stop. A log that
shrank, was replaced or had its tail rewritten is not the log that was being read: a Restart says
so, and reading begins again at its start. A partial last line waits for its newline.

It looks at the file's size and identity a few times a second rather than asking the kernel for
events: that works on every file system and costs one ``stat`` a look.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

from turnlog.errors import NotFound
from turnlog.log.lines import LINE_CAP
from turnlog.log.reader import Placed, Reader
from turnlog.log.sources import PlainSource, open_source
from turnlog.records.damage import Damage

logger = logging.getLogger("turnlog.log")

_POLL_SECONDS: Final = 0.2
_FINGERPRINT_BYTES: Final = 256


class Restart(NamedTuple):
    """The log is not the one that was being read; what follows is read from its start."""

    reason: str


def follow_log(
    path: str | os.PathLike[str],
    *,
    start: int = 0,
    stop: threading.Event | None = None,
    poll_seconds: float = _POLL_SECONDS,
    cap: int = LINE_CAP,
) -> Iterator[Placed | Damage | Restart]:
    """Give items of the log at *path* as they come, until *stop* is set."""
    stop = stop or threading.Event()
    offset, line, fingerprint = start, 0, b""
    while True:
        try:
            source = open_source(path, offset)
        except NotFound:
            source = None
        if source is not None:
            reason = _changed(source, offset, fingerprint)
            if reason:
                source.close()
                logger.warning("%s: %s; reading it from the start", os.fspath(path), reason)
                yield Restart(reason)
                offset, line, fingerprint = 0, 0, b""
                continue
            with Reader(
                path, start=offset, line=line, cap=cap, tail="wait", source=source
            ) as reader:
                yield from reader
                offset, line = reader.offset, reader.line
                fingerprint = _fingerprint(source, offset)
        if stop.wait(poll_seconds):
            return


def _changed(source: object, offset: int, fingerprint: bytes) -> str:
    """Tell why what lies before *offset* is no longer what was read; empty if it is."""
    if not isinstance(source, PlainSource) or not fingerprint:
        return ""
    if os.fstat(source.fd).st_size < offset:
        return "the log shrank"
    if _fingerprint(source, offset) != fingerprint:
        return "the log was rewritten"
    return ""


def _fingerprint(source: object, offset: int) -> bytes:
    """The bytes just before *offset*: timestamps and uuids make them unlike any other's."""
    if not isinstance(source, PlainSource):
        return b""
    size = min(offset, _FINGERPRINT_BYTES)
    return os.pread(source.fd, size, offset - size)
