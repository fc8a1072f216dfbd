"""A piece of a text that shows why it was found: one line, the matches marked.

The piece lies where most of what was looked for stands closest together. It is cut where words
end, and an ellipsis says that there is more. Runs of spaces and line ends count as one space, so a
highlight is told in the piece, never in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from turnlog.search.match import Span

WIDTH: Final = 160
"""How long a snippet is, in characters, unless told."""
LOOKED_AT: Final = 1_500
"""Of a longer text only this much is looked at, around the first match."""

_SPACE: Final = re.compile(r"\s")
_GAP: Final = re.compile(r"\s\s+")
_LEAD: Final = 300
# These have letters of ASCII as their small ones.
_ALSO_ASCII: Final = ("\u0130", "\u212a")
_MOST_LOOKED_AT: Final = 1_000_000
_SPACED: Final = 2
_LONGEST_LINE: Final = 400
# To reach the end of a word the piece may be this much shorter than it could be.
_GIVE: Final = 24
_ELLIPSIS: Final = "…"

Marker = Callable[[str], list[Span]]
"""Tells where in a text the matches stand, in order."""


class Snippet(Struct, frozen=True):
    text: str
    highlights: list[Span]
    before: list[str] = []
    after: list[str] = []


def make_snippet(
    text: str,
    marker: Marker,
    *,
    near: int | None = None,
    width: int = WIDTH,
    context: int = 0,
) -> Snippet:
    """Cut a snippet out of *text*, about *width* long.

    *near* is a place where a match is known or suspected: only what lies around it is looked at if
    *text* is long. *context* lines before and after the match are given beside it.
    """
    spans = _marked(text, marker, near)
    best = _densest(spans, text, max(1, width - 2))
    flat, first, last, (begin, end) = _cut(text, best, width)
    lead = "" if begin == 0 and not text[:first].strip() else _ELLIPSIS
    trail = "" if end == len(flat.text) and not text[last:].strip() else _ELLIPSIS
    shift = len(lead) - begin
    highlights = []
    for span in spans:
        if span[0] < last and span[1] > first:
            one, other = flat.span((span[0] - first, span[1] - first))
            one, other = max(one, begin), min(other, end)
            if one < other:
                highlights.append((one + shift, other + shift))
    before, after = _lines_around(text, best[0], context) if context > 0 else ([], [])
    return Snippet(lead + flat.text[begin:end] + trail, highlights, before, after)


def first_place(text: str, phrases: Sequence[tuple[str, ...]]) -> int | None:
    """Guess where a long text has the first of *phrases* as words; accents may hide it."""
    plain = _in_small_letters(text, phrases)
    said = [found.start() for each in phrases if (found := _as_words(each).search(plain))]
    places = said or [place for words in phrases if (place := plain.find(words[0])) >= 0]
    return min(places, default=None)


def _in_small_letters(text: str, phrases: Sequence[tuple[str, ...]]) -> str:
    """Return *text* in small letters, as far as *phrases* care: ASCII alone is much faster."""
    if text.isascii() or any(each in text for each in _ALSO_ASCII):
        return text.lower()
    if not all(word.isascii() for words in phrases for word in words):
        return text.lower()
    return text.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


@lru_cache(maxsize=256)
def _as_words(words: tuple[str, ...]) -> re.Pattern[str]:
    """Give what finds *words* one behind the other; it begins with one, which is found fastest."""
    first, *rest = map(re.escape, words)
    behind = "".join(rf"[\W_]+{each}" for each in rest)
    return re.compile(rf"{first}(?<![^\W_]{first}){behind}(?![^\W_])")


def _marked(text: str, marker: Marker, near: int | None) -> list[Span]:
    """Return where *text* has its matches; of a long one only around the first."""
    if len(text) <= LOOKED_AT:
        return marker(text)
    base, stop = _looked_at(text, near)
    spans = marker(text[base:stop])
    if not spans:  # The place was a guess, and wrong.
        return marker(text[:_MOST_LOOKED_AT])
    return [(begin + base, end + base) for begin, end in spans] if base else spans


def _looked_at(text: str, near: int | None) -> Span:
    """Choose which part of a long text is looked at; it begins and ends between words."""
    begin = max(0, min((near or 0) - _LEAD, len(text) - LOOKED_AT))
    stop = begin + LOOKED_AT
    if begin and (ink := _SPACE.search(text, begin, min(begin + _LEAD, near or begin))):
        begin = ink.end()
    if stop < len(text):
        while stop > begin + LOOKED_AT // 2 and not text[stop].isspace():
            stop -= 1
    return begin, stop


class _Flat:
    """A text on one line, and how its places are found there."""

    __slots__ = ("_flat", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self._starts: list[int] | None = None  # Of stretches with single spaces.
        if len(self.text) == len(text):
            return  # Every place is where it was.
        begin = 0 if text[:1] == self.text[:1] else len(text) - len(text.lstrip())
        self._starts, self._flat = starts, flat = [begin], [0]
        place = 0
        for gap in _GAP.finditer(text, begin):
            stop, following = gap.span()
            place += stop - begin + 1
            begin = following
            flat.append(place)
            starts.append(begin)

    def span(self, span: Span) -> Span:
        begin, end = span
        if self._starts is not None:
            return self._place(begin, 0), self._place(end, 1)
        size = len(self.text)
        return min(begin, size) if begin > 0 else 0, min(end, size) if end > 0 else 0

    def _place(self, at: int, is_end: int) -> int:
        assert self._starts is not None
        piece = bisect_right(self._starts, at - is_end) - 1
        if at < 0 or piece < 0:
            return 0
        following = self._flat[piece + 1] if piece + 1 < len(self._flat) else len(self.text) + 1
        place = self._flat[piece] + at - self._starts[piece]
        if place < following:
            return place
        # In the spaces behind a word: what begins there begins with the next.
        return following - 1 if is_end else min(following, len(self.text))


def _cut(text: str, best: Span, width: int) -> tuple[_Flat, int, int, Span]:
    """Choose a piece of *text* around *best*: on which line, from where to where, and its place.

    Spaces that fall away make room for more, but no piece needs more than twice its width on each
    side. Mostly less will do: as long as the piece ends within it, more would change nothing.
    """
    most = _SPACED * width
    for before, behind in ((width // 2, min(width + _GIVE, most)), (most, most)):
        first, last = max(0, best[0] - before), min(len(text), best[1] + behind)
        flat = _Flat(text[first:last])
        begin, end = _piece(flat.text, flat.span((best[0] - first, best[1] - first)), max(1, width))
        if (begin > 0 or first == 0) and (end < len(flat.text) or last == len(text)):
            break
    return flat, first, last, (begin, end)


def _densest(marks: Sequence[Span], text: str, width: int) -> Span:
    """Return the stretch that holds the most different matches; of equal ones the first."""
    if len(marks) < 2:
        return marks[0] if marks else (0, 0)
    words = [text[begin:end].casefold() for begin, end in marks]
    best: tuple[int, int, Span] = (0, 0, marks[0])
    stop = 0
    inside: dict[str, int] = {}
    for first, (begin, _) in enumerate(marks):
        if first:
            gone = words[first - 1]
            inside[gone] = inside.get(gone, 1) - 1
            if not inside[gone]:
                del inside[gone]
        stop = max(stop, first)
        while stop < len(marks) and (stop == first or marks[stop][1] - begin <= width):
            inside[words[stop]] = inside.get(words[stop], 0) + 1
            stop += 1
        found = (len(inside), stop - first)
        if found > best[:2]:
            best = (*found, (begin, marks[stop - 1][1]))
    return best[2]


def _piece(flat: str, best: Span, width: int) -> Span:
    """Widen *best* to both sides up to *width*, to where words begin and end."""
    begin, end = best[0], min(best[1], best[0] + width)
    room = width - (end - begin)
    begin = max(0, begin - room // 3)
    end = min(len(flat), begin + width)
    begin = max(0, min(begin, end - width))
    if begin and flat[begin - 1] != " ":
        border = flat.find(" ", begin, min(best[0], begin + _GIVE)) + 1
        begin = border or begin
    if end < len(flat) and flat[end] != " ":
        border = flat.rfind(" ", max(best[1], end - _GIVE), end)
        end = border if border > 0 else end
    return begin, end


def _lines_around(text: str, at: int, count: int) -> tuple[list[str], list[str]]:
    """Return up to *count* lines before and after the line that contains *at*."""
    begin = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    before = text[:begin].split("\n")[:-1][-count:] if begin else []
    after = [] if end < 0 else text[end + 1 :].split("\n", count)[:count]
    if after and after[-1] == "" and end + 1 + sum(map(len, after)) + len(after) > len(text):
        after.pop()  # The text ends in a newline.
    return [_shortened(line) for line in before], [_shortened(line) for line in after]


def _shortened(line: str) -> str:
    line = line.rstrip()
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + _ELLIPSIS
