"""Rank sessions and passages by words of which some may be missing.

A query is what someone remembers. It is split into terms, and a term counts by how rare it is.
Words match by their stem. An identifier or path counts as a whole and by its parts. Chinese,
Japanese and Korean count by pairs of characters. A passage, which is one text of a record, is
scored by the terms it has, its length and its kind; a session by how many of its passages have each
term. The sum of a session's score and that of its best passage orders the sessions. The passages of
the best ones are then read, and words that occur often, close together and in order count more.

The formulas are BM25. How they were chosen is in docs/decisions.md, how well they do in
docs/benchmarks.md.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.formats.projects import last_part
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS, SECOND_BITS, json_array
from turnlog.index.texts import ANSWERED, WEIGHTS, TextKind, split_identifiers
from turnlog.search.language import Phrase, Word
from turnlog.search.tokenizer import (
    LETTER,
    Span,
    as_phrase,
    fold,
    highlighter,
    is_lone,
    merged,
    phrase_pattern,
    stem_of,
    stems_of,
    terms,
)

READ_SESSIONS: Final = 30
"""Of how many sessions the best passages are read before they are ordered."""
_READ_PASSAGES: Final = 3
_READ_CHARACTERS: Final = 50_000
"""How much of a long text is read for that."""
_WORTH_SHOWING: Final = 0.35
"""The part of its session's best score that a passage needs to be shown."""

_K1: Final = 1.2
_B_PASSAGE: Final = 0.75
_B_SESSION: Final = 0.75
_CLOSENESS: Final = 0.6
_CLOSE: Final = 30
"""Words further apart than this many characters are not close."""
_WINDOW: Final = 160
_OF_PART: Final = 0.4
"""The weight of a part of an identifier or path, which also counts as a whole."""
_OF_PLACE: Final = 0.5
"""The weight of a word in the name of a session's branch or project."""
_RECENCY: Final = 0.1
_HALF_LIFE_SECONDS: Final = 30 * 86_400
_MOST_TERMS: Final = 40
_MOST_PARTS: Final = 6
"""The most words of an identifier."""

