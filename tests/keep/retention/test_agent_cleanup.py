"""The agent's own cleanup: what it deletes and when, and settings that cannot be trusted."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.homes import log, make_home, prompt, write
from turnlog.errors import UsageError
from turnlog.formats import Home, find_homes
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import keep
from turnlog.keep.retention.agent_cleanup import DEFAULT_DAYS, SETTING, LossCount, losses, period_of

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-bbbb-4bbb-8bbb-222222222222"
NOBODY = Path("/nonexistent/claude-code")


pytestmark = pytest.mark.usefixtures("own")


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def aged(path, days):
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


def session(home, session_id, days):
    return aged(log(home, session_id, prompt("a")), days)


def period(home, managed=NOBODY):
    return period_of(home, managed=managed)


def lost(home, within=7, **more):
    return losses([home], NOW, within, managed=NOBODY, **more)


# -- the setting ----------------------------------------------------------------------------


def test_without_settings_the_default_applies_and_nothing_is_wrong(home):
    found = period(home)
    assert (found.days, found.where, found.problems) == (DEFAULT_DAYS, None, [])
    write(home, "settings.json", {"model": "opus"})
    assert period(home) == found


@pytest.mark.parametrize(("said", "days"), [(1, 1), (7, 7), (99999, 99999), (30.0, 30)])
def test_what_the_settings_say_applies(home, said, days):
    path = write(home, "settings.json", {SETTING: said})
    found = period(home)
    assert (found.days, found.where, found.problems) == (days, str(path), [])


@pytest.mark.parametrize(
    "said", [0, 0.0, -1, -0.5, 30.5, "x", "30", "", None, True, False, [30], {"days": 30}, 10**12]
)
def test_a_value_that_claude_code_may_refuse_is_a_problem_and_the_default_may_apply(home, said):
    path = write(home, "settings.json", {SETTING: said})
    found = period(home)
    assert found.days == DEFAULT_DAYS
    assert found.where is None
    assert [problem.where for problem in found.problems] == [str(path)]
    assert SETTING in found.problems[0].reason


def test_zero_says_what_older_versions_do_with_it(home):
    write(home, "settings.json", {SETTING: 0})
    assert "delete" in period(home).problems[0].reason


@pytest.mark.parametrize(
    "content",
    [
        b"not JSON",
        b"[30]",
        b"30",
        b'"cleanupPeriodDays"',
        b'{"cleanupPeriodDays": 99999,}',
        b'{"cleanupPeriodDays": 99999} trailing',
        b'{"cleanupPeriodDays": 99999 // comment\n}',
        b'{"cleanupPeriodDays": NaN}',
        b'{"cleanupPeriodDays": Infinity}',
        b'{"cleanupPeriodDays": 1e999}',
        b'{"cleanupPeriodDays": ' + b"9" * 5000 + b"}",
        b'{"cleanupPeriodDays": 7, "cleanupPeriodDays": 99999}',
        b'{"a": ' * 100_000,
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xff\xfe\x00",
        b'{"cleanupPeriodDays": 99999, "x": "\xff"}',
        b"\0" * 100,
    ],
    ids=range(17),
)
def test_settings_that_cannot_be_read_are_a_problem(home, content):
    write(home, "settings.json", content)
    found = period(home)
    assert found.days == DEFAULT_DAYS
    assert len(found.problems) == 1
    assert len(found.problems[0].reason) < 300


@pytest.mark.parametrize("content", [b"", b"  \n", b"{}", b'\xef\xbb\xbf{"cleanupPeriodDays": 9}'])
def test_empty_settings_say_nothing_and_a_mark_at_their_beginning_does_not_matter(home, content):
    write(home, "settings.json", content)
    found = period(home)
    assert (found.days, found.problems) == (9 if content.strip(b"{} \n") else DEFAULT_DAYS, [])


def test_settings_that_are_no_file_hang_nobody(home):
    os.mkfifo(home.path / "settings.json")
    (home.path / "settings.local.json").mkdir()
    found = period(home)
    assert found.days == DEFAULT_DAYS
    assert {Path(problem.where).name for problem in found.problems} == {
        "settings.json",
        "settings.local.json",
    }


def test_huge_settings_fill_no_memory(home):
    path = home.path / "settings.json"
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
    assert "larger" in period(home).problems[0].reason


def test_only_the_top_of_the_settings_counts(home):
    write(home, "settings.json", {"env": {SETTING: 5}, "hooks": [{SETTING: 3}]})
    assert (period(home).days, period(home).problems) == (DEFAULT_DAYS, [])


def test_two_files_that_disagree_are_ambiguous_and_the_shorter_counts(home):
    write(home, "settings.json", {SETTING: 99999})
    local = write(home, "settings.local.json", {SETTING: 90})
    found = period(home)
    assert (found.days, found.where, len(found.problems)) == (90, str(local), 1)
    assert "99999" in found.problems[0].reason
    write(home, "settings.local.json", {SETTING: 99999})
    assert (period(home).days, period(home).problems) == (99999, [])


def test_one_broken_file_spoils_a_long_period_but_not_a_short_one(home):
    write(home, "settings.local.json", b"{")
    write(home, "settings.json", {SETTING: 99999})
    assert (period(home).days, len(period(home).problems)) == (DEFAULT_DAYS, 1)
    write(home, "settings.json", {SETTING: 7})
    assert (period(home).days, len(period(home).problems)) == (7, 1)


def test_an_administrators_settings_overrule_the_others(home, tmp_path):
    managed = tmp_path / "managed"
    managed.mkdir()
    write(home, "settings.json", {SETTING: 99999})
    (managed / "managed-settings.json").write_text(json.dumps({SETTING: 3}))
    found = period(home, managed)
    assert (found.days, found.where, found.problems) == (
        3,
        str(managed / "managed-settings.json"),
        [],
    )
    parts = managed / "managed-settings.d"
    parts.mkdir()
    (parts / "10-a.json").write_text(json.dumps({SETTING: 4}))
    (parts / "20-b.json").write_text(json.dumps({SETTING: 5}))
    (parts / "README").write_text("no settings")
    assert period(home, managed).days == 5
    for each in (*parts.iterdir(), managed / "managed-settings.json"):
        each.write_text("{")
    assert (period(home, managed).days, len(period(home, managed).problems)) == (DEFAULT_DAYS, 3)


@given(
    user=st.none() | st.integers(-5, 100) | st.text(max_size=3),
    local=st.none() | st.integers(-5, 100) | st.booleans(),
)
def test_it_never_promises_more_time_than_any_setting_that_may_apply(tmp_path_factory, user, local):
    home = make_home(tmp_path_factory.mktemp("home"))
    for name, value in (("settings.json", user), ("settings.local.json", local)):
        if value is not None:
            write(home, name, {SETTING: value})
    good = [v for v in (user, local) if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    bad = [v for v in (user, local) if v is not None and (isinstance(v, bool) or v not in good)]
    found = period(home)
    assert found.days == min([*good, *([DEFAULT_DAYS] if bad or not good else [])])
    assert bool(found.problems) == bool(bad or len(set(good)) > 1)


# -- the sessions ---------------------------------------------------------------------------


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
        losses([home], datetime(2026, 11, 16), managed=NOBODY)  # noqa: DTZ001


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
