"""Verify and restore kept copies; archive sessions and bring them back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

from turnlog.api.homes import Home, UnreadFile, all_homes, unread_files
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.errors import StorageFull, TurnlogError, UsageError
from turnlog.formats.home_files import log_in
from turnlog.keep.archive.archive import Archived, Unarchived
from turnlog.keep.catalog import kept_homes
from turnlog.keep.restore.restorable import (
    Generation,
    Mirror,
    Restorable,
    all_mirrors,
    find_restorable,
    generations_of,
    mirrors,
)
from turnlog.keep.restore.restore import (
    Refused,
    Restored,
    RestoredFile,
    RestoreOutcome,
    note_restored,
    restore_each,
    restore_rest,
    select_copies,
)
from turnlog.keep.restore.restore import restore as _restore
from turnlog.keep.restore.restore_files import Advance
from turnlog.keep.verify import (
    HomeVerifyReport,
    Parity,
    VerifyFinding,
    VerifyProblem,
    bytes_to_verify,
)
from turnlog.keep.verify import verify as _verify

__all__ = [
    "ArchiveDocument",
    "Archived",
    "HomeVerifyReport",
    "KeptSelection",
    "Parity",
    "Refused",
    "RestorableDocument",
    "RestorableRow",
    "RestoreDocument",
    "RestoreOptions",
    "RestoreOutcome",
    "Restored",
    "RestoredFile",
    "UnarchiveDocument",
    "Unarchived",
    "VerifyDocument",
    "VerifyFinding",
    "VerifyProblem",
    "archive_sessions",
    "bytes_to_verify",
    "find_kept",
    "homes_to_verify",
    "list_restorable",
    "restore_kept",
    "restore_session",
    "resume_command",
    "unarchive_sessions",
    "verify",
]

T = TypeVar("T")


class VerifyTotals(Struct, kw_only=True):
    """Totals over all homes."""

    copies: int
    generations: int
    archives: int
    size_bytes: int
    packed_bytes: int
    same: int
    behind: int
    behind_bytes: int
    differs: int
    gone: int
    unkept: int
    unkept_bytes: int


class VerifyDocument(Struct, kw_only=True):
    """The output of `turnlog verify --json`."""

    findings: list[VerifyFinding]
    homes: list[HomeVerifyReport]
    totals: VerifyTotals
    problems: list[UnreadFile]
    """Files that could not be read."""
    next: int | None = None


def homes_to_verify(names: Sequence[str] = ()) -> tuple[Home, ...]:
    """Return the homes of *names*, or all, also those that are gone but have kept copies."""
    homes = all_homes(names)
    if names:
        return homes
    known = {os.path.realpath(home) for home in homes}
    gone = (home for home, _ in kept_homes() if os.path.realpath(home) not in known)
    return (*homes, *(Home(Path(home)) for home in gone))


def verify(homes: Sequence[Home], *, advance: Advance | None = None) -> VerifyDocument:
    """Read every kept copy and archive of *homes* again and compare it."""
    report = _verify(homes, advance=advance)
    totals = {
        name: sum(getattr(home, name) for home in report.homes)
        for name in VerifyTotals.__struct_fields__
    }
    return VerifyDocument(
        findings=report.findings,
        homes=report.homes,
        totals=VerifyTotals(**totals),
        problems=unread_files(report.problems),
    )


class RestoreDocument(Struct, kw_only=True):
    """The output of `turnlog restore --json`."""

    restored: list[Restored] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    """Sessions that could not be restored, and why."""
    others: list[RestoredFile] = field(default_factory=list)
    """With --all: files shared by sessions, such as the prompt history."""


class PartRow(Struct, kw_only=True):
    """A file of a session, and the generations of it that were kept."""

    name: str
    size_bytes: int | None
    generations: list[int]


class RestorableRow(Struct, kw_only=True):
    """A session that can be restored."""

    id: str
    project: str | None
    title: str | None
    last_active_at: datetime | None
    home: str
    keeping: str
    """``kept`` if its home still has it, ``restorable`` if not; ``live`` or ``gone`` if the copy
    is missing."""
    files: int
    size_bytes: int
    generations: list[Generation]
    parts: list[PartRow] | None = None
    """Its files, if the session was named."""


class RestorableDocument(Struct, kw_only=True):
    """The output of `turnlog restore --list --json`."""

    sessions: list[RestorableRow]
    next: int | None = None


class KeptSelection(NamedTuple):
    """Kept sessions to list or restore, and the mirrors they are in."""

    sessions: list[Restorable]
    mirrors: list[Mirror]
    names: tuple[str, ...]


def find_kept(
    names: Sequence[str] = (),
    homes: Sequence[str] = (),
    *,
    worked_in: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> KeptSelection:
    """Return the kept sessions of *names*, or all that match, the last active one first.

    A name is the beginning of a session's id, or ``latest``. Unless *homes* are given, it may also
    be in a home that no longer exists.
    """
    places = all_homes(homes)
    among = all_mirrors(places) if names and not homes else mirrors(places)
    if names:
        matches = [find_restorable(among, name) for name in names]
        sessions = [copy for session in matches for copy in session.everywhere]
        return KeptSelection(sessions, among, tuple(names))
    directories = None if worked_in is None else _spellings(worked_in)
    sessions = [
        session
        for mirror in among
        for session in mirror.restorables
        if (directories is None or _is_within(session.project, directories))
        and (since is None or session.last_active_at >= since)
        and (until is None or session.last_active_at < until)
    ]
    sessions.sort(key=lambda session: session.recency, reverse=True)
    return KeptSelection(sessions, among, ())


def _spellings(directory: str) -> set[str]:
    paths = (os.path.abspath(directory), os.path.realpath(directory))
    return {directory, *(path.encode(errors="replace").decode() for path in paths)}


def _is_within(project: str | None, directories: Iterable[str]) -> bool:
    if project is None:
        return False
    tops = [top for directory in directories if (top := directory.rstrip("/\\"))]
    return any(project == top or project.startswith((top + "/", top + "\\")) for top in tops)


class RestoreOptions(Struct, frozen=True, kw_only=True):
    """Where to restore sessions, and what of them; see `Store.restore`."""

    to: str | os.PathLike[str] | None = None
    project: str | os.PathLike[str] | None = None
    generation: int | None = None
    only: str | None = None
    partial: bool = False
    replace: bool = False

    def choose(self, copies: Sequence[Restorable]) -> list[Restorable]:
        """Return the copies to restore."""
        return select_copies(
            copies, project=self.project, generation=self.generation, only=self.only
        )

    @property
    def is_whole(self) -> bool:
        """Whether sessions are restored as they were kept last, to their own place."""
        return self.to is None and self.project is None and self.generation is None


def restore_kept(
    selection: KeptSelection,
    wanted: RestoreOptions,
    *,
    everything: bool = False,
    advance: Advance | None = None,
    hint_of: Callable[[TurnlogError], str] | None = None,
) -> RestoreDocument:
    """Restore the selected sessions; with *everything*, also what belongs to no session.

    A session that cannot be restored is listed as refused; if one alone was named, its error is
    raised. *hint_of* makes the hints of those that were refused.
    """
    names = selection.names
    sessions = wanted.choose(selection.sessions)
    _check_one_project(sessions, wanted)
    document = RestoreDocument()
    if len(names) == len(sessions) == 1:
        document.restored.append(_restore(sessions[0], **asdict(wanted), advance=advance))
    else:
        for result in restore_each(
            sessions,
            to=wanted.to,
            project=wanted.project,
            generation=wanted.generation,
            partial=wanted.partial,
            replace=wanted.replace,
            though_moved=bool(names),
            advance=advance,
            hint_of=hint_of,
        ):
            if isinstance(result, Refused):
                document.refused.append(result)
            else:
                document.restored.append(result)
        for mirror in selection.mirrors if everything else ():
            document.others += restore_rest(mirror, to=wanted.to, advance=advance)
    if wanted.is_whole:
        note_restored(document.restored)
    return document


def _check_one_project(sessions: Sequence[Restorable], wanted: RestoreOptions) -> None:
    """Raise if sessions of several projects would continue in one directory."""
    if wanted.project is None or len(sessions) < 2:
        return
    projects = sorted({each.project for each in sessions if each.project is not None})
    tops = [each for each in projects if not _is_within(each, set(projects) - {each})]
    if len(tops) > 1:
        raise UsageError(
            f"cannot move sessions of {len(tops)} projects to one directory",
            hint="restore the sessions of one project at a time",
            code="several-projects",
        )


def restore_session(
    homes: Sequence[Home],
    name: str,
    wanted: RestoreOptions,
    *,
    everywhere: bool = False,
) -> Restored:
    """Restore one session in each project it was kept in; return the result of the latest copy.

    With *everywhere*, it may also be in a home that no longer exists.
    """
    among = all_mirrors(homes) if everywhere else mirrors(homes)
    copies = find_restorable(among, name).everywhere
    done = [_restore(copy, **asdict(wanted)) for copy in wanted.choose(copies)]
    if wanted.is_whole:
        note_restored(done)
    return done[0]


def resume_command(restored: Restored, *, with_home: bool) -> str | None:
    """Return the shell command that continues a restored session in its agent, or None.

    *with_home* tells the agent to which home it was restored.
    """
    if restored.path is None:
        return None
    log = log_in(os.path.relpath(restored.path, restored.home).replace(os.sep, "/"))
    command = log[0].resume_command(restored.session) if log is not None else None
    if log is None or log[1].compression is not None or command is None:
        return None
    home = f"{log[0].home_variable}={shlex.quote(restored.home)} " if with_home else ""
    return home + shlex.join(command)


def list_restorable(selection: KeptSelection) -> RestorableDocument:
    """Return the selected sessions as they are printed; with their parts if they were named."""
    with_parts = bool(selection.names)
    sessions = [each for each in selection.sessions if with_parts or not each.is_subagent]
    return RestorableDocument(sessions=[_row(each, with_parts=with_parts) for each in sessions])


def _row(session: Restorable, *, with_parts: bool) -> RestorableRow:
    names = {*session.names, *session.plans} if with_parts else ()
    return RestorableRow(
        id=session.id,
        project=session.project,
        title=_title(session),
        last_active_at=session.last_active_at,
        home=session.mirror.home,
        keeping=session.keeping,
        files=len(session.names),
        size_bytes=session.size_bytes,
        generations=generations_of(session),
        parts=[_part_row(session, name) for name in sorted(names)] if with_parts else None,
    )


def _part_row(session: Restorable, name: str) -> PartRow:
    copies = session.mirror.copies[name]
    known = copies[-1].known
    return PartRow(
        name=name,
        size_bytes=known.size_bytes if known is not None else None,
        generations=[copy.generation for copy in copies],
    )


def _title(session: Restorable) -> str | None:
    from turnlog.sessions.metadata import read_head_tail

    try:
        for name in session.mains[-1:]:
            return read_head_tail(session.mirror.newest(name).path).summary.title
    except (TurnlogError, OSError):
        pass
    return None


class ArchiveDocument(Struct, kw_only=True):
    """The output of `turnlog archive --json`."""

    sessions: list[Archived]
    refused: list[Refused]
    """Sessions that were not archived, and why."""
    next: None = None


class UnarchiveDocument(Struct, kw_only=True):
    """The output of `turnlog unarchive --json`."""

    sessions: list[Unarchived]
    refused: list[Refused]
    """Sessions that were not unarchived, and why."""
    next: None = None


def archive_sessions(
    homes: Sequence[Home],
    names: Iterable[str],
    *,
    remove: bool | None = None,
    hint_of: Callable[[TurnlogError], str] | None = None,
) -> ArchiveDocument:
    """Archive the sessions of *names*; one that fails does not stop the others."""
    done, refused = _each(homes, names, lambda session: session.archive(remove=remove), hint_of)
    return ArchiveDocument(sessions=done, refused=refused)


def unarchive_sessions(
    homes: Sequence[Home],
    names: Iterable[str],
    *,
    hint_of: Callable[[TurnlogError], str] | None = None,
) -> UnarchiveDocument:
    """Bring the archived sessions of *names* back; one that fails does not stop the others."""
    done, refused = _each(homes, names, KeptSession.unarchive, hint_of)
    return UnarchiveDocument(sessions=done, refused=refused)


def _each(
    homes: Sequence[Home],
    names: Iterable[str],
    act: Callable[[KeptSession], T],
    hint_of: Callable[[TurnlogError], str] | None,
) -> tuple[list[T], list[Refused]]:
    """Find all sessions first, then act on each; raise the error of a single session."""
    found = [KeptSession.find(homes, name) for name in names]
    sessions = {session.id: session for session in found}
    done: list[T] = []
    refused: list[Refused] = []
    for session in sessions.values():
        try:
            done.append(act(session))
        except StorageFull:
            raise  # There is no space for the others either.
        except TurnlogError as error:
            if len(sessions) == 1:
                raise
            hint = hint_of(error) if hint_of is not None else error.hint
            refused.append(Refused(session=session.id, reason=error.message, hint=hint))
    return done, refused
