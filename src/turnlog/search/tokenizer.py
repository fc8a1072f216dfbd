"""Words as SQLite's tokenizer sees them: whether a text matches a tree, and where.

The full-text tables answer most queries. What they cannot tell (the order of words in tool results,
punctuation, trees too deep for SQLite) is decided here on the text itself, by the same rules.

``unicode61`` looks at one character at a time: a character is part of a word and has a folded form
without case and accent, or it separates words. Only SQLite knows which, so it is asked once per
character. With every character replaced by its folded form or a space, a text keeps its length, and
regular expressions find its words. Combining accents are the exception, since they belong to a word
only after a letter: texts with one are put into a full-text table in memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import islice
from threading import Lock
from typing import Any as Anything
from typing import Final

from turnlog.index.texts import as_words
from turnlog.search.language import All, Any, FieldFilter, Node, Not, Phrase, Word, conjuncts

LETTER: Final = r"[^\x00-/:-`{-\x7f]"
"""A regular expression for a character of a word in the result of ``fold``."""
TOKENIZER: Final = "tokenize='unicode61 remove_diacritics 2'"
STEMMER: Final = "tokenize='porter unicode61 remove_diacritics 2'"

Span = tuple[int, int]
"""Where something begins and ends in a text."""

_WORDS: Final = re.compile(f"{LETTER}+")
_BETWEEN: Final = r"[\x00-/:-`{-~]"
"""A regular expression for a character between two words of a phrase."""
_LONE: Final = "\x7f"
"""Replaces characters that are words of their own while only ASCII words are searched for."""
_FEW_LONE: Final = 20
_MOST_SPANS: Final = 200
_BEFORE, _AFTER = "\x01", "\x02"
_MARKERS: Final = str.maketrans({_BEFORE: " ", _AFTER: " "})

_ASCII: Final = bytes(range(128))
_SPACE: Final = " "
_DEPENDS: Final = ""
_folded: dict[str, str] = {}
"""The folded form of each character met so far: a letter, a space, or "" if it depends."""
_stems: dict[str, str] = {}
_MOST_STEMS: Final = 10_000
_scratch_lock: Final = Lock()


def matches(tree: Node | None, text: str, truths: Mapping[FieldFilter, bool]) -> bool:
    """Return whether *text* matches *tree*; *truths* has the values of its filters."""
    match tree:
        case None:
            return True
        case FieldFilter():
            return truths[tree]
        case Word() | Phrase():
            return holds(text, tree)
        case Not():
            return not matches(tree.node, text, truths)
        case All():
            return all(matches(node, text, truths) for node in tree.nodes)
        case Any():
            return any(matches(node, text, truths) for node in tree.nodes)


def holds(text: str, leaf: Word | Phrase) -> bool:
    """Return whether *text* has the words of *leaf*, or its literal text if it has no words."""
    wanted = terms(leaf.text)
    if not wanted:
        return leaf.text in text
    forms = _searchable(text, is_ascii=all(map(str.isascii, wanted)))
    if forms is None:
        query = "SELECT 1 FROM words WHERE words MATCH ?"
        return bool(_ask_fts([as_words(_plain(text))], query, as_phrase(leaf)))
    return _pattern(wanted, leaf.is_prefix).search(forms[0]) is not None


def highlighter(leaves: Iterable[Word | Phrase]) -> Callable[[str], list[Span]]:
    """Return a function that finds *leaves* in a text: sorted spans that do not overlap."""
    leaves = list(leaves)
    literals = [leaf.text for leaf in leaves if not terms(leaf.text)]
    worded = [leaf for leaf in leaves if terms(leaf.text)]
    patterns = [_pattern(terms(leaf.text), leaf.is_prefix) for leaf in worded]
    is_ascii = all(term.isascii() for leaf in worded for term in terms(leaf.text))

    def spans_in(text: str) -> list[Span]:
        spans = [span for literal in literals for span in _literal_spans(text, literal)]
        forms = _searchable(text, is_ascii=is_ascii) if worded else None
        if forms is not None:
            words, plain = forms
            found = [
                (match.start(), match.end(1))
                for pattern in patterns
                for match in islice(pattern.finditer(words), _MOST_SPANS)
            ]
            spans += found if len(words) == len(plain) else _unspaced(found, words, plain)
        elif worded:
            plain = _plain(text)
            words = as_words(plain)
            spans += _unspaced(_highlighted(words, worded), words, plain)
        return merged(spans) if len(spans) > 1 else spans

    return spans_in


@lru_cache(maxsize=256)
def terms(text: str) -> tuple[str, ...]:
    """Return the words of *text* as the full-text tables store them."""
    letters = fold(text)
    if letters is not None:
        return tuple(_WORDS.findall(as_words(letters)))
    rows = _ask_fts([as_words(_plain(text))], "SELECT term FROM terms ORDER BY offset")
    return tuple(term for (term,) in rows)


def is_lone(word: str) -> bool:
    """Return whether *word* is a character that is a word of its own, as in Chinese."""
    return len(word) == 1 and not word.isascii() and as_words(f"x{word}") != f"x{word}"


def stem_of(word: str) -> str:
    """Return the stem of a word, as the table of stems has it."""
    return stems_of((word,))[word]


def stems_of(words: Iterable[str]) -> dict[str, str]:
    """Return the stem of each of *words*, which are single words."""
    unknown = [word for word in words if word not in _stems]
    if unknown:
        if len(_stems) > _MOST_STEMS:
            _stems.clear()
            unknown = list(words)
        rows = dict(_ask_fts(unknown, "SELECT doc, term FROM stem_terms", table="stems"))
        _stems.update((word, rows.get(row, word)) for row, word in enumerate(unknown, 1))
    return {word: _stems[word] for word in words}


def phrase_pattern(words: tuple[str, ...], *, is_prefix: bool = False) -> re.Pattern[str]:
    """Return a pattern for *words* in a folded text; the end of its group ends the phrase."""
    if all(map(is_lone, words)):  # Nothing separates them.
        return re.compile(f"{words[0]}(?=({''.join(words[1:])}))")
    return _pattern(words, is_prefix)


def literal_of(tree: Node | None) -> str | None:
    """Return the text to scan the logs for if *tree* has no indexed words, else None."""
    literals = []
    for node in conjuncts(tree):
        inner = node.node if isinstance(node, Not) else node
        if isinstance(inner, FieldFilter):
            is_scope = inner.at is not None or inner.field in ("session", "project")
            if node is not inner or not is_scope:
                return None
        elif not isinstance(inner, Word | Phrase) or terms(inner.text):
            return None
        elif node is inner:
            literals.append(inner.text)
    return max(literals, key=len, default=None)


def as_phrase(leaf: Word | Phrase) -> str:
    """Return *leaf* as an FTS5 phrase; nothing in it is read as an operator."""
    words = as_words(leaf.text).replace("\0", " ").replace('"', '""')
    return f'"{words}" *' if leaf.is_prefix else f'"{words}"'


def fold(text: str) -> str | None:
    """Return *text* with every character folded or a space; None if one depends on its neighbours.

    The result is as long as *text*.
    """
    if text.isascii():
        return text.lower()
    others = _beyond_ascii(text)
    _learn(others)
    for character in others:
        folded = _folded[character]
        if folded == _DEPENDS:
            return None
        if folded != character:
            text = text.replace(character, folded)
    return text.encode().lower().decode()  # Bytes change the case of ASCII only.


def sqlite_safe(text: str) -> str:
    """Return *text* with what SQLite cannot store replaced; the length stays."""
    text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def _searchable(text: str, *, is_ascii: bool) -> tuple[str, str] | None:
    """Return *text* with words as runs of letters, and the same without added spaces.

    None if only SQLite can tell the words. With *is_ascii*, only ASCII words can be found.
    """
    words = None
    if is_ascii:
        plain = text.replace(_LONE, " ")
        words = plain.lower() if plain.isascii() else _ascii_words(plain)
    if words is not None:
        return words, words
    letters = fold(text)
    if letters is None:
        return None
    letters = letters.replace(_LONE, " ")
    return as_words(letters), letters


def _ascii_words(text: str) -> str | None:
    """Return *text* such that ASCII words can be found in it, at the same places; None if slow."""
    others = _beyond_ascii(text)
    if len(others) > _FEW_LONE:
        return None
    _learn(others)
    for character in others:
        letter = _beside_ascii(character)
        if letter is None:
            return None
        if letter != character:
            text = text.replace(character, letter)
    return text.encode().lower().decode()


@lru_cache(maxsize=4096)
def _beside_ascii(character: str) -> str | None:
    """Return the replacement of *character* in ``_ascii_words``; None if it depends."""
    letter = fold(character)
    return letter if letter is None or as_words(letter) == letter else _LONE


def _beyond_ascii(text: str) -> set[str]:
    """Return the characters of *text* that are not ASCII."""
    # Deleting ASCII from the bytes is much faster than looking at every character.
    data = text.encode(errors="surrogatepass").translate(None, _ASCII)
    return set(data.decode(errors="surrogatepass"))


def _learn(characters: set[str]) -> None:
    """Look up how SQLite folds *characters* that are not cached: alone, and between letters."""
    unknown = characters.difference(_folded)
    if not unknown:
        return
    surrogates = [each for each in unknown if "\ud800" <= each <= "\udfff"]
    _folded.update(dict.fromkeys(surrogates, _SPACE))  # SQLite cannot store them.
    whole = list(unknown.difference(surrogates))
    texts = [text for each in whole for text in (each, f"x{each}x")]
    found: defaultdict[int, list[str]] = defaultdict(list)
    for term, row in _ask_fts(texts, "SELECT term, doc FROM terms"):
        found[row].append(term)
    for number, character in enumerate(whole):
        alone, inside = found[2 * number + 1], found[2 * number + 2]
        if inside == ["x", "x"] and not alone:
            _folded[character] = _SPACE
        elif len(alone) == 1 and len(alone[0]) == 1 and inside == [f"x{alone[0]}x"]:
            _folded[character] = alone[0]
        else:
            _folded[character] = _DEPENDS


def _ask_fts(
    texts: Iterable[str], query: str, *values: str, table: str = "words"
) -> list[tuple[Anything, ...]]:
    """Run *query* on a full-text *table* that contains nothing but *texts*."""
    with _scratch_lock:
        db = _scratch()
        db.execute("BEGIN")
        try:
            db.executemany(f"INSERT INTO {table} VALUES (?)", ((text,) for text in texts))  # noqa: S608
            return db.execute(query, values).fetchall()
        finally:
            db.execute("ROLLBACK")  # Faster than deleting the rows.


@cache
def _scratch() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.execute(f"CREATE VIRTUAL TABLE words USING fts5 (text, {TOKENIZER})")
    db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (words, instance)")
    db.execute(f"CREATE VIRTUAL TABLE stems USING fts5 (text, {STEMMER})")
    db.execute("CREATE VIRTUAL TABLE stem_terms USING fts5vocab (stems, instance)")
    return db


@lru_cache(maxsize=256)
def _pattern(terms: tuple[str, ...], is_prefix: bool) -> re.Pattern[str]:  # noqa: FBT001
    """Return a pattern that matches the first of *terms* where the others follow.

    The end of its group is the end of the phrase. It begins with a literal, which is found fastest,
    and checks the character before it afterwards. The rest is a lookahead, since the next phrase
    may begin within this one.
    """
    first, rest = terms[0], "".join(f"{_BETWEEN}+{term}" for term in terms[1:])
    ends = f"{LETTER}*" if is_prefix else f"(?!{LETTER})"
    return re.compile(f"{first}(?<!{LETTER}{first})(?=({rest}{ends}))")


def _literal_spans(text: str, literal: str) -> list[Span]:
    found = islice(re.finditer(re.escape(literal), text), _MOST_SPANS)
    return [match.span() for match in found]


def _highlighted(words: str, leaves: list[Word | Phrase]) -> list[Span]:
    """Return where SQLite highlights *leaves* in *words*."""
    rows = _ask_fts(
        [words],
        "SELECT highlight(words, 0, ?, ?) FROM words WHERE words MATCH ?",
        _BEFORE,
        _AFTER,
        " OR ".join(map(as_phrase, leaves)),
    )
    spans: list[Span] = []
    at = 0
    for piece in rows[0][0].split(_BEFORE) if rows else ():
        inside, is_marked, outside = piece.partition(_AFTER)
        if is_marked:
            spans.append((at, at + len(inside)))
        at += len(inside) + len(outside)
    return spans


def _plain(text: str) -> str:
    """Return *text* without what SQLite cannot store and without markers; the length stays."""
    plain = sqlite_safe(text)
    return plain.translate(_MARKERS) if _BEFORE in plain or _AFTER in plain else plain


def _unspaced(spans: list[Span], words: str, plain: str) -> list[Span]:
    """Return where *spans* of *words* are in *plain*, which lacks some of its spaces.

    All other characters are the same, so they are counted from one span to the next.
    """

    def place(start: int, count: int) -> int:
        """Return the place after *count* characters from *start*, not counting spaces."""
        at = start + count
        while (further := start + count + plain.count(" ", start, at + 1)) > at:
            at = further
        return at

    placed = []
    here = there = 0
    for begin, end in sorted(spans):
        there = place(there, begin - here - words.count(" ", here, begin))
        here = begin
        inked = end - begin - words.count(" ", begin, end)
        placed.append((there, place(there, inked - 1) + 1))
    return placed


def merged(spans: list[Span]) -> list[Span]:
    """Sort *spans* and merge those that overlap."""
    apart: list[Span] = []
    for begin, end in sorted(spans):
        if apart and begin < apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((begin, end))
    return apart[:_MOST_SPANS]
