"""The words that the full-text tables of an index hold."""

# ruff: noqa: S608 - Only our own names are written into SQL; what was asked is bound.

from __future__ import annotations

import sqlite3


class Vocabulary:
    """The words of one index, sought by how they begin."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def has_beginning(self, table: str, begins: str) -> bool:
        """Tell whether a word of *table* begins so."""
        words = f"temp.words_{table}"
        self._db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {words} USING fts5vocab(main, {table}, instance)"
        )
        seek = f"SELECT term FROM {words} WHERE term >= ? ORDER BY term LIMIT 1"
        found = self._db.execute(seek, (begins,)).fetchone()
        return found is not None and found[0].startswith(begins)
