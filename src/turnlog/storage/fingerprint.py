"""Fingerprints of a log's beginning, which detect a rewrite without reading the whole log.

A fingerprint hashes both ends of a range and samples between them; a few kilobytes are hashed
whole. Appending to a log keeps its fingerprints; rewriting almost always changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

_END_BYTES: Final = 4096
_SAMPLES: Final = 30
_SAMPLE_BYTES: Final = 256

ReadAt = Callable[[int, int], bytes]
"""Reads up to size bytes at an offset."""


def fingerprint_by(read: ReadAt, size_bytes: int) -> bytes:
    """Return the fingerprint of the first *size_bytes* of what *read* reads."""
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
