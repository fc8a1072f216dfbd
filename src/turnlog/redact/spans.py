"""The span of a secret, a fast search for literals, and a search through escapes.

``find_escaped`` undoes the escapes of JSON and URLs and maps positions back to the original text.
Only the surroundings of an escape are searched again, and only matches that contain an escape are
returned: the rest was searched already. Quotes and backslashes stay escaped, since they delimit the
text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

_ESCAPE: Final = re.compile(rb"(?:(?<!\\)\\++u00|%)([2-7][0-9A-Fa-f])")
_OF_JSON: Final = re.compile(rb"\\u00[2-7]")
_DELIMITERS: Final = (0x22, 0x5C, 0x7F)
_AROUND: Final = 2048


class SecretSpan(NamedTuple):
    """A span of bytes that holds a secret. Of two that overlap, the lower *rank* names both."""

    start: int
    end: int
    kind: str
    masked: bytes
    value: bytes
    """What equal secrets have in common wherever they are; it never leaves this package."""
    rank: int


def places(data: bytes, literal: bytes) -> Iterator[int]:
    """Yield every position of *literal*, with C's fastest search."""
    at = data.find(literal)
    while at >= 0:
        yield at
        at = data.find(literal, at + 1)


def find_escaped(
    data: bytes, find: Callable[[bytes], Iterable[SecretSpan]]
) -> Iterator[SecretSpan]:
    """Yield what *find* finds only after unescaping; positions are those in *data*."""
    for begin, end in _neighbourhoods(data):
        text, plain, original = _unescaped(data, begin, end)
        for found in find(text):
            start, stop = (
                _original_position(found.start, plain, original),
                _original_position(found.end, plain, original),
            )
            if stop - start != found.end - found.start:  # Otherwise it contains no escape.
                yield found._replace(start=start, end=stop)


def _neighbourhoods(data: bytes) -> Iterator[tuple[int, int]]:
    escapes = [match.start() for match in _OF_JSON.finditer(data)]
    escapes += [at for at in places(data, b"%") if _ESCAPE.match(data, at)]
    begin = end = -1
    for place in sorted(escapes):
        if place - _AROUND > end:
            if end >= 0:
                yield max(0, begin), min(end, len(data))
            begin = place - _AROUND
        end = place + _AROUND
    if end >= 0:
        yield max(0, begin), min(end, len(data))


def _unescaped(data: bytes, begin: int, end: int) -> tuple[bytes, list[int], list[int]]:
    """Return the unescaped text, and positions after each escape in both texts."""
    pieces: list[bytes] = []
    plain, original = [0], [begin]
    at, length = begin, 0
    for escape in _ESCAPE.finditer(data, begin, end):
        byte = int(escape[1], 16)
        if byte in _DELIMITERS:
            continue
        pieces += (data[at : escape.start()], bytes((byte,)))
        length += escape.start() - at
        # Two marks: one before the escaped character, one after it.
        plain += (length, length + 1)
        original += (escape.start(), escape.end())
        length += 1
        at = escape.end()
    pieces.append(data[at:end])
    return b"".join(pieces), plain, original


def _original_position(place: int, plain: list[int], original: list[int]) -> int:
    mark = bisect_right(plain, place) - 1
    return original[mark] + place - plain[mark]
