"""Lists have columns, within the terminal; what is longer is cut or goes on below its beginning."""

import io
import json
import re

import pytest
from rich.console import Console

from cli.screens import Home
from turnlog.cli.terminal.console import show_value

SESSION = "c4a7e001-5a52-4c11-9a3d-2f6f0d0c4b00"
DEEP = "/home/ada/" + "a-directory/" * 9
BRANCH = "feature/a-branch-whose-name-goes-on"
ABOUT = "A title that is longer than forty characters, though not so very long"
TITLE = " ".join(f"word{number}" for number in range(40))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a session that edited two files, one of them far away, and plans."""
    home = Home(tmp_path_factory.mktemp("columns") / "ada")
    common = {"sessionId": SESSION, "cwd": "/home/ada", "timestamp": "2026-11-01T10:00:00.000Z"}
    common |= {"gitBranch": BRANCH}
    usage = {"input_tokens": 5, "output_tokens": 7}
    message = {"role": "user", "content": "Go on."}
    records = [{"type": "user", "uuid": "u0", "parentUuid": None, "message": message, **common}]
    for number, name in enumerate((DEEP + "pear.py", "/home/ada/plum.py") * 6):
        called = {"type": "tool_use", "id": f"c{number}", "name": "Write"}
        called["input"] = {"file_path": name, "content": "one\ntwo\n"}
        said = {"role": "assistant", "id": f"m{number}", "content": [called]}
        said |= {"model": "claude-opus-4-5", "usage": usage}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "ok"}
        answer = {"role": "user", "content": [result]}
        done = {"type": "create", "filePath": name, "content": "one\ntwo\n", "structuredPatch": []}
        asked, told = f"a{number}", f"r{number}"
        records += [
            {"type": "assistant", "uuid": asked, "parentUuid": records[-1]["uuid"]}
            | {"message": said}
            | common,
            {"type": "user", "uuid": told, "parentUuid": asked, "toolUseResult": done}
            | {"message": answer}
            | common,
        ]
    records.append({"type": "custom-title", "customTitle": ABOUT, "sessionId": SESSION})
    log = home.claude / "projects" / "-home-ada" / f"{SESSION}.jsonl"
    log.parent.mkdir()
    log.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    (home.claude / "plans" / "long-winded.md").write_text(f"# {TITLE}\n")
    return home


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", [f"files {SESSION[:8]}", "plans"])
def test_figures_stand_below_their_names(home, words, columns):
    _, out, _ = home.screen(*words.split(), columns=columns)
    head, *rows = out.splitlines()
    assert len(rows) == 2
    assert max(map(len, rows)) <= columns
    first = re.search(r"edits|versions", head).end()
    assert all(re.match(r" \d+$", row[:first][-2:]) for row in rows)


def test_a_path_is_cut_where_paths_are_alike(home):
    _, out, _ = home.screen("files", SESSION, columns=80)
    assert re.search(r"^…\S+/pear\.py +6 +12 +0$", out, re.MULTILINE)


@pytest.mark.parametrize("words", ["sessions", "sessions --wide", "cost session"])
def test_nothing_is_cut_while_there_is_room(home, words):
    _, out, _ = home.screen(*words.split(), columns=200)
    line = next(line for line in out.splitlines() if line.startswith(SESSION[:8]))
    assert ABOUT in line
    assert (BRANCH in line) is words.startswith("sessions")


def test_a_long_title_leaves_room_for_a_branch(home):
    home.do("rename", SESSION, TITLE)
    _, out, _ = home.screen("sessions", columns=200)
    home.do("rename", SESSION, ABOUT)
    line = next(line for line in out.splitlines() if line.startswith(SESSION[:8]))
    assert BRANCH in line
    assert len(line) == 200


def test_a_long_value_goes_on_below_itself():
    out = Console(file=io.StringIO(), width=30, highlight=False)
    show_value(out, "cost", "twelve thousand tokens in, many more out")
    lines = [line.rstrip() for line in out.file.getvalue().splitlines()]
    assert lines == [
        " cost      twelve thousand",
        " " * 11 + "tokens in, many",
        " " * 11 + "more out",
    ]
