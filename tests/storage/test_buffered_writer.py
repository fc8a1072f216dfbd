"""The weakest durability: records wait in memory, and every orderly end saves them."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from storage.logs import SOURCE, in_child, numbered, put, read, run_fresh, told
from turnlog.errors import ClosedLog, LogError, NotSerialisable, StorageFull, TurnlogError
from turnlog.storage import system
from turnlog.storage.buffered_writer import BufferedLog, drain_all
from turnlog.storage.writer import LogWriter

pytestmark = pytest.mark.usefixtures("own_signals")

NEVER = 3600.0


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def test_records_wait_until_they_are_flushed(log):
    with BufferedLog(LogWriter(log), every_seconds=NEVER) as buffered:
        buffered.append(numbered(1))
        buffered.append_many([numbered(2), numbered(3)])
        assert buffered.waiting == 3
        assert read(log) == []
        buffered.flush()
        assert buffered.waiting == 0
        assert told(read(log)) == ["u-1", "u-2", "u-3"]


def test_closing_saves_what_waits(log):
    buffered = BufferedLog(LogWriter(log), every_seconds=NEVER)
    buffered.append(numbered(1))
    buffered.close()
    buffered.close()
    assert told(read(log)) == ["u-1"]
    with pytest.raises(ClosedLog):
        buffered.append(numbered(2))


def test_records_are_saved_every_so_often(log):
    with BufferedLog(LogWriter(log), every_seconds=0.02) as buffered:
        for number in range(3):
            buffered.append(numbered(number))
            deadline = time.monotonic() + 180
            while buffered.waiting and time.monotonic() < deadline:
                time.sleep(0.005)
            assert told(read(log))[-1] == f"u-{number}"


@pytest.mark.parametrize("limit", [{"max_records": 10}, {"max_bytes": 1500}])
def test_many_waiting_records_are_saved_before_their_time(log, limit):
    with BufferedLog(LogWriter(log), every_seconds=NEVER, **limit) as buffered:
        for number in range(100):
            buffered.append(numbered(number))
            assert buffered.waiting <= 11
        assert len(read(log)) >= 89
    assert told(read(log)) == [f"u-{number}" for number in range(100)]


def test_what_cannot_be_a_line_is_refused_and_nothing_of_its_batch_is_taken(log):
    with BufferedLog(LogWriter(log), every_seconds=NEVER) as buffered:
        with pytest.raises(NotSerialisable):
            buffered.append_many([numbered(1), {"n": float("nan")}])
        assert buffered.waiting == 0
        buffered.append(numbered(2))
    assert told(read(log)) == ["u-2"]


def test_a_change_to_a_record_that_waits_changes_nothing(log):
    with BufferedLog(LogWriter(log), every_seconds=NEVER) as buffered:
        record = numbered(1)
        buffered.append(record)
        record["uuid"] = "changed"
    assert told(read(log)) == ["u-1"]


def test_without_room_the_records_wait_on_and_the_caller_is_told(log):
    def work():
        with BufferedLog(LogWriter(log), every_seconds=NEVER) as buffered:
            buffered.append(numbered(1))
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
            told_of = []
            for attempt in (buffered.flush, buffered.close):
                try:
                    attempt()
                except StorageFull as full:
                    told_of.append(type(full).__name__)
            waiting = buffered.waiting
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
            buffered.append(numbered(2))
        return told_of, waiting

    assert in_child(work) == (["StorageFull", "StorageFull"], 1)
    assert told(read(log)) == ["u-1", "u-2"]


def test_a_failure_in_the_background_reaches_the_next_caller(log):
    def work():
        buffered = BufferedLog(LogWriter(log), every_seconds=0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
        buffered.append(numbered(1))
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            time.sleep(0.02)
            try:
                buffered.append(numbered(2))
            except LogError as error:
                waiting = buffered.waiting
                unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
                buffered.close()
                return type(error).__name__, waiting > 0
        return None

    assert in_child(work) == ("StorageFull", True)
    assert told(read(log))[0] == "u-1"


def test_a_sync_that_fails_in_the_background_is_told_until_somebody_reopens(log, monkeypatch):
    died = []
    monkeypatch.setattr(threading, "excepthook", died.append)
    writer = LogWriter(log)
    buffered = BufferedLog(writer, every_seconds=0.01)

    def fail(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(system, "sync", fail)
    taken = refused = 0
    deadline = time.monotonic() + 180
    while refused < 3 and taken < 200 and time.monotonic() < deadline:
        try:
            buffered.append(numbered(taken))
            taken += 1
        except TurnlogError:
            refused += 1
        time.sleep(0.02)
    writer.close()
    assert refused == 3
    assert died == []


def test_a_forked_child_does_not_save_what_waits_in_its_parent(log):
    with BufferedLog(LogWriter(log), every_seconds=NEVER) as buffered:
        buffered.append(numbered("parent"))

        def work():
            buffered.append(numbered("child"))
            buffered.flush()

        in_child(work)
        assert told(read(log)) == ["u-child"]
    assert told(read(log)) == ["u-child", "u-parent"]


def test_all_open_logs_can_be_drained_at_once(tmp_path):
    logs = [
        BufferedLog(LogWriter(tmp_path / f"{name}.jsonl"), every_seconds=NEVER) for name in "ab"
    ]
    for buffered in logs:
        buffered.append(numbered(1))
    drain_all()
    assert [buffered.waiting for buffered in logs] == [0, 0]
    for buffered in logs:
        buffered.close()


START = """
    import os, signal, sys, time
    from turnlog.storage.buffered_writer import BufferedLog
    from turnlog.storage.writer import LogWriter
    buffered = BufferedLog(LogWriter(sys.argv[1]), every_seconds=3600)
    for number in range(3):
        buffered.append({"type": "mode", "mode": str(number)})
"""


@pytest.mark.parametrize("end", ["", "sys.exit()", "raise SystemExit"])
def test_a_clean_exit_saves_what_waits(log, end):
    run_fresh(textwrap.dedent(START) + end, log)
    assert told(read(log)) == ["mode"] * 3


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_asks_to_end_saves_what_waits(log, name):
    # Whoever runs these tests in the background may have told its children to ignore the signal.
    heeds = f"import signal\nsignal.signal(signal.{name}, signal.SIG_DFL)\n"
    code = heeds + textwrap.dedent(START) + "print('ready', flush=True)\ntime.sleep(60)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(log)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
    )
    with child:
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(getattr(signal, name))
        child.wait(30)
    assert child.returncode == 128 + getattr(signal, name)
    assert told(read(log)) == ["mode"] * 3


def test_a_handler_of_the_programs_own_is_left_alone(log):
    code = """
        signal.signal(signal.SIGTERM, lambda *_: print("mine"))
        BufferedLog(LogWriter(sys.argv[1]))
        os.kill(os.getpid(), signal.SIGTERM)
    """
    header = textwrap.dedent(START).partition("buffered =")[0]
    assert run_fresh(header + textwrap.dedent(code), log) == "mine\n"


def test_a_killed_program_loses_only_what_waited(log):
    put(log)
    code = "buffered.flush()\nbuffered.append({'type': 'late'})\nos.kill(os.getpid(), 9)\n"
    with pytest.raises(AssertionError):
        run_fresh(textwrap.dedent(START) + code, log)
    assert told(read(log)) == ["mode"] * 3
