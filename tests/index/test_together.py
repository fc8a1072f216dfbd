"""A large refresh by several processes: the same rows, whoever read what."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest

from index.homes import made_tree, own_index, rebuilt
from index.rows import differences, rows_of
from turnlog.index import pipeline, together
from turnlog.index.database import index_path
from turnlog.index.ids import LANE_BITS, LANES, SECOND_BITS
from turnlog.index.refresh import refresh
from turnlog.layout import find_homes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="nowhere else is anything forked")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    homes = made_tree(tmp_path_factory.mktemp("tree") / "home", 3, 300_000)
    return homes, rebuilt(homes)


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    """Let several processes read, in small batches, however little there is."""
    monkeypatch.setattr(pipeline, "_WORTH_A_PROCESS_BYTES", 0)
    monkeypatch.setattr("turnlog.index.refresh._LITTLE_BYTES", 0)
    monkeypatch.setattr(pipeline, "can_fork", lambda: True)
    monkeypatch.setattr(pipeline, "MOST_CHUNKS", 3)
    monkeypatch.setattr("turnlog.index.reading._CHUNK_LINES", 20)
    with own_index(tmp_path / "own"):
        yield monkeypatch


def asked(homes, query):
    with closing(sqlite3.connect(index_path(homes))) as db:
        return db.execute(query).fetchone()[0]


def batches_written(monkeypatch):
    """Give the list that will say of every batch whether it was written."""
    write, written = together.write_batch, []

    def writing(db, writer, batch):
        written.append(False)
        write(db, writer, batch)
        written[-1] = True

    monkeypatch.setattr(together, "write_batch", writing)
    return written


def before_reading(crowd, do):
    """Do something to the index when the ids that are taken are known, and nothing is read yet."""
    make = together.placing_in_lanes

    def making(db):
        made = make(db)
        do(db)
        return made

    crowd.setattr(together, "placing_in_lanes", making)


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 64])
def test_any_number_of_processes_give_the_same_rows(tree, crowd, processes):
    homes, expected = tree
    crowd.setattr(pipeline, "processors", lambda: processes)
    written = batches_written(crowd)
    refresh(homes)
    assert len(written) > 2
    assert all(written)
    assert differences(rows_of(homes), expected) == ""
    for table in ("said", "answered"):
        with closing(sqlite3.connect(index_path(homes))) as db:
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


def test_they_add_to_what_is_there(tree, crowd, tmp_path):
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
    refresh(homes)
    assert differences(rows_of(homes), rebuilt(homes)) == ""


def test_what_is_read_is_told(tree, crowd):
    homes, _ = tree
    told = []
    refresh(homes, progress=lambda done, whole: told.append((done, whole)))
    assert told == sorted(told)
    assert len({whole for _, whole in told}) == 1
    assert 0 < told[-1][0] <= told[-1][1]


def test_an_index_that_takes_no_segments_is_given_words(tree, crowd):
    homes, expected = tree
    crowd.setattr(together, "takes_segments", lambda _db: False)
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""


def test_ids_that_another_process_takes_meanwhile_are_given_up(tree, crowd):
    homes, expected = tree
    with own_index():
        refresh(homes)
        with closing(sqlite3.connect(index_path(homes))) as db:
            seconds = db.execute(f"SELECT DISTINCT id >> {SECOND_BITS} FROM texts").fetchall()

    def take(db):
        db.executemany(
            "INSERT INTO texts VALUES (?, NULL, 0, 1)",
            (
                (second << SECOND_BITS | lane << LANE_BITS | 1,)
                for (second,) in seconds
                for lane in range(LANES)
            ),
        )

    before_reading(crowd, take)
    written = batches_written(crowd)
    assert not refresh(homes).notices
    assert written[-1] is False
    assert differences(rows_of(homes), expected) == ""


def test_texts_of_a_log_that_became_another_meanwhile_are_dead(tree, crowd):
    homes, expected = tree
    with crowd.context() as once:
        change = "UPDATE logs SET generation = generation + 1 WHERE id % 2"
        before_reading(once, lambda db: db.execute(change))
        refresh(homes)
    dead = asked(homes, "SELECT dead_texts FROM about")
    assert dead == asked(homes, "SELECT count(*) FROM texts WHERE record IS NULL") > 0
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""


@pytest.mark.parametrize("forks", [0, 1, 2])
def test_where_no_more_processes_can_be_had_fewer_do(tree, crowd, forks):
    homes, expected = tree
    fork, left = os.fork, [forks]

    def forking():
        if not left[0]:
            raise BlockingIOError
        left[0] -= 1
        return fork()

    crowd.setattr(pipeline, "processors", lambda: 4)
    crowd.setattr(os, "fork", forking)
    refresh(homes)
    assert differences(rows_of(homes), expected) == ""
