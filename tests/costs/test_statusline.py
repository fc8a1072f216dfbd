"""The status line's figures are the ledger's, and the file that holds them survives anything."""

import json
import os
import stat
import tempfile
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.homes import SESSIONS, answered, lines, log_path, made_home, own_index
from sampling import examples
from turnlog.catalog.period import Period
from turnlog.costs.blocks import blocks
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.statusline import compute_figures, update_figures
from turnlog.costs.statusline_figures import VERSION, FiguresFile, end_of_file
from turnlog.costs.usage import every_response
from turnlog.formats import turnlog_home
from turnlog.index.connection import open_fresh
from turnlog.pricing.cost import configured_prices

START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
FAR = timezone(timedelta(hours=5, minutes=45))
# Around the five hours that part blocks, to the microsecond.
GAPS = [
    timedelta(0),
    timedelta(minutes=14),
    timedelta(hours=2),
    timedelta(hours=4, minutes=50),
    timedelta(hours=5) - timedelta(microseconds=1000),
    timedelta(hours=5),
    timedelta(hours=5, minutes=14),
    timedelta(hours=5, minutes=15),
    timedelta(hours=9),
    timedelta(days=2),
]


@pytest.fixture
def own(tmp_path):
    with own_index(tmp_path / "own") as place:
        place.mkdir()
        yield place


def response(number, at, session):
    stamp = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03}Z"
    return answered(number, session, timestamp=stamp)


def write_responses(homes, times):
    for number, at in enumerate(times):
        session = SESSIONS[number % 3]
        with log_path(homes, session).open("ab") as log:
            log.write(lines(response(number, at, session)))


@settings(max_examples=examples(30))
@given(
    gaps=st.lists(st.sampled_from(GAPS), min_size=1, max_size=12), zone=st.sampled_from([UTC, FAR])
)
def test_every_figure_is_the_ledgers(gaps, zone):
    times, at = [], START
    for gap in gaps:
        at += gap
        times.append(at)
    with tempfile.TemporaryDirectory() as directory, own_index():
        homes = made_home(Path(directory))
        write_responses(homes, times)
        prices, _ = configured_prices(turnlog_home())
        with open_fresh(homes, stage="usage") as index:
            whole = every_response(index, Period())
            for now in {each + more for each in times for more in GAPS[:7]}:
                found = compute_figures(index, prices, sessions=SESSIONS[:2], now=now, zone=zone)
                rows = [row for row in blocks(whole, prices, now=now).rows if row.is_active]
                assert [found["block"] and found["block"]["cost_usd"]] == [
                    row.cost_usd for row in rows
                ] or (found["block"] is None and not rows)
                if rows:
                    assert found["block"]["end_at"] == rows[0].end_at.timestamp()
                    assert found["block"]["first_at"] == rows[0].first_at.timestamp()
                days = ledger(whole, prices, Question(by=("day",), zone=zone)).rows
                costs = {row.day: row.cost_usd for row in days}
                assert found["day"] == f"{now.astimezone(zone):%Y-%m-%d}"
                assert found["today"]["cost_usd"] == costs.get(found["day"], "0")
            sessions = ledger(whole, prices, Question(by=("session",), zone=zone)).rows
            wanted = {row.session: row.cost_usd for row in sessions if row.session in SESSIONS[:2]}
            assert {name: each["cost_usd"] for name, each in found["sessions"].items()} == wanted


def test_a_day_with_two_midnights_begins_with_the_first(own, tmp_path):
    """In the Azores, where clocks go back from one to midnight."""
    homes = made_home(tmp_path / "home")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    write_responses(homes, [first])
    prices, _ = configured_prices(turnlog_home())
    now, zone = first + timedelta(hours=1), ZoneInfo("Atlantic/Azores")
    assert (now.astimezone(zone).hour, now.astimezone(zone).fold) == (0, 1)
    with open_fresh(homes, stage="usage") as index:
        days = ledger(every_response(index, Period()), prices, Question(by=("day",), zone=zone))
        found = compute_figures(index, prices, sessions=(), now=now, zone=zone)
    assert [(found["day"], found["today"]["cost_usd"])] == [
        (row.day, row.cost_usd) for row in days.rows
    ]


