"""Archive a session: compress and verify all its files, and drop it from plain lists.

A flat store has archives of its own, which replace the log (``flat``). In the other layouts the
kept copies are the archive, and the originals stay unless their removal is requested (``kept``). A
running session is refused, archiving twice is fine, and repeating an interrupted operation
completes it.

Unarchiving restores whatever is gone, with the same bytes, the main log last. Kept copies stay.
"""

from __future__ import annotations

import os

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.formats import LayoutName, LogFile
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.archive.archives import Archives, is_flat_archive, journal
from turnlog.keep.archive.flat import (
    archive_flat,
    is_archive_present,
    place_of,
    unarchive_flat,
    unpack_in_place,
)
from turnlog.keep.archive.kept import KeptArchiver, own_bytes
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.keep import keep
from turnlog.keep.restore.restorable import find_restorable, mirrors
from turnlog.keep.restore.restore import note_restored, restore
from turnlog.keep.running import refuse_if_opened, refuse_if_running
from turnlog.keep.session_files import SessionFileIndex
from turnlog.sessions.journal import ArchivedFact
from turnlog.sessions.session import Session


class Archived(Struct, kw_only=True):
    """An archived session. Sizes are of all its files, with and without compression."""

    id: str
    layout: LayoutName
    home: str
    files: int
    size_bytes: int
    packed_bytes: int
    ratio: float | None
    """Compressed size divided by original size; null if there was nothing to compress."""
    records: int
    """Records of its main log."""
    sha256: str
    """The SHA-256 of its main log, decompressed; several are concatenated."""
    removed: bool
    """Whether nothing of it is left in its home except the archive."""
    was_archived: bool = False
    """It had been archived before; nothing, or only the rest, was done now."""


class Unarchived(Struct, kw_only=True):
    """A session that was restored from its archive."""

    id: str
    layout: LayoutName
    home: str
    path: str
    files: int
    """The number of files restored."""
    was_archived: bool = True
    """False if there was nothing to do."""


def archive(session: Session, *, remove: bool | None = None) -> Archived:
    """Archive *session*; *remove* its files once the archive is verified.

    By default, they are removed from a flat store and stay everywhere else.
    """
    log = _main(session)
    refuse_if_running(session.id, session.logs, (log.home,))
    if log.layout != "flat" or log.is_kept:
        return _archive_by_copies(session, log, remove=bool(remove))
    if remove is False:
        raise UsageError(
            "in a flat store the archive takes the log's place",
            hint="turnlog keep makes a copy and leaves the log as it is",
        )
    refuse_unreadable(SessionFileIndex(log.home).unseen)
    if log.compression is not None and not is_flat_archive(str(log.path)):
        unpack_in_place(log.path)
    _keep_up(session, log)
    found = archive_flat(
        place_of(log.path),
        session.id,
        when_held=lambda: refuse_if_opened(session.id, session.logs, (log.home,)),
    )
    return Archived(
        id=session.id,
        layout="flat",
        home=os.fspath(log.home),
        files=found.files,
        size_bytes=found.size_bytes,
        packed_bytes=found.packed_bytes,
        ratio=_ratio(found.packed_bytes, found.size_bytes),
        records=found.main.records,
        sha256=found.main.digest,
        removed=True,
        was_archived=found.was_archived,
    )


def _keep_up(session: Session, log: LogFile) -> None:
    """Update the kept copy of a log, which replaces it if its home is lost."""
    name = os.path.relpath(log.path, log.home).replace(os.sep, "/")
    if name in Catalogue.of_home(log.home).current:
        keep((log.home,), sessions=frozenset({session.id}))


def _archive_by_copies(session: Session, log: LogFile, *, remove: bool) -> Archived:
    work = KeptArchiver(session, fact_of(session), remove=remove)
    fact = work.run()
    size_bytes, packed_bytes = work.sizes()
    return Archived(
        id=session.id,
        layout=log.layout,
        home=os.fspath(log.home),
        files=len(work.names),
        size_bytes=size_bytes,
        packed_bytes=packed_bytes,
        ratio=_ratio(packed_bytes, size_bytes),
        records=fact.records,
        sha256=fact.sha256,
        removed=work.is_removed,
        was_archived=work.was_archived,
    )


def unarchive(session: Session) -> Unarchived:
    """Restore what is gone of *session*, with the same bytes; it is no longer archived."""
    log = _main(session)
    fact = fact_of(session)
    files = _put_back(session, log)
    if fact is not None:
        journal().unarchive(session.id, fact.home)
    found = Session.find((log.home,), session.id)
    return Unarchived(
        id=session.id,
        layout=found.layout,
        home=os.fspath(log.home),
        path=str(found.path),
        files=files,
        was_archived=files > 0 or fact is not None,
    )


def _put_back(session: Session, log: LogFile) -> int:
    """Restore the files of a session; return how many were missing."""
    if any(each.is_kept for each in session.main_logs):
        copies = find_restorable(mirrors((log.home,)), session.id).everywhere
        done = [restore(each) for each in copies]
        note_restored(done)
        return sum(each.written for each in done)
    directory = place_of(log.path)
    is_archive = log.layout == "flat" and is_flat_archive(str(log.path))
    if is_archive or (log.layout == "flat" and is_archive_present(directory, session.id)):
        refuse_unreadable(SessionFileIndex(log.home).unseen)
        refuse_if_running(session.id, session.logs, (log.home,))
        return unarchive_flat(directory, session.id, log.path if is_archive else None)
    return unpack_in_place(log.path) if log.compression is not None else 0


def is_archived(session: Session) -> bool:
    """Return whether *session* is archived."""
    log = session.main_logs[-1] if session.main_logs else None
    if log is not None and log.layout == "flat" and not log.is_kept:
        return is_flat_archive(str(log.path))
    return fact_of(session) is not None


def fact_of(session: Session) -> ArchivedFact | None:
    """Return the journal's entry of an archived session; None if it is not, or has changed."""
    if not session.main_logs:
        return None
    log = session.main_logs[-1]
    return Archives.load().fact(session.id, log.home, str(log.path), own_bytes(session))


def _main(session: Session) -> LogFile:
    session.path  # noqa: B018 - An error if there is none.
    return session.main_logs[-1]


def _ratio(packed_bytes: int, size_bytes: int) -> float | None:
    return round(packed_bytes / size_bytes, 4) if size_bytes else None
