"""turnlog's own journal: the few facts that no log of a session can give back.

It is a log like any other, ``journal.jsonl`` in the store's root. A pin is such a fact: it must
hold for a session that another program writes, and when that session's log is gone, and it must be
found without reading a gigabyte. Another is that a session was deleted, which nothing else tells
once the trash has been emptied.

A witness beside it says how many events there were at the last pin, and what they were. A journal
that was lost, or put back as it was earlier, is found out by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.errors import NotFound
from turnlog.formats import journal_log
from turnlog.records.damage import Damage
from turnlog.records.record_types import Format
from turnlog.records.timestamps import iso
from turnlog.storage.atomic_files import put
from turnlog.storage.open import open_log
from turnlog.storage.reader import Placed, read_log

PINNED: Final = "pinned"
UNPINNED: Final = "unpinned"
DELETED: Final = "deleted"
"""A session went into the trash."""
RESTORED: Final = "restored"
"""It was put back from there."""
PURGED: Final = "purged"
"""It was removed from there, for good."""
ARCHIVED: Final = "archived"
UNARCHIVED: Final = "unarchived"


class ArchivedFact(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known of a session since it was archived in one home."""

    home: str
    """The true path of the home."""
    size_bytes: int
    """Of its own records in its main logs: a session that has another size now went on since."""
    packed_bytes: int
    compression_ratio: float | None = None
    sha256: str
    """Of its main log, unpacked; of several, one behind the other."""
    records: int
    removed: bool
    """Whether what lay in the home was removed."""


class Witness(Struct, frozen=True, kw_only=True):
    """How many events a journal had, and the digest of those."""

    events: int
    sha256: str


class Journal:
    """The journal at *path*, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def in_root(cls, root: Path) -> Journal:
        """Return the journal of the store whose root is *root*."""
        return cls(journal_log(root))

    def pin(self, session_id: str, *, pinned: bool = True) -> None:
        """Write down that a session is pinned, or no longer; durable when this returns."""
        self.note(PINNED if pinned else UNPINNED, session_id)
        self.attest()

    def note(self, event: str, session_id: str, *, at: datetime | None = None, **more: Any) -> None:
        """Write down that something happened to a session; durable when this returns."""
        said = {"type": "turnlog", "event": event, "sessionId": session_id}
        with open_log(self.path, root=self.path.parent) as log:
            log.append({**said, "timestamp": iso(at or datetime.now(UTC)), **more})

    def pins(self) -> frozenset[str]:
        """Return the ids of the sessions that are pinned."""
        pins: set[str] = set()
        for record, session_id in self._events():
            if record.event == PINNED:
                pins.add(session_id)
            elif record.event == UNPINNED:
                pins.discard(session_id)
        return frozenset(pins)

    def deletions(self) -> dict[str, datetime | None]:
        """Return which sessions were deleted and not put back, and when, by id."""
        found: dict[str, datetime | None] = {}
        for record, session_id in self._events():
            if record.event == DELETED:
                found[session_id] = record.at
            elif record.event == RESTORED:
                found.pop(session_id, None)
        return found

    def archive(self, session_id: str, fact: ArchivedFact) -> None:
        """Write down that a session is archived; durable when this returns."""
        self.note(ARCHIVED, session_id, **msgspec.to_builtins(fact))

    def unarchive(self, session_id: str, home: str) -> None:
        """Write down that a session of *home* is no longer archived."""
        self.note(UNARCHIVED, session_id, home=home)

    def archived(self) -> dict[tuple[str, str], ArchivedFact]:
        """Return what is archived, by home and session."""
        found: dict[tuple[str, str], ArchivedFact] = {}
        for record, session_id in self._events():
            home = record.fields.get("home")
            if record.event == UNARCHIVED and isinstance(home, str):
                found.pop((home, session_id), None)
            elif record.event == ARCHIVED:
                with suppress(msgspec.ValidationError):  # Said by nobody of ours.
                    fact = msgspec.convert(record.fields, ArchivedFact)
                    found[fact.home, session_id] = fact
        return found

    def trashed(self) -> frozenset[str]:
        """Return the names of the trash's entries of which the journal tells."""
        events = (record for record, _ in self._events() if record.event == DELETED)
        names = (record.fields.get("trash") for record in events)
        return frozenset(name for name in names if isinstance(name, str))

    @property
    def is_whole(self) -> bool:
        """Nothing in it is damaged, so that no pin can have been lost."""
        try:
            return not any(isinstance(item, Damage) for item in read_log(self.path))
        except NotFound:
            return True

    @property
    def witness(self) -> Path:
        """The file that says what the journal held at the last pin; it need not exist."""
        return self.path.with_name(f"{self.path.stem}.witness.json")

    @property
    def has_shrunk(self) -> bool:
        """Events are missing that were there at the last pin, so that pins may have been lost."""
        try:
            known = msgspec.json.decode(self.witness.read_bytes(), type=Witness)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return self._witnessed(known.events) != known

    def attest(self) -> None:
        """Write the witness anew, unless it says that something was lost."""
        now = self._witnessed()
        if now.events and not self.has_shrunk:
            with suppress(OSError):  # The event itself is on the disk.
                parts = (self.witness.name,)
                put(self.path.parent, parts, (msgspec.json.encode(now),), overwrite=True)

    def _witnessed(self, events: int | None = None) -> Witness:
        """Return a witness of the first *events*, or of all."""
        digest, count = sha256(), 0
        for record, _ in islice(self._events(), events):
            digest.update(record.raw + b"\n")
            count += 1
        return Witness(events=count, sha256=digest.hexdigest())

    def _events(self) -> Iterator[tuple[Format, str]]:
        """Return every event that concerns a session, in the order in which they were written."""
        try:
            for item in read_log(self.path):
                record = item.record if isinstance(item, Placed) else None
                if isinstance(record, Format) and record.session_id is not None:
                    yield record, record.session_id
        except NotFound:
            return
