"""The words that the full-text tables of an index hold."""

# ruff: noqa: S608 - Only our own names are written into SQL; what was asked is bound.

from __future__ import annotations

import sqlite3
from typing import Final

# Every segment of a full-text table lists which of its pages begin with which word; what lies
# between the last that begins before the words and the first behind them is theirs.
_PAGES: Final = """
WITH RECURSIVE segments (id) AS (
    SELECT min(segid) FROM {0}_idx
    UNION ALL
    SELECT (SELECT min(segid) FROM {0}_idx WHERE segid > id) FROM segments WHERE id IS NOT NULL
)
SELECT sum(
    coalesce(
        (SELECT pgno >> 1 FROM {0}_idx WHERE segid = id AND term >= ?2 ORDER BY term LIMIT 1),
        (SELECT max(pgno) >> 1 FROM {0}_idx WHERE segid = id) + 1
    ) - coalesce(
        (SELECT pgno >> 1 FROM {0}_idx WHERE segid = id AND term <= ?1 ORDER BY term DESC LIMIT 1),
        1
    )
) FROM segments WHERE id IS NOT NULL
"""
_MAIN: Final = b"0"
"""What FTS5 writes before a word in its lists."""


class Vocabulary:
    """Tells how words begin, by tables that list the words of both full-text tables.

    The tables are made at once, to be there before anything is read: to make a table while rows are
    being fetched may break off whoever fetches them.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        for table in ("said", "answered"):
            db.execute(
                f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.words_{table}"
                f" USING fts5vocab(main, {table}, instance)"
            )

    def has_beginning(self, table: str, begins: str) -> bool:
        """Return whether a word of *table* begins so."""
        seek = f"SELECT term FROM temp.words_{table} WHERE term >= ? ORDER BY term LIMIT 1"
        found = self._db.execute(seek, (begins,)).fetchone()
        return found is not None and found[0].startswith(begins)


def pages_of(db: sqlite3.Connection, table: str, begins: str) -> int:
    """Guess how many pages of *table* tell of words that begin so, without reading them."""
    first = _MAIN + begins.encode(errors="replace")
    try:
        return int(db.execute(_PAGES.format(table), (first, first + b"\xff")).fetchone()[0] or 0)
    except sqlite3.Error:  # These lists are SQLite's own, and a later one may keep others.
        return 0


def texts_with(db: sqlite3.Connection, table: str, expression: str, most: int) -> int:
    """Count the texts of *table* that FTS5 finds by *expression*, up to *most*."""
    found = f"SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?"
    return int(db.execute(f"SELECT count(*) FROM ({found})", (expression, most)).fetchone()[0])
