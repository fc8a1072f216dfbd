"""Tools and models are found by the names that people type, or the nearest are told."""

import json

import pytest

SESSION = "44444444-dddd-4ddd-8ddd-444444444444"


@pytest.fixture
def called(tmp_path):
    """A home in which Bash was called, and failed."""
    usage = {"input_tokens": 100, "output_tokens": 20}
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    said = {"role": "assistant", "id": "m1", "model": "claude-sonnet-4-6", "usage": usage}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no pears", "is_error": True}
    told = {"sessionId": SESSION, "cwd": "/srv/pears", "timestamp": "2026-07-20T10:00:00.000Z"}
    records = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "prune"}},
        {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "message": said},
        {"type": "user", "uuid": "u3", "parentUuid": "u2"},
    ]
    records[1]["message"] |= {"content": [call]}
    records[2]["message"] = {"role": "user", "content": [failed]}
    folder = tmp_path / "called" / "projects" / "-srv-pears"
    folder.mkdir(parents=True)
    text = "".join(json.dumps(told | record) + "\n" for record in records)
    (folder / f"{SESSION}.jsonl").write_text(text)
    return tmp_path / "called"


ASKED = [("sessions", "--tool", "{}"), ("errors", "--tool", "{}"), ("query", "tools", "tool={}")]


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
@pytest.mark.parametrize("tool", ["Bash", "bash", "BASH"])
def test_a_tool_is_found_whatever_its_capitals(turnlog, called, words, tool):
    code, out, _ = turnlog(*(word.format(tool) for word in words), "--home", called, "--json")
    assert code == 0
    assert "44444444" in out or "no pears" in out


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_a_tool_that_nobody_called_is_told_with_the_nearest(turnlog, called, words):
    code, out, err = turnlog(
        *(word.format("bahs") for word in words), "--home", called, COLUMNS="200"
    )
    assert code == 1
    assert "no tool is called 'bahs'; did you mean Bash?" in out + err


@pytest.mark.parametrize("words", [("sessions",), ("cost",)], ids=" ".join)
def test_a_model_that_nobody_asked_is_told_with_the_nearest(turnlog, called, words):
    code, out, _ = turnlog(*words, "--model", "sonet", "--home", called, COLUMNS="200")
    assert code == 1
    assert "hint: no model is called 'sonet'; did you mean claude-sonnet-4-6?" in out
    early = ("--until", "2025-01-01", "--model", "sonnet")
    code, out, _ = turnlog(*words, *early, "--home", called, COLUMNS="200")
    assert (code, "leave out --until or --model" in out) == (1, True)
