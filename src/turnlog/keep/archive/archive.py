"""Archive a session: compress and verify all its files, and drop it from plain lists.

A flat store has archives of its own, which replace the log (``flat``). In the other layouts the
kept copies are the archive, and the originals stay unless their removal is requested:

    lock the logs ─► copy ─► compare each copy with its file ─► journal ─► remove the log, the rest

While the logs are locked, the copies are made, read back and compared with their files, byte for
byte and record for record. A damaged or outdated copy is made again while the file exists. Of the
originals the main log is removed first: the agent no longer finds an incomplete session, and
archiving again removes what a kill has left.

A running session is refused, and archiving twice is fine. Unarchiving restores whatever is gone,
with the same bytes, the main log last. Kept copies stay.
"""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from turnlog import errors
from turnlog.formats import Home, LayoutName, LogFile
from turnlog.formats.flat.format import is_flat_archive
from turnlog.formats.home_files import is_in_registry
from turnlog.formats.kept_copies import kept_place, name_of_copy, read_copy_name
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.activity import refuse_if_opened, refuse_if_running
from turnlog.keep.archive.archives import Archives, journal
from turnlog.keep.archive.flat import (
    archive_flat,
    is_archive_present,
    place_of,
    ratio,
    unarchive_flat,
    unpack_in_place,
)
from turnlog.keep.catalog import Catalogue, lock_mirror
from turnlog.keep.copies.keep import KeepRun, keep
from turnlog.keep.copies.reader import (
    Comparison,
    compare_kept,
    content,
    content_of,
    known_copy,
    read_back,
    remove_compared,
    typed,
)
from turnlog.keep.file_moves import Spot, locked, remove_empty
from turnlog.keep.restore.restorable import find_restorable, mirrors
from turnlog.keep.restore.restore import note_restored, restore
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.delete import refuse_if_shared
from turnlog.sessions.journal import ArchivedFact
from turnlog.sessions.session import Session
from turnlog.storage.sources import open_source


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
    log = session.main_log
    refuse_if_running(session.id, session.logs, (log.home,))
    if not log.format.has_registry or log.is_kept:
        return _archive_by_copies(session, log, remove=bool(remove))
    if remove is False:
        raise errors.UsageError(
            "in a flat store the archive replaces the log",
            hint="keep a copy, which leaves the log as it is",
            code="unarchivable",
        )
    refuse_unreadable(SessionFileIndex(log.home).unseen)
    if log.compression is not None and not is_flat_archive(log.path):
        unpack_in_place(log.path)
    if _name_in_home(log.home, log.path) in Catalogue.of_home(log.home).current:
        # The kept copy replaces the log if its home is lost.
        keep((log.home,), sessions=frozenset({session.id}))
    found = archive_flat(
        place_of(log.path),
        session.id,
        when_held=lambda: refuse_if_opened(session.id, session.logs, (log.home,)),
    )
    return Archived(
        id=session.id,
        layout=log.layout,
        home=os.fspath(log.home),
        files=found.files,
        size_bytes=found.size_bytes,
        packed_bytes=found.packed_bytes,
        ratio=ratio(found.packed_bytes, found.size_bytes),
        records=found.main.records,
        sha256=found.main.digest,
        removed=True,
        was_archived=found.was_archived,
    )


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
        ratio=ratio(packed_bytes, size_bytes),
        records=fact.records,
        sha256=fact.sha256,
        removed=work.is_removed,
        was_archived=work.was_archived,
    )


def unarchive(session: Session) -> Unarchived:
    """Restore what is gone of *session*, with the same bytes; it is no longer archived."""
    log = session.main_log
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
    is_flat = log.format.has_registry
    is_archive = is_flat and is_flat_archive(log.path)
    if is_archive or (is_flat and is_archive_present(directory, session.id)):
        refuse_unreadable(SessionFileIndex(log.home).unseen)
        refuse_if_running(session.id, session.logs, (log.home,))
        return unarchive_flat(directory, session.id, log.path if is_archive else None)
    return unpack_in_place(log.path) if log.compression is not None else 0


def is_archived(session: Session) -> bool:
    """Return whether *session* is archived."""
    log = session.main_logs[-1] if session.main_logs else None
    if log is not None and log.format.has_registry and not log.is_kept:
        return is_flat_archive(log.path)
    return fact_of(session) is not None


