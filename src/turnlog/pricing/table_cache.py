"""A cache of the compiled price table, which avoids importing genai-prices.

The file is in a directory given by the caller and is rebuilt when genai-prices changes. It can be
deleted at any time; if it is missing, unwritable or corrupt, only time is lost.
"""

from __future__ import annotations

import contextlib
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from turnlog.pricing.genai import compile_table
from turnlog.pricing.table import Table

FILE_NAME: Final = "prices.json"
FORMAT: Final = 1


class _CacheHeader(Struct, frozen=True):
    """The file's first line: what the rest was compiled from, and its checksum."""

    format: int
    made_from: str
    crc32: int


_decode_head = msgspec.json.Decoder(_CacheHeader).decode
_decode_table = msgspec.json.Decoder(Table).decode


def load_table(directory: str | os.PathLike[str] | None = None) -> Table:
    """Return the price table, from the cache in *directory* or newly compiled."""
    if directory is None:
        return compile_table()
    path = Path(directory) / FILE_NAME
    made_from = _fingerprint()
    table = _read(path, made_from)
    if table is None:
        table = compile_table()
        if made_from and not table.problem:
            _write(path, made_from, table)
    return table


def _read(path: Path, made_from: str) -> Table | None:
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        expected = _CacheHeader(FORMAT, made_from, crc32(body))
        return _decode_table(body) if made_from and _decode_head(head) == expected else None
    except (OSError, ValueError, RecursionError):
        return None


def _write(path: Path, made_from: str, table: Table) -> None:
    """Write the file atomically: readers see the old one or the new one."""
    body = msgspec.json.encode(table)
    head = msgspec.json.encode(_CacheHeader(FORMAT, made_from, crc32(body)))
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(head + b"\n" + body)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _fingerprint() -> str:
    """Return a fingerprint of the installed genai-prices without importing it; "" if none."""
    try:
        spec = find_spec("genai_prices")
        places = spec.submodule_search_locations if spec else None
        status = os.stat(os.path.join(next(iter(places or ())), "data.py"))
    except (OSError, ValueError, ImportError, StopIteration):
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"
