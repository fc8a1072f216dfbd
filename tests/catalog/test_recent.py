"""The chooser: the most recent few, counted exactly, and nothing else read."""

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given

from sessions.shapes import logs
from sessions.trees import answer, call, log_of, record, result, tree
from turnlog.api.sessions import resume
from turnlog.api.sessions.resume import recent_sessions
from turnlog.formats import find_homes
from turnlog.sessions.reading.ranges import count_steps

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)


def session_id(number):
    return f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


@pytest.fixture
def write(tmp_path):
    """Write a session that was active *minutes* before noon."""
    (tmp_path / "projects" / "-p").mkdir(parents=True)

    def make(number, minutes, *records, **fields):
        at = (NOON - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        common = {"timestamp": at, "cwd": "/home/ada/kite", "gitBranch": "main"} | fields
        path = tmp_path / "projects" / "-p" / f"{session_id(number)}.jsonl"
        path.write_bytes(log_of(*(each | common for each in records or [record("q")])))
        return path

    return make


@pytest.fixture
def homes(tmp_path):
    return lambda: find_homes((tmp_path,))


def test_the_ten_most_recent_come_first_and_the_rest_is_counted(write, homes):
    for number in range(13):
        write(number, minutes=number * 7)
    found = recent_sessions(homes(), now=NOON)
    assert [each.id for each in found.sessions] == [session_id(number) for number in range(10)]
    assert [each.number for each in found.sessions] == list(range(1, 11))
    assert (found.next, found.total) == (10, 13)
    rest = recent_sessions(homes(), now=NOON, offset=10)
    assert [each.number for each in rest.sessions] == [11, 12, 13]
    assert rest.next is None


def test_a_choice_says_what_helps_to_choose(write, homes):
    write(1, 90, record("q", message={"role": "user", "content": "Build a kite"}))
    (found,) = recent_sessions(homes(), now=NOON).sessions
    assert (found.title, found.steps, found.git_branch) == ("Build a kite", 1, "main")
    assert (found.project, found.age_seconds) == ("/home/ada/kite", 5400)


def test_parts_of_a_response_are_one_message_and_an_agents_are_none(write, homes):
    write(
        1,
        0,
        record("q"),
        answer("a1", "q", "m1"),
        answer("a2", "a1", "m1", call("c")),
        result("r", "a2", "c"),
        record("i", "r", isMeta=True),
        record("note", "i", "system"),
        record("task", None, isSidechain=True),
    )
    assert recent_sessions(homes(), now=NOON).sessions[0].steps == 3


def test_the_count_is_exact_where_the_list_would_only_look_at_the_ends(write, homes):
    path = write(1, 0, *(record(f"u{number}", timestamp="") for number in range(900)))
    padding = json.dumps(record("big", message={"role": "user", "content": "x" * 400_000}))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:450], padding.encode() + b"\n", *lines[450:]]))
    assert recent_sessions(homes(), now=NOON).sessions[0].steps == 901


def test_only_the_logs_of_those_shown_are_read_whole(write, homes, monkeypatch):
    for number in range(5):
        write(number, number)
    read = []

    def noting(path):
        read.append(os.path.basename(path))
        return ()

    monkeypatch.setattr(resume, "read_log", noting)
    recent_sessions(homes(), now=NOON, limit=2)
    assert read == [f"{session_id(0)}.jsonl", f"{session_id(1)}.jsonl"]


def test_a_log_that_cannot_be_read_to_its_end_is_listed_without_a_count(write, homes, monkeypatch):
    write(1, 0)

    def gone(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(resume, "read_log", gone)
    problems = []
    (found,) = recent_sessions(homes(), now=NOON, problems=problems).sessions
    assert found.steps is None
    assert len(problems) == 1


def test_a_session_from_the_future_is_no_age_at_all(write, homes):
    write(1, -60)
    assert recent_sessions(homes(), now=NOON).sessions[0].age_seconds == 0


def test_only_sessions_of_a_project(write, homes):
    write(1, 0)
    write(2, 0, cwd="/elsewhere")
    found = recent_sessions(homes(), project="/home/ada", now=NOON)
    assert [each.id for each in found.sessions] == [session_id(1)]


def test_a_session_in_logs_that_days_share_is_counted_over_all_of_them(tmp_path, homes):
    days = tmp_path / "projects" / "v_FXjHoCS5zUJmfyn-5v"
    days.mkdir(parents=True)
    for day, uuids in (("2026-03-03", "abc"), ("2026-03-04", "de")):
        both = [
            record(f"{who}{uuid}", sessionId=session_id(who), timestamp=f"{day}T10:00:00Z")
            for uuid in uuids
            for who in (1, 2)
        ]
        (days / f"{day}.jsonl").write_bytes(log_of(*both[1:]))
    counts = {each.id: each.steps for each in recent_sessions(homes(), now=NOON).sessions}
    assert counts == {session_id(1): 3, session_id(2): 5}


def test_a_title_that_utf8_cannot_hold_does_not_stop_the_list(write, homes):
    import msgspec

    path = write(1, 0)
    title = b'{"type":"custom-title","customTitle":"a \\ud88d kite","sessionId":"s"}\n'
    path.write_bytes(path.read_bytes() + title)
    found = recent_sessions(homes(), now=NOON)
    assert found.sessions[0].title == "a ? kite"
    assert msgspec.json.encode(found)


@given(logs)
def test_streaming_counts_what_the_tree_counts(records):
    """Every record once, whatever its place; so the tree's own dropping of doubles agrees."""
    from sessions.trees import placed

    found = tree(*records)
    last = {}
    for item in placed(*records):
        last[item.record.uuid] = item.record
    assert count_steps(last.values()) == count_steps(found.nodes)
