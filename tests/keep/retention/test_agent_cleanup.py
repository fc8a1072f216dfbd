"""The agent's own cleanup: what it deletes and when."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sessions.homes import log, make_home, prompt, write
from turnlog.errors import UsageError
from turnlog.formats import Home, find_homes
from turnlog.formats.claude_code import cleanup
from turnlog.formats.claude_code.cleanup import SETTING
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import keep
from turnlog.keep.retention.agent_cleanup import LossCount, losses

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"


pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture(autouse=True)
def _no_administrator(monkeypatch):
    monkeypatch.setattr(cleanup, "managed_settings", lambda: Path("/nonexistent/claude-code"))


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def aged(path, days):
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


def session(home, session_id, days):
    return aged(log(home, session_id, prompt("a")), days)


def lost(home, within=7, **more):
    return losses([home], NOW, within, **more)


def test_what_is_old_enough_is_listed_soonest_first(home):
    session(home, ONE, 25)
    session(home, TWO, 40)
    session(home, "33333333-cccc-4ccc-8ccc-333333333333", 22.9)
    first, second = lost(home)
    assert (first.id, first.is_due, second.id, second.is_due) == (TWO, True, ONE, False)
    assert second.deleted_at == NOW + timedelta(days=5)
    assert second.changed_at == NOW - timedelta(days=25)
    assert (first.kind, first.home) == ("session", str(home.path))
    assert not first.is_kept
    assert len(lost(home, 7.2)) == 3
    assert len(lost(home, 0)) == 1


def test_the_files_own_time_counts_and_not_the_records(home):
    record = prompt("a") | {"timestamp": "2020-01-01T00:00:00Z"}
    aged(log(home, ONE, record), 1)
    assert lost(home) == []


def test_the_setting_moves_the_clock(home):
    session(home, ONE, 40)
    write(home, "settings.json", {SETTING: 99999})
    assert lost(home) == []
    write(home, "settings.json", {SETTING: 45})
    (found,) = lost(home)
    assert (found.is_due, found.deleted_at) == (False, NOW + timedelta(days=5))
    write(home, "settings.json", {SETTING: "99999"})
    assert lost(home)[0].is_due


def test_what_lies_in_the_sessions_directory_counts_as_its_own(home):
    path = session(home, ONE, 31)
    subagent = log(home, ONE, prompt("b"), subagent="abc")
    results = write(home, f"projects/-home-ada-orchard/{ONE}/tool-results/x.txt", b"12345")
    (found,) = lost(home)
    sizes = [os.stat(each).st_size for each in (path, subagent, results)]
    assert found.size_bytes == sum(sizes)


def test_an_agents_log_beside_the_sessions_goes_as_they_do(home):
    path = write(home, "projects/-home-ada-orchard/agent-a1b2c3.jsonl", b"{}\n")
    aged(path, 50)
    (found,) = lost(home)
    assert (found.id, found.kind) == ("a1b2c3", "subagent")


def test_other_layouts_archives_and_turnlogs_own_home_are_left_to_nobody(home, own, monkeypatch):
    for place in (
        "sessions/old.jsonl",
        "projects/-home-ada-orchard/2025-01-01.jsonl",
        f"projects/-home-ada-orchard/{TWO}.jsonl.gz",
    ):
        aged(write(home, place, b"{}\n"), 400)
    assert lost(home) == []
    session(home, ONE, 400)
    assert len(lost(home)) == 1
    monkeypatch.setenv("TURNLOG_HOME", str(home.path))
    assert lost(home) == []


def test_a_home_that_is_not_claude_codes_own_is_cleaned_by_nobody(home, tmp_path, monkeypatch):
    """Copies of logs, and what other programs keep in the same layout."""
    session(home, ONE, 400)
    (home.path / "statsig").rmdir()
    assert lost(home) == []
    for name in ("settings.json", ".claude.json", "history.jsonl"):
        write(home, name, b"{}\n")
        assert len(lost(home)) == 1
        (home.path / name).unlink()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home.path))
    assert len(lost(home)) == 1
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert lost(home) == []
    moved = Home(home.path.rename(tmp_path / ".claude"))
    assert len(lost(moved)) == 1


def test_sessions_are_counted_not_their_agents_logs_nor_their_copies(home):
    session(home, ONE, 31)
    session(home, TWO, 31)
    beside = {"type": "user", "isSidechain": True, "sessionId": ONE}
    aged(write(home, "projects/-home-ada-orchard/agent-a1b2c3.jsonl", beside), 31)
    aged(write(home, f"projects/-a-copy/{ONE}.jsonl", prompt("a")), 31)
    aged(write(home, f"projects/-home-ada-orchard/{TWO[:-1]}3.jsonl", beside), 31)
    assert LossCount.of(lost(home)) == (2, 2)


def test_a_home_that_is_a_link_is_its_target(home, tmp_path):
    session(home, ONE, 31)
    (tmp_path / "link").symlink_to(home.path)
    (linked,) = find_homes((tmp_path / "link",))
    (found,) = lost(linked)
    assert found.path.startswith(str(tmp_path / "link"))
    keep([home])
    assert lost(linked)[0].is_kept


def test_a_home_without_sessions_or_without_itself_loses_nothing(home, tmp_path):
    assert lost(home) == []
    assert lost(Home(tmp_path / "nowhere")) == []


def test_a_clock_without_a_zone_is_refused(home):
    with pytest.raises(UsageError):
        losses([home], datetime(2026, 11, 16))  # noqa: DTZ001


@pytest.mark.parametrize("seconds", [-(10**9), 0, 2**33, 2**62 // 10**9])
def test_absurd_times_of_files_stop_nobody(home, seconds):
    path = session(home, ONE, 0)
    os.utime(path, ns=(seconds * 10**9, seconds * 10**9))
    found = lost(home)
    assert len(found) == (seconds <= NOW.timestamp())
    assert all(each.is_due for each in found)


def test_a_log_that_vanishes_meanwhile_is_nobodys(home, monkeypatch):
    path = session(home, ONE, 40)
    real = os.stat

    def gone(which, **more):
        if os.fspath(which) == str(path):
            raise FileNotFoundError(which)
        return real(which, **more)

    monkeypatch.setattr(os, "stat", gone)
    assert lost(home) == []


# -- what is kept ---------------------------------------------------------------------------


def test_a_session_is_kept_if_all_of_it_is_as_it_was_kept(home):
    path = session(home, ONE, 31)
    subagent = aged(log(home, ONE, prompt("b"), subagent="abc"), 31)
    assert not lost(home)[0].is_kept
    keep([home])
    assert lost(home)[0].is_kept
    with subagent.open("ab") as file:
        file.write(b"{}\n")
    assert not lost(home)[0].is_kept  # A part of it has grown since.
    keep([home])
    assert lost(home)[0].is_kept
    path.write_bytes(b'{"type":"user"}\n')
    aged(path, 31)
    assert not lost(home)[0].is_kept


def test_without_a_catalogue_nothing_counts_as_kept(home):
    session(home, ONE, 31)
    keep([home])
    for path in Catalogue.of_home(home).place.glob("catalogue*"):
        path.write_bytes(b"no catalogue")
    assert not lost(home)[0].is_kept


def test_once_the_agent_has_deleted_it_there_is_nothing_left_to_lose(home):
    path = session(home, ONE, 31)
    keep([home])
    path.unlink()
    assert lost(home) == []


def test_the_caller_may_tell_what_is_kept_and_how_it_is_called(home):
    session(home, ONE, 31)
    names = []
    (found,) = lost(
        home,
        is_kept=lambda _, file: names.append(file.name) is None,
        title_of=lambda log: f"called {log.session_id[:2]}",
    )
    assert (found.is_kept, found.title) == (True, "called 11")
    assert names == [f"projects/-home-ada-orchard/{ONE}.jsonl"]
