"""Hits: matching texts, read back from their logs, with a snippet of each.

A snippet is one line around the place where most of the words are closest together, cut between
words, with an ellipsis where there is more. Whitespace counts as one space, so highlights are
positions in the snippet, not in the text.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from msgspec import Struct, field, structs

from turnlog.index.connection import Index
from turnlog.index.ids import SUBAGENT, instant_at, json_array, long_uuid
from turnlog.index.texts import Text, TextKind
from turnlog.search.filters import IS_GONE, WAS_TAKEN
from turnlog.search.tokenizer import Span

WIDTH: Final = 160
"""The default length of a snippet in characters."""
LONGEST_TEXT: Final = 1_000_000
"""Only the beginning of a longer text is matched with a pattern."""
WINDOW: Final = 1_500
"""How much of a longer text is searched for matches, around the first one."""

_RECORDS: Final = f"""
SELECT r.id, r.length, r.at, w.name, m.name, r.flags, r.uuid, s.session, s.title, p.path,
       {SUBAGENT}, {IS_GONE}
FROM json_each(?) a
CROSS JOIN records r ON r.id = a.value
JOIN logs l ON l.id = r.id >> 40
LEFT JOIN names w ON w.id = r.author
LEFT JOIN names m ON m.id = r.model
LEFT JOIN sessions s ON s.id = r.session
LEFT JOIN projects p ON p.id = s.project
"""  # noqa: S608 - Ours.
_CALLS: Final = """
SELECT c.{0}, n.name, c.is_error FROM json_each(?) a CROSS JOIN calls c ON c.{0} = a.value
LEFT JOIN names n ON n.id = c.tool
ORDER BY c.{0}, c.block
"""
_KINDS: Final = {int(kind): kind.name.lower() for kind in TextKind}
# Texts that were read to check them are mostly shown next.
_CACHED_TEXTS: Final = 100
_CACHED_CHARACTERS: Final = 100_000

_SPACE: Final = re.compile(r"\s")
_GAP: Final = re.compile(r"\s\s+")
_LEAD: Final = 300
# In lower case these are ASCII letters.
_ALSO_ASCII: Final = ("\u0130", "\u212a")
_LARGEST_WINDOW: Final = 1_000_000
_LONGEST_LINE: Final = 400
# How many characters a snippet may be shorter, to end between words.
_GIVE: Final = 24
_ELLIPSIS: Final = "…"


class TextMatch(NamedTuple):
    """A text that matches."""

    record: int
    part: int
    kind: int
    session: int | None
    score: float = 0.0


class Hit(Struct, kw_only=True):
    """A matching text, and the place of its record."""

    session: str | None
    project: str | None
    title: str | None
    subagent: str | None
    at: datetime | None
    kind: str
    author: str
    tool: str | None
    model: str | None
    is_error: bool
    uuid: str | None
    log: str
    offset: int
    length: int
    snippet: str
    highlights: list[Span]
    """Where the matches are in the snippet."""
    score: float
    gone: bool
    """Whether the log is gone at its source."""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    more: int | None = None
    """How many hits of the session are not on this page, if known."""


class HitView(NamedTuple):
    """How to show a hit."""

    highlight: Callable[[str], list[Span]]
    """Returns where the matches are in a text, in order."""
    first_match: Callable[[str], int | None]
    """Returns where the first match is in a long text, or a guess."""
    width: int
    context: int
    mask: Callable[[str], str] | None = None
    """Applied to a text before anything of it is shown."""


class Snippet(NamedTuple):
    text: str
    highlights: list[Span]
    before: list[str]
    after: list[str]


class HitReader:
    """Reads hits; looks up what the index knows of many at once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._records: dict[int, tuple[Any, ...]] = {}
        self._calls: dict[tuple[int, int], list[tuple[str | None, int | None]]] = {}
        """The tool, and whether it failed, of each call of a record."""
        self._texts: dict[int, list[Text]] = {}

    def look_up(self, matches: Sequence[TextMatch]) -> None:
        """Look up the records of *matches* in the index, before they are read."""
        db = self._index.db
        ids = json_array({match.record for match in matches})
        self._records = {row[0]: row[1:] for row in db.execute(_RECORDS, (ids,))}
        self._calls = {}
        for kind, column in ((TextKind.CALL, "record"), (TextKind.RESULT, "result")):
            of_kind = {match.record for match in matches if match.kind == kind}
            if of_kind:
                rows = db.execute(_CALLS.format(column), (json_array(of_kind),))
                for record, tool, is_error in rows:
                    self._calls.setdefault((kind, record), []).append((tool, is_error))

    def text(self, record: int, part: int) -> str | None:
        """Read one text of a record, which may soon be read again."""
        texts = self._texts.pop(record, None) or self._index.texts(record)
        if sum(len(each.text) for each in texts) < _CACHED_CHARACTERS:
            self._texts[record] = texts
            if len(self._texts) > _CACHED_TEXTS:
                del self._texts[next(iter(self._texts))]
        return texts[part].text if part < len(texts) else None

    def hit(self, match: TextMatch, view: HitView) -> Hit | None:
        """Read a match that was looked up; None if its text is no longer in the log."""
        row = self._records.get(match.record)
        if row is None:
            return None
        length, at, author, model, flags, uuid, session, title, project, subagent, is_gone = row
        texts = self._texts.pop(match.record, None) or self._index.texts(match.record, length)
        if match.part >= len(texts) or texts[match.part].kind != match.kind:
            return None
        text = texts[match.part].text
        if view.mask is not None:  # The whole text: a snippet may cut what identifies a secret.
            text = view.mask(text)
        tool = failed = None
        if calls := self._calls.get((match.kind, match.record)):
            parts = [part for part, each in enumerate(texts) if each.kind == match.kind]
            tool, failed = calls[parts.index(match.part) if len(parts) == len(calls) else 0]
        near = view.first_match(text) if len(text) > WINDOW else None
        snippet = make_snippet(
            text, view.highlight, near=near, width=view.width, context=view.context
        )
        log, offset = self._index.place(match.record)
        hit = Hit(
            session=session or None,
            project=project,
            title=title,
            subagent=subagent,
            at=instant_at(at),
            kind=_KINDS[match.kind],
            author=author or "",
            tool=tool or None,
            model=model,
            is_error=bool(flags & 1 or failed),
            uuid=long_uuid(uuid),
            log=log,
            offset=offset,
            length=length,
            snippet=snippet.text,
            highlights=snippet.highlights,
            score=round(match.score, 6),
            gone=bool(is_gone),
            before=snippet.before,
            after=snippet.after,
        )
        return hit if view.mask is None else _masked(hit, view.mask)


