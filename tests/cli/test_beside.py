"""``turnlog todos``, ``plans``, ``prompts`` and ``files``, run as a person runs them."""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest

from sessions.homes import delta, edit, kept, log, make_home, prompt, snapshot, write

ID = "44444444-dddd-4ddd-8ddd-444444444444"
GONE = "55555555-eeee-4eee-8eee-555555555555"
PROJECT = "/home/ada/orchard"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
EVIL = "a\x1b[2Jb \u202e[red]c[/red]"


def line(text, ms, **more):
    fields = {"display": text, "pastedContents": {}, "timestamp": ms, "project": PROJECT}
    return json.dumps(fields | {"sessionId": ID} | more) + "\n"


@pytest.fixture
def home(tmp_path):
    home = make_home(tmp_path)
    patch = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+two"]}
    log(
        home,
        ID,
        snapshot("m1", {"a.py": kept("aa@v1")}),
        prompt("m1", slug="calm-river"),
        *edit("e1", "m1", f"{PROJECT}/a.py", structuredPatch=[patch]),
        delta("m1", "new.py", kept(None)),
        *edit("e2", "e1", f"{PROJECT}/only-edited.py", structuredPatch=[patch]),
        snapshot("m2", {"a.py": kept("aa@v2", 2), "new.py": kept("bb@v2", 2)}),
        prompt("m2", "e2"),
    )
    write(home, f"file-history/{ID}/aa@v1", "one\n")
    write(home, f"file-history/{ID}/aa@v2", "two\n")
    write(home, f"file-history/{ID}/bb@v2", "new\n")
    todos = [{"content": "Prune", "status": "in_progress"}, {"content": "Water"}]
    write(home, f"todos/{ID}-agent-{ID}.json", todos)
    write(home, f"todos/{GONE}-agent-{GONE}.json", [{"content": "Left over"}])
    write(home, f"todos/{GONE}-agent-a1.json", [])
    write(home, f"tasks/{ID}/1.json", {"id": "1", "subject": "Dig", "status": "completed"})
    write(home, "plans/calm-river.md", "# Prune the orchard\n\nDead wood first.\n")
    write(home, "history.jsonl", line("one", 1_793_527_200_000) + line("frost", 1_793_527_260_000))
    return home


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        (("todos",), "todos"),
        (("plans",), "plans"),
        (("plans", "calm"), "plans"),
        (("prompts",), "prompts"),
        (("files", "4444"), "files"),
        (("files", "4444", "a.py", "--at", "m1"), "files"),
        (("files", "4444", "--diff"), "files"),
        (("files", "4444", "--restore", "out"), "files"),
    ],
)
def test_json_is_one_document_that_fits_its_schema(turnlog, home, command, schema):
    code, out, err = turnlog(*command, "--home", home.path, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8")))
    assert schema in document
    assert document["next"] is None


def test_todos_show_lists_tasks_and_what_is_lost(turnlog, home):
    code, out, _ = turnlog("todos", "--home", home.path)
    assert code == 0
    assert "▸ Prune" in out
    assert "· Water" in out
    assert "1 ✓ Dig" in out
    assert "55555555" in out
    assert "(its session has no log)" in out
    assert "a1" not in out


def test_todos_of_one_session_and_of_one_that_has_no_log(turnlog, home):
    _, out, _ = turnlog("todos", "latest", "--home", home.path)
    assert "Prune" in out
    assert "Left over" not in out
    _, out, _ = turnlog("todos", "5555", "--home", home.path, "--all")
    assert "Left over" in out
    assert "subagent a1" in out
    code, _, err = turnlog("todos", "6666", "--home", home.path)
    assert code == 2
    assert "hint: " in err


def test_lists_without_a_log_are_marked(turnlog, home):
    _, out, _ = turnlog("todos", "--home", home.path, "--json")
    lost = [(row["session"], row["lost"]) for row in json.loads(out)["todos"] if row["lost"]]
    assert lost == [(GONE, "session")]


def test_a_list_that_is_no_json_is_told_and_found_wrong(turnlog, home):
    write(home, f"todos/{ID}-agent-{ID}.json", b"{oops")
    code, out, _ = turnlog("todos", "4444", "--home", home.path)
    assert code == 1
    assert "not JSON" in out


def test_todos_are_cut_into_pages(turnlog, home):
    _, out, _ = turnlog("todos", "--home", home.path, "--limit", "1", "--json")
    assert json.loads(out)["next"] == 1
    _, out, _ = turnlog("todos", "--home", home.path, "--limit", "1", "--offset", "1", "--json")
    assert json.loads(out)["next"] is None


def test_plans_are_listed_and_one_is_shown(turnlog, home):
    code, out, _ = turnlog("plans", "--home", home.path)
    assert code == 0
    assert re.search(r"calm-river  Prune the orchard +1 +1$", out, re.MULTILINE)
    _, out, _ = turnlog("plans", "calm", "--home", home.path)
    assert "Dead wood first." in out
    assert f"{ID} matched by slug" in out
    _, listed, _ = turnlog("plans", "--session", "4444", "--home", home.path, "--json")
    (plan,) = json.loads(listed)["plans"]
    assert plan["versions"][0]["text"] is None
    _, out, _ = turnlog("plans", "calm", "--at", "v1", "--home", home.path)
    assert out == "# Prune the orchard\n\nDead wood first.\n\n"


@pytest.mark.parametrize(
    "command",
    [("plans", "nothing"), ("plans", "--at", "v1"), ("plans", "c", "--at", "v2")],
)
def test_a_plan_that_is_none_is_the_callers_mistake(turnlog, home, command):
    code, out, err = turnlog(*command, "--home", home.path)
    assert (code, out) == (2, "")
    assert "hint: " in err


def test_prompts_are_listed_newest_first_and_filtered(turnlog, home):
    code, out, _ = turnlog("prompts", "--home", home.path)
    assert code == 0
    assert out.index("frost") < out.index("one")
    _, out, _ = turnlog("prompts", "FROST", "--home", home.path)
    assert "one" not in out
    code, out, _ = turnlog("prompts", "--project", "/elsewhere", "--home", home.path)
    assert code == 1
    assert "hint: " in out
    _, out, _ = turnlog("prompts", "--limit", "1", "--home", home.path)
    assert "1 more; use --offset 1" in out


def test_a_damaged_history_is_read_around_and_told(turnlog, home):
    path = home.path / "history.jsonl"
    path.write_bytes(b"\0\0\0\n" + path.read_bytes())
    code, out, _ = turnlog("prompts", "--home", home.path)
    assert code == 1
    assert "frost" in out
    assert "1 damaged range in the history" in out


def test_files_are_listed_with_edits_and_versions(turnlog, home):
    code, out, _ = turnlog("files", "latest", "--home", home.path)
    assert code == 0
    assert re.search(r"^a\.py +1 +1 +1 +2$", out, re.MULTILINE)
    assert re.search(r"^only-edited\.py +1 +1 +1 *$", out, re.MULTILINE)
    _, out, _ = turnlog("files", "latest", "a.py", "--home", home.path)
    assert "v1 2026-11-01 10:00 4 bytes at m1" in out
    _, out, _ = turnlog("files", "latest", "--at", "m1", "--home", home.path)
    assert re.search(r"^new\.py +v1 +did not exist", out, re.MULTILINE)
    assert "only-edited" not in out


def test_a_file_is_shown_as_it_was(turnlog, home):
    assert turnlog("files", "4444", "a.py", "--at", "m1", "--home", home.path)[:2] == (0, "one\n")
    assert turnlog("files", "4444", "a.py", "--at", "v2", "--home", home.path)[1] == "two\n"
    raw = turnlog("files", "4444", "a.py", "--at", "m2", "--raw", "--home", home.path)
    assert raw[:2] == (0, "two\n")


def test_what_changed_is_a_unified_diff(turnlog, home):
    code, out, _ = turnlog("files", "4444", "a.py", "--diff", "--home", home.path)
    assert code == 0
    assert out == "--- a.py@v1\n+++ a.py@v2\n@@ -1 +1 @@\n-one\n+two\n"
    _, out, _ = turnlog("files", "4444", "--diff", "--home", home.path)
    assert "only-edited.py edit by edit\n@@ -1,1 +1,1 @@\n-one\n+two\n" in out
    assert "+new" in out
    back = ("--at", "v2", "--at", "v1", "--diff")
    assert "+one" in turnlog("files", "4444", "a.py", *back, "--home", home.path)[1]
    code, out, _ = turnlog("files", "4444", "--at", "m2", "--diff", "--home", home.path)
    assert (code, out.splitlines()[0]) == (1, "No files changed.")


def test_files_are_restored_and_never_over_others_unless_told(turnlog, home, tmp_path):
    restore = ("files", "4444", "--at", "m2", "--restore", tmp_path / "out", "--home", home.path)
    code, out, _ = turnlog(*restore)
    assert code == 0
    assert out.count("✓ written") == 2
    (tmp_path / "out" / "a.py").write_text("mine")
    os.unlink(tmp_path / "out" / "new.py")
    code, out, _ = turnlog(*restore)
    assert code == 1
    assert "exists; use --force" in out
    assert (tmp_path / "out" / "a.py").read_text() == "mine"
    assert (tmp_path / "out" / "new.py").read_text() == "new\n"
    assert turnlog(*restore, "--force")[0] == 0
    assert (tmp_path / "out" / "a.py").read_text() == "two\n"
    one = ("files", "4444", "a.py", "--at", "m1", "--restore", tmp_path / "b.py")
    assert turnlog(*one, "--home", home.path)[0] == 0
    assert (tmp_path / "b.py").read_text() == "one\n"


def test_a_missing_version_is_found_wrong(turnlog, home):
    os.unlink(home.path / "file-history" / ID / "aa@v1")
    code, out, _ = turnlog("files", "4444", "a.py", "--at", "m1", "--home", home.path)
    assert code == 1
    assert "missing" in out
    assert turnlog("files", "4444", "a.py", "--diff", "--home", home.path)[0] == 1
    code, _, err = turnlog("files", "4444", "a.py", "--at", "m1", "--raw", "--home", home.path)
    assert code == 1
    assert "cannot be read" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ffff",),
        ("4444", "nowhere.py"),
        ("4444", "--at", "zzz"),
        ("4444", "--at", "v1"),
        ("4444", "a.py", "--at", "v9"),
        ("4444", "--at", "m1", "--at", "m2"),
        ("4444", "--raw"),
        ("4444", "--diff", "--restore", "x"),
        ("4444", "--restore", ""),
        ("4444", "only-edited.py", "--restore", "x"),
    ],
)
def test_a_mistake_in_the_call_is_told_with_a_way_out(turnlog, home, tmp_path, arguments):
    code, out, err = turnlog("files", *arguments, "--home", home.path)
    assert (code, out) == (2, "")
    assert "hint: " in err
    assert not (tmp_path / "x").exists()


