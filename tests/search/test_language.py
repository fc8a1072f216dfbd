"""Any text is a query: it parses, quickly, to the tree that its writer meant."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sampling import sampled
from search.query_text import written
from turnlog.search.language import (
    DEEPEST,
    IS,
    All,
    Any,
    FieldFilter,
    Node,
    Not,
    Phrase,
    SearchQuery,
    Word,
    filters_of,
    is_only_filters,
    parse,
    word_leaves,
)

NOW = datetime(2026, 11, 4, 12, tzinfo=UTC)
A, B, C, D = (Word(letter) for letter in "abcd")
MUST_A, MUST_B = (Word(letter, is_required=True) for letter in "ab")


def read(text):
    return parse(text, now=NOW, zone=UTC)


def words_of(tree):
    return tuple(dict.fromkeys(leaf.text for leaf in word_leaves(tree)))


def tree(text):
    return read(text).tree


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        (" \t\n\u2003", None),
        ("a", A),
        ("a b", All((A, B))),
        ("a\u3000b", All((A, B))),
        ("retr*", Word("retr", is_prefix=True)),
        ("retr**", Word("retr", is_prefix=True)),
        ("*", Word("*")),
        ("/*", Word("/*")),
        ("a*b", Word("a*b")),
        ("*.py", Word("*.py")),
        ('"a b"', Phrase("a b")),
        ("“a b”", Phrase("a b")),
        ("„a b“ c", All((Phrase("a b"), C))),
        ('“a b" c', All((Phrase("a b"), C))),
        ('"say ""hi"" now"', Phrase('say "hi" now')),
        ('"a “b” c"', Phrase("a “b” c")),
        ('"a b', Phrase("a b")),
        ('""', None),
        ('" "', None),
        ('"', None),
        ('a "" b', All((A, B))),
        ('"a"b', All((Phrase("a"), B))),
        ('5" pipe', All((Word('5"'), Word("pipe")))),
        ('print("x")', Word('print("x")')),
        ("don't", Word("don't")),
    ],
)
def test_words_and_phrases(text, expected):
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a OR b", Any((A, B))),
        ("a | b", Any((A, B))),
        ("a b OR c", All((A, Any((B, C))))),
        ("a OR b c", All((Any((A, B)), C))),
        ("a OR b OR c d", All((Any((A, B, C)), D))),
        ("a OR b c OR d", All((Any((A, B)), Any((C, D))))),
        ("a OR OR b", Any((A, B))),
        ("a AND b", All((MUST_A, MUST_B))),
        ("a AND b c", All((MUST_A, MUST_B, C))),
        ("+a b", All((MUST_A, B))),
        ('+"a b" +word:"a"', All((Phrase("a b"), MUST_A))),
        ("a+b C++ + ++", All((Word("a+b"), Word("C++"), Word("+"), Word("++")))),
        ("a AND OR b", Any((A, B))),
        ("a or b", All((A, Word("or"), B))),
        ("a|b", Word("a|b")),
        ("a || b", All((A, Word("||"), B))),
        ("a OR -b", Any((A, Not(B)))),
        ("a OR NOT b", Any((A, Not(B)))),
        ("OR", Word("OR")),
        ("AND", Word("AND")),
        ("NOT", Word("NOT")),
        ("OR a", All((Word("OR"), A))),
        ("a OR", All((A, Word("OR")))),
        ("a NOT", All((A, Word("NOT")))),
        ("(a OR) b", All((A, Word("OR"), B))),
        ('a OR "" b', Any((A, B))),
        ('OR ""', Word("OR")),
        ('"OR"', Phrase("OR")),
        ("ORDER", Word("ORDER")),
    ],
)
def test_alternatives_bind_tighter_than_juxtaposition(text, expected):
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-a", Not(A)),
        ("NOT a", Not(A)),
        ("a AND NOT b", All((MUST_A, Not(B)))),
        ("-a -b", All((Not(A), Not(B)))),
        ('-"a b"', Not(Phrase("a b"))),
        ("-(a b)", Not(All((A, B)))),
        ("-(a OR b)", Not(Any((A, B)))),
        ("-tool:Bash", Not(FieldFilter("tool", "Bash"))),
        ('-project:"my dir"', Not(FieldFilter("project", "my dir"))),
        ("-retr*", Not(Word("retr", is_prefix=True))),
        ("-(-a)", A),
        ("NOT NOT a", A),
        ("NOT -a", A),
        ("NOT (a b)", Not(All((A, B)))),
        ("-OR", Not(Word("OR"))),
        ("-( ) a", A),
        ("NOT ( ) a", A),
        ("-", Word("-")),
        ("a - b", All((A, Word("-"), B))),
        ("--", Word("--")),
        ("--rebuild", Word("--rebuild")),
        ("---", Word("---")),
        ("a -> b", All((A, Word("->"), B))),
        ("a-b", Word("a-b")),
        ("(-)", Word("-")),
        ("- a", All((Word("-"), A))),
    ],
)
def test_negation(text, expected):
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a)", A),
        ("((a))", A),
        ("( a )", A),
        ("(a b) c", All((A, B, C))),
        ("(a b) OR c", Any((All((A, B)), C))),
        ("(a OR b) OR c", Any((A, B, C))),
        ("a OR (b OR (c d))", Any((A, B, All((C, D))))),
        ('("a b")', Phrase("a b")),
        ("(tool:Bash)", FieldFilter("tool", "Bash")),
        ("(retr*) a", All((Word("retr", is_prefix=True), A))),
        ("foo()", Word("foo()")),
        ("(foo() a)", All((Word("foo()"), A))),
        ("f(x) OR (a b)", Any((Word("f(x)"), All((A, B))))),
        ("f(g(x))", Word("f(g(x))")),
        ("()", Word("()")),
        ("( )", None),
        ('("")', None),
        ("(a", Word("(a")),
        ("((a", Word("((a")),
        ("a)", Word("a)")),
        ("retr*)", Word("retr*)")),
        ("(a)b", Word("(a)b")),
        (")a", Word(")a")),
        ("a ) b", All((A, Word(")"), B))),
        ("a ( b", All((A, Word("("), B))),
        ("((a b)", All((Word("("), A, B))),
        ("(a b))", All((A, B, Word(")")))),
        ('("a b"', All((Word("("), Phrase("a b")))),
        (":(", Word(":(")),
        (":-)", Word(":-)")),
        ("-(a", Not(Word("(a"))),
        ("(-a", Word("(-a")),
    ],
)
def test_parentheses_group_when_they_pair_and_are_text_when_not(text, expected):
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tool:Bash", FieldFilter("tool", "Bash")),
        ("TOOL:Bash", FieldFilter("tool", "Bash")),
        ('project:"my dir"', FieldFilter("project", "my dir")),
        ("project:“my dir” a", All((FieldFilter("project", "my dir"), A))),
        ('project:"my dir', FieldFilter("project", "my dir")),
        ('project:"a ""b"""', FieldFilter("project", 'a "b"')),
        ("file:src/*.py", FieldFilter("file", "src/*.py")),
        ("file:src/*", FieldFilter("file", "src/*")),
        ("file:C:\\x", FieldFilter("file", "C:\\x")),
        ("session:1a2b", FieldFilter("session", "1a2b")),
        (
            "model:opus branch:main",
            All((FieldFilter("model", "opus"), FieldFilter("branch", "main"))),
        ),
        ("type:user", FieldFilter("type", "user")),
        ("is:Error", FieldFilter("is", "error")),
        ("role:user", FieldFilter("role", "human")),
        ("role:Human", FieldFilter("role", "human")),
        ("role:system", FieldFilter("role", "program")),
        ("role:ASSISTANT", FieldFilter("role", "assistant")),
        ("role:Wizard", FieldFilter("role", "Wizard")),
        ("tool:Bash OR tool:Edit", Any((FieldFilter("tool", "Bash"), FieldFilter("tool", "Edit")))),
        ("since:7d", FieldFilter("since", "7d", NOW - timedelta(days=7))),
        ('after:"2 days ago"', FieldFilter("after", "2 days ago", NOW - timedelta(days=2))),
        ("Before:2026-11", FieldFilter("before", "2026-11", datetime(2026, 11, 1, tzinfo=UTC))),
        ("foo:bar", Word("foo:bar")),
        ("http://x/y?z=1", Word("http://x/y?z=1")),
        ("file:///etc/hosts", Word("file:///etc/hosts")),
        ("std::vector", Word("std::vector")),
        ("type::Name", Word("type::Name")),
        ("a:b:c", Word("a:b:c")),
        (":", Word(":")),
        (":tool", Word(":tool")),
        ("tool :Bash", All((Word("tool"), Word(":Bash")))),
        ('foo:"a b"', All((Word('foo:"a'), Word('b"')))),
        ('word:"OR"', Word("OR")),
        ('word:"a b"*', Word("a b", is_prefix=True)),
        ("word:x", Word("word:x")),
    ],
)
def test_filters_and_what_only_looks_like_one(text, expected):
    assert read(text) == SearchQuery(expected)


