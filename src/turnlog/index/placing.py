"""Which id a text gets: when it was said, and a number that no other text of that second has.

The numbers of a second are parted into lanes. Who reads logs alone uses all of them; where several
processes give ids at once, each has a lane of its own and need not ask the others. Texts of a
second whose lanes are full run over into the next ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from turnlog.index.ids import LANE_BITS, LANES, SECOND_BITS
from turnlog.index.texts import ANSWERED

if TYPE_CHECKING:
    from turnlog.index.chunks import Unplaced

_LANE: Final = LANES - 1
# So far a crowded second may run over before it is asked again what is taken.
_SECONDS_AHEAD: Final = 1000
_FAR_SECOND: Final = 1 << 62 - SECOND_BITS
_LANES_TAKEN: Final = f"id >> {LANE_BITS}, max(id) FROM texts"

Row = tuple[int, int, int, int]
"""A row of the table of texts."""
Words = list[tuple[int, bytes]]
"""Rows of a full-text table."""


class Placed(NamedTuple):
    """Texts that have ids, and their words for each of the full-text tables, in order of ids."""

    rows: list[Row]
    said: Words
    answered: Words


class Placing:
    """Gives ids to texts; remembers those that it gave."""

    def __init__(
        self,
        db: sqlite3.Connection | None,
        lane: int | None = None,
        taken: dict[int, int] | None = None,
    ) -> None:
        """Use one *lane* of each second, or all; ask *db* what is taken, or know it all."""
        self._db, self._lane = db, lane
        self._last = taken or {}  # The last id that is taken in each lane, as far as known.
        self._newest = 0  # The second of the newest id when we last looked.
        self._version = -1

    def start_over(self) -> None:
        """Forget the ids that were given: they were rolled back."""
        self._last, self._version = {}, -1

    def place(self, texts: list[Unplaced]) -> Placed:
        """Give every text its id; *texts* are put in order first, and let go."""
        texts.sort(key=itemgetter(0))
        until = self._look_up(texts[0][0], texts[-1][0]) if texts else 0
        last, lane = self._last, self._lane
        placed = Placed([], [], [])
        free = 0
        for second, record, part, kind, words in texts:
            free = max(free + 1, second << SECOND_BITS)
            while True:
                if (at := free >> SECOND_BITS) > until:
                    until, last = self._look_up(at, at), self._last
                at = free >> LANE_BITS
                if lane is not None and at & _LANE != lane:
                    free = at + (lane - at & _LANE) << LANE_BITS
                elif last.get(at, -1) >= free:
                    free = last[at] + 1
                else:
                    break
            placed.rows.append((free, record, part, kind))
            (placed.answered if kind in ANSWERED else placed.said).append((free, words))
        last.update((row[0] >> LANE_BITS, row[0]) for row in placed.rows)
        texts.clear()
        return placed

    def _look_up(self, first: int, last: int) -> int:
        """Learn what is taken in these seconds and some more; tell up to which it is known."""
        db = self._db
        if db is None:
            return _FAR_SECOND
        last += _SECONDS_AHEAD
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version:  # Somebody else wrote since: our memory is not enough.
            self._version, self._last = version, {}
            newest = db.execute("SELECT max(id) FROM texts").fetchone()[0] or 0
            self._newest = newest >> SECOND_BITS
        low, high = first << SECOND_BITS, (min(self._newest, last) + 1) << SECOND_BITS
        if low < high:
            query = f"SELECT {_LANES_TAKEN} WHERE id >= ? AND id < ? GROUP BY 1"
            self._last |= dict(db.execute(query, (low, high)))
        return last


def placing_in_lanes(db: sqlite3.Connection) -> Callable[[int], Placing]:
    """Ask *db* once for all that is taken; give what gives ids in any lane, also without it."""
    taken = dict(db.execute(f"SELECT {_LANES_TAKEN} GROUP BY 1").fetchall())
    return lambda lane: Placing(None, lane, taken)


def let_go(words: Words) -> Iterator[tuple[int, bytes]]:
    """Give *words* in their order and keep none: what becomes of them needs the room."""
    words.reverse()
    while words:
        yield words.pop()
