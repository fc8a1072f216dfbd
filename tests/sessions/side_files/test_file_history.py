"""File history: versions by message, compared, shown and brought back, whatever the log says."""

import os
import stat

import pytest

from sessions.homes import PROJECT, delta, edit, kept, log, make_home, prompt, snapshot, write
from turnlog.errors import LogError, NotFound, UsageError
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.file_changes import OUTSIDE, safe_parts, shown_path, whole_path
from turnlog.sessions.side_files.file_history import (
    DIFF_LIMIT,
    SessionFiles,
    VersionOutcome,
    content_of,
    diff_of,
    restore,
    restore_all,
)
from turnlog.storage import atomic_files
from turnlog.storage.atomic_files import Unreadable

ID = "44444444-dddd-4ddd-8ddd-444444444444"


@pytest.fixture
def home(tmp_path):
    return make_home(tmp_path)


def keep(home, name, content):
    return write(home, f"file-history/{ID}/{name}", content)


def files_of(home):
    return SessionFiles.of(Session.find((home,), ID))


@pytest.fixture
def orchard(home):
    """Two turns: in the first a.py is edited and new.py made, in the second a.py again."""
    log(
        home,
        ID,
        snapshot("m1", {}),
        prompt("m1", timestamp="2026-11-01T10:00:00Z"),
        snapshot("m1", {"a.py": kept("aa@v1")}, update_of="e1-asked"),
        *edit("e1", "m1", f"{PROJECT}/a.py", structuredPatch=[hunk("-one", "+two")]),
        delta("m1", "src/new.py", kept(None)),
        *edit("e2", "e1", f"{PROJECT}/src/new.py", "Write", content="x\ny\n", structuredPatch=[]),
        snapshot("m2", {"a.py": kept("aa@v2", 2), "src/new.py": kept("bb@v2", 2)}),
        prompt("m2", "e2"),
        *edit("e3", "m2", f"{PROJECT}/a.py", structuredPatch=[hunk("-two", "+three", "+four")]),
    )
    keep(home, "aa@v1", "one\n")
    keep(home, "aa@v2", "two\n")
    keep(home, "bb@v2", "x\ny\n")
    return home


