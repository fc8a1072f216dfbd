"""Five-hour blocks: where they begin and end, and where the active one leads."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from questions.test_ledger import response, scan
from turnlog.prices.cost import load_prices
from turnlog.questions.blocks import LENGTH, blocks

MORNING = datetime(2026, 3, 4, 8, 20, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def prices():
    return load_prices()


def after(**time):
    return response(MORNING + timedelta(**time))


def starts(found):
    return [f"{row.start_at:%d %H:%M}" for row in found.rows]


def test_a_block_begins_at_the_full_hour_and_lasts_five(prices):
    found = blocks(scan(after(), after(hours=4, minutes=39)), prices, now=LATER)
    (row,) = found.rows
    assert (row.start_at.hour, row.end_at - row.start_at) == (8, LENGTH)
    assert (row.messages, row.is_active, row.projected_usd) == (2, False, None)


def test_what_comes_after_its_end_begins_the_next(prices):
    found = blocks(scan(after(), after(hours=4, minutes=40)), prices, now=LATER)
    assert starts(found) == ["04 08:00", "04 13:00"]


def test_the_order_in_which_logs_are_read_does_not_matter(prices):
    times = [after(hours=hours) for hours in (0, 1, 6, 7, 30)]
    one = blocks(scan(*times), prices, now=LATER)
    two = blocks(scan(*reversed(times)), prices, now=LATER)
    assert starts(one) == starts(two) == ["04 08:00", "04 14:00", "05 14:00"]


def test_the_active_block_tells_its_pace(prices):
    now = MORNING + timedelta(hours=1)
    found = blocks(scan(after(), after(minutes=30)), prices, now=now)
    (row,) = found.rows
    assert row.is_active
    assert row.cost_usd == "0.6"
    assert row.usd_per_hour == "0.60"
    assert row.left_min == 220
    assert row.projected_usd == "2.80"
    assert row.tokens_per_min == 200_000 // 60


def test_a_block_that_is_over_is_not_active(prices):
    for now in (MORNING + timedelta(hours=4, minutes=40), MORNING - timedelta(hours=1)):
        assert not blocks(scan(after()), prices, now=now).rows[0].is_active


def test_what_has_no_date_is_in_no_block_and_is_told(prices):
    found = blocks(scan(response(None), after()), prices, now=LATER)
    assert (found.totals.messages, found.skipped.undated) == (1, 1)


def test_the_ends_of_the_calendar(prices):
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    assert len(blocks(scan(*map(response, ends)), prices, now=LATER).rows) == 2


@given(st.lists(st.integers(0, 10**6), max_size=20))
def test_every_response_is_in_one_block_and_the_costs_add_up(prices, seconds):
    found = blocks(scan(*(after(seconds=each) for each in seconds)), prices, now=LATER)
    assert sum(row.messages for row in found.rows) == len(seconds)
    assert sum(Decimal(row.cost_usd) for row in found.rows) == Decimal(found.totals.cost_usd)
    for before, row in zip(found.rows, found.rows[1:], strict=False):
        assert row.first_at >= before.end_at or row.first_at - before.last_at >= LENGTH
    assert all(row.start_at <= row.first_at <= row.last_at < row.end_at for row in found.rows)
