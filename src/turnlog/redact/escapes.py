"""Text as it is meant: the escapes of JSON and of URLs undone, and the way back to where it stood.

Only the neighbourhood of an escape is read anew, and only what holds an escape is told: the rest
was read as it stands already. Quotes and backslashes stay escaped, since they are what holds a text
together.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from turnlog.redact.spans import SecretSpan, places

_ESCAPE: Final = re.compile(rb"(?:(?<!\\)\\++u00|%)([2-7][0-9A-Fa-f])")
_OF_JSON: Final = re.compile(rb"\\u00[2-7]")
_HOLDS_TOGETHER: Final = frozenset((0x22, 0x5C, 0x7F))
_AROUND: Final = 2048


def find_escaped(
    data: bytes, find: Callable[[bytes], Iterable[SecretSpan]]
) -> Iterator[SecretSpan]:
    """Find what *find* finds only once escapes are undone; the places are those in *data*."""
    for begin, end in _neighbourhoods(data):
        text, meant, stood = _undone(data, begin, end)
        for found in find(text):
            start, stop = _back(found.start, meant, stood), _back(found.end, meant, stood)
            if stop - start != found.end - found.start:  # Else it holds no escape.
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


def _undone(data: bytes, begin: int, end: int) -> tuple[bytes, list[int], list[int]]:
    """Return the text with its escapes undone; after each, where it is there and where it stood."""
    pieces: list[bytes] = []
    meant, stood = [0], [begin]
    at, length = begin, 0
    for escape in _ESCAPE.finditer(data, begin, end):
        byte = int(escape[1], 16)
        if byte in _HOLDS_TOGETHER:
            continue
        pieces += (data[at : escape.start()], bytes((byte,)))
        length += escape.start() - at
        # Two marks: one before the character that was escaped, one behind it.
        meant += (length, length + 1)
        stood += (escape.start(), escape.end())
        length += 1
        at = escape.end()
    pieces.append(data[at:end])
    return b"".join(pieces), meant, stood


def _back(place: int, meant: list[int], stood: list[int]) -> int:
    mark = bisect_right(meant, place) - 1
    return stood[mark] + place - meant[mark]
