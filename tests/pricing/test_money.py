"""Money is exact, and rounded once."""

from __future__ import annotations

from decimal import Decimal, getcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.pricing.money import (
    attodollars,
    dollars,
    price_per_million,
    price_per_thousand,
    rate_per_search,
    rate_per_token,
    shown,
    total_usd,
    written,
)


@given(st.integers(0, 10**60))
def test_attodollars_and_back(atto):
    assert attodollars(dollars(atto)) == atto


@given(st.integers(0, 10**12))
def test_a_price_of_six_decimals_is_exact(millionths):
    price = Decimal(millionths).scaleb(-6)
    assert price_per_million(rate_per_token(price)) == price
    assert price_per_thousand(rate_per_search(price)) == price


def test_noise_of_floating_point_is_left_out():
    assert price_per_million(rate_per_token(Decimal("0.09999999999999999"))) == Decimal("0.1")


@given(
    st.lists(st.integers(0, 10**40).map(dollars), max_size=20), st.randoms(use_true_random=False)
)
def test_adding_up_is_exact_in_any_order(costs, chance):
    total = total_usd(costs)
    chance.shuffle(costs)
    assert total_usd(costs) == total
    middle = len(costs) // 2
    assert total_usd([total_usd(costs[:middle]), total_usd(costs[middle:])]) == total


def test_a_thousand_small_costs_do_not_vanish():
    assert total_usd([Decimal("0.00429")] * 1000) == Decimal("4.29")


def test_the_callers_decimal_context_is_of_no_consequence():
    context = getcontext()
    precision, context.prec = context.prec, 3
    try:
        assert written(dollars(123456789_123456789_123456789)) == "123456789.123456789123456789"
        assert shown(Decimal("1234567.895")) == "$1,234,567.90"
    finally:
        context.prec = precision


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        ("0.10725", "$0.11"),
        ("0.105", "$0.11"),
        ("0.115", "$0.12"),
        ("0.1049999", "$0.10"),
        ("0", "$0.00"),
        ("0.001", "$0.00"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_shown_to_the_cent_half_up(usd, text):
    assert shown(Decimal(usd)) == text


def test_written_in_full_without_exponents():
    assert written(dollars(1)) == "0.000000000000000001"
    assert written(dollars(100 * 10**18)) == "100"
    assert written(dollars(0)) == "0"
