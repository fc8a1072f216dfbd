"""A large refresh: several processes read the logs, and this one writes what all of them found."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from turnlog.index.batches import Gathering, IdsTaken, write_batch
from turnlog.index.database import index_path, open_index
from turnlog.index.pipeline import Readers, is_worth_it
from turnlog.index.placing import placing_in_lanes
from turnlog.index.segments import statements_in, takes_segments
from turnlog.index.settling import settle_all
from turnlog.index.uncollected import uncollected
from turnlog.index.writing import Writer, all_or_nothing

if TYPE_CHECKING:
    from turnlog.index.chunks import Work
    from turnlog.index.plan import Plan
    from turnlog.index.refreshed import Progress
    from turnlog.layout import Home

# All ids of the index are asked for first: that takes longer than it saves where this many times
# as much is there already as will be read.
_MOST_THERE: Final = 0.25
# When so much is read, what can be settled is, while others read still: later all would wait.
_SETTLED_AT: Final = 0.8
_WORTH_SETTLING_BYTES: Final = 64 * 1024 * 1024


def read_together(homes: Sequence[Home], plan: Plan, progress: Progress | None) -> Sequence[Work]:
    """Read the logs of *plan* if that is worth several processes; give what is left to be read."""
    if not is_worth_it(plan.new_bytes) or _size_of(homes) * _MOST_THERE > plan.new_bytes:
        return plan.works
    with closing(open_index(homes)) as db:  # One that does nothing else: see ``segments``.
        if not takes_segments(db):
            return plan.works
        return _read(db, plan, progress)


def _read(db: sqlite3.Connection, plan: Plan, progress: Progress | None) -> list[Work]:
    def tell(read_bytes: int) -> None:
        if progress is not None:
            progress(read_bytes, plan.new_bytes)

    placing, statements = placing_in_lanes(db), statements_in(db)
    readers = Readers(
        plan.works, plan.new_bytes, lambda lane: Gathering(placing(lane), statements), tell
    )
    writer = Writer(db)
    is_settled = plan.new_bytes < _WORTH_SETTLING_BYTES
    with uncollected(), closing(readers.batches()) as batches, suppress(IdsTaken):
        for batch in batches:
            with batch.beside(db), all_or_nothing(db, writer):
                write_batch(db, writer, batch)
            if not is_settled and readers.read_bytes >= plan.new_bytes * _SETTLED_AT:
                is_settled = True
                settle_all(db)
    return list(readers.left.values())


def _size_of(homes: Sequence[Home]) -> int:
    try:
        return os.stat(index_path(homes)).st_size
    except OSError:
        return 0
