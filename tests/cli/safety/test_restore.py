"""``turnlog restore``, run as a person runs it."""

import json
import os
import shutil

import jsonschema
import msgspec
import pytest

from cli.conftest import command_in
from keep.orchard_home import (
    ID,
    OTHER,
    PLAN,
    PROJECT,
    SHARED,
    conversation,
    files_in,
    parts_of,
    write_files,
)
from turnlog.api.keep.restore import RestorableDocument, RestoreDocument
from turnlog.formats import key_of

MAIN = f"projects/{key_of(PROJECT)}/{ID}.jsonl"


@pytest.fixture
def orchard(tmp_path, turnlog):
    """A home with two sessions, kept; give it and a way to run the command on it."""
    return kept_in(tmp_path, turnlog)


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """The same for all that changes nothing."""
    place = tmp_path_factory.mktemp("still")
    return kept_in(place, command_in(place))


def kept_in(tmp_path, turnlog):
    home = tmp_path / "ann's home" / ".claude"
    (tmp_path / "apples").mkdir()
    files = parts_of() | parts_of(OTHER, cwd=str(tmp_path / "apples")) | SHARED
    write_files(home, files)
    environ = {"TURNLOG_HOME": str(tmp_path / "turnlog"), "CLAUDE_CONFIG_DIR": str(home)}

    def run(*arguments, **more):
        return turnlog(*arguments, **(environ | more))

    code, _, err = run("keep")
    assert code == 0, err
    run.home, run.files, run.place = home, files, tmp_path
    return run


def document(out, kind):
    found = json.loads(out)
    jsonschema.validate(found, msgspec.json.schema(kind))
    return found


def test_a_lost_session_comes_back(orchard):
    shutil.rmtree(orchard.home)
    code, out, err = orchard("restore", "8888")
    assert (code, err) == (0, "")
    assert f"✓ {OTHER[:8]} restored: 10 files" in out
    assert f"cd {orchard.place}/apples && claude --resume {OTHER}" in out
    expected = parts_of(OTHER, cwd=str(orchard.place / "apples"))
    assert files_in(orchard.home) == expected | {f"plans/{PLAN}.md": SHARED[f"plans/{PLAN}.md"]}
    code, out, _ = orchard("restore", "8888")
    assert code == 0
    assert "is already there" in out


def test_a_directory_that_is_not_here_is_told(orchard):
    _, out, _ = orchard("restore", "7777")
    assert f"its project directory does not exist: {PROJECT}" in out
    assert "--for DIR" in out


def test_everything_comes_back(orchard):
    shutil.rmtree(orchard.home)
    code, out, _ = orchard("restore", "--all")
    assert code == 0
    assert "2 sessions restored, 2 other files restored" in out
    assert files_in(orchard.home) == orchard.files
    code, out, _ = orchard("restore", "--all")
    assert code == 0
    assert "0 sessions restored, 2 already there" in out


def test_a_whole_home_moves_and_the_old_one_stays(orchard, tmp_path):
    new = tmp_path / "config" / "claude"
    code, out, _ = orchard("restore", "--all", "--to", new)
    assert code == 0
    assert "2 sessions restored" in out
    assert files_in(new) == files_in(orchard.home) == orchard.files
    (new / MAIN).write_bytes(b"another\n")
    code, _, _ = orchard("restore", "--all", "--to", new)
    assert code == 1
    assert (new / MAIN).read_bytes() == b"another\n"


def test_a_home_that_is_nowhere_named_is_found_by_its_copies(orchard, tmp_path):
    shutil.rmtree(orchard.home)
    code, _, _ = orchard("restore", "7777", CLAUDE_CONFIG_DIR=str(tmp_path / "another"))
    assert code == 0
    assert (orchard.home / MAIN).exists()


