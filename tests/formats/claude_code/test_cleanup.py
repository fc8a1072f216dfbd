"""The setting of Claude Code's cleanup, and settings that cannot be trusted."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.homes import make_home, write
from turnlog.formats.claude_code.cleanup import DEFAULT_DAYS, SETTING, period_of

NOBODY = Path("/nonexistent/claude-code")


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def period(home, managed=NOBODY):
    return period_of(home, managed=managed)


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