def test_what_files_say_cannot_steer_the_terminal(turnlog, home):
    write(home, f"todos/{ID}-agent-{ID}.json", [{"content": EVIL, "status": EVIL}])
    write(home, f"tasks/{ID}/1.json", {"id": EVIL, "subject": EVIL, "blockedBy": [EVIL]})
    write(home, "plans/calm-river.md", f"# {EVIL}\n")
    pasted = {EVIL: {"content": EVIL}}
    text = line(EVIL, 1_793_527_300_000, project=EVIL, sessionId=EVIL, pastedContents=pasted)
    write(home, "history.jsonl", text)
    name = f"{PROJECT}/{EVIL}"
    patch = {"lines": [f"+{EVIL}"]}
    files = {"a.py": kept("aa@v1"), name: kept("aa@v1")}
    log(home, ID, snapshot("m1", files), *edit("e", None, name, EVIL, structuredPatch=[patch]))
    write(home, f"file-history/{ID}/aa@v1", EVIL)
    for command in (
        ("todos",),
        ("plans",),
        ("plans", "calm"),
        ("prompts",),
        ("prompts", "--full"),
        ("files", "4444"),
        ("files", "4444", "a.py", "--at", "m1"),
        ("files", "4444", "--diff"),
        ("files", "4444", name),
        ("files", "4444", "--restore", "out"),
    ):
        _, out, err = turnlog(*command, "--home", home.path, COLUMNS="200")
        assert "[red]c[/red]" in out, (command, out, err)
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err


