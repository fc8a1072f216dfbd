"""Delete a session to the trash, and restore it from there.

All its files are moved: its log, its subagents' logs and metadata, todos, tasks, file history,
environment, tool results, a flat store's metadata and registry entry, and turnlog's kept copies of
all of it, every generation. Plans and the prompt history are shared between sessions and stay.

A running session is refused, and so is one that shares the logs of days with others. Deleting twice
is fine, and repeating an interrupted deletion completes it. A session that never existed raises
NotFound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, structs

from turnlog.errors import AmbiguousSession, LogLocked, NotALog, NotFound, TurnlogError, UsageError
from turnlog.formats import Home, LogFile, Problem, turnlog_home
from turnlog.formats.find import LATEST
from turnlog.formats.flat.format import flat_stores
from turnlog.formats.flat.registry import forget, known_meta, update_registry
from turnlog.formats.home_files import project_of
from turnlog.formats.kept_copies import kept_place, name_of_copy
from turnlog.formats.walk import refuse_unreadable
from turnlog.keep.activity import refuse_if_opened, refuse_if_running, title_of
from turnlog.keep.catalog import catalogued, forget_kept, lock_mirror, remember_kept
from turnlog.keep.copies.copy_file import HOUR, sweep
from turnlog.keep.file_moves import Spot, locked, remove_empty
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.trash import (
    GRACE,
    FileToTrash,
    Trash,
    TrashedSession,
    interruption_message,
    place_of,
)
from turnlog.sessions.owners import find_any_session, share_out
from turnlog.sessions.state import State

ASKED: Final = "asked for"
_SHOWN: Final = 3


class LeftAlone(Struct, frozen=True):
    """A file with the session's name that stays where it is, and why."""

    path: str
    reason: str


class Deletion(Struct, kw_only=True):
    """The result of deleting a session."""

    id: str
    state: State | None = State.DELETED
    """Null after a dry run: then the files are those that would be moved."""
    title: str | None = None
    was_deleted: bool = False
    """It had been deleted before; nothing, or only the rest, was done now."""
    files: int = 0
    size_bytes: int = 0
    entries: list[str] = []
    """Its names in the trash: one entry for each home it was in."""
    purge_after_at: datetime | None = None
    """When emptying the trash may remove it permanently; null if that has happened."""
    left: list[LeftAlone] = []


class DeletionTerms(NamedTuple):
    """Why and when a session is deleted, how long it stays in the trash, and what goes with it."""

    why: str
    now: datetime
    grace: timedelta = GRACE
    with_kept: bool = True
    """Whether turnlog's kept copies are deleted too."""
    others: tuple[str, ...] = ()
    """Sessions deleted with it, since they share its logs."""
    if_unchanged: bool = False
    """Whether to delete nothing if a file was written to since it was listed."""
    write: bool = True
    """False for a dry run."""


def delete_session(
    homes: Iterable[Home], text: str, *, own: Path | None = None, terms: DeletionTerms | None = None
) -> Deletion:
    """Move the session whose id begins with *text* to the trash of turnlog's home at *own*."""
    homes = tuple(homes)
    trash = Trash(own or turnlog_home())
    problems: list[Problem] = []
    logs: Sequence[LogFile] = ()
    with contextlib.suppress(NotFound):
        logs = find_any_session(homes, text, problems=problems)
    # Another session may match, or be later, in a place that could not be read.
    refuse_unreadable(problems)
    terms = terms or DeletionTerms(ASKED, datetime.now(UTC))
    if not logs:
        return _deleted_before(trash, homes, text, write=terms.write)
    session_id = logs[0].session_id or ""
    belongings = [SessionFileIndex(home) for home in homes]
    for each in belongings:
        each.refuse_if_continued(session_id)
    return delete_found(session_id, logs, belongings, trash, terms)


