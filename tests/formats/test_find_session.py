"""Finding a session by what a person types."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from turnlog.errors import AmbiguousSession, InvalidId, NotFound
from turnlog.formats import Home, find_session

SID = "0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
OTHER = "0cda1a04-1b4c-43b6-8aa5-79e41db43a68"


@pytest.fixture
def home(tmp_path):
    path = tmp_path / "home"
    path.mkdir()
    return Home(path)


def touch(home, *names):
    for number, name in enumerate(names):
        path = home.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, ns=(0, 1_000_000_000 * (number + 1)))


def picked(homes, text):
    return [log.path.name for log in find_session(homes, text)]


def test_a_few_characters_give_the_main_log_and_then_its_agents(home):
    touch(
        home,
        f"projects/-p/{SID}/subagents/agent-a1.jsonl",
        f"projects/-p/{SID}.jsonl.gz",
        f"projects/-p/{SID}.jsonl",
        f"projects/-p/{OTHER}.jsonl",
        "projects/-p/agent-a9.jsonl",
    )
    everything = [f"{SID}.jsonl", f"{SID}.jsonl.gz", "agent-a1.jsonl"]
    assert picked([home], "0cc") == everything
    assert picked([home], SID) == everything


def test_a_prefix_of_several_sessions_lists_five_and_counts_the_rest(home):
    touch(home, *(f"sessions/s{number}.jsonl" for number in range(7)))
    with pytest.raises(AmbiguousSession) as caught:
        find_session([home], "s")
    assert "s0, s1, s2, s3, s4 and 2 more" in str(caught.value)
    assert "s5" not in str(caught.value)
    assert caught.value.hint


def test_a_whole_id_wins_over_longer_ones(home):
    touch(home, "sessions/a.jsonl", "sessions/ab.jsonl")
    assert picked([home], "a") == ["a.jsonl"]
    touch(home, "sessions/abc.jsonl")
    (home.path / "sessions/a.jsonl").unlink()
    assert picked([home], "ab") == ["ab.jsonl"]
    with pytest.raises(AmbiguousSession, match="2 sessions: ab, abc"):
        find_session([home], "a")


def test_an_unknown_id_is_not_found_and_the_hint_says_where_was_looked(home):
    touch(home, "sessions/a.jsonl")
    for text in ("zzz", "../a", "A"):
        with pytest.raises(NotFound) as caught:
            find_session([home], text)
        assert str(home.path) in caught.value.hint


def test_no_home_and_no_session_are_not_found_with_a_hint(home):
    for homes in ([], [home]):
        with pytest.raises(NotFound) as caught:
            find_session(homes, "latest")
        assert caught.value.hint


def test_an_empty_text_is_refused(home):
    with pytest.raises(InvalidId):
        find_session([home], "")


def test_latest_is_the_main_log_that_changed_last(home):
    touch(
        home,
        "sessions/old.jsonl",
        "sessions/new.jsonl",
        "sessions/2025-11-16.jsonl",
        f"projects/-p/{SID}/subagents/agent-a1.jsonl",
    )
    assert picked([home], "latest") == ["new.jsonl"]


def test_a_tie_for_latest_is_settled_by_the_id(home):
    touch(home, "sessions/b.jsonl", "sessions/a.jsonl")
    os.utime(home.path / "sessions/b.jsonl", ns=(0, 2_000_000_000))
    assert picked([home], "latest") == ["b.jsonl"]


def test_a_session_whose_main_log_is_gone_is_still_found_by_its_agents(home):
    touch(home, f"projects/-p/{SID}/subagents/agent-a1.jsonl")
    assert picked([home], "0cc") == ["agent-a1.jsonl"]


def test_one_session_in_two_homes_is_not_ambiguous(home, tmp_path):
    second = Home(tmp_path / "second")
    touch(home, "sessions/a.jsonl")
    touch(second, "sessions/a.jsonl")
    assert [log.home for log in find_session([home, second], "a")] == [home, second]


def test_of_copies_the_one_that_was_active_last_comes_first_and_archives_after_them(home, tmp_path):
    second = Home(tmp_path / "second")
    touch(home, "sessions/a.jsonl.gz", "sessions/a.jsonl")
    touch(second, "sessions/a.jsonl")
    heard = {
        home.path / "sessions/a.jsonl": datetime(2026, 11, 1, tzinfo=UTC),
        home.path / "sessions/a.jsonl.gz": datetime(2026, 11, 3, tzinfo=UTC),
    }
    for at in (None, datetime(2026, 10, 31, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)):
        heard[second.path / "sessions/a.jsonl"] = at
        found = find_session([home, second], "a", active_at=lambda log: heard[log.path])
        plain = [second, home] if at and at.month == 11 else [home, second]
        assert [log.home for log in found] == [*plain, home]
        assert found[-1].compression == "gz"


def test_what_could_not_be_read_is_reported(home):
    touch(home, "sessions/a.jsonl", "projects")
    problems = []
    find_session([home], "a", problems=problems)
    assert [problem.path.name for problem in problems] == ["projects"]
