"""A session of a store: it can be read, kept, archived and deleted.

It stays readable after its files were moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from turnlog.errors import NotFound, UsageError
from turnlog.formats import Home, turnlog_home
from turnlog.keep.archive.archive import Archived, Unarchived, archive, is_archived, unarchive
from turnlog.keep.copies.keep import KeepRun, keep
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.trash.delete import ASKED, Deletion, DeletionTerms, delete_session
from turnlog.sessions.journal import Journal
from turnlog.sessions.metadata import Metadata
from turnlog.sessions.session import Session


class KeptSession(Session):
    """A session of a store: it can be read, kept, archived and deleted."""

    root: Path | None = None
    """The root of its store, whose journal has the pins."""

    @property
    def metadata(self) -> Metadata:
        """The title, times, state, counts and pin of the session."""
        found = super().metadata
        if self.root is None or found.id not in Journal.in_root(self.root).pins():
            return found
        return structs.replace(found, is_pinned=True)

    @property
    def is_archived(self) -> bool:
        """Whether it is archived: compressed, and left out of plain lists."""
        return is_archived(self)

    @property
    def is_at_home(self) -> bool:
        """Whether its log is in its home, and not compressed."""
        return not any(log.is_kept or log.compression for log in self.main_logs)

    def keep(self) -> KeepRun:
        """Update turnlog's own copies of all its files."""
        return keep(self._homes(), sessions=frozenset({self.id, None}))

    def archive(self, *, remove: bool | None = None) -> Archived:
        """Compress and verify all its files, then *remove* the originals.

        By default they are removed from a flat store only. Raises LogLocked if the session is
        running. Repeating an interrupted archive completes it.
        """
        done = archive(self, remove=remove)
        self._find_again()
        return done

    def unarchive(self) -> Unarchived:
        """Restore its files with the same bytes; it is no longer archived."""
        done = unarchive(self)
        self._find_again()
        return done

    def delete(self) -> Deletion:
        """Move all its files to the trash; doing it again changes nothing."""
        own = turnlog_home()
        terms = DeletionTerms(ASKED, datetime.now(UTC), load_grace(own))
        return delete_session(tuple(self._homes()), self.id, own=own, terms=terms)

    def refuse_if_archived(self) -> None:
        """Raise UsageError if its log cannot be written: archived, or only a kept copy."""
        if any(log.is_kept for log in self.main_logs) and not self.is_archived:
            raise UsageError(
                f"session {self.id} is gone from its home, and kept copies are never changed",
                hint="restore it first",
                code="session-gone",
                about=self.id,
            )
        if self.is_archived or not self.is_at_home:
            raise UsageError(
                f"session {self.id} is archived, and archives are never changed",
                hint="unarchive it first",
                code="session-packed",
                about=self.id,
            )

    def _homes(self) -> Iterator[Home]:
        yield from dict.fromkeys(log.home for log in self.logs)

    def _find_again(self) -> None:
        """Find its logs again, and forget what was read from their old paths."""
        try:
            found = Session.find(self._homes(), self.id)
        except NotFound:
            return
        root = self.root
        vars(self).clear()
        super().__init__(found.id, found.logs)
        self.root = root