def delete_found(
    session_id: str,
    logs: Sequence[LogFile],
    belongings: Sequence[SessionFileIndex],
    trash: Trash,
    terms: DeletionTerms,
) -> Deletion:
    """Move a session with known logs from these homes to the trash.

    Raises UnreadableHome, and moves nothing, if part of a home cannot be read.
    """
    refuse_unreadable(problem for each in belongings for problem in each.unseen)
    refuse_if_running(session_id, logs, [each.home for each in belongings])
    refuse_if_shared(session_id, logs, terms.others)
    _refuse_if_linked(session_id, logs)
    deletion = Deletion(id=session_id, state=State.DELETED if terms.write else None)
    for each in belongings:
        left = each.left_alone(session_id)
        deletion.left += [LeftAlone(str(one.path), one.reason) for one in left]
    _refuse_if_left(deletion, logs)
    with contextlib.suppress(TurnlogError, OSError):  # The title is only for display.
        deletion.title = title_of(session_id, [log for log in logs if log.kind != "subagent"])
    for each in belongings:
        if not terms.write:
            files = files_to_delete(each, session_id, logs, with_kept=terms.with_kept)
            deletion.files += len(files)
            deletion.size_bytes += sum(file.size_bytes for file in files)
            continue
        with interruption_message(each.home.path, "delete"):
            gone = _delete_in(each, logs, deletion, trash, terms)
            _take_apart(each, session_id, gone)
    return deletion


def delete_together(
    sessions: Mapping[str, Sequence[LogFile]],
    belongings: SessionFileIndex,
    trash: Trash,
    terms: DeletionTerms,
) -> dict[str, Deletion]:
    """Move sessions of one home, which may share logs with one another, to the trash."""
    *others, last = sessions
    done = {}
    for each in others:
        own = [log for log in sessions[each] if log.kind != "day"]
        done[each] = delete_found(each, own, [belongings], trash, terms)
    shared = {log.path: log for logs in sessions.values() for log in logs if log.kind == "day"}
    own = [log for log in sessions[last] if log.kind != "day"]
    terms = terms._replace(others=tuple(others))
    done[last] = delete_found(last, [*shared.values(), *own], [belongings], trash, terms)
    for each in others:  # The logs that they shared went with the last.
        done[each].entries = [*done[each].entries, *done[last].entries]
    return done


def restore_from_trash(trash: Trash, trashed: TrashedSession) -> int:
    """Restore the files of a trash entry; return how many there were."""
    entry = trashed.entry

    def settle() -> None:
        remember_kept(kept_place(entry.home), entry.catalogue)
        names = [file.name for file in entry.files if file.tree == "home"]
        remember_flat(home, names, entry.session)

    home = Path(entry.home)
    sweep({(home / f.name).parent for f in entry.files if f.tree == "home"}, unused_for=HOUR)
    with interruption_message(home, "restore"):
        return trash.restore(trashed, settle=settle)


def finish_deletions(trash: Trash, belongings: SessionFileIndex) -> None:
    """Finish deletions in a home that were killed at their very end.

    A session that still has files there is left alone: it may have continued.
    """
    if belongings.unseen:
        return  # It is unknown what still has files there.
    home = os.path.realpath(belongings.home)
    for trashed in trash.entries():
        places = (place_of(trashed.entry, file) for file in trashed.entry.files)
        if trashed.entry.home == home and not any(place.status() for place in places):
            with interruption_message(belongings.home.path, "delete"):
                _finish(trash, trashed, belongings)


# -- whether it may go ----------------------------------------------------------------------


def refuse_if_shared(
    session_id: str, logs: Sequence[LogFile], together: Sequence[str] = ()
) -> None:
    """Raise if sessions other than those deleted *together* have records in the logs."""
    days = [structs.replace(log, session_id=None) for log in logs if log.kind == "day"]
    others = sorted(share_out(days).keys() - {session_id, *together})
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise UsageError(
            f"session {session_id} shares its logs with {', '.join(others[:_SHOWN])}{more}",
            hint="a log is deleted as a whole, and these hold other sessions' records too",
        )


def _refuse_if_linked(session_id: str, logs: Sequence[LogFile]) -> None:
    """Raise if a main log is reached through a link: then it is not this home's."""
    for log in logs:
        inside = os.path.relpath(log.path, log.home)
        is_itself = os.path.realpath(log.path) == os.path.join(os.path.realpath(log.home), inside)
        if log.kind != "subagent" and not log.is_kept and not is_itself:
            raise NotALog(
                f"the log of session {session_id} is reached through a symbolic link",
                path=log.path,
                hint=f"delete it at its real place: {os.path.dirname(os.path.realpath(log.path))}",
            )