@pytest.mark.parametrize("value", IS)
def test_every_value_of_is_is_known(value):
    assert tree(f"is:{value}") == FieldFilter("is", value)


@pytest.mark.parametrize(
    ("text", "word", "told"),
    [
        ("tool:", "tool:", "nothing follows"),
        ('tool:""', 'tool:""', "nothing follows"),
        ('tool:" "', 'tool:" "', "nothing follows"),
        ("is:purple", "is:purple", "thinking"),
        ("is:", "is:", "nothing follows"),
        ("since:soon", "since:soon", "2026-11-01"),
        ("Before:99999999999d", "Before:99999999999d", "yesterday"),
        ('after:"no day"', 'after:"no day"', "yesterday"),
    ],
)
def test_a_filter_that_cannot_be_is_a_word_and_is_told(text, word, told):
    found = read(f"a {text}")
    assert found.tree == All((A, Word(word)))
    (note,) = found.notes
    assert told in note
    assert word in note


def test_notes_are_few_short_and_each_told_once():
    assert len(read("tool: tool: tool:").notes) == 1
    found = read(" ".join(f"is:{number}{'x' * 1000}" for number in range(1000)))
    assert len(found.tree.nodes) == 1000
    assert len(found.notes) == 10
    assert max(map(len, found.notes)) < 250


