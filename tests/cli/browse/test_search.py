"""The search command: what people see, what scripts read, what is asked wrongly."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from unittest import mock
from urllib.parse import unquote

import pytest

from cli.screens import Home, Terminal
from search.search_world import ONE, THREE, World, make_world
from turnlog.cli.app import run


@pytest.fixture
def home(tmp_path):
    world = make_world()
    world.prompt("\x1b[31mred\u202e alert \ud83c\udf89")
    world.write(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def search(turnlog, home, tmp_path):
    def run(*arguments, **environ):
        environ = {"TURNLOG_HOME": str(tmp_path / "own")} | environ
        return turnlog("search", "--home", home, *arguments, **environ)

    return run


def test_hits_stand_under_their_session(search):
    code, out, err = search("retry", "loop")
    assert (code, err) == (0, "")
    heads = [line for line in out.splitlines() if line[:8] in (ONE[:8], THREE[:8])]
    assert sorted(head.split()[0] for head in heads) == [ONE[:8], THREE[:8]]
    assert "orchard" in out
    assert "  2026-11-01 11:00 prompt\n" in out
    assert "fix the retry loop, please: it never backs off" in out
    assert "hint" not in out
    lines = [line for line in out.splitlines() if "turnlog show" not in line]  # To copy.
    assert all(len(line) <= 80 for line in lines)


def test_commands_repeat_the_home_if_it_was_given(turnlog, home, tmp_path):
    own = {"TURNLOG_HOME": str(tmp_path / "own"), "CLAUDE_CONFIG_DIR": str(home)}
    _, out, _ = turnlog("search", "retry", "--home", home, **own)
    assert commands(out)
    assert all(words[-2:] == ["--home", str(home)] for words in commands(out))
    _, out, _ = turnlog("search", "retry", **own)
    assert commands(out)
    assert not any("--home" in words for words in commands(out))


def test_a_misspelled_filter_is_explained(search):
    _, _, err = search("tol:Bash expone")
    assert "note: tol:Bash is searched for as a word: did you mean tool:Bash?" in err
    for text in ("std::tol", "http://tool", "retry:", "10:30"):
        assert "did you mean" not in search(text, "loop")[2]


def commands(out):
    """Give the commands that were printed, each split into words."""
    found = re.findall(r"  turnlog (.*)$", out, re.MULTILINE)
    return [shlex.split(each) for each in found]


@pytest.mark.parametrize(
    "arguments",
    [["backs", "off"], ["--flat", "--results", "retry OR loop OR juice OR running"]],
)
def test_every_hit_has_the_command_that_opens_it(search, turnlog, home, arguments):
    document = json.loads(search(*arguments, "--json")[1])
    found = commands(search(*arguments)[1])
    assert len(found) == len(document["hits"]) > 0
    shown = {}
    for words in found:
        assert [len(words[1]), len(words[3])] == [8, 8]
        code, out, err = turnlog(*words, "-C0", "--home", home)
        assert (code, err) == (0, "")
        shown[words[3]] = out
    for hit in document["hits"]:
        place = " ".join(shown[hit["uuid"][:8]].replace("┃", " ").split())
        begin, end = hit["highlights"][0]
        assert hit["snippet"][begin:end] in place
        assert hit["uuid"] in place


def test_an_id_is_as_long_as_it_must_be(turnlog, tmp_path):
    world = World()
    alike = [f"1234567{each}-aaaa-4aaa-8aaa-000000000000" for each in "88"]
    alike[1] = alike[1][:10] + "b" + alike[1][11:]
    for session in (*alike, "12345678"):
        world.prompt("a kite", session=session)
    place, first = next(iter(world.lines.items()))
    record = json.loads(first[0]) | {"message": {"role": "user", "content": "a balloon"}}
    own = record["uuid"]
    world.lines[place].append(json.dumps(record | {"uuid": own[:-1] + "f"}))
    world.write(tmp_path / "home")
    _, out, _ = turnlog("search", "--home", tmp_path / "home", "kite OR balloon", "--flat")
    found = commands(out)
    names = {words[1] for words in found}
    assert names == {alike[0][:11], alike[1][:11], "12345678"}
    assert {words[3] for words in found if words[1] == alike[0][:11]} == {own, own[:-1] + "f"}
    for words in found:
        assert turnlog(*words, "--home", tmp_path / "home")[0] == 0


def test_what_is_not_in_a_log_has_a_command_too(tmp_path):
    home = Home(tmp_path / "ada")
    for kind, command, text in (
        ("plan", "plans", "2. Degree days"),
        ("todo", "todos", "Oil the lamp"),
        ("history", "prompts", "Explain what lamp.c does."),
    ):
        found = commands(home.screen("search", f"type:{kind}")[1])
        assert {words[0] for words in found} == {command}
        shown = [home.screen(*words) for words in found]
        assert [code for code, _, _ in shown] == [0] * len(found)
        assert any(text in out for _, out, _ in shown)


def test_what_has_no_uuid_and_what_is_gone_is_opened_too(tmp_path):
    home = Home(tmp_path / "ada")
    for is_gone in (False, True):
        if is_gone:
            home.do("keep")
            home.do("rm", "f38b")
        for text in ("title", "note", "prompt"):
            _, out, _ = home.screen("search", "session:f38b", f"type:{text}", "--flat")
            assert commands(out)
            for words in commands(out):
                code, shown, _ = home.screen(*words)
                assert code == 0
                assert f" {text}  {words[3]}" in shown


def test_a_command_that_does_not_fit_has_a_line_of_its_own(turnlog, tmp_path):
    world = World()
    world.answer(("mcp__a_server__with_a_very_long_name_for_a_tool", None, "fly a kite"))
    world.write(tmp_path / "home")
    _, out, _ = turnlog("search", "--home", tmp_path / "home", "kite")
    label, command, text = out.splitlines()[1:]
    assert label.endswith("_for_a_tool")
    assert command.startswith("    turnlog show 11111111 --at ")
    assert text == "    fly a kite"


LINK = re.compile(r"\x1b\]8;id=([\w-]+);file://([^/]*)(/[^\x1b]+)\x1b\\(.*?)\x1b\]8;;\x1b\\")


def test_labels_are_links_at_a_terminal_that_has_them(home, tmp_path):
    def links(**environ):
        out = Terminal()
        environ = {"TURNLOG_HOME": str(tmp_path / "own"), "PATH": "", "PAGER": "cat"} | environ
        with mock.patch.dict(os.environ, environ, clear=True), redirect_stdout(out):
            run(["search", "--home", str(home), "--all-words", "backs off"])
        assert out.text().count("\x1b]8;") == 2 * len(LINK.findall(out.text()))
        return LINK.findall(out.text())

    session, label = links(TERM="xterm")
    (log,) = home.rglob(f"{ONE}.jsonl")
    for own, host, path, _ in (session, label):
        assert (host, unquote(path)) == (os.uname().nodename, str(log))
        assert own.startswith(ONE)
    assert session[0] != label[0]
    assert [ONE[:8] in session[3], "prompt" in label[3]] == [True, True]
    for environ in ({"TERM": "dumb"}, {"TERM": "linux"}, {}):
        assert not links(**environ)
    assert not links(TERM="xterm", FORCE_HYPERLINK="0")


def test_json_is_one_document(search):
    code, out, err = search("--json", "std::vector")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert set(document) == {"hits", "next", "notes", "in_results"}
    (hit,) = document["hits"]
    assert hit["session"] == THREE
    assert hit["at"] == "2026-11-02T03:00:00Z"
    begin, end = hit["highlights"][0]
    assert hit["snippet"][begin:end] == "std::vector"
    with open(hit["log"], "rb") as log:
        log.seek(hit["offset"])
        assert json.loads(log.read(hit["length"]))["uuid"] == hit["uuid"]


def test_nothing_found_is_told_with_a_way_on(search):
    code, out, _ = search("zebra")
    assert code == 1
    assert out.startswith("Nothing found.\nhint: --exact also matches parts of words")
    assert "hint: --results" in search("--all-words", "zebra")[1]
    code, out, _ = search("--json", "zebra")
    assert (code, json.loads(out)) == (
        1,
        {"hits": [], "next": None, "notes": [], "in_results": None},
    )


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        (["--results", "running"], ["result"]),
        (["running"], ["result"]),
        (["--all-words", "running"], []),
        (["--exact", "ackoff to the"], ["response"]),
        (["--regex", r"push_\w+\(x"], ["prompt"]),
        (["--", "-the", "juice"], ["response", "call"]),
        (["tool:Edit"], ["call"]),
        (["--since", "2026-11-02T04:30Z", "--until", "2026-11-02T05:30Z"], ["prompt"]),
        (["--project", "/home/ada/tools", "apples"], ["prompt", "response"]),
        (["expone"], ["response"]),
    ],
)
def test_options(search, arguments, kinds):
    code, out, _ = search("--json", *arguments)
    assert sorted(hit["kind"] for hit in json.loads(out)["hits"]) == sorted(kinds)
    assert code == (0 if kinds else 1)


def test_pages_and_sessions_without_a_bound(search):
    document = json.loads(search("--json", "--limit", "2", "loop")[1])
    assert len(document["hits"]) == document["next"] == 2
    _, out, _ = search("--limit", "2", "loop")
    assert "use --offset 2" in out
    bounded = json.loads(search("--json", "retry OR loop")[1])["hits"]
    everything = json.loads(search("--json", "--flat", "retry OR loop")[1])["hits"]
    assert len(everything) > len(bounded)
    assert "more: session:" in search("retry OR loop")[1]


def test_lines_around_a_hit(search):
    _, out, _ = search("--exact", "--results", "-C", "1", "retry ... ok")
    lines = [line.strip() for line in out.splitlines()]
    assert "running 3 tests" in lines
    assert "loop ok" in lines
    shown = next(line for line in lines if "retry ... ok" in line)
    assert lines.index("running 3 tests") < lines.index(shown)


@pytest.mark.parametrize(
    "arguments",
    [[], ["  "], ["--regex", "("], ["--exact", "--regex", "x"], ["--since", "whenever", "x"],
     ["--limit", "-1", "x"], ["-C", "-1", "x"]],
)  # fmt: skip
def test_mistakes_are_told(search, arguments):
    code, out, err = search(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err


def test_text_from_logs_is_harmless(search):
    _, out, _ = search("alert")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "␛[31mred" in out


def test_matches_in_tool_output_are_counted(search):
    _, out, _ = search("retry")
    assert out.endswith(" more in tool output: --results\n")
    assert "more in tool output" not in search("--results", "retry")[1]


def test_notes_go_beside_the_hits(search):
    code, out, err = search("tool: expone")
    assert code == 0
    assert "note: tool: is searched for as a word" in err
    assert "note:" not in out


def test_a_search_imports_nothing_heavy(home, tmp_path):
    code = (
        "import sys; from turnlog.cli.app import run\n"
        f"run(['search', '--home', {str(home)!r}, 'retry'])\n"
        "heavy = ['rich', 'asyncio', 'sqlite3.dump', 'turnlog.pricing.table', 'genai_prices',"
        " 'regex']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"TURNLOG_HOME": str(tmp_path / "own"), "PATH": ""},
    )
    assert done.stdout.splitlines()[-1] == "[]"
