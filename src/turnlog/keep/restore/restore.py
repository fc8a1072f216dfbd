"""Restore a session and all its files to where its agent finds them.

First everything is checked: each copy is read and compared with its digests, each target with the
existing file. An equal file is left alone, and so is a log that has grown beyond its copy; one that
differs stops the restore before a byte is written. Files that several sessions share (plans,
prompts, caches of a flat store) are left as they are and reported. Then each file is written to a
temporary file, synced, renamed if the name is still free, and read back; the main log comes last.
Repeating an interrupted restore completes it.

Restored files get the current mtime, because Claude Code deletes by mtime at its next start. They
are private (0600 in directories of 0700), nothing is overwritten, and no symbolic link is followed
inside the home. A log that lost records is replaced only on request, under its lock; it stays as
``NAME.replaced-TIME``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from turnlog.errors import NotFound, StorageFull, TurnlogError, UsageError
from turnlog.formats import Home
from turnlog.formats.flat.registry import note_log
from turnlog.formats.home_files import is_in_registry, log_in, project_of
from turnlog.formats.log_file import META
from turnlog.keep.activity import refuse_if_opened
from turnlog.keep.catalog import note_injured
from turnlog.keep.copies.keep import keep
from turnlog.keep.copies.reader import Copy, readable_parts
from turnlog.keep.copies.shortfall import Shortfalls, fullest
from turnlog.keep.restore.relocate import Move, is_windows, new_project, project_in, split
from turnlog.keep.restore.restorable import Mirror, Restorable
from turnlog.keep.restore.restore_files import (
    Advance,
    FileRestore,
    RestoredFile,
    RestoreOutcome,
    SessionRestore,
    restore_message,
)

__all__ = [
    "Refused",
    "RestoreOutcome",
    "Restored",
    "RestoredFile",
    "restore",
    "restore_each",
    "restore_rest",
    "select_copies",
]


class Restored(Struct, kw_only=True):
    """The result of restoring a session."""

    session: str
    home: str
    project: str | None
    """The directory to resume it in."""
    path: str | None
    """Its main log."""
    files: list[RestoredFile] = field(default_factory=list)
    moved: int = 0
    """Records whose working directory was changed."""
    elsewhere: int = 0
    """Records from outside the project, which keep their directory."""
    lacking: int = 0
    """Records in an earlier copy that its logs lack: replacing the logs helps."""

    @property
    def written(self) -> int:
        """The number of files written."""
        return sum(
            file.outcome in {RestoreOutcome.WRITTEN, RestoreOutcome.REPLACED} for file in self.files
        )


class Refused(Struct, kw_only=True):
    """A session that was not restored, and why."""

    session: str
    reason: str
    hint: str


def select_copies(
    copies: Sequence[Restorable],
    *,
    project: object = None,
    generation: int | None = None,
    only: str | None = None,
) -> list[Restorable]:
    """Return those of *copies* to restore: all, unless other arguments select some.

    Only the first copy of each session can move to *project*.
    """
    found = list(copies)
    if only is not None:
        found = [each for each in copies if only in (*each.names, *each.plans)][:1]
    elif generation is not None:
        found = [
            session
            for session in copies
            if any(
                copy.generation == generation
                for name in session.mains
                for copy in session.mirror.copies[name]
            )
        ]
    found = found or list(copies[:1])
    if project is not None:
        found = list({each.id: each for each in reversed(found)}.values())[::-1]
    return found


def restore(
    session: Restorable,
    *,
    to: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    generation: int | None = None,
    only: str | None = None,
    partial: bool = False,
    replace: bool = False,
    advance: Advance | None = None,
) -> Restored:
    """Restore *session*: to the home *to*, if it is not its own, and to *project*.

    *generation* selects an earlier version of its main log, with its files as of then. *only* names
    one file; then it is that file's generation. With *partial*, damaged copies are left out, and
    what can be read of a log is restored.

    With *replace*, a log that lacks records of its copy is renamed and replaced by the copy;
    records appended to the injured log since are added. Of several generations, the newest that
    lacks no record of an earlier one is used. Any other existing file is left alone.
    """
    home = Path(os.path.abspath(os.path.expanduser(session.mirror.home if to is None else to)))
    if session.archive is not None and os.path.realpath(home) == session.mirror.home:
        raise UsageError(
            f"session {session.id} is not gone, but archived: {session.archive}",
            hint="unarchive it, or restore it into another home",
            code="session-archived",
            about=session.id,
        )
    chosen = _chosen(session, generation, only)
    if replace:
        refuse_if_opened(session.id, (), (Home(home),))
        if generation is None:
            copies = session.mirror.copies
            chosen = {n: fullest(copies[n]) if _is_log(n) else chosen[n] for n in chosen}
    places = NewPlaces(session, chosen, project)
    parts = [
        FileRestore(
            copy,
            places.name(name),
            places.of_log(name),
            is_main=name in session.mains,
            # A flat store's metadata can be rebuilt from the log.
            is_shared=name not in session.names
            or (name.endswith(META) and is_in_registry(name))
            or (replace and not _is_log(name)),
            may_replace=replace and _is_log(name),
        )
        for name, copy in chosen.items()
    ]
    work = SessionRestore(home, parts, partial=partial, advance=advance)
    work.look(f"session {session.id}")
    work.write()
    injured = {part.copy.name: part.copy.generation for part in work.parts if part.aside}
    if injured and os.path.realpath(home) == session.mirror.home:
        note_injured(session.mirror.place, injured)
    main = next((part.target for part in reversed(work.parts) if part.is_main), "")
    path = home.joinpath(*main.split("/")) if main else None
    if path is not None and work.wrote_main and is_in_registry(main):
        note_log(path, session.id)
    return Restored(
        session=session.id,
        home=str(home),
        project=places.project or session.project,
        path=None if path is None else str(path),
        files=[restore_message(part) for part in work.parts],
        moved=sum(part.moved for part in work.parts),
        elsewhere=sum(part.elsewhere for part in work.parts),
        lacking=_lacking(home, work.parts) if to is None else 0,
    )


def _lacking(home: Path, parts: Iterable[FileRestore]) -> int:
    """Count the records that the existing logs lack."""
    compare = Shortfalls()
    logs = (
        part for part in parts if _is_log(part.target) and part.outcome is not RestoreOutcome.BROKEN
    )
    found = (compare.in_home(Home(home), part.target) for part in logs)
    return sum(each.records for each in found if each is not None)


def note_restored(done: Iterable[Restored]) -> None:
    """Record that files restored to their own home match their copies.

    Their mtime is new, so without this they would look like changed files.
    """
    homes: dict[str, set[str | None]] = {}
    for each in done:
        if each.written:
            homes.setdefault(each.home, set()).add(each.session)
    for home, sessions in homes.items():
        with suppress(TurnlogError, OSError):  # The next run of keep notices it as well.
            keep((Home(Path(home)),), sessions=frozenset(sessions))


def restore_rest(
    mirror: Mirror,
    *,
    to: str | os.PathLike[str] | None = None,
    advance: Advance | None = None,
) -> list[RestoredFile]:
    """Restore files that belong to no single session: prompts, plans, leftovers.

    Existing files are left alone, and damaged copies are skipped.
    """
    home = Path(os.path.abspath(os.path.expanduser(mirror.home if to is None else to)))
    parts = [FileRestore(mirror.newest(name), name, is_shared=True) for name in mirror.rest]
    work = SessionRestore(home, parts, partial=True, advance=advance)
    work.look("what is kept")
    work.write()
    return [restore_message(part) for part in work.parts]


def restore_each(
    sessions: Iterable[Restorable],
    *,
    to: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | None = None,
    generation: int | None = None,
    partial: bool = False,
    replace: bool = False,
    though_moved: bool = False,
    advance: Advance | None = None,
    hint_of: Callable[[TurnlogError], str] | None = None,
) -> Iterator[Restored | Refused]:
    """Restore each of *sessions*; one that fails does not stop the others.

    A session that exists in its home, in a project to which it was moved, would be duplicated; it
    is refused unless *though_moved* is true.
    """
    for session in sessions:
        is_moved = session.moved_to is not None and session.archive is None
        if to is None and project is None and is_moved and not though_moved:
            yield Refused(
                session=session.id,
                reason=f"it is not gone: it is in {session.moved_to}",
                hint=f"turnlog restore {session.id} restores what is kept to its old place",
            )
            continue
        try:
            yield restore(
                session,
                to=to,
                project=project,
                generation=generation,
                partial=partial,
                replace=replace,
                advance=advance,
            )
        except StorageFull:
            raise  # There is no room for the others either.
        except TurnlogError as error:
            yield Refused(
                session=session.id,
                reason=error.message,
                hint=hint_of(error) if hint_of else error.hint,
            )


def _chosen(session: Restorable, generation: int | None, only: str | None) -> dict[str, Copy]:
    """Choose a copy of each file: the newest, or the one kept with an earlier main log."""
    copies = session.mirror.copies
    names = [*session.names, *(name for name in session.plans if name not in session.names)]
    if only is not None:
        if only not in names:
            raise NotFound(
                f"session {session.id} has no part called {only!r}",
                hint="list its parts",
                code="no-such-part",
                about=session.id,
            )
        return {only: _of_generation(copies[only], generation, session)}
    if generation is None:
        return {name: copies[name][-1] for name in names}
    mains = [copy for name in session.mains for copy in copies[name]]
    wanted = _of_generation(mains, generation, session)
    chosen = {name: _as_of(copies[name], wanted) for name in names}
    chosen |= {copy.name: copy for copy in mains if copy.generation == generation}
    return chosen


def _of_generation(copies: list[Copy], generation: int | None, session: Restorable) -> Copy:
    if generation is None:
        return copies[-1]
    for copy in copies:
        if copy.generation == generation:
            return copy
    there = ", ".join(str(number) for number in sorted({each.generation for each in copies}))
    raise NotFound(
        f"session {session.id} has no generation {generation} of that",
        hint=f"there are: {there}; turnlog restore --session {session.id} shows more",
    )


def _as_of(copies: list[Copy], when: Copy) -> Copy:
    """Return the version of a file when *when* was last kept."""
    if when.known is None:
        return copies[-1]
    for copy in copies:
        if copy.known is not None and copy.known.kept_at >= when.known.kept_at:
            return copy
    return copies[-1]


def _is_log(name: str) -> bool:
    """Return whether the file *name* is a log that can be appended to."""
    log = log_in(name)
    return log is not None and log[1].compression is None


def _key(name: str, project: str, *, is_here: bool) -> str:
    """Return the name of a project's directory in the format of the log *name*."""
    log = log_in(name)
    assert log is not None
    return log[0].project_name(project, is_here=is_here)


