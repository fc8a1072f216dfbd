"""Places: every path made for a log lies beneath its directory and is found again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidId, UsageError
from turnlog.formats import (
    Home,
    claude_log,
    claude_subagent_log,
    dated_log,
    find_logs,
    flat_archive,
    flat_index,
    flat_log,
    flat_meta,
    project_hash,
    project_key,
    todo_file,
)

SID = "0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
BASE = Path("/base/home")

hostile = st.one_of(
    st.text(max_size=150),
    st.lists(
        st.sampled_from(["..", ".", "/", "\\", "\0", "a", "C:", "~", "\n", "agent-", "-"]),
        max_size=6,
    ).map("".join),
    st.sampled_from(["history", "journal", "2025-11-16", "agent-x", "NUL", "index", "x" * 128]),
)


def places(session_id, agent_id):
    yield lambda: claude_log(BASE, "/p", session_id, environ={})
    yield lambda: claude_subagent_log(BASE, "/p", session_id, agent_id, environ={})
    yield lambda: claude_subagent_log(BASE, "/p", session_id, agent_id, nested=False, environ={})
    yield lambda: flat_log(BASE, session_id)
    yield lambda: flat_meta(BASE, session_id)
    yield lambda: flat_archive(BASE, session_id)
    yield lambda: todo_file(BASE, session_id, agent_id)


@given(hostile, hostile)
def test_any_text_as_id_is_refused_or_stays_beneath(session_id, agent_id):
    for place in places(session_id, agent_id):
        try:
            path = place()
        except InvalidId:
            continue
        assert path.is_relative_to(BASE)
        assert ".." not in path.parts
        assert all(len(part) <= 255 for part in path.parts)


def test_the_three_layouts_put_logs_where_agents_do(tmp_path):
    key, hashed = project_key(tmp_path, environ={}), project_hash(tmp_path)
    day = dt.date(2025, 11, 16)
    assert claude_log(BASE, tmp_path, SID, environ={}) == BASE / "projects" / key / f"{SID}.jsonl"
    nested = claude_subagent_log(BASE, tmp_path, SID, "a1", environ={})
    assert nested == BASE / "projects" / key / SID / "subagents" / "agent-a1.jsonl"
    beside = claude_subagent_log(BASE, tmp_path, SID, "a1", nested=False, environ={})
    assert beside == BASE / "projects" / key / "agent-a1.jsonl"
    assert dated_log(BASE, tmp_path, day) == BASE / "projects" / hashed / "2025-11-16.jsonl"
    assert flat_log(BASE, SID) == BASE / f"{SID}.jsonl"
    assert flat_meta(BASE, SID) == BASE / f"{SID}.meta.json"
    assert flat_index(BASE) == BASE / "index.json"
    assert flat_archive(BASE, SID) == BASE / "compressed" / f"{SID}.jsonl.gz"
    assert todo_file(BASE, SID, SID) == BASE / "todos" / f"{SID}-agent-{SID}.json"


def test_what_is_placed_is_found_as_what_it_was_placed_as(tmp_path):
    home = Home(tmp_path / "home")
    store = home.path / "sessions"
    wanted = {
        claude_log(home, tmp_path, SID, environ={}): ("claude", "session"),
        claude_subagent_log(home, tmp_path, SID, "a1", environ={}): ("claude", "subagent"),
        claude_subagent_log(home, tmp_path, SID, "a2", nested=False, environ={}): (
            "claude",
            "subagent",
        ),
        dated_log(home, tmp_path, dt.date(2025, 11, 16)): ("dated", "day"),
        flat_log(store, "one"): ("flat", "session"),
        flat_archive(store, "two"): ("flat", "session"),
    }
    for path in (*wanted, flat_meta(store, "one"), flat_index(store), todo_file(home, SID, SID)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert {log.path: (log.layout, log.kind) for log in find_logs(home)} == wanted


@pytest.mark.parametrize("session_id", ["history", "Journal", "2025-11-16", "agent-x"])
def test_an_id_whose_log_would_read_as_another_file_is_refused(session_id):
    for place in list(places(session_id, "a1"))[:-1]:
        with pytest.raises(InvalidId):
            place()


def test_todos_whose_name_no_file_system_takes_are_refused():
    with pytest.raises(InvalidId, match="268"):
        todo_file(BASE, "s" * 128, "a" * 128)


def test_a_day_is_the_utc_day():
    evening = dt.datetime(2025, 11, 16, 20, tzinfo=dt.timezone(dt.timedelta(hours=-8)))
    assert dated_log(BASE, "/p", evening).name == "2025-11-17.jsonl"
    with pytest.raises(UsageError, match="UTC"):
        dated_log(BASE, "/p", evening.replace(tzinfo=None))
    assert dated_log(BASE, "/p", dt.date(1, 1, 1)).name == "0001-01-01.jsonl"


def test_a_relative_directory_gives_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert flat_log("store", "x") == Path.cwd() / "store" / "x.jsonl"


def test_the_top_of_the_file_system_is_a_directory_like_any_other():
    assert flat_log("/", "x") == Path("/x.jsonl")
