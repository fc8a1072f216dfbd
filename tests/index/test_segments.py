"""Segments that were made elsewhere: the tables hold what they would if all had been inserted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.index import segments
from turnlog.index.segments import (
    TABLES,
    add_segments,
    beside,
    press,
    statements_in,
    takes_segments,
)

WORDS = ("apple", "äpfel", "Apple", "b", "42", "流", "a-b", "!", "", "\x00", "word" * 99)
texts = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
batches = st.lists(st.tuples(*[st.lists(texts, max_size=40)] * len(TABLES)), max_size=12)


@cache
def made() -> bytes:
    """Make the full-text tables as an index has them."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        schema = files("turnlog.index").joinpath("schema.sql").read_text("utf-8")
        for statement in schema.split(";\n"):
            if "fts5(" in statement:
                db.execute(statement)
        for table in TABLES:
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', 8)")
        return db.serialize()


def tables() -> sqlite3.Connection:
    """Give such tables through a connection that has not used them."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(made())
    return db


def words_in(db: sqlite3.Connection, table: str) -> list[tuple[object, ...]]:
    db.execute(f"CREATE VIRTUAL TABLE temp.seen USING fts5vocab('main', '{table}', 'instance')")
    found = db.execute("SELECT term, doc, offset FROM temp.seen ORDER BY 1, 2, 3").fetchall()
    db.execute("DROP TABLE temp.seen")
    return found


def add(db: sqlite3.Connection, **rows: list[tuple[int, bytes]]) -> None:
    with beside(db, press(statements_in(db), rows)), db:
        db.execute("BEGIN")
        add_segments(db)


@settings(max_examples=60)
@given(batches)
def test_segments_hold_what_was_put_in(given):
    with closing(tables()) as moved, closing(tables()) as direct:
        number = 0
        for both in given:
            batch = {}
            for table, found in zip(TABLES, both, strict=True):
                rows = [(number + at, text.encode()) for at, text in enumerate(found)]
                number += len(rows)
                insert = f"INSERT INTO {table} (rowid, text) VALUES (?, ?)"
                direct.executemany(insert, rows)
                batch[table] = rows
            add(moved, **batch)
        for table in TABLES:
            assert words_in(moved, table) == words_in(direct, table)
            moved.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        ranked = "SELECT rowid, bm25(said) FROM said WHERE said MATCH ? ORDER BY rowid"
        for query in ("apple", "app*", '"apple b"', "b NOT 42"):
            assert moved.execute(ranked, (query,)).fetchall() == (
                direct.execute(ranked, (query,)).fetchall()
            )


@pytest.mark.parametrize("table", TABLES)
def test_what_is_inserted_later_by_another_connection_joins_them(tmp_path, table):
    path = tmp_path / "index"
    with closing(tables()) as made, closing(sqlite3.connect(path)) as target:
        made.backup(target)
    with closing(sqlite3.connect(path, isolation_level=None)) as one:
        reading = sqlite3.connect(path)
        count = f"SELECT count(*) FROM {table} WHERE {table} MATCH 'word'"
        assert reading.execute(count).fetchone() == (0,)
        for turn in range(20):
            rows = [(turn * 1000 + at, b"word %d" % at) for at in range(300)]
            add(one, **{table: rows})
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                insert = f"INSERT INTO {table} (rowid, text) VALUES (?, 'a small word')"
                other.execute(insert, (turn * 1000 + 999,))
            assert reading.execute(count).fetchone() == (301 * (turn + 1),)
        one.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        reading.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as later:
        later.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        assert later.execute(count).fetchone() == (20 * 301,)
        later.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")


def test_large_segments_stand_where_small_ones_do_not_draw_them_into_a_merge():
    with closing(tables()) as db:
        for turn in range(9):
            rows = [(turn * 10_000 + at, b"w%d x%d" % (at, at % 7)) for at in range(5_000)]
            add(db, said=rows)
        levels = segments._Segments.of(db, "main", "said").levels
        assert not levels[0]
        assert max(map(len, levels)) < 8  # Of eight FTS5 makes one.
        large = {each for level in levels for each in level}
        for at in range(30):
            db.execute("INSERT INTO said (rowid, text) VALUES (?, 'small')", (1_000_000 + at,))
        later = {
            each for level in segments._Segments.of(db, "main", "said").levels for each in level
        }
        assert large <= later


def test_an_index_that_is_otherwise_takes_none():
    with closing(tables()) as db:
        assert takes_segments(db)
        db.execute("UPDATE said_config SET v = 5 WHERE k = 'version'")
        assert not takes_segments(db)
    with closing(tables()) as db:
        db.execute("UPDATE answered_data SET block = x'00000001FF00000100' WHERE id = 10")
        assert not takes_segments(db)
    with closing(sqlite3.connect(":memory:")) as db:
        assert not takes_segments(db)


@given(st.lists(st.integers(0, 2**40)))
def test_numbers_are_read_as_they_were_written(numbers):
    written = b"".join(map(segments._varint, numbers))
    assert list(segments._varints(written)) == numbers
