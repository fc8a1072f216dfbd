"""`turnlog recover`: what is wrong with a session, and its mending."""

import json
from pathlib import Path

import jsonschema
import pytest

from cli.conftest import DAMAGED, WHOLE
from sessions.trees import answer, call, log_of, record, result

TANGLED = "99999999-0000-4000-8000-000000000009"
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def fits(name, text):
    """Give the document; it is as its schema says."""
    found = json.loads(text)
    jsonschema.validate(found, json.loads((SCHEMAS / f"{name}.json").read_text("utf-8")))
    return found


def test_without_a_session_those_that_crashed_are_listed(turnlog, home):
    code, out, _ = turnlog("recover", "--home", home)
    assert (code, "No crashed sessions" in out) == (0, True)
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
    assert "--yes" in out
    assert "2 records on damaged lines" in out
    assert damaged_log.read_bytes() == before


def test_writing_mends_and_then_there_is_nothing_left(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    code, out, _ = turnlog("recover", DAMAGED, "--home", home, "--yes", "--json")
    found = fits("recover", out)
    assert (code, found["written"], found["salvaged"]) == (0, True, 2)
    with open(found["originals"][0], "rb") as file:
        assert file.read() == before
    code, out, _ = turnlog("recover", DAMAGED, "--home", home)
    assert (code, "Nothing to recover" in out) == (0, True)
    assert turnlog("check", damaged_log)[0] == 0


def test_a_whole_session_needs_nothing(turnlog, home):
    code, out, _ = turnlog("recover", "1111", "--home", home, "--yes")
    assert (code, "Nothing to recover" in out) == (0, True)


def test_an_undo_is_a_dry_run_unless_told_to_write(turnlog, home, damaged_log):
    before = damaged_log.read_bytes()
    assert turnlog("recover", DAMAGED, "--home", home, "--yes")[0] == 0
    recovered = damaged_log.read_bytes()
    code, out, _ = turnlog("recover", DAMAGED, "--home", home, "--undo")
    assert (code, "Run again with --yes to undo it" in out) == (1, True)
    assert damaged_log.read_bytes() == recovered
    code, out, _ = turnlog("recover", DAMAGED, "--home", home, "--undo", "--yes", "--json")
    found = fits("recover-undo", out)
    assert (code, found["written"], len(found["restored"])) == (0, True, 1)
    assert damaged_log.read_bytes() == before
    code, out, _ = turnlog("recover", DAMAGED, "--home", home, "--undo", "--yes")
    assert (code, "nothing to undo" in out) == (1, True)


def test_an_undo_that_something_depends_on_is_a_mistake(turnlog, home, damaged_log):
    turnlog("recover", DAMAGED, "--home", home, "--yes")
    damaged_log.write_bytes(damaged_log.read_bytes()[5:])
    code, _, err = turnlog("recover", DAMAGED, "--home", home, "--undo", "--yes")
    assert (code, "cannot be undone" in err, "hint:" in err) == (2, True, True)


def test_an_undo_needs_a_session(turnlog, home):
    code, _, err = turnlog("recover", "--undo", "--home", home)
    assert (code, "needs a session" in err) == (2, True)


def test_every_kind_of_damage_to_the_thread_is_shown(turnlog, home):
    """A lost result, a missing parent, a null parent in mid-log and a ring."""
    log = home / "projects" / "-kites" / f"{TANGLED}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(
        log_of(
            record("a"),
            answer("b", "a", "m", call("c1")),
            answer("c", "b", "m", call("c2")),
            result("d", "b", "c1"),
            record("e", "gone"),
            answer("f", None, "n"),
            record("g", "i"),
            record("h", "g"),
            record("i", "h"),
            record("j", "i"),
        )
    )
    code, out, _ = turnlog("recover", TANGLED, "--home", home)
    assert code == 1
    for words in (
        "1 missing parent to replace",
        "1 lost result to replace",
        "1 parent cycle to link",
        "1 record without a parent in mid-log to link",
    ):
        assert words in out
    code, out, _ = turnlog("recover", TANGLED, "--home", home, "--yes")
    assert (code, "1 lost result replaced" in out) == (0, True)
    code, out, _ = turnlog("recover", TANGLED, "--home", home)
    assert (code, "Nothing to recover" in out) == (0, True)


def test_a_prompt_without_a_parent_may_be_meant(turnlog, home):
    log = home / "projects" / "-kites" / f"{TANGLED}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(log_of(record("a"), answer("b", "a", "m"), record("c"), answer("d", "c", "n")))
    code, out, _ = turnlog("recover", TANGLED, "--home", home)
    assert (code, "on purpose" in " ".join(out.split())) == (1, True)
