"""`turnlog delete`, `trash` and `prune`: what goes, says so, and comes back."""

import json
import os

import pytest

from cli.conftest import DAMAGED, WHOLE, prompt


@pytest.fixture
def run(turnlog, tmp_path):
    def here(*arguments, **environ):
        return turnlog(*arguments, **({"TURNLOG_HOME": str(tmp_path / "own")} | environ))

    return here


@pytest.fixture
def log(home):
    path = home / "projects" / "-home-ada-orchard" / f"{WHOLE}.jsonl"
    for each in path.parent.iterdir():
        each.write_bytes(each.read_bytes().replace(b"2026-11-01", b"2020-11-01"))
        os.utime(each, (1_767_400_000, 1_767_400_000))
    return path


def test_a_session_goes_to_the_trash_and_comes_back(run, home, log):
    before = log.read_bytes()
    code, out, err = run("delete", "1111", "--home", home, "--yes")
    assert (code, err) == (0, "")
    assert "11111111 moved to the trash: one (1 file" in out
    assert "turnlog restore 11111111" in out
    assert not log.exists()
    assert "one" in run("trash")[1]
    code, out, _ = run("trash", "restore", "1111")
    assert code == 0
    assert "restored from the trash: 1 file" in out
    assert log.read_bytes() == before
    assert run("trash")[0] == 1
    assert "The trash is empty." in run("trash", "list")[1]


def test_it_is_a_dry_run_unless_told(run, home, log):
    code, out, _ = run("delete", "1111", "--home", home)
    assert (code, log.exists(), run("trash")[0]) == (0, True, 1)
    assert "11111111 would be moved to the trash: one (1 file" in out
    assert out.endswith("Nothing was changed. Run again with --yes to move it to the trash.\n")
    (row,) = json.loads(run("delete", "1111", "--home", home, "--json")[1])["sessions"]
    assert (row["state"], row["files"], row["entries"]) == (None, 1, [])


def test_deleting_again_says_so_and_an_unknown_session_is_a_mistake(run, home, log):
    run("delete", "1111", "--home", home, "--yes")
    code, out, _ = run("delete", "1111", "--home", home, "--yes")
    assert (code, "was already deleted" in out) == (0, True)
    code, out, err = run("delete", "9999", "--home", home, "--yes")
    assert (code, out) == (2, "")
    assert err.startswith("error: no session's id begins with '9999'")
    assert "hint: " in err


def test_what_went_before_a_mistake_is_told(run, home, log):
    code, out, err = run("delete", "1111", "9999", "--home", home, "--yes")
    assert (code, "11111111 moved to the trash" in out, "9999" in err) == (2, True, True)


def test_the_documents(run, home, log):
    code, out, _ = run("delete", "1111", "--home", home, "--yes", "--json")
    (row,) = json.loads(out)["sessions"]
    assert (code, row["id"], row["state"], row["was_deleted"]) == (0, WHOLE, "deleted", False)
    listed = json.loads(run("trash", "--json")[1])
    (entry,) = listed["entries"]
    assert (entry["session"], entry["files"], entry["is_due"]) == (WHOLE, 1, False)
    assert (listed["next"], listed["problems"], entry["name"]) == (None, [], row["entries"][0])
    back = json.loads(run("trash", "restore", entry["name"], "--json")[1])
    assert [row["name"] for row in back["undeleted"]] == [entry["name"]]


def test_an_empty_trash_is_said_to_be_empty(run):
    for arguments in ((), ("empty",), ("empty", "--all"), ("empty", "--all", "--yes")):
        code, out, _ = run("trash", *arguments)
        assert (code, out) == (1, "The trash is empty.\n")
    for name in ("latest", "1111"):
        code, _, err = run("trash", "restore", name)
        assert (code, err.splitlines()[0]) == (2, "error: the trash is empty")
    out = run("trash", "--since", "1d")[1]
    assert out == "Nothing in the trash matches.\n"


