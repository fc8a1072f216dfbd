"""Pieces of text and patterns, found where no index of words helps.

A pattern that holds a whole word is looked for among the texts that hold the word. For any other
one the logs themselves are read, the one that was written last first: first the bytes, for a piece
of the pattern as JSON may write it, then only the records that have it. Work is bounded: when
patience ends the search ends, also within a text that a pattern takes too long for, and says so.

Case counts only if the pattern has a capital letter.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from turnlog.errors import TurnlogError, UsageError
from turnlog.index.ids import BESIDE, OFFSET_BITS, SECOND_BITS, microseconds
from turnlog.index.opening import Index
from turnlog.index.texts import ANSWERED, Kind
from turnlog.questions.patience import Patience
from turnlog.questions.search_language import Filter, Node, Word

LONGEST_TEXT: Final = 1_000_000
"""Of a longer text only the beginning is matched with a pattern."""

_WORDS: Final = re.compile("[0-9A-Za-z]+")
# What JSON always writes as it is.
_PLAIN: Final = re.compile(r"[ !#$%()*+,\-.0-9:;=?@A-Z\[\]^_`a-z{|}~]+")
_MOST_NEEDLES: Final = 8
_EVERY_RECORD: Final = b"{"
_QUANTIFIERS: Final = "*+?{"
# These take more than one character, or stand for one that is not seen here.
_LONG_ESCAPE: Final = re.compile(r"\\[xuUN0-9]")
_OFFSETS: Final = (1 << OFFSET_BITS) - 1


class Found(NamedTuple):
    """A text that was found. *text* is None if nobody has read it yet."""

    record: int
    part: int
    kind: int
    session: int | None
    score: float = 0.0
    text: str | None = None


class Within(NamedTuple):
    """Where a scan looks: which sessions (None for all), and between which instants."""

    sessions: frozenset[int] | None = None
    since_us: int | None = None
    until_us: int | None = None
    with_results: bool = False

    @classmethod
    def between(
        cls,
        bounds: Iterable[Node],
        sessions_of: Callable[[Filter], Iterable[int]],
        *,
        with_results: bool,
    ) -> Within:
        """Give what all of *bounds* leave, filters by session or time as they are."""
        within = cls(with_results=with_results)
        for each in bounds:
            assert isinstance(each, Filter)
            if each.at is None:
                those = frozenset(sessions_of(each))
                both = those if within.sessions is None else within.sessions & those
                within = within._replace(sessions=both)
            elif each.field == "before":
                until = microseconds(each.at)
                earlier = until if within.until_us is None else min(until, within.until_us)
                within = within._replace(until_us=earlier)
            else:
                within = within._replace(since_us=max(microseconds(each.at), within.since_us or 0))
        return within


class Pattern:
    """What is looked for, and what is known of every text that has it."""

    def __init__(self, regex: re.Pattern[str], runs: list[str], *, is_quick: bool) -> None:
        self.regex = regex
        self._is_quick = is_quick
        self._runs = runs
        """Pieces that stand in every match as they are, but for case."""

    @property
    def words(self) -> list[Word]:
        """Words of every text that has the pattern."""
        return [word for run in self._runs if run.isascii() for word in _whole_words(run)]

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes one of which stands in every line that has the pattern."""
        ignores_case = bool(self.regex.flags & re.IGNORECASE)
        best: tuple[bytes, ...] = (_EVERY_RECORD,)
        for run in self._runs:
            made = needles_of(run, ignores_case=ignores_case)
            if made and len(made[0]) > len(best[0]):
                best = made
        return best

    @property
    def confirms(self) -> bytes:
        """What every such line has as well, in small letters."""
        plain = (each for run in self._runs for each in _PLAIN.findall(run))
        return max(plain, key=len, default="").lower().encode()

    def finds(self, text: str, patience: Patience) -> bool:
        if len(text) > LONGEST_TEXT:
            patience.has_cut = True
        return self.place(text, patience) is not None

    def place(self, text: str, patience: Patience) -> int | None:
        """Tell where in *text* it is found first."""

        def match() -> int | None:
            found = self.regex.search(text, 0, LONGEST_TEXT)
            return found.start() if found else None

        return match() if self._is_quick else patience.bear(match, None)

    def spans(self, text: str, patience: Patience) -> list[tuple[int, int]]:
        """Tell where in *text* it is found: the first hundred places."""

        def match() -> list[tuple[int, int]]:
            found = (each.span() for each in self.regex.finditer(text, 0, LONGEST_TEXT))
            return [span for span in islice(found, 100) if span[0] < span[1]]

        return match() if self._is_quick else patience.bear(match, [])


