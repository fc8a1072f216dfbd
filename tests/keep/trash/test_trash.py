"""The trash: each file is whole in one of two places at every moment; doing it again ends it."""

import contextlib
import errno
import json
import os
import stat
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keep.orchard_store import ID, KEY, Broken, fails_at, files, in_trash, make, put
from turnlog.errors import LogError, LogLocked, NotALog, StorageFull, TurnlogError, UsageError
from turnlog.keep.trash.trash import FileToTrash, Trash
from turnlog.sessions.journal import Journal
from turnlog.storage.locks import lock

NOW = datetime(2026, 3, 1, 10, 11, 12, tzinfo=UTC)
NAMES = [
    f"tasks/{ID}/1.json",
    f"file-history/{ID}/0123@v1",
    f"{KEY}/{ID}/tool-results/b1.txt",
    f"{KEY}/{ID}.jsonl",
]


@pytest.fixture
def home(tmp_path):
    return make(tmp_path / "home", ID)


@pytest.fixture
def trash(own):
    return Trash(own)


def discard(trash, home, names=NAMES, **more):
    doomed = [FileToTrash("home", each) for each in names]
    return trash.discard(ID, str(home.path), doomed, why="a test", now=NOW, **more)


def events(own):
    return [json.loads(row) for row in (own / "journal.jsonl").read_bytes().splitlines()][1:]


def test_what_goes_is_in_the_trash_byte_for_byte_with_its_times_and_modes(trash, home, own):
    before = files(home.path)
    (home.path / NAMES[0]).chmod(0o640)
    trashed = discard(trash, home)
    assert in_trash(own) == {f"home/{name}": [before[name]] for name in NAMES}
    assert files(home.path).keys() == before.keys() - set(NAMES)
    first = trashed.entry.files[0]
    assert (first.name, first.mode, first.mtime_ns) == (NAMES[0], 0o640, 1_767_400_000 * 10**9)
    assert [each.name for each in trash.entries()] == [trashed.name]
    assert trash.entries()[0].entry == trashed.entry
    (event,) = events(own)
    assert (event["event"], event["sessionId"], event["trash"]) == ("deleted", ID, trashed.name)
    assert event["timestamp"] == "2026-03-01T10:11:12.000Z"


def test_what_is_put_back_is_as_it_was(trash, home, own):
    (home.path / NAMES[0]).chmod(0o640)
    before = files(home.path)
    trashed = discard(trash, home)
    assert trash.restore(trashed) == len(NAMES)
    assert files(home.path) == before
    status = (home.path / NAMES[0]).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, 1_767_400_000)
    assert trash.entries() == []
    assert os.listdir(own / "trash") == []
    assert [event["event"] for event in events(own)] == ["deleted", "restored"]


def test_nothing_is_deleted_if_there_is_nothing(trash, home, own):
    assert discard(trash, home, ["tasks/none/1.json"]) is None
    assert trash.entries() == []
    assert not (own / "journal.jsonl").exists()


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_deletion_that_fails_anywhere_loses_nothing_and_is_finished(
    tmp_path, monkeypatch, is_copied, stride
):
    """Every system call in turn is the last that works."""
    number = 1 - stride
    while True:
        number += stride
        monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / f"own-{number}"))
        home, own = make(tmp_path / f"home-{number}", ID), tmp_path / f"own-{number}"
        before = files(home.path)
        trash = Trash(own)
        with monkeypatch.context() as apart:
            if is_copied:
                separate(apart)
            with fails_at(apart, number) as calls, contextlib.suppress(TurnlogError):
                discard(trash, home)
            check_nothing_lost(before, home, own)
            is_over = len(calls) < number
            # The same command again.
            unfinished = trash.entries()
            assert len(unfinished) <= 1
            for trashed in unfinished:
                trash.finish(trashed)
            discard(trash, home)
        check_nothing_lost(before, home, own)
        assert files(home.path).keys() == before.keys() - set(NAMES)
        assert {event["event"] for event in events(own)} == {"deleted"}
        for trashed in trash.entries():
            trash.restore(trashed)
        assert files(home.path) == before
        if is_over:
            break
    assert number > 15


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_restoring_that_fails_anywhere_loses_nothing_and_is_finished(
    tmp_path, monkeypatch, is_copied, stride
):
    number = 1 - stride
    while True:
        number += stride
        monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / f"own-{number}"))
        home, own = make(tmp_path / f"home-{number}", ID), tmp_path / f"own-{number}"
        before = files(home.path)
        trash = Trash(own)
        trashed = discard(trash, home)
        with monkeypatch.context() as apart:
            if is_copied:
                separate(apart)
            with fails_at(apart, number) as calls, contextlib.suppress(TurnlogError):
                trash.restore(trashed)
            check_nothing_lost(before, home, own)
            for left in trash.entries():
                trash.restore(left)
        assert files(home.path) == before
        trash.tidy()
        assert os.listdir(own / "trash") == []
        if len(calls) < number:
            break
    assert number > 15


