"""turnlog's own journal: the few facts that no log of a session can give back.

It is a log like any other, ``journal.jsonl`` in the store's root. A pin is such a fact: it must
hold for a session that another program writes, and when that session's log is gone, and it must be
found without reading a gigabyte.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from turnlog.errors import NotFound
from turnlog.layout import journal_log
from turnlog.log.opening import open_log
from turnlog.log.reader import Placed, read_log
from turnlog.records.instants import iso
from turnlog.records.state import Format

PINNED: Final = "pinned"
UNPINNED: Final = "unpinned"


class Journal:
    """The journal at *path*, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def in_root(cls, root: Path) -> Journal:
        """Give the journal of the store whose root is *root*."""
        return cls(journal_log(root))

    def pin(self, session_id: str, *, pinned: bool = True) -> None:
        """Write down that a session is pinned, or no longer; durable when this returns."""
        event = PINNED if pinned else UNPINNED
        with open_log(self.path, root=self.path.parent) as log:
            at = iso(datetime.now(UTC))
            log.append(
                {"type": "turnlog", "event": event, "sessionId": session_id, "timestamp": at}
            )

    def pins(self) -> frozenset[str]:
        """Give the ids of the sessions that are pinned."""
        pins: set[str] = set()
        try:
            for item in read_log(self.path):
                record = item.record if isinstance(item, Placed) else None
                if isinstance(record, Format) and record.session_id is not None:
                    if record.event == PINNED:
                        pins.add(record.session_id)
                    elif record.event == UNPINNED:
                        pins.discard(record.session_id)
        except NotFound:
            pass
        return frozenset(pins)