def test_an_empty_home_is_an_answer(turnlog, tmp_path):
    (tmp_path / "empty").mkdir()
    for command in ("todos", "plans", "prompts"):
        code, out, _ = turnlog(command, "--home", tmp_path / "empty")
        assert code == 1
        assert "hint: " in out
        code, out, _ = turnlog(command, "--home", tmp_path / "empty", "--json")
        assert code == 1
        assert json.loads(out)[command] == []


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_names_that_are_not_utf8_become_json_all_the_same(turnlog, home, tmp_path):
    strange = os.fsdecode(b"ho\xffme")
    try:
        os.rename(home.path, tmp_path / strange)
        (tmp_path / strange / "plans" / os.fsdecode(b"p\xff.md")).write_text("# Odd")
        (tmp_path / strange / "file-history" / ID / os.fsdecode(b"\xff@v1")).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    for command in (("todos",), ("plans",), ("prompts",), ("files", "4444")):
        code, out, err = turnlog(*command, "--home", tmp_path / strange, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)[command[0]]


def test_where_todos_and_prompts_are_not_kept_the_logs_are_pointed_to(turnlog, tmp_path):
    home = make_home(tmp_path)
    log(home, ID, prompt("m1"))
    there = ("--home", home.path)
    code, out, _ = turnlog("todos", *there, "--since", "7d", COLUMNS="300")
    assert code == 1
    assert "hint: no home has todos/ or tasks/; to list the calls in the logs" in out
    assert "turnlog query tools 'tool~" in out
    assert turnlog("query", "tools", "tool~^Todo|^Task", *there)[0] == 1
    code, out, _ = turnlog("prompts", *there, "--since", "7d", COLUMNS="300")
    assert code == 1
    assert "hint: no home has a history.jsonl; turnlog show SESSION --prompts" in out
    assert turnlog("show", ID, "--prompts", *there)[0] == 0
