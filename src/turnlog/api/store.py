"""The store: the sessions of some homes, seen as one; and new ones, written durably.

    with turnlog.open("~/agent") as store:
        with store.create(project=".") as session:
            session.append(turnlog.build.user("Hello"))

Without a root the store is the user's own homes, and what turnlog itself was asked to keep in
``$TURNLOG_HOME``. New sessions go to the root, else to ``$TURNLOG_HOME``; an agent's own home is
written only when it is named. Sessions are found anew at each call: the logs are the truth.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnlog.api.arguments import (
    check_count,
    check_period,
    configured_prices,
    resolve_project,
    resolve_scope,
    resolve_session_id,
)
from turnlog.api.session import KeptSession
from turnlog.api.sessions import SessionRow, list_sessions
from turnlog.errors import NotFound, UsageError
from turnlog.formats import (
    Home,
    LayoutName,
    all_homes,
    check_session_id,
    flat_directory,
    new_session_id,
    turnlog_home,
)
from turnlog.formats.flat.registry import Reindexed, reindex
from turnlog.formats.projects import expand_path
from turnlog.keep.archive.archive import Archived, Unarchived
from turnlog.keep.copies.keep import KeepRun, keep
from turnlog.keep.retention.policy import load_grace
from turnlog.keep.retention.retention import RetentionReport, reset_project, retain_configured
from turnlog.keep.trash.delete import (
    ASKED,
    Deletion,
    DeletionTerms,
    delete_session,
    restore_session_from_trash,
    trashed_named,
)
from turnlog.keep.trash.trash import Trash
from turnlog.sessions.journal import Journal
from turnlog.sessions.reading.follow import FollowedItem, follow_session
from turnlog.sessions.recover import Recovery, examine, recover
from turnlog.sessions.recover_undo import UndoneRecovery, undo_recovery
from turnlog.sessions.session import Session
from turnlog.sessions.state import Running, State, check_move, running_sessions, was_abandoned
from turnlog.sessions.writing import build
from turnlog.sessions.writing.open import open_writer
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage import Closing
from turnlog.storage.writer import Durability, LogWriter

if TYPE_CHECKING:  # Asked for seldom, and imported then: whoever only writes pays for none of it.
    from turnlog.api.arguments import When
    from turnlog.api.costs import (
        BlockLedger,
        BudgetReport,
        CostComparison,
        Explanation,
        Ledger,
        Mode,
        Unit,
    )
    from turnlog.api.health import Health
    from turnlog.api.indexed_sessions import IndexedSession, SessionSort
    from turnlog.api.insights import Insights
    from turnlog.api.query import QueryDocument
    from turnlog.api.search import SearchDocument
    from turnlog.api.sql import Parameters, SqlDocument
    from turnlog.export.conversation import ThreadName
    from turnlog.export.exporter import Shape
    from turnlog.index.connection import Index
    from turnlog.index.refresh.result import RefreshResult
    from turnlog.keep.restore.restore import Restored
    from turnlog.records.dates import Weekday


class Store(Closing):
    """The sessions of some homes, seen as one; *root* is where new ones are written.

    ``turnlog.open`` gives one. Questions have the options of the command line, times, projects and
    sessions may be said as there, and answers are the documents that it prints with ``--json``.

    *text* is always the beginning of a session's id, or ``latest``;
    what several ids begin with is an AmbiguousSession, what none does a NotFound. Sessions are
    written (``create``, ``resume``, ``recover``) under the root alone. What only asks changes no
    log: ``search``, ``query``, ``sql``, ``cost``, ``insights``, ``check``, ``export``, the lists.
    """

    def __init__(self, homes: Iterable[Home], root: Path) -> None:
        self.homes = tuple(homes)
        self.root = root

    def __repr__(self) -> str:
        homes = [os.fspath(home) for home in self.homes]
        return f"Store(homes={homes!r}, root={os.fspath(self.root)!r})"

    def sessions(
        self, *, project: str | os.PathLike[str] | None = None, archived: bool | None = False
    ) -> list[SessionRow]:
        """List the sessions, the one that was active last first, from the logs themselves.

        *project* keeps those that worked in that directory or below it. With *archived* those that
        are archived are listed instead, with None all of them. ``find_sessions`` asks for more.
        """
        within = None if project is None else resolve_project(project, self.homes)
        return list_sessions(self.homes, project=within, archived=archived).sessions

    def find_sessions(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        title: str | None = None,
        model: str | None = None,
        branch: str | None = None,
        tool: str | None = None,
        tag: str | None = None,
        state: str | None = None,
        damaged: bool = False,
        with_subagents: bool = False,
        archived: bool | None = False,
        gone: bool | None = None,
        sort: SessionSort = "active",
        reverse: bool = False,
        limit: int = 0,
        offset: int = 0,
    ) -> list[IndexedSession]:
        """List the sessions that meet all that is asked for, with what the index knows of them.

        *title* and *model* are parts of a name, *branch*, *tool* and *tag* whole names. A session
        is of every time from its first record to its last. *archived* and *gone* sessions alone are
        listed if that is true, among the others if it is None. The first is the one that was active
        last; or *sort* by started, title, records, prompts, tokens, subagents, duration or size.
        """
        from turnlog.api.indexed_sessions import list_indexed

        within = resolve_scope(self.homes, since, until, project)
        with self.index() as index:
            return list_indexed(
                index,
                project=within.project,
                since=within.since,
                until=within.until,
                text_in_title=title,
                model=model,
                branch=branch,
                tool=tool,
                tag=tag,
                state=state,
                has_damage=damaged or None,
                has_subagents=with_subagents or None,
                archived=archived,
                gone=gone,
                sort=sort,
                reverse=reverse,
                limit=limit or None,
                offset=offset,
            ).sessions

    def session(self, text: str) -> KeptSession:
        """Return the session whose id begins with *text*, or the ``latest``."""
        return self._known(KeptSession.find(self.homes, text))

    def index(self) -> Index:
        """Open the index, refreshed, for those who ask it several questions; close it after use.

        Until then it stays as it is, whoever refreshes it: all answers are of one state.
        """
        from turnlog.index.connection import open_fresh

        return open_fresh(self.homes)

    def refresh(self, *, rebuild: bool = False) -> RefreshResult:
        """Bring the index up to date with the logs; with *rebuild*, make it anew.

        Whatever asks the index does this first: it is for those who want it done beforehand.
        """
        from turnlog.index.refresh.refresh import refresh

        return refresh(self.homes, rebuild=rebuild)

    def search(
        self,
        text: str,
        *,
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        with_results: bool = False,
        newest: bool = False,
        exact: bool = False,
        regex: bool = False,
        limit: int = 20,
        offset: int = 0,
        context: int = 0,
        per_session: int | None = None,
        width: int | None = None,
    ) -> SearchDocument:
        """Find what was said; docs/search.md tells what *text* may ask for.

        The best come first, or the *newest*. With *exact* all of *text* is a piece of text, with
        *regex* an expression. *with_results* also looks through what tools answered. *limit* and
        *offset* choose a page (0: no limit), *per_session* bounds the hits of one session;
        *context* adds so many lines around each hit, *width* says how long a snippet is.
        """
        from turnlog.api.search import search

        within = resolve_scope(self.homes, since, until, project)
        with self.index() as index:
            return search(
                index,
                text,
                now=datetime.now(UTC),
                zone=within.zone,
                since=within.since,
                until=within.until,
                project=within.project,
                session=resolve_session_id(session, self.homes),
                with_results=with_results,
                newest=newest,
                exact=exact,
                regex=regex,
                limit=limit,
                offset=offset,
                context=context,
                per_session=per_session,
                width=width,
            )

    def query(
        self,
        resource: str,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
        transform: Mapping[str, Any] | None = None,
        aggregate: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> QueryDocument:
        """Ask about ``entries`` (records), ``messages`` or ``tools`` (calls).

        *filter* chooses rows, as in ``{"role": "user", "project": "."}``; *transform* names the
        fields to ``extract``, or one to ``group_by``; *aggregate* counts or adds up, as in
        ``{"function": "sum", "field": "output"}``; *output* has ``sort_by``, ``sort_order``,
        ``limit`` and ``offset``. A name that does not exist is an error that lists those that do.
        """
        from turnlog.api.query import query
        from turnlog.records.dates import MachineZone

        with self.index() as index:
            return query(index, resource, filter, transform, aggregate, output, zone=MachineZone())

    def sql(
        self,
        statement: str,
        parameters: Parameters = (),
        *,
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        limit: int = 1_000,
        seconds: float = 10,
    ) -> SqlDocument:
        """Ask the views that docs/sql.md lists by one SELECT; *parameters* are for its marks.

        It ends after *limit* rows (0: as many as may be) or so many *seconds*. *since*, *until* and
        *project* narrow the views before the statement sees them. It can change nothing.
        """
        from turnlog.api.sql import MOST_ROWS, run_sql

        within = resolve_scope(self.homes, since, until, project)
        with self.index() as index:
            return run_sql(
                index,
                statement,
                parameters=parameters,
                limit=limit or MOST_ROWS,
                seconds=seconds,
                since=within.since,
                until=within.until,
                project=within.project,
            )

    def cost(
        self,
        *,
        by: str | Iterable[Unit] = "day",
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        model: str | None = None,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
        trend: bool = False,
        limit: int = 0,
        no_index: bool = False,
    ) -> Ledger:
        """Return what was used and what it cost at the API's prices, every response counted once.

        There is one row for each hour, day, week, month, session, project, model, subagent, branch
        or tool, or for each combination: *by* may be ``"model"``, ``"day,model"`` or ``["day",
        "model"]``. It is about the time from *since* up to *until*, about a *project*, a *session*
        by the beginning of its id, or ``latest``, and models with *model* in their names; days are
        those of *timezone*, weeks begin on *week_starts*. Costs are exact, as text:
        ``Decimal(found.totals.cost_usd)``; what has no price is in no cost, and is listed in
        ``found.skipped``.

        *mode* ``recorded`` takes the costs that logs recorded, ``auto`` those where there are any.
        *trend* adds to each row how its cost went. A *limit* keeps the latest rows, or the dearest,
        and leaves the totals. The logs are read if the index cannot be had, or with *no_index*.
        """
        from turnlog.api import costs

        check_count(limit)
        prices = configured_prices()
        asked = costs.cost_question(
            self.homes,
            by,
            since=since,
            until=until,
            project=project,
            session=session,
            model=model,
            timezone=timezone,
            week_starts=week_starts,
            mode=mode,
        )
        with costs.open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            found = costs.cost(source, prices, asked, now=datetime.now(UTC), trend=trend)
        costs.cut_rows(found, asked.by, limit)
        return found

    def compare_costs(
        self,
        *,
        by: str | Iterable[Unit] = "day",
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        model: str | None = None,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
        limit: int = 0,
        no_index: bool = False,
    ) -> CostComparison:
        """Compare the costs from *since* on with those of the period before, row by row."""
        from turnlog.api import costs

        check_count(limit)
        prices = configured_prices()
        asked = costs.cost_question(
            self.homes,
            by,
            since=since,
            until=until,
            project=project,
            session=session,
            model=model,
            timezone=timezone,
            week_starts=week_starts,
            mode=mode,
        )
        with costs.open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            found = costs.compare_costs(source, prices, asked, now=datetime.now(UTC))
        costs.cut_rows(found, asked.by, limit)
        return found

    def explain_cost(
        self,
        row: str,
        *,
        by: str | Iterable[Unit] = "day",
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        model: str | None = None,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
        limit: int = 0,
        no_index: bool = False,
    ) -> Explanation:
        """List the responses behind one *row* of ``cost``, the dearest first.

        A row is called as it is printed, or as the logs have it: ``2026-07-22``, ``fable-5``.
        """
        from turnlog.api import costs

        check_count(limit)
        prices = configured_prices()
        asked = costs.cost_question(
            self.homes,
            by,
            since=since,
            until=until,
            project=project,
            session=session,
            model=model,
            timezone=timezone,
            week_starts=week_starts,
            mode=mode,
        )
        with costs.open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            found = costs.explain_cost(source, prices, asked, row)
        costs.cut_rows(found, (), limit)
        return found

    def blocks(
        self,
        *,
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        model: str | None = None,
        timezone: str | tzinfo | None = None,
        mode: Mode = "calculate",
        limit: int = 0,
        no_index: bool = False,
    ) -> BlockLedger:
        """Return what was used in each five-hour block; of the one that lasts now, how fast."""
        from turnlog.api import costs

        check_count(limit)
        prices = configured_prices()
        asked = costs.cost_question(
            self.homes,
            "hour",
            since=since,
            until=until,
            project=project,
            session=session,
            model=model,
            timezone=timezone,
            mode=mode,
        )
        with costs.open_source(self.homes, prices, no_index=no_index) as source:
            found = costs.blocks(source, prices, asked, now=datetime.now(UTC))
        costs.cut_rows(found, asked.by, limit)
        return found

    def budgets(
        self,
        *,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
    ) -> BudgetReport:
        """Return how much is spent of every budget that config.toml sets, and where it leads."""
        from turnlog.api import costs
        from turnlog.config import load_config
        from turnlog.storage.logger import warn_of_settings

        prices = configured_prices()
        asked = costs.cost_question(
            self.homes, "day", timezone=timezone, week_starts=week_starts, mode=mode
        )
        found, problems = costs.budgets_from(load_config(turnlog_home()).budgets)
        warn_of_settings(problems)
        with costs.open_source(self.homes, prices) as source:
            return costs.budget_report(found, source, prices, asked, now=datetime.now(UTC))

    def insights(
        self,
        *,
        since: When | None = "30d",
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        timezone: str | tzinfo | None = None,
        limit: int = 10,
    ) -> Insights:
        """Report on a period: what was done, how it went, and what it cost.

        docs/insights.md defines every figure. Lists have *limit* rows (0: all of them); without
        *since* it is all of the time.
        """
        from turnlog.api.insights import Scope, insights

        check_count(limit)
        within = resolve_scope(self.homes, since, until, project, timezone)
        asked = Scope(**within._asdict(), now=datetime.now(UTC), limit=limit or None)
        check_period(asked.since, asked.until)
        prices = configured_prices()
        with self.index() as index:
            return insights(index, prices, asked)

    def check(self, text: str | None = None, *, strict: bool = False) -> Health:
        """Check all logs, or those of the session whose id begins with *text*; change nothing.

        ``found.is_well`` says it in a word, ``found.findings`` what is wrong and where. *strict*
        also holds each record to the rules of its type.
        """
        from turnlog.api.health import check

        return check(self.homes, text, strict=strict)

    def create(
        self,
        *,
        project: str | os.PathLike[str] = ".",
        layout: LayoutName = "claude",
        session_id: str | None = None,
        model: str | None = None,
        durability: Durability = "fsync",
    ) -> SessionWriter:
        """Begin a session that works in *project*; its log is there at once.

        *layout* is ``claude``, ``dated`` or ``flat``; *model* is what a flat log says at its head.
        *durability* says when an append returns: ``fsync``, when it is on the disk, or ``flush``,
        when the system has it. A session that is not closed will look as if it had crashed.
        """
        made = check_session_id(session_id) if session_id is not None else new_session_id()
        if session_id is not None and Session.find_exactly((Home(self.root),), made):
            raise UsageError(f"session {made} exists", hint="resume it instead")
        writer = open_writer(self.root, layout, made, project, durability, model=model)
        return self._archivable(writer)

    def resume(
        self,
        text: str,
        *,
        project: str | os.PathLike[str] | None = None,
        durability: Durability = "fsync",
    ) -> SessionWriter:
        """Open a session of this store's root for more; one that is archived is brought back.

        *project* is where it goes on; if not given, where it has worked so far.
        """
        session = self._own(text)
        if session.is_archived or not session.is_at_home:
            session.unarchive()
        state = session.metadata.state
        check_move(state, state if state is State.CREATED else State.RESUMED)
        cwd = project or session.summary.cwd or "."
        writer = open_writer(
            self.root, session.layout, session.id, cwd, durability, session=session
        )
        return self._archivable(writer)

    def go_on(
        self,
        *,
        project: str | os.PathLike[str] = ".",
        idle: timedelta = timedelta(days=1),
        layout: LayoutName = "claude",
        durability: Durability = "fsync",
    ) -> SessionWriter:
        """Open the root's session that was active last in *project*; a new one if it was *idle*."""
        here, since = expand_path(os.fspath(project)), datetime.now(UTC) - idle
        for row in list_sessions((Home(self.root),), project=here).sessions:
            if row.project == here and row.last_active_at and row.last_active_at > since:
                return self.resume(row.id, project=project, durability=durability)
        return self.create(project=project, layout=layout, durability=durability)

    def update(
        self,
        text: str,
        *,
        title: str | None = None,
        tag: str | None = None,
        pinned: bool | None = None,
    ) -> KeptSession:
        """Set what a person sets of a session; an empty title or tag clears it.

        Title and tag go into the session's own log, as Claude Code does it, a pin into the journal.
        """
        session = self.session(text)
        said = build.labels(title, tag)
        if said:
            session.refuse_if_archived()
            with LogWriter(session.path, create=False) as log:
                log.append_many({**each, "sessionId": session.id} for each in said)
        if pinned is not None:
            Journal.in_root(self.root).pin(session.id, pinned=pinned)
        return self._known(KeptSession(session.id, session.logs))

    def archive(self, text: str, *, remove: bool | None = None) -> Archived:
        """Compress a session and all that belongs to it, and leave it out of plain lists.

        *remove* takes the originals away once that is proved; in a flat store it is the rule.
        """
        return self.session(text).archive(remove=remove)

    def unarchive(self, text: str) -> Unarchived:
        """Put an archived session back as it was."""
        return self.session(text).unarchive()

    def keep(self, text: str | None = None) -> KeepRun:
        """Bring turnlog's own copies up to date: of everything, or of one session.

        What is kept stays when the agent deletes its own, and is found like everything else. The
        files are only read; ``run.problems`` says what could not be kept.
        """
        if text is not None:
            return self.session(text).keep()
        return keep(self.homes)

    def restore(
        self,
        text: str,
        *,
        to: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        generation: int | None = None,
        only: str | None = None,
        partial: bool = False,
        replace: bool = False,
    ) -> Restored:
        """Put a kept session back to where its agent finds it, or into the home *to*.

        A session that was kept in several projects is put back in each; what became of the copy
        that was active last is returned.

        It goes on in *project* if one is named. A file that is there and differs is never
        overwritten: then it is an error, and nothing is written. *generation* is what the log was
        before it was rewritten, *only* one part of the session; with *partial*, what does not read
        back is left out. With *replace*, a log that lacks records of its copy is set aside, and the
        copy takes its place.
        """
        from turnlog.keep.restore.restorable import all_mirrors, find_restorable, mirrors
        from turnlog.keep.restore.restore import note_restored, restore, select_copies

        # The user's own homes may be gone altogether, and are not listed any more.
        among = all_mirrors if self.root == turnlog_home() else mirrors
        copies = find_restorable(among(self.homes), text).everywhere
        done = [
            restore(
                each,
                to=to,
                project=project,
                generation=generation,
                only=only,
                partial=partial,
                replace=replace,
            )
            for each in select_copies(copies, project=project, generation=generation, only=only)
        ]
        if to is None and project is None and generation is None:
            note_restored(done)
        return done[0]

    def export(
        self,
        text: str,
        *,
        format: Shape = "md",  # noqa: A002
        thread: ThreadName = "whole",
        turns: int | tuple[int, int | None] | None = None,
        tools: bool = True,
        thinking: bool = True,
        images: bool = True,
        redact: bool = True,
    ) -> str:
        """Return a session as Markdown (``md``), a self-contained page (``html``) or ``json``.

        Secrets are masked unless *redact* is false. *thread* is ``whole``, ``main`` (since the last
        compaction) or ``all`` branches; *turns* is one of them, counted from 1, or the first and
        the last, which may be None for the end.
        """
        from turnlog.export.conversation import ConversationOptions
        from turnlog.export.exporter import exported

        some = (turns, turns) if isinstance(turns, int) else turns
        choice = ConversationOptions(
            thread=thread, turns=some, tools=tools, thinking=thinking, images=images
        )
        return exported(self.session(text), format, choice, is_redacted=redact)

    def delete(self, text: str) -> Deletion:
        """Move a session and all that belongs to it to the trash; doing it again changes nothing.

        Raises LogLocked if it is running, and NotFound if there never was such a session.
        ``undelete`` puts it back.
        """
        own = turnlog_home()
        terms = DeletionTerms(ASKED, datetime.now(UTC), load_grace(own))
        return delete_session(self.homes, text, own=own, terms=terms)

    def undelete(self, text: str) -> KeptSession:
        """Put a deleted session back from the trash; ``latest`` is what was deleted last.

        A file that is there and differs is never overwritten. Where a session was deleted more than
        once, *text* is one of ``deletion.entries``.
        """
        trash = Trash(turnlog_home())
        homes = {os.path.realpath(home) for home in self.homes}
        found = trashed_named([each for each in trash.entries() if each.entry.home in homes], text)
        restore_session_from_trash(trash, found)
        return self.session(found[0].entry.session)

    def reset(self, project: str | os.PathLike[str]) -> list[Deletion]:
        """Move all sessions under this store's root that worked in *project* to the trash.

        If one of them cannot go, because it is running, none does.
        """
        own = turnlog_home()
        path = resolve_project(project, (Home(self.root),))
        terms = DeletionTerms(f"reset of {path}", datetime.now(UTC), load_grace(own))
        return reset_project((Home(self.root),), path, own=own, terms=terms)

    def retain(
        self,
        *,
        days: int | None = None,
        project: str | os.PathLike[str] | None = None,
        with_orphans: bool = False,
        archive_first: bool = False,
        write: bool = False,
    ) -> RetentionReport:
        """Return which sessions under this store's root have expired; with *write*, trash them.

        config.toml sets the policy, which is off unless it is enabled there or *days* are given. If
        it cannot be read, nothing is deleted.
        """
        own = (Home(self.root),)
        return retain_configured(
            own,
            days=days,
            project=None if project is None else resolve_project(project, own),
            with_orphans=with_orphans,
            archive_first=archive_first,
            write=write,
            elsewhere=self.homes,
        )

    def pins(self) -> frozenset[str]:
        """Return the ids of the sessions that are pinned."""
        return Journal.in_root(self.root).pins()

    def running(self) -> dict[str, Running]:
        """Return which sessions Claude Code runs, or ran when it was killed, by id."""
        return running_sessions(self.homes)

    def crashed(self) -> list[SessionRow]:
        """List the sessions whose writer is gone without having said goodbye."""
        running = self.running()
        rows = self.sessions()
        return [row for row in rows if was_abandoned(row.path, row.sharer, running.get(row.id))]

    def examine(self, text: str) -> Recovery:
        """Say what a crash left wrong in a session; nothing is changed."""
        session = self.session(text)
        return examine(session, self.running().get(session.id))

    def recover(self, text: str) -> Recovery:
        """Recover a session of this store's root after a crash; nothing of it is thrown away.

        ``resume`` does not need it. It bridges gaps, so that an agent which resumes it sends all of
        it. If the main thread would end earlier than now, an UnsafeRecovery is raised.
        """
        session = self._own(text)
        return recover(session, partial(self.resume, session.id), self.running().get(session.id))

    def undo_recovery(self, text: str, *, write: bool = True) -> UndoneRecovery:
        """Undo the last recovery of a session; without *write* only say what that does.

        If records appended since then depend on it, an UnsafeRecovery is raised.
        """
        session = self._own(text) if write else self.session(text)
        return undo_recovery(session, self.running().get(session.id), write=write)

    def follow(
        self, text: str, *, from_start: bool = False, stop: threading.Event | None = None
    ) -> Iterator[FollowedItem]:
        """Return what is appended to a session and its subagents, live, until *stop* is set.

        ``each.record`` is the record; it is None where a log was damaged or replaced, and
        ``each.item`` tells. With *from_start*, what stands there already is given first.
        """
        return follow_session(self.session(text), from_start=from_start, stop=stop)

    def reindex(self) -> Reindexed:
        """Rebuild the caches of the root's flat sessions from their logs."""
        directory = flat_directory(self.root)
        return (
            reindex(directory)
            if directory.is_dir()
            else Reindexed(sessions=0, rewritten=0, dropped=0)
        )

    def close(self) -> None:
        """Nothing is held open between calls: this changes nothing."""

    def _known(self, session: KeptSession) -> KeptSession:
        session.root = self.root
        return session

    def _own(self, text: str) -> KeptSession:
        """Find a session that is this store's to write."""
        try:
            return KeptSession.find((Home(self.root),), text)
        except NotFound:
            elsewhere = self.session(text)  # Else the error that says what to type instead.
        raise UsageError(
            f"session {elsewhere.id} is not turnlog's to write: {elsewhere.path}",
            hint="open its home by name, as in turnlog.open(home), to write there",
        )

    def _archivable(self, writer: SessionWriter) -> SessionWriter:
        """Let a writer archive its session when it is closed."""
        writer.archive_with = lambda: self._own(writer.session_id).archive()
        return writer


def open_store(root: str | os.PathLike[str] | None = None) -> Store:
    """Open the sessions under *root*, a directory; without one, the user's own sessions.

    Those are Claude Code's, wherever it keeps them, and turnlog's, to which new ones go. A root is
    made with its first session. To write into an agent's home, name it.
    """
    if root is None:
        own = Home(turnlog_home())  # Also before the first session is in it.
        return Store(dict.fromkeys((*all_homes(), own)), own.path)
    if not os.fspath(root) or "://" in os.fspath(root):
        raise UsageError(f"{os.fspath(root)!r} is no directory", hint="name the one to write to")
    path = Path(root).expanduser().absolute()
    if path.is_file():
        raise UsageError(f"{path} is a file", hint="a store is a directory; read_log reads a log")
    return Store((Home(path),), path)


open = open_store  # noqa: A001 - as in turnlog.open()