def has_archive(session: Session) -> bool:
    """Return whether *session* is archived, or its archive was left by an interrupted restore."""
    if is_archived(session):
        return True
    log = session.main_logs[-1] if session.main_logs else None
    if log is None or log.is_kept or not log.format.has_registry:
        return False
    return is_archive_present(place_of(log.path), session.id)


def fact_of(session: Session) -> ArchivedFact | None:
    """Return the journal's entry of an archived session; None if it is not, or has changed."""
    if not session.main_logs:
        return None
    log = session.main_logs[-1]
    return Archives.load().fact(session.id, log.home, str(log.path), own_bytes(session))


class KeptArchiver:
    """One session to be archived; *fact* is its entry if it was archived before."""

    def __init__(self, session: Session, fact: ArchivedFact | None, *, remove: bool) -> None:
        self._session = session
        self._fact = fact
        self._home = session.main_logs[-1].home
        self._root = Path(os.path.realpath(self._home))
        self._place = kept_place(self._home)
        # An interrupted removal is always completed.
        is_gone = any(log.is_kept for log in session.main_logs)
        self._remove = remove or (fact is not None and fact.removed and is_gone)
        self.was_archived = False
        """Whether there was nothing left to do."""
        self.is_removed = False
        """Whether nothing of it is left in its home."""

    def run(self) -> ArchivedFact:
        """Archive it; return the journal's entry."""
        if self._remove:
            self._refuse_to_remove()
        if self._fact is not None and not (self._remove and self.files_in_home):
            self.was_archived, self.is_removed = True, not self.files_in_home
            if self.is_removed:
                self._take_apart()
            return self._fact
        with contextlib.ExitStack() as held:
            for log in self._session.logs:
                if not log.is_kept:
                    held.enter_context(locked(Spot(log.path.parent, log.path.name)))
            for is_last in (False, True):
                kept = keep((self._home,), sessions=frozenset({self._session.id, None}))
                vars(self).pop("_belongings", None)  # There are new copies.
                with lock_mirror(self._place), typed(self._place):
                    found = self._proved(kept, is_last=is_last)
                    if found is not None:
                        break
        assert found is not None
        if self._remove:
            self._take_apart()
            self.is_removed = True
        return found

    def _take_apart(self) -> None:
        """Remove the session's own directories if they are empty."""
        for directory in self._belongings.directories(self._session.id):
            remove_empty(self._root, directory)

    def sizes(self) -> tuple[int, int]:
        """Return the size of its files, and of their copies."""
        catalogue = Catalogue.load(self._place)
        kept = [known_copy(catalogue, name)[1] for name in self.names]
        return sum(each.size_bytes for each in kept), sum(each.packed_bytes for each in kept)

    @property
    def files_in_home(self) -> list[SessionFile]:
        """The session's files in its home."""
        return [each for each in self._all if each.tree == "home"]

    @property
    def names(self) -> set[str]:
        """The names in its home of all its files with copies, present or gone."""
        return {each.home_name for each in self._all if each.tree == "kept"}

    # -- what belongs to it -------------------------------------------------------------------

    @cached_property
    def _belongings(self) -> SessionFileIndex:
        return SessionFileIndex(self._home)

    @property
    def _all(self) -> list[SessionFile]:
        mains = self._session.main_logs
        days = {_name_in_home(self._home, log.path) for log in mains if log.kind == "day"}
        found = self._belongings.of(self._session.id) + self._belongings.days(days)
        is_flat = self._session.format.has_registry
        return [
            each
            for each in found
            if (each.tree == "home" or read_copy_name(each.name).generation is None)
            # A flat store's files with the same id are another session's.
            and (is_flat or not is_in_registry(each.home_name))
        ]

    def _refuse_to_remove(self) -> None:
        session = self._session
        refuse_unreadable(self._belongings.unseen)
        refuse_if_shared(session.id, session.logs)
        self._belongings.refuse_if_continued(session.id)
        own = [log for log in session.logs if log.kind == "session" and not log.is_kept]
        mains = sorted({str(log.path) for log in own if log.home == self._home})
        if len(mains) > 1:
            raise errors.UsageError(
                f"session {session.id} is in several places: {', '.join(mains)}",
                hint="remove the copies that you do not want first",
            )
        for log in session.main_logs:
            if log.compression is not None and not log.is_kept:
                raise errors.UsageError(
                    f"{log.path} is compressed already",
                    hint="unarchive it, then archive it again",
                    code="archived-otherwise",
                    about=session.id,
                )
        left = self._belongings.left_alone(session.id)
        if left:
            raise errors.NotALog(
                f"{left[0].path} cannot be removed: {left[0].reason}",
                path=left[0].path,
                hint="without its removal the session can be archived all the same",
            )

    # -- the proof ----------------------------------------------------------------------------

    def _proved(self, kept: KeepRun, *, is_last: bool) -> ArchivedFact | None:
        """Verify every copy, record it, remove the originals; None if it must be tried again."""
        catalogue = Catalogue.load(self._place)
        files = self.files_in_home
        proofs: dict[str, Comparison] = {}
        doubts: dict[str, errors.BrokenCopy] = {}
        for file in files:
            try:
                proof = compare_kept(file, self._home, catalogue)
            except errors.BrokenCopy as error:
                doubts[file.name] = error
                continue
            if proof is None:
                reasons = (each.reason for each in kept.problems if str(each.path) == file.path)
                raise errors.WriteFailed(
                    f"no copy of {file.path} could be made: {next(reasons, 'it is new')}",
                    path=file.path,
                    hint="try again; nothing was removed",
                )
            proofs[file.name] = proof
        if doubts and is_last:
            raise next(iter(doubts.values()))
        if doubts:
            catalogue.doubt(doubts)
            catalogue.save()
            return None
        for name in self.names - proofs.keys():
            read_back(catalogue, name)  # The source is gone: the copy is all there is.
        fact = self._new_fact(catalogue, proofs)
        # As late as possible: a program that does not lock may have started just now.
        refuse_if_opened(self._session.id, self._session.logs, (self._home,))
        journal().archive(self._session.id, fact)
        if self._remove:
            for file in sorted(files, key=lambda each: not each.is_main_log):
                self._remove_original(file, proofs[file.name])
        return fact

    def _remove_original(self, file: SessionFile, proof: Comparison) -> None:
        try:
            remove_compared(Spot(self._root, file.name), proof)
        except errors.LogError:
            raise
        except OSError as error:
            raise errors.WriteFailed(
                f"{file.path} cannot be removed: {(error.strerror or str(error)).lower()}",
                path=file.path,
                hint="the session is archived; archive it again to remove what is left",
            ) from None

    def _new_fact(self, catalogue: Catalogue, proofs: dict[str, Comparison]) -> ArchivedFact:
        digest, size_bytes, packed_bytes, records = sha256(), 0, 0, 0
        for log in self._session.main_logs:
            name = _name_in_home(self._home, log.path)
            copy, known = known_copy(catalogue, name)
            size_bytes += known.size_bytes
            packed_bytes += known.packed_bytes
            for piece in content(copy, known):
                digest.update(piece)
            if name in proofs:
                records += proofs[name].content.records
            else:
                records += content_of(open_source(copy.path), name.rpartition("/")[2]).records
        is_shared = self._session.format.shares_logs
        return ArchivedFact(
            home=os.fspath(self._root),
            size_bytes=own_bytes(self._session) if is_shared else size_bytes,
            packed_bytes=packed_bytes,
            compression_ratio=ratio(packed_bytes, size_bytes),
            sha256=digest.hexdigest(),
            records=sum(1 for _ in self._session.items()) if is_shared else records,
            removed=self._remove,
        )


def own_bytes(session: Session) -> int:
    """Return the size of the session's own records in its main logs, as in lists.

    A missing log counts 0.
    """
    log = session.main_logs[-1]
    if log.kind == "day":
        return sum(item.length + 1 for item in session.items())
    try:
        return 0 if log.is_kept else os.stat(log.path).st_size
    except FileNotFoundError:
        raise errors.NotFound(
            f"the log of session {session.id} was moved away just now", hint="look for it again"
        ) from None


def _name_in_home(home: Home, path: Path) -> str:
    """Return the name in its home of a log, or of a kept copy's file."""
    place, whole = kept_place(home), Path(os.path.abspath(path))
    if whole.is_relative_to(place):
        return name_of_copy(whole.relative_to(place).as_posix())
    return whole.relative_to(os.path.abspath(home)).as_posix()
