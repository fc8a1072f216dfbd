"""The ids of texts: the second in which a text was said, and a number within that second.

Texts of a second whose numbers are all taken get ids of the following seconds.
"""

from __future__ import annotations

import sqlite3
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from turnlog.index.ids import SECOND_BITS
from turnlog.index.texts import ANSWERED

if TYPE_CHECKING:
    from turnlog.index.refresh.chunks import Unplaced

# How far the texts of a crowded second may spread before the table is asked again.
_SECONDS_AHEAD: Final = 1000
_TAKEN: Final = f"""
SELECT id >> {SECOND_BITS}, max(id) FROM texts WHERE id >= ? AND id < ? GROUP BY 1
"""  # noqa: S608 - A number of ours.


class NumberedTexts(NamedTuple):
    """Texts with their ids, and the words for each of the full-text tables, in order of ids."""

    rows: list[tuple[int, int, int, int]]
    """Rows of the table of texts."""
    said: list[tuple[int, bytes]]
    answered: list[tuple[int, bytes]]


class TextNumbering:
    """Assigns ids to texts; remembers those that it assigned."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._last: dict[int, int] = {}  # The last id that is taken in each second, if known.
        self._newest = 0  # The second of the newest id when we last looked.
        self._version = -1

    def start_over(self) -> None:
        """Forget the ids that were assigned: they were rolled back."""
        self._last, self._version = {}, -1

    def place(self, texts: list[Unplaced]) -> NumberedTexts:
        """Assign an id to each text. Sorts *texts* by time, and clears the list."""
        texts.sort(key=itemgetter(0))
        until = self._look_up(texts[0][0], texts[-1][0]) if texts else 0
        placed = NumberedTexts([], [], [])
        free = 0
        for second, record, part, kind, words in texts:
            free = max(free + 1, second << SECOND_BITS)
            while True:
                if (at := free >> SECOND_BITS) > until:
                    until = self._look_up(at, at)
                if self._last.get(at, -1) < free:
                    break
                free = self._last[at] + 1
            placed.rows.append((free, record, part, kind))
            (placed.answered if kind in ANSWERED else placed.said).append((free, words))
        self._last.update((row[0] >> SECOND_BITS, row[0]) for row in placed.rows)
        texts.clear()
        return placed

    def _look_up(self, first: int, last: int) -> int:
        """Look up what is taken from *first* to *last* and a little beyond; return how far."""
        db = self._db
        last += _SECONDS_AHEAD
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:  # Another process wrote since: what we remember may be old.
            self._version, self._last = version, {}
            newest = db.execute("SELECT max(id) FROM texts").fetchone()[0] or 0
            self._newest = newest >> SECOND_BITS
        low, high = first << SECOND_BITS, (min(self._newest, last) + 1) << SECOND_BITS
        if low < high:
            self._last |= dict(db.execute(_TAKEN, (low, high)))
        return last