def hunk(*lines):
    return {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": list(lines)}


def state(found):
    return {each.file.shown: (each.version.number, each.is_inferred) for each in found}


def test_a_session_knows_the_files_it_touched(orchard):
    files = files_of(orchard).files
    a, new = files[f"{PROJECT}/a.py"], files[f"{PROJECT}/src/new.py"]
    assert [(each.number, each.name, each.messages) for each in a.versions] == [
        (1, "aa@v1", ("m1",)),
        (2, "aa@v2", ("m2",)),
    ]
    assert [(each.number, each.is_absent) for each in new.versions] == [(1, True), (2, False)]
    assert [(each.tool, each.added, each.removed) for each in a.edits] == [
        ("Edit", 1, 1),
        ("Edit", 2, 1),
    ]
    assert [(each.tool, each.added, each.removed) for each in new.edits] == [("Write", 2, 0)]
    assert a.versions[0].size_bytes == 4


def test_a_file_is_as_it_was_when_the_message_was_sent(orchard):
    files = files_of(orchard)
    assert state(files.at("m1")) == {"a.py": (1, False), "src/new.py": (1, False)}
    assert state(files.at("m2")) == {"a.py": (2, False), "src/new.py": (2, False)}
    # Within a turn: as when its prompt was sent.
    assert state(files.at("e1")) == state(files.at("m1"))
    assert state(files.at("e3-a")) == state(files.at("m2"))
    assert files.messages == ("m1", "m2")


def test_a_delta_adds_to_a_snapshot_and_changes_nothing_in_it(home):
    first = snapshot("m1", {"a.py": kept("aa@v1")})
    log(home, ID, first, delta("m1", "a.py", kept("aa@v2", 2)), delta("m9", "b.py", kept("bb@v1")))
    files = files_of(home)
    assert state(files.at("m1")) == {"a.py": (1, False), "b.py": (1, True)}
    assert files.messages == ("m1", "m9")


def test_a_cycle_of_parents_ends(home):
    log(home, ID, snapshot("m1", {"a.py": kept("aa@v1")}), prompt("x", "y"), prompt("y", "x"))
    assert state(files_of(home).at("x")) == {"a.py": (1, True)}


def test_a_branch_finds_the_snapshot_above_it_not_the_last_in_the_log(orchard):
    path = Session.find((orchard,), ID).path
    before = path.read_bytes()
    log(orchard, ID, prompt("b1", "e1"))
    path.write_bytes(before + path.read_bytes())
    assert state(files_of(orchard).at("b1")) == state(files_of(orchard).at("m1"))


def test_a_file_that_is_tracked_later_is_inferred(home):
    log(home, ID, snapshot("m1", {}), prompt("m1"), snapshot("m2", {"a.py": kept("aa@v1")}))
    keep(home, "aa@v1", "one")
    assert state(files_of(home).at("m1")) == {"a.py": (1, True)}


def test_a_record_without_a_prompt_above_goes_by_the_clock(home):
    first = snapshot("m1", {"a.py": kept("aa@v1")})
    log(home, ID, first, prompt("m1"), prompt("stray", timestamp="2026-11-01T11:00:00Z"))
    keep(home, "aa@v1", "one")
    assert state(files_of(home).at("stray")) == {"a.py": (1, False)}


def test_a_message_must_be_one(orchard):
    files = files_of(orchard)
    with pytest.raises(NotFound):
        files.at("zzz")
    with pytest.raises(NotFound):
        files.at("")
    with pytest.raises(UsageError, match="begins 2 messages"):
        files.at("m")


def test_a_file_is_found_by_the_end_of_its_path(orchard):
    files = files_of(orchard)
    for name in ("new.py", "src/new.py", f"{PROJECT}/src/new.py", "./src/../src/new.py"):
        assert files.find(name).shown == "src/new.py"
    with pytest.raises(NotFound):
        files.find("w.py")


def test_two_files_of_one_name_are_not_guessed_between(home):
    log(home, ID, prompt("q"), *edit("e", "q", "/x/a.py"), *edit("f", "e", "/y/a.py"))
    with pytest.raises(UsageError, match="names 2 files"):
        files_of(home).find("a.py")


def test_agents_edits_are_the_sessions(home):
    log(home, ID, prompt("q"))
    log(home, ID, *edit("e", None, f"{PROJECT}/a.py", structuredPatch=[]), subagent="a1")
    (file,) = files_of(home).files.values()
    assert (file.edits[0].agent_id, file.shown, file.versions) == ("a1", "a.py", ())


def test_a_call_that_failed_or_was_interrupted_touched_nothing(home):
    asked, failed = edit("e", "q", "/x/a.py")
    failed["message"]["content"][0]["is_error"] = True
    failed["toolUseResult"] = "Error: no such file"
    interrupted, _ = edit("f", "e", "/x/b.py")
    read = prompt("r", toolUseResult={"filePath": "/x/c.py"})
    log(home, ID, prompt("q"), asked, failed, interrupted, read)
    assert files_of(home).files == {}


def test_older_records_of_edits_count_too(home):
    log(home, ID, prompt("q"), {"type": "file-history", "path": "a.py", "operation": "create"})
    (file,) = files_of(home).files.values()
    assert (file.shown, file.edits[0].tool, file.edits[0].added) == ("a.py", "create", None)


def test_kept_versions_that_no_record_speaks_of_are_listed(orchard):
    keep(orchard, "aa@v3", "three\n")
    keep(orchard, "ee@v1", "whose?")
    keep(orchard, "notes.txt", "")
    files = files_of(orchard)
    assert [each.number for each in files.find("a.py").versions] == [1, 2, 3]
    assert [each.name for each in files.strays] == ["ee@v1", "notes.txt"]
    assert content_of(files.newest()[0].version) == b"three\n"


def test_snapshots_of_a_flat_store_are_read_the_same_way(tmp_path):
    home = make_home(tmp_path)
    lines = log(home, ID, snapshot("m1", {"a.py": kept("aa@v1")}), prompt("m1"))
    write(home, "sessions/flat-1.jsonl", lines.read_bytes().replace(ID.encode(), b"flat-1"))
    write(home, "snapshots/flat-1/aa@v1", "one")
    for at in (home, type(home)(home.path / "sessions")):
        files = SessionFiles.of(Session.find((at,), "flat-1"))
        assert content_of(files.find("a.py").versions[0]) == b"one"


def test_missing_versions_are_values(orchard):
    os.unlink(orchard.path / "file-history" / ID / "aa@v1")
    version = files_of(orchard).find("a.py").versions[0]
    assert (version.path, version.problem) == (None, "missing")
    assert content_of(version) == Unreadable("missing")


def test_a_version_that_vanishes_after_listing_is_a_value(orchard, tmp_path):
    files = files_of(orchard)
    os.unlink(orchard.path / "file-history" / ID / "aa@v2")
    found = restore(files, "a.py", "m2", tmp_path / "a.py")
    assert (found.outcome, found.detail) == (VersionOutcome.MISSING, "missing")


@pytest.mark.parametrize(
    "name",
    ["../../secret", "/etc/passwd", "..", "", "a/b@v1", "a\\b@v1", ".hidden", 7, ["x"], "x\0@v1"],
)
def test_a_name_that_could_lead_elsewhere_is_never_opened(home, tmp_path, name):
    (tmp_path / "secret").write_text("secret")
    log(home, ID, snapshot("m1", {"a.py": kept(name)}), prompt("m1"))
    keep(home, "other@v1", "x")
    files = files_of(home)
    (version,) = files.find("a.py").versions
    assert version.problem
    assert isinstance(content_of(version), Unreadable)
    (found,) = restore_all(files, "m1", tmp_path / "out")
    assert found.outcome is VersionOutcome.MISSING
    assert not (tmp_path / "out").exists()


def test_a_kept_version_that_is_a_link_is_not_followed(home, tmp_path):
    (tmp_path / "secret").write_text("secret")
    log(home, ID, snapshot("m1", {"a.py": kept("aa@v1"), "b.py": kept("bb@v1")}), prompt("m1"))
    (home.path / "file-history" / ID).mkdir(parents=True)
    os.symlink(tmp_path / "secret", home.path / "file-history" / ID / "aa@v1")
    (home.path / "file-history" / ID / "bb@v1").mkdir()
    found = {each.path: each for each in restore_all(files_of(home), "m1", tmp_path / "out")}
    assert {each.outcome for each in found.values()} == {VersionOutcome.MISSING}
    assert found[f"{PROJECT}/a.py"].detail == "a symbolic link"


def test_records_of_another_shape_are_counted_not_raised(home):
    records = [
        {"type": "file-history-snapshot"},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": [1]},
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {"trackedFileBackups": 3}},
        {"type": "file-history-delta", "messageId": "m"},
        snapshot("m1", {"a.py": "text", "b.py": None, "": kept("cc@v1", "one", "never")}),
        *edit("e", "m1", "/x/y", structuredPatch=[1, {"lines": 4}, {"lines": [5, "+a"]}]),
        prompt("q", toolUseResult={"filePath": 4, "structuredPatch": 5}),
    ]
    log(home, ID, *records)
    files = files_of(home)
    assert files.odd == 4
    assert files.find("a.py").versions[0].problem == "its record has another shape"
    assert files.find("/x/y").edits[0].added == 1
    assert len(files.at("m1")) == 3


