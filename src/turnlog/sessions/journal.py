"""turnlog's journal: facts about sessions that their own logs cannot hold.

It is a log like any other, ``journal.jsonl`` in the store's root. It records pins, which must also
hold for sessions that other programs write or whose log is gone, deletions, which nothing else
records once the trash is emptied, and archives.

A witness file has the number and digest of the events at the last pin, so that a lost or
rolled-back journal is detected.
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
from turnlog.records.dates import iso
from turnlog.records.record_types import Marker
from turnlog.storage.atomic_files import put
from turnlog.storage.buffered_writer import open_log
from turnlog.storage.reader import Placed, read_log

PINNED: Final = "pinned"
UNPINNED: Final = "unpinned"
DELETED: Final = "deleted"
"""A session was moved to the trash."""
RESTORED: Final = "restored"
"""It was restored from there."""
PURGED: Final = "purged"
"""It was removed from there permanently."""
ARCHIVED: Final = "archived"
UNARCHIVED: Final = "unarchived"


class ArchivedFact(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was recorded when a session of one home was archived."""

    home: str
    """The real path of the home."""
    size_bytes: int
    """The size of its own records in its main logs: another size means it has changed since."""
    packed_bytes: int
    compression_ratio: float | None = None
    sha256: str
    """The SHA-256 of its main log, decompressed; several are concatenated."""
    records: int
    removed: bool
    """Whether the files in the home were removed."""


class Witness(Struct, frozen=True, kw_only=True):
    """The number of events in a journal, and their digest."""

    events: int
    sha256: str


class Journal:
    """The journal at *path*, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def in_root(cls, root: Path) -> Journal:
        """Return the journal of the store at *root*."""
        return cls(journal_log(root))

    def pin(self, session_id: str, *, pinned: bool = True) -> None:
        """Record that a session is pinned or unpinned; durable on return."""
        self.note(PINNED if pinned else UNPINNED, session_id)
        self.attest()

    def note(self, event: str, session_id: str, *, at: datetime | None = None, **more: Any) -> None:
        """Record that something happened to a session; durable on return."""
        event_fields = {"type": "turnlog", "event": event, "sessionId": session_id}
        with open_log(self.path, root=self.path.parent) as log:
            log.append({**event_fields, "timestamp": iso(at or datetime.now(UTC)), **more})

    def pins(self) -> frozenset[str]:
        """Return the ids of the pinned sessions."""
        pins: set[str] = set()
        for record, session_id in self._events():
            if record.event == PINNED:
                pins.add(session_id)
            elif record.event == UNPINNED:
                pins.discard(session_id)
        return frozenset(pins)

    def deletions(self) -> dict[str, datetime | None]:
        """Return the sessions that were deleted and not restored, with the time, by id."""
        found: dict[str, datetime | None] = {}
        for record, session_id in self._events():
            if record.event == DELETED:
                found[session_id] = record.at
            elif record.event == RESTORED:
                found.pop(session_id, None)
        return found

    def archive(self, session_id: str, fact: ArchivedFact) -> None:
        """Record that a session is archived; durable on return."""
        self.note(ARCHIVED, session_id, **msgspec.to_builtins(fact))

    def unarchive(self, session_id: str, home: str) -> None:
        """Record that a session of *home* is no longer archived."""
        self.note(UNARCHIVED, session_id, home=home)

    def archived(self) -> dict[tuple[str, str], ArchivedFact]:
        """Return the archived sessions, by home and session."""
        found: dict[tuple[str, str], ArchivedFact] = {}
        for record, session_id in self._events():
            home = record.fields.get("home")
            if record.event == UNARCHIVED and isinstance(home, str):
                found.pop((home, session_id), None)
            elif record.event == ARCHIVED:
                with suppress(msgspec.ValidationError):  # Not written by turnlog.
                    fact = msgspec.convert(record.fields, ArchivedFact)
                    found[fact.home, session_id] = fact
        return found

    def trashed(self) -> frozenset[str]:
        """Return the names of the trash entries that the journal mentions."""
        events = (record for record, _ in self._events() if record.event == DELETED)
        names = (record.fields.get("trash") for record in events)
        return frozenset(name for name in names if isinstance(name, str))

    @property
    def is_whole(self) -> bool:
        """Whether it has no damage, so that no pin can have been lost."""
        try:
            return not any(isinstance(item, Damage) for item in read_log(self.path))
        except NotFound:
            return True

    @property
    def witness(self) -> Path:
        """The path of the witness file; it need not exist."""
        return self.path.with_name(f"{self.path.stem}.witness.json")

    @property
    def has_shrunk(self) -> bool:
        """Whether events since the last pin are missing, so that pins may have been lost."""
        try:
            known = msgspec.json.decode(self.witness.read_bytes(), type=Witness)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return self._witnessed(known.events) != known

    def attest(self) -> None:
        """Update the witness, unless it shows that events were lost."""
        now = self._witnessed()
        if now.events and not self.has_shrunk:
            with suppress(OSError):  # The event itself is on disk.
                parts = (self.witness.name,)
                put(self.path.parent, parts, (msgspec.json.encode(now),), overwrite=True)

    def _witnessed(self, events: int | None = None) -> Witness:
        """Return a witness of the first *events*, or of all."""
        digest, count = sha256(), 0
        for record, _ in islice(self._events(), events):
            digest.update(record.raw + b"\n")
            count += 1
        return Witness(events=count, sha256=digest.hexdigest())

    def _events(self) -> Iterator[tuple[Marker, str]]:
        """Yield every event about a session, in order."""
        try:
            for item in read_log(self.path):
                record = item.record if isinstance(item, Placed) else None
                if isinstance(record, Marker) and record.session_id is not None:
                    yield record, record.session_id
        except NotFound:
            return