def test_a_purge_that_fails_anywhere_is_finished(tmp_path, monkeypatch, stride):
    number = 1 - stride
    while True:
        number += stride
        own = tmp_path / f"own-{number}"
        monkeypatch.setenv("TURNLOG_HOME", str(own))
        home = make(tmp_path / f"home-{number}", ID)
        trash = Trash(own)
        trashed = discard(trash, home)
        with fails_at(monkeypatch, number) as calls, contextlib.suppress(TurnlogError):
            trash.purge(trashed)
        # It is in the trash, whole, or it is not in the trash.
        left = trash.entries()
        assert not left or len(in_trash(own)) == len(NAMES)
        for each in left:
            trash.purge(each)
        trash.tidy()
        assert os.listdir(own / "trash") == []
        assert "purged" in {event["event"] for event in events(own)}
        if len(calls) < number:
            break
    assert number > 5


def check_nothing_lost(before, home, own):
    there, gone = files(home.path), in_trash(own)
    for name, data in before.items():
        copies = [there.get(name), *gone.get(f"home/{name}", [])]
        assert data in copies, f"{name} is nowhere"
        assert set(copies) <= {data, None}, f"{name} is not whole somewhere"


def separate(monkeypatch):
    """Let the trash seem to lie on another file system."""
    real_rename, real_link = os.rename, os.link

    def is_across(old, new, more):
        def place(name, fd):
            return os.readlink(f"/proc/self/fd/{fd}") if fd is not None else str(name)

        sides = [place(old, more.get("src_dir_fd")), place(new, more.get("dst_dir_fd"))]
        return len({"/trash/" in f"{side}/" for side in sides}) == 2

    def rename(old, new, **more):
        if is_across(old, new, more):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real_rename(old, new, **more)

    def link(old, new, **more):
        if is_across(old, new, more):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return real_link(old, new, **more)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "link", link)


def test_between_file_systems_a_file_is_copied_with_its_time_and_mode(
    trash, home, own, monkeypatch
):
    (home.path / NAMES[0]).chmod(0o640)
    before = files(home.path)
    separate(monkeypatch)
    trashed = discard(trash, home)
    assert in_trash(own) == {f"home/{name}": [before[name]] for name in NAMES}
    trash.restore(trashed)
    assert files(home.path) == before
    status = (home.path / NAMES[0]).stat()
    assert (stat.S_IMODE(status.st_mode), status.st_mtime) == (0o640, 1_767_400_000)


