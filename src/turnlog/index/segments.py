"""Words become segments of the full-text tables away from the index, and move into it whole.

    pressed = press(statements_in(db), {"said": words})        # in any process
    with beside(db, pressed):                                  # in the one that writes the index
        ...                                                    # a transaction begins
        add_segments(db)

Most of the time that an index takes goes into its words, and SQLite lets only one connection write
them. But what its FTS5 makes of a transaction is a segment: a sorted run of words, on pages that
nothing outside it refers to. So every process makes segments in a database of its own, in memory.
It is sent as it is, stands beside the index, and the index takes in its pages and puts them on its
list of segments.

That needs to be known of FTS5's files, which every later SQLite has to read: how pages are
numbered, how the list is written, and where rows and words are counted. ``takes_segments`` makes
sure of it; where it is otherwise, words are inserted as usual.

A connection through which FTS5 itself was used remembers the list, and would not see what is added
to it. So segments are added through one that does nothing else with these tables; all others notice
it, as they would anybody's writing.
"""

# ruff: noqa: S608 - Only our own names are written into SQL.

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import Final

from turnlog.index.placing import Words, let_go

TABLES: Final = ("said", "answered")
_BESIDE: Final = "pressed"
_FORMAT: Final = 4
_COUNTS, _LIST = 1, 10
"""Rows of a table's data that are no pages: the counts of rows and words, the list of segments."""
_PAGE_BITS: Final = 37
"""A page has the id of its segment and a number: segment << 37 | number."""
_ONLY: Final = 1
"""The number of the segment in a database that has one."""
_COOKIE_BYTES: Final = 4
_SINGLE: Final = 1 << 30
"""FTS5 begins another segment when it holds so much; more than anybody gives it at once."""
# FTS5 merges the segments of a level when they are eight, see ``database``, a little at each
# writing. Lest small ones take large ones along, these stand as high as merged ones of their size
# would, and nowhere are so many that they are merged for their own sake.
_MOST_ON_LEVEL: Final = 6
_PAGES_ON_LEVEL: Final = 8
_HIGHEST: Final = 40
"""FTS5 knows twenty more. That far up they may be merged: there are hundreds."""


