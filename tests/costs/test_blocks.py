"""Five-hour blocks: where they begin and end, and where the active one leads."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.test_ledger import response, scan
from turnlog.catalog.period import Period
from turnlog.costs.blocks import LENGTH, active_block, blocks, responses_about
from turnlog.pricing.cost import load_prices

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


class Told:
    """A source that gives just what it is asked for, and remembers what that was."""

    def __init__(self, *responses):
        self._all, self.asked = responses, []

    def responses(self, period):
        self.asked.append(period)
        return scan(*(each for each in self._all if period.holds(each)))


def of_every_half_hour(hours):
    return [after(minutes=30 * number) for number in range(hours * 2)]


@pytest.mark.parametrize("ago", [1, 6, 24, 30])
def test_a_block_begins_where_it_does_whatever_time_is_asked_for(prices, ago):
    source, now = Told(*of_every_half_hour(31)), MORNING + timedelta(hours=31)
    whole = blocks(source.responses(Period()), prices, now=now).rows
    period = Period(since=now - timedelta(hours=ago))
    found = blocks(responses_about(source, period), prices, now=now, period=period).rows
    assert found == [row for row in whole if row.last_at >= period.since]
    assert active_block(source, prices, now=now)[0] == whole[-1]


def test_a_block_that_reaches_out_of_the_time_asked_for_is_told_whole(prices):
    source = Told(*of_every_half_hour(12))
    whole = blocks(source.responses(Period()), prices, now=LATER).rows
    period = Period(since=whole[1].first_at, until=whole[1].first_at + timedelta(minutes=1))
    found = blocks(responses_about(source, period), prices, now=LATER, period=period)
    assert found.rows == [whole[1]]


def test_of_a_project_only_its_own_part_of_each_block_is_told(prices):
    model = "claude-haiku-4-5"
    elsewhere = response(MORNING + timedelta(hours=1), project="/srv/mill", model=model)
    source, period = Told(after(), elsewhere, after(hours=9)), Period(project="/srv/mill")
    (row,) = blocks(responses_about(source, period), prices, now=LATER, period=period).rows
    assert (row.start_at.hour, row.messages, row.first_at) == (8, 1, MORNING)
    assert row.models == [model]


def test_no_more_is_read_than_it_takes_to_find_a_pause(prices):
    source = Told(after(days=-300), after(), after(hours=1))
    responses_about(source, Period(since=MORNING + timedelta(hours=1)))
    assert len(source.asked) == 1
    busy = Told(*(after(hours=4 * number) for number in range(24)))  # Four days without a pause.
    responses_about(busy, Period(since=MORNING + timedelta(days=3, hours=23)))
    assert len(busy.asked) == 2