def test_emptying_lists_first_and_removes_only_what_is_due(run, home, log, tmp_path):
    run("delete", "1111", "--home", home, "--yes")
    code, out, _ = run("trash", "empty", "--yes")
    assert (code, "Nothing to delete: every session is still in its grace period." in out) == (
        1,
        True,
    )
    code, out, _ = run("trash", "empty", "--all")
    assert (code, "Run again with --yes to delete them" in out) == (0, True)
    assert run("trash", "empty")[0] == 1
    assert run("trash")[0] == 0
    (entry,) = (tmp_path / "own" / "trash").glob("*/entry.json")
    said = json.loads(entry.read_bytes())
    times = {"deleted_at": "2025-12-01T00:00:00Z", "purge_after_at": "2026-01-01T00:00:00Z"}
    entry.write_text(json.dumps(said | times))
    code, out, _ = run("trash", "empty")
    assert (code, "would be deleted permanently" in out) == (0, True)
    code, out, _ = run("trash", "empty", "--yes")
    assert (code, "deleted permanently" in out) == (0, True)
    assert list((tmp_path / "own" / "trash").iterdir()) == []
    code, out, _ = run("delete", "1111", "--home", home, "--yes")
    assert (code, "no longer in the trash" in out) == (0, True)
    events = [json.loads(row)["event"] for row in journal(tmp_path) if b'"event"' in row]
    assert events == ["deleted", "purged"]


def journal(tmp_path):
    return (tmp_path / "own" / "journal.jsonl").read_bytes().splitlines()


def test_what_cannot_be_read_in_the_trash_is_told_and_stays(run, home, log, tmp_path):
    run("delete", "1111", "--home", home, "--yes")
    (entry,) = (tmp_path / "own" / "trash").glob("*/entry.json")
    entry.write_bytes(b"\xff")
    _, out, _ = run("trash", "empty", "--all", "--yes")
    assert "• skipped: " in out
    assert entry.exists()
    assert run("trash", "restore", "1111")[0] == 2


def test_half_a_session_is_not_removed_for_good(run, home, log, tmp_path):
    data = log.read_bytes()
    run("delete", "1111", "--home", home, "--yes")
    (copy,) = (tmp_path / "own" / "trash").glob("*/home/projects/*/*.jsonl")
    copy.unlink()
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(data)  # As if the deletion had been killed before it came to the log.
    _, out, _ = run("trash", "empty", "--all", "--yes")
    assert "delete or restore it first" in out
    assert run("trash")[0] == 0
    assert run("delete", "1111", "--home", home, "--yes")[0] == 0
    assert (copy.read_bytes(), log.exists()) == (data, False)


def test_a_session_that_was_deleted_twice_is_restored_by_the_entrys_name(run, home, log):
    first = log.read_bytes()
    run("delete", "1111", "--home", home, "--yes")
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(prompt(WHOLE, "anew") + b"\n")
    run("delete", "1111", "--home", home, "--yes")
    code, _, err = run("trash", "restore", "1111")
    assert (code, "several times" in err) == (2, True)
    names = [row["name"] for row in json.loads(run("trash", "--json")[1])["entries"]]
    assert run("trash", "restore", names[-1])[0] == 0
    assert log.read_bytes() == first
    code, _, err = run("trash", "restore", names[0])
    assert (code, "a different file exists at" in err) == (2, True)
    assert log.read_bytes() == first


@pytest.mark.parametrize(
    "arguments",
    [
        ("trash", "restore"),
        ("trash", "--yes"),
        ("trash", "restore", "x", "--all"),
        ("trash", "burn"),
        ("delete",),
        ("prune", "--days", "0"),
        ("prune", "--days", "-1"),
        ("prune", "--days", "x"),
        ("prune", "--days", "1e9"),
        ("prune", "--days", "1000000000"),
        ("prune", "--home", "/nowhere/at/all", "--days", "3"),
    ],
)
def test_mistakes(run, home, log, arguments):
    code, _, err = run(*arguments, CLAUDE_CONFIG_DIR=str(home))
    assert (code, err.startswith("error: ")) == (2, True)
    assert log.exists()


def test_a_hostile_title_is_inert(run, home, log):
    log.write_bytes(prompt(WHOLE, "\x1b[31mred\x07 [bold]x[/bold] \u202e") + b"\n")
    out = run("delete", "1111", "--home", home, "--yes")[1] + run("trash")[1]
    assert "\x1b[31m" not in out
    assert "\x07" not in out
    assert "[bold]x" in out


# -- prune ---------------------------------------------------------------------------------


