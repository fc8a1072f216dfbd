"""Delete sessions, list, restore and empty the trash, and apply the retention policy."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from msgspec import Struct, field

from turnlog.api.homes import Home, Problem, find_homes, turnlog_home
from turnlog.errors import NotFound, TurnlogError
from turnlog.keep.retention.expiry import ExpiredSession, Orphan
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.retention.retention import (
    ORPHANED,
    PruneReport,
    prune_configured,
    reset_project,
)
from turnlog.keep.trash.delete import (
    ASKED,
    Deletion,
    DeletionTerms,
    delete_session,
    restore_session_from_trash,
    trashed_named,
)
from turnlog.keep.trash.trash import Trash, TrashedSession
from turnlog.records.dates import is_between
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import read_head_tail

__all__ = [
    "ORPHANED",
    "DeleteDocument",
    "Deletion",
    "ExpiredSession",
    "Orphan",
    "PruneReport",
    "TrashDocument",
    "TrashRow",
    "TrashSelection",
    "delete",
    "find_trashed",
    "homes_to_prune",
    "prune_configured",
    "reset",
    "undelete",
]


class DeleteDocument(Struct, kw_only=True):
    """The output of `turnlog delete --json`."""

    sessions: list[Deletion]


class TrashRow(Struct, kw_only=True):
    """One entry of the trash: files that were deleted together."""

    name: str
    session: str
    others: list[str]
    """Other sessions in the same logs, deleted with it."""
    home: str
    title: str | None
    why: str
    deleted_at: datetime
    purge_after_at: datetime
    is_due: bool
    """True if emptying the trash deletes it."""
    files: int
    size_bytes: int


class TrashProblem(Struct, kw_only=True):
    """Something in the trash that cannot be read; it is not deleted."""

    path: str
    reason: str


class TrashDocument(Struct, kw_only=True):
    """The output of `turnlog trash --json`: entries listed, restored or deleted."""

    entries: list[TrashRow]
    next: int | None = None
    written: bool = False
    """True if the entries were restored or deleted."""
    problems: list[TrashProblem] = field(default_factory=list)


def delete(homes: Sequence[Home], name: str, *, write: bool = True) -> Deletion:
    """Move a session and all its files to the trash; doing it again changes nothing.

    If *write* is false, nothing is moved, and the result has what would be.
    """
    terms = _terms(ASKED)._replace(write=write)
    return delete_session(tuple(homes), name, own=turnlog_home(), terms=terms)


def reset(home: Home, project: str) -> list[Deletion]:
    """Move all sessions of *home* that worked in *project* to the trash, or none of them."""
    terms = _terms(f"reset of {project}")
    return reset_project((home,), project, own=turnlog_home(), terms=terms)


def _terms(reason: str) -> DeletionTerms:
    return DeletionTerms(reason, datetime.now(UTC), load_grace(turnlog_home()))


def undelete(homes: Iterable[Home], name: str) -> str:
    """Restore a session from the trash and return its id; ``latest`` is the last one deleted."""
    selection = find_trashed([os.fspath(home) for home in homes], name=name)
    selection.restore()
    return selection.entries[0].entry.session


def find_trashed(
    homes: Iterable[str] = (),
    *,
    name: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> TrashSelection:
    """Return the entries of the trash, of *homes* and that period alone if they are given.

    *name* is the beginning of a session's id, ``latest`` or the name of an entry; NotFound is
    raised if nothing matches it.
    """
    trash = Trash(turnlog_home())
    problems: list[Problem] = []
    places = {os.path.realpath(home) for home in homes}
    entries = [
        trashed
        for trashed in trash.entries(problems)
        if (not places or trashed.entry.home in places)
        and is_between(trashed.entry.deleted_at, since, until)
    ]
    if name is not None:
        if not entries:
            is_narrowed = bool(places or since or until)
            message = "nothing in the trash matches" if is_narrowed else "the trash is empty"
            raise NotFound(message, hint="list the trash first", code="trash-empty")
        entries = trashed_named(entries, name)
    return TrashSelection(trash, entries, problems)


class TrashSelection:
    """Entries of the trash, to list, restore or remove."""

    def __init__(
        self, trash: Trash, entries: list[TrashedSession], problems: list[Problem]
    ) -> None:
        self._trash = trash
        self.entries = entries
        self.problems = problems

    def summary(self, trashed: TrashedSession) -> SessionSummary | None:
        """Return what the ends of a trashed session's log say, or None."""
        for path in self._trash.logs(trashed):
            with suppress(TurnlogError, OSError):
                return read_head_tail(path).summary
        return None

    def document(self, *, written: bool = False) -> TrashDocument:
        """Return the entries as they are printed."""
        now = datetime.now(UTC)
        return TrashDocument(
            entries=[_row(trashed, now) for trashed in self.entries],
            written=written,
            problems=[
                TrashProblem(path=str(each.path), reason=each.reason) for each in self.problems
            ],
        )

    def restore(self) -> TrashDocument:
        """Put the entries back where they were; never overwrite a file that differs."""
        restore_session_from_trash(self._trash, self.entries)
        self.problems = []
        return self.document(written=True)

    def empty(self, *, everything: bool = False, write: bool = False) -> TrashDocument:
        """Remove the entries whose grace period is over, or *everything*, if *write* is true.

        Entries whose deletion was interrupted stay, and are listed as problems.
        """
        now = datetime.now(UTC)
        due = [trashed for trashed in self.entries if everything or trashed.is_due(now)]
        self.entries = []
        for trashed in due:
            reason = self._trash.why_unfinished(trashed)
            if reason is None:
                self.entries.append(trashed)
            else:
                self.problems.append(Problem(self._trash.path / trashed.name, reason))
        document = self.document(written=write)
        if write:
            for trashed in self.entries:
                self._trash.purge(trashed)
            self._trash.tidy()
        return document


def _row(trashed: TrashedSession, now: datetime) -> TrashRow:
    entry = trashed.entry
    return TrashRow(
        name=trashed.name,
        session=entry.session,
        others=entry.others,
        home=entry.home,
        title=entry.title,
        why=entry.why,
        deleted_at=entry.deleted_at,
        purge_after_at=entry.purge_after_at,
        is_due=trashed.is_due(now),
        files=len(entry.files),
        size_bytes=entry.size_bytes,
    )


def homes_to_prune(names: Sequence[str]) -> tuple[Home, ...]:
    """Return the homes of *names*, or turnlog's own: an agent's home has to be named."""
    if names:
        return find_homes(names)
    own = turnlog_home()
    return (Home(own),) if own.is_dir() else ()
