"""Whether one text is what a tree asks for, and where in it the words stand.

The full-text tables answer most questions by themselves. What they cannot tell (the order of words
in what tools answered, punctuation, trees too deep for SQLite) is decided here, on the text itself,
by the same rules: SQLite's own tokenizer is asked, in a table in memory that holds one text. Only
what is plain on both sides (ASCII, and symbols that are in no word) is decided without it, since
there the rules are simple: a word is a run of letters and digits, and case does not count.
"""

from __future__ import annotations

import re
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Final

from turnlog.index.texts import ANSWERED
from turnlog.index.words import as_words
from turnlog.questions.search_language import All, Any, Filter, Node, Not, Phrase, Word

Span = tuple[int, int]
"""Where something begins and ends in a text."""

# Dashes, quotes, arrows, operators, lines, shapes and emoji: in no word, and much used.
_NOT_PLAIN: Final = re.compile(
    "[^\\x00-\\x7f\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u257f\u25a0-\u26ff\u2701-\u2767"
    "\u2794-\u27be\U0001f300-\U0001f6ff]"
)
_ASCII_WORDS: Final = re.compile("[0-9A-Za-z]+")
_ANYTHING: Final = "[^0-9A-Za-z]+"
_MOST_SPANS: Final = 200
_BEFORE, _BEHIND = "\x01", "\x02"
_MARKERS: Final = str.maketrans({_BEFORE: " ", _BEHIND: " "})


class Tokenizer:
    """SQLite's tokenizer, asked about one text at a time."""

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._held: str | None = None
        self._terms: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str) -> tuple[str, ...]:
        """Give the words of *text*, which somebody typed, as the full-text tables hold them."""
        known = self._terms.get(text)
        if known is None:
            if text.isascii():
                known = tuple(word.lower() for word in _ASCII_WORDS.findall(text))
            else:
                found = self._holding(text).execute("SELECT term FROM terms ORDER BY offset")
                known = tuple(term for (term,) in found)
            self._terms[text] = known
        return known

    def holds(self, text: str, leaf: Word | Phrase) -> bool:
        """Tell whether *text* holds *leaf*: as words, or as it stands if it has none."""
        terms = self.terms(leaf.text)
        if not terms:
            return leaf.text in text
        if _is_plain(text):
            return _is_ascii(terms) and bool(_pattern(terms, _is_prefix(leaf)).search(text))
        found = self._holding(text).execute(
            "SELECT 1 FROM one WHERE one MATCH ?", (as_phrase(leaf),)
        )
        return found.fetchone() is not None

    def spans(self, text: str, leaves: Iterable[Word | Phrase]) -> list[Span]:
        """Tell where in *text* the *leaves* stand, in order, none overlapping another."""
        worded, spans = [], []
        is_plain = _is_plain(text)
        for leaf in leaves:
            terms = self.terms(leaf.text)
            if not terms:
                spans += _places(text, leaf.text)
            elif not is_plain:
                worded.append(as_phrase(leaf))
            elif _is_ascii(terms):
                found = _pattern(terms, _is_prefix(leaf)).finditer(text)
                spans += [match.span() for match, _ in zip(found, range(_MOST_SPANS), strict=False)]
        if worded:
            spans += self._marked(text, " OR ".join(worded))
        return _apart(spans)

    def _marked(self, text: str, expression: str) -> list[Span]:
        row = (
            self._holding(text)
            .execute(
                "SELECT highlight(one, 0, ?, ?) FROM one WHERE one MATCH ?",
                (_BEFORE, _BEHIND, expression),
            )
            .fetchone()
        )
        return [] if row is None else _unmarked(_plain(text), row[0])

    def _holding(self, text: str) -> sqlite3.Connection:
        """Give the table with nothing but *text* in it."""
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.execute(
                "CREATE VIRTUAL TABLE one USING fts5"
                " (text, tokenize='unicode61 remove_diacritics 2')"
            )
            self._db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(one, instance)")
        if text != self._held:
            if self._held is not None:
                self._db.execute("ROLLBACK")  # Faster than to delete what was there.
            self._db.execute("BEGIN")
            self._db.execute("INSERT INTO one VALUES (?)", (as_words(_plain(text)),))
            self._held = text
        return self._db


def meets(
    tree: Node | None, text: str, truths: Mapping[Filter, bool], tokenizer: Tokenizer
) -> bool:
    """Tell whether *text* is what *tree* asks for; *truths* says it of the filters."""
    match tree:
        case None:
            return True
        case Filter():
            return truths[tree]
        case Word() | Phrase():
            return tokenizer.holds(text, tree)
        case Not():
            return not meets(tree.node, text, truths, tokenizer)
        case All():
            return all(meets(each, text, truths, tokenizer) for each in tree.nodes)
        case Any():
            return any(meets(each, text, truths, tokenizer) for each in tree.nodes)


