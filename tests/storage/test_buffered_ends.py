"""Every orderly end of a program saves what waits in a buffer: no record that was taken is lost.

Each test runs a real program, because what is tested is how one ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from storage.logs import SOURCE, in_child, numbered, read, told
from turnlog.storage.buffered_writer import BufferedLog
from turnlog.storage.writer import LogWriter

pytestmark = pytest.mark.usefixtures("own_signals")

TEN = [f"u-{number}" for number in range(10)]

# A module, so that spawned children can import what they run.
PROGRAM = """
    import atexit, multiprocessing, os, signal, sys, threading, time
    from concurrent.futures import ProcessPoolExecutor
    for number in (signal.SIGTERM, signal.SIGHUP):  # A parent may have ignored them.
        signal.signal(number, signal.SIG_DFL)
    {before}
    from turnlog.storage.buffered_writer import BufferedLog
    from turnlog.storage.writer import LogWriter

    PATH = sys.argv[1] if len(sys.argv) > 1 else os.environ["LOG"]
    os.environ["LOG"] = PATH

    def opened():
        return BufferedLog(LogWriter(PATH), every_seconds=3600)

    def fill(log=None, first=0):
        log = log or opened()
        for number in range(first, 10):
            log.append({{"type": "user", "uuid": f"u-{{number}}"}})
        return log

    {defined}
    if __name__ == "__main__":
        {body}
"""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def program(tmp_path, log, body, *, defined="", before=""):
    """Return the command that runs *body*, in a module of its own."""
    path = tmp_path / "program.py"
    texts = {
        "body": textwrap.indent(textwrap.dedent(body).strip(), " " * 8).strip(),
        "defined": textwrap.indent(textwrap.dedent(defined).strip(), " " * 4).strip(),
        "before": textwrap.indent(textwrap.dedent(before).strip(), " " * 4).strip(),
    }
    path.write_text(textwrap.dedent(PROGRAM.format(**texts)))
    return [sys.executable, str(path), str(log)]


def run(command):
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_saves_what_waits(tmp_path, log, method):
    body = f"""
        child = multiprocessing.get_context("{method}").Process(target=fill)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    """
    run(program(tmp_path, log, body))
    assert told(read(log)) == TEN


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_of_a_process_pool_saves_what_waits(tmp_path, log, method):
    body = f"""
        with ProcessPoolExecutor(1, multiprocessing.get_context("{method}")) as pool:
            pool.submit(fill_kept).result()
    """
    defined = """
        kept = []

        def fill_kept():
            kept.append(fill())
    """
    run(program(tmp_path, log, body, defined=defined))
    assert told(read(log)) == TEN


def test_a_child_saves_what_it_took_while_its_module_was_imported(tmp_path, log):
    body = """
        child = multiprocessing.get_context("forkserver").Process(target=print)
        child.start()
        child.join()
    """
    defined = """
        if __name__ != "__main__":
            kept = fill()
    """
    run(program(tmp_path, log, body, defined=defined))
    assert told(read(log)) == TEN


def test_a_child_of_a_pool_that_is_terminated_saves_what_waits(tmp_path, log):
    body = """
        pool = multiprocessing.Pool(1)
        pool.apply(fill_kept)
        pool.terminate()
        pool.join()
    """
    defined = """
        kept = []

        def fill_kept():
            kept.append(fill())
    """
    run(program(tmp_path, log, body, defined=defined))
    assert told(read(log)) == TEN


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_log_opened_off_the_main_thread_survives_a_signal(tmp_path, log, name):
    body = """
        kept = []
        thread = threading.Thread(target=lambda: kept.append(fill()))
        thread.start()
        thread.join()
        print("ready", flush=True)
        time.sleep(60)
    """
    command = program(tmp_path, log, body)
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(getattr(signal, name))
        child.wait(30)
    assert told(read(log)) == TEN


def test_a_log_survives_a_signal_after_its_handler_was_removed(tmp_path, log):
    body = """
        log = opened()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        thread = threading.Thread(target=fill, args=(log,))
        thread.start()
        thread.join()
        print("ready", flush=True)
        time.sleep(60)
    """
    command = program(tmp_path, log, body)
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        child.terminate()
        child.wait(30)
    assert told(read(log)) == TEN


def test_without_a_handler_records_are_saved_at_once(log):
    def work():
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        seen = []

        def fill():
            buffered = BufferedLog(LogWriter(log), every_seconds=3600)
            buffered.append(numbered(1))
            seen.append((buffered.waiting, told(read(log))))

        thread = threading.Thread(target=fill)
        thread.start()
        thread.join()
        return seen

    assert in_child(work) == [(0, ["u-1"])]


def test_an_exit_handler_that_was_registered_earlier_may_append(tmp_path, log):
    before = "atexit.register(lambda: fill(log))"
    run(program(tmp_path, log, "log = opened()", before=before))
    assert told(read(log)) == TEN


def test_an_object_that_goes_at_the_very_end_may_append(tmp_path, log):
    defined = """
        class Last:
            def __init__(self, log):
                self.log = log

            def __del__(self):
                fill(self.log, 5)
    """
    body = """
        log = opened()
        for number in range(5):
            log.append({"type": "user", "uuid": f"u-{number}"})
        last = Last(log)
        last.myself = last
    """
    done = run(program(tmp_path, log, body, defined=defined))
    assert done.stderr == ""
    assert told(read(log)) == TEN


def test_a_daemon_thread_loses_nothing_that_it_was_told_is_saved(tmp_path, log):
    body = """
        log = opened()
        go = threading.Event()

        def write():
            for number in range(100_000):
                log.append({"type": "user", "uuid": f"u-{number}"})
                taken[0] = number + 1
                if number == 20:
                    go.set()

        taken = [0]
        atexit.register(lambda: (time.sleep(0.05), print(taken[0])))
        threading.Thread(target=write, daemon=True).start()
        go.wait()
    """
    done = run(program(tmp_path, log, body))
    assert len(read(log)) >= int(done.stdout) > 20


def test_an_append_from_inside_a_save_is_saved_as_well(log):
    inner = []

    class Writer(LogWriter):
        def append_lines(self, lines):
            if not inner:
                inner.append(buffered.append(numbered("inner")))  # As a destructor might.
            return super().append_lines(lines)

    with BufferedLog(Writer(log), every_seconds=3600) as buffered:
        buffered.append(numbered("outer"))
        buffered.flush()
        assert told(read(log)) == ["u-outer", "u-inner"]


def test_without_a_thread_to_save_it_a_record_is_saved_at_once(log, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with BufferedLog(LogWriter(log), every_seconds=3600) as buffered:
        buffered.append(numbered(1))
        assert told(read(log)) == ["u-1"]
