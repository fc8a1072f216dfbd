"""Search for literal text and patterns, in the logs themselves where the index has no words for it.

A pattern that contains a whole word is matched only against texts with that word. For any other,
the bytes of the logs are searched for a part of it as JSON may spell it, and only records that have
it are read: newest first, as soon as no remaining log can contain a newer one. A record without a
timestamp has the time of the last one before it in its log, as in the index. When the time budget
is used up, the search ends with what it has.

Case matters only if the pattern has a capital letter.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final, NamedTuple

from turnlog.errors import TurnlogError, UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import BESIDE, OFFSET_BITS, SECOND_BITS, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.records.damage import Damage
from turnlog.search.filters import CROWD_SECONDS
from turnlog.search.hits import LONGEST_TEXT, TextMatch, was_taken
from turnlog.search.language import FieldFilter, Node, Word
from turnlog.search.regex import TimeBudget, compile_pattern
from turnlog.search.tokenizer import Span

EVERY_RECORD: Final = (b"{",)
"""Bytes that every record has."""

_OFFSETS: Final = (1 << OFFSET_BITS) - 1
_SECOND_US: Final = 1_000_000
_LAST_ID: Final = (1 << 63) - 1
_TEXTS_AT_ONCE: Final = 20_000
"""How many texts are grouped by log in one query."""
_DATED_BEFORE: Final = """
SELECT id, at FROM records WHERE id < ? AND id >= ? AND at IS NOT NULL ORDER BY id DESC LIMIT 1
"""

_WORDS: Final = "[0-9A-Za-z]+"
_MOST_NEEDLES: Final = 8
_MOST_SPANS: Final = 100
# A longer needle is not found any faster.
_LONG_ENOUGH: Final = 100
_QUANTIFIERS: Final = "*+?{"
# These are longer than one character, or stand for a character that is not in the pattern.
_LONG_ESCAPE: Final = r"\\[xuUN0-9]"
# All groups except those that change what is around them: flags, comments, conditions.
_GROUP: Final = re.compile(r"\((?!\?)|\(\?(?:[:=!>]|<[=!]|P[<=])")
_COUNTS: Final = re.compile(r"\d*+,?\d*+\}")


class ScanScope(NamedTuple):
    """What to scan: which sessions (None for all), and between which instants."""

    sessions: frozenset[int] | None = None
    since_us: int | None = None
    until_us: int | None = None
    with_results: bool = False

    @classmethod
    def of_filters(
        cls,
        filters: Iterable[Node],
        sessions_of: Callable[[FieldFilter], Iterable[int]],
        *,
        with_results: bool,
    ) -> ScanScope:
        """Return the scope that all of *filters*, each by session, project or time, leave."""
        scope = cls(with_results=with_results)
        for wanted in filters:
            assert isinstance(wanted, FieldFilter)
            if wanted.at is None:
                sessions = frozenset(sessions_of(wanted))
                if scope.sessions is not None:
                    sessions &= scope.sessions
                scope = scope._replace(sessions=sessions)
            elif wanted.field == "before":
                until = microseconds(wanted.at)
                earlier = until if scope.until_us is None else min(until, scope.until_us)
                scope = scope._replace(until_us=earlier)
            else:
                since = max(microseconds(wanted.at), scope.since_us or 0)
                scope = scope._replace(since_us=since)
        return scope

    def includes(self, session: int | None, at_us: int) -> bool:
        if self.sessions is not None and session not in self.sessions:
            return False
        if self.since_us is not None and at_us < self.since_us:
            return False
        return self.until_us is None or at_us < self.until_us


class ScanPattern:
    """A pattern, and what every text that matches it has."""

    def __init__(self, regex: Any, ways: list[list[str]], *, is_quick: bool) -> None:
        self.regex = regex
        """Compiled by ``re`` if it is quick, else by ``regex``, which has a timeout."""
        self._is_quick = is_quick
        self._ways = ways
        """For each alternative the literals in every match, in any case."""

    @property
    def words(self) -> list[Word]:
        """Words in every text that matches."""
        runs = self._ways[0] if len(self._ways) == 1 else []
        return [word for run in runs if run.isascii() for word in _whole_words(run)]

    @property
    def ignores_case(self) -> bool:
        return bool(self.regex.flags & re.IGNORECASE)

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes of which every matching line has at least one; in lower case if it ignores case."""
        needles: dict[bytes, None] = {}
        for runs in self._ways:
            spellings = (needles_of(run, ignores_case=self.ignores_case) for run in runs)
            best = max(filter(None, spellings), key=lambda each: len(each[0]), default=EVERY_RECORD)
            if best == EVERY_RECORD:
                return best
            needles |= dict.fromkeys(best)
        return tuple(needles)

    def is_in(self, text: str, budget: TimeBudget) -> bool:
        if len(text) > LONGEST_TEXT:
            budget.has_cut = True
        return self.place(text, budget) is not None

    def place(self, text: str, budget: TimeBudget) -> int | None:
        """Return where the first match in *text* begins, or None."""

        def match(**limit: float) -> int | None:
            found = self.regex.search(text, 0, LONGEST_TEXT, **limit)
            return found.start() if found else None

        return match() if self._is_quick else budget.limit(match, None)

    def spans(self, text: str, budget: TimeBudget) -> list[Span]:
        """Return where the first matches in *text* are, without empty ones."""

        def match(**limit: float) -> list[Span]:
            found = (each.span() for each in self.regex.finditer(text, 0, LONGEST_TEXT, **limit))
            return [span for span in islice(found, _MOST_SPANS) if span[0] < span[1]]

        return match() if self._is_quick else budget.limit(match, [])


