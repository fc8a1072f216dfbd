"""The search command: what people see, what scripts read, what is asked wrongly."""

import json
import subprocess
import sys

import pytest

from search.search_world import ONE, THREE, make_world


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
    heads = [line for line in out.splitlines() if line and not line.startswith((" ", "hint", "…"))]
    assert {head.split()[0] for head in heads} == {ONE[:8], THREE[:8]}
    assert "orchard" in out
    assert "  2026-11-01 11:00 prompt\n" in out
    assert "fix the retry loop, please: it never backs off" in out
    assert out.splitlines()[-1].startswith("hint: turnlog show ")
    assert all(len(line) <= 80 for line in out.splitlines())


def test_the_hint_opens_a_hit(search, turnlog, home):
    _, out, _ = search("backs off")
    command = out.splitlines()[-1].removeprefix("hint: turnlog ").split(" shows ")[0].split()
    code, shown, err = turnlog(*command, "--home", home)
    assert (code, err) == (0, "")
    assert "backs off" in shown


def test_json_is_one_document(search):
    code, out, err = search("--json", "std::vector")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert set(document) == {"hits", "next", "notes"}
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
    assert out.startswith("Nothing found.\nhint: --results")
    code, out, _ = search("--json", "zebra")
    assert (code, json.loads(out)) == (1, {"hits": [], "next": None, "notes": []})


@pytest.mark.parametrize(
    ("arguments", "kinds"),
    [
        (["--results", "running"], ["result"]),
        (["running"], []),
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
    everything = json.loads(search("--json", "--all-hits", "retry OR loop")[1])["hits"]
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


def test_notes_go_beside_the_hits(search):
    code, out, err = search("tool: expone")
    assert code == 1
    assert "note: tool: is searched for as a word" in err
    assert "note" not in out


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
