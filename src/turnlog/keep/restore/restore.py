"""Restoring: a session and all its parts go back to where its agent finds them.

First everything is looked at: each copy is read back and compared with its digests, each place with
what stands there. A file that is the same is left, and so is a log that has grown beyond its copy;
one that differs ends the matter before a byte is written. Only what several sessions share (plans,
prompts, caches of a flat store) is left as it is and reported. Then the parts are written, each to
a temporary file that is synced, given its name if that is still free, and read back; the main log
comes last, so that a session is there only when all of it is. Killed anywhere, it is finished by
doing it again.

A restored file is as old as its restoring. Claude Code deletes by the time of the last change, and
what came back with its old time would be gone at the next start. Files are private (0600 in
directories of 0700), nothing is overwritten, and no symbolic link is followed inside the home.

A log that lost records is replaced only if asked for, under its lock; it stays beside the new one
as ``NAME.replaced-TIME``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from turnlog.errors import NotFound, StorageFull, TurnlogError, UsageError
from turnlog.formats import Home
from turnlog.formats.flat.registry import note_log
from turnlog.keep.copies.keep import keep
from turnlog.keep.copies.reader import Copy
from turnlog.keep.copies.shortfall import Shortfalls, fullest
from turnlog.keep.restore.new_paths import NewPlaces
from turnlog.keep.restore.restorable import Mirror, Restorable, log_in
from turnlog.keep.restore.restore_files import (
    Advance,
    FileRestore,
    RestoredFile,
    RestoreOutcome,
    SessionRestore,
    restore_message,
)
from turnlog.keep.running import refuse_if_opened
from turnlog.keep.trash.bookkeeping import note_injured

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
    """What became of a session."""

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
    """Records that were made outside the project, and still say so."""
    lacking: int = 0
    """Records that an earlier copy of its logs holds and they do not: replacing them helps."""

    @property
    def written(self) -> int:
        """How many files were written."""
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
    """Return those of *copies* to restore: all, unless the other arguments mean some.

    Of each session, only the first copy can go on in *project*.
    """
    found = list(copies)
    if only is not None:
        found = [each for each in copies if only in (*each.names, *each.plans)][:1]
    elif generation is not None:
        found = [each for each in copies if generation in _generations(each)]
    found = found or list(copies[:1])
    if project is not None:
        found = list({each.id: each for each in reversed(found)}.values())[::-1]
    return found


def _generations(session: Restorable) -> set[int]:
    copies = session.mirror.copies
    return {copy.generation for name in session.mains for copy in copies[name]}


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
    """Put *session* back: into the home *to*, if it is not its own, to go on in *project*.

    *generation* chooses an earlier one of its main log, and of its parts what was kept then. *only*
    names one part; then it is that part's generation. With *partial*, copies that do not read back
    are left out, and of a log what is left of it is restored.

    With *replace*, a log that lacks records of its copy is set aside, and the copy takes its place;
    records that were appended to the injured log follow. Of several generations, the newest that
    lacks no record of an earlier one is chosen. Whatever else is in the way is left there.
    """
    home = Path(os.path.abspath(os.path.expanduser(session.mirror.home if to is None else to)))
    if session.archive is not None and os.path.realpath(home) == session.mirror.home:
        raise UsageError(
            f"session {session.id} is not gone, but archived: {session.archive}",
            hint=f"turnlog unarchive {session.id} puts it back; it can be restored elsewhere",
            cli_hint=f"turnlog unarchive {session.id} puts it back; --to DIR restores what is kept",
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
            is_shared=name not in session.names
            or _is_cache(name)
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
    if path is not None and work.wrote_main and not main.startswith("projects/"):
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
    """Count the records that the logs lack which stand in their places."""
    compare = Shortfalls()
    logs = (
        part for part in parts if _is_log(part.target) and part.outcome is not RestoreOutcome.BROKEN
    )
    found = (compare.in_home(Home(home), part.target) for part in logs)
    return sum(each.records for each in found if each is not None)


def note_restored(done: Iterable[Restored]) -> None:
    """Have it known that what was put back into its own home is what its copies hold.

    It is as old as now, so that without this it would seem to be something new that nobody keeps.
    """
    homes: dict[str, set[str | None]] = {}
    for each in done:
        if each.written:
            homes.setdefault(each.home, set()).add(each.session)
    for home, sessions in homes.items():
        with suppress(TurnlogError, OSError):  # The next run that keeps finds it out as well.
            keep((Home(Path(home)),), sessions=frozenset(sessions))


def restore_rest(
    mirror: Mirror,
    *,
    to: str | os.PathLike[str] | None = None,
    advance: Advance | None = None,
) -> list[RestoredFile]:
    """Put back what belongs to no session alone: prompts, plans, what lost its session.

    What stands there already is left, and what does not read back is left out.
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
) -> Iterator[Restored | Refused]:
    """Put each of *sessions* back; one that cannot be restored keeps no other from it.

    One that lies in its home, in a project to which it was moved since, would be there twice; it is
    refused unless *though_moved* is true.
    """
    for session in sessions:
        is_moved = session.moved_to is not None and session.archive is None
        if to is None and project is None and is_moved and not though_moved:
            yield Refused(
                session=session.id,
                reason=f"it is not gone: it lies in {session.moved_to}",
                hint=f"turnlog restore {session.id} puts what is kept where it lay before",
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
            raise  # There is room for none of the others either.
        except TurnlogError as error:
            yield Refused(
                session=session.id, reason=error.message, hint=error.cli_hint or error.hint
            )


def _chosen(session: Restorable, generation: int | None, only: str | None) -> dict[str, Copy]:
    """Choose a copy of each part: the newest, or what was kept with an earlier main log."""
    copies = session.mirror.copies
    names = [*session.names, *(name for name in session.plans if name not in session.names)]
    if only is not None:
        if only not in names:
            raise NotFound(
                f"session {session.id} has no part called {only!r}",
                hint=f"turnlog restore --list {session.id} shows them",
            )
        return {only: _of_generation(copies[only], generation, session)}
    if generation is None:
        return {name: copies[name][-1] for name in names}
    mains = [copy for name in session.mains for copy in copies[name]]
    wanted = _of_generation(mains, generation, session)
    return {
        name: next(
            (
                each
                for each in copies[name]
                if name in session.mains and each.generation == generation
            ),
            _as_of(copies[name], wanted),
        )
        for name in names
    }


def _of_generation(copies: list[Copy], generation: int | None, session: Restorable) -> Copy:
    if generation is None:
        return copies[-1]
    for copy in copies:
        if copy.generation == generation:
            return copy
    there = ", ".join(str(number) for number in sorted({each.generation for each in copies}))
    raise NotFound(
        f"session {session.id} has no generation {generation} of that",
        hint=f"there are: {there}; turnlog restore --list {session.id} tells more",
    )


def _as_of(copies: list[Copy], when: Copy) -> Copy:
    """Choose what a file was when *when* was kept for the last time."""
    if when.known is None:
        return copies[-1]
    for copy in copies:
        if copy.known is not None and copy.known.kept_at >= when.known.kept_at:
            return copy
    return copies[-1]


def _is_log(name: str) -> bool:
    """Return whether the file *name* is a log that can be appended to."""
    log = log_in(name)
    return log is not None and log.compression is None


def _is_cache(name: str) -> bool:
    """Return whether a file can be made again from a log: those of a flat store."""
    return name.endswith(".meta.json") and not name.startswith("projects/")
