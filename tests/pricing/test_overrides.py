"""The user's own prices: each whole or not at all, and the last word."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values
from turnlog.pricing.cost import Prices
from turnlog.pricing.money import Unpriced
from turnlog.pricing.overrides import overrides_from

MILLION = {"input_tokens": 1_000_000}
WINTER, SUMMER = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 7))


def set_by(toml, prices):
    found, problems = overrides_from(tomllib.loads(toml).get("prices", {}))
    assert problems == ()
    return Prices(prices.table, found)


def test_a_price_of_ones_own(prices):
    own = set_by(
        """
        [prices."kite-1"]
        input = 2.5
        output = "10"
        cache_read = 0.125
        web_search = 5
        """,
        prices,
    )
    assert own.cost(MILLION, "kite-1") == Decimal("2.5")
    assert own.cost(MILLION, "Kite-1") == Decimal("2.5")
    assert own.cost({"cache_read_input_tokens": 1_000_000}, "kite-1") == Decimal("0.125")
    assert own.cost({"server_tool_use": {"web_search_requests": 1000}}, "kite-1") == 5
    hour = {"cache_creation": {"ephemeral_1h_input_tokens": 1_000_000}}
    assert own.cost(hour, "kite-1") == 5  # Twice the input, where nothing is said.
    assert own.find("kite-1").source == "override"
    assert isinstance(own.cost(MILLION, "kite-2"), Unpriced)


def test_an_override_holds_from_day_to_day_and_the_last_one_counts(prices):
    own = set_by(
        """
        [[prices."claude-opus-4-6"]]
        input = 4
        output = 20

        [[prices."claude-opus-4-6"]]
        input = 1
        output = 5
        since = 2026-06-01
        until = "2026-08-01"
        """,
        prices,
    )
    days = [
        (datetime(2026, 5, 31, 23, 59, tzinfo=UTC), 4),
        (SUMMER, 1),
        (datetime(2026, 8, 1, tzinfo=UTC), 4),
    ]
    for at, price in days:
        assert own.cost(MILLION, "claude-opus-4-6", at=at) == price
    assert [price.source for price in own.history("claude-opus-4-6")][-2:] == ["override"] * 2


def test_outside_its_days_an_override_says_nothing(prices):
    own = set_by('[prices."claude-opus-4-5"]\ninput = 1\noutput = 1\nsince = 2026-06-01', prices)
    assert own.cost(MILLION, "claude-opus-4-5", at=WINTER) == 5


def test_terms_apply_to_ones_own_price_of_a_known_model(prices):
    own = set_by('[prices."claude-opus-4-6"]\ninput = 1\noutput = 1', prices)
    assert own.cost(MILLION | {"speed": "fast"}, "claude-opus-4-6") == 6
    assert own.cost(MILLION | {"service_tier": "batch"}, "claude-opus-4-6") == Decimal("0.5")


def test_a_model_like_another(prices):
    own = set_by('[prices."gateway"]\nlike = "claude-sonnet-4-6"', prices)
    short = {"input_tokens": 1_000}
    assert own.cost(short, "gateway") == own.cost(short, "claude-sonnet-4-6")
    chain = set_by(
        '[prices."one"]\nlike = "two"\n[prices."two"]\nlike = "claude-haiku-4-5"', prices
    )
    assert chain.cost(short, "one") == prices.cost(short, "claude-haiku-4-5")
    circle = set_by('[prices."one"]\nlike = "two"\n[prices."two"]\nlike = "one"', prices)
    assert isinstance(circle.cost(short, "one"), Unpriced)
    nobody = set_by('[prices."one"]\nlike = "nobody-5"', prices)
    assert isinstance(nobody.cost(short, "one"), Unpriced)


def test_a_long_context_of_ones_own(prices):
    own = set_by(
        """
        [prices."kite-1"]
        input = 1
        output = 2
        long_context = {above = 1000, input = 3, output = 4}
        """,
        prices,
    )
    assert own.cost({"input_tokens": 1000}, "kite-1") == Decimal("0.001")
    assert own.cost({"input_tokens": 1001}, "kite-1") == Decimal("0.003003")


@pytest.mark.parametrize(
    "broken",
    [
        "3",
        3.0,
        {},
        {"input": 3},
        {"input": "three", "output": 1},
        {"input": -3, "output": 1},
        {"input": True, "output": 1},
        {"input": float("nan"), "output": 1},
        {"input": float("inf"), "output": 1},
        {"input": "NaN", "output": 1},
        {"input": 10**9, "output": 1},
        {"input": "0.1234567", "output": 1},
        {"input": 1, "output": 1, "inptu": 3},
        {"input": 1, "output": 1, "since": "soon"},
        {"input": 1, "output": 1, "since": 5},
        {"input": 1, "output": 1, "since": datetime(2026, 1, 1, tzinfo=UTC)},
        {"input": 1, "output": 1, "since": date(2026, 2, 1), "until": date(2026, 1, 1)},
        {"input": 1, "output": 1, "long_context": 200_000},
        {"input": 1, "output": 1, "long_context": {"above": -1, "input": 1, "output": 1}},
        {"input": 1, "output": 1, "long_context": {"above": 9, "input": 1}},
        {"like": ""},
        {"like": 4},
        {"like": "kite-2", "input": 3},
    ],
)
def test_a_broken_price_is_reported_and_changes_nothing(prices, broken):
    good = {"input": 1, "output": 2}
    found, problems = overrides_from({"kite-1": broken, "kite-2": good, "kite-3": [good, broken]})
    assert [override.model for override in found] == ["kite-2", "kite-3"]
    assert [each.where for each in problems] == ["prices.kite-1", "prices.kite-3[1]"]
    assert all(problem.reason for problem in problems)
    own = Prices(prices.table, found)
    assert isinstance(own.cost(MILLION, "kite-1"), Unpriced)
    assert own.cost(MILLION, "kite-2") == 1


def test_a_model_cannot_be_like_itself():
    assert overrides_from({"kite-1": {"like": "kite-1"}})[0] == ()


@given(
    st.dictionaries(
        st.text(max_size=5), json_values | st.lists(json_values, max_size=2), max_size=3
    )
)
def test_any_settings_give_prices_or_problems(settings):
    found, problems = overrides_from(settings)
    told = sum(len(value) if isinstance(value, list) else 1 for value in settings.values())
    assert len(found) + len(problems) == told
