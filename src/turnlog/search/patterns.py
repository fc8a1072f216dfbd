"""Pieces of text and patterns, and what is known of every text that has one.

A pattern that holds a whole word is looked for among the texts that hold the word; for any other
one the logs themselves are read (``scan_logs``). Work is bounded: when patience ends the search
ends, also within a text that a pattern takes too long for, and says so.

Case counts only if the pattern has a capital letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from turnlog.errors import UsageError
from turnlog.search.budget import TimeBudget
from turnlog.search.language import Word
from turnlog.search.regex import compile_pattern

LONGEST_TEXT: Final = 1_000_000
"""Of a longer text only the beginning is matched with a pattern."""

_WORDS: Final = re.compile("[0-9A-Za-z]+")
_MOST_NEEDLES: Final = 8
_LONG_ENOUGH: Final = 100
"""Nothing is found faster by more characters."""
EVERY_RECORD: Final = (b"{",)
"""What stands in every line that is a record."""
_QUANTIFIERS: Final = "*+?{"
# These take more than one character, or stand for one that is not seen here.
_LONG_ESCAPE: Final = re.compile(r"\\[xuUN0-9]")
# All but those that change what stands around them: flags, comments, conditions.
_GROUP: Final = re.compile(r"\((?!\?)|\(\?(?:[:=!>]|<[=!]|P[<=])")
_COUNTS: Final = re.compile(r"\d*+,?\d*+\}")


class ScanMatch(NamedTuple):
    """A text that was found."""

    record: int
    part: int
    kind: int
    session: int | None
    score: float = 0.0


class ScanPattern:
    """What is looked for, and what is known of every text that has it."""

    def __init__(self, regex: Any, ways: list[list[str]], *, is_quick: bool) -> None:
        self.regex = regex
        """Of ``re`` if it is quick, else of ``regex``, which takes a timeout."""
        self._is_quick = is_quick
        self._ways = ways
        """For each alternative the pieces that stand in every match as they are, but for case."""

    @property
    def words(self) -> list[Word]:
        """Words of every text that has the pattern."""
        runs = self._ways[0] if len(self._ways) == 1 else []
        return [word for run in runs if run.isascii() for word in _whole_words(run)]

    @property
    def ignores_case(self) -> bool:
        return bool(self.regex.flags & re.IGNORECASE)

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes one of which every line has that has the pattern; small if it ignores case."""
        needles: dict[bytes, None] = {}
        for runs in self._ways:
            made = (needles_of(run, ignores_case=self.ignores_case) for run in runs)
            best = max(filter(None, made), key=lambda each: len(each[0]), default=EVERY_RECORD)
            if best == EVERY_RECORD:
                return best
            needles |= dict.fromkeys(best)
        return tuple(needles)

    def finds(self, text: str, patience: TimeBudget) -> bool:
        if len(text) > LONGEST_TEXT:
            patience.has_cut = True
        return self.place(text, patience) is not None

    def place(self, text: str, patience: TimeBudget) -> int | None:
        """Return where in *text* the first match begins, or None."""

        def match(**limit: float) -> int | None:
            found = self.regex.search(text, 0, LONGEST_TEXT, **limit)
            return found.start() if found else None

        return match() if self._is_quick else patience.bear(match, None)

    def spans(self, text: str, patience: TimeBudget) -> list[tuple[int, int]]:
        """Return where in *text* the first hundred matches are, but for empty ones."""

        def match(**limit: float) -> list[tuple[int, int]]:
            found = (each.span() for each in self.regex.finditer(text, 0, LONGEST_TEXT, **limit))
            return [span for span in islice(found, 100) if span[0] < span[1]]

        return match() if self._is_quick else patience.bear(match, [])


def piece(text: str) -> ScanPattern:
    """Look for *text* exactly as it stands."""
    flags = re.NOFLAG if _has_capital(text) else re.IGNORECASE
    if text.isascii():  # Else a Kelvin sign would be a k.
        flags |= re.ASCII
    return ScanPattern(re.compile(re.escape(text), flags), [[text]], is_quick=True)


def pattern(text: str) -> ScanPattern:
    """Look for what the regular expression *text* describes; ^ and $ are ends of lines."""
    flags = re.MULTILINE
    if not _has_capital(re.sub(r"\\.", "", text)):
        flags |= re.IGNORECASE
    try:
        made = compile_pattern(text, flags)
    except ValueError as error:
        raise UsageError(
            f"the pattern cannot be read: {error}",
            hint="it is a Python regular expression; leave out regex=True to search for words",
            code="invalid-regex",
        ) from None
    return ScanPattern(made, _demanded(text), is_quick=False)


def needles_of(run: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Return the ways in which JSON may write the longest part of *run* that has few of them."""
    best: tuple[bytes, ...] = ()
    for start in range(len(run)):
        made: list[bytes] = [b""]
        for each in run[start : start + _LONG_ENOUGH]:
            ways = _written(each, ignores_case=ignores_case)
            if not ways or len(made) * len(ways) > _MOST_NEEDLES:
                break
            made = [before + way for before in made for way in ways]
        if made[0] and (not best or len(made[0]) > len(best[0])):
            best = tuple(made)
        if best and len(best[0]) >= _LONG_ENOUGH:
            break
    return best


def _whole_words(run: str) -> Iterator[Word]:
    """Return the words that end within *run*, and the beginning of one that may go on behind it."""
    for word in _WORDS.finditer(run):
        if word.start() > 0:  # Else it may be the end of a longer one.
            yield Word(word[0], word.end() == len(run))


def _demanded(text: str) -> list[list[str]]:
    """Find what each alternative of a regular expression demands as it stands.

    Too little rather than too much: nothing of what stands in groups.
    """
    if _LONG_ESCAPE.search(text):
        return [[]]
    ways, run = [list[str]()], ""
    depth = at = 0
    while at < len(text):
        each, following = text[at], text[at + 1 : at + 2]
        at += 1
        if each == "\\" and following and not following.isalnum():
            each, at = following, at + 1
        elif each in "\\.^$[](){}*+?|":
            ways[-1].append(run)
            run = ""
            if each == "(" and not _GROUP.match(text, at - 1):
                return [[]]
            depth += (each == "(") - (each == ")")
            if each == "|" and depth == 0:
                ways.append([])
            elif each == "\\":
                at += 1
            elif each == "[":
                at = _behind_set(text, at)
            elif each == "{" and (counts := _COUNTS.match(text, at)):
                at = counts.end()
            continue
        if depth == 0 and text[at : at + 1] not in tuple(_QUANTIFIERS):
            run += each
        else:
            ways[-1].append(run)
            run = ""
    ways[-1].append(run)
    return [[each for each in runs if each] for runs in ways]


def _behind_set(text: str, at: int) -> int:
    """Return the place behind a set of characters that was opened just before *at*."""
    at += text[at : at + 1] == "^"
    at += text[at : at + 1] == "]"
    while at < len(text) and text[at] != "]":
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _written(character: str, *, ignores_case: bool) -> tuple[bytes, ...]:
    """Return the ways in which JSON may write a character; none if there are too many.

    If case is ignored, as they are in small letters.
    """
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
    ways = (character.encode(), escaped.encode())
    return ways if ignores_case else (*ways, escaped.upper().replace("\\U", "\\u").encode())


def _has_capital(text: str) -> bool:
    return any(map(str.isupper, text))
