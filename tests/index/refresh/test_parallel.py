"""A large refresh with child processes writes the same rows as one without."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from contextlib import closing

import pytest

from index.homes import made_tree, own_index, rebuilt
from index.rows import differences, rows_of
from turnlog.formats import find_homes
from turnlog.index import processes
from turnlog.index.database import index_path
from turnlog.index.refresh import log_reader
from turnlog.index.refresh.refresh import refresh

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    homes = made_tree(tmp_path_factory.mktemp("tree") / "home", 3, 300_000)
    return homes, rebuilt(homes)


@pytest.fixture
def children(tmp_path, monkeypatch):
    """Read with children, in small chunks, messages and transactions, however little there is."""
    monkeypatch.setattr(log_reader, "_WORTH_A_CHILD_BYTES", 0)
    monkeypatch.setattr(log_reader, "_MESSAGE_TEXT_BYTES", 2_000)
    monkeypatch.setattr(processes, "can_fork", lambda: True)
    monkeypatch.setattr(processes, "processors", lambda: 3)
    monkeypatch.setattr("turnlog.index.refresh.refresh._LITTLE_BYTES", 0)
    monkeypatch.setattr("turnlog.index.refresh.refresh.MOST_CHUNKS", 3)
    monkeypatch.setattr("turnlog.index.refresh.log_reader._CHUNK_LINES", 20)
    with own_index(tmp_path / "own"):
        yield monkeypatch


def messages_received(monkeypatch):
    """Return a list that grows by the length of each message that arrives."""
    unpack, lengths = log_reader._unpack, []

    def unpacking(message):
        lengths.append(len(message))
        return unpack(message)

    monkeypatch.setattr(log_reader, "_unpack", unpacking)
    return lengths


@pytest.mark.parametrize("count", [2, 3, 4, 64])
def test_any_number_of_children_gives_the_same_rows(tree, children, count):
    homes, expected = tree
    children.setattr(processes, "processors", lambda: count)
    received = messages_received(children)
    refresh(homes)
    assert len(received) > 2
    assert differences(rows_of(homes), expected) == ""
    for table in ("said", "answered"):
        with closing(sqlite3.connect(index_path(homes))) as db:
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


def test_one_processor_has_no_child(tree, children):
    homes, expected = tree
    children.setattr(processes, "processors", lambda: 1)
    received = messages_received(children)
    refresh(homes)
    assert received == []
    assert differences(rows_of(homes), expected) == ""


def test_children_add_to_what_is_there(tree, children, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(tree[0][0].path, home)
    logs = sorted(home.rglob("*.jsonl"))
    kept = {log: log.read_bytes() for log in logs}
    for log in logs[::2]:
        log.unlink()
    for log in logs[1::2]:
        log.write_bytes(kept[log][: len(kept[log]) // 2])
    homes = find_homes((home,))
    refresh(homes)
    for log in logs:
        log.write_bytes(kept[log])
    received = messages_received(children)
    refresh(homes)
    assert received
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_progress_counts_every_byte(tree, children):
    homes, _ = tree
    told = []
    refresh(homes, progress=lambda done, whole: told.append((done, whole)))
    assert told == sorted(told)
    assert len({whole for _, whole in told}) == 1
    assert 0 < told[-1][0] <= told[-1][1]


def test_a_log_that_was_replaced_meanwhile_is_read_by_the_next_refresh(tree, children):
    homes, expected = tree
    with children.context() as once:
        read = log_reader.read_logs

        def replacing(works, size_bytes):
            with closing(sqlite3.connect(index_path(homes))) as db, db:
                db.execute("UPDATE logs SET generation = generation + 1 WHERE id % 2")
            return read(works, size_bytes)

        once.setattr(log_reader, "read_logs", replacing)
        refresh(homes)
    with closing(sqlite3.connect(index_path(homes))) as db:
        known = "SELECT DISTINCT id >> 40 & 1 FROM records"
        assert db.execute(known).fetchall() == [(0,)]
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("forks", [0, 1, 2])
def test_fewer_children_do_the_work_if_the_system_allows_no_more(tree, children, forks):
    homes, expected = tree
    fork, left = os.fork, [forks]

    def forking():
        if not left[0]:
            raise BlockingIOError
        left[0] -= 1
        return fork()

    children.setattr(processes, "processors", lambda: 4)
    children.setattr(os, "fork", forking)
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("after", [0, 1, 3, 10])
def test_the_parent_does_the_work_of_a_child_that_was_killed(tree, children, after):
    homes, expected = tree
    pack, count, parent = log_reader._pack, 0, os.getpid()

    def pack_and_die(chunks):
        nonlocal count
        count += 1
        if count > after:
            assert os.getpid() != parent
            os.kill(os.getpid(), signal.SIGKILL)
        return pack(chunks)

    children.setattr(log_reader, "_pack", pack_and_die)
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""