def test_a_tree_holds_nothing_that_a_database_cannot():
    assert tree("a\0b") == All((A, B))
    assert tree('"a\0b"') == Phrase("a b")
    assert tree("x\ud800y") == Word("x\ufffdy")
    assert tree("x\ud83d\ude00y") == Word("x😀y")


def test_a_tree_can_be_shown_as_json_and_read_back():
    found = read('a OR "b c" -tool:Bash since:7d (x y*) is:nope \ud800')
    shown = msgspec.json.encode(found)
    assert msgspec.json.decode(shown, type=SearchQuery) == found
    assert b'{"type":"word","text":"a","is_prefix":false,"is_required":false}' in shown


def test_what_is_in_a_tree():
    found = tree('a "b c" OR retr* -gone -"not this" a tool:Bash -(is:error x)')
    assert words_of(found) == ("a", "b c", "retr")
    assert filters_of(found) == (FieldFilter("tool", "Bash"), FieldFilter("is", "error"))
    assert not is_only_filters(found)
    assert is_only_filters(tree("tool:Bash OR -is:error"))
    assert not is_only_filters(tree("tool:Bash -x"))
    assert (words_of(None), filters_of(None), is_only_filters(None)) == ((), (), False)


@pytest.mark.parametrize(
    "text",
    [
        "a b", "a OR b c", "(a b) OR c", "-(a OR b) c", '"a b" -tool:Bash', 'project:"my dir"',
        "--rebuild", "foo()", "std::vector", "file", "retr*", "-retr*", "->", "http://x/?y=1|2",
        'word:"OR"', 'word:"(a"', '-word:"--x"', 'word:"tool:"', '"say ""hi"""', 'file:"//x"',
    ],
)  # fmt: skip
def test_what_is_well_written_is_written_so_again(text):
    assert written(tree(text)) == text


PIECES = [
    "a", "b", "OR", "AND", "NOT", "|", "-", "--", "(", ")", "((", "))", '"', '""', "“", "”", "„",
    "*", ":", "::", "tool:", "file:", "is:", "is:error", "since:", "7d", "before:2026", "word:",
    "role:user", " ", "  ", "\n", "\0", "\\", "NEAR", "NEAR(a b, 5)", "^", "{", "}", "+", ",", "'",
    "%", "_", "🙂", "👩‍👩‍👧", "שלום", "\u202e", "مرحبا", "日本語", "ไทย", "é", "e\u0301",
    "\ud800", "\udfff", "\x1b[31m", "\x7f", "\x85", "\ufeff", "\ufffe", "/*", "->", "foo()", "f(",
    "x)", "İ", "ß", "\x85a",
]  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=25).map("".join))


def is_plain(node):
    match node:
        case Word(text) | Phrase(text):
            return bool(text.strip())
        case FieldFilter(field, value, at):
            return bool(value.strip()) and (at is not None) == (
                field in {"before", "after", "since"}
            )
        case Not(inner):
            return not isinstance(inner, Not) and is_plain(inner)
        case All(nodes) | Any(nodes):
            alike = any(isinstance(each, type(node)) for each in nodes)
            return len(nodes) > 1 and not alike and all(map(is_plain, nodes))


