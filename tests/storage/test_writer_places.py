"""Where a log may be made: private, inside its root, never through a symbolic link."""

from __future__ import annotations

import os
import stat

import pytest

from storage.logs import in_child, lines, numbered, put
from turnlog.errors import InvalidId, LogError, NotALog, TurnlogError
from turnlog.storage import locks
from turnlog.storage.writer import LogWriter


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_logs_and_their_directories_are_private_whatever_the_umask(tmp_path, umask):
    log = tmp_path / "a" / "b" / "log.jsonl"

    def make():
        os.umask(umask)
        with LogWriter(log) as writer:
            writer.append(numbered(1))

    in_child(make)
    assert mode(log) == 0o600
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o700
    assert log.read_bytes() == lines(1)


def test_directories_that_were_there_keep_their_mode(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    log = put(tmp_path / "a" / "log.jsonl", lines(1))
    log.chmod(0o644)
    with LogWriter(log) as writer:
        writer.append(numbered(2))
    assert mode(tmp_path / "a") == 0o755
    assert mode(log) == 0o644


def test_a_log_is_not_made_unless_it_may_be(tmp_path):
    with pytest.raises(LookupError):
        LogWriter(tmp_path / "a" / "log.jsonl", create=False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "where", ["../log.jsonl", "a/../../log.jsonl", "../rootless/log.jsonl", ""]
)
def test_a_path_outside_the_root_is_refused(tmp_path, where):
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(InvalidId):
        LogWriter(root / where, root=root)
    with pytest.raises(InvalidId):
        LogWriter("/elsewhere/log.jsonl", root=root)
    assert sorted(os.listdir(tmp_path)) == ["root"]
    assert os.listdir(root) == []


def test_a_path_inside_the_root_is_made_with_the_root_itself(tmp_path):
    root = tmp_path / "root"
    with LogWriter(root / "p" / "x" / ".." / "log.jsonl", root=root) as writer:
        writer.append(numbered(1))
    assert (root / "p" / "log.jsonl").read_bytes() == lines(1)
    assert mode(root) == 0o700


def test_no_symbolic_link_is_followed_below_the_root(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "real").mkdir()
    (root / "real" / "deeper").symlink_to(outside)
    for path in (root / "link" / "log.jsonl", root / "real" / "deeper" / "new" / "log.jsonl"):
        with pytest.raises(NotALog) as refusal:
            LogWriter(path, root=root)
        assert refusal.value.hint
    assert os.listdir(outside) == []


def test_the_root_itself_may_be_reached_through_a_symbolic_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    with LogWriter(tmp_path / "root" / "log.jsonl", root=tmp_path / "root") as writer:
        writer.append(numbered(1))
    assert (tmp_path / "real" / "log.jsonl").read_bytes() == lines(1)


def test_a_log_swapped_for_a_symbolic_link_is_not_followed(tmp_path):
    log, target = tmp_path / "log.jsonl", put(tmp_path / "target", b"")
    with LogWriter(log) as writer:
        writer.append(numbered(1))
        log.unlink()
        log.symlink_to(target)
        with pytest.raises(NotALog):
            writer.append(numbered(2))
    assert target.read_bytes() == b""


def test_a_log_swapped_for_a_directory_is_refused(tmp_path):
    log = tmp_path / "log.jsonl"
    with LogWriter(log) as writer:
        writer.append(numbered(1))
        log.unlink()
        log.mkdir()
        with pytest.raises(NotALog):
            writer.append(numbered(2))


def test_a_directory_swapped_for_a_file_is_a_typed_error_and_frees_the_lock(tmp_path):
    home, moved = tmp_path / "home", tmp_path / "moved"
    with LogWriter(home / "log.jsonl") as writer:
        writer.append(numbered(1))
        home.rename(moved)
        put(home, b"")
        with pytest.raises(TurnlogError):
            writer.append(numbered(2))
        with LogWriter(moved / "log.jsonl", lock_timeout=0) as other:
            other.append(numbered(3))
    assert (moved / "log.jsonl").read_bytes() == lines(1, 3)


def test_a_new_log_and_its_directories_are_synced_before_it_counts(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd))[1])
    LogWriter(tmp_path / "a" / "b" / "log.jsonl").close()
    made = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert {path.stat().st_ino for path in made} <= set(synced)


def test_a_failed_sync_of_a_new_log_is_a_typed_error(tmp_path, monkeypatch):
    def fail(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LogError):
        LogWriter(tmp_path / "log.jsonl")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_file_systems_of_several_machines_are_known(kind):
    assert locks.is_network(kind)
    assert not locks.is_doubtful(kind)


@pytest.mark.parametrize("kind", ["fuse", "fuse.something", "virtiofs", "vboxsf"])
def test_file_systems_that_promise_nothing_are_known(kind):
    assert locks.is_doubtful(kind)
    assert not locks.is_network(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "apfs", ""])
def test_local_file_systems_are_trusted(kind):
    assert not locks.is_network(kind)
    assert not locks.is_doubtful(kind)


@pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="needs Linux")
def test_the_file_system_of_a_log_is_told(tmp_path):
    fd = os.open(put(tmp_path / "log.jsonl"), os.O_RDONLY)
    try:
        assert locks.filesystem(fd)
    finally:
        os.close(fd)
