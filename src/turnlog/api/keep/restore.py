"""Verify and restore kept copies; archive sessions and bring them back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict

from turnlog.api.homes import Home, UnreadFile, all_homes, unread_files
from turnlog.api.keep.trash import TrashRow, TrashSelection, find_trashed
from turnlog.api.sessions.kept_session import KeptSession
from turnlog.catalog.sessions import SessionRow, list_sessions
from turnlog.errors import AmbiguousSession, NotFound, StorageFull, TurnlogError, UsageError
from turnlog.formats.find import LATEST
from turnlog.formats.home_files import log_in
from turnlog.keep.archive.archive import Archived, Unarchived, has_archive
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
from turnlog.keep.trash.trash import TrashedSession
from turnlog.keep.verify import (
    HomeVerifyReport,
    Parity,
    VerifyFinding,
    VerifyProblem,
    bytes_to_verify,
)
from turnlog.keep.verify import verify as _verify
from turnlog.records.dates import is_between

__all__ = [
    "ArchiveDocument",
    "Archived",
    "HomeVerifyReport",
    "Parity",
    "Refused",
    "RestorableDocument",
    "RestorableRow",
    "RestoreDocument",
    "RestoreOptions",
    "RestoreOutcome",
    "RestoreSelection",
    "Restored",
    "RestoredFile",
    "Unarchived",
    "VerifyDocument",
    "VerifyFinding",
    "VerifyProblem",
    "archive_sessions",
    "bytes_to_verify",
    "find_kept",
    "find_named",
    "homes_to_verify",
    "list_parts",
    "list_restorable",
    "restore_session",
    "restore_sessions",
    "resume_command",
    "verify",
]

T = TypeVar("T")
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


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
    """The output of `turnlog restore SESSION --json` and `turnlog restore --all --json`."""

    restored: list[Restored] = field(default_factory=list)
    """Sessions restored from kept copies, and named ones that needed nothing."""
    unarchived: list[Unarchived] = field(default_factory=list)
    undeleted: list[TrashRow] = field(default_factory=list)
    """Entries of the trash that were restored."""
    refused: list[Refused] = field(default_factory=list)
    """Sessions that could not be restored, and why."""
    others: list[RestoredFile] = field(default_factory=list)
    """With --all: files shared by sessions, such as the prompt history."""


class PartRow(Struct, kw_only=True):
    """A file of a session, and the generations of it that were kept."""

    name: str
    size_bytes: int | None
    generations: list[int]


Source = Literal["copies", "archive", "trash"]


class RestorableRow(Struct, kw_only=True):
    """A session that can be restored, and from where."""

    id: str
    source: Source
    project: str | None
    title: str | None
    last_active_at: datetime | None
    home: str
    keeping: str
    """``kept`` if its home still has it, ``restorable`` if not; ``live`` or ``gone`` if the copy
    is missing."""
    files: int
    size_bytes: int
    generations: list[Generation] = []
    """Of its kept copies."""
    parts: list[PartRow] | None = None
    """The files that are kept of it, if the session was named."""

    @property
    def is_missing(self) -> bool:
        """Whether its home does not have it, or it is archived."""
        return self.source != "copies" or self.keeping in {"restorable", "gone"}


class RestorableDocument(Struct, kw_only=True):
    """The output of `turnlog restore --json`."""

    sessions: list[RestorableRow]
    next: int | None = None


class Match(Struct, kw_only=True):
    """Where a session that was named can be restored from; nowhere if it is only in its home."""

    id: str
    copies: Restorable | None = None
    archived: KeptSession | None = None
    trashed: TrashSelection | None = None
    in_home: KeptSession | None = None


class RestoreSelection(Struct):
    """Sessions to list or restore."""

    sessions: list[Restorable]
    """Those with kept copies."""
    mirrors: list[Mirror]
    matches: list[Match]
    """Those that were named."""

    @property
    def size_bytes(self) -> int:
        """The size of the files with kept copies."""
        return sum(session.size_bytes for session in self.sessions)


def find_named(names: Sequence[str], homes: Sequence[str] = ()) -> RestoreSelection:
    """Find sessions among kept copies, archives and the trash.

    A name is the beginning of a session's id, the name of a trash entry, or ``latest`` for the last
    active session that is missing. Unless *homes* are given, also those that no longer exist are
    searched. Raises NotFound if there is no such session, not even in a home.
    """
    places = all_homes(homes)
    among = mirrors(places) if homes else all_mirrors(places)
    if LATEST in names:
        latest = _latest_missing(homes)
        names = [latest if name == LATEST else name for name in names]
    found = [_match(name, places, among, homes) for name in names]
    matches = list({match.id: match for match in found}.values())
    sessions = [copy for each in matches if each.copies for copy in each.copies.everywhere]
    return RestoreSelection(sessions, among, matches)


def _latest_missing(homes: Sequence[str]) -> str:
    rows = list_restorable(homes).sessions
    missing = [row for row in rows if row.is_missing] or rows
    if not missing:
        raise NotFound("there is nothing to restore", hint="keep sessions first", code="not-kept")
    return missing[0].id


def _match(
    name: str, places: Sequence[Home], among: Sequence[Mirror], homes: Sequence[str]
) -> Match:
    copies = trashed = in_home = None
    unknown: TurnlogError | None = None
    with suppress(NotFound):
        copies = find_restorable(among, name)
    with suppress(NotFound):
        trashed = find_trashed(homes, name=name)
    try:
        in_home = KeptSession.find(places, name)
    except (AmbiguousSession, NotFound) as error:
        unknown = error
    archived = in_home if in_home is not None and has_archive(in_home) else None
    ids = {each.id for each in (copies, archived) if each is not None}
    ids |= {_trashed_id(each, name) for each in (trashed.entries if trashed else ())}
    if len(ids) > 1:
        raise AmbiguousSession(
            f"{name!r} begins the ids of {len(ids)} sessions: {', '.join(sorted(ids))}",
            hint="give more characters of the id",
        )
    if not ids:
        if in_home is None:
            assert unknown is not None
            if isinstance(unknown, NotFound):
                unknown.code = "not-kept"
            raise unknown
        ids = {in_home.id}
    return Match(id=ids.pop(), copies=copies, archived=archived, trashed=trashed, in_home=in_home)


def _trashed_id(trashed: TrashedSession, name: str) -> str:
    """Return the session of a trash entry that *name* stands for."""
    named = (each for each in trashed.entry.sessions if each.startswith(name))
    return next(named, trashed.entry.session)


def find_kept(
    homes: Sequence[str] = (),
    *,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RestoreSelection:
    """Return all kept sessions that match, the last active one first.

    *since* and *until* limit the time of the latest record.
    """
    among = mirrors(all_homes(homes))
    directories = None if project is None else _spellings(project)
    sessions = [
        session
        for mirror in among
        for session in mirror.restorables
        if (directories is None or _is_within(session.project, directories))
        and is_between(session.last_active_at, since, until)
    ]
    sessions.sort(key=lambda session: session.recency, reverse=True)
    return RestoreSelection(sessions, among, [])


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
        """Return the copies to restore, and what they continue, if that is gone."""
        chosen = select_copies(
            copies, project=self.project, generation=self.generation, only=self.only
        )
        bases = (base for each in chosen for base in each.bases if self.only is None)
        gone = (base for base in bases if self.to is not None or base.is_gone)
        return list(dict.fromkeys([*chosen, *gone]))

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for that needs a kept copy."""
        return self.is_whole and self.only is None and not self.replace

    @property
    def is_whole(self) -> bool:
        """Whether sessions are restored as they were kept last, to their own place."""
        return self.to is None and self.project is None and self.generation is None


