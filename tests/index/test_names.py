"""Names stand once; whoever asks for one that is new adds it."""

from __future__ import annotations

import sqlite3

import pytest

from turnlog.index.ids import Names


@pytest.fixture
def db():
    found = sqlite3.connect(":memory:", isolation_level=None)
    found.execute("CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
    found.execute("CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)")
    yield found
    found.close()


def test_a_name_is_added_once_and_known_to_others(db):
    one, other = Names(db), Names(db)
    assert one["quince"] == one["quince"] == other["quince"]
    assert one["medlar"] != one["quince"]
    assert db.execute("SELECT count(*) FROM names").fetchone() == (2,)


def test_nothing_has_no_id_and_the_empty_name_has_one(db):
    names = Names(db)
    assert names[None] is None
    assert names[None] is None
    assert names[""] is not None
    assert db.execute("SELECT name FROM names").fetchall() == [("",)]


def test_tables_are_apart(db):
    names, paths = Names(db), Names(db, "paths", "path")
    names["quince"], paths["/srv/orchard"]
    assert db.execute("SELECT path FROM paths").fetchall() == [("/srv/orchard",)]
    assert "/srv/orchard" not in names


def test_after_a_rollback_a_name_is_asked_for_anew(db):
    names = Names(db)
    db.execute("BEGIN")
    assert names["quince"]
    db.execute("ROLLBACK")
    names.clear()
    assert names["medlar"]
    assert db.execute("SELECT id FROM names WHERE name = 'quince'").fetchone() is None
    assert names["quince"] != names["medlar"]
