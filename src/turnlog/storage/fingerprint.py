"""A fingerprint of a log's beginning: enough to notice that it was rewritten, without reading it.

Summed up are both ends of the bytes in question and samples between them; a few kilobytes are
summed up whole. Who appends to a log
leaves its fingerprints as they are; who rewrites one almost never does.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

_END_BYTES: Final = 4096
_SAMPLES: Final = 30
_SAMPLE_BYTES: Final = 256

ReadAt = Callable[[int, int], bytes]
"""Gives up to so many bytes at such an offset."""


def fingerprint_by(read: ReadAt, size_bytes: int) -> bytes:
    """Sum up the first *size_bytes* of what *read* reads."""
    digest = blake2b(digest_size=16)
    head = min(size_bytes, _END_BYTES)
    digest.update(read(head, 0))
    last = max(head, size_bytes - _END_BYTES)
    if last - head <= _SAMPLES * _SAMPLE_BYTES:
        digest.update(read(last - head, head) if last > head else b"")
    else:
        step = (last - head) // (_SAMPLES + 1)
        for number in range(1, _SAMPLES + 1):
            at = head + number * step
            digest.update(read(min(_SAMPLE_BYTES, last - at), at))
    digest.update(read(size_bytes - last, last))
    return digest.digest()
