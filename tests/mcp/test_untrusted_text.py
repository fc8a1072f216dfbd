"""The frame holds whatever a log says, and nothing in it acts or opens a door."""

import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_contexts import ACTIVE, FORGED, HOSTILE, ORDER
from redact import planted
from turnlog.mcp.untrusted_text import NOTICE, Cleaner, frame_bytes, framed, unframed
from turnlog.redact import rules_from

TEXTS = st.text(st.characters(), max_size=200) | st.sampled_from([FORGED, HOSTILE, ACTIVE, NOTICE])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(TEXTS, TEXTS)
def test_what_was_framed_comes_back_and_stands_between_its_markers(data, ours):
    text = framed(data, ours)
    assert text.startswith(NOTICE + "\n<recorded-data ")
    assert unframed(text) == data
    nonce = text[len(NOTICE) :].split()[1].rstrip(">")
    assert text.count(nonce) == 2
    assert nonce not in data
    assert len(text.encode("utf-8", "replace")) <= (
        frame_bytes() + len(data.encode("utf-8", "replace")) + len(ours.encode("utf-8", "replace"))
        + 1
    )  # fmt: skip


def test_a_log_that_repeats_an_earlier_answer_cannot_close_the_next_one():
    earlier = framed("apples")
    again = framed(f"{earlier}\n{ORDER}")
    assert unframed(again) == f"{earlier}\n{ORDER}"
    assert not again.rpartition("</recorded-data")[2].partition(">")[2]


@pytest.mark.parametrize("text", ["", "apples", NOTICE, f"{NOTICE}\n<recorded-data x>\napples"])
def test_what_is_no_frame_is_told(text):
    with pytest.raises(ValueError, match="valid frame"):
        unframed(text)


@given(JSON)
@example({ACTIVE: [ACTIVE, {"a\x00": "\ud800"}]})
def test_whatever_is_cleaned_is_json_without_anything_that_acts(value):
    written = json.dumps(Cleaner().clean(value), ensure_ascii=False)
    written.encode()  # No lone surrogate.
    for character in "\x1b\x00\u202e\u2066\u200b\x9b":
        assert character not in written
        assert json.dumps(character)[1:-1] not in written.replace("\\\\", "")


def test_lines_and_tabs_stay():
    assert Cleaner().text("a\n\tb") == "a\n\tb"


@pytest.mark.parametrize("kind", planted.KINDS)
def test_no_secret_survives_wherever_it_is_cut(kind):
    found = planted.plant(random.Random(3), kind)
    before = "Once upon a time there was an orchard. "
    for longest in (1, 20, 60, 100, 10_000):
        text = Cleaner(longest=longest).text(before + found.text + " The end." * 5)
        assert not planted.survives(found.secret, text)


def test_a_secret_that_only_its_name_tells_is_masked_in_values_and_in_names():
    said = planted.plant(random.Random(5), "anthropic").secret
    cleaned = Cleaner().clean({"password": "maple!Harbour77", said: {"inner": [said]}})
    written = json.dumps(cleaned)
    assert "Harbour77" not in written
    assert not planted.survives(said, written)


def test_the_owners_own_rules_hold():
    rules, problems = rules_from({"patterns": ["ORCH-[0-9]{4}"]})
    assert not problems
    assert "ORCH-1234" not in Cleaner(rules).text("the badge ORCH-1234 opens it")


@given(st.text(max_size=500), st.integers(1, 100))
def test_what_was_left_out_is_counted(text, longest):
    cleaner = Cleaner(longest=longest)
    shown = cleaner.text(text)
    if "bytes left out]" in shown and cleaner.was_cut:
        assert len(shown) <= longest + 40
    else:
        assert not cleaner.was_cut


def test_the_count_is_in_bytes():
    assert Cleaner(longest=3).text("apple") == "app… [2 bytes left out]"
    assert Cleaner(longest=1).text("éé") == "é… [2 bytes left out]"


def test_long_lists_and_deep_nests_end():
    cleaner = Cleaner(most_items=3)
    assert cleaner.clean([1, 2, 3, 4, 5]) == [1, 2, 3, "… [2 more left out]"]
    assert cleaner.was_cut
    deep: list = []
    for _ in range(5_000):
        deep = [deep]
    assert "nested too deeply" in json.dumps(Cleaner().clean(deep))


def test_names_that_become_alike_are_both_kept():
    assert len(Cleaner().clean({"\x00": 1, "\u2400": 2})) == 2


def test_a_text_of_many_megabytes_is_not_looked_at_whole(monkeypatch):
    looked_at = []
    monkeypatch.setattr(
        "turnlog.mcp.untrusted_text.redact_named",
        lambda _name, text, _rules: looked_at.append(len(text)) or text,
    )
    shown = Cleaner(longest=100).text("x" * 5_000_000)
    assert max(looked_at) < 100_000
    assert shown.endswith("[4,999,900 bytes left out]")