def test_the_context_is_that_of_the_main_threads_last_response(own, tmp_path):
    homes = made_home(tmp_path / "home")
    session = SESSIONS[0]
    usage = {"input_tokens": 5, "cache_read_input_tokens": 70_000, "output_tokens": 9}
    usage["cache_creation_input_tokens"] = 600
    first, last = response(1, START, session), response(2, START + timedelta(hours=1), session)
    last["message"]["usage"] = usage
    aside = response(3, START + timedelta(hours=2), session) | {"isSidechain": True}
    log_path(homes, session).write_bytes(lines(first, last, aside))
    prices, _ = configured_prices(own)
    figures = update_figures(homes, prices, session=session)
    assert figures["sessions"][session]["context_tokens"] == 70_605


def test_sessions_are_remembered_for_a_day_and_not_without_end(own, tmp_path):
    homes = made_home(tmp_path / "home")
    prices, _ = configured_prices(own)
    file = FiguresFile([os.fspath(home) for home in homes])
    update_figures(homes, prices, session="one")
    assert set(update_figures(homes, prices, session="two")["asked"]) == {"one", "two"}
    asked = {f"s{number}": 4e9 for number in range(500)} | {"old": 1.0, "odd": "never"}
    for strange in (asked, ["one"], "one", None, 7):
        lock = file.lock()
        file.write({"asked": strange})
        os.close(lock)
        found = update_figures(homes, prices, session="three")["asked"]
        assert "three" in found
        assert "old" not in found
        assert len(found) <= 32
    assert set(found) == {"three"}


def test_only_one_updates_at_a_time(own, tmp_path):
    homes = made_home(tmp_path / "home")
    prices, _ = configured_prices(own)
    file = FiguresFile([os.fspath(home) for home in homes])
    lock = file.lock()
    assert file.lock(tries=2) is None
    assert update_figures(homes, prices) is None
    assert file.read() == {}
    os.close(lock)
    assert update_figures(homes, prices) is not None
    assert file.read()["today"]["shown"] == "$0.00"


def test_the_file_is_its_owners_alone_whatever_the_umask(own, tmp_path):
    homes = made_home(tmp_path / "home")
    prices, _ = configured_prices(own)
    before = os.umask(0)
    try:
        update_figures(homes, prices)
    finally:
        os.umask(before)
    file = FiguresFile([os.fspath(home) for home in homes])
    assert stat.S_IMODE(os.stat(file.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(file.path)).st_mode) == 0o700
    assert sorted(os.listdir(os.path.dirname(file.path))) == sorted(
        [os.path.basename(file.path), os.path.basename(file.lock_path)]
    )


def test_what_a_killed_update_leaves_is_in_nobodys_way(own, tmp_path):
    homes = made_home(tmp_path / "home")
    prices, _ = configured_prices(own)
    file = FiguresFile([os.fspath(home) for home in homes])
    os.close(file.lock())
    Path(f"{file.path}.part").write_bytes(b'{"version": 1, "hom')
    assert file.read() == {}
    assert update_figures(homes, prices) is not None
    assert file.read()["version"] == VERSION
    assert not os.path.exists(f"{file.path}.part")


def test_each_set_of_homes_has_its_own_figures(own, tmp_path):
    one, two = (os.fspath(tmp_path / name) for name in ("one", "two"))
    assert FiguresFile([one]).path != FiguresFile([two]).path
    assert FiguresFile([one, two]).path == FiguresFile([two, one, two]).path
    file = FiguresFile([one])
    os.close(file.lock())
    file.write({"day": "2026-03-04"})
    assert file.read()["day"] == "2026-03-04"
    os.replace(file.path, FiguresFile([two]).path)
    assert FiguresFile([two]).read() == {}, "another's figures"


@given(
    data=st.binary(max_size=60)
    | st.dictionaries(st.sampled_from(["version", "homes", "day"]), st.integers(0, 2) | st.just([]))
    .map(json.dumps)
    .map(str.encode)
    | st.sampled_from([b"[" * 100_000, b'{"version": NaN}', b"9" * 5000, b"\xff\xfe{}", b"[]"])
)
def test_any_bytes_are_figures_or_nothing(data):
    with own_index():
        file = FiguresFile(["/srv/nowhere"])
        os.close(file.lock())
        Path(file.path).write_bytes(data)
        assert file.read() == {}


def test_what_is_no_file_is_not_waited_for(own):
    file = FiguresFile(["/srv/nowhere"])
    os.close(file.lock())
    os.mkfifo(file.path)
    assert file.read() == {}
    os.remove(file.path)
    os.mkdir(file.path)
    assert file.read() == {}
    with pytest.raises(OSError, match="not a regular file"):
        end_of_file(os.devnull, 10)