def press(statements: Mapping[str, str], words: Mapping[str, Words]) -> bytes:
    """Make a segment of the *words* for each table, which are in order of ids and are let go."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for table, statement in statements.items():
            db.execute(statement)
            db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('hashsize', {_SINGLE})")
        db.execute("BEGIN")
        for table, rows in words.items():
            db.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", let_go(rows))
        db.execute("COMMIT")
        return db.serialize()


def statements_in(db: sqlite3.Connection) -> dict[str, str]:
    """Tell how the full-text tables of an index were made."""
    query = "SELECT name, sql FROM main.sqlite_master WHERE name IN (?, ?)"
    return dict(db.execute(query, TABLES).fetchall())


def takes_segments(db: sqlite3.Connection) -> bool:
    """Tell whether an index can be given segments: all is where it is known to be."""
    tried = {table: [(1, b"one word"), (2, b"more")] for table in TABLES}
    try:
        with beside(db, press(statements_in(db), tried)):
            return all(_is_as_known(db, table) for table in TABLES)
    except (sqlite3.Error, ValueError, IndexError, TypeError, AttributeError):
        return False


def _is_as_known(db: sqlite3.Connection, table: str) -> bool:
    db.execute(f"UPDATE main.{table}_data SET block = block WHERE 0")  # That may be forbidden.
    (version,) = db.execute(f"SELECT v FROM main.{table}_config WHERE k = 'version'").fetchone()
    _Segments.of(db, "main", table)
    made = (*_counts(db, _BESIDE, table), _Segments.of(db, _BESIDE, table).only())
    return (version, *made) == (_FORMAT, 2, 3, 1)


@contextmanager
def beside(db: sqlite3.Connection, pressed: bytes) -> Iterator[None]:
    """Hold what ``press`` made beside an index. Not within a transaction, which may begin then."""
    db.execute(f"ATTACH ':memory:' AS {_BESIDE}")
    try:
        db.deserialize(pressed, name=_BESIDE)
        del pressed  # That is a copy.
        yield
    finally:
        with suppress(sqlite3.Error):  # What went wrong before says more.
            db.execute(f"DETACH {_BESIDE}")


def add_segments(db: sqlite3.Connection) -> None:
    """Add what stands beside the index to its tables, within the transaction that is open."""
    for table in TABLES:
        rows, words = _counts(db, _BESIDE, table)
        if not rows:
            continue
        if leaves := _Segments.of(db, _BESIDE, table).only():  # Else no text has a word.
            segments = _Segments.of(db, "main", table)
            number = segments.add(leaves)
            listed = f"UPDATE main.{table}_data SET block = ? WHERE id = {_LIST}"
            db.execute(listed, (segments.packed(),))
            db.execute(
                f"INSERT INTO main.{table}_data SELECT id + ?, block FROM {_BESIDE}.{table}_data"
                f" WHERE id > {_ONLY << _PAGE_BITS}",
                (number - _ONLY << _PAGE_BITS,),
            )
            db.execute(
                f"INSERT INTO main.{table}_idx SELECT ?, term, pgno FROM {_BESIDE}.{table}_idx",
                (number,),
            )
        if _has_sizes(db, table):
            db.execute(f"INSERT INTO main.{table}_docsize SELECT * FROM {_BESIDE}.{table}_docsize")
        there = _counts(db, "main", table)
        counts = _varint(there[0] + rows) + _varint(there[1] + words)
        db.execute(f"UPDATE main.{table}_data SET block = ? WHERE id = {_COUNTS}", (counts,))


class _Segments:
    """The list of a table's segments, level by level."""

    def __init__(self, cookie: bytes, written: int) -> None:
        self._cookie, self._written = cookie, written
        self._merging: list[int] = []
        self.levels: list[list[tuple[int, int, int]]] = []
        """Of each segment its number, its first page and its last."""

    @classmethod
    def of(cls, db: sqlite3.Connection, where: str, table: str) -> _Segments:
        """Read the list; ValueError if it is not written as expected."""
        query = f"SELECT block FROM {where}.{table}_data WHERE id = {_LIST}"
        (data,) = db.execute(query).fetchone()
        levels, _count, written, *numbers = _varints(data[_COOKIE_BYTES:])
        found = cls(data[:_COOKIE_BYTES], written)
        rest = iter(numbers)
        for merging, count in islice(zip(rest, rest, strict=False), levels):
            found._merging.append(merging)
            found.levels.append(list(islice(zip(rest, rest, rest, strict=False), count)))
        if found.packed() != data:
            raise ValueError("a list of segments of another kind")
        return found

    def only(self) -> int:
        """Tell how many pages the one segment has that is there; 0 if there is none."""
        if not self.levels:
            return 0
        (((number, first, last),),) = self.levels
        if (number, first) != (_ONLY, 1):
            raise ValueError("segments of another kind")
        return last

    def add(self, leaves: int) -> int:
        """Put a segment of so many pages on the list; give its number."""
        taken = {each[0] for level in self.levels for each in level}
        number = next(number for number in range(1, len(taken) + 2) if number not in taken)
        height = 0
        while leaves > _PAGES_ON_LEVEL ** (height + 1):
            height += 1
        while height < _HIGHEST and self._is_crowded(height):
            height += 1
        while len(self.levels) <= height:
            self.levels.append([])
            self._merging.append(0)
        self.levels[height].append((number, 1, leaves))
        return number

    def _is_crowded(self, height: int) -> bool:
        """Tell whether a level has no place: many stand there, or they are being merged."""
        if height >= len(self.levels):
            return False
        return len(self.levels[height]) >= _MOST_ON_LEVEL or self._merging[height] > 0

    def packed(self) -> bytes:
        count = sum(map(len, self.levels))
        numbers = [len(self.levels), count, self._written]
        for merging, level in zip(self._merging, self.levels, strict=True):
            numbers += [merging, len(level), *(number for each in level for number in each)]
        return self._cookie + b"".join(map(_varint, numbers))


def _counts(db: sqlite3.Connection, where: str, table: str) -> tuple[int, int]:
    """Give the numbers of rows and of words in a table."""
    query = f"SELECT block FROM {where}.{table}_data WHERE id = {_COUNTS}"
    (data,) = db.execute(query).fetchone()
    rows, words = _varints(data) if data else (0, 0)
    return rows, words


def _has_sizes(db: sqlite3.Connection, table: str) -> bool:
    query = "SELECT EXISTS (SELECT 1 FROM main.sqlite_master WHERE name = ?)"
    return bool(db.execute(query, (f"{table}_docsize",)).fetchone()[0])


def _varints(data: bytes) -> Iterator[int]:
    """Read numbers of seven bits to a byte, the highest first; the others' top bits are set."""
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            yield number
            number = 0


def _varint(number: int) -> bytes:
    written = bytes((number & 0x7F,))
    while number := number >> 7:
        written = bytes((number & 0x7F | 0x80,)) + written
    return written