def restore_sessions(
    selection: RestoreSelection,
    wanted: RestoreOptions,
    *,
    everything: bool = False,
    advance: Advance | None = None,
    hint_of: Callable[[TurnlogError], str] | None = None,
) -> RestoreDocument:
    """Restore the selected sessions; with *everything*, also what belongs to no session.

    A named session that is archived is unarchived. One in the trash is restored from there, because
    the trash has the files as they were last, unless its home has another version. Options that
    need a kept copy use that. A session that cannot be restored is listed as refused; if it was the
    only one named, its error is raised. *hint_of* makes the hints of those that were refused.
    """
    document = RestoreDocument()
    is_single = len(selection.matches) == 1
    sessions = [] if selection.matches else wanted.choose(selection.sessions)
    for match in selection.matches:
        try:
            sessions += _restore_match(match, wanted, document)
        except StorageFull:
            raise  # There is no space for the others either.
        except TurnlogError as error:
            if is_single:
                raise
            hint = hint_of(error) if hint_of is not None else error.hint
            document.refused.append(Refused(session=match.id, reason=error.message, hint=hint))
    _check_one_project(sessions, wanted)
    if is_single and len(sessions) == 1:
        document.restored.append(_restore(sessions[0], **asdict(wanted), advance=advance))
        return _noted(document, wanted)
    for result in restore_each(
        sessions,
        to=wanted.to,
        project=wanted.project,
        generation=wanted.generation,
        partial=wanted.partial,
        replace=wanted.replace,
        though_moved=bool(selection.matches),
        advance=advance,
        hint_of=hint_of,
    ):
        if isinstance(result, Refused):
            document.refused.append(result)
        else:
            document.restored.append(result)
    for mirror in selection.mirrors if everything else ():
        document.others += restore_rest(mirror, to=wanted.to, advance=advance)
    return _noted(document, wanted)


