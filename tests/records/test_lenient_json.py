"""The walker that finds an object's end and members, whatever the bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.samples import CLAUDE
from strategies import DIALECTS, good_lines, json_values, spoiled_lines, to_line
from turnlog.records.codec import decode
from turnlog.records.damage import Reason
from turnlog.records.lenient_json import walk_object


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4), st.booleans())
def test_a_whole_object_is_walked_to_its_end_and_its_members_found(value, spaced):
    line = to_line(value, spaced=spaced)
    walk = walk_object(line)
    assert walk.whole
    assert walk.end == len(line)
    found = {
        json.loads(line[key:key_end]): json.loads(line[start:end])
        for key, key_end, start, end in walk.members
    }
    assert found == value


@given(good_lines(), st.binary(max_size=20), st.binary(max_size=20))
def test_an_object_ends_where_it_ends_whatever_stands_around_it(line, before, after):
    walk = walk_object(before + line + after, len(before))
    assert walk.whole
    assert walk.end == len(before) + len(line)


@given(st.binary(max_size=60) | spoiled_lines(), st.integers(0, 10))
def test_no_bytes_are_too_strange_to_walk(data, start):
    walk = walk_object(data, start)
    assert 0 <= walk.end <= max(len(data), start)
    assert not (walk.whole and walk.ran_out)


@given(st.data())
def test_an_object_that_was_cut_is_never_whole(data):
    line = data.draw(good_lines())
    cut = line[: data.draw(st.integers(0, len(line) - 1))]
    assert not walk_object(cut).whole


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("spaced", [False, True])
def test_a_record_cut_anywhere_is_a_fragment(dialect, spaced):
    for name, sample in DIALECTS[dialect].items():
        if name == "system/api_error":
            continue  # It holds a fraction, see below.
        line = to_line(sample, spaced=spaced)
        for cut in range(1, len(line)):
            assert decode(line[:cut]).reason is Reason.FRAGMENT, line[:cut]


def test_a_record_cut_inside_a_number_is_a_fragment():
    line = to_line(CLAUDE["system/api_error"] | {"n": 1.5e-200})
    for cut in range(1, len(line)):
        assert decode(line[:cut]).reason is Reason.FRAGMENT, line[:cut]


@pytest.mark.parametrize(
    "hostile",
    [
        b"{" * 1_000_000,
        b'{"a":' * 300_000,
        b'{"' + b"\\" * 2_000_000,
        b'{"a":' + b"9" * 2_000_000,
        b'{"a":[' + b"1," * 1_000_000,
        b" " * 2_000_000,
    ],
    ids=["braces", "nesting", "backslashes", "digits", "items", "blanks"],
)
def test_hostile_bytes_cost_bounded_time(hostile):
    walk = walk_object(hostile)
    assert not walk.whole
