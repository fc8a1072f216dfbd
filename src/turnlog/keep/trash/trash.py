"""The trash: deleted files, complete until their grace period is over.

    $TURNLOG_HOME/trash/20260301T101112Z-5f0c…/
        entry.json            what it is, where it was, why and when deleted, until when it stays
        home/projects/…       the files, under their names in their home
        kept/projects/…       kept copies of them, under their names in the mirror
        conflicts/1/…         the same for files whose names collide

The entry is written and synced before the first file moves, and every file is complete in its old
place or in the trash at every moment. A deletion that fails is rolled back; after a kill, deleting
again completes it, and restoring restores whatever is there. Nothing is overwritten. A purge takes
an entry out of the trash in one step, then removes it. Deletions and purges are recorded in
turnlog's journal first.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, structs

from turnlog.errors import LogError, NotALog, NotFound, TurnlogError, UsageError
from turnlog.formats import Problem, looks_like_log
from turnlog.formats.flat.files import hold, is_missing, read_object, write_object
from turnlog.formats.home_files import is_home_file, log_in
from turnlog.formats.kept_copies import (
    CONFLICTS,
    KEPT_SUFFIX,
    Spellings,
    is_inner_name,
    kept_place,
    name_of_copy,
)
from turnlog.formats.walk import reason_of
from turnlog.keep.catalog import KeptFile
from turnlog.keep.copies.copy_file import sweep_beneath
from turnlog.keep.file_moves import Moved, Spot, is_same_file, locked, move
from turnlog.keep.session_files import Tree
from turnlog.sessions.journal import DELETED, PURGED, RESTORED, Journal
from turnlog.storage.atomic_files import Folder, Unreadable, failure


class TrashedFile(Struct, frozen=True, kw_only=True):
    """A deleted file: its tree, its name there, and its properties."""

    tree: Tree
    name: str
    size_bytes: int
    mode: int
    mtime_ns: int
    conflict: int = 0
    """The directory of ``conflicts`` in the entry that it is in; 0 if its name is unique."""


class TrashEntry(Struct, frozen=True, kw_only=True):
    """Files deleted together: usually a session of one home."""

    session: str
    others: list[str] = []
    """More sessions that have records in the logs among its files."""
    home: str
    title: str | None = None
    why: str
    deleted_at: datetime
    purge_after_at: datetime
    files: list[TrashedFile]
    catalogue: list[KeptFile] = []
    """The catalog's entries of the kept copies among them."""

    @property
    def sessions(self) -> list[str]:
        """The sessions deleted with it."""
        return [self.session, *self.others]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class TrashedSession(NamedTuple):
    """An entry of the trash and its name there."""

    name: str
    entry: TrashEntry

    def is_due(self, now: datetime) -> bool:
        """Whether its grace period is over; one that ends before it begins is invalid."""
        return self.entry.deleted_at <= self.entry.purge_after_at <= now


class FileToTrash(NamedTuple):
    """A file to delete."""

    tree: Tree
    name: str


def place_of(entry: TrashEntry, file: TrashedFile) -> Spot:
    """Return the original path of a file of an entry."""
    root = Path(entry.home) if file.tree == "home" else kept_place(entry.home)
    return Spot(root, file.name)


def described(home: str, doomed: FileToTrash) -> TrashedFile | None:
    """Return the properties of a file to delete; None if it does not exist."""
    root = Path(home) if doomed.tree == "home" else kept_place(home)
    spot = Spot(root, doomed.name)
    try:
        status = spot.status()
    except OSError as error:
        raise failure(error, spot.path) from None
    if status is None:
        return None
    if not stat.S_ISREG(status.st_mode):
        raise NotALog(
            f"{spot.path} is not a regular file",
            path=spot.path,
            hint="symbolic links and devices are not deleted with a session; remove it yourself",
        )
    return TrashedFile(
        tree=doomed.tree,
        name=doomed.name,
        size_bytes=status.st_size,
        mode=stat.S_IMODE(status.st_mode),
        mtime_ns=status.st_mtime_ns,
    )


GRACE: Final = timedelta(days=30)
ENTRY: Final = "entry.json"
_PURGING: Final = ".purging-"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_ID: Final = 80
_WHOLE: Final = "every file is whole"


