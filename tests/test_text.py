"""Text of logs is shown as it reads, with everything that steers a terminal made visible."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.text import inert, inert_json


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f469\u200d\U0001f469\u200d\U0001f467 and \U0001f937\u200d\u2642\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: I want.
        "\u0915\u094d\u200d\u0937",  # Devanagari.
        "caf\u00e9 \u6f22\u5b57 \u0434\u0430",
    ],
)
def test_what_is_spelt_with_joiners_stays_as_it_is(text):
    assert inert(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u200d -rf", "rm<zero width joiner> -rf"),
        ("pass\u200cword", "pass<zero width non-joiner>word"),
        ("\u00e9\u200d\u200d\u00e9", "\u00e9<zero width joiner><zero width joiner>\u00e9"),
        ("\u200b", "<zero width space>"),
        ("a\u202eb", "a<right-to-left override>b"),
        ("\x1b[31m\x7f", "\u241b[31m\u2421"),
    ],
)
def test_what_hides_or_steers_is_made_visible(text, shown):
    assert inert(text) == shown


@given(st.text(alphabet="a \u00e9\u0645\U0001f469\u200c\u200d\u200b\u202e\x1b\n"))
def test_nothing_that_steers_is_left_and_doing_it_twice_changes_nothing(text):
    once = inert(text)
    assert not set(once) & set("\u200b\u202e\x1b\n")
    assert inert(once) == once


def test_nothing_active_is_printable():
    active = [chr(code) for code in range(0x110000) if inert(f"x{chr(code)}x") != f"x{chr(code)}x"]
    assert len(active) > 2_000  # Surrogates among them.
    assert not any(map(str.isprintable, active))


@given(st.text(alphabet="ab\u0645\u200d\u202e\x1b\x0b\n\t\r"), st.sampled_from(["", "\n", "\n\t"]))
def test_only_what_is_to_be_kept_is_kept(text, keep):
    shown = inert(text, keep=keep)
    for each in "\n\t\r\x0b\x1b\u202e":
        assert shown.count(each) == (text.count(each) if each in keep else 0)
    apart = [inert(piece) for piece in text.split("\n")]
    assert inert(text, keep="\n") == "\n".join(apart)


@given(st.text(alphabet='a"\\ \u00e9\x7f\x85\x9b\u202e\u2066\u200d\ufeff\U0001f469\x1b\n'))
def test_json_means_the_same_and_steers_nothing(text):
    data = inert_json(json.dumps({text: [text]}, ensure_ascii=False, indent=2).encode())
    assert json.loads(data) == {text: [text]}
    assert not set(data.decode()) & set("\x7f\x85\x9b\u202e\u2066\u200d\ufeff\x1b")
