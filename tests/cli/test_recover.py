"""`turnlog recover`: what is wrong with a session, and its mending."""

import json
from pathlib import Path

import jsonschema
import pytest

import turnlog as turnlog_library
from cli.conftest import DAMAGED, WHOLE

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def fits(name, text):
    """Give the document; it is as its schema says."""
    found = json.loads(text)
    jsonschema.validate(found, json.loads((SCHEMAS / f"{name}.json").read_text("utf-8")))
    return found


def test_without_a_session_those_that_crashed_are_listed(turnlog, home):
    code, out, _ = turnlog("recover", "--home", home)
    assert (code, "No session has crashed" in out) == (0, True)
    (home / "sessions").mkdir()
    (home / "sessions" / "999999999.json").write_text(
        json.dumps({"pid": 999999999, "sessionId": WHOLE})
    )
    code, out, _ = turnlog("recover", "--home", home)
    assert (code, "11111111" in out) == (1, True)
    code, out, _ = turnlog("recover", "--home", home, "--json")
    found = fits("recover-list", out)
    assert (code, [row["id"] for row in found["sessions"]]) == (1, [WHOLE])
    with pytest.raises(jsonschema.ValidationError):  # It is not what is said of one session.
        fits("recover", out)


def test_it_is_a_dry_run_unless_told_to_write(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    code, out, _ = turnlog("recover", DAMAGED, "--home", home)
    assert code == 1
    assert "--write" in out
    assert "2 records on damaged lines" in out
    assert damaged_log.read_bytes() == before


def test_writing_mends_and_then_there_is_nothing_left(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    code, out, _ = turnlog("recover", DAMAGED, "--home", home, "--write", "--json")
    found = fits("recover", out)
    assert (code, found["written"], found["salvaged"]) == (0, True, 2)
    with open(found["originals"][0], "rb") as file:
        assert file.read() == before
    code, out, _ = turnlog("recover", DAMAGED, "--home", home)
    assert (code, "Nothing to recover" in out) == (0, True)
    assert turnlog("check", damaged_log)[0] == 0


def test_a_whole_session_needs_nothing(turnlog, home):
    code, out, _ = turnlog("recover", "1111", "--home", home, "--write")
    assert (code, "Nothing to recover" in out) == (0, True)


def test_a_lost_result_is_said(turnlog, home):
    session = "33333333-cccc-4ccc-8ccc-333333333333"
    with turnlog_library.open(home).create(session_id=session) as writer:
        writer.append(turnlog_library.build.user("Count"))
        calls = [turnlog_library.build.call("Bash", {}, call_id=name) for name in ("c1", "c2")]
        writer.append(turnlog_library.build.assistant(calls, model="m"))
        writer.append(turnlog_library.build.result("c1", "1"))
    code, out, _ = turnlog("recover", session, "--home", home)
    assert code == 1
    assert "1 lost result" in out
    code, out, _ = turnlog("recover", session, "--home", home, "--write")
    assert code == 0
    assert "1 lost result" in out
    assert "replaced" in out
