"""Whether one text is what a tree asks for, and where in it the words stand.

The full-text tables answer most questions by themselves. What they cannot tell (the order of words
in what tools answered, punctuation, trees too deep for SQLite) is decided here, on the text itself,
by the same rules. Of nearly every text it is known what SQLite's tokenizer makes of each of its
characters (see ``turnlog.search.match``): there a regular expression finds words, and where.
For the others the tokenizer is asked, in a table in memory that holds one text.

A text as SQLite's tokenizer takes it, character by character.

``unicode61`` looks at one character at a time: it belongs to a word, and then has a folded form
without case and accent, or it stands between words. Which, only SQLite's own tables tell, so it is
asked once for each character that is met. A text of which every character was replaced so is as
long as before, and its words are runs of letters: a regular expression finds them, and where.

Only an accent that is a character of its own is more than that: it belongs to a word if it stands
behind a letter. A text with one of these has no such form.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from threading import Lock
from typing import Final

from turnlog.index.texts import ANSWERED, as_words
from turnlog.search.language import All, Any, FieldFilter, Node, Not, Phrase, Word

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
    """Return the characters of *text* that are not ASCII."""
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


Span = tuple[int, int]
"""Where something begins and ends in a text."""
Sought = tuple[tuple[str, ...], bool]
"""Words that stand one behind the other, and whether the last may go on."""

_WORDS: Final = re.compile(f"{LETTER}+")
_LONE: Final = "\x7f"
"""Stands for any character that is a word of its own, where no such word is sought."""
_FEW_LONE: Final = 20
_TOLD_BY_TOOLS: Final = (FieldFilter("is", "error"), FieldFilter("role", "tool"))
_MOST_SPANS: Final = 200
_BETWEEN: Final = r"[\x00-/:-`{-~]"
"""What stands between two words of a phrase, as a regular expression has it."""
_BEFORE, _BEHIND = "\x01", "\x02"
_MARKERS: Final = str.maketrans({_BEFORE: " ", _BEHIND: " "})


class Tokenizer:
    """SQLite's tokenizer, asked about one text at a time."""

    def __init__(self) -> None:
        self._db: sqlite3.Connection | None = None
        self._held: str | None = None
        self._terms: dict[str, tuple[str, ...]] = {}

    def __del__(self) -> None:
        if self._db is not None:
            self._db.close()

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the words of *text*, which somebody typed, as the full-text tables hold them."""
        known = self._terms.get(text)
        if known is None:
            letters = as_letters(text)
            if letters is not None:
                known = tuple(_WORDS.findall(as_words(letters)))
            else:
                found = self._holding(text).execute("SELECT term FROM terms ORDER BY offset")
                known = tuple(term for (term,) in found)
            self._terms[text] = known
        return known

    def holds(self, text: str, leaf: Word | Phrase) -> bool:
        """Return whether *text* holds *leaf*: as words, or as it stands if it has none."""
        terms = self.terms(leaf.text)
        if not terms:
            return leaf.text in text
        words = _ascii_sought(text) if all(map(str.isascii, terms)) else None
        if words is None and (letters := _letters(text)) is not None:
            words = _as_sought(letters, terms)
        if words is not None:
            return next(_places_of(words, (terms, _is_prefix(leaf))), None) is not None
        found = self._holding(text).execute(
            "SELECT 1 FROM one WHERE one MATCH ?", (as_phrase(leaf),)
        )
        return found.fetchone() is not None

    def spans(self, text: str, leaves: Iterable[Word | Phrase]) -> list[Span]:
        """Return where in *text* the *leaves* stand, in order, none overlapping another."""
        return self.marker(leaves)(text)

    def marker(self, leaves: Iterable[Word | Phrase]) -> Callable[[str], list[Span]]:
        """Return what tells it of many texts: what the *leaves* ask for is looked up once."""
        leaves = list(leaves)
        worded = [leaf for leaf in leaves if self.terms(leaf.text)]
        pieces = [leaf.text for leaf in leaves if not self.terms(leaf.text)]
        sought = [(self.terms(leaf.text), _is_prefix(leaf)) for leaf in worded]
        is_ascii = all(term.isascii() for terms, _ in sought for term in terms)

        def mark(text: str) -> list[Span]:
            spans = [span for piece in pieces for span in _places(text, piece)]
            if worded:
                words = _ascii_sought(text) if is_ascii else None
                if words is not None:
                    spans += _found(words, sought)
                else:
                    spans += self._spans(text, worded, sought)
            return _apart(spans) if len(spans) > 1 else spans

        return mark

    def _spans(self, text: str, leaves: list[Word | Phrase], sought: list[Sought]) -> list[Span]:
        """Find *leaves* with words in a text that may need spaces between them."""
        letters = _letters(text)
        if letters is None:
            plain = _plain(text)
            words, marked = as_words(plain), self._marked(text, leaves)
        else:
            plain = letters
            words = _as_sought(plain, [term for terms, _ in sought for term in terms])
            marked = _found(words, sought)
        return marked if len(words) == len(plain) else _unspaced(marked, words, plain)

    def _marked(self, text: str, leaves: list[Word | Phrase]) -> list[Span]:
        """Let SQLite mark *leaves* in the words of *text*."""
        row = (
            self._holding(text)
            .execute(
                "SELECT highlight(one, 0, ?, ?) FROM one WHERE one MATCH ?",
                (_BEFORE, _BEHIND, " OR ".join(map(as_phrase, leaves))),
            )
            .fetchone()
        )
        return [] if row is None else _unmarked(row[0])

    def _holding(self, text: str) -> sqlite3.Connection:
        """Return the table with nothing but *text* in it."""
        if self._db is None:
            self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.execute(f"CREATE VIRTUAL TABLE one USING fts5 (text, {TOKENIZER})")
            self._db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(one, instance)")
        if text != self._held:
            if self._held is not None:
                self._db.execute("ROLLBACK")  # Faster than to delete what was there.
            self._db.execute("BEGIN")
            self._db.execute("INSERT INTO one VALUES (?)", (as_words(_plain(text)),))
            self._held = text
        return self._db


def meets(
    tree: Node | None, text: str, truths: Mapping[FieldFilter, bool], tokenizer: Tokenizer
) -> bool:
    """Return whether *text* is what *tree* asks for; *truths* says it of the filters."""
    match tree:
        case None:
            return True
        case FieldFilter():
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


def sqlite_safe(text: str) -> str:
    """Return *text* without what SQLite cannot hold; it stays as long as it was."""
    text = text.replace("\0", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def conjuncts(tree: Node | None) -> tuple[Node, ...]:
    """Return what has to be so all together."""
    return tree.nodes if isinstance(tree, All) else () if tree is None else (tree,)


def joined(nodes: list[Node]) -> Node | None:
    """Return the tree that asks for all of *nodes*."""
    return All(tuple(nodes)) if len(nodes) > 1 else nodes[0] if nodes else None


def positive_leaves(tree: Node | None) -> Iterator[Word | Phrase]:
    """Return the words and phrases that are looked for, not those that are refused."""
    if isinstance(tree, Word | Phrase):
        yield tree
    elif isinstance(tree, All | Any):
        for each in tree.nodes:
            yield from positive_leaves(each)


def as_beginnings(tree: Node | None) -> Node | None:
    """Return *tree* with every wanted word as the beginning of one."""
    match tree:
        case Word():
            return Word(tree.text, True)
        case All() | Any():
            return type(tree)(tuple(n for n in map(as_beginnings, tree.nodes) if n is not None))
    return tree


def is_bound(wanted: FieldFilter) -> bool:
    """Return whether a filter can be told without a text: by session or time."""
    return wanted.at is not None or wanted.field in ("session", "project")


def wordless(tree: Node | None, tokenizer: Tokenizer) -> str | None:
    """Return what to scan logs for, if *tree* asks for nothing but pieces that are no words."""
    pieces = []
    for node in conjuncts(tree):
        inner = node.node if isinstance(node, Not) else node
        if isinstance(inner, FieldFilter):
            if node is not inner or not is_bound(inner):
                return None
        elif not isinstance(inner, Word | Phrase) or tokenizer.terms(inner.text):
            return None
        elif node is inner:
            pieces.append(inner.text)
    return max(pieces, key=len, default=None)


def names_session(tree: Node | None) -> bool:
    """Return whether *tree* asks for one session."""
    return any(
        isinstance(each, FieldFilter) and each.field == "session" for each in conjuncts(tree)
    )


def wants_answers(tree: Node | None) -> bool:
    """Return whether *tree* asks for what tools answered, or for what was slipped in.

    By name; or every match has to be such as mostly tools tell, as what went wrong is.
    """
    return _names_answers(tree) or any(each in _TOLD_BY_TOOLS for each in conjuncts(tree))


def _names_answers(tree: Node | None) -> bool:
    match tree:
        case FieldFilter(field="is" | "type", value=value):
            return any(kind.name.lower() == value.lower() for kind in ANSWERED)
        case All() | Any():
            return any(map(_names_answers, tree.nodes))
    return False


def _plain(text: str) -> str:
    """Return *text* without what cannot be held or would look like a mark; as long as it was."""
    plain = sqlite_safe(text)
    return plain.translate(_MARKERS) if _BEFORE in plain or _BEHIND in plain else plain


def _is_prefix(leaf: Word | Phrase) -> bool:
    return isinstance(leaf, Word) and leaf.is_prefix


def _letters(text: str) -> str | None:
    """Return *text* as letters and what stands between them, with none that has a meaning here."""
    letters = as_letters(text)
    return None if letters is None else letters.replace(_LONE, " ")


def _as_sought(letters: str, terms: Iterable[str]) -> str:
    """Return *letters* as words, in a way in which *terms* are found and nothing else."""
    if letters.isascii():
        return letters
    if all(map(str.isascii, terms)):
        lone = [each for each in beyond_ascii(letters) if _is_lone(each)]
        if len(lone) <= _FEW_LONE:  # Much faster than to put spaces around each.
            for each in lone:
                letters = letters.replace(each, _LONE)
            return letters
    return as_words(letters)


def _ascii_sought(text: str) -> str | None:
    """Give *text* in a way in which words of ASCII are found; None if that takes a closer look."""
    if _LONE in text:
        text = text.replace(_LONE, " ")
    if text.isascii():
        return text.lower()
    others = beyond_ascii(text)
    if len(others) > _FEW_LONE:
        return None
    ask_for(others)
    for each in others:
        to = _beside_ascii(each)
        if to is None:
            return None
        if to != each:
            text = text.replace(each, to)
    return text.lower() if text.isascii() else text.encode().lower().decode()


@lru_cache(maxsize=4096)
def _beside_ascii(character: str) -> str | None:
    """Return what stands for a character where words of ASCII are sought; None if that depends."""
    letter = as_letters(character)
    return letter if letter is None or not _is_lone(letter) else _LONE


@lru_cache(maxsize=4096)
def _is_lone(character: str) -> bool:
    """Return whether a character is a word of its own, wherever it stands."""
    return as_words(character) != character


def _found(words: str, sought: Iterable[Sought]) -> list[Span]:
    """Find what is sought among *words* that are nothing but letters and what is between them."""
    spans: list[Span] = []
    for each in sought:
        spans += islice(_places_of(words, each), _MOST_SPANS)
    return spans


def _places_of(words: str, sought: Sought) -> Iterator[Span]:
    """Find the first of some terms where the others follow, and where the last of them ends."""
    return ((each.start(), each.end(1)) for each in _pattern(*sought).finditer(words))


@lru_cache(maxsize=256)
def _pattern(terms: tuple[str, ...], is_prefix: bool) -> re.Pattern[str]:  # noqa: FBT001
    """Return what finds the first of *terms* where the others follow, up to the end of its group.

    It begins with a word as it stands, since that is found fastest, and looks back from there. Of
    what follows nothing is taken: what says the same twice may begin within another match.
    """
    first, rest = terms[0], "".join(f"{_BETWEEN}+{term}" for term in terms[1:])
    ends = f"{LETTER}*" if is_prefix else f"(?!{LETTER})"
    return re.compile(f"{first}(?<!{LETTER}{first})(?=({rest}{ends}))")


def _places(text: str, piece: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find(piece)
    while at >= 0 and len(spans) < _MOST_SPANS:
        spans.append((at, at + len(piece)))
        at = text.find(piece, at + len(piece))
    return spans


def _unmarked(marked: str) -> list[Span]:
    """Return where the marks were set, in the text without them."""
    spans: list[Span] = []
    at = 0
    for each in marked.split(_BEFORE):
        inside, is_marked, outside = each.partition(_BEHIND)
        if is_marked:
            spans.append((at, at + len(inside)))
        at += len(inside) + len(outside)
    return spans


def _unspaced(spans: list[Span], words: str, plain: str) -> list[Span]:
    """Find in *plain* the *spans* of its *words*, which may have spaces that *plain* has not.

    All other characters are the same, so they are counted, from one span to the next.
    """

    def place(start: int, count: int) -> int:
        """Give the place of the character before which, from *start* on, *count* are no spaces."""
        at = start + count
        while (further := start + count + plain.count(" ", start, at + 1)) > at:
            at = further
        return at

    found = []
    here = there = 0
    for begin, end in sorted(spans):
        there = place(there, begin - here - words.count(" ", here, begin))
        here = begin
        inked = end - begin - words.count(" ", begin, end)
        found.append((there, place(there, inked - 1) + 1))
    return found


def _apart(spans: list[Span]) -> list[Span]:
    """Join spans that overlap."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined[:_MOST_SPANS]
