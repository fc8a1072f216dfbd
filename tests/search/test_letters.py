"""A text's letters are those that SQLite's tokenizer finds in it, character by character."""

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from turnlog.index.texts import as_words
from turnlog.search import tokenizer
from turnlog.search.tokenizer import LETTER, TOKENIZER, fold, sqlite_safe

WORDS = re.compile(f"{LETTER}+")
ACCENTS = re.compile("[\u0300-\u0331]")
# Every code point that writing uses, and of the empty planes behind some.
EVERY = [*range(0x20000), *range(0x20000, 0x110000, 331)]
STEP = 16_384


def told_by_sqlite(texts):
    """The words of each text, as a full-text table of the index has them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute(f"CREATE VIRTUAL TABLE one USING fts5 (text, {TOKENIZER})")
        db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab (one, instance)")
        db.execute("BEGIN")
        sounded = ((as_words(sqlite_safe(text)),) for text in texts)
        db.executemany("INSERT INTO one VALUES (?)", sounded)
        words = [[] for _ in texts]
        for term, number in db.execute("SELECT term, doc FROM terms ORDER BY doc, offset"):
            words[number - 1].append(term)
    return words


def told_here(text):
    found = fold(text)
    assert found is not None
    assert len(found) == len(text)
    return WORDS.findall(as_words(found))


def test_every_character_is_taken_as_sqlite_takes_it(stride):
    depending = set()
    for start in range(0, len(EVERY), STEP):
        characters = [chr(each) for each in EVERY[start : start + STEP : stride]]
        fold("".join(characters))  # All at once is quickest.
        texts = [f"ab{each}cd {each}" for each in characters]
        for each, text, words in zip(characters, texts, told_by_sqlite(texts), strict=True):
            if fold(each) is None:
                depending.add(each)
            else:
                assert told_here(text) == words, ascii(each)
    assert depending
    assert all(map(ACCENTS.match, depending))


def test_what_was_folded_stays_so(stride):
    """Characters are replaced one after the other: none may become one that is replaced next."""
    for start in range(0, len(EVERY), STEP):
        text = "".join(map(chr, EVERY[start : start + STEP : stride]))
        fold(text)  # All at once is quickest.
        text = "".join(each for each in text if fold(each) is not None)
        folded = fold(text)
        assert fold(folded) == folded
        # A character that is a word of its own is one in its folded form, too.
        spaced = [as_words(each) != each for each in folded if each != " "]
        kept = [each for each, to in zip(text, folded, strict=True) if to != " "]
        assert [as_words(sqlite_safe(each)) != sqlite_safe(each) for each in kept] == spaced


@given(st.text(max_size=30))
def test_words_of_any_text_are_those_of_sqlite(text):
    found = fold(text)
    if found is None:
        assert ACCENTS.search(text)
    else:
        assert told_here(text) == told_by_sqlite([text])[0]


def test_case_is_that_of_ascii_where_sqlite_knows_no_other():
    assert fold("ABC É Ω") == "abc e ω"
    assert fold("A\U00010570") == "a\U00010570"  # A capital letter since Unicode 14.


def test_half_a_character_stands_between_words():
    assert fold("a\ud800b\udfffé") == "a b e"


def test_an_accent_of_its_own_is_left_to_sqlite():
    assert fold("cafe\u0301") is None


def test_characters_may_be_learned_by_many_at_once(monkeypatch):
    monkeypatch.setattr(tokenizer, "_folded", {})
    texts = [chr(0xC0 + number % 80) * 3 + "→x" for number in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(fold, texts))
    assert found == [fold(text) for text in texts]
    assert all(map(str.isprintable, found))
