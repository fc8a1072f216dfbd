"""Forks, whose logs begin where a part of another log ends.

A fork does not repeat what was said before it: its first line has the number of bytes of its
parent's log that come before it, and the ordinal of the record that would follow them.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import DecodeError, Struct, ValidationError, json

from turnlog.errors import TurnlogError
from turnlog.formats.format import LogBase
from turnlog.storage.sources import LINE_CAP, BrokenArchive, open_source

_BLOCK_BYTES: Final = 64 * 1024


class _Base(Struct):
    thread_id: str
    end_byte_offset: int
    end_ordinal_exclusive: int


class _Meta(Struct):
    history_base: _Base | None = None


class _First(Struct):
    payload: _Meta


class _Line(Struct):
    ordinal: int


_decode_first: Final = json.Decoder(_First).decode
_decode_line: Final = json.Decoder(_Line).decode


def base_of(path: Path) -> LogBase | None:
    """Return the part of another log that the log at *path* continues; None if it is whole."""
    try:
        base = _decode_first(_first_line(path)).payload.history_base
    except (DecodeError, ValidationError, TurnlogError, OSError, BrokenArchive):
        return None
    if base is None:
        return None
    return LogBase(base.thread_id, base.end_byte_offset, base.end_ordinal_exclusive)


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


def _first_line(path: Path) -> bytes:
    line = b""
    with closing(open_source(path)) as source:
        while b"\n" not in line and len(line) < LINE_CAP and (block := source.read(_BLOCK_BYTES)):
            line += block
    return line.partition(b"\n")[0]


def _read(path: Path, start: int, end: int) -> bytes:
    data = b""
    with closing(open_source(path, start)) as source:
        while start + len(data) < end and (block := source.read(end - start - len(data))):
            data += block
    return data
