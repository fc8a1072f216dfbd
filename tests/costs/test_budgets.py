"""Budgets: what can be read holds, and what is spent is what the ledger says."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.test_ledger import instants, response, scan
from turnlog.catalog.period import Period
from turnlog.costs.blocks import active_block, blocks
from turnlog.costs.budgets import Budget, Budgets, budget_report, budgets_from
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import LogsSource
from turnlog.pricing.cost import load_prices
from turnlog.records.dates import LocalTimes

# A Wednesday.
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ASKED = Question(by=("model",), zone=UTC)


@pytest.fixture(scope="module")
def prices():
    return load_prices()


def report(found, prices, settings, *, now=NOW, asked=ASKED):
    budgets, problems = budgets_from(settings)
    assert not problems
    return budget_report(budgets, LogsSource(found), prices, asked, now=now)


def one(found, prices, settings, **more):
    (row,) = report(found, prices, settings, **more).budgets
    return row


class Narrow:
    """A source that gives what was asked for and nothing else, as the index does."""

    def __init__(self, found):
        self.found = found
        self.asked = 0

    def responses(self, period):
        self.asked += 1
        return scan(*(each for each in self.found.responses if period.holds(each)))

    sums = responses


def test_numbers_and_strings_and_projects_are_read():
    found, problems = budgets_from(
        {
            "daily": 20,
            "weekly": "100.50",
            "monthly": 0.1,
            "block": 0,
            "warn_at": 0.9,
            "projects": {"/srv/kites/": {"monthly": 50}},
        }
    )
    assert not problems
    assert found.warn_at == Decimal("0.9")
    assert [(each.name, each.limit_usd, each.project) for each in found.budgets] == [
        ("daily", Decimal(20), None),
        ("weekly", Decimal("100.50"), None),
        ("monthly", Decimal("0.1"), None),
        ("block", Decimal(0), None),
        ("monthly", Decimal(50), "/srv/kites"),
    ]


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"daily": -1}, "budgets.daily"),
        ({"daily": True}, "budgets.daily"),
        ({"daily": "much"}, "budgets.daily"),
        ({"daily": ""}, "budgets.daily"),
        ({"daily": float("nan")}, "budgets.daily"),
        ({"daily": float("inf")}, "budgets.daily"),
        ({"daily": "Infinity"}, "budgets.daily"),
        ({"daily": "sNaN"}, "budgets.daily"),
        ({"daily": 16**6000}, "budgets.daily"),
        ({"daily": "1e-9"}, "budgets.daily"),
        ({"daily": [20]}, "budgets.daily"),
        ({"daily": {"usd": 20}}, "budgets.daily"),
        ({"yearly": 20}, "budgets.yearly"),
        ({"warn_at": 0}, "budgets.warn_at"),
        ({"warn_at": 80}, "budgets.warn_at"),
        ({"projects": 20}, "budgets.projects"),
        ({"projects": {"/srv": 20}}, "budgets.projects./srv"),
        ({"projects": {"srv": {"daily": 20}}}, "budgets.projects.srv.daily"),
        ({"projects": {"/srv": {"block": 20}}}, "budgets.projects./srv.block"),
        ({"projects": {"/srv": {"warn_at": 0.5}}}, "budgets.projects./srv.warn_at"),
    ],
)
def test_a_broken_budget_is_told_and_the_others_hold(settings, where):
    found, problems = budgets_from({"monthly": 7, **settings})
    assert [each.where for each in problems] == [where]
    assert found == Budgets(budgets=(Budget(name="monthly", limit_usd=Decimal(7)),))
    assert len(problems[0].reason) < 150


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
names = st.sampled_from(["daily", "weekly", "block", "warn_at", "projects", "else"])


@given(st.dictionaries(names, values | st.dictionaries(st.text(max_size=9), values)))
def test_any_table_gives_budgets(settings):
    found, problems = budgets_from(settings)
    assert 0 < found.warn_at <= 1
    assert all(each.limit_usd >= 0 for each in found.budgets)
    assert all(each.where.startswith("budgets.") for each in problems)


def test_a_period_is_that_of_now_in_the_zone_and_with_the_weeks_of_the_report(prices):
    zone = ZoneInfo("Pacific/Kiritimati")  # Fourteen hours ahead: it is Thursday there.
    settings = {"daily": 1, "weekly": 1, "monthly": 1}
    asked = Question(by=("model",), zone=zone, week_starts=6)
    found = report(scan(), prices, settings, asked=asked)
    local = [(row.start_at.astimezone(zone), row.end_at.astimezone(zone)) for row in found.budgets]
    assert [(f"{begin:%m-%d %H:%M}", f"{end:%m-%d %H:%M}") for begin, end in local] == [
        ("03-05 00:00", "03-06 00:00"),
        ("03-01 00:00", "03-08 00:00"),
        ("03-01 00:00", "04-01 00:00"),
    ]


@given(
    st.lists(st.builds(response, instants, input=st.integers(0, 10**7)), max_size=10),
    st.sampled_from(["UTC", "America/St_Johns", "Europe/Berlin"]).map(ZoneInfo),
    st.integers(0, 6),
    instants,
)
def test_what_is_spent_is_the_row_of_the_ledger(prices, found, zone, starts, now):
    asked = Question(by=("model",), zone=zone, week_starts=starts)
    settings = {"daily": 1, "weekly": 1, "monthly": 1}
    told = report(scan(*found), prices, settings, now=now, asked=asked).budgets
    for row, unit in zip(told, ("day", "week", "month"), strict=True):
        by = Question(by=(unit,), zone=zone, week_starts=starts)
        name = LocalTimes(zone, starts).name(unit, now)
        rows = ledger(scan(*found), prices, by).rows
        costs = {getattr(each, unit): each.cost_usd for each in rows}
        assert Decimal(row.used_usd) == Decimal(costs.get(name, 0))


@pytest.mark.parametrize(
    ("limit", "state", "percent"),
    [
        ("0.29", "exceeded", 103.4),
        ("0.3", "near", 100.0),
        ("0.375", "near", 80.0),
        ("0.376", "ok", 79.8),
        (0, "exceeded", None),
    ],
)
def test_more_than_a_budget_exceeds_it_and_most_of_it_is_near(prices, limit, state, percent):
    row = one(scan(response(NOW)), prices, {"daily": limit})
    assert (row.used_usd, row.state, row.percent) == ("0.3", state, percent)


def test_nothing_spent_of_nothing_is_fine(prices):
    assert one(scan(), prices, {"daily": 0}).state == "ok"
    assert one(scan(), prices, {"block": 0}).state == "ok"


def test_when_to_warn_can_be_set(prices):
    found = scan(response(NOW))
    assert one(found, prices, {"daily": 1, "warn_at": "0.3"}).state == "near"
    assert one(found, prices, {"daily": 1, "warn_at": 0.31}).state == "ok"


def test_pace_leads_to_the_end_of_the_period_unless_it_is_too_early(prices):
    found = scan(response(datetime(2026, 3, 4, 0, 5, tzinfo=UTC)))
    midnight = datetime(2026, 3, 4, tzinfo=UTC)
    for hours, ahead in [(0.25, None), (6, "1.20"), (12, "0.60"), (24 - 1e-6, "0.30")]:
        now = midnight + timedelta(hours=hours)
        assert one(found, prices, {"daily": 1}, now=now).projected_usd == ahead


def test_a_projects_budget_is_for_what_began_there_or_below(prices):
    found = scan(
        response(NOW, project="/srv/kites"),
        response(NOW, project="/srv/kites/tail"),
        response(NOW, project="/srv/kitesurf"),
        response(NOW, project=None),
    )
    row = one(found, prices, {"projects": {"/srv/kites": {"daily": 1}}})
    assert (row.project, row.used_usd) == ("/srv/kites", "0.6")
    assert one(found, prices, {"daily": 1}).used_usd == "1.2"


def test_a_block_is_the_one_that_lasts_now(prices):
    found = scan(response(NOW - timedelta(hours=9)), response(NOW - timedelta(hours=1)))
    row = one(found, prices, {"block": 1})
    assert (row.used_usd, row.start_at.hour, row.end_at.hour) == ("0.3", 11, 16)
    assert row.projected_usd == "1.50"
    row = one(scan(response(NOW - timedelta(hours=9))), prices, {"block": 1})
    assert (row.used_usd, row.start_at, row.end_at) == ("0", None, None)


@given(st.lists(st.integers(1, 60 * 6), max_size=60), st.integers(0, 600))
def test_the_block_that_lasts_is_found_without_reading_all(prices, pauses, since_last):
    """However many blocks follow one another without a pause."""
    at = NOW - timedelta(minutes=since_last)
    times = [at := at - timedelta(minutes=pause) for pause in pauses]
    found = scan(*map(response, times))
    active = [row for row in blocks(found, prices, now=NOW).rows if row.is_active]
    told, _ = active_block(Narrow(found), prices, now=NOW)
    assert told == (active[-1] if active else None)


def test_work_without_a_pause_is_followed_to_its_beginning(prices):
    found = scan(*(response(NOW - timedelta(hours=4 * n)) for n in range(200)))
    source = Narrow(found)
    told, _ = active_block(source, prices, now=NOW)
    assert told == blocks(found, prices, now=NOW).rows[-1]
    assert source.asked == 3


def test_what_has_no_price_is_in_no_budget_and_is_listed_once(prices):
    found = scan(response(NOW, model="nobody-1", output=7))
    told = report(found, prices, {"daily": 1, "monthly": 1, "block": 1})
    assert [row.used_usd for row in told.budgets] == ["0", "0", "0"]
    assert [(row.model, row.tokens) for row in told.skipped.unpriced] == [("nobody-1", 7)]


def test_a_source_is_asked_for_the_period_only(prices):
    old = response(NOW - timedelta(days=40))
    budgets, _ = budgets_from({"monthly": 1})
    told = budget_report(budgets, Narrow(scan(old, response(NOW))), prices, ASKED, now=NOW)
    assert told.budgets[0].used_usd == "0.3"
    assert Period(since=told.budgets[0].start_at).holds(response(NOW))
