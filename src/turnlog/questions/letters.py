"""A text as SQLite's tokenizer takes it, character by character.

``unicode61`` looks at one character at a time: it belongs to a word, and then has a folded form
without case and accent, or it stands between words. Which, only SQLite's own tables tell, so it is
asked once for each character that is met. A text of which every character was replaced so is as
long as before, and its words are runs of letters: a regular expression finds them, and where.

Only an accent that is a character of its own is more than that: it belongs to a word if it stands
behind a letter. A text with one of these has no such form.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from functools import cache
from threading import Lock
from typing import Final

LETTER: Final = r"[^\x00-/:-`{-\x7f]"
"""What belongs to a word in a text that ``as_letters`` gave, as a regular expression has it."""

TOKENIZER: Final = "tokenize='unicode61 remove_diacritics 2'"

_ASCII: Final = bytes(range(128))
_SPACE: Final = " "
_DEPENDS: Final = ""
_taken: dict[str, str] = {}
"""What is known so far: the folded form of a character, a space, or nothing if it depends."""
_asking: Final = Lock()


def as_letters(text: str) -> str | None:
    """Give *text* with every character folded or a space; None if one of them depends on others."""
    if text.isascii():
        return text.lower()
    others = beyond_ascii(text)
    ask_for(others)
    for each in others:
        to = _taken[each]
        if to == _DEPENDS:
            return None
        if to != each:
            text = text.replace(each, to)
    return text.encode().lower().decode()  # Bytes know the case of ASCII only.


def ask_for(characters: set[str]) -> None:
    """Learn how *characters* are taken, together: for each alone it takes as long."""
    if unknown := characters.difference(_taken):
        _ask(unknown)


def beyond_ascii(text: str) -> set[str]:
    """Give the characters of *text* that are not ASCII."""
    # Of the bytes few are left: much faster than to look at every character.
    data = text.encode(errors="surrogatepass").translate(None, _ASCII)
    return set(data.decode(errors="surrogatepass"))


def _ask(characters: set[str]) -> None:
    """Learn how *characters* are taken: each alone, and between two letters."""
    lone = [each for each in characters if "\ud800" <= each <= "\udfff"]
    _taken.update(dict.fromkeys(lone, _SPACE))  # SQLite cannot hold half of a character.
    whole = list(characters.difference(lone))
    asked = [words for each in whole for words in (each, f"x{each}x")]
    terms: defaultdict[int, list[str]] = defaultdict(list)
    with _asking:
        db = _words()
        db.execute("BEGIN")
        try:
            db.executemany("INSERT INTO words VALUES (?)", ((words,) for words in asked))
            for term, number in db.execute("SELECT term, doc FROM terms"):
                terms[number].append(term)
        finally:
            db.execute("ROLLBACK")
    for number, each in enumerate(whole):
        alone, inside = terms[2 * number + 1], terms[2 * number + 2]
        if inside == ["x", "x"] and not alone:
            _taken[each] = _SPACE
        elif len(alone) == 1 and len(alone[0]) == 1 and inside == [f"x{alone[0]}x"]:
            _taken[each] = alone[0]
        else:
            _taken[each] = _DEPENDS


@cache
def _words() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, {TOKENIZER})")
    db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance)")
    return db
