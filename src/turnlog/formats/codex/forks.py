"""Whether a fork still continues what it did: the first bytes of its parent's rollout.

A fork does not repeat what was said before it. Its first line has the number of these bytes, and
the ordinal of the record that would follow them.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import DecodeError, Struct, ValidationError, json

from turnlog.formats.format import LogBase
from turnlog.storage.sources import LINE_CAP, open_source

_BLOCK_BYTES: Final = 64 * 1024


class _Line(Struct):
    ordinal: int


_decode_line: Final = json.Decoder(_Line).decode


def base_problem(base: LogBase, path: Path) -> str | None:
    """Return why *base* is not the beginning of the log at *path*; None if it is."""
    size_bytes = _BLOCK_BYTES
    while True:
        start = max(0, base.end_offset - size_bytes)
        before = _read(path, start, base.end_offset)
        if len(before) < base.end_offset - start:
            return f"the log it continues ends before byte {base.end_offset:,}"
        head, _, last = before[:-1].rpartition(b"\n")
        if head or start == 0 or size_bytes > LINE_CAP:
            break
        size_bytes *= 16
    try:
        is_there = before.endswith(b"\n") and _decode_line(last).ordinal == base.end_ordinal - 1
    except (DecodeError, ValidationError):
        is_there = False
    if is_there:
        return None
    return (
        f"no record {base.end_ordinal - 1} ends at byte {base.end_offset:,} of the log it continues"
    )


def _read(path: Path, start: int, end: int) -> bytes:
    data = b""
    with closing(open_source(path, start)) as source:
        while start + len(data) < end and (block := source.read(end - start - len(data))):
            data += block
    return data
