"""Undo the escapes of JSON and URLs, and map positions back to the original text.

Only the surroundings of an escape are searched again, and only matches that contain an escape are
returned: the rest was searched already. Quotes and backslashes stay escaped, since they delimit the
text.
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
    """Yield what *find* finds only after unescaping; positions are those in *data*."""
    for begin, end in _neighbourhoods(data):
        text, meant, stood = _undone(data, begin, end)
        for found in find(text):
            start, stop = _back(found.start, meant, stood), _back(found.end, meant, stood)
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


def _undone(data: bytes, begin: int, end: int) -> tuple[bytes, list[int], list[int]]:
    """Return the unescaped text, and positions after each escape in both texts."""
    pieces: list[bytes] = []
    meant, stood = [0], [begin]
    at, length = begin, 0
    for escape in _ESCAPE.finditer(data, begin, end):
        byte = int(escape[1], 16)
        if byte in _HOLDS_TOGETHER:
            continue
        pieces += (data[at : escape.start()], bytes((byte,)))
        length += escape.start() - at
        # Two marks: one before the escaped character, one after it.
        meant += (length, length + 1)
        stood += (escape.start(), escape.end())
        length += 1
        at = escape.end()
    pieces.append(data[at:end])
    return b"".join(pieces), meant, stood


def _back(place: int, meant: list[int], stood: list[int]) -> int:
    mark = bisect_right(meant, place) - 1
    return stood[mark] + place - meant[mark]