def test_two_versions_differ_as_a_unified_diff_says(orchard):
    first, second = files_of(orchard).find("a.py").versions
    found = diff_of(first, second, "a.py")
    assert found.text == "--- a.py@v1\n+++ a.py@v2\n@@ -1 +1 @@\n-one\n+two\n"
    assert (found.added, found.removed) == (1, 1)
    assert diff_of(first, first).text == ""
    absent, new = files_of(orchard).find("new.py").versions
    assert diff_of(absent, new).text.startswith("--- /dev/null\n+++ @v2\n@@ -0,0 +1,2 @@\n+x\n")
    assert diff_of(None, second, "a.py").added == 1


def test_a_diff_cuts_lines_at_newlines_only_and_tells_of_a_missing_one(orchard):
    keep(orchard, "aa@v1", "a\x0cb\u2028c\n")
    keep(orchard, "aa@v2", "a\x0cb\u2028d")
    found = diff_of(*files_of(orchard).find("a.py").versions)
    assert found.text.endswith("-a\x0cb\u2028c\n+a\x0cb\u2028d\n\\ No newline at end of file\n")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"\xff\xfe", "not text"), (b"a\0b", "not text"), (b"x" * (DIFF_LIMIT + 1), "larger than")],
)
def test_what_cannot_be_compared_is_a_value(orchard, content, problem):
    keep(orchard, "aa@v2", content)
    assert problem in diff_of(*files_of(orchard).find("a.py").versions).problem


