"""Retention: move inactive sessions to the trash, and reset whole projects.

Retention is off by default, and without *write* it only reports what would be deleted, and why. It
works only on the given homes. ``expiry`` finds what has expired; deletion runs under the log's lock
and stops if anything was written meanwhile. With ``archive_first``, a file is deleted only if a
kept copy was read back and is equal byte for byte.

``reset_project`` moves all sessions of one directory, without subdirectories, to the trash. If one
of them is running or shares a log with another project's, none is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

from msgspec import Struct, structs

from turnlog import errors
from turnlog.config import FILE_NAME
from turnlog.formats import FORMATS, Home, Problem, turnlog_home
from turnlog.formats.home_files import project_directories
from turnlog.formats.projects import absolute, expand_path
from turnlog.formats.walk import UnreadablePlace, refuse_unreadable
from turnlog.keep.activity import activity_from_ends, refuse_if_running
from turnlog.keep.catalog import Catalogue, lock_mirror
from turnlog.keep.copies.keep import keep
from turnlog.keep.copies.reader import compare_kept
from turnlog.keep.file_moves import remove_empty
from turnlog.keep.retention import expiry
from turnlog.keep.retention.policy import MOST_DAYS, Policy, is_days, load_policy
from turnlog.keep.session_files import SessionFile, SessionFileIndex
from turnlog.keep.trash.delete import (
    Deletion,
    DeletionTerms,
    delete_found,
    delete_together,
    files_to_delete,
    finish_deletions,
    refuse_if_shared,
)
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.journal import Journal
from turnlog.sessions.state import running_sessions

EXPIRED: Final = "expired"
ORPHANED: Final = "orphaned"

Archive = Callable[[Iterable[Home]], object]
"""Keeps a copy of everything in some homes."""


class PruneReport(Struct, kw_only=True):
    """What `turnlog prune --json` prints: what is or was deleted, what stays and why."""

    is_on: bool
    """Whether sessions expire at all."""
    written: bool
    sessions: list[expiry.ExpiredSession] = []
    """The expired sessions, longest inactive first."""
    spared: list[expiry.SparedSession] = []
    young: int = 0
    """Sessions that are not old enough."""
    orphans: list[expiry.Orphan] = []
    empty: list[str] = []
    """Empty directories."""
    problems: list[Problem] = []


def prune(
    homes: Iterable[Home],
    policy: Policy | None,
    *,
    now: datetime,
    write: bool = False,
    project: str | None = None,
    with_orphans: bool = False,
    elsewhere: Iterable[Home] = (),
    own: Path | None = None,
    archive: Archive = keep,
) -> PruneReport:
    """Return what has expired in *homes* by *policy*; with *write*, move it to the trash.

    Unless the policy is enabled, sessions stay whatever their age. *project* limits it to sessions
    in that directory or below it. With *with_orphans*, files of sessions that do not exist are
    deleted too; *elsewhere* are more homes where they may exist or run.
    """
    is_on = policy is not None and policy.enabled
    run = _Run(tuple(homes), policy, now, own or turnlog_home(), tuple(elsewhere))
    run.report.is_on, run.report.written = is_on, write
    if is_on:
        run.judge(project)
    if with_orphans:
        run.find_orphans()
    if write:
        run.carry_out(archive)
    run.remove_empty_directories(with_orphans=with_orphans)
    run.report.sessions.sort(key=lambda row: row.last_active_at)
    return run.report


def prune_configured(
    homes: Iterable[Home],
    *,
    days: int | None = None,
    project: str | None = None,
    with_orphans: bool = False,
    archive_first: bool = False,
    write: bool = False,
    now: datetime | None = None,
    elsewhere: Iterable[Home] = (),
    own: Path | None = None,
) -> PruneReport:
    """Run `prune` with the policy of config.toml.

    *days* enable retention and replace its ``days``; tables of projects still apply. Raises
    UsageError, and deletes nothing, if a setting is invalid.
    """
    own = own or turnlog_home()
    policy, problems = load_policy(own)
    if days is not None and not is_days(days):
        raise errors.UsageError(
            f"{days!r} is not a number of days from 1 to {MOST_DAYS:,}; nothing is deleted",
            hint="give a whole number of days, such as 30",
        )
    if problems:
        reasons = "; ".join(
            each.reason if each.where == FILE_NAME else f"{each.where}: {each.reason}"
            for each in problems
        )
        raise errors.UsageError(
            f"nothing is deleted, because config.toml is invalid: {reasons}",
            hint=f"fix it: {own / FILE_NAME}",
        )
    if days is not None:
        policy = structs.replace(policy, enabled=True, days=days)
    if archive_first:
        policy = structs.replace(policy, archive_first=True, with_kept=False)
    return prune(
        homes,
        policy,
        now=now or datetime.now(UTC),
        write=write,
        project=expand_path(os.fspath(project)) if project is not None else None,
        with_orphans=with_orphans,
        elsewhere=elsewhere,
        own=own,
    )


class _Run:
    """One run over some homes."""

    def __init__(
        self,
        homes: tuple[Home, ...],
        policy: Policy | None,
        now: datetime,
        own: Path,
        elsewhere: tuple[Home, ...],
    ) -> None:
        self.report = PruneReport(is_on=False, written=False)
        self._homes = homes
        self._elsewhere = elsewhere
        self._trash = Trash(own)
        self._belongings = [SessionFileIndex(home) for home in homes]
        self._groups: list[tuple[SessionFileIndex, list[expiry.Candidate]]] = []
        self._journals = [Journal.in_root(each) for each in {own, *(home.path for home in homes)}]
        for journal in self._journals:
            _refuse_if_pins_are_lost(journal)
        self._problems: list[Problem] = []
        running = running_sessions(self._everywhere, problems=self._problems)
        self._facts = expiry.ExpiryFacts(
            policy=policy or Policy(),
            now=now,
            pins=frozenset[str]().union(*(journal.pins() for journal in self._journals)),
            running=frozenset(each for each, found in running.items() if found.is_alive),
            deleted=frozenset[str]().union(*(journal.deletions() for journal in self._journals)),
        )

    def judge(self, project: str | None) -> None:
        """Find the expired sessions."""
        for belongings in self._belongings:
            found = expiry.ExpiryReview(belongings, self._facts, project)
            self._groups += [(belongings, group) for group in found.groups]
            self.report.sessions += [each.row for group in found.groups for each in group]
            self.report.spared += found.spared
            self.report.young += found.young
            self.report.problems += found.problems

    def find_orphans(self) -> None:
        """Find files of sessions that do not exist.

        There are none if a place where sessions may be could not be read.
        """
        self.report.problems += [
            each for each in self._unreadable if each not in self.report.problems
        ]
        for belongings in self._belongings if not self._unreadable else ():
            found = expiry.find_orphans(belongings, self._known, now=self._facts.now)
            for form in FORMATS:
                place = form.project_directory
                if place is None or belongings.has_any(f"{place}/any"):
                    continue
                in_projects = [each for each in found if form.side_directories & set(each.kinds)]
                found = [each for each in found if each not in in_projects]
                path = Path(belongings.home, place)
                if in_projects:
                    self.report.problems.append(
                        UnreadablePlace(path, f"no session is there: {expiry.UNMOUNTED}")
                    )
            self.report.orphans += found

    def carry_out(self, archive: Archive) -> None:
        """Move what was found to the trash; what cannot be moved is spared with a reason."""
        for journal in self._journals:
            if journal.pins():  # Without pins, a lost event cannot unpin anything.
                journal.attest()
        for belongings in self._belongings:
            finish_deletions(self._trash, belongings)
        not_archived = self._archived(archive) if self._facts.policy.archive_first else None
        for belongings, group in self._groups:
            reason = not_archived
            try:
                files = [each for candidate in group for each in candidate.files]
                reason = reason or self._lacks_copy(belongings, files, archive)
                if reason is None:
                    self._delete(belongings, group)
                    continue
            except (errors.TurnlogError, OSError) as error:
                reason = str(error)
                self._note_failure(error, belongings.home.path)
            for each in group:
                if each.row.trash is None:
                    self._spare(each.row, reason)
        self.report.orphans = [
            self._without(each, not_archived, archive) for each in self.report.orphans
        ]

    def remove_empty_directories(self, *, with_orphans: bool) -> None:
        """List the empty directories; remove them with *write*."""
        if not with_orphans and not self._facts.policy.enabled:
            return
        now, written = self._facts.now, self.report.written
        for belongings in self._belongings:
            has_projects = any(belongings.has_any(f"{each}/any") for each in project_directories())
            is_whole = not belongings.unseen and has_projects
            if not is_whole or (with_orphans and self._unreadable):
                continue
            home = Path(os.path.realpath(belongings.home))
            names = (
                expiry.empty_directories(belongings, self._known, now=now) if with_orphans else []
            )
            names += expiry.empty_projects(belongings, now=now, rest=expiry.TOUCHED)
            gone = [each for each in names if not written or remove_empty(home, each)]
            self.report.empty += [str(home.joinpath(each)) for each in gone]

    def _delete(self, belongings: SessionFileIndex, group: Sequence[expiry.Candidate]) -> None:
        """Delete a session, and with it those that share its logs."""
        terms = DeletionTerms(
            EXPIRED,
            self._facts.now,
            timedelta(days=self._facts.policy.grace_days),
            with_kept=self._facts.policy.with_kept,
            if_unchanged=True,
        )
        logs = {each.row.id: each.logs for each in group}
        done = delete_together(logs, belongings, self._trash, terms)
        for each in group:
            entries = done[each.row.id].entries
            each.row.trash = entries[-1] if entries else None

    def _without(
        self, orphan: expiry.Orphan, not_archived: str | None, archive: Archive
    ) -> expiry.Orphan:
        """Move an orphan to the trash."""
        belongings = next(
            each for each in self._belongings if os.path.realpath(each.home) == orphan.home
        )
        grace = timedelta(days=self._facts.policy.grace_days)
        terms = DeletionTerms(ORPHANED, self._facts.now, grace, with_kept=False, if_unchanged=True)
        files = files_to_delete(belongings, orphan.id, (), with_kept=False)
        try:
            reason = not_archived or self._lacks_copy(belongings, files, archive)
            if reason is None:
                done = delete_found(orphan.id, (), [belongings], self._trash, terms)
        except errors.StorageFull:
            raise
        except (errors.TurnlogError, OSError) as error:
            reason = str(error)
        if reason is not None:
            self.report.problems.append(Problem(Path(orphan.home), f"{orphan.id}: {reason}"))
            return orphan
        return structs.replace(orphan, trash=done.entries[-1] if done.entries else None)

    def _archived(self, archive: Archive) -> str | None:
        """Keep a copy of everything; return what prevented it."""
        try:
            archive(self._homes)
        except (errors.TurnlogError, OSError) as error:
            self._note_failure(error, self._trash.own)
            return f"it could not be archived first: {error}"
        return None

    def _note_failure(self, error: Exception, path: Path) -> None:
        """Note a failure of the machine, which is not a reason to spare something."""
        if isinstance(error, errors.StorageFull):
            raise error  # There is no room for the others either.
        if isinstance(error, OSError) and not isinstance(error, errors.LogLocked | errors.NotALog):
            self.report.problems.append(Problem(path, str(error)))

    def _lacks_copy(
        self, belongings: SessionFileIndex, files: Sequence[SessionFile], archive: Archive
    ) -> str | None:
        """Return a file without a required kept copy; raise BrokenCopy if one differs.

        Such a copy is made again first.
        """
        if not self._facts.policy.archive_first:
            return None
        for is_last in (False, True):
            catalogue = Catalogue.load(belongings.place)
            doubts: dict[str, errors.BrokenCopy] = {}
            for each in files:
                try:
                    if compare_kept(each, belongings.home, catalogue) is None:
                        return f"there is no kept copy of {each.name}"
                except errors.NotFound:
                    continue  # Gone by itself.
                except errors.BrokenCopy as error:
                    doubts[each.name] = error
            if doubts and is_last:
                raise next(iter(doubts.values()))
            if not doubts:
                break
            with lock_mirror(belongings.place):
                catalogue = Catalogue.load(belongings.place)
                catalogue.doubt(doubts.keys() & catalogue.current.keys())
                catalogue.save()
            archive(self._homes)
            files = [each for each in files if each.name in doubts]
        return None

    def _spare(self, row: expiry.ExpiredSession, reason: str) -> None:
        self.report.sessions = [each for each in self.report.sessions if each is not row]
        self.report.spared.append(
            expiry.SparedSession(id=row.id, home=row.home, title=row.title, reason=reason)
        )

    @property
    def _everywhere(self) -> tuple[Home, ...]:
        """The homes where a session may exist, or run."""
        return tuple(dict.fromkeys((*self._homes, *self._elsewhere)))

    @cached_property
    def _existing(self) -> set[str]:
        """The existing sessions."""
        return {
            each for home in self._everywhere for each in expiry.sessions_of(home, self._problems)
        }

    @cached_property
    def _unreadable(self) -> list[UnreadablePlace]:
        """The unreadable places where a session may exist, or be recorded as running."""
        self._existing  # noqa: B018 - Looking for them finds these.
        unseen = [each for each in self._problems if isinstance(each, UnreadablePlace)]
        unseen += [each for belongings in self._belongings for each in belongings.unseen]
        return list(dict.fromkeys(unseen))

    @property
    def _known(self) -> set[str]:
        """The sessions that exist, are being deleted, or run."""
        going = {each.id for each in self.report.sessions}
        return self._existing | going | self._facts.running | self._facts.pins


def _refuse_if_pins_are_lost(journal: Journal) -> None:
    """Raise if a pin may have been lost."""
    if journal.has_shrunk:
        raise errors.LogError(
            f"{journal.path} holds less than it did: pins may have been lost",
            path=journal.path,
            hint="nothing is deleted; put it back from a backup, or pin the sessions again and"
            f" remove {journal.witness}",
        )
    if not journal.is_whole:
        raise errors.LogError(
            f"{journal.path} is damaged, so pins may have been lost",
            path=journal.path,
            hint="nothing is deleted; repair it",
            code="journal-damaged",
        )


def reset_project(
    homes: Iterable[Home], project: str | os.PathLike[str], *, own: Path, terms: DeletionTerms
) -> list[Deletion]:
    """Move all sessions of *homes* in the directory *project* to the trash."""
    wanted = PurePath(absolute(project))
    groups = []
    for home in homes:
        problems: list[Problem] = []
        sessions = expiry.sessions_of(home, problems)
        refuse_unreadable(problems)
        found = {}
        for session_id, logs in sessions.items():
            mains = [log for log in logs if log.kind != "subagent"]
            where = activity_from_ends(session_id, mains).project
            if where is not None and PurePath(where) == wanted:
                found[session_id] = logs
        for session_id, logs in found.items():
            refuse_if_running(session_id, logs, (home,))
            refuse_if_shared(session_id, logs, tuple(found))
        groups += [(home, {each: found[each] for each in ids}) for ids in expiry.sharers(found)]
    trash = Trash(own)
    done = [delete_together(group, SessionFileIndex(home), trash, terms) for home, group in groups]
    return [deletion for each in done for deletion in each.values()]
