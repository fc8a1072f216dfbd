"""`turnlog rename`, `tag` and `pin`: what a person sets."""

import json

import pytest

from cli.conftest import DAMAGED, WHOLE


@pytest.fixture
def log(home):
    return home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"


def test_a_title_is_appended_to_the_sessions_log(turnlog, home, log):
    before = log.read_bytes()
    code, out, err = turnlog("rename", "1111", "The  orchard", "--home", home)
    assert (code, err) == (0, "")
    assert "The  orchard" in out
    added = log.read_bytes().removeprefix(before)
    assert json.loads(added) == {
        "type": "custom-title",
        "customTitle": "The  orchard",
        "sessionId": WHOLE,
    }
    listed = json.loads(turnlog("sessions", "--json", "--home", home)[1])["sessions"]
    assert {row["id"]: row["title"] for row in listed}[WHOLE] == "The  orchard"


def test_an_empty_title_brings_the_old_one_back(turnlog, home):
    turnlog("rename", "1111", "Mine", "--home", home)
    code, out, _ = turnlog("rename", "1111", "", "--home", home, "--json")
    assert code == 0
    assert json.loads(out)["title"] == "one"


def test_a_session_has_several_tags(turnlog, home, log):
    def tag(*words):
        code, out, err = turnlog("tag", "1111", *words, "--home", home, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)["tags"]

    assert tag("billing", "urgent") == ["billing", "urgent"]
    # One record has them all: Claude Code knows one tag for each session.
    assert json.loads(log.read_bytes().splitlines()[-1]) == {
        "type": "tag",
        "tag": "billing, urgent",
        "sessionId": WHOLE,
    }
    before = log.read_bytes()
    assert tag() == tag("urgent") == ["billing", "urgent"]
    assert log.read_bytes() == before
    assert tag("two words, billing") == ["billing", "urgent", "two words"]
    assert tag("urgent", "--off") == ["billing", "two words"]
    assert tag("--off") == tag("--off") == []
    assert json.loads(log.read_bytes().splitlines()[-1])["tag"] == ""


def test_sessions_are_listed_by_one_of_their_tags(turnlog, home):
    turnlog("tag", "1111", "billing", "urgent", "--home", home)
    for tag in ("billing", "urgent", "urgent,billing"):
        (row,) = json.loads(turnlog("sessions", "--tag", tag, "--json", "--home", home)[1])[
            "sessions"
        ]
        assert (row["id"], row["tags"]) == (WHOLE, ["billing", "urgent"])
    assert turnlog("sessions", "--tag", "bill", "--home", home)[0] == 1


@pytest.mark.parametrize("words", [("green", "--off"), ("",), (" , ",), ("", "--off")])
def test_a_tag_that_cannot_be_added_or_removed(turnlog, home, log, words):
    before = log.read_bytes()
    code, out, err = turnlog("tag", "1111", *words, "--home", home)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err
    assert log.read_bytes() == before


def test_a_pin_stands_in_the_journal_and_the_log_is_not_touched(turnlog, home, log, tmp_path):
    before = log.read_bytes()
    own = tmp_path / "own"
    code, out, _ = turnlog("pin", "1111", "--home", home, "--json", TURNLOG_HOME=str(own))
    assert (code, json.loads(out)["pinned"]) == (0, True)
    assert log.read_bytes() == before
    assert b'"pinned"' in (own / "journal.jsonl").read_bytes()
    code, out, _ = turnlog("pin", "1111", "--off", "--home", home, TURNLOG_HOME=str(own))
    assert (code, "unpinned" in out) == (0, True)


def test_a_title_cannot_move_the_cursor(turnlog, home):
    _, out, _ = turnlog("rename", "1111", "\x1b[2Jgone", "--home", home)
    assert "\x1b[2J" not in out


def test_a_title_seals_a_torn_tail(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    assert turnlog("rename", DAMAGED, "Torn", "--home", home)[0] == 0
    assert damaged_log.read_bytes().startswith(before + b"\n{")


@pytest.mark.parametrize("command", [("rename", "x"), ("tag", "x"), ("pin",)])
def test_an_unknown_session_is_the_callers_mistake(turnlog, home, command):
    name, *rest = command
    code, out, err = turnlog(name, "nope", *rest, "--home", home)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err
