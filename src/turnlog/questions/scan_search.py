"""Pieces of text and patterns, and what is known of every text that has one.

A pattern that holds a whole word is looked for among the texts that hold the word; for any other
one the logs themselves are read (``scan_logs``). Work is bounded: when patience ends the search
ends, also within a text that a pattern takes too long for, and says so.

Case counts only if the pattern has a capital letter.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from turnlog.errors import UsageError
from turnlog.questions.patience import Patience
from turnlog.questions.search_language import Word

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


class Found(NamedTuple):
    """A text that was found."""

    record: int
    part: int
    kind: int
    session: int | None
    score: float = 0.0


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
