"""The mark that says which version of turnlog's conventions a log follows.

It is one record, ``{"type":"turnlog","format":1,…}``, at the head of each log turnlog creates. It
has no uuid and a type of its own, so Claude Code's reader, the SDK's and the seeds' pass over it.
A log without it is somebody else's, and is read all the same. See docs/log-format.md.
"""

from __future__ import annotations

from typing import Final

from turnlog.records.codec import decode, encode
from turnlog.records.state import Format

FORMAT: Final = 1


def format_marker(writer: str, **more: str | None) -> bytes:
    """Give the marker's line, newline included, for a new log; *more* may say whose it is."""
    said = {key: value for key, value in more.items() if value is not None}
    return encode({"type": "turnlog", "format": FORMAT, "writer": writer} | said) + b"\n"


def newer_format(head: bytes) -> int | None:
    """Give the format of a log whose first bytes are *head*, if this version is too old for it."""
    for line in head.split(b"\n", 3)[:3]:
        if b'"turnlog"' in line:
            record = decode(line)
            if isinstance(record, Format) and record.format is not None:
                return record.format if record.format > FORMAT else None
    return None