def piece(text: str) -> Pattern:
    """Look for *text* exactly as it stands."""
    flags = re.NOFLAG if _has_capital(text) else re.IGNORECASE
    if text.isascii():  # Else a Kelvin sign would be a k.
        flags |= re.ASCII
    return Pattern(re.compile(re.escape(text), flags), [text], is_quick=True)


def pattern(text: str) -> Pattern:
    """Look for what the regular expression *text* describes; ^ and $ are ends of lines."""
    flags = re.MULTILINE
    if not _has_capital(re.sub(r"\\.", "", text)):
        flags |= re.IGNORECASE
    try:
        with warnings.catch_warnings():  # Of what a later Python may read otherwise.
            warnings.simplefilter("ignore")
            made = re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"the pattern cannot be read: {error}",
            hint="it is a Python regular expression; without --regex it is searched for as words",
        ) from None
    return Pattern(made, _literal_runs(text), is_quick=False)


def needles_of(run: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Give the ways in which JSON may write the longest part of *run* that has few of them."""
    best: tuple[bytes, ...] = ()
    for start in range(len(run)):
        made: list[bytes] = [b""]
        for each in run[start:]:
            ways = _written(each, ignores_case=ignores_case)
            if not ways or len(made) * len(ways) > _MOST_NEEDLES:
                break
            made = [before + way for before in made for way in ways]
        if made[0] and (not best or len(made[0]) > len(best[0])):
            best = tuple(made)
    return best


def scan(
    index: Index,
    needles: tuple[bytes, ...],
    accepts: Callable[[str], bool],
    within: Within,
    patience: Patience,
    *,
    confirms: bytes = b"",
) -> Iterator[Found]:
    """Give the texts that *accepts* takes, of the log that was written last first.

    Only lines are read that have one of *needles*, and in small letters *confirms*.
    """
    from turnlog.log.find_lines import BUFFER_BYTES  # noqa: PLC0415 - Few searches scan.

    buffer = bytearray(BUFFER_BYTES)
    listed = {
        row[0]
        for row in index.db.execute("SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL")
    }
    for log, path, is_whole in _logs(index, within):
        if patience.ends():
            return
        places: Iterable[tuple[int, int]] = [(0, _OFFSETS)]
        if not is_whole:
            places = _places(path, needles, confirms, buffer, patience)
        for offset, length in places:
            if patience.ends():
                return
            for row in _records(index, log, offset, length, within):
                yield from _texts(index, row, accepts, within, listed)


def _texts(
    index: Index,
    row: tuple[int, int, int | None],
    accepts: Callable[[str], bool],
    within: Within,
    listed: set[int],
) -> Iterator[Found]:
    record, length, session = row
    texts = index.texts(record, length)
    for part in range(len(texts) - 1, -1, -1):
        kind, text = texts[part]
        if kind in ANSWERED and not within.with_results:
            continue
        if kind is Kind.HISTORY and session in listed:
            continue
        if accepts(text):
            yield Found(record, part, int(kind), session, text=text)


def _logs(index: Index, within: Within) -> list[tuple[int, str, bool]]:
    """List the logs to look into: id, path, and whether it is one record as a whole."""
    from turnlog.index.beside import PROMPTS  # noqa: PLC0415 - Few searches scan.

    rows: Any = index.db.execute(
        "SELECT id, path, layout = ? AND kind <> ? FROM logs WHERE gone_at IS NULL"
        " ORDER BY text_mtime_ns DESC, id DESC",
        (BESIDE, PROMPTS),
    ).fetchall()
    if within.since_us is not None:
        first = max(0, within.since_us // 1_000_000) << SECOND_BITS
        recent = {
            row[0]
            for row in index.db.execute(
                f"SELECT DISTINCT record >> {OFFSET_BITS} FROM texts WHERE id >= ?",  # noqa: S608
                (first,),
            )
        }
        rows = [row for row in rows if row[0] in recent]
    return [(row[0], row[1], bool(row[2])) for row in rows]


def _places(
    path: str,
    needles: tuple[bytes, ...],
    confirms: bytes,
    buffer: bytearray,
    patience: Patience,
) -> list[tuple[int, int]]:
    """Find the lines of a log that have a needle; the last first."""
    from turnlog.log.blobs import STUB, whole_line  # noqa: PLC0415 - Few searches scan.
    from turnlog.log.find_lines import find_lines  # noqa: PLC0415

    places: list[tuple[int, int]] = []
    try:
        with find_lines(path, *needles, STUB, buffer=buffer) as found:
            for number, (offset, line) in enumerate(found):
                whole = whole_line(path, line) if isinstance(line, bytes) else b""
                said = whole if isinstance(whole, bytes) else b""
                if isinstance(line, bytes) and confirms in said.lower():
                    places.append((offset, len(line)))
                if number & 1023 == 1023 and patience.ends():
                    break
    except (TurnlogError, OSError):
        return []  # It vanished since, and the next refresh notices.
    return places[::-1]


def _records(
    index: Index, log: int, offset: int, length: int, within: Within
) -> list[tuple[int, int, int | None]]:
    """Give the records on a line: one, or those that a damaged line was salvaged to."""
    base = log << OFFSET_BITS
    rows = index.db.execute(
        "SELECT id, length, session, at FROM records WHERE id >= ? AND id <= ? ORDER BY id DESC",
        (base | offset, min(base | _OFFSETS, (base | offset) + length)),
    )
    return [row[:3] for row in rows if _is_within(row[2], row[3], within)]


def _is_within(session: int | None, at: int | None, within: Within) -> bool:
    if within.sessions is not None and session not in within.sessions:
        return False
    if within.since_us is not None and (at is None or at < within.since_us):
        return False
    return within.until_us is None or at is None or at < within.until_us


def _whole_words(run: str) -> Iterator[Word]:
    """Give the words that end within *run*, and the beginning of one that may go on behind it."""
    for word in _WORDS.finditer(run):
        if word.start() > 0:  # Else it may be the end of a longer one.
            yield Word(word[0], word.end() == len(run))


def _literal_runs(text: str) -> list[str]:
    """Find what a regular expression demands as it stands; too little rather than too much."""
    if "|" in text or "(?" in text or _LONG_ESCAPE.search(text):
        return []
    runs, run = [], ""
    depth = at = 0
    while at < len(text):
        each, following = text[at], text[at + 1 : at + 2]
        at += 1
        if each == "\\" and following and not following.isalnum():
            each, at = following, at + 1
        elif each in "\\.^$[](){}*+?|":
            runs.append(run)
            run = ""
            depth += (each == "(") - (each == ")")
            if each == "\\":
                at += 1
            elif each == "[":
                at = _behind_set(text, at)
            elif each == "{":
                at = max(at, text.find("}", at) + 1)
            continue
        if depth == 0 and text[at : at + 1] not in tuple(_QUANTIFIERS):
            run += each
        else:
            runs.append(run)
            run = ""
    return [each for each in (*runs, run) if each]


def _behind_set(text: str, at: int) -> int:
    """Give the place behind a set of characters that was opened just before *at*."""
    at += text[at : at + 1] == "^"
    at += text[at : at + 1] == "]"
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _written(character: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Give the ways in which JSON may write a character; none if there are too many."""
    if character in "\"\\/<>&'\x7f" or character < " ":
        return ()
    if character.isascii():
        if ignores_case and character.isalpha():
            return (character.lower().encode(), character.upper().encode())
        return (character.encode(),)
    if "\ud800" <= character <= "\udfff":
        return ()
    if ignores_case and character.lower() != character.upper():
        return ()
    units = character.encode("utf-16-be").hex()
    escaped = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    return (character.encode(), escaped.encode(), escaped.upper().replace("\\U", "\\u").encode())


def _has_capital(text: str) -> bool:
    return any(map(str.isupper, text))
