"""Compaction when things go wrong: the old log or the new one, whole, and nothing else."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from keep.compaction.compacting import (
    ID,
    LARGE,
    found,
    lines_of,
    result,
    seen,
    title,
    told,
    u,
    written,
)
from sessions.trees import answer, call, line
from storage.logs import add, in_child
from turnlog.errors import LogError, LogLocked, StorageFull, TurnlogError, WriteFailed
from turnlog.keep.compaction import compact as compaction
from turnlog.keep.compaction.compact import compact
from turnlog.keep.compaction.rules import LineChange, Rule
from turnlog.keep.compaction.undo import undo
from turnlog.storage import system
from turnlog.storage.writer import LogWriter

# What the machine is asked for on the way: each of these may fail, or be the last thing done.
CALLS = ["open", "write", "link", "replace", "rename", "fdatasync", "fsync", "mkdir", "utime",
         "unlink", "fchmod", "fchown", "pread"]  # fmt: skip
FAILING = ["open", "write", "link", "replace", "rename", "fdatasync", "mkdir", "utime"]


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def log(home):
    """A log with something for most rules, and its session's views."""
    said = answer("a", u(1), "m", call("c1"))
    long = result("r", "a", "c1", "kite " * 4000)
    return written(home, told(1), said, said, title("one"), long, title("two"), told(2, "r"))


def shrink(home):
    return compact(found(home), write=True, blobs=True, blob_bytes=LARGE, lock_timeout=0)


def unfinished(log):
    """What an unfinished compaction left beside the log."""
    names = [path.name for path in log.parent.rglob("*") if path.is_file()]
    return [name for name in names if name.startswith(".")]


class Tripwire:
    """Counts calls of the system; does something at one of them."""

    def __init__(self, monkeypatch, names, at, step):
        self.count = 0
        for name in names:
            real = getattr(os, name)
            monkeypatch.setattr(os, name, self._watched(real, at, step))
        monkeypatch.setattr(system, "read_at", os.pread)

    def _watched(self, real, at, step):
        def call(*args, **kwargs):
            self.count += 1
            if self.count == at:
                step()
            return real(*args, **kwargs)

        return call


def calls_made(home, names):
    """How many calls of the system a whole compaction makes."""
    session = found(home)

    def work():
        with pytest.MonkeyPatch.context() as patch:
            trip = Tripwire(patch, names, 0, None)
            compact(session, write=True, blobs=True, blob_bytes=LARGE)
            return trip.count

    return in_child(work)


def test_a_failure_at_any_call_leaves_the_log_as_it_was_or_as_it_becomes(home, log, monkeypatch):
    before, views = log.read_bytes(), seen(found(home))
    session = found(home)
    total = _total(home, log)
    outcomes = set()
    for error in (errno.EIO, errno.ENOSPC):
        for at in range(1, total + 1):
            _reset(log, before)

            def fail(error=error):
                raise OSError(error, os.strerror(error))

            with pytest.MonkeyPatch.context() as patch:
                Tripwire(patch, FAILING, at, fail)
                try:
                    compact(session, write=True, blobs=True, blob_bytes=LARGE, lock_timeout=0)
                    outcomes.add("done")
                except TurnlogError as problem:
                    outcomes.add(type(problem).__name__)
            assert seen(found(home)) == views
            now = log.read_bytes()
            assert now == before or len(now) < len(before)
            assert unfinished(log) == [], at
            if now == before:
                assert shrink(home).written
                assert seen(found(home)) == views
    assert {"StorageFull", "LogError"} <= outcomes


def _total(home, log):
    before = log.read_bytes()
    total = calls_made(home, FAILING)
    _reset(log, before)
    assert total > 10
    return total


def _reset(log, data):
    for path in sorted(log.parent.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    log.write_bytes(data)


def test_a_kill_at_any_call_leaves_one_of_the_two_and_a_rerun_finishes(home, log, stride):
    before, views = log.read_bytes(), seen(found(home))
    session = found(home)
    total = calls_made(home, CALLS)
    after = log.read_bytes()
    assert len(after) < len(before)
    seen_states = set()
    for at in (*range(1, total, stride), total):
        _reset(log, before)
        pid = os.fork()
        if not pid:
            with pytest.MonkeyPatch.context() as patch:
                Tripwire(patch, CALLS, at, lambda: os._exit(9))
                compact(session, write=True, blobs=True, blob_bytes=LARGE)
            os._exit(0)
        os.waitpid(pid, 0)
        now = log.read_bytes()
        assert now in (before, after)
        seen_states.add(now)
        if now == after:
            (original,) = log.parent.glob("*.original-*")
            assert original.read_bytes() == before
        assert seen(found(home)) == views
        shrink(home)
        assert log.read_bytes() == after
        assert seen(found(home)) == views
    assert seen_states == {before, after}


@pytest.mark.parametrize("room", [10, 200, 700])
def test_without_room_the_log_stays_as_it_was(home, log, room):
    before, session = log.read_bytes(), found(home)

    def work():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        try:
            compact(session, write=True, blobs=True, blob_bytes=LARGE)
        except StorageFull as full:
            return full.errno, full.hint
        return None

    number, hint = in_child(work)
    assert number == errno.EFBIG
    assert "room" in hint
    assert log.read_bytes() == before
    assert unfinished(log) == []
    assert shrink(home).written


@pytest.mark.parametrize("moment", ["fdatasync", "utime", "link", "replace"])
@pytest.mark.parametrize("late", [line(told(9, u(2))) + b"\n", b'{"half a', b"\n\n"])
def test_what_a_program_without_locks_appends_meanwhile_is_kept(
    home, log, monkeypatch, moment, late
):
    real = getattr(os, moment)

    def first(*args, **kwargs):
        monkeypatch.setattr(os, moment, real)
        add(log, late)
        return real(*args, **kwargs)

    monkeypatch.setattr(os, moment, first)
    done = compact(found(home), write=True)
    assert done.written
    assert log.read_bytes().endswith(line(told(2, "r")) + b"\n" + late)
    assert log.read_bytes().count(late) == 1 or late == b"\n\n"
    monkeypatch.undo()
    before = Path(done.logs[0].original).read_bytes()
    undo(found(home), write=True)
    assert log.read_bytes() == before


def test_what_comes_between_the_check_and_the_rename_is_carried_over(home, log, monkeypatch):
    real = os.replace

    def replace(old, new):
        add(log, line(told(9, u(2))) + b"\n")
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    compact(found(home), write=True)
    assert lines_of(log)[-1] == line(told(9, u(2)))


def test_if_that_cannot_be_carried_over_it_is_said_where_it_is(home, log, monkeypatch):
    real_replace, real_write = os.replace, os.write

    def replace(old, new):
        add(log, line(told(9, u(2))) + b"\n")
        real_replace(old, new)
        monkeypatch.setattr(os, "write", full)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WriteFailed, match="was rewritten") as failure:
        compact(found(home), write=True)
    monkeypatch.setattr(os, "write", real_write)
    (original,) = log.parent.glob("*.original-*")
    assert original.name in failure.value.hint
    assert original.read_bytes().endswith(line(told(9, u(2))) + b"\n")


