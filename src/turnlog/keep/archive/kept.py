"""Archive by kept copies: update and verify them, then record it in the journal.

    lock the logs ─► copy ─► compare each copy with its file ─► journal ─► remove the log, the rest

While the logs are locked, the copies are made, read back and compared with their files, byte for
byte and record for record. A damaged or outdated copy is made again while the file exists.

If the originals are removed, the main log goes first: the agent no longer finds an incomplete
session, turnlog reads the copies, and archiving again removes what a kill has left.
"""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from turnlog.errors import (
    BrokenCopy,
    LogError,
    NotALog,
    NotFound,
    UsageError,
    WriteFailed,
)
from turnlog.formats import Home
from turnlog.formats.home_files import OF_SESSIONS
from turnlog.formats.kept_copies import kept_place, name_of_copy, read_copy_name
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.archive.archives import journal
from turnlog.keep.catalog import Catalogue
from turnlog.keep.copies.compare import (
    Comparison,
    compare_kept,
    content_of,
    known_copy,
    read_back,
    remove_compared,
    typed,
)
from turnlog.keep.copies.keep import LOCK_TIMEOUT, KeepRun, keep, turn
from turnlog.keep.copies.reader import content
from turnlog.keep.file_moves import Spot, locked, remove_empty
from turnlog.keep.running import refuse_if_opened
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.delete import refuse_if_shared
from turnlog.sessions.journal import ArchivedFact
from turnlog.sessions.session import Session
from turnlog.storage.sources import open_source

# A flat store's files with the same id are another session's.
_NOT_FLAT: Final = frozenset({"projects", "todos", *OF_SESSIONS})


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
                self._look_again()
                with turn(self._place, LOCK_TIMEOUT), typed(self._place):
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
        is_flat = self._session.layout == "flat"
        return [
            each
            for each in found
            if (each.tree == "home" or read_copy_name(each.name).generation is None)
            and (is_flat or each.home_name.partition("/")[0] in _NOT_FLAT)
        ]

    def _look_again(self) -> None:
        self.__dict__.pop("_belongings", None)

    def _refuse_to_remove(self) -> None:
        session = self._session
        refuse_unreadable(self._belongings.unseen)
        refuse_if_shared(session.id, session.logs)
        own = [log for log in session.logs if log.kind == "session" and not log.is_kept]
        mains = sorted({str(log.path) for log in own if log.home == self._home})
        if len(mains) > 1:
            raise UsageError(
                f"session {session.id} lies in several places: {', '.join(mains)}",
                hint="remove the copies that you do not want first",
            )
        for log in session.main_logs:
            if log.compression is not None and not log.is_kept:
                raise UsageError(
                    f"{log.path} is compressed already, where it lies",
                    hint=f"turnlog unarchive {session.id} unpacks it; then archive it",
                )
        left = self._belongings.left_alone(session.id)
        if left:
            raise NotALog(
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
        doubts: dict[str, BrokenCopy] = {}
        for good in files:
            try:
                proofs[good.name] = self._prove(good, catalogue, kept)
            except BrokenCopy as error:
                doubts[good.name] = error
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
            for good in sorted(files, key=lambda each: not each.is_main_log):
                self._remove_original(good, proofs[good.name])
        return fact

    def _remove_original(self, good: SessionFile, proof: Comparison) -> None:
        try:
            remove_compared(Spot(self._root, good.name), proof)
        except OSError as error:
            if isinstance(error, LogError):
                raise
            raise WriteFailed(
                f"{good.path} cannot be removed: {(error.strerror or str(error)).lower()}",
                path=good.path,
                hint="the session is archived; archive it again to remove what is left",
            ) from None

    def _prove(self, good: SessionFile, catalogue: Catalogue, kept: KeepRun) -> Comparison:
        proof = compare_kept(good, self._home, catalogue)
        if proof is None:
            why = next((each.reason for each in kept.problems if str(each.path) == good.path), "")
            raise WriteFailed(
                f"no copy of {good.path} could be made: {why or 'it came just now'}",
                path=good.path,
                hint="try again; nothing was removed",
            )
        return proof

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
        is_shared = self._session.layout == "dated"
        return ArchivedFact(
            home=os.fspath(self._root),
            size_bytes=own_bytes(self._session) if is_shared else size_bytes,
            packed_bytes=packed_bytes,
            compression_ratio=round(packed_bytes / size_bytes, 4) if size_bytes else None,
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
        raise NotFound(
            f"the log of session {session.id} was moved away just now", hint="look for it again"
        ) from None


def _name_in_home(home: Home, path: Path) -> str:
    """Return the name in its home of a log, or of a kept copy's file."""
    place, lies = kept_place(home), Path(os.path.abspath(path))
    if lies.is_relative_to(place):
        return name_of_copy(lies.relative_to(place).as_posix())
    return lies.relative_to(os.path.abspath(home)).as_posix()
