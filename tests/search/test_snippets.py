"""Snippets show what was found: where most of it stands, cut between words, marked exactly."""

import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampling import examples
from turnlog.index.texts import as_words
from turnlog.search import hits, tokenizer
from turnlog.search.hits import WINDOW, make_snippet
from turnlog.search.language import Not, Phrase, Word
from turnlog.search.tokenizer import highlighter, holds, matches, terms

ALPHABET = "ab éÉeÅλΛ漢字かなк한국\u0301\u200d✓—_-.,\n\t\x01\x02\x7f\x001\u0131\u0130\u017f\u212a"
texts = st.text(ALPHABET, max_size=60)
words = st.text("abeéÅλ漢字か한1\u212a\u017f", min_size=1, max_size=3).map(Word)
prefixes = st.text("abeλ漢", min_size=1, max_size=2).map(lambda text: Word(text, True))
phrases = st.text("ab éλ漢字.", min_size=1, max_size=6).filter(str.strip).map(Phrase)


def snippet_of(text, *leaves, **options):
    return make_snippet(text, highlighter(leaves), **options)


def spans_in(text, leaves):
    return highlighter(leaves)(text)


def marked(found):
    return [found.text[begin:end] for begin, end in found.highlights]


def fts(text, leaf):
    """What a full-text table of the index would say."""
    plain = text.replace("\0", " ")
    star = " *" if getattr(leaf, "is_prefix", False) else ""
    quoted = as_words(leaf.text).replace('"', '""')
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE said USING fts5(text, content='',"
                   " tokenize='unicode61 remove_diacritics 2')")  # fmt: skip
        db.execute("INSERT INTO said (rowid, text) VALUES (1, ?)", (as_words(plain),))
        found = db.execute("SELECT 1 FROM said WHERE said MATCH ?", (f'"{quoted}"{star}',))
        return bool(found.fetchall())


@given(texts, st.one_of(words, prefixes, phrases))
def test_the_text_is_judged_as_the_index_judges_it(text, leaf):
    if not terms(leaf.text):
        assert holds(text, leaf) == (leaf.text in text)
        return
    assert holds(text, leaf) == fts(text, leaf)
    assert matches(Not(leaf), text, {}) != holds(text, leaf)


@given(st.text("abAB 1-_.\n\x01", max_size=40), st.text("ab1", min_size=1, max_size=3))
def test_plain_text_is_judged_alike_without_asking_sqlite(text, word):
    assert holds(text, Word(word)) == fts(text, Word(word))
    assert holds(text, Word(word, True)) == fts(text, Word(word, True))


@given(texts, st.lists(st.one_of(words, prefixes), min_size=1, max_size=3))
def test_what_is_marked_is_what_was_looked_for(text, leaves):
    spans = spans_in(text, leaves)
    assert bool(spans) == any(holds(text, leaf) for leaf in leaves)
    for begin, end in spans:
        assert any(holds(text[begin:end], leaf) for leaf in leaves)
        assert text[begin:end] == text[begin:end].strip()
    assert spans == sorted(spans)


@given(texts, st.lists(words, min_size=1, max_size=2), st.integers(1, 80), st.integers(0, 3))
def test_a_snippet_is_a_piece_of_the_text_on_one_line(text, leaves, width, context):
    found = snippet_of(text, *leaves, width=width, context=context)
    assert "\n" not in found.text
    assert len(found.text) <= width + 2
    inner = found.text.removeprefix("…").removesuffix("…")
    assert inner in " ".join(re.findall(r"\S+", text))
    end = 0
    for begin, stop in found.highlights:
        assert end <= begin < stop <= len(found.text)
        end = stop
    assert len(found.before) <= context
    assert len(found.after) <= context


def test_accents_and_case_do_not_hide_a_word():
    assert marked(snippet_of("The CAFÉ and the cafe\u0301, a café", Word("cafe"))) == [
        "CAFÉ", "cafe\u0301", "café",
    ]  # fmt: skip
    assert marked(snippet_of("plain cafe", Word("café"))) == ["cafe"]


def test_words_of_chinese_japanese_and_korean_are_marked_as_they_are_typed():
    assert marked(snippet_of("我们修复了数据库连接的问题", Word("数据库"))) == ["数据库"]
    assert marked(snippet_of("日本語の テキスト検索", Word("検索"), Word("日本"))) == [
        "日本",
        "検索",
    ]
    assert marked(snippet_of("서버가 응답하지 않는다", Word("응답"))) == ["응답"]


def test_the_densest_place_is_shown():
    filler = "lorem ipsum dolor sit amet " * 40
    text = f"retry {filler} retry with backoff {filler} backoff"
    found = snippet_of(text, Word("retry"), Word("backoff"))
    assert marked(found) == ["retry", "backoff"]
    assert found.text.startswith("…")
    assert found.text.endswith("…")
    assert 120 <= len(found.text) <= 162


def test_it_is_cut_between_words():
    text = " ".join(f"word{number}" for number in range(200))
    found = snippet_of(text, Word("word100"))
    shown = found.text.strip("…").split()
    assert set(shown) <= set(text.split())
    assert marked(found) == ["word100"]