def test_a_missing_version_cannot_be_compared(orchard):
    os.unlink(orchard.path / "file-history" / ID / "aa@v1")
    found = diff_of(*files_of(orchard).find("a.py").versions)
    assert found.problem == "version 1 cannot be read: missing"


def test_a_file_is_restored_privately_where_the_caller_says(orchard, tmp_path):
    previous = os.umask(0)
    try:
        found = restore(files_of(orchard), "a.py", "m1", tmp_path / "then" / "a.txt")
    finally:
        os.umask(previous)
    target = tmp_path / "then" / "a.txt"
    assert (found.outcome, found.target, found.size_bytes) == (
        VersionOutcome.WRITTEN,
        str(target),
        4,
    )
    assert target.read_text() == "one\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
    assert restore(files_of(orchard), "new.py", None, tmp_path).target == str(tmp_path / "new.py")
    assert restore(files_of(orchard), "a.py", "v2", tmp_path).outcome is VersionOutcome.WRITTEN
    assert (tmp_path / "a.py").read_text() == "two\n"


def test_all_files_are_restored_at_once(orchard, tmp_path):
    into = tmp_path / "then"
    found = {each.path: each.outcome for each in restore_all(files_of(orchard), "m1", into)}
    assert found == {
        f"{PROJECT}/a.py": VersionOutcome.WRITTEN,
        f"{PROJECT}/src/new.py": VersionOutcome.ABSENT,
    }
    restore_all(files_of(orchard), "m2", tmp_path / "later")
    assert (tmp_path / "later" / "src" / "new.py").read_text() == "x\ny\n"


def test_a_file_that_exists_is_replaced_only_when_told(orchard, tmp_path):
    target = tmp_path / "a.py"
    target.write_text("mine")
    assert restore(files_of(orchard), "a.py", "m1", target).outcome is VersionOutcome.EXISTS
    assert target.read_text() == "mine"
    found = restore(files_of(orchard), "a.py", "m1", target, overwrite=True)
    assert found.outcome is VersionOutcome.WRITTEN
    assert target.read_text() == "one\n"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "home"]


def test_without_hard_links_nothing_is_overwritten_either(orchard, tmp_path, monkeypatch):
    def refuse(*args, **more):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "a.py"
    assert restore(files_of(orchard), "a.py", "m1", target).outcome is VersionOutcome.WRITTEN
    assert target.read_text() == "one\n"
    monkeypatch.setattr(atomic_files.Folder, "has", lambda *_: False)  # Made just now, by another.
    target.write_text("mine")
    assert restore(files_of(orchard), "a.py", "m1", target).outcome is VersionOutcome.EXISTS
    assert target.read_text() == "mine"