def test_one_project_or_a_time_chooses_sessions(orchard):
    shutil.rmtree(orchard.home)
    code, out, _ = orchard("restore", "--all", "--project", orchard.place / "apples", "--json")
    assert code == 0
    assert [each["session"] for each in document(out, RestoreDocument)["restored"]] == [OTHER]
    code, out, _ = orchard("restore", "--all", "--project", "/home", "--json")
    assert [each["session"] for each in json.loads(out)["restored"]] == [ID]
    assert orchard("restore", "--all", "--project", "/home/an")[0] == 1
    code, out, _ = orchard("restore", "--all", "--since", "2026-01-01", "--json")
    assert len(json.loads(out)["restored"]) == 2
    code, out, _ = orchard("restore", "--all", "--since", "2026-02-01")
    assert code == 1
    assert "No kept session matches" in out


def test_moving_says_what_it_changed(orchard, tmp_path):
    code, out, err = orchard(
        "restore", "777", "--to", tmp_path / "new home", "--for", tmp_path / "apples"
    )
    assert (code, err) == (0, "")
    assert f"working directory of 13 records changed to {tmp_path}/apples" in out
    assert f"CLAUDE_CONFIG_DIR='{tmp_path}/new home' claude --resume {ID}" in out
    assert (
        tmp_path / "new home" / "projects" / key_of(os.path.realpath(tmp_path / "apples"))
    ).is_dir()


def test_a_project_moves_as_a_whole_and_several_do_not(orchard, tmp_path):
    to = ("--to", tmp_path / "moved", "--for", tmp_path / "apples")
    code, _, err = orchard("restore", "--all", *to)
    assert code == 2
    assert "sessions of 2 projects" in err
    assert not (tmp_path / "moved").exists()
    code, out, _ = orchard("restore", "--all", "--project", PROJECT, *to, "--json")
    assert code == 0
    assert json.loads(out)["restored"][0]["project"] == os.path.realpath(tmp_path / "apples")


def test_what_differs_is_refused_and_told(orchard):
    log = orchard.home / MAIN
    log.write_bytes(b"something else\n")
    code, out, err = orchard("restore", "777")
    assert (code, out) == (2, "")
    assert "is another file" in err
    assert "hint: nothing was written" in err
    code, out, _ = orchard("restore", "--all")
    assert code == 1
    assert "✗ session 7777" in out
    assert log.read_bytes() == b"something else\n"
    code, out, _ = orchard("restore", "--all", "--json")
    assert document(out, RestoreDocument)["refused"][0]["session"] == ID


def test_a_plan_that_changed_is_left_and_told(orchard):
    (orchard.home / "plans" / f"{PLAN}.md").write_bytes(b"# Mine\n")
    code, out, _ = orchard("restore", "777")
    assert code == 1
    assert f"left: plans/{PLAN}.md is another file" in out


def test_a_broken_copy_is_skipped_and_reported(orchard, tmp_path):
    shutil.rmtree(orchard.home)
    (copy,) = (tmp_path / "turnlog" / "kept").rglob(f"tasks/{ID}/1.json.zst")
    copy.write_bytes(copy.read_bytes()[:-3])
    code, out, _ = orchard("restore", "777")
    assert code == 1
    assert f"broken: tasks/{ID}/1.json" in out
    assert (orchard.home / MAIN).exists()


def test_a_copy_that_is_missing_is_told_and_the_rest_can_be_had(orchard, tmp_path):
    (copy,) = (tmp_path / "turnlog" / "kept").rglob(f"{ID}.jsonl.zst")
    copy.unlink()
    for keeping in ("live", "gone"):
        if keeping == "gone":
            shutil.rmtree(orchard.home)
        _, out, _ = orchard("restore")
        assert "✗ 1 session without its copy" in out
        _, out, _ = orchard("restore", "--session", ID)
        assert "✗ the copy of its log is missing" in out
        _, out, _ = orchard("restore", "--json")
        rows = {row["id"]: row for row in document(out, RestorableDocument)["sessions"]}
        assert rows[ID]["keeping"] == keeping
    code, out, _ = orchard("restore", ID)
    assert (code, f"✓ {ID[:8]} restored" in out, f"broken: {MAIN}" in out) == (1, True, True)
    code, out, _ = orchard("restore", ID)
    assert (code, f"✗ {ID[:8]} not restored" in out) == (1, True)
    code, out, _ = orchard("restore", "--all")
    assert (code, "1 session restored, 1 not restored" in out) == (1, True)
    code, out, _ = orchard("keep", "status")
    assert (code, "✗ 1 copy is missing: turnlog verify" in out) == (1, True)