_COMMON: Final = """
a about an and any are as at be been but by can could did do does for from had has have how i if in
into is it its me my of on or our should so some than that the their them then there these they this
those to us was we were what when where which who whose why will with would you your
didn don doesn isn wasn weren hasn haven hadn couldn wouldn shouldn aren
"""
_OF_COMMON: Final = 0.4
_COMMON_WORDS: Final = frozenset(_COMMON.split())
_WEIGHTS: Final = {int(kind): weight for kind, weight in WEIGHTS.items()}
_NOTE: Final = int(TextKind.NOTE)
_CONTRACTION: Final = re.compile(r"(?<=\w)['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_WORD: Final = re.compile(f"{LETTER}*")
_ANSWERED: Final = ", ".join(str(int(kind)) for kind in sorted(ANSWERED))
# What passages of an average size are like; the newest ones are typical enough.
_SIZE: Final = f"""
SELECT avg(size_bytes) FROM
(SELECT size_bytes FROM texts WHERE kind NOT IN ({_ANSWERED}) ORDER BY id DESC LIMIT 1000)
"""  # noqa: S608 - Ours.

_PLACES: Final = """
SELECT s.id, coalesce(s.git_branch, ''), coalesce(p.path, '') FROM json_each(?) a
CROSS JOIN sessions s ON s.id = a.value LEFT JOIN projects p ON p.id = s.project
"""

Row = tuple[Any, ...]
"""Id, record, part, kind, session and size of a text; more columns may follow."""


class Term(Struct):
    """Something to find: a stem, or a phrase of words as they are written."""

    text: str
    words: tuple[str, ...]
    key: str
    """Its stem, or its words; the same for terms that are found in the same texts."""
    is_stem: bool
    weight: float = 1.0
    is_prefix: bool = False
    whole: str = ""
    """The key of the term that it is a part of."""
    count: int = 0
    """How many texts have it, if known."""

    @property
    def expression(self) -> str:
        """The term for FTS5; the table of stems stems it."""
        return as_phrase(Word(self.text, self.is_prefix))


def terms_of(leaves: Iterable[Word | Phrase]) -> list[Term]:
    """Return the terms of *leaves*, each once."""
    found: dict[str, Term] = {}
    for leaf in leaves:
        for term in _terms_of(leaf.text):
            found.setdefault(term.key, term)
    return list(found.values())[:_MOST_TERMS]


def _terms_of(text: str) -> Iterator[Term]:
    text = _CONTRACTION.sub("", text)
    words = terms(text)
    if any(map(is_lone, words)):
        phrase = _phrase(text, words)
        yield phrase
        if len(words) > 2:
            yield from _pairs(words, phrase.key)
        return
    parts = terms(split_identifiers(text.encode(errors="replace")).decode())
    if len(parts) > len(words) + _MOST_PARTS:  # Not an identifier, but random letters.
        parts = words
    whole = ""
    if len(parts) > 1:
        phrase = _phrase(text, words)
        whole = phrase.key
        yield phrase
    for part in parts:
        yield _stem(part, whole)


def _pairs(words: Sequence[str], whole: str) -> Iterator[Term]:
    """Yield pairs of characters that are words of their own, and the words between them."""
    for word, following in pairwise((*words, "")):
        if not is_lone(word):
            yield _stem(word, whole)
        elif is_lone(following):
            yield _phrase(word + following, (word, following), whole)


def _stem(word: str, whole: str) -> Term:
    weight = _OF_COMMON if word in _COMMON_WORDS else 1.0
    return Term(word, (word,), stem_of(word), is_stem=True, weight=weight, whole=whole)


def _phrase(text: str, words: tuple[str, ...], whole: str = "") -> Term:
    return Term(text, words, " ".join(words), is_stem=False, whole=whole)


class Occurrence(NamedTuple):
    start: int
    end: int
    term: int


def finder(wanted: Sequence[Term]) -> Callable[[str], list[Occurrence]]:
    """Return a function that finds *wanted* in a text, in order."""
    by_stem = {term.key: number for number, term in enumerate(wanted) if term.is_stem}
    # A stem without its last vowel begins all its words: retri is the stem of retry and retries.
    heads = {key.rstrip("eiy") or key for key in by_stem}
    stems = re.compile("|".join(map(re.escape, sorted(heads, key=len, reverse=True))))
    phrases = [
        (number, phrase_pattern(term.words, is_prefix=term.is_prefix))
        for number, term in enumerate(wanted)
        if not term.is_stem
    ]

    def find(text: str) -> list[Occurrence]:
        letters = fold(text) or text.lower()
        if len(letters) != len(text):  # Rare characters change their length.
            letters = text
        places: list[tuple[int, int, str]] = []
        for match in stems.finditer(letters) if heads else ():
            start = match.start()
            if _begins_word(text, letters, start):
                word = _WORD.match(letters, start)
                end = _end_of_word(text, start, word.end() if word else match.end())
                places.append((start, end, letters[start:end]))
        known = stems_of({word for _, _, word in places})
        found = [
            Occurrence(start, end, number)
            for start, end, word in places
            if (number := by_stem.get(known[word])) is not None
        ]
        for number, pattern in phrases:
            found += (Occurrence(m.start(), m.end(1), number) for m in pattern.finditer(letters))
        found.sort()
        return found

    return find


def _begins_word(text: str, letters: str, at: int) -> bool:
    """Return whether a word begins at *at*, possibly within an identifier."""
    if at == 0 or not _WORD.match(letters, at - 1, at).end() > at - 1:  # type: ignore[union-attr]
        return True
    if not text[at].isupper():
        return False
    return not text[at - 1].isupper() or text[at + 1 : at + 2].islower()


def _end_of_word(text: str, start: int, end: int) -> int:
    """Return where the word ends that begins at *start*, or its part of an identifier."""
    for at in range(start + 1, end):
        if text[at].isupper() and (
            not text[at - 1].isupper() or text[at + 1 : min(at + 2, end)].islower()
        ):
            return at
    return end


def without_common(wanted: Sequence[Term]) -> Sequence[Term]:
    """Return the terms that are not common words; all if there are no others."""
    return [term for term in wanted if term.weight > _OF_COMMON] or wanted


def highlighter_of(
    find: Callable[[str], list[Occurrence]], leaves: Sequence[Word | Phrase] = ()
) -> Callable[[str], list[Span]]:
    """Return a function that returns what *find* and, as they are written, *leaves* find in a text.

    It returns sorted spans that do not overlap.
    """
    exactly = highlighter(leaves)

    def spans(text: str) -> list[Span]:
        found = [(start, end) for start, end, _ in find(text)]
        return merged([*found, *exactly(text)] if leaves else found)

    return spans


def densest(occurrences: Sequence[Occurrence]) -> int | None:
    """Return where the most different terms are close together, or None."""
    best, place = 0, None
    for number, first in enumerate(occurrences):
        near = {first.term}
        for other in occurrences[number + 1 : number + 20]:
            if other.end > first.start + _WINDOW:
                break
            near.add(other.term)
        if len(near) > best:
            best, place = len(near), first.start
    return place


Passage = tuple[float, Row]
"""The score of a text that has some of the terms, and its row, which begins with a unique id."""


class Ranking:
    """Collects passages, and orders them."""

    def __init__(self, index: Index, wanted: Sequence[Term], now: float) -> None:
        self.terms = wanted
        self.rows: dict[int, Row] = {}
        self._having: dict[int, int] = {}
        """The terms that each text is known to have, as bits."""
        self._is_strict = False
        """Whether the texts match the whole query, so that all of them are results."""
        self._index, self._now = index, now
        db = index.db
        self._lengths = dict(db.execute("SELECT id, records FROM sessions"))
        """How many records each session has; nearly every one is a passage."""
        self._texts = sum(self._lengths.values()) or 1
        self._length = max(1.0, self._texts / max(1, len(self._lengths)))
        self._size: float = db.execute(_SIZE).fetchone()[0] or 1.0
        self._wholes: set[str] = set()
        rare = [number for number, term in enumerate(wanted) if term.weight > _OF_COMMON]
        self._following = dict(zip(rare, [*rare[1:], -1], strict=False))
        """For each term the next one in the query, without common words."""
        self._weights = [0.0 for _ in wanted]
        self._rarities = [0.0 for _ in wanted]
        """The inverse document frequency of each term, times its weight."""
        self._counts: list[Counter[int]] = [Counter() for _ in wanted]
        """How many passages of each session have each term."""

    def include(self, rows: Iterable[Row]) -> None:
        """Add texts that match a whole query, whichever terms they have."""
        self._is_strict = True
        for row in rows:
            self.rows[row[0]] = row
            self._having.setdefault(row[0], 0)

    def add(self, number: int, rows: Iterable[Row], count: int) -> None:
        """Add texts that have a term; *count* texts do in all. A whole comes before its parts."""
        having, bit, term = self._having, 1 << number, self.terms[number]
        new = [row for row in rows if not having.get(row[0], 0) & bit]
        for row in new:
            having[row[0]] = having.get(row[0], 0) | bit
        self.rows.update({row[0]: row for row in new})
        self._counts[number].update([row[4] for row in new if row[3] != _NOTE])
        if count and not term.is_stem:
            self._wholes.add(term.key)
        self._weights[number] = term.weight * (_OF_PART if term.whole in self._wholes else 1)
        self._rarities[number] = self._weights[number] * _rarity(count, self._texts)

    def sessions(self, read: Callable[[Row], str | None]) -> list[list[Passage]]:
        """Return the passages of each session, best session and best passage first.

        *read* returns the text of a row.
        """
        grouped = self._grouped()
        scores = {session: self._session_score(session) for session in grouped}

        def rank(session: int) -> tuple[float, int]:
            passages = grouped[session]
            newest = max(row[0] for _, row in passages[:_READ_PASSAGES])
            age = max(0.0, self._now - (newest >> SECOND_BITS))
            recency = 1 + _RECENCY * 0.5 ** (age / _HALF_LIFE_SECONDS)
            return (passages[0][0] + scores[session]) * recency, newest

        order = sorted(grouped, key=rank, reverse=True)
        best, rest = order[:READ_SESSIONS], order[READ_SESSIONS:]
        find = finder(self.terms)
        for session in best:
            passages = grouped[session]
            seen = 0
            for place, (_, row) in enumerate(passages[:_READ_PASSAGES]):
                text = read(row)
                if text is not None:
                    occurrences = find(text[:_READ_CHARACTERS])
                    passages[place] = (self._score_read(row, occurrences), row)
                    seen |= sum(1 << number for number in {each.term for each in occurrences})
            passages.sort(reverse=True)
            if self._index.is_masked:  # What is masked must not decide the order.
                scores[session] = self._session_score(session, seen)
        for session, places in self._place_names(best).items():
            scores[session] += _OF_PLACE * sum(
                rarity
                for term, rarity in zip(self.terms, self._rarities, strict=True)
                if term.is_stem and term.key in places
            )
        best.sort(key=rank, reverse=True)
        return [grouped[session] for session in (*best, *rest)]

    def _grouped(self) -> dict[int, list[Passage]]:
        """Return the passages of each session, scored without reading them, best first."""
        grouped: defaultdict[int, list[Passage]] = defaultdict(list)
        relevant: set[int] = set()
        rare = [at for at in self._following if self._rarities[at] and not self._is_strict]
        rare_bits = sum(1 << at for at in rare)
        rarities: dict[int, float] = {}
        rows = self.rows
        least, slope = 1 + _K1 * (1 - _B_PASSAGE), _K1 * _B_PASSAGE / self._size
        for number, bits in self._having.items():
            rarity = rarities.get(bits)
            if rarity is None:
                having = (each for at, each in enumerate(self._rarities) if bits >> at & 1)
                rarity = rarities[bits] = (_K1 + 1) * sum(having)
            row = rows[number]
            score = _WEIGHTS[row[3]] * rarity / (least + slope * row[5])
            session = row[4]
            if session is None:  # Such texts are grouped by their log.
                session = ~(row[1] >> OFFSET_BITS)
            grouped[session].append((score, row))
            if bits & rare_bits or not rare:
                relevant.add(session)
        for session in grouped.keys() - relevant:  # They only have words such as "the".
            del grouped[session]
        for passages in grouped.values():
            passages.sort(reverse=True)
        return grouped

    def _session_score(self, session: int, among: int = -1) -> float:
        length = self._lengths.get(session, self._length) / self._length
        score = 0.0
        for number, counts in enumerate(self._counts):
            if session in counts and among >> number & 1:
                rarity = self._weights[number] * _rarity(len(counts), len(self._lengths))
                score += rarity * _saturated(counts[session], _B_SESSION, length)
        return score

    def _score_read(self, row: Row, occurrences: list[Occurrence]) -> float:
        """Return the score of a passage with these *occurrences* of terms."""
        counts = Counter(each.term for each in occurrences)
        if (
            not self._index.is_masked
        ):  # The rest of a long text, or of a word that is spelled oddly.
            for number in range(len(self.terms)):
                if self._having[row[0]] >> number & 1:
                    counts[number] = counts[number] or 1
        size = row[5] / self._size
        score = sum(
            self._rarities[number] * _saturated(count, _B_PASSAGE, size)
            for number, count in counts.items()
        )
        return _WEIGHTS[row[3]] * (score + _CLOSENESS * self._closeness(occurrences))

    def _closeness(self, occurrences: list[Occurrence]) -> float:
        """Return how close terms are that follow each other in the query; half if reversed."""
        best: dict[tuple[int, int], float] = {}
        following = self._following
        for one, other in pairwise(each for each in occurrences if each.term in following):
            pair = (one.term, other.term)
            is_reversed = following[one.term] != other.term
            if is_reversed and following[other.term] != one.term:
                continue
            gap = max(0, other.start - one.end - 1)
            closeness = max(0.0, 1 - gap / _CLOSE) * (0.5 if is_reversed else 1)
            best[pair] = max(closeness, best.get(pair, 0.0))
        return sum(
            closeness * min(self._rarities[one], self._rarities[other])
            for (one, other), closeness in best.items()
        )

    def _place_names(self, sessions: Sequence[int]) -> dict[int, set[str]]:
        """Return the stems in the names of each session's branch and project."""
        rows = self._index.db.execute(_PLACES, (json_array(sessions),))
        named = {session: terms(f"{branch} {last_part(path)}") for session, branch, path in rows}
        known = stems_of({word for words in named.values() for word in words})
        return {session: {known[word] for word in words} for session, words in named.items()}


def worth_showing(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages of a session that are not much worse than its best."""
    least = passages[0][0] * _WORTH_SHOWING
    return [passage for passage in passages if passage[0] >= least]


def _rarity(count: int, total: int) -> float:
    return log(1 + max(0.0, total - count + 0.5) / (count + 0.5))


def _saturated(count: int, b: float, length: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - b + b * length))
