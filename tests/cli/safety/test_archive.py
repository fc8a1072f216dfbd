"""`turnlog archive` and `unarchive`, and what the other commands make of an archived session."""

import json
import os
from pathlib import Path

import pytest

from cli.conftest import DAMAGED, WHOLE, prompt

KEY = "-home-ada-orchard"


@pytest.fixture
def run(turnlog, home):
    """Run a command on the home, and say which exit code is expected."""

    def run(command, *arguments, code=0, **environ):
        found, out, err = turnlog(command, *arguments, "--home", home, **environ)
        assert found == code, (out, err)
        return out, err

    return run


@pytest.fixture
def log(home):
    return home / "projects" / KEY / f"{WHOLE}.jsonl"


def ids(out):
    return [row["id"] for row in json.loads(out)["sessions"]]


def test_archive_says_how_small_it_is_now(run, log):
    log.write_bytes(b"".join(prompt(WHOLE, f"pear {n}") + b"\n" for n in range(2000)))
    out, err = run("archive", "1111")
    assert out.startswith(f"✓ 11111111 archived: 1 file, {log.stat().st_size / 1000:.1f} KB → ")
    assert out.splitlines()[0].endswith("%)")
    assert "hint: the original files are still in place; --remove --yes deletes them" in out
    assert err == ""
    assert log.exists()


def test_remove_removes_and_unarchive_gives_the_bytes_back(run, log, home):
    before = log.read_bytes()
    out, _ = run("archive", "1111", "--remove", "--yes")
    assert "archived, originals deleted" in out
    assert "hint" not in out
    assert not log.exists()
    out, _ = run("unarchive", "1111")
    assert out.startswith(f"✓ {WHOLE[:8]} unarchived: 1 file restored\n")
    assert f"{WHOLE}.jsonl" in out
    assert log.read_bytes() == before


def test_originals_are_deleted_with_consent_only(run, log):
    out, _ = run("archive", "1111", "--remove")
    assert log.exists()
    assert "the original files are still in place; run again with --yes to delete them" in out


def test_twice_is_told_apart(run):
    run("archive", "1111")
    assert "· 11111111 was already archived: 1 file" in run("archive", "1111")[0]
    assert "unarchived; its files were in place" in run("unarchive", "1111")[0]
    assert f"✓ {WHOLE[:8]} is already there" in run("unarchive", "1111")[0]


def test_several_at_once(run, home):
    out, _ = run("archive", "1111", "2222", "1111")
    assert out.count("✓") == 2
    assert "  2 sessions, 2 files, " in out
    document = json.loads(run("unarchive", "1111", "2222", "--json")[0])
    assert [each["id"] for each in document["unarchived"]] == [WHOLE, DAMAGED]
    assert document["refused"] == []


def test_one_that_is_refused_keeps_none_of_the_others(run, home, log):
    (home / "sessions").mkdir()
    pid = os.getpid()
    (home / "sessions" / f"{pid}.json").write_text(json.dumps({"pid": pid, "sessionId": WHOLE}))
    out, _ = run("archive", "1111", "2222", code=1)
    assert f"✗ 11111111 session {WHOLE} is running in process {pid}" in out.replace("\n", " ")
    assert "✓ 22222222 archived" in out
    document = json.loads(run("archive", "1111", "2222", "--json", code=1)[0])
    assert [each["id"] for each in document["sessions"]] == [DAMAGED]
    (refused,) = document["refused"]
    assert refused["session"] == WHOLE
    _, err = run("archive", "1111", code=3)
    assert err.startswith(f"error: session {WHOLE} is running in process {pid}\nhint: ")


def test_a_name_that_nobody_has_is_told_before_anything_is_done(run, log):
    _, err = run("archive", "1111", "9999", code=2)
    assert "no session's id begins with '9999'" in err
    assert ids(run("sessions", "--json")[0]) != []
    assert run("archive", code=2)[1].startswith("error: missing argument")


def test_the_document(run, log):
    size = log.stat().st_size
    (row,) = json.loads(run("archive", "1111", "--json")[0])["sessions"]
    assert row["size_bytes"] == size
    assert row["ratio"] == round(row["packed_bytes"] / size, 4)
    assert (row["layout"], row["records"], row["files"]) == ("claude", 1, 1)
    assert (row["removed"], row["was_archived"]) == (False, False)
    assert len(row["sha256"]) == 64


@pytest.mark.parametrize("remove", [(), ("--remove", "--yes")])
def test_lists_leave_it_out_and_everything_else_sees_it(run, remove):
    run("archive", "1111", *remove)
    assert ids(run("sessions", "--json")[0]) == [DAMAGED]
    assert ids(run("sessions", "--json", "--sort", "records")[0]) == [DAMAGED]
    for more in ((), ("--sort", "records"), ("--wide",)):
        out, _ = run("sessions", "--json", "--is", "archived", *more)
        assert ids(out) == [WHOLE]
        assert json.loads(out)["sessions"][0]["archived"] is True
    assert "11111111" in run("sessions", "--is", "archived")[0]
    assert "one" in run("show", "1111")[0]
    assert WHOLE in run("search", "one", "--json")[0]
    assert WHOLE in run("info", "1111", "--json")[0]
    assert json.loads(run("fork", "1111", "--json")[0])["records"] == 1
    _, err = run("rename", "1111", "Pears", code=2)
    assert f"hint: bring it back first: turnlog restore {WHOLE}" in err
    run("pin", "1111")


def test_nothing_archived_is_said_so(run):
    out, _ = run("sessions", "--is", "archived", code=1)
    assert "No archived sessions found." in out


def test_resume_puts_it_back(run, log):
    before = log.read_bytes()
    run("archive", "1111", "--remove", "--yes")
    _, err = run("resume", "1111", code=1)  # No record says where it worked.
    assert f"restored {log}" in err
    assert log.read_bytes() == before
    assert "restored" not in run("resume", "1111", code=1)[1]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_lines_fit_the_terminal(run, columns):
    out, _ = run("archive", "1111", "2222", COLUMNS=columns)
    assert max(map(len, out.splitlines())) <= int(columns)


def test_a_flat_store(turnlog, tmp_path):
    store = tmp_path / "store"
    (store / "sessions").mkdir(parents=True)
    path = Path(store / "sessions" / "abc123def.jsonl")
    path.write_bytes(prompt("abc123def", "one") + b"\n")
    before = path.read_bytes()
    code, out, _ = turnlog("archive", "abc", "--home", store)
    assert (code, path.exists()) == (0, False)
    assert out.startswith("✓ abc123de archived, originals deleted: 1 file")
    assert turnlog("sessions", "--home", store)[0] == 1
    assert "abc123de" in turnlog("sessions", "--home", store, "--is", "archived")[1]
    code, out, _ = turnlog("unarchive", "abc", "--home", store)
    assert (code, path.read_bytes()) == (0, before)


def test_a_broken_archive_is_a_failure_that_changes_nothing(run, log, home, tmp_path):
    run("archive", "1111", "--remove", "--yes", TURNLOG_HOME=str(tmp_path / "own"))
    (copy,) = (tmp_path / "own" / "kept").rglob(f"{WHOLE}.jsonl.zst")
    data = bytearray(copy.read_bytes())
    data[10] ^= 0xFF
    copy.write_bytes(data)
    _, err = run("unarchive", "1111", code=3, TURNLOG_HOME=str(tmp_path / "own"))
    assert err.startswith("error: ")
    assert "hint: " in err
    assert not log.exists()