def _noted(document: RestoreDocument, wanted: RestoreOptions) -> RestoreDocument:
    if wanted.is_whole:
        note_restored(document.restored)
    return document


def _restore_match(
    match: Match, wanted: RestoreOptions, document: RestoreDocument
) -> list[Restorable]:
    """Restore a named session from its archive or the trash, or return its kept copies."""
    copies = match.copies
    if wanted.is_plain:
        if match.archived is not None:
            document.unarchived.append(match.archived.unarchive())
            return []
        if match.trashed:  # Also if it was restored in part and then interrupted.
            try:
                document.undeleted += match.trashed.restore().entries
                return []
            except UsageError:  # The home has another version.
                if copies is None or copies.is_gone:
                    raise
    if copies is not None:
        return wanted.choose(copies.everywhere)
    if wanted.is_plain and match.in_home is not None:
        document.restored.append(_in_place(match.in_home))
        return []
    where = "in the trash" if match.trashed else "archived" if match.archived else "not kept"
    raise UsageError(
        f"session {match.id} is {where}: there is no kept copy to choose from",
        hint="restore it without options first, then keep it",
    )


def _in_place(session: KeptSession) -> Restored:
    log = session.main_log
    return Restored(
        session=session.id,
        home=os.fspath(log.home),
        project=session.metadata.project,
        path=str(log.path),
    )


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


def list_restorable(
    homes: Sequence[str] = (),
    *,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RestorableDocument:
    """Return all sessions that can be restored from copies, archives or the trash.

    The missing ones come first, and of these the last active one.
    """
    places = all_homes(homes)
    directories = None if project is None else _spellings(project)
    archived = list_sessions(places, archived=True, limit=None).sessions
    rows = [_archived_row(row) for row in archived]
    trash = find_trashed(homes)
    rows += [_trashed_row(trashed, trash) for trashed in trash.entries]
    rows = [
        row
        for row in rows
        if (directories is None or _is_within(row.project, directories))
        and is_between(row.last_active_at, since, until)
    ]
    others = {row.id for row in rows}
    kept = find_kept(homes, project=project, since=since, until=until).sessions
    rows += [_row(each) for each in kept if each.id not in others and not each.is_subagent]
    rows.sort(key=lambda row: (row.is_missing, row.last_active_at or _NEVER), reverse=True)
    return RestorableDocument(sessions=rows)


def list_parts(selection: RestoreSelection) -> RestorableDocument:
    """Return the kept copies of the sessions that were named, with their files."""
    rows = [_row(each, with_parts=True) for each in selection.sessions]
    kept = {row.id for row in rows}
    for match in selection.matches:
        if match.trashed and match.id not in kept:
            rows += [_trashed_row(each, match.trashed) for each in match.trashed.entries]
    return RestorableDocument(sessions=rows)


def _archived_row(row: SessionRow) -> RestorableRow:
    return RestorableRow(
        id=row.id,
        source="archive",
        project=row.project,
        title=row.title,
        last_active_at=row.last_active_at,
        home=row.home,
        keeping=row.keeping,
        files=1 + row.subagents,
        size_bytes=row.size_bytes,
    )


def _trashed_row(trashed: TrashedSession, trash: TrashSelection) -> RestorableRow:
    entry = trashed.entry
    summary = trash.summary(trashed)
    return RestorableRow(
        id=entry.session,
        source="trash",
        project=summary.cwd if summary else None,
        title=entry.title,
        last_active_at=(summary and summary.last_active_at) or entry.deleted_at,
        home=entry.home,
        keeping="restorable",
        files=len(entry.files),
        size_bytes=entry.size_bytes,
    )


def _row(session: Restorable, *, with_parts: bool = False) -> RestorableRow:
    names = {*session.names, *session.plans} if with_parts else ()
    return RestorableRow(
        id=session.id,
        source="copies",
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
