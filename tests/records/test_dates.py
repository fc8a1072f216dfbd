"""ISO text and epoch numbers become aware UTC datetimes; what is no instant becomes None."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.records.dates import instant, iso

NOON = datetime(2026, 3, 4, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-04T12:00:00.250Z",
        "2026-03-04T12:00:00.250000Z",
        "2026-03-04T12:00:00.25+00:00",
        "2026-03-04T14:00:00.250+02:00",
        "2026-03-04T12:00:00.250",
        "2026-03-04 12:00:00.250Z",
        1772625600250,
        1772625600250.0,
        1772625600.25,
    ],
)
def test_an_instant_is_the_same_however_it_is_written(written):
    assert instant(written) == NOON
    assert instant(written).utcoffset() == timedelta(0)


def test_a_small_number_is_seconds_and_a_large_one_milliseconds():
    assert instant(1_703_001_600) == instant(1_703_001_600_000)


@pytest.mark.parametrize(
    "written",
    [
        None, "", "yesterday", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00+23:00", "\ud800",
        True, False, [], {}, float("nan"), float("inf"), 10**30, -(10**30), 1e300,
    ],
)  # fmt: skip
def test_what_is_no_instant_is_none(written):
    assert instant(written) is None


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2)))  # noqa: DTZ001
def test_what_iso_writes_instant_reads_to_the_millisecond(at):
    text = iso(at)
    assert text.endswith("Z")
    assert len(text) == len("2026-03-04T12:00:00.250Z")
    assert instant(text) == at.replace(microsecond=at.microsecond // 1000 * 1000)


def test_iso_writes_utc_whatever_the_zone():
    there = NOON.astimezone(timezone(timedelta(hours=-5)))
    assert iso(there) == "2026-03-04T12:00:00.250Z"


@given(st.integers() | st.floats() | st.text())
def test_no_number_and_no_text_is_too_strange(value):
    found = instant(value)
    assert found is None or found.utcoffset() == timedelta(0)
