"""A pipe has no width: nothing is cut, nothing wrapped, nothing padded, and a title is one line."""

import json
import os
import subprocess
import sys

import pytest

from cli.conftest import WHOLE, prompt
from cli.screens import Home, Pipe

SESSION = "c4a7e001-5a52-4c11-9a3d-2f6f0d0c4b00"
PROJECT = "/home/ada/a-project-whose-name-is-long-enough-to-be-cut"
BRANCH = "feature/a-branch-whose-name-goes-on-as-well"
MODEL = "claude-opus-4-5-of-a-kind-that-nobody-knows"
TITLE = " ".join(f"word{number}" for number in range(60)) + " END"
TOLD = " ".join(f"say{number}" for number in range(200)) + " DONE"


def spoken(kind, at, message, **more):
    fields = {"uuid": f"{kind}-{at}", "parentUuid": None, "sessionId": SESSION, "cwd": PROJECT}
    fields |= {"timestamp": f"2026-11-01T10:00:0{at}.000Z", "gitBranch": BRANCH}
    return fields | {"type": kind, "message": message} | more


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a session of which everything is long, and the title has several lines."""
    home = Home(tmp_path_factory.mktemp("pipes") / "ada")
    broken = TITLE.replace("word1 ", "word1\n").replace("word2 ", "word2\t\r\n")
    usage = {"input_tokens": 5, "output_tokens": 7}
    said = {"id": "m1", "type": "message", "role": "assistant", "model": MODEL, "usage": usage}
    records = [
        spoken("user", 1, {"role": "user", "content": TOLD}),
        spoken(
            "assistant",
            2,
            said | {"content": [{"type": "text", "text": "Yes."}]},
            parentUuid="user-1",
        ),
        {"type": "custom-title", "customTitle": broken, "sessionId": SESSION},
    ]
    log = home.claude / "projects" / "-home-ada-a-project" / f"{SESSION}.jsonl"
    log.parent.mkdir()
    log.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    typed = {"display": TOLD, "timestamp": 1793527200000, "project": PROJECT}
    with (home.claude / "history.jsonl").open("a") as history:
        history.write(f"{json.dumps(typed | {'sessionId': SESSION, 'pastedContents': {}})}\n")
    return home


def piped(home, *words):
    """Run a command with its output in a pipe; give that, byte for byte."""
    pipe = Pipe()
    home.screen(*words, columns=None, stdout=pipe)
    return pipe.text()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", (TITLE, BRANCH, "a-project-whose-name-is-long-enough-to-be-cut")),
        ("sessions", (TITLE, BRANCH, MODEL.removeprefix("claude-"))),
        ("sessions --wide", (TITLE, BRANCH, "a-project-whose-name-is-long-enough-to-be-cut")),
        ("sessions --sort tokens", (TITLE,)),
        ("projects", (PROJECT, MODEL.removeprefix("claude-"))),
        ("query messages", (TOLD,)),
        ("query messages --by project", (PROJECT,)),
        ("prompts", ("a-project-whose-name-is-long-enough-to-be-cut", TOLD)),
        ("cost session", (TITLE,)),
        ("cost project", (PROJECT,)),
        ("search say7", (TITLE,)),
        ("resume", (TITLE,)),
        (f"show {SESSION}", (TOLD,)),
        ("insights --since 30d", (PROJECT, MODEL.removeprefix("claude-"))),
        ("watch --since 2026-11-01 --limit 1", ("a-project-whose-name-is-long-enough-to-be-cut",)),
    ],
)
def test_nothing_is_cut(home, words, wanted):
    lines = piped(home, *words.split()).splitlines()
    for text in wanted:
        assert any(text in line for line in lines), text


@pytest.mark.parametrize(
    "words",
    [
        "", "sessions", "sessions --wide", "projects", "query messages", "errors", "prompts",
        "todos", "plans", "cost", "cost session", "cost --by day,model", "search say7", "resume",
        "insights --since 30d", "prices claude-opus-4-5", "doctor", "check",
    ],
)  # fmt: skip
def test_no_line_ends_in_spaces(home, words):
    lines = piped(home, *words.split()).splitlines()
    assert lines
    assert [line for line in lines if line != line.rstrip()] == []


def test_kept_and_deleted_sessions_are_whole_as_well(tmp_path, home):
    other = Home(tmp_path / "ada")
    log = next(home.claude.rglob(f"{SESSION}.jsonl"))
    place = other.claude / "projects" / log.parent.name / log.name
    place.parent.mkdir()
    place.write_bytes(log.read_bytes())
    other.do("keep")
    assert "6 kept sessions in place" in piped(other, "restore")
    other.do("delete", SESSION, "--yes")
    assert TITLE in piped(other, "restore")
    assert TITLE in piped(other, "trash")


def test_columns_say_how_wide_a_pipe_is(home):
    environ = {"COLUMNS": "60", "TURNLOG_HOME": str(home.path / ".turnlog")}
    command = [sys.executable, "-c", "from turnlog.cli import main; main()", "sessions", "--home"]
    for more, is_cut in ((environ, True), (environ | {"COLUMNS": ""}, False)):
        out = subprocess.check_output(
            [*command, home.claude], env=os.environ | {"PYTHONUTF8": "1"} | more, text=True
        )
        assert (TITLE in out) is not is_cut
        assert (max(map(len, out.splitlines())) <= 60) is is_cut


@pytest.mark.parametrize("columns", [80, 200])
def test_a_title_of_several_lines_is_one_on_a_screen(home, columns):
    _, out, _ = home.screen("sessions", columns=columns)
    assert "word0 word1 word2 word3" in out
    assert max(map(len, out.splitlines())) <= columns


@pytest.mark.parametrize(
    "words",
    [
        ("show", WHOLE, "--json"),
        ("sessions", "--json"),
        ("search", "apple", "--json"),
        ("query", '{"resource": "messages", "output": {"format": "jsonl"}}'),
    ],
    ids=" ".join,
)
def test_json_steers_no_terminal(turnlog, tmp_path, words):
    text = "apple \u202e\u2066\x9b31m\x7f\u200b\ufeff"
    home = tmp_path / "home"
    log = home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(prompt(WHOLE, text) + b"\n")
    _, out, _ = turnlog(*words, "--home", home)
    assert "apple" in out
    assert out.replace("\n", "").isprintable()
    for document in out.splitlines() if "jsonl" in words else [out]:
        assert json.loads(document)
