"""The bare list of sessions: from the ends of their logs, and as the official SDK lists them."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from turnlog.catalog.sessions import list_sessions
from turnlog.formats import find_homes
from turnlog.records.tags import tags_in

CORPUS = Path(
    os.environ.get(
        "TURNLOG_CORPUS", Path(__file__).parents[2].parent / "shared" / "corpus" / "claude"
    )
)
NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
LONG = "k" * 300_000


def session_id(number):
    return f"{number:08x}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def at(minute):
    return f"2026-03-04T11:{minute:02}:00.000Z"


def user(content, minute=0, **more):
    fields = {"type": "user", "message": {"role": "user", "content": content}, "cwd": "/kites"}
    return fields | {"timestamp": at(minute), "uuid": f"u{minute}"} | more


def answer(text, minute=1, **more):
    message = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "timestamp": at(minute)} | more


def command(name, minute=0):
    return user(f"<command-name>{name}</command-name>", minute)


# Two hundred kilobytes in which nothing is said that a list would tell.
FILLER = [answer("k" * 2000, 10) for _ in range(100)]
LAST_PROMPT = {"type": "last-prompt", "lastPrompt": "and paint it"}
SUMMARY = {"type": "summary", "summary": "Kites that fly", "leafUuid": "elsewhere"}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "projects" / "-kites").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def write(home):
    def make(*records, number=1):
        path = home / "projects" / "-kites" / f"{session_id(number)}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
        return path

    return make


@pytest.fixture
def rows(home):
    return lambda: list_sessions(find_homes((home,)), now=NOON).sessions


@pytest.fixture
def sdk(home, monkeypatch):
    """What the official SDK calls the sessions, by their ids."""
    claude_agent_sdk = pytest.importorskip("claude_agent_sdk")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    return lambda: {each.session_id: each.summary for each in claude_agent_sdk.list_sessions()}


def test_a_row_tells_what_both_ends_tell(write, rows):
    tagged = {"type": "tag", "tag": "windy"}
    path = write(user("Why does it spin?"), *FILLER, answer("The tail.", 30, gitBranch="x"), tagged)
    (row,) = rows()
    assert (row.id, row.project, row.title) == (session_id(1), "/kites", "Why does it spin?")
    assert (row.started_at.minute, row.last_active_at.minute) == (0, 30)
    assert (row.git_branch, row.tags, row.models) == ("x", ["windy"], ["m"])
    assert (row.records, row.size_bytes) == (None, path.stat().st_size)


def test_records_are_counted_where_the_ends_are_the_whole_log(write, rows):
    write(user("a"), *FILLER[:40], answer("b"))
    assert rows()[0].records == 42


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([user("Why?"), *FILLER], "Why?"),
        ([user("Why?"), LAST_PROMPT], "and paint it"),
        ([user("Why?"), SUMMARY, *FILLER, LAST_PROMPT], "and paint it"),
        ([SUMMARY, user("Why?"), *FILLER], "Why?"),
        ([SUMMARY, user("Why?"), *FILLER[:40]], "Why?"),
        ([user("Why?"), LAST_PROMPT, *FILLER], "Why?"),
        ([user("Why?"), *FILLER, SUMMARY], "Kites that fly"),
        ([command("/review"), *FILLER, user("commit it", 20)], "/review"),
        ([command("/review"), user("commit it", 20)], "commit it"),
        ([user("Why?"), {"type": "ai-title", "aiTitle": "Spin"}, *FILLER], "Spin"),
        ([user("Why?"), *FILLER, {"type": "custom-title", "customTitle": "Mine"}], "Mine"),
        ([user([{"type": "text", "text": "<ide_opened_file>a.py</ide_opened_file>"},
                {"type": "text", "text": "Why?"}])], "Why?"),
    ],
)  # fmt: skip
def test_a_title_is_the_sdks(write, rows, sdk, records, title):
    write(*records)
    assert rows()[0].title == title
    assert sdk() == {session_id(1): title}


def test_a_prompt_in_a_line_too_long_for_the_end_it_begins_in_is_found(write, rows):
    picture = {"type": "image", "source": {"type": "base64", "data": LONG}}
    pasted = user([picture, {"type": "text", "text": "Why does this spin?"}])
    write(command("/clear"), pasted, *FILLER)
    assert rows()[0].title == "Why does this spin?"
    write(pasted, *FILLER)
    assert (rows()[0].title, rows()[0].project) == ("Why does this spin?", "/kites")


@pytest.mark.parametrize("behind", [[], [LAST_PROMPT], [LAST_PROMPT] * 500])
def test_a_long_last_line_does_not_hide_when_it_was(write, rows, behind):
    write(user("Why?"), *FILLER, answer(LONG, 40), *behind)
    assert rows()[0].last_active_at.minute == 40


def test_a_compressed_session_is_listed_like_any_other(write, rows):
    path = write(user("Why?"), LAST_PROMPT, *FILLER, answer("so", 50))
    path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    (row,) = rows()
    assert (row.title, row.records, row.last_active_at.minute) == ("and paint it", 103, 50)


def test_a_log_of_an_agent_among_the_sessions_is_no_session(write, rows, sdk):
    write(user("a", isSidechain=True), answer("b"))
    assert rows() == []
    assert sdk() == {}


def test_a_log_that_cannot_be_read_is_a_problem_not_an_end(write, home):
    write(user("a"), number=1)
    write(user("b"), number=2)
    bad = home / "projects" / "-kites" / f"{session_id(3)}.jsonl"
    bad.symlink_to(home / "nowhere")
    problems = []
    found = list_sessions(find_homes((home,)), problems=problems)
    assert {row.id for row in found.sessions} == {session_id(1), session_id(2)}
    assert [problem.path for problem in problems] == [bad]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real sessions is not here")
def test_every_real_session_is_listed_as_the_sdk_lists_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path))  # An index knows names that the SDK misses.
    sdk = pytest.importorskip("claude_agent_sdk")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(CORPUS))
    ours = {row.id: row for row in list_sessions(find_homes((CORPUS,))).sessions}
    theirs = {each.session_id: each for each in sdk.list_sessions()}
    assert len(theirs) > 100
    assert theirs.keys() <= ours.keys()
    # What the SDK leaves out: sessions without a prompt, and one whose prompt it cannot read.
    extra = [ours[each] for each in ours.keys() - theirs.keys()]
    assert all(row.title is None or row.size_bytes > 65_536 for row in extra)
    different = {
        (ours[each].title, info.summary)
        for each, info in theirs.items()
        if one_line(ours[each].title) != one_line(info.summary)
    }
    # The SDK names two after what a subagent in the same log was asked, not what was typed.
    asked = {pair for pair in different if pair[0] == "/orchestrator"}
    assert len(asked) == 2
    different -= asked
    # What was typed at a shell is shown as such; a prompt is found behind /clear, however far.
    assert {said.partition(">")[0] for _, said in different} == {
        "<bash-input", "/clear", "/release-notes"
    }  # fmt: skip
    assert all(title[:2] == "! " for title, said in different if said[0] == "<")
    assert all(title[0] != "/" for title, said in different if said[0] == "/")
    for each, info in theirs.items():
        assert (ours[each].size_bytes, ours[each].project) == (info.file_size, info.cwd)
        assert (ours[each].git_branch, ours[each].tags) == (info.git_branch, tags_in(info.tag))


def one_line(title):
    """The beginning of a title on one line; the SDK cuts before it counts spaces, we after."""
    return " ".join((title or "").split())[:150].rstrip(" …")


def test_agents_whose_logs_lie_beside_their_sessions_count(write, rows):
    beside = write(user("go", isSidechain=True, sessionId=session_id(1)), number=9)
    beside.rename(beside.with_name("agent-a1.jsonl"))
    write(user("Why does it spin?"))
    assert [(row.id, row.subagents) for row in rows()] == [(session_id(1), 1)]
