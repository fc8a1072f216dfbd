"""Threads, processes and forked children on one log: every record once, in its writer's order."""

from __future__ import annotations

import os
import threading
from collections import defaultdict

import pytest

from storage.logs import in_child, lines, numbered, put, read, told
from turnlog.errors import LogLocked
from turnlog.storage.reader import Placed
from turnlog.storage.writer import LogWriter

PROCESSES, THREADS, EACH = 4, 3, 40


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log.jsonl"


def fork_all(*works):
    """Run each of *works* in a child, all at once, and wait for them."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)


def write_some(writer, name):
    for number in range(EACH):
        if number % 5 == 4:
            writer.append_many([numbered(f"{name}/{number}"), numbered(f"{name}/{number}b")])
        else:
            writer.append(numbered(f"{name}/{number}", blob="k" * (number * 97 % 5000)))


def expected_of(name):
    for number in range(EACH):
        yield f"u-{name}/{number}"
        if number % 5 == 4:
            yield f"u-{name}/{number}b"


def in_threads(writers, process):
    """Let threads append: two share a handle, one has its own."""
    threads = [
        threading.Thread(target=write_some, args=(writer, f"{process}.{index}"))
        for index, writer in enumerate(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check(log, names):
    found = defaultdict(list)
    for item in read(log):
        assert isinstance(item, Placed), item
        found[item.record.uuid.partition("/")[0].removeprefix("u-")].append(item.record.uuid)
    assert dict(found) == {name: list(expected_of(name)) for name in names}


def test_threads_and_processes_together_lose_nothing(log):
    def work(process):
        with LogWriter(log, lock_timeout=None) as shared, LogWriter(log, lock_timeout=60) as own:
            in_threads((shared, shared, own), process)

    fork_all(*(lambda process=process: work(process) for process in range(PROCESSES)))
    check(log, [f"{process}.{index}" for process in range(PROCESSES) for index in range(THREADS)])


def test_one_handle_shared_by_threads_loses_nothing(log):
    with LogWriter(log) as writer:
        in_threads((writer,) * 6, "one")
    check(log, [f"one.{index}" for index in range(6)])


def test_a_log_that_many_create_at_once_is_one_log_with_one_head(log):
    head = b'{"type":"turnlog","format":1}\n'
    path = log.parent / "made" / "by" / "all" / "log.jsonl"

    def work(name):
        with LogWriter(path, head=head, lock_timeout=None) as writer:
            write_some(writer, name)

    fork_all(*(lambda name=str(name): work(name) for name in range(6)))
    data = path.read_bytes()
    assert data.startswith(head)
    assert data.count(b'"turnlog"') == 1
    put(log, data[len(head) :])
    check(log, [str(name) for name in range(6)])


def test_deciding_makes_a_chain_that_no_other_writer_breaks(log):
    def work(name):
        last = None
        with LogWriter(log, durability="flush", lock_timeout=None) as writer:
            for number in range(EACH):

                def decide(news, number=number):
                    nonlocal last
                    for item in news.items:
                        last = item.record.uuid
                    return [numbered(f"{name}-{number}", parentUuid=last)]

                writer.append_after(decide)
                last = f"u-{name}-{number}"

    fork_all(*(lambda name=name: work(name) for name in range(PROCESSES)))
    records = [item.record for item in read(log)]
    assert len(records) == PROCESSES * EACH
    assert [record.parent_uuid for record in records] == [
        None,
        *(record.uuid for record in records[:-1]),
    ]


def test_a_forked_child_may_go_on_with_its_parents_handle(log):
    with LogWriter(log) as writer:
        writer.append(numbered("before"))
        fork_all(*(lambda name=name: write_some(writer, name) for name in ("a", "b")))
        writer.append(numbered("after"))
    words = told(read(log))
    assert (words[0], words[-1]) == ("u-before", "u-after")
    put(log, log.read_bytes().removeprefix(lines("before")).removesuffix(lines("after")))
    check(log, ["a", "b"])


def test_a_forked_child_does_not_share_its_parents_lock(log):
    with LogWriter(log, lock_timeout=0) as writer:

        def in_the_child():
            try:
                writer.append(numbered("child"))
            except LogLocked as locked:
                return locked.holder
            return None

        def decide(news):
            assert in_child(in_the_child) == os.getpid()
            return [numbered("parent")]

        writer.append_after(decide)
    assert told(read(log)) == ["u-parent"]


def test_a_child_that_closes_its_handle_leaves_its_parents_open(log):
    with LogWriter(log) as writer:
        in_child(writer.close)
        writer.append(numbered(1))
    assert told(read(log)) == ["u-1"]


@pytest.mark.slow
def test_a_fork_while_a_thread_writes_does_not_hang_the_child(log):
    stop = threading.Event()
    with LogWriter(log, durability="flush", lock_timeout=None) as writer:

        def hammer():
            number = 0
            while not stop.is_set():
                writer.append(numbered(f"thread{number}"))
                number += 1

        thread = threading.Thread(target=hammer)
        thread.start()
        try:
            for number in range(10):
                in_child(lambda number=number: writer.append(numbered(f"child{number}")) and None)
        finally:
            stop.set()
            thread.join()
    words = told(read(log))
    assert len(words) == len(set(words))
    assert {f"u-child{number}" for number in range(10)} <= set(words)