def test_a_log_that_is_being_written_is_not_compacted(home, log):
    with LogWriter(log) as writer:

        def decide(news):
            with pytest.raises(LogLocked) as refusal:
                shrink(home)
            assert refusal.value.hint
            return [told(5, u(2))]

        writer.append_after(decide)
    assert lines_of(log)[-1] == line(told(5, u(2)))


def test_a_writer_that_had_the_log_open_goes_on_in_the_new_one(home, log):
    with LogWriter(log) as writer:
        writer.append(told(5, u(2)))
        assert shrink(home).written
        writer.append(told(6, u(5)))
    assert lines_of(log)[-2:] == [line(told(5, u(2))), line(told(6, u(5)))]


def test_where_there_are_no_hard_links_the_original_is_a_copy(home, log, monkeypatch):
    before = log.read_bytes()

    def link(*_, **__):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    done = compact(found(home), write=True)
    assert Path(done.logs[0].original).read_bytes() == before


# -- a rule that would be seen --------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "views"),
    [(0, "summary"), (1, "tree"), (4, "replay"), (6, "main thread")],
)
def test_what_would_change_a_view_is_not_done(home, log, monkeypatch, number, views):
    lines, before = lines_of(log), log.read_bytes()
    offset = sum(len(each) + 1 for each in lines[:number])
    bad = LineChange(offset, len(lines[number]), Rule.DUPLICATES, len(lines[number]) + 1, uuid="a")
    if number == 1:
        monkeypatch.setattr(compaction, "differences", lambda *_: ["tree"])
    monkeypatch.setattr(
        compaction,
        "changes_in",
        lambda *_, rules, **__: [bad] if Rule.DUPLICATES in rules else [],
    )
    done = compact(found(home), write=True)
    assert not done.written
    (left,) = done.logs[0].left_out
    assert left.rule is Rule.DUPLICATES
    assert views in left.views
    assert log.read_bytes() == before
    assert unfinished(log) == []
    assert not list(log.parent.glob("*.original-*"))


def test_a_log_that_does_not_read_back_is_not_put_in_place(home, log, monkeypatch):
    before = log.read_bytes()
    real = os.utime

    def utime(path, **when):
        with open(path, "r+b") as file:  # The disk forgot a byte.
            file.write(b"\0")
        real(path, **when)

    monkeypatch.setattr(os, "utime", utime)
    with pytest.raises(LogError, match="does not read back"):
        compact(found(home), write=True)
    assert log.read_bytes() == before
    assert unfinished(log) == []


# -- blobs in the way -----------------------------------------------------------------------


def test_an_altered_blob_in_the_way_is_put_right(home, log):
    before = log.read_bytes()
    shrink(home)
    (blob,) = (log.parent / ID / "blobs").iterdir()
    good = blob.read_bytes()
    blob.write_bytes(b"kite")
    log.write_bytes(before)
    assert shrink(home).written
    assert blob.read_bytes() == good


def test_a_link_in_the_place_of_the_blobs_is_not_written_through(home, log, tmp_path):
    before, views = log.read_bytes(), seen(found(home))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (log.parent / ID).mkdir()
    (log.parent / ID / "blobs").symlink_to(elsewhere)
    with pytest.raises(LogError, match="unchanged"):
        shrink(home)
    assert list(elsewhere.iterdir()) == []
    assert log.read_bytes() == before
    assert seen(found(home)) == views


def test_a_log_that_is_a_link_is_not_compacted(home, log, tmp_path):
    real = tmp_path / "real.jsonl"
    log.rename(real)
    log.symlink_to(real)
    before = real.read_bytes()
    with pytest.raises(LogError, match="symbolic link"):
        shrink(home)
    assert real.read_bytes() == before