def test_the_list_shows_what_there_is(orchard):
    shutil.rmtree(orchard.home / "projects" / key_of(PROJECT))
    code, out, _ = orchard("restore")
    assert code == 0
    (row,) = [line for line in out.splitlines() if "user says apple number 0" in line]
    assert "kept copy" in row
    assert "✓ 1 kept session in place" in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = orchard("restore", "--json")
    rows = {row["id"]: row for row in document(out, RestorableDocument)["sessions"]}
    assert (rows[ID]["keeping"], rows[OTHER]["keeping"]) == ("restorable", "kept")
    assert rows[ID]["project"] == PROJECT


def test_generations_are_listed_and_can_be_had(orchard, tmp_path):
    (orchard.home / MAIN).write_bytes(conversation(turns=1))
    assert orchard("keep")[0] == 0
    _, out, _ = orchard("restore", "--session", "777")
    assert "generation 1: 2.4 KB, kept 20" in out
    assert "generation 2:" in out
    assert f"{MAIN} generations 1, 2" in out
    code, _, _ = orchard("restore", "777", "--generation", "1", "--to", tmp_path / "then")
    assert code == 0
    assert files_in(tmp_path / "then")[MAIN] == orchard.files[MAIN]
    code, _, _ = orchard("restore", "777", "--only", f"tasks/{ID}/1.json", "--to", tmp_path / "one")
    assert list(files_in(tmp_path / "one")) == [f"tasks/{ID}/1.json"]
    code, _, err = orchard("restore", "777", "--generation", "9")
    assert code == 2
    assert "there are: 1, 2" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "there"),
        ("777", "--all"),
        ("777", "--session", "777"),
        ("--all", "--session", "777"),
        ("777", "--force", "--for", "."),
        ("777", "--since", "1d"),
        ("--all", "--generation", "1"),
        ("777", "888", "--only", "x"),
        ("--since", "whenever"),
        ("zzz",),
        ("",),
        ("777", "--generation", "0"),
        ("777", "--for", ""),
        ("777", "--home", "/nowhere/at/all"),
    ],
)
def test_mistakes_are_told_and_change_nothing(still, arguments):
    before = files_in(still.home)
    code, out, err = still("restore", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert "hint: " in err
    assert files_in(still.home) == before


def test_names_from_a_home_are_inert(orchard):
    shutil.rmtree(orchard.home)
    evil = f"tasks/{ID}/\x1b[31m[bold]evil.json"
    write_files(orchard.home, {evil: b"{}"})
    orchard("keep")
    (orchard.home / evil).write_bytes(b"other")
    _, out, err = orchard("restore", "--all")
    assert "\x1b" not in out + err
    _, out, _ = orchard("restore", "--session", "777")
    assert "\x1b" not in out


def test_nothing_kept_is_told(turnlog, tmp_path):
    code, out, _ = turnlog("restore", TURNLOG_HOME=str(tmp_path / "none"))
    assert code == 1
    assert "turnlog keep" in out


def test_what_was_put_back_counts_as_kept(orchard):
    def keepings():
        rows = json.loads(orchard("sessions", "--json")[1])["sessions"]
        return {row["id"]: row["keeping"] for row in rows}

    assert keepings() == {ID: "kept", OTHER: "kept"}
    shutil.rmtree(orchard.home)
    assert keepings() == {ID: "restorable", OTHER: "restorable"}
    orchard("restore", "8888")
    assert keepings() == {ID: "restorable", OTHER: "kept"}
    orchard("restore", "--all")
    assert keepings() == {ID: "kept", OTHER: "kept"}
    orchard("archive", "8888", "--remove", "--yes")
    orchard("unarchive", "8888")
    assert keepings() == {ID: "kept", OTHER: "kept"}
    kept = sorted(path for path in (orchard.place / "turnlog" / "kept").rglob("generations"))
    assert kept == []


@pytest.fixture
def two_copies(orchard, tmp_path):
    """The orchard, in which one session lies in a second project too; give that log's name."""
    name = f"projects/{key_of(str(tmp_path / 'tree'))}/{ID}.jsonl"
    data = conversation(cwd=str(tmp_path / "tree"), turns=1)
    write_files(orchard.home, {name: data})
    orchard.files[name] = data
    assert orchard("keep")[0] == 0
    return name


@pytest.mark.parametrize("what", [ID, "--all"])
def test_every_copy_of_an_id_comes_back(orchard, two_copies, what):
    shutil.rmtree(orchard.home)
    code, out, err = orchard("restore", what)
    assert (code, err) == (0, "")
    found = files_in(orchard.home)
    assert {MAIN, two_copies} <= set(found)
    assert all(orchard.files[name] == data for name, data in found.items())
    assert out.count(f"✓ {ID[:8]} restored") == 2
    code, out, _ = orchard("restore", what)
    assert code == 0


def test_the_list_and_only_know_every_copy_of_an_id(orchard, two_copies):
    shutil.rmtree(orchard.home)
    _, out, _ = orchard("restore", "--json")
    rows = document(out, RestorableDocument)["sessions"]
    assert sorted(row["id"] for row in rows) == [ID, ID, OTHER]
    _, out, _ = orchard("restore", "--session", ID, "--json")
    rows = document(out, RestorableDocument)["sessions"]
    names = [[part["name"] for part in row["parts"]] for row in rows]
    assert [two_copies in each for each in names].count(True) == 1
    assert [MAIN in each for each in names].count(True) == 1
    for name in (two_copies, MAIN):
        assert orchard("restore", ID, "--only", name)[0] == 0
    assert set(files_in(orchard.home)) == {two_copies, MAIN}


def test_one_copy_of_an_id_can_be_chosen_by_its_project(orchard, two_copies, tmp_path):
    shutil.rmtree(orchard.home)
    assert orchard("restore", "--all", "--project", tmp_path / "tree")[0] == 0
    assert [name for name in files_in(orchard.home) if name.endswith(f"{ID}.jsonl")] == [two_copies]


# -- from wherever a session is ---------------------------------------------------------------


def test_a_session_comes_back_after_rm(orchard):
    (orchard.home / MAIN).unlink()
    code, out, _ = orchard("restore")
    assert (code, f"{ID[:8]}  kept copy" in out) == (0, True)
    assert orchard("restore", ID[:4])[0] == 0
    assert files_in(orchard.home) == orchard.files


def test_a_session_comes_back_after_delete(orchard):
    assert orchard("delete", ID[:4], "--yes")[0] == 0
    assert not (orchard.home / MAIN).exists()
    code, out, _ = orchard("restore")
    assert (code, f"{ID[:8]}  trash" in out) == (0, True)
    code, out, err = orchard("restore", ID[:4])
    assert (code, err) == (0, "")
    assert f"✓ {ID[:8]} restored from the trash" in out
    assert files_in(orchard.home) == orchard.files
    assert f"{ID[:8]}" not in orchard("restore")[1]


@pytest.mark.parametrize("words", [("restore",), ("unarchive",)])
def test_an_archived_session_comes_back(orchard, words):
    assert orchard("archive", ID[:4], "--remove", "--yes")[0] == 0
    code, out, _ = orchard("restore")
    assert (code, f"{ID[:8]}  archive" in out) == (0, True)
    code, out, _ = orchard(*words, ID[:4])
    assert (code, f"✓ {ID[:8]} unarchived" in out) == (0, True)
    assert files_in(orchard.home) == orchard.files
    assert json.loads(orchard("sessions", "--is", "archived", "--json")[1])["sessions"] == []


@pytest.mark.parametrize("words", [("restore",), ("trash", "restore"), ("unarchive",)])
def test_the_latest_missing_session_comes_back(orchard, words):
    orchard("delete", ID[:4], "--yes")
    code, out, _ = orchard(*words, "latest")
    assert (code, f"✓ {ID[:8]} restored from the trash" in out) == (0, True)


@pytest.mark.parametrize("words", [("restore",), ("trash", "restore")])
def test_a_restore_that_was_interrupted_is_finished(orchard, words):
    """Some files are in place again and were kept since; the others are still in the trash."""
    orchard("delete", ID[:4], "--yes")
    (orchard.home / MAIN).parent.mkdir(parents=True, exist_ok=True)
    (orchard.home / MAIN).write_bytes(orchard.files[MAIN])
    assert orchard("keep")[0] == 0
    assert orchard(*words, ID[:4])[0] == 0
    assert files_in(orchard.home) == orchard.files
    assert orchard("trash")[1] == "The trash is empty.\n"


def test_another_version_in_the_home_is_never_overwritten(orchard):
    orchard("delete", ID[:4], "--yes")
    (orchard.home / MAIN).parent.mkdir(parents=True, exist_ok=True)
    (orchard.home / MAIN).write_bytes(orchard.files[MAIN] + conversation(turns=1))
    assert orchard("keep")[0] == 0
    before = (orchard.home / MAIN).read_bytes()
    assert orchard("restore", ID[:4])[0] in (0, 1)
    assert (orchard.home / MAIN).read_bytes() == before


def test_the_trash_comes_before_an_older_copy(orchard):
    """Pruning leaves kept copies alone, and these may lack the latest records."""
    log = orchard.home / MAIN
    with log.open("ab") as file:
        file.write(conversation(turns=1))
    before = log.read_bytes()
    for path in orchard.home.rglob("*"):
        os.utime(path, (1_770_000_000, 1_770_000_000))  # Sessions in use are not pruned.
    code, _, err = orchard("prune", "--days", 1, "--home", orchard.home, "--yes")
    assert (code, err, log.exists()) == (0, "", False)
    assert orchard("restore", ID[:4])[0] == 0
    assert log.read_bytes() == before


def test_several_sessions_come_back_from_several_places(orchard):
    orchard("delete", ID[:4], "--yes")
    orchard("archive", "8888", "--remove", "--yes")
    code, out, _ = orchard("restore", ID[:4], "8888", "--json")
    found = document(out, RestoreDocument)
    assert code == 0
    assert [row["session"] for row in found["undeleted"]] == [ID]
    assert [row["id"] for row in found["unarchived"]] == [OTHER]
    assert files_in(orchard.home) == orchard.files


def test_a_session_that_was_never_kept_is_in_place(turnlog, home):
    code, out, _ = turnlog("restore", "1111", "--home", home)
    assert (code, "is already there" in out) == (0, True)
    code, _, err = turnlog("restore", "1111", "--home", home, "--to", "there")
    assert (code, "no kept copy" in err) == (2, True)


def test_what_is_in_the_trash_is_filtered_by_its_project(orchard):
    orchard("delete", ID[:4], "--yes")
    rows = json.loads(orchard("restore", "--project", PROJECT, "--json")[1])["sessions"]
    assert [(row["id"], row["source"]) for row in rows] == [(ID, "trash")]
    rows = json.loads(orchard("restore", "--project", "/nowhere", "--json")[1])["sessions"]
    assert rows == []
