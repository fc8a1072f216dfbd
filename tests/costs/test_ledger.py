"""The ledger: one engine, so that whatever is grouped adds up to the same total."""

import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.catalog.period import Period
from turnlog.costs import ledger as engine
from turnlog.costs.explanation import explain
from turnlog.costs.ledger import UNITS, Question, add_trends, rows_as_lists
from turnlog.costs.usage import TracedResponse, UsageScan
from turnlog.errors import UsageError
from turnlog.pricing.cost import load_prices
from turnlog.records.dates import TIMES, LocalTimes, MachineZone
from turnlog.records.responses import Response
from turnlog.records.usage import Counters

MODEL = "claude-sonnet-4-5-20250929"
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def prices():
    return load_prices()


def response(at=NOON, *, kind=Response, model=MODEL, session="s1", **more):
    project = more.pop("project", "/srv/kites")
    subagent = more.pop("subagent", None)
    known = {name: more.pop(name) for name in ("branch", "tools") if name in more}
    return kind(
        message_id="m",
        request_id=None,
        part="",
        session=session,
        subagent=subagent,
        is_sidechain=subagent is not None,
        at=at,
        model=model,
        counters=Counters(**(more or {"input": 100_000})),
        speed=None,
        service_tier=None,
        inference_geo=None,
        recorded_usd=None,
        cwd=project,
        project=project,
        log="x",
        offset=0,
        **known,
    )


traced = partial(response, kind=TracedResponse)


def scan(*responses, **more):
    given = {
        "skipped": [],
        "logs": 1,
        "size_bytes": 1,
        "entries": len(responses),
        "duplicates": 0,
        "undated": sum(each.at is None for each in responses),
        "synthetic": 0,
        "pending": 0,
    }
    return UsageScan(responses=list(responses), **(given | more))


def ledger(found, prices, by, **more):
    return engine.ledger(found, prices, Question(by=tuple(by), **more))


def names(found, unit):
    return [getattr(row, unit) for row in found.rows]


instants = st.integers(-40_000_000, 20_000_000).map(lambda s: NOON + timedelta(seconds=s))
responses = st.builds(
    traced,
    st.none() | instants,
    model=st.sampled_from([MODEL, "claude-opus-4-1-20250805", "nobody-1", None]),
    session=st.sampled_from(["s1", "s2", None]),
    subagent=st.sampled_from(["a1", None]),
    project=st.sampled_from(["/srv/kites", "/srv/kites/tail", None]),
    branch=st.sampled_from(["main", "tail", None]),
    tools=st.sampled_from(["Bash", "Bash+Read", None]),
    input=st.integers(0, 10**7),
    output=st.integers(0, 10**6),
    cache_write_5m=st.integers(0, 10**6),
    cache_write_1h=st.integers(0, 10**6),
    cache_read=st.integers(0, 10**8),
)


