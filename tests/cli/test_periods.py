"""When and where: every list narrows by time and project in the same way, and by the same clock."""

import json
import shlex

import pytest

from cli.screens import FROST, GONE, HARVEST, STORM, Home

WEATHER = "77aa3d20-5c1e-4b7e-9d5a-2f6b1c0e8f44"
LAMP = "123544bf-f884-4e5a-bfb9-ec940bd313ac"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Home(tmp_path_factory.mktemp("periods") / "ada")


def ids(home, words, noun, key):
    code, out, err = home.screen(*shlex.split(words), "--json")
    assert code in {0, 1}, err
    return [row[key] for row in json.loads(out)[noun]]


@pytest.mark.parametrize(
    ("words", "noun", "key", "found"),
    [
        ("sessions --since 7d", "sessions", "id", [WEATHER, STORM]),
        ("sessions --until 2026-01-01", "sessions", "id", [LAMP]),
        ("sessions --project /home/ada/lighthouse", "sessions", "id", [STORM, LAMP]),
        ("prompts --since 2026-10-20", "prompts", "session", [HARVEST]),
        ("prompts --until 2026-01-01", "prompts", "session", [None]),
        ("prompts --session latest", "prompts", "session", []),
        ("prompts --session f38b", "prompts", "session", [FROST]),
        ("prompts --project /home/ada/lighthouse", "prompts", "session", [None]),
        ("todos --since 2d", "todos", "session", [HARVEST, GONE]),
        ("todos --until 2d", "todos", "session", []),
        ("todos --project /home/ada/orchard", "todos", "session", [HARVEST]),
        ("todos --project /home/ada/lighthouse", "todos", "session", []),
        ("plans --since 2d", "plans", "name", ["calm-river"]),
        ("plans --until 2d", "plans", "name", []),
        ("plans --project /home/ada/lighthouse", "plans", "name", []),
        ("secrets --since 1d", "secrets", "times", [1]),
        ("secrets --until 1d", "secrets", "times", []),
        ("secrets --project /home/ada/lighthouse", "secrets", "times", []),
        ("search frost --session latest", "hits", "session", []),
        ("search key --session latest", "hits", "session", [WEATHER]),
        ("search --session 0b29 lamp --limit 1", "hits", "session", [STORM]),
        ("query messages role=user --session latest", "rows", "session_id", [WEATHER]),
        ("cost session --session f38b", "rows", "session", [FROST]),
        ("cost session --session latest", "rows", "session", []),
        ("cost session --until 2026-01-01", "rows", "session", [LAMP]),
    ],
)
def test_what_is_narrowed(home, words, noun, key, found):
    assert ids(home, words, noun, key) == found


def test_sql_sees_a_period_only(home):
    asked = "SELECT DISTINCT session FROM v_calls"
    code, out, _ = home.screen(
        "sql", asked, "--since", "2026-10-20", "--until", "2026-10-25", "--json"
    )
    assert (code, json.loads(out)["rows"]) == (0, [[HARVEST]])


def test_what_can_be_restored_of_a_time(tmp_path):
    home = Home(tmp_path / "ada")
    home.do("keep")
    assert ids(home, "restore --until 2026-01-01", "sessions", "id") == [LAMP]
    assert ids(home, "restore --since 7d", "sessions", "id") == [WEATHER, STORM]
    code, out, _ = home.screen("restore", "--all", "--until", "2026-01-01", "--json")
    assert (code, [row["session"] for row in json.loads(out)["restored"]]) == (0, [LAMP])


def test_what_was_deleted_last_comes_back(tmp_path):
    home = Home(tmp_path / "ada")
    home.do("delete", "f38b", "--yes")
    assert ids(home, "trash --since yesterday", "entries", "session") == [FROST]
    assert ids(home, "trash --until yesterday", "entries", "session") == []
    code, out, _ = home.screen("trash", "restore", "latest")
    assert code == 0
    assert f"{FROST[:8]} restored from the trash" in out
    code, _, err = home.screen("trash", "restore", "latest")
    assert code == 2
    assert "hint: " in err


def test_prices_of_a_day_as_people_say_it(home):
    code, out, _ = home.screen("prices", "claude-sonnet-4-5", "--at", "yesterday")
    assert code == 0
    assert "claude-sonnet-4-5" in out
    assert home.screen("prices", "--at", "someday")[0] == 2


def test_times_are_those_of_this_machines_clock(turnlog, home):
    """The same instants, five hours and three quarters further east."""
    words = (
        ("show", "0b29"), ("info", "0b29"), ("search", "flash"), ("query", "tools"),
        ("files", "f38b", "schedule.py"), ("errors",),
    )  # fmt: skip
    for each in words:
        here, there = (
            turnlog(*each, "--home", home.claude, TZ=zone)[1] for zone in ("UTC", "<+0545>-5:45")
        )
        assert here != there, each
    _, out, _ = turnlog("show", "0b29", "--home", home.claude, TZ="<+0545>-5:45")
    assert "2026-10-31 05:26" in out
    _, out, _ = turnlog(
        "show", "0b29", "--home", home.claude, "--since", "2026-10-31T05:28", TZ="<+0545>-5:45"
    )
    assert "And if the disk is full?" in out
    assert "Log every lamp failure" not in out.partition("▌")[2]
