"""Two periods side by side: the one before is as long, and every row is in the totals."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.test_ledger import NOON, instants, response, responses, scan
from turnlog.catalog.period import Period
from turnlog.costs.comparison import compare, compared_as_lists, with_previous_period
from turnlog.costs.ledger import UNITS, Question, ledger
from turnlog.errors import UsageError
from turnlog.pricing.cost import load_prices
from turnlog.records.dates import TIMES

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(scope="module")
def prices():
    return load_prices()


def day(text, zone=UTC):
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def question(since, until, by=("model",), zone=UTC, **more):
    return Question(by=tuple(by), zone=zone, period=Period(since=since, until=until, **more))


def before(since, until, zone=UTC, now=NOON):
    period = with_previous_period(question(since, until, zone=zone), now)[1].period
    return period.since, period.until


def compared(found, prices, asked, now=NOON):
    both = with_previous_period(asked, now)
    return compare(ledger(found, prices, both[0]), both[0], ledger(found, prices, both[1]), both[1])


@pytest.mark.parametrize(
    ("since", "until", "earlier"),
    [
        ("2026-11-01", "2026-12-01", "2026-10-01"),
        ("2026-03-01", "2026-04-01", "2026-02-01"),
        ("2026-01-01", "2026-04-01", "2025-10-01"),
        ("2026-01-01", "2027-01-01", "2025-01-01"),
        ("2026-11-02", "2026-11-09", "2026-10-26"),
        ("2026-11-02", "2026-11-03", "2026-11-01"),
        ("2026-11-15", "2026-12-15", "2026-10-16"),
        ("2026-11-02T06:00", "2026-11-02T09:30", "2026-11-02T02:30"),
    ],
)
@pytest.mark.parametrize("zone", [UTC, BERLIN])
def test_the_period_before_is_of_the_same_calendar(since, until, earlier, zone):
    begins = day(since, zone)
    assert before(begins, day(until, zone), zone) == (day(earlier, zone), begins)


def test_days_are_days_however_long_the_clocks_made_them():
    # The day on which the clocks go back has 25 hours, the one before it 24.
    since, until = day("2026-10-25", BERLIN), day("2026-10-26", BERLIN)
    assert until - since == timedelta(hours=25)
    assert before(since, until, BERLIN) == (day("2026-10-24", BERLIN), since)


def test_a_period_without_an_end_ends_now():
    since = NOON - timedelta(days=7)
    now, earlier = with_previous_period(question(since, None), NOON)
    assert (now.period.since, now.period.until) == (since, NOON)
    assert (earlier.period.since, earlier.period.until) == (since - timedelta(days=7), since)


@given(instants, st.integers(1, 10**8).map(lambda seconds: timedelta(seconds=seconds)))
def test_the_two_touch_and_any_other_period_has_the_same_length(since, length):
    begins, ends = before(since, since + length)
    assert ends == since
    if since.time() != since.time().min:
        assert ends - begins == length


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (question(None, NOON), "the start of a period"),
        (question(NOON, NOON), "ends before"),
        (question(NOON, NOON - timedelta(days=1)), "ends before"),
        (question(NOON, None, by=("week", "day")), "several units of time"),
        (question(datetime(2, 1, 1, tzinfo=UTC), NOON), "before the year 1"),
        (question(datetime(2, 1, 1, 0, 1, tzinfo=UTC), NOON), "before the year 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_hint(asked, why):
    with pytest.raises(UsageError, match=why) as told:
        with_previous_period(asked, NOON)
    assert told.value.hint


@given(
    st.lists(responses, max_size=12),
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=3, unique=True).filter(
        lambda by: sum(unit in TIMES for unit in by) <= 1
    ),
    st.tuples(instants, st.integers(1, 40 * 86_400)),
    st.sampled_from(["UTC", "America/St_Johns", "Europe/Berlin"]).map(ZoneInfo),
)
def test_both_columns_add_up_to_what_each_period_cost(prices, found, by, period, zone):
    since, seconds = period
    asked = question(since, since + timedelta(seconds=seconds), by, zone)
    both = with_previous_period(asked, NOON)
    books = [ledger(scan(*found), prices, each) for each in both]
    told = compare(books[0], both[0], books[1], both[1])
    for name, of_before in [("cost_usd", "before_usd"), ("messages", "before_messages")]:
        for column, one in zip((name, of_before), books, strict=True):
            values = [Decimal(getattr(row, column)) for row in told.rows]
            assert sum(values) == Decimal(getattr(one.totals, name))
            assert Decimal(getattr(told.totals, column)) == Decimal(getattr(one.totals, name))
    for row in (*told.rows, told.totals):
        change = Decimal(row.cost_usd) - Decimal(row.before_usd)
        assert Decimal(row.difference_usd) == change
        assert (row.percent is None) == (Decimal(row.before_usd) == 0)
    assert len(compared_as_lists(told, by)) == len(told.rows) + 2


def test_rows_are_matched_by_name(prices):
    week = timedelta(days=7)
    found = scan(
        response(NOON, project="/srv/kites", input=50_000),
        response(NOON - week, project="/srv/kites", input=150_000),
        response(NOON - week, project="/srv/gone"),
        response(NOON, project="/srv/new"),
        response(NOON, project=None),
    )
    asked = question(day("2026-03-02"), day("2026-03-09"), ("project",))
    told = {row.project: row for row in compared(found, prices, asked).rows}
    kites = told["/srv/kites"]
    assert (kites.before_usd, kites.cost_usd, kites.difference_usd) == ("0.45", "0.15", "-0.3")
    assert kites.percent == -66.7
    assert (told["/srv/gone"].cost_usd, told["/srv/gone"].percent) == ("0", -100.0)
    assert (told["/srv/new"].before_usd, told["/srv/new"].percent) == ("0", None)
    assert told[None].messages == 1


def test_times_are_matched_by_their_place(prices):
    found = scan(
        response(day("2026-02-03T10:00")),
        response(day("2026-03-03T10:00"), input=200_000),
        response(day("2026-03-31T10:00")),
    )
    asked = question(day("2026-03-01"), day("2026-04-01"), ("day",))
    told = [
        (row.day, row.compared_with, row.before_usd, row.cost_usd)
        for row in compared(found, prices, asked).rows
    ]
    # February has no 31st day.
    assert told == [
        ("2026-03-03", "2026-02-03", "0.3", "0.6"),
        ("2026-03-31", None, "0", "0.3"),
    ]
    asked = question(day("2026-02-01"), day("2026-03-01"), ("day",))
    found = scan(response(day("2026-01-31T10:00")))
    (row,) = compared(found, prices, asked).rows
    assert (row.day, row.compared_with, row.percent) == (None, "2026-01-31", -100.0)


def test_what_has_no_price_in_either_period_is_listed_once(prices):
    found = scan(
        response(NOON, model="nobody-1", output=7),
        response(NOON - timedelta(days=7), model="nobody-1", output=5),
    )
    asked = question(day("2026-03-02"), day("2026-03-09"))
    (row,) = compared(found, prices, asked).skipped.unpriced
    assert (row.model, row.messages, row.tokens) == ("nobody-1", 2, 12)
