"""The way into the index for those who ask: refreshed first, unless told not to, and read only.

    with open_fresh(homes) as index:
        index.db.execute("SELECT …")
        index.texts(record)

It is one state of the index, from the first question until it is closed, whoever refreshes the
index meanwhile: an answer is put together from many statements, and they must agree. Nobody keeps
one open for long: what is written meanwhile has to wait in the write-ahead log.

Text is not stored, so it is read back from the log where its record stands. A log that vanished or
was rewritten since gives nothing, and the next refresh notices.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from turnlog.errors import BrokenIndex, IndexUnavailable
from turnlog.index.database import index_path, is_broken, open_for_reading
from turnlog.index.freshness import Freshness, changed_logs, has_leftovers
from turnlog.storage import Closing

if TYPE_CHECKING:  # The rest is imported when it is needed: most questions find a fresh index.
    from turnlog.formats import Home
    from turnlog.index.fallback import Fallback
    from turnlog.index.record_lookup import ReadBack
    from turnlog.index.refresh.result import Progress, RefreshResult, Stage
    from turnlog.index.texts import Text
    from turnlog.records.record import Record


class Index(Closing):
    """One state of an index, to be read. *refreshed* says what was read before, if anything was."""

    is_masked = False
    """Whether texts are read back without words that the index knows, since those are secrets."""

    def __init__(self, db: sqlite3.Connection, refreshed: RefreshResult | None = None) -> None:
        self.db = db
        self.refreshed = refreshed

    @cached_property
    def _back(self) -> ReadBack:
        from turnlog.index.record_lookup import ReadBack

        return ReadBack(self.db)

    def shown(self, text: str) -> str:
        """Return what may be known of a *text* that the index itself holds, such as a title."""
        return text

    def place(self, record: int) -> tuple[str, int]:
        """Return the log and the offset of a record."""
        return self._back.place(record)

    def length(self, record: int) -> int | None:
        """Return how long a record is; None if the index does not know it."""
        return self._back.length(record)

    def raw(self, record: int, length: int | None = None) -> bytes | None:
        """Read a record's bytes from its log; None if they are not there any more."""
        return self._back.raw(record, length)

    def record(self, record: int, length: int | None = None) -> Record | None:
        """Read a record from its log; None if it is not there any more."""
        from turnlog.records.codec import decode
        from turnlog.records.damage import Damage

        data = self.raw(record, length)
        found = None if data is None else decode(data)
        return None if isinstance(found, Damage) else found

    def texts(self, record: int, length: int | None = None) -> list[Text]:
        """Read the texts of a record from its log."""
        data = self.raw(record, length)
        return [] if data is None else self._back.texts_in(data, record)

    def let_go(self) -> None:
        """Close the logs that were read from; they are opened again when they are needed."""
        if "_back" in self.__dict__:
            self._back.close()

    def close(self) -> None:
        self.let_go()
        self.db.close()

    def __exit__(self, *error: object) -> None:
        """Close it; if it was found to be broken while it was read, say so and what helps."""
        path = self._path()
        super().__exit__(*error)
        if type(error[1]) is sqlite3.DatabaseError and is_broken(error[1]):
            raise BrokenIndex(
                f"the index is broken: {error[1]}",
                path=path,
                hint="make it anew with: turnlog refresh --rebuild",
            ) from error[1]

    def _path(self) -> str:
        try:
            return str(self.db.execute("PRAGMA database_list").fetchone()[2])
        except sqlite3.Error:
            return ""


def open_fresh(
    homes: Sequence[Home],
    *,
    stage: Stage = "text",
    is_stale_allowed: bool = False,
    progress: Progress | None = None,
    fallback: Fallback = "made",
) -> Index:
    """Open the index of *homes*, refreshed first; as it is, if *is_stale_allowed* and it exists.

    Where it cannot be written, *fallback* tells what serves instead; if nothing does, it raises.
    """
    db = open_for_reading(homes)
    refreshed = changed = None
    if db is not None and not is_stale_allowed and (changed := _changed(db, stage)) != []:
        db.close()
        db = None
    if db is None:
        refreshed = refreshed_if_possible(
            homes, stage=stage, progress=progress, look=Freshness(changed), fallback=fallback
        )
        db = open_for_reading(homes)
    if db is None:
        raise IndexUnavailable(
            "the index cannot be read",
            path=index_path(homes),
            hint="make it anew with: turnlog refresh --rebuild",
        )
    db.execute("BEGIN")  # One state for all that is asked; closing it ends this.
    return Index(db, refreshed)


def refreshed_if_possible(
    homes: Sequence[Home],
    *,
    stage: Stage = "text",
    progress: Progress | None = None,
    look: Freshness | None = None,
    fallback: Fallback = "made",
) -> RefreshResult:
    """Refresh the index; where it cannot be written, see to what serves instead."""
    from turnlog.index.refresh.refresh import refresh

    try:
        return refresh(homes, stage=stage, progress=progress, look=look)
    except IndexUnavailable as error:
        from turnlog.index.fallback import refreshed_otherwise

        return refreshed_otherwise(homes, error, stage=stage, fallback=fallback, progress=progress)


def _changed(db: sqlite3.Connection, stage: Stage) -> list[str] | None:
    """List the logs that changed; None if only a refresh can tell."""
    try:
        return None if has_leftovers(db) else changed_logs(db, usage_only=stage == "usage")
    except sqlite3.Error:
        return None  # The refresh will say what is wrong with it.
