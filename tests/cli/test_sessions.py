"""``turnlog sessions``, ``show`` and ``info``, run as a person runs them."""

import json
import os
from pathlib import Path

import jsonschema
import pytest

WHOLE = "11111111-aaaa-4aaa-8aaa-111111111111"
DAMAGED = "22222222-bbbb-4bbb-8bbb-222222222222"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SAMPLES = Path(__file__).parents[2] / "samples" / "claude"


def test_sessions_are_listed_newest_first(turnlog):
    code, out, _ = turnlog("sessions", "--home", SAMPLES)
    assert code == 0
    rows = out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["0b29ae83", "2d3f0bf3", "f38b2ffc", "123544bf"]
    assert "Frost alert sent at noon +1 agent" in rows[2]


def test_the_list_is_cut_and_says_how_to_go_on(turnlog):
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--limit", "3")
    assert "1 more; go on with --offset 3" in out
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--limit", "3", "--offset", "3")
    assert "123544bf" in out
    assert "0b29ae83" not in out


def test_a_project_keeps_its_own_sessions(turnlog):
    _, out, _ = turnlog("sessions", "--home", SAMPLES, "--project", "/home/ada/orchard")
    assert "2d3f0bf3" in out
    assert "0b29ae83" not in out
    _, below, _ = turnlog("sessions", "--home", SAMPLES, "--project", "/home/ada")
    assert "0b29ae83" in below


def test_no_sessions_is_an_answer_with_a_hint(turnlog):
    code, out, _ = turnlog("sessions")
    assert code == 1
    assert "hint: " in out


@pytest.mark.parametrize(
    ("command", "schema"), [(("sessions",), "sessions"), (("info", "2222"), "info")]
)
def test_json_is_one_document_that_fits_its_schema(turnlog, home, command, schema):
    code, out, err = turnlog(*command, "--home", home, "--json")
    assert code == 0
    assert not err
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8")))


def test_a_session_in_json_has_what_the_house_promises(turnlog, home):
    _, out, _ = turnlog("sessions", "--home", home, "--json")
    document = json.loads(out)
    assert document["next"] is None
    for row in document["sessions"]:
        assert {
            "id",
            "project",
            "title",
            "started_at",
            "last_active_at",
            "records",
            "state",
            "keeping",
            "home",
        } <= set(row)
    assert {row["id"] for row in document["sessions"]} == {WHOLE, DAMAGED}


def test_show_reads_like_a_conversation(turnlog):
    code, out, _ = turnlog("show", "2d3f", "--home", SAMPLES)
    assert code == 0
    assert out.index("Let us design") < out.index("was summarised") < out.index("Go on, write it")
    assert "Bash head -3 data/yields.csv →" in out
    assert "✗ ModuleNotFoundError" in out


def test_the_main_thread_begins_at_the_last_compaction(turnlog):
    _, out, _ = turnlog("show", "2d3f", "--home", SAMPLES, "--thread", "main")
    assert "Let us design" not in out
    assert "Go on, write it" in out


def test_thinking_is_shown_when_asked_for(turnlog):
    assert "degree days, last three years" not in turnlog("show", "2d3f", "--home", SAMPLES)[1]
    _, out, _ = turnlog("show", "2d3f", "--home", SAMPLES, "--thinking")
    assert "degree days, last three years" in out


def test_agents_are_shown_when_asked_for(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--agents")
    assert "agent a3f09c1 Find callers of sunrise" in out
    assert "Reykjavík" in out


def test_raw_gives_the_logs_own_lines(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    assert turnlog("show", "1111", "--home", home, "--raw")[1].encode() == log.read_bytes()


def test_the_last_records_come_without_the_rest(turnlog):
    _, out, _ = turnlog("show", "f38b", "--home", SAMPLES, "--last", "4")
    assert "It has the same fault" in out
    assert "frost alert goes out" not in out


def test_a_call_that_nobody_answered_was_interrupted(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    block = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "make"}}
    message = {"role": "assistant", "content": [block]}
    asked = {"type": "assistant", "uuid": "a", "parentUuid": "u-one", "message": message}
    log.write_bytes(log.read_bytes() + json.dumps(asked | {"sessionId": WHOLE}).encode() + b"\n")
    assert "Bash make → no result: interrupted" in turnlog("show", "1111", "--home", home)[1]


def test_what_a_log_says_cannot_steer_the_terminal(turnlog, home):
    (log,) = home.rglob("1111*.jsonl")
    message = {"role": "user", "content": "a\x1b[2Jb \u202e[red]c[/red]"}
    evil = {"type": "user", "uuid": "e", "parentUuid": None, "message": message}
    log.write_bytes(json.dumps(evil | {"sessionId": WHOLE}).encode() + b"\n")
    for command in ("show", "info"):
        _, out, _ = turnlog(command, "1111", "--home", home)
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "[red]c[/red]" in turnlog("show", "1111", "--home", home)[1]


def test_info_tells_what_is_known(turnlog):
    _, out, _ = turnlog("info", "f38b", "--home", SAMPLES)
    assert "Frost alert sent at noon" in out
    assert "2 turns, 0 branchings" in out
    assert "a3f09c1 Find callers of sunrise by result" in out


def test_an_unknown_session_is_the_callers_mistake(turnlog, home):
    for command in ("show", "info"):
        code, out, err = turnlog(command, "ffff", "--home", home)
        assert code == 2
        assert not out
        assert "hint: " in err


def test_fork_makes_a_new_session_and_leaves_the_old_one(turnlog, home, tmp_path):
    (old,) = home.rglob("1111*.jsonl")
    before = old.read_bytes()
    code, out, _ = turnlog("fork", "1111", "--home", home, "--into", tmp_path / "own", "--json")
    assert code == 0
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / "fork.json").read_text("utf-8")))
    assert (document["forked_from"], document["records"]) == (WHOLE, 1)
    assert old.read_bytes() == before
    _, shown, _ = turnlog("show", document["id"][:8], "--home", tmp_path / "own")
    assert "one" in shown


def test_a_fork_goes_to_turnlogs_own_home_unless_told(turnlog, home, tmp_path):
    code, out, _ = turnlog("fork", "1111", "--home", home, TURNLOG_HOME=str(tmp_path / "kept"))
    assert code == 0
    assert "with 1 record" in out
    assert len(list((tmp_path / "kept").rglob("*.jsonl"))) == 1


def test_a_fork_at_a_record_that_is_not_there_writes_nothing(turnlog, home, tmp_path):
    code, _, err = turnlog(
        "fork", "1111", "--home", home, "--at", "zzz", "--into", tmp_path / "own"
    )
    assert code == 2
    assert "hint: " in err
    assert not list(tmp_path.glob("own/**/*"))


def test_a_session_that_runs_says_so(turnlog, home):
    pids = home / "sessions"
    pids.mkdir()
    said = {"pid": os.getpid(), "sessionId": WHOLE, "status": "busy\x1b[2J"}
    (pids / f"{os.getpid()}.json").write_text(json.dumps(said))
    _, out, _ = turnlog("sessions", "--home", home)
    assert "● busy" in out
    assert "\x1b[2J" not in out
    rows = json.loads(turnlog("sessions", "--json", "--home", home)[1])["sessions"]
    assert {row["id"]: row["running"] for row in rows}[WHOLE] == "busy\x1b[2J"
    _, out, _ = turnlog("info", WHOLE, "--home", home)
    assert "busy" in out
