"""What is believed of a usage object: one rule, for every number anyone may have written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.answers import usage
from strategies import json_values
from turnlog.records.usage import MAX_COUNT, CacheWrites, Counters, Usage, count_of, counters_of


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        (0, 0),
        (7, 7),
        (MAX_COUNT, MAX_COUNT),
        (None, 0),
        (10.0, 10),
        (10.9, 10),
        (-0.5, 0),
        ("10", 10),
        (" 10 ", 10),
    ],
)
def test_what_counts(written, counted):
    assert count_of(written) == counted


@pytest.mark.parametrize(
    "written",
    [
        -1,
        -1.5,
        MAX_COUNT + 1,
        10**400,
        1e300,
        math.inf,
        math.nan,
        "ten",
        "-3",
        "",
        "9" * 5_000,
        "٣",  # A digit, but nobody's counter.
        True,
        [],
        {"n": 1},
    ],
)
def test_what_is_odd(written):
    assert count_of(written) is None
    counters, odd = counters_of(usage(written))
    assert odd == ("output_tokens",)
    assert counters.output == 0
    assert counters.cache_read == 5000  # Its neighbours count all the same.


@pytest.mark.parametrize(
    ("scalar", "apart", "five_minutes", "one_hour"),
    [
        (300, {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}, 100, 200),
        (300, {}, 300, 0),
        (300, None, 300, 0),
        (300, {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, 300, 0),
        (300, {"ephemeral_1h_input_tokens": 200}, 100, 200),
        (0, {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}, 100, 200),
        (None, {"ephemeral_1h_input_tokens": 200}, 0, 200),
        (300, "lots", 300, 0),
    ],
)
def test_a_breakdown_of_cache_writes_never_hides_any(scalar, apart, five_minutes, one_hour):
    said = {"cache_creation_input_tokens": scalar, "cache_creation": apart}
    counters, _ = counters_of(said)
    assert (counters.cache_write_5m, counters.cache_write_1h) == (five_minutes, one_hour)
    assert counters.total == five_minutes + one_hour
    if isinstance(apart, dict) and scalar is not None:
        writes = CacheWrites(
            apart.get("ephemeral_5m_input_tokens", 0), apart.get("ephemeral_1h_input_tokens", 0)
        )
        typed = Usage(cache_write=scalar, cache_writes=writes)
        assert (typed.cache_write_5m, typed.cache_write_1h) == (five_minutes, one_hour)
        assert typed.total == counters.total


def test_other_dialects_names_mean_the_same():
    spoken = counters_of({"input_tokens": 1, "cache_creation_tokens": 2, "cache_read_tokens": 3})
    camel = counters_of({"inputTokens": 1, "cacheCreationTokens": 2, "cacheReadTokens": 3})
    assert spoken == camel == (Counters(input=1, cache_write_5m=2, cache_read=3), ())


def test_what_the_newest_usage_object_adds_is_kept_and_enters_no_total():
    said = usage(
        server_tool_use={"web_search_requests": 2, "code_execution_requests": 4},
        output_tokens_details={"thinking_tokens": 9},
        dream_tokens=11,
        mood="calm",
    )
    counters, odd = counters_of(said)
    assert odd == ()
    assert counters.web_searches == 2
    assert counters.others == {
        "server_tool_use.code_execution_requests": 4,
        "output_tokens_details.thinking_tokens": 9,
        "dream_tokens": 11,
    }
    assert counters.total == counters_of(usage())[0].total


def test_efficiency_is_the_part_that_was_read_from_the_cache():
    assert (
        Counters(input=10, cache_write_5m=20, cache_write_1h=30, cache_read=40).cache_efficiency
        == 0.4
    )
    assert Counters(output=5).cache_efficiency is None


@given(
    st.lists(
        st.builds(
            Counters,
            *[st.integers(0, 50)] * 6,
            st.dictionaries(st.sampled_from("ab"), st.integers(1, 9)),
        )
    )
)
def test_what_was_added_can_be_taken_away(several):
    total = Counters()
    for each in several:
        total.add(each)
    assert total.total == sum(each.total for each in several)
    for each in several:
        total.add(each, -1)
    assert total == Counters()


@given(st.dictionaries(st.sampled_from([*usage(), "server_tool_use", "new"]), json_values))
def test_any_usage_object_gives_counters_within_bounds(said):
    counters, _ = counters_of(said)
    figures = [getattr(counters, name) for name in counters.__struct_fields__[:-1]]
    assert all(isinstance(figure, int) and 0 <= figure <= MAX_COUNT for figure in figures)
    assert all(0 < count <= MAX_COUNT for count in counters.others.values())
