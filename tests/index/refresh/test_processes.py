"""Child processes: what they send arrives, and they end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import islice
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
    yield str(sum(share)).encode()


def whose(_share):
    yield str(os.getpid()).encode()


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


@needs_children
def test_every_message_arrives_with_its_share(no_child_is_left):
    shares = [[1, 2], [3], [4, 5]]
    with Children(lambda share: (b"%d" % each for each in share), shares) as children:
        got = sorted(children.messages())
    assert got == [([1, 2], b"1"), ([1, 2], b"2"), ([3], b"3"), ([4, 5], b"4"), ([4, 5], b"5")]


@needs_children
def test_each_share_has_a_process_of_its_own():
    with Children(whose, [[1], [2]]) as children:
        ids = {message for _, message in children.messages()}
    assert len(ids | {str(os.getpid()).encode()}) == 3


@needs_children
def test_long_and_many_messages_arrive_whole_and_in_order():
    def work(_share):
        for number in range(100):
            yield bytes([number]) * (1_000_000 if number % 10 == 0 else 10)

    with Children(work, [[1], [2]]) as children:
        messages = list(children.messages())
    for share in ([1], [2]):
        assert [message for each, message in messages if each == share] == list(work(share))


@needs_children
@pytest.mark.parametrize("fate", ["raise", "exit", "kill"])
def test_messages_before_a_child_ended_arrive_and_nothing_is_printed(fate, no_child_is_left, capfd):
    def work(share):
        yield b"first"
        time.sleep(0.1)
        if share == [2]:
            if fate == "raise":
                raise RuntimeError("fell over")
            if fate == "exit":
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        yield b"second"

    with Children(work, [[1], [2]]) as children:
        got = sorted(children.messages())
    assert got == [([1], b"first"), ([1], b"second"), ([2], b"first")]
    assert capfd.readouterr() == ("", "")


@needs_children
def test_children_end_when_their_messages_are_not_wanted(no_child_is_left):
    def never(_share):
        time.sleep(60)
        yield b""

    with pytest.raises(KeyboardInterrupt), Children(never, [[1], [2]]):
        raise KeyboardInterrupt


@needs_children
def test_children_end_after_their_parent_was_killed():
    def without_end(_share):
        yield str(os.getpid()).encode()
        while True:
            yield b"x" * 100_000

    read, write = os.pipe()
    parent = os.fork()
    if not parent:
        with Children(without_end, [[1], [2]]) as children:
            messages = (message for _, message in children.messages())
            ids = {message for message in islice(messages, 8) if message.isdigit()}
            os.write(write, b" ".join(ids))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(parent, 0)
    ids = os.read(read, 100).split()
    os.close(read)
    os.close(write)
    assert ids
    until = time.monotonic() + 30
    while any(is_running(each.decode()) for each in ids):
        assert time.monotonic() < until
        time.sleep(0.01)


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_with_other_threads_is_not_forked():
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not can_fork()
    finally:
        done.set()
        thread.join()


@needs_children
def test_a_daemon_has_no_children():
    def work(sender):
        with Children(whose, [[1]]) as children:
            sender.send(list(children.messages()))

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    daemon = context.Process(target=work, args=(sender,), daemon=True)
    daemon.start()
    assert receiver.poll(30)
    assert receiver.recv() == []
    daemon.join()


@needs_children
def test_no_descriptor_is_left_open():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with Children(add_up, [[1], [2]]) as children:
            next(children.messages())
    assert len(os.listdir("/proc/self/fd")) == before
