"""Work shared out: every share is done once, whatever becomes of the children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.index.processes import Children, can_fork, share_out

# Children are had by forking, from a process of one thread; tests before these may have left some.
ALONE = "TURNLOG_TEST_ALONE"
needs_children = pytest.mark.skipif(ALONE not in os.environ, reason="run by the first test here")


@pytest.mark.skipif(ALONE in os.environ or sys.platform != "linux", reason="this is that process")
def test_all_of_this_in_a_process_of_one_thread():
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command += ["-o", "timeout=0"]  # That would be a thread.
    environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, __file__],
        check=False,
        capture_output=True,
        text=True,
        env=environ | {ALONE: "yes"},
    )
    assert done.returncode == 0, done.stdout


def add_up(share):
    return str(sum(share)).encode()


def whose(_share):
    return str(os.getpid()).encode()


@pytest.fixture
def no_child_is_left():
    """Whatever other tests have left running is not the matter here."""
    before = children_of_mine()
    yield
    assert children_of_mine() <= before


def children_of_mine():
    found = set()
    for each in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It ended meanwhile.
            parent = each.read_text().rpartition(")")[2].split()[1]
            found |= {each.parent.name} if int(parent) == os.getpid() else set()
    return found


@given(st.lists(st.integers(0, 100)), st.integers(-1, 6))
def test_shares_hold_everything_once_and_none_is_empty(items, count):
    parts = share_out(items, count, lambda item: item)
    assert sorted(item for part in parts for item in part) == sorted(items)
    assert len(parts) <= max(1, count)
    assert all(parts) or parts == [[]]


def test_shares_are_of_about_one_size():
    parts = share_out([9, 1, 1, 1, 8, 2, 4, 4], 2, lambda item: item)
    assert sorted(map(sum, parts)) == [15, 15]


def test_every_share_is_answered(no_child_is_left):
    with Children(add_up, [[1, 2], [3], [4, 5]]) as children:
        assert list(children.answers()) == [b"3", b"3", b"9"]


@needs_children
def test_the_work_is_done_elsewhere():
    with Children(whose, [[1], [2]]) as children:
        ids = set(children.answers())
    assert len(ids | {str(os.getpid()).encode()}) == 3


def test_long_answers_come_whole():
    with Children(lambda _share: b"x" * 5_000_000, [[1], [2]]) as children:
        assert [len(answer) for answer in children.answers()] == [5_000_000] * 2


@needs_children
@pytest.mark.parametrize("fate", ["raise", "exit", "kill"])
def test_what_a_child_did_not_finish_is_done_here(fate, no_child_is_left):
    parent = os.getpid()

    def work(share):
        if os.getpid() != parent and share == [2]:
            if fate == "raise":
                sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - the child's last deed.
                raise RuntimeError("fell over")
            if fate == "exit":
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        return str(share).encode()

    with Children(work, [[1], [2], [3]]) as children:
        assert sorted(children.answers()) == [b"[1]", b"[2]", b"[3]"]


@needs_children
def test_children_end_when_nobody_waits_for_them(no_child_is_left):
    def never(_share):
        time.sleep(60)
        return b""

    with pytest.raises(KeyboardInterrupt), Children(never, [[1], [2]]):
        raise KeyboardInterrupt


def test_beside_other_threads_nothing_is_forked():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not can_fork()
        with Children(whose, [[1], [2]]) as children:
            assert set(children.answers()) == {str(os.getpid()).encode()}
    finally:
        done.set()
        thread.join()


@needs_children
def test_no_descriptor_is_left_open():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with Children(add_up, [[1], [2]]) as children:
            next(children.answers())
    assert len(os.listdir("/proc/self/fd")) == before