def test_retention_is_off_and_says_how_to_turn_it_on(run, home, log):
    code, out, _ = run("prune", "--home", home, "--yes")
    assert (code, "Retention is off" in out) == (0, True)
    assert "[retention] enabled = true" in out
    assert log.exists()


def test_what_has_expired_is_listed_and_goes_with_write(run, home, log, tmp_path):
    code, out, _ = run("prune", "--home", home, "--days", "1")
    assert code == 0
    assert "2 sessions inactive for 1 day would be moved to the trash" in out
    assert "Run again with --yes to move them to the trash" in out
    assert log.exists()
    assert not (tmp_path / "own").exists()
    document = json.loads(run("prune", "--home", home, "--days", "1", "--json")[1])
    assert [row["id"] for row in document["sessions"]] == [WHOLE, DAMAGED]
    assert (document["is_on"], document["written"], document["problems"]) == (True, False, [])
    run("pin", "2222", "--home", home)
    code, out, _ = run("prune", "--home", home, "--days", "1", "--yes")
    assert code == 0
    assert "1 session inactive for 1 day moved to the trash" in out
    assert "it is pinned: 22222222" in out
    assert not log.exists()
    assert run("trash", "restore", "1111")[0] == 0
    assert log.exists()


def test_agents_homes_are_touched_only_when_they_are_named(run, home, log):
    code, out, _ = run("prune", "--days", "1", "--yes", CLAUDE_CONFIG_DIR=str(home))
    assert (code, "No session has expired" in out, "--home" in out) == (0, True, True)
    assert log.exists()


def test_a_setting_that_cannot_be_used_deletes_nothing(run, home, log, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.toml").write_text("[retention]\nenabled = true\ndays = 0\n")
    code, out, err = run("prune", "--home", home, "--days", "1", "--yes")
    assert (code, out) == (2, "")
    assert "nothing is deleted" in err
    assert "retention.days: 0 is not a whole number of days" in err
    assert log.exists()


def test_orphans(run, home, log):
    todo = home / "todos" / "99999999-aaaa-4aaa-8aaa-999999999999-agent-x.json"
    todo.parent.mkdir()
    todo.write_bytes(b"[]")
    os.utime(todo, (1_767_400_000, 1_767_400_000))
    code, out, _ = run("prune", "--home", home, "--orphans")
    assert (code, "1 orphaned file of 1 deleted session would be moved" in out) == (0, True)
    assert "99999999" in out
    run("prune", "--home", home, "--orphans", "--yes")
    assert not todo.exists()
    assert log.exists()
    assert "orphaned" in run("trash")[1]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_tables_fit(run, home, log, columns):
    for arguments in (
        ("prune", "--home", home, "--days", "1"),
        ("delete", "1111", "--home", home, "--yes"),
        ("trash",),
    ):
        out = run(*arguments, COLUMNS=columns)[1]
        assert max(map(len, out.splitlines())) <= int(columns) + 40 * (arguments[0] == "delete")
        assert "…" not in out.split("\n")[0]


def test_looking_at_nothing_makes_nothing(run, tmp_path):
    for arguments in (("trash",), ("trash", "empty"), ("prune",), ("prune", "--days", "9")):
        run(*arguments)
    assert not (tmp_path / "own").exists()


def test_a_reader_of_help_finds_examples(turnlog):
    for name in ("delete", "trash", "prune"):
        code, out, _ = turnlog(name, "--help")
        assert (code, "Examples:" in out) == (0, True)


def test_what_cannot_be_read_stands_in_the_document(run, home, log):
    os.mkfifo(log.with_name("fifo.jsonl"))
    code, out, _ = run("prune", "--home", home, "--days", "9999", "--json")
    assert code == 1
    (problem,) = json.loads(out)["problems"]
    assert problem["path"].endswith("fifo.jsonl")


def test_the_trash_shows_where_a_session_of_an_unknown_home_would_go(run, home, log, tmp_path):
    run("delete", "1111", "--home", home, "--yes")
    assert f"from {home}" in run("trash", COLUMNS="200")[1].replace("\n", "")
    known = run("trash", COLUMNS="200", CLAUDE_CONFIG_DIR=str(home))[1]
    assert str(home) not in known
