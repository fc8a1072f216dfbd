"""Words become segments of the full-text tables away from the index, and move into it whole.

    press = Press(statements_in(db))               # in any process
    segment = press.segment("said", words)
    add_segment(db, "said", segment)               # in the one that writes the index

Most of the time that an index takes goes into its words, and SQLite lets only one connection write
them. But what its FTS5 makes of a transaction is a segment: a sorted run of words, on pages that
nothing outside it refers to. So every process makes segments in a database of its own, in memory,
and the index takes in their pages as they are and puts them on its list of segments.

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
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Final

from msgspec import Struct

from turnlog.index.placing import Words, let_go
from turnlog.log.closing import Closing

TABLES: Final = ("said", "answered")
_FORMAT: Final = 4
_COUNTS, _LIST = 1, 10
"""Rows of a table's data that are no pages: the counts of rows and words, the list of segments."""
_PAGE_BITS: Final = 37
"""A page has the id of its segment and a number: segment << 37 | number."""
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


class Segment(Struct, array_like=True):
    """The words of some texts, as a full-text table has them."""

    rows: int
    words: int
    leaves: int
    """How many of the pages hold words; others say where to look."""
    pages: list[tuple[int, bytes]]
    terms: list[tuple[bytes, int]]
    """Words with which pages begin, and which pages."""
    sizes: list[tuple[int, bytes]]
    """How many words each text has, if the table keeps that."""


class Press(Closing):
    """Makes segments in memory, one after the other."""

    def __init__(self, statements: dict[str, str]) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        for table, statement in statements.items():
            self._db.execute(statement)
            self._db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('hashsize', {_SINGLE})")

    def segment(self, table: str, words: Words) -> Segment | None:
        """Make a segment of *words*, which are in order of ids and are let go; none of none."""
        if not words:
            return None
        db = self._db
        db.execute("BEGIN")
        db.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", let_go(words))
        db.execute("COMMIT")
        made = Segment(
            *_counts(db, table),
            leaves=_Segments.of(db, table).only(),
            pages=db.execute(
                f"SELECT id - ?1, block FROM {table}_data WHERE id > ?1", (1 << _PAGE_BITS,)
            ).fetchall(),
            terms=db.execute(f"SELECT term, pgno FROM {table}_idx").fetchall(),
            sizes=db.execute(f"SELECT id, sz FROM {table}_docsize").fetchall()
            if _has_sizes(db, table)
            else [],
        )
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
        return made

    def close(self) -> None:
        """Let go of the memory."""
        self._db.close()


def statements_in(db: sqlite3.Connection) -> dict[str, str]:
    """Tell how the full-text tables of an index were made."""
    query = "SELECT name, sql FROM sqlite_master WHERE name IN (?, ?)"
    return dict(db.execute(query, TABLES).fetchall())


def takes_segments(db: sqlite3.Connection) -> bool:
    """Tell whether an index can be given segments: all is where it is known to be."""
    try:
        with closing(Press(statements_in(db))) as press:
            for table in TABLES:
                db.execute(f"UPDATE {table}_data SET block = block WHERE 0")  # May be forbidden.
                query = f"SELECT v FROM {table}_config WHERE k = 'version'"
                if db.execute(query).fetchone()[0] != _FORMAT or not _Segments.of(db, table):
                    return False
                made = press.segment(table, [(1, b"one word"), (2, b"more")])
                if made is None or (made.rows, made.words, made.leaves) != (2, 3, 1):
                    return False
    except (sqlite3.Error, ValueError, IndexError, TypeError):
        return False
    return True


def add_segment(db: sqlite3.Connection, table: str, segment: Segment) -> None:
    """Add *segment* to a full-text table, within the transaction that is open."""
    if segment.leaves:  # Else no text has a word.
        segments = _Segments.of(db, table)
        number = segments.add(segment.leaves)
        db.execute(f"UPDATE {table}_data SET block = ? WHERE id = {_LIST}", (segments.packed(),))
        base = number << _PAGE_BITS
        db.executemany(
            f"INSERT INTO {table}_data VALUES (?, ?)",
            ((base + page, data) for page, data in segment.pages),
        )
        db.executemany(
            f"INSERT INTO {table}_idx VALUES (?, ?, ?)",
            ((number, term, page) for term, page in segment.terms),
        )
    if segment.sizes:
        db.executemany(f"INSERT INTO {table}_docsize VALUES (?, ?)", segment.sizes)
    rows, words = _counts(db, table)
    counts = _varint(rows + segment.rows) + _varint(words + segment.words)
    db.execute(f"UPDATE {table}_data SET block = ? WHERE id = {_COUNTS}", (counts,))


class _Segments:
    """The list of a table's segments, level by level."""

    def __init__(self, cookie: bytes, written: int) -> None:
        self._cookie, self._written = cookie, written
        self._merging: list[int] = []
        self.levels: list[list[tuple[int, int, int]]] = []
        """Of each segment its number, its first page and its last."""

    @classmethod
    def of(cls, db: sqlite3.Connection, table: str) -> _Segments:
        """Read the list; ValueError if it is not written as expected."""
        (data,) = db.execute(f"SELECT block FROM {table}_data WHERE id = {_LIST}").fetchone()
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
        if (number, first) != (1, 1):
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


def _counts(db: sqlite3.Connection, table: str) -> tuple[int, int]:
    """Give the numbers of rows and of words in a table."""
    (data,) = db.execute(f"SELECT block FROM {table}_data WHERE id = {_COUNTS}").fetchone()
    rows, words = _varints(data) if data else (0, 0)
    return rows, words


def _has_sizes(db: sqlite3.Connection, table: str) -> bool:
    query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = ?)"
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