def _masked(hit: Hit, mask: Callable[[str], str]) -> Hit:
    """Mask the other texts too: a title, or an id made from a secret."""
    values = structs.asdict(hit).items()
    return structs.replace(
        hit, **{name: mask(value) for name, value in values if isinstance(value, str)}
    )


def was_taken(db: sqlite3.Connection, record: int) -> bool:
    """Return whether a note of a queued prompt is followed by the prompt itself."""
    query = f"SELECT 1 FROM records AS r WHERE r.id = ? AND {WAS_TAKEN}"  # noqa: S608 - Ours.
    return db.execute(query, (record,)).fetchone() is not None


def make_snippet(
    text: str,
    highlight: Callable[[str], list[Span]],
    *,
    near: int | None = None,
    width: int = WIDTH,
    context: int = 0,
) -> Snippet:
    """Return a snippet of *text*, about *width* characters long.

    *near* is where a match is known or suspected: only what is around it is searched if *text* is
    long. *context* is the number of lines to return before and after the match.
    """
    spans = highlight(text) if len(text) <= WINDOW else _spans_near(text, highlight, near)
    best = spans[0] if spans else (0, 0)
    if len(spans) > 1:
        best = _densest(spans, text, max(1, width - 2))
    flat, first, last, (begin, end) = _cut(text, best, width)
    lead = "" if begin == 0 and not text[:first].strip() else _ELLIPSIS
    trail = "" if end == len(flat.text) and not text[last:].strip() else _ELLIPSIS
    shift = len(lead) - begin
    highlights = []
    for span in spans:
        if span[0] < last and span[1] > first:
            start, stop = flat.span((span[0] - first, span[1] - first))
            start, stop = max(start, begin), min(stop, end)
            if start < stop:
                highlights.append((start + shift, stop + shift))
    before, after = _lines_around(text, best[0], context) if context > 0 else ([], [])
    return Snippet(lead + flat.text[begin:end] + trail, highlights, before, after)


