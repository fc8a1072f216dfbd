"""What a session is called: the same wherever it is told, whoever reads how much of its log."""

import json

import pytest

from turnlog.catalog.sessions import list_sessions
from turnlog.export.conversation_builder import read_session
from turnlog.formats import Home
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.keep.activity import activity_of, title_of
from turnlog.sessions.session import Session

SESSION = "11111111-aaaa-4aaa-8aaa-111111111111"
FIRST = {"type": "user", "message": {"role": "user", "content": "Count the apples"}}
COMMAND = {
    "type": "user",
    "message": {"role": "user", "content": "<command-name>/review</command-name>"},
}
SUMMARY = {"type": "summary", "summary": "Another session's pears", "leafUuid": "x"}
ASKED = {"type": "last-prompt", "lastPrompt": "And the pears?"}
FILLER = [{"type": "system", "content": "x" * 10_000}] * 20


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([SUMMARY, FIRST], "Another session's pears"),
        ([SUMMARY, FIRST, *FILLER], "Count the apples"),
        ([FIRST, *FILLER, SUMMARY], "Another session's pears"),
        ([FIRST, ASKED, *FILLER], "Count the apples"),
        ([FIRST, *FILLER, ASKED], "And the pears?"),
        ([COMMAND, *FILLER, FIRST], "/review"),
        ([COMMAND, FIRST, *FILLER], "Count the apples"),
    ],
)
def test_whoever_reads_all_of_a_log_calls_it_as_lists_do(tmp_path, records, title):
    place = tmp_path / "projects" / "-srv"
    place.mkdir(parents=True)
    named = ({"sessionId": SESSION, "uuid": str(n)} | each for n, each in enumerate(records))
    (place / f"{SESSION}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in named))
    home = Home(tmp_path)
    session = Session.find([home], SESSION)
    assert [row.title for row in list_sessions([home]).sessions] == [title]
    assert session.summary.title == session.metadata.title == title
    assert read_session(session).summary.title == title
    assert activity_of(SESSION, session.logs).title == title
    assert title_of(SESSION, session.logs) == title


def put(home, *lines):
    place = home.path / "projects" / "-srv"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / f"{SESSION}.jsonl", "a") as log:
        log.writelines(json.dumps({"sessionId": SESSION} | each) + "\n" for each in lines)


def named(home):
    (row,) = list_sessions([home]).sessions
    return row.title, ", ".join(row.tags) or None


def test_a_list_knows_a_name_from_the_index_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = Home(tmp_path / "home")
    mine = {"type": "custom-title", "customTitle": "Mine"}
    put(home, FIRST, *FILLER, mine, {"type": "tag", "tag": "fruit"}, *FILLER)
    assert named(home) == ("Count the apples", None)
    assert list((tmp_path / "own").glob("index/*")) == []  # None is made for a list.
    open_fresh([home]).close()
    assert named(home) == ("Mine", "fruit")
    put(home, *FILLER)  # What the index has not read changes nothing …
    assert named(home) == ("Mine", "fruit")
    put(home, {"type": "custom-title", "customTitle": "Yours"})
    assert named(home) == ("Yours", "fruit")  # … unless it tells a newer name,
    put(home, {"type": "custom-title", "customTitle": ""}, {"type": "tag", "tag": ""})
    assert named(home) == ("Count the apples", None)  # … or that there is none any more.


def test_a_name_that_was_taken_back_between_the_ends_is_none(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = Home(tmp_path / "home")
    mine, none = ({"type": "custom-title", "customTitle": each} for each in ("Mine", ""))
    put(home, FIRST, mine, *FILLER, none, *FILLER)
    assert named(home) == ("Mine", None)
    open_fresh([home]).close()
    assert named(home) == ("Count the apples", None)


@pytest.mark.parametrize("broken", [b"", b"SQLite format 3\x00", b"x" * 4096])
def test_an_index_that_cannot_be_read_stops_no_list(tmp_path, monkeypatch, broken):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = Home(tmp_path / "home")
    put(home, FIRST, *FILLER, {"type": "custom-title", "customTitle": "Mine"}, *FILLER)
    open_fresh([home]).close()
    index_path([home]).write_bytes(broken)
    assert named(home) == ("Count the apples", None)
    assert index_path([home]).read_bytes() == broken