def check(text):
    found = read(text)
    if found.tree is None:
        return
    assert is_plain(found.tree)
    msgspec.json.encode(found)
    again = written(found.tree)
    assert tree(again) == found.tree
    assert written(tree(again)) == again


@given(TEXTS)
@example("a(" + ")" * 3)
@example("( a (b ) )c)")
@example("-(")
@example('word:"*"')
@example('NOT word:"->"')
def test_any_text_gives_a_plain_tree_that_can_be_written_and_read_again(text):
    check(text)


def test_ten_thousand_hostile_texts():
    dice = random.Random(20261104)
    for _ in range(10_000):
        pieces = dice.choices(PIECES, k=dice.randrange(1, 16))
        pieces += [chr(dice.randrange(0x110000)) for _ in range(dice.randrange(3))]
        dice.shuffle(pieces)
        check(dice.choice(["", " "]).join(pieces))


INK = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    str.strip
) | st.sampled_from(
    ["OR", "-a", "(a", "a)", "tool:x", "retr*", '"', "a b", "->", " a", "a ", 'word:"x"']
)
LEAVES = st.one_of(
    st.builds(Word, INK, st.booleans()),
    st.builds(Phrase, INK),
    st.builds(FieldFilter, st.sampled_from(["project", "session", "tool", "file", "type"]), INK),
    st.builds(FieldFilter, st.just("is"), st.sampled_from(IS)),
    st.sampled_from(["since:7d", 'before:"last week"', "after:2026", "role:x"]).map(tree),
)


def flat(kind, nodes):
    parts = (each.nodes if isinstance(each, kind) else (each,) for each in nodes)
    return kind(tuple(each for part in parts for each in part))


TREES: st.SearchStrategy[Node] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda node: node.node if isinstance(node, Not) else Not(node)),
        st.lists(inner, min_size=2, max_size=4).map(lambda nodes: flat(All, nodes)),
        st.lists(inner, min_size=2, max_size=4).map(lambda nodes: flat(Any, nodes)),
    ),
    max_leaves=12,
)


@given(TREES)
@example(Word("a "))
@example(Word("\x85a"))
@example(All((A, Not(Word("->")))))
def test_every_plain_tree_is_read_as_it_was_written(node):
    assert is_plain(node)
    assert tree(written(node)) == node
    assert read(written(node)).notes == ()


@given(TREES)
def test_leaves_are_all_found(node):
    text = written(node)
    assert set(filters_of(node)) == set(filters_of(tree(f"zzz {text}")))
    assert set(words_of(tree(f"zzz ({text})"))) == {"zzz", *words_of(node)}
    assert not is_only_filters(tree(f"tool:x ({text}) -zzz"))


def test_groups_deeper_than_the_deepest_are_text():
    def nested(depth):
        return "-(a " * depth + "b" + ")" * depth

    for depth in (DEEPEST, DEEPEST + 1, 5_000):
        check(nested(depth))
        check("(" * depth + "a" + ")" * depth)
    assert tree("(" * DEEPEST + "a" + ")" * DEEPEST) == A
    assert tree("(" * (DEEPEST + 2) + "a" + ")" * (DEEPEST + 2)) == Word("((a))")
    deep = tree(nested(DEEPEST))
    assert words_of(All((Word("x"), deep))) == ("x",)


@pytest.mark.parametrize(
    "piece",
    sampled([
        "a", "a ", '"', '" ', '"a" ', "“a” ", "“", "(", "( ", ")", ") ", "(a", "a(", "a)", "()",
        "(a) ", "-", "- ", "-(", "-(a) ", "a OR ", "OR ", "NOT ", "NOT a ", "| ", "tool:", "tool: ",
        'tool:"', "is:x ", "since:", "since:9d ", "*", "a* ", 'word:"', "\0", "\ud800", "日", ": ",
    ], 4),
)  # fmt: skip
def test_repetition_is_read_in_proportion(piece):
    # It takes a moment; what grew with the square of the text would take minutes.
    read(piece * (100_000 // len(piece)))


def test_a_megabyte_of_everything_is_read_in_proportion():
    dice = random.Random(20261105)
    text = " ".join(dice.choices(PIECES, k=400_000))[:1_000_000]
    assert len(text) == 1_000_000
    read(text)


def test_thousands_of_alternatives_stay_one_level_deep():
    found = tree(" OR ".join(f"w{number}" for number in range(5_000)))
    assert isinstance(found, Any)
    assert len(found.nodes) == 5_000
    assert tree(written(found)) == found