def first_place(text: str, phrases: Sequence[tuple[str, ...]]) -> int | None:
    """Guess where the first of *phrases* is in a long text; accents may hide it."""
    lower = _lower(text, phrases)
    whole = [found.start() for words in phrases if (found := _phrase(words).search(lower))]
    places = whole or [place for words in phrases if (place := lower.find(words[0])) >= 0]
    return min(places, default=None)


def _lower(text: str, phrases: Sequence[tuple[str, ...]]) -> str:
    """Return *text* in lower case as far as *phrases* need it: for ASCII alone that is faster."""
    if text.isascii() or any(each in text for each in _ALSO_ASCII):
        return text.lower()
    if not all(word.isascii() for words in phrases for word in words):
        return text.lower()
    return text.encode(errors="surrogatepass").lower().decode(errors="surrogatepass")


@lru_cache(maxsize=256)
def _phrase(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for consecutive *words*; it begins with a literal, which is faster."""
    first, *rest = map(re.escape, words)
    following = "".join(rf"[\W_]+{word}" for word in rest)
    return re.compile(rf"{first}(?<![^\W_]{first}){following}(?![^\W_])")


def _spans_near(text: str, highlight: Callable[[str], list[Span]], near: int | None) -> list[Span]:
    """Return where the matches are in a long text, around *near* or the first one."""
    base, stop = _window(text, near)
    spans = highlight(text[base:stop])
    if not spans:  # *near* was a wrong guess.
        return highlight(text[:_LARGEST_WINDOW])
    return [(begin + base, end + base) for begin, end in spans] if base else spans


def _window(text: str, near: int | None) -> Span:
    """Return which part of a long text to search; it begins and ends between words."""
    begin = max(0, min((near or 0) - _LEAD, len(text) - WINDOW))
    stop = begin + WINDOW
    if begin and (space := _SPACE.search(text, begin, min(begin + _LEAD, near or begin))):
        begin = space.end()
    if stop < len(text):
        while stop > begin + WINDOW // 2 and not text[stop].isspace():
            stop -= 1
    return begin, stop


class _Flat:
    """A text on one line, and how places in the text map to places on the line."""

    __slots__ = ("_flat", "_starts", "text")

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        self._starts: list[int] | None = None  # Of stretches with single spaces.
        if len(self.text) == len(text):
            return  # Every place stays the same.
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
        stretch = bisect_right(self._starts, at - is_end) - 1
        if at < 0 or stretch < 0:
            return 0
        is_last = stretch + 1 == len(self._flat)
        following = len(self.text) + 1 if is_last else self._flat[stretch + 1]
        place = self._flat[stretch] + at - self._starts[stretch]
        if place < following:
            return place
        # In the spaces after a word: what begins there begins with the next word.
        return following - 1 if is_end else min(following, len(self.text))


def _cut(text: str, best: Span, width: int) -> tuple[_Flat, int, int, Span]:
    """Return the part of *text* around *best* as a line, its borders, and a piece of that line.

    Whitespace makes room for more, but no piece needs more than twice its width on each side.
    Mostly less will do, if the piece ends within it.
    """
    most = 2 * width
    for before, after in ((width // 2, min(width + _GIVE, most)), (most, most)):
        first, last = max(0, best[0] - before), min(len(text), best[1] + after)
        flat = _Flat(text[first:last])
        begin, end = _piece(flat.text, flat.span((best[0] - first, best[1] - first)), max(1, width))
        if (begin > 0 or first == 0) and (end < len(flat.text) or last == len(text)):
            break
    return flat, first, last, (begin, end)


def _densest(spans: Sequence[Span], text: str, width: int) -> Span:
    """Return the stretch with the most different matches, or the first of several."""
    words = [text[begin:end].casefold() for begin, end in spans]
    best: tuple[int, int, Span] = (0, 0, spans[0])
    stop = 0
    inside: dict[str, int] = {}
    for first, (begin, _) in enumerate(spans):
        if first:
            gone = words[first - 1]
            inside[gone] = inside.get(gone, 1) - 1
            if not inside[gone]:
                del inside[gone]
        stop = max(stop, first)
        while stop < len(spans) and (stop == first or spans[stop][1] - begin <= width):
            inside[words[stop]] = inside.get(words[stop], 0) + 1
            stop += 1
        counts = (len(inside), stop - first)
        if counts > best[:2]:
            best = (*counts, (begin, spans[stop - 1][1]))
    return best[2]


def _piece(flat: str, best: Span, width: int) -> Span:
    """Widen *best* on both sides up to *width*, to where words begin and end."""
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
