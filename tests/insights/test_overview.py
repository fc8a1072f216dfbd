"""Everything at a glance: the three periods are sums of the ledger's days."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from index.homes import SESSIONS, answered, asked, lines, log_path, made_home, own_index
from turnlog.catalog.period import Period
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource
from turnlog.index.connection import open_fresh
from turnlog.insights.overview import LATEST, overview
from turnlog.keep.copies.keep import keep
from turnlog.pricing.cost import configured_prices

NOW = datetime(2026, 3, 31, 20, tzinfo=UTC)
TOKYO = ZoneInfo("Asia/Tokyo")  # Where it is tomorrow already.


@pytest.fixture
def homes(tmp_path):
    with own_index(tmp_path / "own"):
        homes = made_home(tmp_path / "home")
        for number, session in enumerate(SESSIONS[:8]):
            at = (NOW - timedelta(days=number * 5, hours=number)).isoformat()
            records = (asked(number, session), answered(number, session))
            log_path(homes, session).write_bytes(
                lines(*({**record, "timestamp": at} for record in records))
            )
        yield homes


def looked_at(homes, *, zone=UTC):
    prices, _ = configured_prices(homes[0].path)
    with open_fresh(homes) as index:
        return overview(index, homes, prices, now=NOW, zone=zone)


@pytest.mark.parametrize("zone", [UTC, TOKYO])
def test_each_period_is_what_the_ledger_says_of_it(homes, zone):
    found = looked_at(homes, zone=zone)
    prices, _ = configured_prices(homes[0].path)
    today = NOW.astimezone(zone).replace(hour=0)
    with open_fresh(homes) as index:
        for row in found.periods:
            since = today - timedelta(days=row.days - 1)
            asked_for = Question(by=(), zone=zone, period=Period(since=since))
            totals = ledger(
                IndexSource(index, prices).sums(asked_for.period), prices, asked_for
            ).totals
            assert Decimal(row.cost_usd) == Decimal(totals.cost_usd)
            assert row.messages == totals.messages
            assert row.since == since.date().isoformat()
    assert [row.messages for row in found.periods] == [1, 2, 6] if zone is UTC else True
    assert [row.sessions for row in found.periods] == [row.messages for row in found.periods]
    assert sum(map(Decimal, found.days)) == Decimal(found.periods[-1].cost_usd)
    assert len(found.days) == 30


def test_the_latest_sessions_come_first_and_the_rest_is_counted(homes):
    found = looked_at(homes)
    assert [row.id for row in found.sessions] == SESSIONS[:LATEST]
    assert found.total == 8


def test_what_needs_attention_is_counted_until_it_is_seen_to(homes):
    found = looked_at(homes).attention
    assert (found.damaged, found.crashed, found.unkept) == (0, 0, 6)
    log = log_path(homes, SESSIONS[0])
    log.write_bytes(log.read_bytes() + b'{"type":"user","mess\n')
    keep(homes)
    found = looked_at(homes).attention
    assert (found.damaged, found.unkept, found.about_to_be_deleted) == (1, 0, 0)


def test_an_empty_home_has_nothing(tmp_path):
    with own_index(tmp_path / "own"):
        found = looked_at(made_home(tmp_path / "home"))
    assert found.total == 0
    assert {row.cost_usd for row in found.periods} == {"0"}