def as_phrase(leaf: Word | Phrase) -> str:
    """Write a word or phrase as FTS5 takes it; nothing in it can be an operator."""
    words = as_words(leaf.text).replace("\0", " ").replace('"', '""')
    return f'"{words}" *' if _is_prefix(leaf) else f'"{words}"'


def sound(text: str) -> str:
    """Give *text* without what SQLite cannot hold; it stays as long as it was."""
    text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def conjuncts(tree: Node | None) -> tuple[Node, ...]:
    """Give what has to be so all together."""
    return tree.nodes if isinstance(tree, All) else () if tree is None else (tree,)


def joined(nodes: list[Node]) -> Node | None:
    """Give the tree that asks for all of *nodes*."""
    return All(tuple(nodes)) if len(nodes) > 1 else nodes[0] if nodes else None


def wanted_leaves(tree: Node | None) -> Iterator[Word | Phrase]:
    """Give the words and phrases that are looked for, not those that are refused."""
    if isinstance(tree, Word | Phrase):
        yield tree
    elif isinstance(tree, All | Any):
        for each in tree.nodes:
            yield from wanted_leaves(each)


def as_beginnings(tree: Node | None) -> Node | None:
    """Give *tree* with every wanted word as the beginning of one."""
    match tree:
        case Word():
            return Word(tree.text, True)
        case All() | Any():
            return type(tree)(tuple(n for n in map(as_beginnings, tree.nodes) if n is not None))
    return tree


def is_bound(wanted: Filter) -> bool:
    """Tell whether a filter can be told without a text: by session or time."""
    return wanted.at is not None or wanted.field in ("session", "project")


def names_session(tree: Node | None) -> bool:
    """Tell whether *tree* asks for one session."""
    return any(isinstance(each, Filter) and each.field == "session" for each in conjuncts(tree))


def wants_answers(tree: Node | None) -> bool:
    """Tell whether *tree* asks for what tools answered, or for what was slipped in, by name."""
    match tree:
        case Filter(field="is" | "type", value=value):
            return any(kind.name.lower() == value.lower() for kind in ANSWERED)
        case All() | Any():
            return any(map(wants_answers, tree.nodes))
    return False


def _plain(text: str) -> str:
    """Give *text* without what cannot be held or would look like a mark; as long as it was."""
    plain = sound(text)
    return plain.translate(_MARKERS) if _BEFORE in plain or _BEHIND in plain else plain


def _is_prefix(leaf: Word | Phrase) -> bool:
    return isinstance(leaf, Word) and leaf.is_prefix


def _is_ascii(terms: Iterable[str]) -> bool:
    return all(map(str.isascii, terms))


def _is_plain(text: str) -> bool:
    return text.isascii() or _NOT_PLAIN.search(text) is None


@lru_cache(maxsize=256)
def _pattern(terms: tuple[str, ...], is_prefix: bool) -> re.Pattern[str]:  # noqa: FBT001
    """Give what finds *terms*, one behind the other, in plain ASCII."""
    end = "[0-9A-Za-z]*" if is_prefix else "(?![0-9A-Za-z])"
    return re.compile(f"(?<![0-9A-Za-z]){_ANYTHING.join(terms)}{end}", re.IGNORECASE | re.ASCII)


def _places(text: str, piece: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find(piece)
    while at >= 0 and len(spans) < _MOST_SPANS:
        spans.append((at, at + len(piece)))
        at = text.find(piece, at + len(piece))
    return spans


def _unmarked(plain: str, marked: str) -> list[Span]:
    """Find in *plain* what is marked in its words, which may have spaces that *plain* has not.

    All other characters are the same, so they are counted.
    """
    marks = marked.count(_BEFORE) + marked.count(_BEHIND)
    if len(marked) - marks == len(plain):
        return _counted(marked)
    inks = [len(piece) for piece in plain.split(" ")]
    behind = list(accumulate(inks, initial=0))

    def place(count: int) -> int:
        """Give the place of the character before which *count* others are no spaces."""
        piece = bisect_right(behind, count) - 1
        return piece + count  # One space for each piece before it.

    spans: list[Span] = []
    count = 0
    for each in marked.split(_BEFORE):
        inside, is_marked, outside = each.partition(_BEHIND)
        inked = len(inside) - inside.count(" ")
        if is_marked and inked:
            spans.append((place(count), place(count + inked - 1) + 1))
        count += inked + len(outside) - outside.count(" ")
    return spans


def _counted(marked: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for each in marked.split(_BEFORE):
        inside, is_marked, outside = each.partition(_BEHIND)
        if is_marked:
            spans.append((at, at + len(inside)))
        at += len(inside) + len(outside)
    return spans


def _apart(spans: list[Span]) -> list[Span]:
    """Join spans that overlap."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined[:_MOST_SPANS]