@given(
    st.lists(responses, max_size=12),
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=4, unique=True),
    st.sampled_from(["UTC", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin"]),
)
def test_the_rows_of_any_grouping_add_up_to_the_total(prices, found, by, zone):
    book = ledger(scan(*found), prices, by, zone=ZoneInfo(zone))
    for name in ("messages", "input", "output", "cache_write_5m", "cache_write_1h", "cache_read"):
        assert sum(getattr(row, name) for row in book.rows) == getattr(book.totals, name)
    assert sum(Decimal(row.cost_usd) for row in book.rows) == Decimal(book.totals.cost_usd)
    whole = ledger(scan(*found), prices, ("model",), zone=UTC)
    assert whole.totals == book.totals
    keys = [tuple(getattr(row, unit) for unit in by) for row in book.rows]
    assert len(set(keys)) == len(keys)


def test_a_day_is_one_of_the_time_zone(prices):
    late = response(datetime(2026, 3, 4, 23, 30, tzinfo=UTC))
    for zone, day in [("UTC", "2026-03-04"), ("Europe/Berlin", "2026-03-05")]:
        assert names(ledger(scan(late), prices, ("day",), zone=ZoneInfo(zone)), "day") == [day]


def test_the_hour_that_comes_twice_is_told_as_the_clock_told_it(prices):
    before = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    both = [response(before), response(before + timedelta(hours=1))]
    book = ledger(scan(*both), prices, ("hour",), zone=ZoneInfo("Europe/Berlin"))
    assert names(book, "hour") == ["2026-10-25 02:00"]
    assert book.rows[0].messages == 2


def test_a_week_is_named_by_its_first_day(prices):
    sunday = response(datetime(2026, 3, 8, 12, tzinfo=UTC))
    for starts, first in [(0, "2026-03-02"), (6, "2026-03-08")]:
        book = ledger(scan(sunday), prices, ("week",), zone=UTC, week_starts=starts)
        assert names(book, "week") == [first]


def test_a_period_is_half_open(prices):
    found = scan(response(NOON), response(NOON + timedelta(hours=1)), response(None))
    period = Period(since=NOON, until=NOON + timedelta(hours=1))
    book = ledger(found, prices, ("day",), zone=UTC, period=period)
    assert book.totals.messages == 1
    assert book.skipped.undated == 1
    assert ledger(found, prices, ("day",), zone=UTC).totals.messages == 3


def test_only_what_is_asked_for(prices):
    found = scan(
        response(project="/srv/kites/tail"),
        response(project="/srv/kitesurf", model="claude-opus-4-1-20250805", session="s2"),
    )
    for period in (Period(project="/srv/kites"), Period(model="SONNET"), Period(session="s1")):
        book = ledger(found, prices, ("project",), zone=UTC, period=period)
        assert names(book, "project") == ["/srv/kites/tail"]


def test_rows_come_in_the_order_of_time_and_then_the_dearest_first(prices):
    found = scan(
        response(NOON + timedelta(days=1)),
        response(NOON, model="claude-opus-4-1-20250805"),
        response(NOON),
    )
    book = ledger(found, prices, ("day", "model"), zone=UTC)
    assert [(row.day, row.model) for row in book.rows] == [
        ("2026-03-04", "claude-opus-4-1-20250805"),
        ("2026-03-04", MODEL),
        ("2026-03-05", MODEL),
    ]


def test_what_has_no_price_is_counted_and_listed_and_costs_nothing(prices):
    book = ledger(scan(response(model="nobody-1", output=7)), prices, ("model",), zone=UTC)
    assert (book.totals.cost_usd, book.totals.output) == ("0", 7)
    (row,) = book.skipped.unpriced
    assert (row.model, row.messages, row.tokens) == ("nobody-1", 1, 7)


def test_the_ends_of_the_calendar(prices):
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    for zone in (timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
        for unit in ("hour", "day", "week", "month"):
            book = ledger(scan(*map(response, ends)), prices, (unit,), zone=zone)
            assert book.totals.messages == 2


def test_plain_rows_end_in_the_total(prices):
    book = ledger(scan(response()), prices, ("day", "model"), zone=UTC)
    heads, row, total = rows_as_lists(book, ("day", "model"))
    assert heads[:3] == ["day", "model", "messages"]
    assert row[:3] == ["2026-03-04", MODEL, "1"]
    assert (total[0], total[-1], row[-1]) == ("total", "0.3", "0.3")


def test_a_figure_is_explained_by_the_responses_behind_it(prices):
    found = scan(
        response(output=5),
        response(output=7, model="nobody-1"),
        response(NOON + timedelta(days=1)),
    )
    asked = Question(by=("day",), zone=UTC)
    told = explain(found, prices, asked, "2026-03-04")
    assert [(row.output, row.unpriced is None) for row in told.rows] == [(5, True), (7, False)]
    row = engine.ledger(found, prices, asked).rows[0]
    assert (told.totals.cost_usd, told.totals.output) == (row.cost_usd, row.output)
    assert explain(found, prices, asked, "2026-03-05").totals.messages == 1
    for name in ("2026-03-0", "1999", ""):
        with pytest.raises(UsageError, match="row"):
            explain(found, prices, asked, name)


def test_branches_and_tools_are_told_of_what_was_traced_only(prices):
    found = scan(traced(branch="main", tools="Bash+Read"), traced(branch="main"), response())
    book = ledger(found, prices, ("branch", "tool"), zone=UTC)
    assert {(row.branch, row.tool) for row in book.rows} == {
        ("main", "Bash+Read"),
        ("main", None),
        (None, None),
    }


def test_cache_efficiency_is_null_only_where_nothing_was_read(prices):
    found = scan(
        response(session="a", input=1, cache_write_5m=1, cache_write_1h=1, cache_read=5),
        response(session="b", input=5),
        response(session="c", output=5),
    )
    book = ledger(found, prices, ("session",), zone=UTC)
    told = {row.session: row.cache_efficiency for row in book.rows}
    assert told == {"a": 0.625, "b": 0.0, "c": None}
    assert book.totals.cache_efficiency == round(5 / 13, 4)


@given(
    st.lists(responses, max_size=12),
    st.lists(
        st.sampled_from([unit for unit in UNITS if unit not in TIMES]), min_size=1, max_size=3
    ),
    st.sampled_from(["UTC", "America/St_Johns", "Europe/Berlin"]),
)
def test_the_steps_of_a_trend_add_up_to_the_cost_of_what_has_a_date(prices, found, by, zone):
    by = list(dict.fromkeys(by))
    asked = Question(by=tuple(by), zone=ZoneInfo(zone))
    book = engine.ledger(scan(*found), prices, asked)
    add_trends(book, scan(*found), prices, asked, now=NOON)
    dated = engine.ledger(scan(*(each for each in found if each.at)), prices, asked)
    costs = {tuple(getattr(row, unit) for unit in by): row.cost_usd for row in dated.rows}
    for row in book.rows:
        assert len(row.trend) == len(book.steps)
        key = tuple(getattr(row, unit) for unit in by)
        assert sum(map(Decimal, row.trend)) == Decimal(costs.get(key, 0))
    assert sorted(set(book.steps)) == book.steps


def test_a_trend_spans_the_period_by_the_hour_the_day_or_the_month(prices):
    found = scan(response(NOON), response(NOON + timedelta(hours=1)))
    for days, unit, count in [(2, "hour", 49), (5, "day", 6), (400, "month", 15)]:
        period = Period(since=NOON - timedelta(days=days, minutes=-61))
        asked = Question(by=("model",), zone=UTC, period=period)
        book = engine.ledger(found, prices, asked)
        add_trends(book, found, prices, asked, now=NOON + timedelta(minutes=61))
        assert len(book.steps) == count
        assert book.steps[-1] == LocalTimes(UTC).name(unit, NOON + timedelta(hours=1))


def test_what_has_no_trend_is_refused(prices):
    asked = Question(by=("day", "model"), zone=UTC)
    book = engine.ledger(scan(), prices, asked)
    with pytest.raises(UsageError, match="a trend already"):
        add_trends(book, scan(), prices, asked, now=NOON)
    far = scan(response(datetime.min.replace(tzinfo=UTC)), response(NOON))
    with pytest.raises(UsageError, match="too long"):
        add_trends(book, far, prices, Question(by=("model",), zone=UTC), now=NOON)


@given(
    instants,
    st.integers(1, 60 * 60 * 24 * 70).map(lambda seconds: timedelta(seconds=seconds)),
    st.sampled_from(TIMES),
    st.sampled_from(["UTC", "America/St_Johns", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.integers(0, 6),
)
def test_every_time_between_two_instants_is_named_once_and_in_order(at, length, unit, zone, starts):
    local = LocalTimes(ZoneInfo(zone), starts)
    names = local.names_between(unit, at, at + length)
    assert sorted(set(names)) == names
    for part in range(11):
        instant = at + (length - timedelta(microseconds=1)) * part / 10
        assert local.name(unit, instant) in names
    if unit != "hour":
        begin, end = local.begin(unit, at)
        assert begin <= at < end
        assert local.name(unit, begin) == local.name(unit, end - timedelta(microseconds=1))
        assert local.name(unit, end) != local.name(unit, begin)


@pytest.fixture
def in_berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield MachineZone()
    monkeypatch.undo()
    time.tzset()


def test_this_machines_zone_knows_the_clocks_of_every_season(in_berlin):
    theirs, ours = LocalTimes(ZoneInfo("Europe/Berlin")), LocalTimes(in_berlin)
    hours = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=7 * n) for n in range(1300))
    for at in (*hours, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        for unit in TIMES:
            assert ours.name(unit, at) == theirs.name(unit, at)
    summer, winter = datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 12, 1, 12, tzinfo=UTC)
    assert [ours.begin("day", at)[0].hour for at in (summer, winter)] == [22, 23]