def test_links_in_the_way_are_not_followed(orchard, tmp_path):
    outside, into = tmp_path / "outside", tmp_path / "into"
    outside.mkdir()
    into.mkdir()
    (outside / "kept").write_text("mine")
    os.symlink(outside, into / "src")
    os.symlink(outside / "kept", into / "a.py")
    files = files_of(orchard)
    found = {each.path: each.outcome for each in restore_all(files, "m2", into)}
    assert found == {
        f"{PROJECT}/a.py": VersionOutcome.EXISTS,
        f"{PROJECT}/src/new.py": VersionOutcome.BLOCKED,
    }
    restore_all(files, "m2", into, overwrite=True)
    assert (into / "a.py").read_text() == "two\n"
    assert not (into / "a.py").is_symlink()
    assert (os.listdir(outside), (outside / "kept").read_text()) == (["kept"], "mine")


def test_a_file_or_directory_in_the_way_is_a_value(orchard, tmp_path):
    (tmp_path / "file").write_text("")
    files = files_of(orchard)
    assert {each.outcome for each in restore_all(files, "m2", tmp_path / "file")} == {
        VersionOutcome.BLOCKED
    }
    (tmp_path / "into" / "a.py" / "x").mkdir(parents=True)
    found = restore_all(files, "m2", tmp_path / "into", overwrite=True)
    assert [each.outcome for each in found] == [VersionOutcome.BLOCKED, VersionOutcome.WRITTEN]
    assert sorted(os.listdir(tmp_path / "into")) == ["a.py", "src"]


def test_no_path_in_a_log_leads_outside(home, tmp_path):
    paths = [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../../../../x",
        "C:\\Windows\\win.ini",
        "..\\..\\y",
        "\\\\server\\share\\z",
        "n\0ul",
        "l" * 300,
        "s\ud800urrogate",
        "..",
        "/",
        "",
    ]
    tracked = {path: kept(f"{number}@v1") for number, path in enumerate(paths)}
    log(home, ID, snapshot("m1", tracked), prompt("m1"))
    for number in range(len(paths)):
        keep(home, f"{number}@v1", str(number))
    into = tmp_path / "deep" / "er" / "into"
    before = sorted(os.listdir(tmp_path))
    found = restore_all(files_of(home), "m1", into)
    assert {each.outcome for each in found} <= {
        VersionOutcome.WRITTEN,
        VersionOutcome.UNSAFE,
        VersionOutcome.BLOCKED,
    }
    assert all(each.target is None or each.target.startswith(f"{into}{os.sep}") for each in found)
    assert (into / OUTSIDE / "etc" / "passwd").read_text() == "1"
    assert sorted(set(os.listdir(tmp_path)) - {"deep"}) == before
    assert os.listdir(tmp_path / "deep") == ["er"]
    assert os.listdir(tmp_path / "deep" / "er") == ["into"]


def test_a_full_disk_is_an_error(orchard, tmp_path, monkeypatch):
    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "sync", fail)
    with pytest.raises(LogError, match="no room"):
        restore(files_of(orchard), "a.py", "m1", tmp_path / "into" / "a.py")
    assert os.listdir(tmp_path / "into") == []


def test_only_kept_files_can_be_restored(home, tmp_path):
    log(home, ID, prompt("q"), *edit("e", "q", f"{PROJECT}/a.py"))
    with pytest.raises(NotFound, match="was kept"):
        restore(files_of(home), "a.py", None, tmp_path / "x")
    with pytest.raises(NotFound):
        restore(files_of(home), "b.py", None, tmp_path / "x")


def test_reading_never_changes_the_home(orchard, tmp_path):
    def seen():
        return {
            path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in orchard.path.rglob("*")
        }

    before = seen()
    restore_all(files_of(orchard), "m2", tmp_path / "into")
    assert seen() == before


def test_paths_of_other_machines_stay_what_they_are():
    project = "C:\\Users\\ada\\orchard"
    path = whole_path("src\\a.py", project)
    assert path == "C:\\Users\\ada\\orchard\\src\\a.py"
    assert shown_path(path, project) == "src\\a.py"
    assert safe_parts(path, project) == ("src", "a.py")
    assert safe_parts("D:\\x.py", project) == (OUTSIDE, "D", "x.py")
    assert safe_parts("a\\b", None) == ("a\\b",)
    assert safe_parts("../x", None) == (OUTSIDE, "x")
    assert safe_parts("x/y", None) == ("x", "y")
