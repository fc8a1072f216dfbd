"""Dates and spans as people say them become instants, or a UsageError that shows the way."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from turnlog.errors import UsageError
from turnlog.records.dates import EXAMPLES, instant, moment

BERLIN = ZoneInfo("Europe/Berlin")
# A Wednesday; in Berlin it is 00:30 on Thursday.
NOW = datetime(2026, 11, 4, 23, 30, 15, tzinfo=UTC)
UNITS = (
    "s", "sec", "seconds", "m", "min", "minutes", "h", "hours", "d", "days", "w", "weeks",
    "mo", "months", "y", "years",
)  # fmt: skip


def read(text, zone=UTC, now=NOW):
    return moment(text, now=now, zone=zone)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "ago"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("90m", timedelta(minutes=90)),
        ("90min", timedelta(minutes=90)),
        ("30s", timedelta(seconds=30)),
        ("4w", timedelta(weeks=4)),
        ("4 w", timedelta(weeks=4)),
        ("  4   W  ", timedelta(weeks=4)),
        ("5 minutes ago", timedelta(minutes=5)),
        ("2 days ago", timedelta(days=2)),
        ("2 Days AGO", timedelta(days=2)),
        ("2d ago", timedelta(days=2)),
        ("1 hour", timedelta(hours=1)),
        ("an hour ago", timedelta(hours=1)),
        ("a week ago", timedelta(weeks=1)),
        ("007d", timedelta(days=7)),
        ("0d", timedelta(0)),
        ("now", timedelta(0)),
        ("٣d", timedelta(days=3)),
    ],
)
def test_a_span_is_that_long_ago_whatever_the_zone(said, ago):
    assert read(said) == read(said, BERLIN) == NOW - ago


@pytest.mark.parametrize(
    ("said", "in_utc", "in_berlin"),
    [
        ("today", utc(2026, 11, 4), utc(2026, 11, 4, 23)),
        ("yesterday", utc(2026, 11, 3), utc(2026, 11, 3, 23)),
        ("wednesday", utc(2026, 11, 4), utc(2026, 11, 3, 23)),
        ("Thursday", utc(2026, 10, 29), utc(2026, 11, 4, 23)),
        ("monday", utc(2026, 11, 2), utc(2026, 11, 1, 23)),
        ("sunday", utc(2026, 11, 1), utc(2026, 10, 31, 23)),
        ("this week", utc(2026, 11, 2), utc(2026, 11, 1, 23)),
        ("last  week", utc(2026, 10, 26), utc(2026, 10, 25, 23)),
        ("this month", utc(2026, 11, 1), utc(2026, 10, 31, 23)),
        ("Last Month", utc(2026, 10, 1), utc(2026, 9, 30, 22)),
        ("this year", utc(2026, 1, 1), utc(2025, 12, 31, 23)),
        ("last year", utc(2025, 1, 1), utc(2024, 12, 31, 23)),
        ("2026-11-01", utc(2026, 11, 1), utc(2026, 10, 31, 23)),
        ("20261101", utc(2026, 11, 1), utc(2026, 10, 31, 23)),
        ("2026-07", utc(2026, 7, 1), utc(2026, 6, 30, 22)),
        ("2026", utc(2026, 1, 1), utc(2025, 12, 31, 23)),
        ("2026-W45", utc(2026, 11, 2), utc(2026, 11, 1, 23)),
        ("2026-11-01T18:00", utc(2026, 11, 1, 18), utc(2026, 11, 1, 17)),
        ("2026-11-01 18:00", utc(2026, 11, 1, 18), utc(2026, 11, 1, 17)),
        ("  2026-11-01   18:00:30 ", utc(2026, 11, 1, 18, 0, 30), utc(2026, 11, 1, 17, 0, 30)),
        ("2026-11-01t18:00z", utc(2026, 11, 1, 18), utc(2026, 11, 1, 18)),
        ("2026-11-01T18:00 Z", utc(2026, 11, 1, 18), utc(2026, 11, 1, 18)),
        ("2026-11-01 18:00 +02:00", utc(2026, 11, 1, 16), utc(2026, 11, 1, 16)),
        ("2026-11-01T18:00:00.250-05:00", *[utc(2026, 11, 1, 23, 0, 0, 250_000)] * 2),
    ],
)
def test_a_day_is_one_of_the_zone(said, in_utc, in_berlin):
    assert read(said) == in_utc
    assert read(said, BERLIN) == in_berlin


@pytest.mark.parametrize(
    ("now", "said", "then"),
    [
        (utc(2026, 3, 31, 12), "1mo", utc(2026, 2, 28, 12)),
        (utc(2028, 3, 31, 12), "1mo", utc(2028, 2, 29, 12)),
        (utc(2026, 3, 31, 12), "3mo", utc(2025, 12, 31, 12)),
        (utc(2026, 1, 15, 12), "1 month ago", utc(2025, 12, 15, 12)),
        (utc(2026, 12, 31, 12), "24mo", utc(2024, 12, 31, 12)),
        (utc(2028, 2, 29, 12), "1y", utc(2027, 2, 28, 12)),
        (utc(2028, 2, 29, 12), "4 years ago", utc(2024, 2, 29, 12)),
        (utc(2026, 1, 5, 12), "last month", utc(2025, 12, 1)),
    ],
)
def test_months_are_counted_on_the_calendar(now, said, then):
    assert read(said, now=now) == then


def test_a_month_ago_it_was_as_late_on_the_clock():
    assert read("1mo", BERLIN, now=utc(2026, 11, 4, 11)) == utc(2026, 10, 4, 10)


@pytest.mark.parametrize(
    ("zone", "day", "begins_at"),
    [
        # The day after the clocks changed, and the day of the change itself.
        ("Europe/Berlin", "2026-10-25", utc(2026, 10, 24, 22)),
        ("Europe/Berlin", "2026-10-26", utc(2026, 10, 25, 23)),
        # No midnight: the clocks went from 24:00 to 01:00.
        ("America/Sao_Paulo", "2018-11-04", utc(2018, 11, 4, 3)),
        # Two midnights: the clocks went from 01:00 back to 00:00.
        ("America/Havana", "2025-11-02", utc(2025, 11, 2, 4)),
        # No such day at all.
        ("Pacific/Apia", "2011-12-30", utc(2011, 12, 30, 10)),
    ],
)
def test_a_day_begins_when_its_zone_says(zone, day, begins_at):
    assert read(day, ZoneInfo(zone)) == begins_at


def test_yesterday_is_a_day_of_the_calendar_and_not_24_hours():
    # The 25th had 25 hours; reckoned back from midnight of the 26th it would begin too late.
    assert read("yesterday", BERLIN, now=utc(2026, 10, 26, 8)) == utc(2026, 10, 24, 22)


@pytest.mark.parametrize(
    "said",
    [
        "", " ", "soon", "tomorrowish", "d", "7", "7x", "-7d", "+7d", "7.5d", "7 d d", "1e3d",
        "d7", "ago", "a", "an", "a ago", "2026-13", "2026-00", "2026-02-30", "0000", "0000-01",
        "2026-1", "202611", "2026-11-01T25:00", "9999-99-99T99:99:99Z", "last", "last fortnight",
        "@1699999999", "999999999w", "999999999y", "999999999mo", "2027y", "24324mo",
        "9" * 5_000 + "d", "9" * 100_000, "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00", "\ud800", "2026-11-01\ud80018:00:", "\0", "7\0d", "²d", "½d",
        "yesterday; drop table",
    ],
)  # fmt: skip
def test_anything_else_is_the_callers_mistake_with_examples(said):
    with pytest.raises(UsageError) as raised:
        read(said)
    assert EXAMPLES in raised.value.hint
    assert len(raised.value.message) < 400


def test_the_ends_of_time_depend_on_the_zone():
    east, west = timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))
    assert read("0001-01-01", west) == utc(1, 1, 1, 12)
    assert read("9999-12-31T23:59", east) == utc(9999, 12, 31, 9, 59)
    assert read("2025y", west).year == 1
    for said, zone in (("0001-01-01", east), ("0001", east), ("9999-12-31T23:59", west)):
        with pytest.raises(UsageError):
            read(said, zone)


def test_every_example_is_understood():
    for said in EXAMPLES.replace(" or ", ", ").split(", "):
        assert read(said) <= NOW


@given(
    st.one_of(
        st.text(max_size=30),
        st.text(st.sampled_from("0123456789-:TWZ+. dhmoywsagn"), max_size=30),
        st.tuples(st.integers(0, 10**12), st.sampled_from(UNITS)).map(lambda it: f"{it[0]}{it[1]}"),
    ),
    st.sampled_from([UTC, BERLIN, ZoneInfo("Pacific/Apia"), timezone(timedelta(hours=-12))]),
    st.datetimes(timezones=st.just(UTC)),
)
@example("1mo", BERLIN, utc(9999, 12, 31, 23, 59))
@example("today", BERLIN, utc(9999, 12, 31, 23, 59))
@example("yesterday", timezone(timedelta(hours=-12)), utc(1, 1, 1))
@example("last month", UTC, utc(1, 1, 1))
@example("now", BERLIN, utc(1, 1, 1))
def test_any_text_is_an_instant_in_utc_or_a_mistake(said, zone, now):
    try:
        at = moment(said, now=now, zone=zone)
    except UsageError:
        return
    assert at.utcoffset() == timedelta(0)
    assert moment(at.isoformat(), now=now, zone=zone) == at


@given(st.integers(0, 99_999), st.sampled_from(["h", "d", "w"]), st.sampled_from(["", " ", "\t "]))
def test_what_the_option_last_takes_means_the_same(count, unit, space):
    name = {"h": "hours", "d": "days", "w": "weeks"}[unit]
    assert read(f"{count}{space}{unit}") == NOW - timedelta(**{name: count})


@given(st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)), st.booleans())  # noqa: DTZ001
def test_what_options_take_as_iso_means_the_same(at, is_basic):
    text = at.strftime("%Y%m%dT%H%M%S").rjust(15, "0") if is_basic else at.isoformat(" ")
    assert read(text) == instant(text)
    local = datetime.fromisoformat(text).replace(tzinfo=BERLIN)
    assert read(text, BERLIN) == local.astimezone(UTC)


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2037, 1, 1)))  # noqa: DTZ001
def test_weekdays_lie_within_the_last_seven_days(naive):
    now = naive.replace(tzinfo=UTC)
    days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    today = now.astimezone(BERLIN).date()
    found = [read(day, BERLIN, now).astimezone(BERLIN) for day in days]
    assert [each.weekday() for each in found] == list(range(7))
    assert {(today - each.date()).days for each in found} == set(range(7))


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import turnlog.records.dates\n"
        "print([m for m in ('zoneinfo', 'calendar', 'msgspec', 'click') if m in sys.modules"
        " and m not in before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
