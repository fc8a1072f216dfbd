"""When the machine fails: typed errors, no half lines, no second try at a failed sync."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import threading
import time
from contextlib import contextmanager

import pytest

from storage.logs import add, in_child, lines, numbered, put, read, told
from turnlog.errors import ClosedLog, LogLocked, StorageFull, SyncFailed, WriteFailed
from turnlog.storage import system
from turnlog.storage.writer import LogWriter


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


# -- sync -----------------------------------------------------------------------------------


@pytest.fixture
def failing_sync(monkeypatch):
    """Syncs that fail once and would then succeed, as Linux's do; counts the tries."""
    tries = []

    def sync(fd):
        tries.append(fd)
        if len(tries) == 1:
            raise OSError(errno.EIO, "Input/output error")

    def begin():
        monkeypatch.setattr(system, "sync", sync)
        return tries

    return begin


def test_after_a_failed_sync_the_handle_refuses_further_writes(log, failing_sync):
    writer = LogWriter(log)
    writer.append(numbered(1))
    tries = failing_sync()
    with pytest.raises(SyncFailed) as failure:
        writer.append(numbered(2))
    assert failure.value.errno == errno.EIO
    assert failure.value.path == str(log)
    for attempt in (
        lambda: writer.append(numbered(3)),
        lambda: writer.append_after(lambda _: [numbered(3)]),
        writer.sync,
    ):
        with pytest.raises(ClosedLog) as refusal:
            attempt()
        assert isinstance(refusal.value.__cause__, SyncFailed)
    assert len(tries) == 1
    writer.close()
    assert told(read(log)) == ["u-1", "u-2"]


def test_after_a_failed_sync_the_log_can_be_opened_again(log, failing_sync):
    writer = LogWriter(log)
    failing_sync()
    with pytest.raises(SyncFailed):
        writer.append(numbered(1))
    with LogWriter(log, lock_timeout=0) as again:
        again.append(numbered(2))
    writer.close()
    assert told(read(log)) == ["u-1", "u-2"]


def test_a_failed_sync_after_weaker_appends_poisons_as_well(log, failing_sync):
    with LogWriter(log, durability="flush") as writer:
        writer.append(numbered(1))
        failing_sync()
        with pytest.raises(SyncFailed):
            writer.sync()
        with pytest.raises(ClosedLog):
            writer.append(numbered(2))


def test_a_failed_sync_of_a_decision_poisons_as_well(log, failing_sync):
    with LogWriter(log) as writer:
        failing_sync()
        with pytest.raises(SyncFailed):
            writer.append_after(lambda _: [numbered(1)])
        with pytest.raises(ClosedLog):
            writer.append(numbered(2))


# -- no room --------------------------------------------------------------------------------


@contextmanager
def room(size):
    """Let no file grow past *size*; only for a child process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.parametrize("fits", [0, 1, 100])
def test_without_room_nothing_of_the_record_stays_and_the_log_goes_on(log, fits):
    def work():
        with LogWriter(log) as writer:
            writer.append(numbered(1))
            with room(len(lines(1)) + fits):
                try:
                    writer.append(numbered(2))
                except StorageFull as full:
                    refusal = (full.errno, full.hint, log.read_bytes() == lines(1))
            writer.append(numbered(3))
        return refusal

    number, hint, unchanged = in_child(work)
    assert number == errno.EFBIG
    assert "space" in hint
    assert unchanged
    assert log.read_bytes() == lines(1, 3)


def test_without_room_for_all_of_many_none_stays(log):
    def work():
        with LogWriter(log) as writer, room(len(lines(1, 2)) + 20):
            try:
                writer.append_many(numbered(number) for number in (1, 2, 3, 4))
            except StorageFull:
                return log.read_bytes()
        return None

    assert in_child(work) == b""


def test_without_room_a_torn_tail_stays_as_it_was_and_is_sealed_later(log):
    put(log, lines(1), b'{"torn')

    def work():
        with LogWriter(log) as writer:
            with room(len(lines(1)) + 30):
                try:
                    writer.append(numbered(2))
                except StorageFull:
                    unchanged = log.read_bytes() == lines(1) + b'{"torn'
            writer.append(numbered(3))
        return unchanged

    assert in_child(work)
    assert told(read(log)) == ["u-1", "fragment", "u-3"]


# -- a write that fails otherwise -----------------------------------------------------------


def test_a_write_that_fails_for_another_reason_poisons_the_handle(log):
    writer = LogWriter(log)
    writer.append(numbered(1))
    readable = os.open(log, os.O_RDONLY)
    os.dup2(readable, writer._handle.fd)  # Locks and stats as before, but cannot be written.
    os.close(readable)
    with pytest.raises(WriteFailed) as failure:
        writer.append(numbered(2))
    assert failure.value.hint
    with pytest.raises(ClosedLog):
        writer.append(numbered(3))
    writer.close()
    with LogWriter(log) as again:
        again.append(numbered(4))
    assert told(read(log)) == ["u-1", "u-4"]


# -- the lock -------------------------------------------------------------------------------


@contextmanager
def locked_by_a_child(path):
    """Have another process hold the lock; give its id."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(path, "ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                os.write(tell, b"!")
                signal.pause()
        finally:
            os._exit(0)
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_locked_log_refuses_at_once_and_names_the_holder(log):
    put(log, lines(1))
    with (
        locked_by_a_child(log) as child,
        LogWriter(log, lock_timeout=0) as writer,
        pytest.raises(LogLocked) as refusal,
    ):
        writer.append(numbered(2))
    assert refusal.value.holder == child
    assert str(child) in str(refusal.value)
    assert refusal.value.hint
    assert log.read_bytes() == lines(1)