def _refuse_if_left(deletion: Deletion, logs: Sequence[LogFile]) -> None:
    """Raise if a main log would stay: then the session would not be gone."""
    mains = {str(log.path) for log in logs if log.kind != "subagent"}
    for each in deletion.left:
        if each.path in mains:
            raise NotALog(
                f"{each.path} cannot be moved to the trash: {each.reason}",
                path=each.path,
                hint="nothing was deleted; give it another name, or remove it yourself",
            )


# -- the files ------------------------------------------------------------------------------


def files_to_delete(
    belongings: SessionFileIndex, session_id: str, logs: Sequence[LogFile], *, with_kept: bool
) -> list[SessionFile]:
    """Return the files to delete from one home."""
    days = [log for log in logs if log.kind == "day" and log.home == belongings.home]
    names = {home_name(log, belongings) for log in days}
    files = [*belongings.of(session_id), *belongings.days(names)]
    return [file for file in files if with_kept or file.tree == "home"]


def home_name(log: LogFile, belongings: SessionFileIndex) -> str:
    """Return the name in its home of a log, or of a kept copy's log."""
    root = belongings.place if log.is_kept else Path(os.path.abspath(belongings.home))
    name = Path(os.path.abspath(log.path)).relative_to(root).as_posix()
    return name_of_copy(name) if log.is_kept else name


def _delete_in(
    belongings: SessionFileIndex,
    logs: Sequence[LogFile],
    deletion: Deletion,
    trash: Trash,
    terms: DeletionTerms,
) -> list[str]:
    """Move the session's files in one home; return the names of those gone from it."""
    home = os.path.realpath(belongings.home)
    here = [log for log in logs if log.home == belongings.home]
    files = files_to_delete(belongings, deletion.id, logs, with_kept=terms.with_kept)
    kept = {each.home_name for each in files if each.tree == "kept"}
    mains = frozenset(each.name for each in files if each.is_main_log)
    gone = [each.name for each in files if each.tree == "home"]
    earlier = [each for each in trash.of_session(deletion.id) if each.entry.home == home]
    with contextlib.ExitStack() as held:
        for name in sorted(mains):
            held.enter_context(locked(Spot(Path(home), name)))
        if kept or any(each.entry.catalogue for each in earlier):
            held.enter_context(lock_mirror(belongings.place))
        for each in (deletion.id, *terms.others):
            refuse_if_opened(each, here, (belongings.home,))
        if terms.if_unchanged:
            _refuse_if_changed(deletion.id, files)
        for trashed in earlier:
            if trash.finish(trashed, held=mains):
                _add(deletion, trashed)
                gone += [file.name for file in trashed.entry.files if file.tree == "home"]
                kept |= {each.name for each in trashed.entry.catalogue}
        with contextlib.suppress(OSError):  # Leftovers of earlier ones do no harm.
            trash.tidy()
        trashed_now = trash.discard(
            deletion.id,
            home,
            [FileToTrash(each.tree, each.name) for each in files],
            why=terms.why,
            now=terms.now,
            grace=terms.grace,
            title=deletion.title,
            catalogue=catalogued(belongings.place, kept) if kept else (),
            others=terms.others,
            held=mains,
        )
        if trashed_now is not None:
            _add(deletion, trashed_now)
        if kept:
            forget_kept(belongings.place, kept)
    return gone