class NewPlaces:
    """Where the files of *session* go if it moves to *project*; None leaves them in place."""

    def __init__(
        self,
        session: Restorable,
        chosen: dict[str, Copy],
        project: str | os.PathLike[str] | None,
    ) -> None:
        self._chosen = chosen
        self._keys: dict[str | None, str] = {}
        self.project: str | None = None if project is None else new_project(project)
        self.move: Move | None = None
        if self.project is None:
            return
        if any(name.endswith((".gz", ".zst")) for name in session.mains):
            raise UsageError(
                f"session {session.id} is archived, and archives are never changed",
                hint="restore it without a project, unarchive it, then move it",
                code="archive-moved",
            )
        for name in chosen:
            if (log := log_in(name)) is not None:
                log[0].refuse_rewriting(name)
        old = next((found for name in session.mains if (found := self._project(name))), None)
        self.move = Move(old, self.project) if old is not None else None
        if session.key is not None:
            is_here = not is_windows(self.project)
            self._keys[session.key] = _key(session.mains[0], self.project, is_here=is_here)

    def name(self, name: str) -> str:
        """Return the new name of the file *name*."""
        key = project_of(name)
        if self.project is None or key is None:
            return name
        if key not in self._keys:
            self._keys[key] = self._moved_key(key)
        parts = name.split("/")
        return "/".join((parts[0], self._keys[key], *parts[2:]))

    def of_log(self, name: str) -> Move | None:
        """Return how to relocate the lines of the file *name*; None if not a log, or it stays."""
        return self.move if _is_log(name) else None

    def _moved_key(self, key: str) -> str:
        """Return the new name of another project's directory with files of the session."""
        logs = [name for name in self._chosen if project_of(name) == key and log_in(name)]
        project = next((found for name in logs if (found := self._project(name))), None)
        moved = self.move.of(project) if self.move and project else project
        if moved is None or moved == project:
            return key
        return _key(logs[0], moved, is_here=False)

    def _project(self, name: str) -> str | None:
        """Return the directory in which the log *name* was written."""
        # Damage is reported when all of it is read.
        chunks = readable_parts(self._chosen[name].path)
        return project_in((line for line, _ in split(chunks)), project_of(name))