def test_a_match_far_inside_a_long_text_is_found_where_it_is_said_to_be():
    text = "x " * 100_000 + "needle " + "y " * 100_000
    found = snippet_of(text, Word("needle"), near=200_000)
    assert marked(found) == ["needle"]
    assert len(text) > WINDOW


def test_a_wrong_guess_of_the_place_does_not_hide_the_match():
    text = "the other é " * 2_000 + "needle"
    assert marked(snippet_of(text, Word("needle"), near=0)) == ["needle"]


def test_lines_around_are_those_of_the_text():
    text = "one\n\n  two\nthe needle here\nthree\nfour\n"
    found = snippet_of(text, Word("needle"), context=2)
    assert (found.before, found.after) == (["", "  two"], ["three", "four"])
    assert snippet_of("a needle", Word("needle"), context=3).before == []
    assert snippet_of("needle\n", Word("needle"), context=3).after == []


@given(st.text(max_size=40))
def test_any_text_has_terms_and_a_snippet(text):
    terms(text)
    snippet_of(text, Word(text or "x"), Phrase(text or "x"), width=10, context=2)


@given(texts, st.lists(st.one_of(words, prefixes, phrases), min_size=1, max_size=3))
def test_places_are_those_that_sqlite_marks(text, leaves):
    found = spans_in(text, leaves)
    with pytest.MonkeyPatch.context() as patch:
        searchable = tokenizer._searchable
        patch.setattr(tokenizer, "_searchable", lambda text, **_: searchable(text, is_ascii=False))
        assert spans_in(text, leaves) == found
        patch.setattr(tokenizer, "fold", lambda _: None)
        terms.cache_clear()
        assert spans_in(text, leaves) == found


def test_a_phrase_that_begins_within_another_is_marked_too():
    for text in ("go go go", "go go go é", "go go go 漢"):
        assert spans_in(text, [Phrase("go go")]) == [(0, 8)]
        assert spans_in(text, [Phrase("go"), Word("g", True)]) == [(0, 2), (3, 5), (6, 8)]


def test_a_character_that_is_a_word_parts_others_and_stands_between_them():
    for text in ("go漢go", "go 漢 go", "go漢字go go", "go\x7f漢 go"):
        assert not holds(text.removesuffix(" go"), Phrase("go go"))
        assert holds(text, Word("go"))
        assert spans_in(text, [Word("g", True)])[0] == (0, 2)
    assert holds("go\x7fgo é漢", Phrase("go go"))
    assert spans_in("é go\x7fgo 漢", [Phrase("go go")]) == [(2, 7)]
    assert spans_in("\x7fか\x7fか", [Word("か")]) == [(1, 2), (3, 4)]


@settings(max_examples=examples(200))
@given(
    st.lists(st.sampled_from(["ab", "a", " ", "   ", "\n\n", "漢", "." * 9]), max_size=90).map(
        "".join
    ),
    st.integers(0, 200),
    st.integers(0, 20),
    st.integers(0, 60),
)
def test_a_snippet_is_what_it_would_be_if_more_was_looked_at(text, begin, length, width):
    best = min(begin, len(text)), min(begin + length, len(text))
    flat, *_, (one, other) = hits._cut(text, best, width)
    first, last = max(0, best[0] - 2 * width), min(len(text), best[1] + 2 * width)
    whole = hits._Flat(text[first:last])
    span = whole.span((best[0] - first, best[1] - first))
    wide = hits._piece(whole.text, span, max(1, width))
    assert flat.text[one:other] == whole.text[wide[0] : wide[1]]
    if (one, other) != wide:
        assert one > 0 < wide[0]


@given(st.text("ab \n\t\u2003漢", max_size=20))
def test_every_character_has_its_place_on_the_one_line(text):
    flat = hits._Flat(text)
    assert flat.text == " ".join(text.split())
    for at, each in enumerate(text):
        if not each.isspace():
            begin, end = flat.span((at, at + 1))
            assert flat.text[begin:end] == each
            assert not text[:at].strip() or begin > 0


@given(st.text("ab_é .", max_size=20), st.lists(st.text("abé", min_size=1, max_size=2), max_size=3))
def test_a_place_is_guessed_at_the_first_whole_word(text, terms):
    said = [each.start() for each in re.finditer(r"[^\W_]+", text) if each[0] in terms]
    inside = [text.find(each) for each in terms if each in text]
    phrases = [(each,) for each in terms]
    assert hits.first_place(text, phrases) == min(said or inside, default=None)


def test_a_place_is_guessed_whatever_is_a_capital_letter():
    for text in ("é LOCK", "\u0130 LOCK", "É LOC\u212a", "LOCK", "\ud800 LOCK"):
        assert hits.first_place(text, [("lock",)]) == text.lower().index("lock")
    assert hits.first_place("é Ω", [("ω",)]) == 2


def test_a_place_is_guessed_where_the_whole_phrase_stands():
    text = "lock here, lock there; the lock-file is held, lock file"
    assert hits.first_place(text, [("lock", "file")]) == text.index("lock-file")
    assert hits.first_place(text, [("lock", "nowhere")]) == 0
    assert hits.first_place(text, [("nowhere",)]) is None
