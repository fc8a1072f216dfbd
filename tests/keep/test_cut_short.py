"""What commands leave that were killed: the next one of the kind takes it away, and only that."""

import os
import shutil

import pytest

from keep.archive.archives import flat_store, session_in, small_home
from keep.orchard_store import ID, KEY
from turnlog.keep.compaction.compact import compact
from turnlog.keep.copies import copy_file
from turnlog.keep.copies.copy_file import HOUR, sweep
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import find_restorable, mirrors
from turnlog.keep.restore.restore import restore
from turnlog.keep.retention.policy import Policy
from turnlog.keep.retention.retention import prune
from turnlog.keep.trash.delete import delete_session, restore_from_trash
from turnlog.keep.trash.trash import Trash

PART = ".turnlog-0123456789abcdef.part"


@pytest.fixture
def later(monkeypatch):
    """Let two hours pass."""
    now = copy_file.time.time()

    class Clock:
        def time(self):
            return now + 2 * HOUR

    monkeypatch.setattr(copy_file, "time", Clock())


def left_in(directory, name=PART):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(b"half of it")
    return directory / name


def test_what_may_still_be_in_the_making_is_not_swept(tmp_path):
    young, other = left_in(tmp_path), left_in(tmp_path, ".turnlog-note")
    os.utime(young, (1, 1))  # As old as what it will hold.
    sweep([tmp_path, tmp_path / "missing"], unused_for=HOUR)
    assert young.exists()
    sweep([tmp_path])
    assert not young.exists()
    assert other.exists()


def test_restoring_sweeps_where_it_restores(tmp_path, own, later):
    home, _ = small_home(tmp_path / "home")
    keep([home])
    shutil.rmtree(home.path / KEY)
    part = left_in(home.path / KEY / ID / "subagents")
    restore(find_restorable(mirrors((home,)), ID))
    assert not part.exists()


def test_a_rewriting_that_was_killed_leaves_nothing_once_it_is_done_again(tmp_path, own):
    line = b'{"type":"ai-title","aiTitle":"%d","sessionId":"' + ID.encode() + b'"}\n'
    home, _ = small_home(tmp_path / "home")
    log = home.path / KEY / f"{ID}.jsonl"
    data = log.read_bytes()
    lines = data.splitlines(keepends=True)
    log.write_bytes(lines[0] + line % 1 + line % 2 + b"".join(lines[1:]))
    before = log.read_bytes()
    fresh = log.with_name(f".{log.name}.repair-20260101T000000.000000Z")
    fresh.write_bytes(before[:100])
    os.link(log, log.with_name(f"{log.name}.original-20260101T000000.000000Z"))
    mine = log.with_name(f"{log.name}.original-20250101T000000.000000Z")
    mine.write_bytes(b"another\n")
    done = compact(session_in(home), write=True)
    assert done.written
    assert not fresh.exists()
    assert mine.read_bytes() == b"another\n"
    originals = [path for path in log.parent.glob(f"{log.name}.original-*") if path != mine]
    assert [path.read_bytes() for path in originals] == [before]


def test_empty_directories_of_an_archived_session_go_the_next_time(tmp_path, own):
    home, _ = small_home(tmp_path / "home")
    session_in(home).archive(remove=True)
    (home.path / KEY / ID / "subagents").mkdir(parents=True)
    assert session_in(home).archive(remove=True).was_archived
    assert not (home.path / KEY / ID).exists()


def test_empty_directories_of_a_flat_archive_go_the_next_time(tmp_path, own, later):
    home, _ = flat_store(tmp_path / "home")
    session_in(home).archive()
    session_in(home).unarchive()
    compressed = home.path / "sessions" / "compressed"
    (compressed / ID / "subagents").mkdir(parents=True)
    part = left_in(home.path / "sessions")
    assert not session_in(home).unarchive().files
    assert not (compressed / ID).exists()
    assert not part.exists()


def test_retention_finishes_a_deletion_that_was_killed_at_its_end(tmp_path, own):
    home, _ = flat_store(tmp_path / "home")
    session_in(home).archive()
    session_in(home).unarchive()  # Now the store has a registry.
    sessions = home.path / "sessions"
    registry = (sessions / "index.json").read_bytes()
    trashed = delete_session([home], ID, own=own).entries
    (sessions / "index.json").write_bytes(registry)
    (sessions / ID / "subagents").mkdir(parents=True)
    now = Trash(own).entries()[0].entry.deleted_at
    prune([home], Policy(enabled=True), now=now, write=True, own=own)
    assert not (sessions / ID).exists()
    assert b'"sessions": []' in (sessions / "index.json").read_bytes()
    assert [each.name for each in Trash(own).entries()] == trashed


def test_retention_leaves_a_session_alone_that_somebody_went_on_with(tmp_path, own):
    home, parts = flat_store(tmp_path / "home")
    session_in(home).archive()
    session_in(home).unarchive()
    sessions = home.path / "sessions"
    registry = (sessions / "index.json").read_bytes()
    delete_session([home], ID, own=own)
    now = Trash(own).entries()[0].entry.deleted_at
    data = parts[f"sessions/{ID}.jsonl"]
    (sessions / f"{ID}.jsonl").write_bytes(data)
    (sessions / "index.json").write_bytes(registry)
    prune([home], Policy(enabled=True, days=10_000), now=now, write=True, own=own)
    assert (sessions / f"{ID}.jsonl").read_bytes() == data
    assert (sessions / "index.json").read_bytes() == registry


def test_deleting_takes_away_what_earlier_deletions_began_and_purges_left(tmp_path, own):
    home, _ = small_home(tmp_path / "home")
    begun = left_in(own / "trash" / f"20260101T000000Z-{ID}")
    purging = left_in(own / "trash" / ".purging-20250101T000000Z-x", "entry.json")
    delete_session([home], ID, own=own)
    assert not begun.exists()
    assert not purging.exists()


def test_putting_back_from_the_trash_sweeps_where_it_puts(tmp_path, own, later):
    home, _ = small_home(tmp_path / "home")
    delete_session([home], ID, own=own)
    part = left_in(home.path / KEY)
    trash = Trash(own)
    restore_from_trash(trash, trash.entries()[0])
    assert not part.exists()
    assert (home.path / KEY / f"{ID}.jsonl").exists()