def test_a_copy_that_does_not_read_back_leaves_the_original(trash, home, monkeypatch):
    before = files(home.path)
    separate(monkeypatch)
    real = os.fdatasync

    def spoil(fd):
        real(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(".part") and "/home/" in path.partition("/trash/")[2]:
            os.pwrite(fd, b"!", 0)

    monkeypatch.setattr(os, "fdatasync", spoil)
    with pytest.raises(LogError, match="does not read back"):
        discard(trash, home)
    assert files(home.path) == before


def test_a_full_disk_while_copying_leaves_the_original(trash, home, own, monkeypatch):
    before = files(home.path)
    separate(monkeypatch)
    real = os.link

    def link(old, new, **more):
        if str(new) == "1.json":
            raise OSError(errno.ENOSPC, "no space")
        return real(old, new, **more)

    with monkeypatch.context() as full:
        full.setattr(os, "link", link)
        with pytest.raises(StorageFull) as told:
            discard(trash, home)
    assert "nothing was deleted" in told.value.hint
    assert files(home.path) == before
    assert os.listdir(own / "trash") == []


def test_a_different_file_is_not_overwritten_and_nothing_is_half_put_back(trash, home, own):
    trashed = discard(trash, home)
    (home.path / NAMES[-1]).parent.mkdir(parents=True, exist_ok=True)
    (home.path / NAMES[-1]).write_bytes(b"new\n")
    before = files(home.path)
    with pytest.raises(UsageError, match="a different file exists at"):
        trash.restore(trashed)
    assert files(home.path) == before
    assert len(in_trash(own)) == len(NAMES)
    (home.path / NAMES[-1]).unlink()
    assert trash.restore(trashed) == len(NAMES)


def test_a_file_that_appears_at_the_last_moment_is_not_overwritten(trash, home, own, monkeypatch):
    trashed = discard(trash, home)
    real = os.link

    def link(old, new, **more):
        if new == f"{ID}.jsonl":
            (home.path / NAMES[-1]).write_bytes(b"new\n")
        return real(old, new, **more)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(UsageError, match="a different file exists at"):
        trash.restore(trashed)
    assert (home.path / NAMES[-1]).read_bytes() == b"new\n"
    assert list(in_trash(own)) == [f"home/{NAMES[-1]}"]


def test_a_second_file_of_that_name_gets_an_entry_of_its_own(trash, home, own):
    discard(trash, home)
    (home.path / NAMES[-1]).parent.mkdir(parents=True, exist_ok=True)
    (home.path / NAMES[-1]).write_bytes(b"new\n")
    for trashed in trash.entries():
        assert trash.finish(trashed) == 0
    discard(trash, home)
    assert len(in_trash(own)[f"home/{NAMES[-1]}"]) == 2
    assert len({each.name for each in trash.entries()}) == 2


def test_links_and_fifos_are_refused_before_anything_moves(trash, home, tmp_path):
    outside = tmp_path / "outside.json"
    outside.write_bytes(b"not yours")
    (home.path / NAMES[0]).unlink()
    for make_it in (lambda p: p.symlink_to(outside), os.mkfifo, lambda p: p.mkdir()):
        make_it(home.path / NAMES[0])
        before = files(home.path)
        with pytest.raises(NotALog, match="not a regular file"):
            discard(trash, home)
        assert files(home.path) == before
        if (home.path / NAMES[0]).is_dir() and not (home.path / NAMES[0]).is_symlink():
            (home.path / NAMES[0]).rmdir()
        else:
            (home.path / NAMES[0]).unlink()
    assert outside.read_bytes() == b"not yours"


def test_a_directory_that_is_a_link_is_not_followed(trash, home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1.json").write_bytes(b"not yours")
    (home.path / "tasks" / ID / "1.json").unlink()
    (home.path / "tasks" / ID).rmdir()
    (home.path / "tasks" / ID).symlink_to(outside)
    with pytest.raises(NotALog):
        discard(trash, home)
    assert (outside / "1.json").read_bytes() == b"not yours"


def test_nothing_is_put_back_through_a_link(trash, home, tmp_path):
    trashed = discard(trash, home)
    outside = tmp_path / "outside"
    outside.mkdir()
    (home.path / "tasks" / ID).rmdir()
    (home.path / "tasks" / ID).symlink_to(outside)
    with pytest.raises(NotALog):
        trash.restore(trashed)
    assert os.listdir(outside) == []
    (home.path / "tasks" / ID).unlink()
    assert trash.restore(trashed)


@pytest.mark.parametrize(
    "spoilt",
    [
        b"",
        b"[]",
        b"{",
        b'{"session":"x"}',
        b"\xff\xfe",
        b'{"a":' * 5000,
        json.dumps({"session": 1}).encode(),
    ],
)
def test_an_entry_that_cannot_be_read_is_told_and_never_purged(trash, home, own, spoilt):
    trashed = discard(trash, home)
    entry = own / "trash" / trashed.name / "entry.json"
    whole = entry.read_bytes()
    entry.write_bytes(spoilt)
    problems = []
    assert trash.entries(problems) == []
    assert [problem.path.name for problem in problems] == [trashed.name]
    trash.tidy()
    assert len(in_trash(own)) == len(NAMES)
    entry.write_bytes(whole)
    assert trash.restore(trash.entries()[0]) == len(NAMES)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("home", "relative/home"),
        ("name", "../../outside"),
        ("name", "/etc/passwd"),
        ("name", "a//b"),
        ("name", "a/\0b"),
        ("deleted_at", "2026-03-01T10:11:12"),
        ("purge_after_at", 0),
    ],
)
def test_an_entry_that_somebody_made_up_cannot_reach_outside(trash, home, own, key, value):
    trashed = discard(trash, home)
    path = own / "trash" / trashed.name / "entry.json"
    said = json.loads(path.read_bytes())
    (said["files"][0] if key == "name" else said)[key] = value
    path.write_text(json.dumps(said))
    problems = []
    assert trash.entries(problems) == []
    assert len(problems) == 1