def test_a_lock_dies_with_its_holder(log):
    with LogWriter(log, lock_timeout=0) as writer:
        with locked_by_a_child(log), pytest.raises(LogLocked):
            writer.append(numbered(1))
        writer.append(numbered(2))
    assert told(read(log)) == ["u-2"]


def test_a_deadline_is_kept(log):
    put(log)
    with locked_by_a_child(log), LogWriter(log, lock_timeout=0.2) as writer:
        began = time.monotonic()
        with pytest.raises(LogLocked):
            writer.append(numbered(1))
        assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("timeout", [None, 30])
def test_a_patient_writer_waits_for_the_lock(log, timeout):
    with LogWriter(log) as holder, LogWriter(log, lock_timeout=timeout) as patient:
        inside, done = threading.Event(), threading.Event()

        def wait():
            inside.wait()
            patient.append(numbered("later"))
            done.set()

        thread = threading.Thread(target=wait)
        thread.start()

        def decide(news):
            inside.set()
            assert not done.wait(0.2)
            return [numbered("first")]

        holder.append_after(decide)
        thread.join()
    assert told(read(log)) == ["u-first", "u-later"]


def test_two_handles_in_one_process_exclude_each_other(log):
    with LogWriter(log) as writer, LogWriter(log, lock_timeout=0) as other:

        def decide(news):
            with pytest.raises(LogLocked) as refusal:
                other.append(numbered(9))
            assert refusal.value.holder == os.getpid()
            return [numbered(1)]

        writer.append_after(decide)
        other.append(numbered(2))
    assert told(read(log)) == ["u-1", "u-2"]


def test_one_handle_used_by_two_threads_excludes_them_from_each_other(log):
    refused = []
    with LogWriter(log, lock_timeout=0) as writer:

        def decide(news):
            thread = threading.Thread(target=lambda: refused.append(try_append(writer)))
            thread.start()
            thread.join()
            return [numbered(1)]

        writer.append_after(decide)
    assert refused == ["LogLocked"]
    assert told(read(log)) == ["u-1"]


def test_an_append_inside_a_decision_is_refused_and_the_lock_stays_held(log):
    with LogWriter(log) as writer, LogWriter(log, lock_timeout=0) as other:

        def decide(news):
            with pytest.raises(LogLocked):
                writer.append(numbered("inner"))
            with pytest.raises(LogLocked):
                other.append(numbered("other"))
            return [numbered("outer")]

        writer.append_after(decide)
        other.append(numbered("later"))
        writer.append(numbered("last"))
    assert told(read(log)) == ["u-outer", "u-later", "u-last"]


def test_a_signal_handler_that_appends_does_not_break_the_append_it_interrupts(log):
    outcome = []
    with LogWriter(log) as writer:
        before = signal.signal(signal.SIGUSR1, lambda *_: outcome.append(try_append(writer)))
        try:

            def decide(news):
                os.kill(os.getpid(), signal.SIGUSR1)
                return [numbered("interrupted")]

            writer.append_after(decide)
        finally:
            signal.signal(signal.SIGUSR1, before)
        writer.append(numbered("after"))
    assert outcome == ["LogLocked"]
    assert told(read(log)) == ["u-interrupted", "u-after"]


def try_append(writer):
    try:
        writer.append(numbered("x"))
    except LogLocked as error:
        return type(error).__name__
    return None


def test_a_writer_that_knows_no_lock_can_still_append(log):
    with LogWriter(log) as writer:

        def decide(news):
            add(log, lines("foreign"))
            return [numbered(1)]

        writer.append_after(decide)
    assert sorted(told(read(log))) == ["u-1", "u-foreign"]