def literal_pattern(text: str) -> ScanPattern:
    """Return a pattern that matches exactly *text*."""
    flags = re.NOFLAG if _has_capital(text) else re.IGNORECASE
    if text.isascii():  # Otherwise a Kelvin sign would match k.
        flags |= re.ASCII
    return ScanPattern(re.compile(re.escape(text), flags), [[text]], is_quick=True)


def regex_pattern(text: str) -> ScanPattern:
    """Return a pattern for the regular expression *text*; ^ and $ match at line ends."""
    flags = re.MULTILINE
    if not _has_capital(re.sub(r"\\.", "", text)):
        flags |= re.IGNORECASE
    try:
        compiled = compile_pattern(text, flags)
    except ValueError as error:
        raise UsageError(
            f"invalid regular expression: {error}",
            hint="use Python's syntax, or leave out regex=True to search for words",
            code="invalid-regex",
        ) from None
    return ScanPattern(compiled, _required(text), is_quick=False)


def needles_of(run: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Return how JSON may spell the longest part of *run* that has few spellings."""
    best: tuple[bytes, ...] = ()
    for start in range(len(run)):
        needles: list[bytes] = [b""]
        for character in run[start : start + _LONG_ENOUGH]:
            spellings = _spellings(character, ignores_case=ignores_case)
            if not spellings or len(needles) * len(spellings) > _MOST_NEEDLES:
                break
            needles = [before + after for before in needles for after in spellings]
        if needles[0] and (not best or len(needles[0]) > len(best[0])):
            best = tuple(needles)
        if best and len(best[0]) >= _LONG_ENOUGH:
            break
    return best


def scan(
    index: Index,
    needles: tuple[bytes, ...],
    accepts: Callable[[str], bool],
    scope: ScanScope,
    budget: TimeBudget,
    *,
    ignores_case: bool = False,
) -> Iterator[TextMatch]:
    """Yield the texts that *accepts* returns true for, newest first.

    Only lines with one of *needles* are read. With *ignores_case*, needles are in lower case.
    """
    from turnlog.storage.scan import BUFFER_BYTES  # noqa: PLC0415 - Few searches scan.

    buffer = bytearray(BUFFER_BYTES)
    listed = {
        row[0]
        for row in index.db.execute("SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL")
    }
    candidates: list[_Candidate] = []

    def newer_than(second: int) -> Iterator[TextMatch]:
        while candidates and -candidates[0].before_us >= (second + 1) * _SECOND_US:
            if budget.ends():
                return
            yield from _matches(index, heappop(candidates), accepts, scope, listed)

    for log in _logs(index.db, scope):
        yield from newer_than(log.last_second)
        if budget.runs_short():
            break
        lines: Iterable[tuple[int, int]] = [(0, _OFFSETS)]
        if not log.is_one_record:
            lines = _lines(log.path, needles, buffer, budget, ignores_case=ignores_case)
        for candidate in _candidates(index.db, log.id, lines, scope):
            heappush(candidates, candidate)
            if budget.runs_short():
                break
    yield from newer_than(-_LAST_ID)


class _ScannedLog(NamedTuple):
    id: int
    path: str
    is_one_record: bool
    last_second: int
    """When its newest text in the scope was written."""


class _Candidate(NamedTuple):
    """A record that may match; the newest sorts first."""

    before_us: int
    """Its time, negated."""
    before: int
    """Its id, negated."""
    length: int
    session: int | None


def _matches(
    index: Index,
    candidate: _Candidate,
    accepts: Callable[[str], bool],
    scope: ScanScope,
    listed: set[int],
) -> Iterator[TextMatch]:
    record, session = -candidate.before, candidate.session
    texts = index.texts(record, candidate.length)
    for part in range(len(texts) - 1, -1, -1):
        kind, text = texts[part]
        if kind is TextKind.TITLE and not _is_indexed(index.db, candidate):
            continue  # It repeats an earlier title.
        if kind in ANSWERED and not scope.with_results:
            continue
        if kind is TextKind.HISTORY and session in listed:
            continue
        if kind is TextKind.NOTE and was_taken(index.db, record):
            continue
        if accepts(text):
            yield TextMatch(record, part, int(kind), session)


def _is_indexed(db: sqlite3.Connection, candidate: _Candidate) -> bool:
    """Return whether the index has a text of the record; ids of texts are times."""
    second = max(0, -candidate.before_us) // _SECOND_US
    query = "SELECT 1 FROM texts WHERE id >= ? AND id < ? AND record = ? LIMIT 1"
    ids = second << SECOND_BITS, (second + CROWD_SECONDS) << SECOND_BITS
    return db.execute(query, (*ids, -candidate.before)).fetchone() is not None


def _logs(db: sqlite3.Connection, scope: ScanScope) -> Iterator[_ScannedLog]:
    """Yield the logs to scan, ordered by their newest text in *scope*."""
    from turnlog.index.side_files import PROMPTS  # noqa: PLC0415 - Few searches scan.

    rows = db.execute(
        "SELECT id, path, layout = ? AND kind <> ? FROM logs WHERE gone_at IS NULL",
        (BESIDE, PROMPTS),
    )
    left = {row[0]: (row[1], bool(row[2])) for row in rows}
    first, end = 0, _LAST_ID
    if scope.since_us is not None:
        first = max(0, scope.since_us // _SECOND_US) << SECOND_BITS
    if scope.until_us is not None:
        end = (max(0, scope.until_us // _SECOND_US) + CROWD_SECONDS) << SECOND_BITS
    while left and end > first:
        edge = db.execute(
            "SELECT id FROM texts WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (first, end, _TEXTS_AT_ONCE - 1),
        ).fetchone()
        start = first if edge is None else edge[0]
        newest = db.execute(
            f"SELECT record >> {OFFSET_BITS}, max(id) FROM texts"  # noqa: S608 - Ours.
            " WHERE id >= ? AND id < ? GROUP BY 1 ORDER BY 2 DESC",
            (start, end),
        )
        for log, last in newest.fetchall():
            if log in left:
                yield _ScannedLog(log, *left.pop(log), last >> SECOND_BITS)
        end = start


def _lines(
    path: str,
    needles: tuple[bytes, ...],
    buffer: bytearray,
    budget: TimeBudget,
    *,
    ignores_case: bool,
) -> list[tuple[int, int]]:
    """Return the offsets and lengths of the lines that have a needle, last line first.

    A line whose blobs were moved out is replaced by the whole one.
    """
    from turnlog.storage.blobs import STUB, whole_line  # noqa: PLC0415 - Few searches scan.
    from turnlog.storage.scan import FoundLines  # noqa: PLC0415

    def has_needle(line: bytes | Damage) -> bool:
        searched = b"" if isinstance(line, Damage) else line.lower() if ignores_case else line
        return any(needle in searched for needle in needles)

    places: list[tuple[int, int]] = []
    try:
        with FoundLines(path, *needles, STUB, buffer=buffer, ignores_case=ignores_case) as found:
            for number, (offset, line) in enumerate(found):
                if isinstance(line, bytes):
                    whole = whole_line(path, line)
                    if whole is line or has_needle(whole):
                        places.append((offset, len(line)))
                if number & 1023 == 1023 and budget.runs_short():
                    break
    except (TurnlogError, OSError):
        return []  # The log is gone; the next refresh will notice.
    return places[::-1]


def _candidates(
    db: sqlite3.Connection, log: int, lines: Iterable[tuple[int, int]], scope: ScanScope
) -> Iterator[_Candidate]:
    """Yield the records on *lines*; a damaged line may have several.

    With the last line first, the time of undated records is looked up once.
    """
    base = log << OFFSET_BITS
    dated, since_us = _LAST_ID, 0
    for offset, length in lines:
        rows = db.execute(
            "SELECT id, length, session, at FROM records WHERE id >= ? AND id <= ?"
            " ORDER BY id DESC",
            (base | offset, min(base | _OFFSETS, (base | offset) + length)),
        )
        for record, size, session, at in rows.fetchall():
            if at is None and dated > record:
                row = db.execute(_DATED_BEFORE, (record, base)).fetchone()
                dated, before_us = row or (base - 1, 0)
                since_us = max(0, before_us) // _SECOND_US * _SECOND_US
            at_us = since_us if at is None else at
            if scope.includes(session, at_us):
                yield _Candidate(-at_us, -record, size, session)


def _whole_words(run: str) -> Iterator[Word]:
    """Yield the words that end within *run*, and a last one that may continue as a prefix."""
    for word in re.finditer(_WORDS, run):
        if word.start() > 0:  # Otherwise it may be the end of a longer word.
            yield Word(word[0], word.end() == len(run))


def _required(text: str) -> list[list[str]]:
    """Return the literals that each alternative of a regular expression requires.

    Rather too few than too many: groups are ignored.
    """
    if re.search(_LONG_ESCAPE, text):
        return [[]]
    ways, run = [list[str]()], ""
    depth = at = 0
    while at < len(text):
        character, following = text[at], text[at + 1 : at + 2]
        at += 1
        if character == "\\" and following and not following.isalnum():
            character, at = following, at + 1
        elif character in "\\.^$[](){}*+?|":
            ways[-1].append(run)
            run = ""
            if character == "(" and not _GROUP.match(text, at - 1):
                return [[]]
            depth += (character == "(") - (character == ")")
            if character == "|" and depth == 0:
                ways.append([])
            elif character == "\\":
                at += 1
            elif character == "[":
                at = _after_set(text, at)
            elif character == "{" and (counts := _COUNTS.match(text, at)):
                at = counts.end()
            continue
        if depth == 0 and text[at : at + 1] not in tuple(_QUANTIFIERS):
            run += character
        else:
            ways[-1].append(run)
            run = ""
    ways[-1].append(run)
    return [[run for run in runs if run] for runs in ways]


def _after_set(text: str, at: int) -> int:
    """Return the place after a set of characters whose contents begin at *at*."""
    at += text[at : at + 1] == "^"
    at += text[at : at + 1] == "]"
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _spellings(character: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Return how JSON may spell a character, in lower case if case is ignored; () if too many."""
    if character in "\"\\/<>&'\x7f" or character < " ":
        return ()
    if character.isascii():
        return (character.lower().encode() if ignores_case else character.encode(),)
    if "\ud800" <= character <= "\udfff":
        return ()
    if ignores_case and character.lower() != character.upper():
        return ()
    units = character.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    spellings = (character.encode(), escaped.encode())
    if ignores_case:
        return spellings
    return (*spellings, escaped.upper().replace("\\U", "\\u").encode())


def _has_capital(text: str) -> bool:
    return any(map(str.isupper, text))