class Trash:
    """The trash of turnlog's home at *own*."""

    def __init__(self, own: Path) -> None:
        self.own = own
        self.path = own / "trash"
        self.journal = Journal.in_root(own)

    # -- looking ----------------------------------------------------------------------------

    def entries(
        self, problems: list[Problem] | None = None, *, part: str = ""
    ) -> list[TrashedSession]:
        """Return the entries with *part* in their names, most recently deleted first.

        An unreadable entry is a problem and is never purged.
        """
        found = []
        for name in self._names():
            if name.startswith(".") or part not in name:
                continue
            entry = self._read(name)
            if isinstance(entry, TrashEntry):
                found.append(TrashedSession(name, entry))
            elif problems is not None and entry is not None:
                problems.append(Problem(self.path / name, entry.reason))
        found.sort(key=lambda each: (each.entry.deleted_at, each.name), reverse=True)
        return found

    def of_session(self, session_id: str) -> list[TrashedSession]:
        """Return the entries of one session, most recent first."""
        named = self.entries(part=f"-{_part_of_name(session_id)}")
        return [each for each in named if each.entry.session == session_id]

    def logs(self, trashed: TrashedSession) -> list[Path]:
        """Return the paths of an entry's main logs, or of their kept copies."""
        found = [
            (file.tree == "kept", self._new(trashed.name, file).path)
            for file in trashed.entry.files
            if (name := log_in(_home_name(file))) is not None and name[1].kind != "subagent"
        ]
        return [path for _, path in sorted(found)]

    def why_unfinished(self, trashed: TrashedSession) -> str | None:
        """Return why an entry cannot be purged; None if all its files are here, or gone.

        An interrupted deletion or restore left some of them in their old places. Those may be on a
        volume that is not mounted, or in an unreadable directory.
        """
        for file in trashed.entry.files:
            old = place_of(trashed.entry, file)
            try:
                if self._new(trashed.name, file).status() is not None:
                    continue
                if old.status() is not None:
                    return "some of it is still where it was: delete or restore it first"
                if not os.listdir(old.root.joinpath(*old.parts[:-1][:1])):
                    return f"some of it may be in {old.path.parent}, which is empty or not mounted"
            except FileNotFoundError:
                return f"some of it may be in {old.path.parent}, which is not there"
            except OSError as error:
                return f"some of it may be in {old.path.parent}: {reason_of(error)}"
        return None

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _read(self, name: str) -> TrashEntry | Unreadable | None:
        """Read an entry; None if a deletion was interrupted before it was written."""
        place = self.path / name
        if place.is_symlink() or not place.is_dir():
            return Unreadable("not an entry of the trash")
        found = read_object(place / ENTRY)
        if isinstance(found, Unreadable):
            try:
                is_nothing = is_missing(found) and not any(_files_beneath(place))
            except OSError as error:
                return Unreadable(reason_of(error))
            return None if is_nothing else Unreadable(f"{ENTRY}: {found.reason}")
        try:
            entry = msgspec.convert(found.fields, TrashEntry)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            return Unreadable(f"{ENTRY}: {error}")
        times = entry.deleted_at, entry.purge_after_at
        if not os.path.isabs(entry.home) or not _are_of_a_home(entry):
            return Unreadable(f"{ENTRY}: names of files that agents do not keep in a home")
        if any(each.tzinfo is None for each in times):
            return Unreadable(f"{ENTRY}: times without a time zone")
        return entry

    # -- deleting ---------------------------------------------------------------------------

    def discard(
        self,
        session_id: str,
        home: str,
        files: Iterable[FileToTrash],
        *,
        why: str,
        now: datetime,
        grace: timedelta = GRACE,
        title: str | None = None,
        catalogue: Iterable[KeptFile] = (),
        others: Iterable[str] = (),
        held: frozenset[str] = frozenset(),
    ) -> TrashedSession | None:
        """Move files of *home* to the trash, in order; return None if there are none left.

        *others* are sessions deleted with them, *held* the names of logs that the caller has
        locked.
        """
        with self._held():
            found = [file for each in files if (file := described(home, each)) is not None]
            if not found:
                return None
            spellings = Spellings()
            found = [
                structs.replace(file, conflict=spellings.place(f"{file.tree}/{file.name}"))
                for file in found
            ]
            entry = TrashEntry(
                session=session_id,
                others=list(others),
                home=home,
                title=title,
                why=why,
                deleted_at=now,
                purge_after_at=now + grace,
                files=found,
                catalogue=list(catalogue),
            )
            trashed = TrashedSession(self._begin(entry), entry)
            self._note(DELETED, trashed, at=now, why=why)
            try:
                self._move_all(trashed, found, held)
            except (TurnlogError, OSError) as error:
                self._take_back(trashed, error)
                raise
        return trashed

    def _take_back(self, trashed: TrashedSession, error: Exception) -> None:
        """Move files back after *error*; if that fails too, the entry stays and is correct.

        Copies here of files that could not be removed there, as in a read-only home, are deleted.
        """
        with contextlib.suppress(TurnlogError, OSError):
            for file in trashed.entry.files:
                move(self._new(trashed.name, file), place_of(trashed.entry, file), claim=True)
            self._note(RESTORED, trashed)
            self._remove(trashed.name)
            if isinstance(error, TurnlogError) and error.hint.startswith(_WHOLE):
                error.hint = "nothing was deleted; every file is where it was"

    def finish(self, trashed: TrashedSession, *, held: frozenset[str] = frozenset()) -> int:
        """Continue an interrupted deletion; return how many files were left.

        There are none if the entry was restored or purged since it was listed.
        """
        with self._held():
            if not self._has(trashed):
                return 0
            sweep_beneath(self.path / trashed.name)
            waiting = [file for file in trashed.entry.files if self._is_waiting(trashed, file)]
            if waiting:
                if trashed.name not in self.journal.trashed():
                    self._note(DELETED, trashed, why=trashed.entry.why)
                self._move_all(trashed, waiting, held)
        return len(waiting)

    def _is_waiting(self, trashed: TrashedSession, file: TrashedFile) -> bool:
        """Return whether a file of an entry is still, or also, in its old place."""
        old, new = place_of(trashed.entry, file), self._new(trashed.name, file)
        with interruption_message(old.path, "delete"):
            if old.status() is None:
                return False
            # If it is here already and another file there, that was created since.
            return new.status() is None or is_same_file(old, new)

    def _has(self, trashed: TrashedSession) -> bool:
        """Return whether a listed entry still exists; the trash is locked."""
        return isinstance(self._read(trashed.name), TrashEntry)

    def _begin(self, entry: TrashEntry) -> str:
        """Write the entry durably; return its name."""
        stamp = entry.deleted_at.strftime("%Y%m%dT%H%M%SZ")
        label = _part_of_name(entry.session)
        taken = set(self._names())
        name, number = f"{stamp}-{label}", 1
        while name in taken:
            number += 1
            name = f"{stamp}-{label}-{number}"
        try:
            Folder.beneath(self.path, (name,)).close()
        except OSError as error:
            raise failure(error, self.path / name) from None
        write_object(self.path / name / ENTRY, msgspec.to_builtins(entry), None)
        return name

    def _move_all(
        self, trashed: TrashedSession, files: Iterable[TrashedFile], held: frozenset[str]
    ) -> None:
        for file in files:
            old = place_of(trashed.entry, file)
            is_free = looks_like_log(old.parts[-1]) and file.name not in held
            with (
                interruption_message(old.path, "delete"),
                locked(old) if is_free else contextlib.nullcontext(),
            ):
                move(old, self._new(trashed.name, file))

    # -- restoring --------------------------------------------------------------------------

    def restore(self, trashed: TrashedSession, *, settle: Callable[[], None] = lambda: None) -> int:
        """Restore the files of an entry; return how many there were.

        Refuses, before anything is moved, if a different file exists at one of the paths. *settle*
        is called when all are back, before the entry is removed. The entry stays if it was used by
        another deletion meanwhile.
        """
        with self._held():
            if not self._has(trashed):
                raise NotFound(
                    f"{trashed.name} is not in the trash any more",
                    hint="list the trash",
                    code="trash-empty",
                )
            pairs = [
                (self._new(trashed.name, file), place_of(trashed.entry, file))
                for file in trashed.entry.files
            ]
            for here, there in pairs:
                with interruption_message(there.path, "restore"):
                    if here.status() and there.status() and not is_same_file(here, there):
                        raise _taken(there.path)
            back = 0
            for here, there in pairs:
                with interruption_message(there.path, "restore"):
                    back += move(here, there, claim=True) is Moved.MOVED
        settle()  # It holds other locks.
        with self._held(), interruption_message(self.path / trashed.name, "restore"):
            if self._has(trashed) and not any(here.status() for here, _ in pairs):
                self._note(RESTORED, trashed)
                self._remove(trashed.name)
        return back

    # -- purging ----------------------------------------------------------------------------

    def purge(self, trashed: TrashedSession) -> None:
        """Remove an entry permanently."""
        with self._held():
            if self._read(trashed.name) is None:
                return
            self._note(PURGED, trashed)
            self._remove(trashed.name)

    def tidy(self) -> None:
        """Finish interrupted purges, and remove entries that never got any files."""
        with self._held():
            for name in self._names():
                if name.startswith(_PURGING) or (
                    not name.startswith(".") and self._read(name) is None
                ):
                    self._remove(name)

    def _remove(self, name: str) -> None:
        """Remove an entry from the trash in one step, then delete it."""
        going = name if name.startswith(_PURGING) else _PURGING + name
        with interruption_message(self.path / name, "purge"):
            if going != name:
                with Folder.beneath(self.path, (), make=False) as trash:
                    trash.move_into(trash, name, going)
                    trash.sync()
            shutil.rmtree(self.path / going)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Lock the trash against threads and processes; create it if missing."""
        try:
            Folder.beneath(self.own, ("trash",)).close()
        except OSError as error:
            raise failure(error, self.path) from None
        with hold(self.path):
            yield

    def _new(self, name: str, file: TrashedFile) -> Spot:
        apart = f"{CONFLICTS}/{file.conflict}/" if file.conflict else ""
        return Spot(self.path, f"{name}/{apart}{file.tree}/{file.name}")

    def _note(
        self, event: str, trashed: TrashedSession, *, at: datetime | None = None, **more: Any
    ) -> None:
        entry = trashed.entry
        for session_id in entry.sessions:
            self.journal.note(
                event,
                session_id,
                at=at,
                home=entry.home,
                trash=trashed.name,
                files=len(entry.files),
                sizeBytes=entry.size_bytes,
                **more,
            )


def _are_of_a_home(entry: TrashEntry) -> bool:
    """Return whether all files of an entry have valid names of files in a home, or of copies.

    The entry is not trusted, and no other file is ever written to a home.
    """
    names = {file.name for file in entry.files if file.tree == "home"}
    copies = {file.name for file in entry.files if file.tree == "kept"}
    kept = {name_of_copy(each) for each in copies} | {each.name for each in entry.catalogue}
    return (
        all(is_home_file(each, names) for each in names)
        and all(each.endswith(KEPT_SUFFIX) and is_inner_name(each) for each in copies)
        and all(is_home_file(each, kept) for each in kept)
    )


def _home_name(file: TrashedFile) -> str:
    return name_of_copy(file.name) if file.tree == "kept" else file.name


def _part_of_name(session_id: str) -> str:
    return _UNSAFE.sub("-", session_id)[:_LONGEST_ID]


def _files_beneath(place: Path) -> Iterator[str]:
    """Return the files of an entry; raise OSError if a directory cannot be read."""

    def fail(error: OSError) -> None:
        raise error

    for _, _, files in os.walk(place, onerror=fail):
        yield from (each for each in files if not each.startswith(".turnlog-"))


def _taken(path: Path) -> UsageError:
    return UsageError(
        f"a different file exists at {path}",
        hint="move it away first; nothing is overwritten, and the rest stays in the trash",
    )


@contextmanager
def interruption_message(path: Path, deed: str) -> Iterator[None]:
    """Convert an OSError that stops an operation halfway; the hint says that nothing is lost."""
    try:
        yield
    except LogError:
        raise
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        failed = failure(error, path)
        failed.hint = f"{_WHOLE}, here or in the trash; {deed} again to finish"
        raise failed from None
