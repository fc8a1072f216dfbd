"""The ids of texts: in order of time, and no two the same, whoever gives them."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from turnlog.index.ids import SECOND_BITS
from turnlog.index.refresh.writer import TextNumbering
from turnlog.index.texts import TextKind

seconds = st.lists(st.sampled_from([0, 1, 2, 1000, 1001]), max_size=300)


def connection(path=":memory:") -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    return db


def table(path=":memory:") -> sqlite3.Connection:
    db = connection(path)
    db.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, record, part, kind, session, size)")
    return db


def texts(given, first=0):
    return [
        (second, first + at, 0, int(TextKind.RESULT if at % 3 else TextKind.PROMPT), b"w", None, 7)
        for at, second in enumerate(given)
    ]


def insert(db, placed):
    db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?)", placed.rows)


@given(st.lists(seconds, max_size=5))
def test_one_process_gives_ids_in_order_of_time(turns):
    with closing(table()) as db:
        placing = TextNumbering(db)
        for number, given_seconds in enumerate(turns):
            if number % 2:
                placing.start_over()
            placed = placing.number(texts(given_seconds))
            ids = [row[0] for row in placed.rows]
            assert ids == sorted(ids)
            by_record = {row[1]: row[0] >> SECOND_BITS for row in placed.rows}
            assert all(by_record[at] >= second for at, second in enumerate(given_seconds))
            assert sorted([*placed.said, *placed.answered]) == [(each, b"w") for each in ids]
            assert placed.split == placed.said
            insert(db, placed)  # A second one with the same id would be refused.


@given(st.lists(seconds, max_size=6))
def test_two_connections_in_turn_never_give_the_same(turns):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "texts.sqlite")
        with closing(table(path)) as one, closing(connection(path)) as other:
            placings = TextNumbering(one), TextNumbering(other)
            for number, given_seconds in enumerate(turns):
                db = (one, other)[number % 2]
                insert(db, placings[number % 2].number(texts(given_seconds)))


def test_a_second_that_is_full_runs_over_into_the_next():
    with closing(table()) as db:
        placed = TextNumbering(db).number(texts([7] * 257 + [8]))
        first = 7 << SECOND_BITS
        assert [row[0] for row in placed.rows] == [*range(first, first + 258)]