def _refuse_if_changed(session_id: str, files: Iterable[SessionFile]) -> None:
    for each in files:
        try:
            status = os.stat(each.path, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if (status.st_size, status.st_mtime_ns) != (each.size_bytes, each.mtime_ns):
            raise LogLocked(
                f"session {session_id} was written to just now",
                path=each.path,
                hint="it is not as old as it seemed; nothing was changed",
            )


def _add(deletion: Deletion, trashed: TrashedSession) -> None:
    entry = trashed.entry
    deletion.entries = [*deletion.entries, trashed.name]
    deletion.files += len(entry.files)
    deletion.size_bytes += entry.size_bytes
    deletion.title = deletion.title or entry.title
    known = deletion.purge_after_at or entry.purge_after_at
    deletion.purge_after_at = max(known, entry.purge_after_at)


def _take_apart(belongings: SessionFileIndex, session_id: str, gone: Iterable[str]) -> None:
    """Remove a session's leftovers in a home: empty directories, its registry entry."""
    home = Path(os.path.realpath(belongings.home))
    gone = list(gone)
    forget_flat(home, gone, session_id)
    for directory in belongings.directories(session_id):
        remove_empty(home, directory)
    in_projects = (name for name in gone if project_of(name) is not None)
    for project in sorted({"/".join(name.split("/")[:2]) for name in in_projects}):
        remove_empty(home, project)


# -- what was deleted before ----------------------------------------------------------------


def _deleted_before(trash: Trash, homes: Sequence[Home], text: str, *, write: bool) -> Deletion:
    """Finish an earlier deletion; raise NotFound if there never was one."""
    entries = trash.entries()
    in_trash = (session_id for trashed in entries for session_id in trashed.entry.sessions)
    known = _deleted_ids({*in_trash, *trash.journal.deletions()}, text)
    if not known:
        find_any_session(homes, text)  # Raises, and names the places searched.
        raise NotFound(
            f"no session's id begins with {text[:80]!r}",
            hint="list the sessions",
            code="nothing-to-delete",
        )
    deletion = Deletion(id=known[0], was_deleted=True)
    by_home = {os.path.realpath(home): home for home in homes}
    for trashed in entries:
        if known[0] not in trashed.entry.sessions:
            continue
        _add(deletion, trashed)
        home = by_home.get(trashed.entry.home)
        if write and home is not None:  # Only homes that were named are changed.
            with interruption_message(home.path, "delete"):
                _finish(trash, trashed, SessionFileIndex(home))
    return deletion


def _deleted_ids(ids: set[str], text: str) -> list[str]:
    """Return the id that is *text* or begins with it; raise AmbiguousSession if several do."""
    found = [text] if text in ids else [each for each in ids if text and each.startswith(text)]
    if len(found) > 1:
        raise AmbiguousSession(
            f"{text!r} begins the ids of {len(found)} deleted sessions",
            hint="give more characters of the id",
        )
    return found


def _finish(trash: Trash, trashed: TrashedSession, belongings: SessionFileIndex) -> None:
    place = belongings.place
    kept = {file.name for file in trashed.entry.catalogue}
    with contextlib.ExitStack() as held:
        if kept and place.is_dir():
            held.enter_context(lock_mirror(place))
        trash.finish(trashed)
        forget_kept(place, kept)
    names = [file.name for file in trashed.entry.files if file.tree == "home"]
    _take_apart(belongings, trashed.entry.session, names)


def trashed_named(found: Sequence[TrashedSession], name: str) -> list[TrashedSession]:
    """Return the matching entries: one by its name, or all of one session."""
    if entry := [each for each in found if each.name == name]:
        return entry
    if found and name == LATEST:
        return [max(found, key=lambda each: each.entry.deleted_at)]
    ids = _deleted_ids({one for each in found for one in each.entry.sessions}, name)
    if not ids:
        raise NotFound(
            f"nothing in the trash belongs to a session whose id begins with {name[:80]!r}",
            hint="list the trash",
            code="trash-empty",
        )
    return [each for each in found if ids[0] in each.entry.sessions]


def restore_session_from_trash(trash: Trash, found: Sequence[TrashedSession]) -> None:
    """Restore what was deleted of one session; refuse if that was more than once."""
    if len({each.entry.home for each in found}) < len(found):
        names = ", ".join(each.name for each in found)
        raise AmbiguousSession(
            f"this session was deleted several times: {names}", hint="name one of these entries"
        )
    for each in found:
        restore_from_trash(trash, each)


def forget_flat(home: Path, names: Iterable[str], session_id: str) -> None:
    """Remove a session whose files of these names are gone from its store's registry."""
    for directory in flat_stores(home, names):
        forget(directory, session_id)


def remember_flat(home: Path, names: Iterable[str], session_id: str) -> None:
    """Add a session whose files of these names are back to its store's registry."""
    for directory in flat_stores(home, names):
        meta = known_meta(directory, session_id)
        if meta is not None:
            update_registry(directory, meta)