def test_strangers_in_the_trash_are_told(trash, home, own):
    trashed = discard(trash, home)
    (own / "trash" / "a-file").write_bytes(b"")
    (own / "trash" / "a-link").symlink_to(own / "trash" / trashed.name)
    (own / "trash" / "a-directory").mkdir()
    (own / "trash" / "a-directory" / "file").write_bytes(b"x")
    problems = []
    assert [each.name for each in trash.entries(problems)] == [trashed.name]
    assert {each.path.name for each in problems} == {"a-file", "a-link", "a-directory"}
    trash.tidy()
    assert (own / "trash" / "a-directory" / "file").exists()


def test_everything_is_private_whatever_the_umask(home, own):
    before = os.umask(0)
    try:
        trash = Trash(own)
        discard(trash, home)
    finally:
        os.umask(before)
    for directory, _, names in os.walk(own):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700, directory
        for name in names:
            mode = stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode)
            if "/home/" not in f"{directory[len(str(own)) :]}/":  # Those keep the mode they had.
                assert mode == 0o600, name


def test_a_log_that_somebody_writes_stays(trash, home, own):
    before = files(home.path)
    with open(home.path / NAMES[-1], "ab") as file:
        assert lock(file.fileno(), 0)
        with pytest.raises(LogLocked):
            discard(trash, home)
    assert files(home.path) == before
    assert os.listdir(own / "trash") == []
    assert [event["event"] for event in events(own)] == ["deleted", "restored"]
    assert trash.journal.deletions() == {}


def test_a_trash_that_is_a_link_or_a_file_is_refused(home, own, tmp_path):
    own.mkdir()
    (own / "trash").symlink_to(tmp_path)
    before = files(home.path)
    with pytest.raises(NotALog):
        discard(Trash(own), home)
    (own / "trash").unlink()
    (own / "trash").write_bytes(b"")
    with pytest.raises(NotALog):
        discard(Trash(own), home)
    assert Trash(own).entries() == []
    assert files(home.path) == before


def test_the_time_of_grace(trash, home):
    trashed = discard(trash, home, grace=timedelta(days=7))
    assert not trashed.is_due(NOW + timedelta(days=7, seconds=-1))
    assert trashed.is_due(NOW + timedelta(days=7))


@given(st.text(max_size=30), st.text(max_size=90))
def test_any_session_id_and_any_reason_can_be_trashed(tmp_path_factory, session_id, why):
    place = tmp_path_factory.mktemp("any")
    home = make(place / "home", ID)
    trash = Trash(place / "own")
    doomed = [FileToTrash("home", NAMES[0])]
    trashed = trash.discard(session_id, str(home.path), doomed, why=why, now=NOW)
    (read,) = trash.entries()
    assert (read.entry.session, read.entry.why) == (session_id, why)
    assert os.path.dirname(read.name) == ""
    assert trash.restore(read) == 1
    assert Journal.in_root(place / "own").deletions() == {}
    assert trashed.name == read.name


def test_what_a_killed_purge_and_an_empty_beginning_leave_is_tidied(trash, home, own):
    trashed = discard(trash, home)
    (own / "trash" / "20260101T000000Z-x").mkdir()
    os.rename(own / "trash" / trashed.name, own / "trash" / f".purging-{trashed.name}")
    problems = []
    assert trash.entries(problems) == []
    assert problems == []
    trash.tidy()
    assert os.listdir(own / "trash") == []


def test_a_broken_system_is_told_with_the_way_out(trash, home, monkeypatch):
    real = os.rename

    def rename(old, new, **more):
        if old == "1.json":
            raise Broken(errno.EIO, "input/output error")
        return real(old, new, **more)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(LogError) as told:
        discard(trash, home)
    assert told.value.hint == "nothing was deleted; every file is where it was"


@pytest.mark.parametrize("is_copied", [False, True])
def test_a_home_that_is_read_only_leaves_nothing_in_the_trash(
    trash, home, own, monkeypatch, is_copied
):
    before = files(home.path)
    if is_copied:
        separate(monkeypatch)
    refuse_in(monkeypatch, home.path, "rename", "src_dir_fd")
    refuse_in(monkeypatch, home.path, "unlink", "dir_fd")
    with pytest.raises(LogError, match="read-only") as told:
        discard(trash, home)
    assert "nothing was deleted" in told.value.hint
    assert files(home.path) == before
    assert os.listdir(own / "trash") == []
    assert trash.journal.deletions() == {}


def test_what_cannot_be_put_back_stays_in_the_trash_and_says_so(trash, home, own, monkeypatch):
    before = files(home.path)
    with monkeypatch.context() as broken:
        refuse_in(broken, home.path / "projects", "rename", "src_dir_fd")
        refuse_in(broken, own, "link", "src_dir_fd")
        with pytest.raises(LogError) as told:
            discard(trash, home)
    assert "delete again" in told.value.hint
    check_nothing_lost(before, home, own)
    (trashed,) = trash.entries()
    assert trash.why_unfinished(trashed)
    assert trash.restore(trashed)
    assert files(home.path) == before


