"""The ids of texts: in order of time, and no two the same, whoever gives them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from turnlog.index.ids import LANE_BITS, LANES, SECOND_BITS
from turnlog.index.placing import Placing, placing_in_lanes
from turnlog.index.texts import Kind

seconds = st.lists(st.sampled_from([0, 1, 2, 1000, 1001]), max_size=300)


def table() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, record, part, kind)")
    return db


def texts(given, first=0):
    return [
        (second, first + at, 0, int(Kind.RESULT if at % 3 else Kind.PROMPT), b"w")
        for at, second in enumerate(given)
    ]


def insert(db, placed):
    db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", placed.rows)


@given(st.lists(seconds, max_size=5))
def test_one_process_gives_ids_in_order_of_time(turns):
    with closing(table()) as db:
        placing = Placing(db)
        for number, given_seconds in enumerate(turns):
            if number % 2:
                placing.start_over()
            placed = placing.place(texts(given_seconds))
            ids = [row[0] for row in placed.rows]
            assert ids == sorted(ids)
            by_record = {row[1]: row[0] >> SECOND_BITS for row in placed.rows}
            assert all(by_record[at] >= second for at, second in enumerate(given_seconds))
            assert sorted([*placed.said, *placed.answered]) == [(each, b"w") for each in ids]
            insert(db, placed)  # A second one with the same id would be refused.


@given(st.lists(seconds, max_size=2), st.lists(seconds, min_size=2, max_size=LANES))
def test_processes_that_do_not_ask_each_other_never_give_the_same(before, at_once):
    with closing(table()) as db:
        for each in before:
            insert(db, Placing(db).place(texts(each)))
        make = placing_in_lanes(db)
        lanes = [make(lane) for lane in range(len(at_once))]
        for _ in range(2):
            for lane, (placing, each) in enumerate(zip(lanes, at_once, strict=True)):
                placed = placing.place(texts(each))
                assert {row[0] >> LANE_BITS & LANES - 1 for row in placed.rows} <= {lane}
                insert(db, placed)


def test_a_lane_that_is_full_runs_over_into_the_next_second():
    with closing(table()) as db:
        placed = placing_in_lanes(db)(1).place(texts([7] * 65))
        first = 7 << SECOND_BITS | 1 << LANE_BITS
        ids = [row[0] for row in placed.rows]
        assert ids == [*range(first, first + 64), first + (1 << SECOND_BITS)]
