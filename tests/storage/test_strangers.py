"""Programs that know no locks, interrupts, and other bad moments."""

import os

import pytest

from turnlog.errors import StorageFull
from turnlog.storage import locks, writer
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.writer import LogWriter

STRANGER = b'{"type":"mode","mode":"theirs","sessionId":"s"}\n'


def modes(path):
    return [item.record.mode for item in read_log(path) if isinstance(item, Placed)]


def mode(name):
    return {"type": "mode", "mode": name, "sessionId": "s"}


def write_as_a_stranger(path, data=STRANGER):
    with open(path, "ab", buffering=0) as file:
        file.write(data)


@pytest.fixture
def interrupted(monkeypatch, tmp_path):
    """A log into which a stranger writes after it was locked and before we write."""
    path = tmp_path / "s.jsonl"
    real = writer.Handle.ends_in_newline

    def check(self, size):
        found = real(self, size)
        write_as_a_stranger(path)
        monkeypatch.undo()
        return found

    with LogWriter(path) as log:
        log.append(mode("first"))
        monkeypatch.setattr(writer.Handle, "ends_in_newline", check)
        yield log


def test_an_append_says_where_the_record_stands_also_behind_a_stranger(interrupted):
    placed = interrupted.append(mode("ours"))
    data = interrupted.path.read_bytes()
    assert b'"ours"' in data[placed.offset : placed.offset + placed.length]
    assert modes(interrupted.path) == ["first", "theirs", "ours"]


def test_what_a_stranger_wrote_in_between_is_still_news(interrupted):
    interrupted.append(mode("ours"))
    seen = []

    def decide(news):
        seen.extend(item.record.mode for item in news.items)
        return [mode("last")]

    interrupted.append_after(decide)
    assert "theirs" in seen
    assert modes(interrupted.path)[-1] == "last"


def test_a_record_that_a_stranger_split_is_not_acknowledged(monkeypatch, tmp_path):
    path = tmp_path / "s.jsonl"
    real = os.write

    def short(fd, data):
        monkeypatch.undo()
        written = real(fd, data[:10])
        write_as_a_stranger(path)
        return written

    with LogWriter(path) as log:
        log.append(mode("first"))
        monkeypatch.setattr(os, "write", short)
        with pytest.raises(StorageFull):
            log.append(mode("ours"))
        log.append(mode("again"))
    assert modes(path) == ["first", "theirs", "again"]


def test_an_interrupt_right_after_the_lock_was_taken_gives_it_back(monkeypatch, tmp_path):
    path = tmp_path / "s.jsonl"
    real = locks.lock

    def lock_and_be_interrupted(fd, timeout):
        real(fd, timeout)
        raise KeyboardInterrupt

    with LogWriter(path, lock_timeout=0) as log, LogWriter(path, lock_timeout=0) as other:
        monkeypatch.setattr(locks, "lock", lock_and_be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.append(mode("lost"))
        monkeypatch.undo()
        other.append(mode("other"))
        log.append(mode("ours"))
    assert modes(path) == ["other", "ours"]


def test_a_child_forked_while_deciding_does_not_keep_the_lock(tmp_path):
    path = tmp_path / "s.jsonl"
    children = []

    def decide(_news):
        child = os.fork()
        if child == 0:
            import signal

            signal.pause()
        children.append(child)
        return [mode("ours")]

    try:
        with LogWriter(path) as log:
            log.append_after(decide)
        with LogWriter(path, lock_timeout=2) as other:
            other.append(mode("other"))
    finally:
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert modes(path) == ["ours", "other"]


def test_what_a_dead_creator_left_is_synced_by_the_next(monkeypatch, tmp_path):
    path = tmp_path / "a" / "b" / "s.jsonl"
    path.parent.mkdir(parents=True)
    synced = []
    real = os.fsync

    def note(fd):
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", note)
    LogWriter(path).close()
    for directory in (path.parent, tmp_path / "a", tmp_path):
        assert str(directory) in synced
