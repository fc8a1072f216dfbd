"""Names and paths stand once each in the index; rows point to them by number."""

from __future__ import annotations

import sqlite3


class Names(dict[str | None, int | None]):
    """The ids of the names in one table of an index, by name; who asks for a new one adds it.

    Nothing has the id None. To be cleared when a transaction is rolled back: what was added in it
    has no id any more.
    """

    def __init__(
        self, connection: sqlite3.Connection, table: str = "names", column: str = "name"
    ) -> None:
        super().__init__()
        self._db = connection
        self._select = f"SELECT id FROM {table} WHERE {column} = ?"  # noqa: S608 - Ours.
        self._insert = f"INSERT OR IGNORE INTO {table} ({column}) VALUES (?)"  # noqa: S608 - Ours.

    def __missing__(self, name: str | None) -> int | None:
        if name is None:
            self[None] = None
            return None
        # Not in one statement with RETURNING: SQLite would guard it by a savepoint, at which the
        # full-text tables write down all that they hold in memory.
        added = self._db.execute(self._insert, (name,))
        if added.rowcount:
            self[name] = added.lastrowid
        else:
            self[name] = self._db.execute(self._select, (name,)).fetchone()[0]
        return self[name]