def refuse_in(monkeypatch, place, name, argument):
    """Let a system call fail for what lies in *place*, as if that were read-only."""
    real = getattr(os, name)

    def refuse(*names, **more):
        fd = more.get(argument)
        where = os.path.realpath(f"/proc/self/fd/{fd}") if fd is not None else str(names[0])
        if f"{where}/".startswith(f"{place}/"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(*names, **more)

    monkeypatch.setattr(os, name, refuse)


def test_a_real_other_file_system(home, monkeypatch):
    shared = "/dev/shm"
    if not os.path.isdir(shared) or os.stat(shared).st_dev == home.path.stat().st_dev:
        pytest.skip("there is no other file system here")
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory(dir=shared) as place:
        monkeypatch.setenv("TURNLOG_HOME", place)
        before = files(home.path)
        trash = Trash(Path(place))
        trashed = discard(trash, home)
        assert in_trash(Path(place)) == {f"home/{name}": [before[name]] for name in NAMES}
        assert trash.restore(trashed) == len(NAMES)
        assert files(home.path) == before


def test_an_entry_of_which_something_is_not_here_is_unfinished(trash, home, own):
    trashed = discard(trash, home)
    assert not trash.why_unfinished(trashed)
    path = home.path / NAMES[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    os.rename(own / "trash" / trashed.name / "home" / NAMES[0], path)
    assert trash.why_unfinished(trashed)
    path.unlink()
    assert not trash.why_unfinished(trashed)  # It is nowhere: somebody else removed it.


# -- entries that somebody else wrote -------------------------------------------------------


def planted(own, home, *names, tree="home", **more):
    """Put an entry into the trash that no deletion made."""
    place = own / "trash" / "20260101T000000Z-planted"
    for name in names:
        path = place / tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"ssh-ed25519 AAAA")
    files = [
        {"tree": tree, "name": name, "size_bytes": 16, "mode": 0o600, "mtime_ns": 0}
        for name in names
    ]
    fields = {
        "session": ID,
        "home": str(home),
        "why": "asked for",
        "deleted_at": "2026-01-01T00:00:00Z",
        "purge_after_at": "2026-02-01T00:00:00Z",
        "files": files,
    }
    (place / "entry.json").write_text(json.dumps(fields | more))


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        ("home", ".ssh/authorized_keys"),
        ("home", ".bashrc"),
        ("home", "settings.json"),
        ("home", "settings.local.json"),
        ("home", "bin/sudo"),
        ("home", "agents/evil.md"),
        ("home", "CLAUDE.md"),
        ("kept", "catalogue.json"),
        ("kept", "home.json"),
        ("kept", ".ssh/authorized_keys.zst"),
        ("kept", "generations/1/settings.json.zst"),
    ],
)
def test_an_entry_with_files_that_no_session_has_is_not_put_back(trash, own, tmp_path, tree, name):
    planted(own, tmp_path / "target", f"projects/-a/{ID}.jsonl", name, tree=tree)
    problems = []
    assert trash.entries(problems) == []
    assert [each.reason for each in problems] == [
        "entry.json: names of files that agents do not keep in a home"
    ]
    assert not (tmp_path / "target").exists()


def test_a_directory_of_a_flat_session_is_put_back_with_its_log(trash, own, tmp_path):
    (tmp_path / "flat").mkdir()
    planted(own, tmp_path / "flat", "s-1.jsonl.gz", "s-1/subagents/agent-a.jsonl")
    (trashed,) = trash.entries()
    assert trash.restore(trashed) == 2


def test_an_entry_that_was_to_go_before_it_came_is_never_due(trash, own, home):
    planted(own, home.path, f"todos/{ID}-agent-{ID}.json", purge_after_at="2025-12-31T00:00:00Z")
    (trashed,) = trash.entries()
    assert not trashed.is_due(datetime(2036, 1, 1, tzinfo=UTC))


def test_names_that_some_file_systems_take_for_one_do_not_meet_in_the_trash(trash, home, own):
    names = [f"projects/-srv-Mill/{ID}.jsonl", f"projects/-srv-mill/{ID}.jsonl"]
    for name in names:
        put(home, name, name)
    before = files(home.path)
    trashed = discard(trash, home, names)
    assert [each.conflict for each in trashed.entry.files] == [0, 1]
    assert trash.restore(trash.entries()[0]) == 2
    assert files(home.path) == before
