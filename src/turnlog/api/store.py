"""The store: the sessions of some homes as one, and new sessions written durably.

    with turnlog.open("~/agent") as store:
        with store.create(project=".") as session:
            session.append(turnlog.build.user("Hello"))

Without a root the store contains the user's own homes and the sessions in ``$TURNLOG_HOME``. New
sessions go to the root, else to ``$TURNLOG_HOME``; an agent's home is written only when it is
named. Each call looks for sessions again: nothing is cached between calls.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from turnlog.api.sessions.kept_session import KeptSession
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
from turnlog.sessions.journal import Journal
from turnlog.sessions.session import Session
from turnlog.sessions.state import Running, State, check_move, running_sessions, was_abandoned
from turnlog.sessions.writing import build
from turnlog.sessions.writing.open import open_writer
from turnlog.sessions.writing.writer import SessionWriter
from turnlog.storage import Closing
from turnlog.storage.writer import Durability, LogWriter

if TYPE_CHECKING:  # Imported on use: most programs need few of them.
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
    from turnlog.api.health.logs import Health
    from turnlog.api.index import Index
    from turnlog.api.insights import Insights
    from turnlog.api.keep.copies import KeepRun
    from turnlog.api.keep.restore import Archived, Restored, Unarchived
    from turnlog.api.keep.trash import Deletion, PruneReport
    from turnlog.api.query import Parameters, QueryDocument, SqlDocument
    from turnlog.api.refresh import RefreshResult
    from turnlog.api.search import SearchDocument
    from turnlog.api.sessions.lists import IndexedSession, SessionRow, SessionSort
    from turnlog.export.conversation import ToolDetail
    from turnlog.export.exporter import Shape
    from turnlog.records.dates import Weekday
    from turnlog.sessions.reading.follow import FollowedItem
    from turnlog.sessions.recover import Recovery
    from turnlog.sessions.recover_undo import UndoneRecovery


class Store(Closing):
    """The sessions of some homes as one; new ones are written to *root*.

    ``turnlog.open`` returns one. Methods have the options of the command line, accept times,
    projects and sessions in the same form, and return the documents that ``--json`` prints.

    *text* is always the beginning of a session's id, or ``latest``; an ambiguous one raises
    AmbiguousSession, an unknown one NotFound. Sessions are written (``create``, ``resume``,
    ``recover``) under the root only. ``search``, ``query``, ``sql``, ``cost``, ``insights``,
    ``check``, ``export`` and the lists change no log.
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
        """List sessions from the logs, the last active one first.

        *project* limits them to that directory and below. *archived* lists archived sessions
        instead, None both. ``find_sessions`` has more filters.
        """
        from turnlog.api.sessions.lists import list_sessions

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
        agent: str | None = None,
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
        """List the sessions that match all filters, with their figures from the index.

        *title* and *model* are parts of a name, *branch*, *tool*, *tag* and *agent* whole names. A
        period matches sessions that overlap it. *archived* and *gone* list only such sessions if
        true, all if None. The last active one comes first; or *sort* by started, title, project,
        records, prompts, tokens, cost, subagents, errors, duration or size.
        """
        from turnlog.api.arguments import configured_prices
        from turnlog.api.sessions.lists import SessionCosts, list_indexed

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
                agent=agent,
                state=state,
                has_damage=damaged or None,
                has_subagents=with_subagents or None,
                archived=archived,
                gone=gone,
                sort=sort,
                reverse=reverse,
                limit=limit or None,
                offset=offset,
                costs=SessionCosts(index, configured_prices()),
            ).sessions

    def session(self, text: str) -> KeptSession:
        """Return the session whose id begins with *text*, or the ``latest``."""
        return self._known(KeptSession.find(self.homes, text))

    def index(self) -> Index:
        """Refresh and open the index for several queries; close it after use.

        It is a snapshot: refreshes by others do not change it.
        """
        from turnlog.api.index import open_fresh

        return open_fresh(self.homes)

    def refresh(self, *, rebuild: bool = False) -> RefreshResult:
        """Bring the index up to date with the logs, or *rebuild* it.

        All methods that use the index do this first.
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
        all_words: bool = False,
        exact: bool = False,
        regex: bool = False,
        flat: bool = False,
        limit: int = 20,
        offset: int = 0,
        context: int = 0,
        per_session: int | None = None,
        width: int | None = None,
    ) -> SearchDocument:
        """Search all text: ``store.search("how did we fix the flaky retry?")``.

        docs/guides/search.md describes the query language. The best sessions come first, each with
        its best hits; with *flat* the best hits, with *newest* the newest. A hit may lack some of
        the words, unless *all_words*. With *exact*, *text* is searched for as it is, with *regex*
        as a regular expression. *with_results* includes the results of tools. *limit* and *offset*
        choose a page (0: no limit), *per_session* limits the hits of one session, *context* adds
        that many lines around each hit, *width* is the length of a snippet.
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
                all_words=all_words,
                exact=exact,
                regex=regex,
                flat=flat,
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
        *,
        where: Sequence[str] = (),
    ) -> QueryDocument:
        """Query ``entries`` (records), ``messages`` or ``tools`` (calls).

        *filter* selects rows, as in ``{"role": "user", "project": "."}``; *transform* names the
        fields to ``extract``, or one to ``group_by``; *aggregate* counts or sums, as in
        ``{"function": "sum", "field": "output"}``; *output* has ``sort_by``, ``sort_order``,
        ``limit`` and ``offset``; *where* has comparisons that all rows must meet, as in
        ``["status=error", "tool~^mcp"]``. An unknown name is an error that lists the known ones.
        """
        from turnlog.api.query import query
        from turnlog.records.dates import MachineZone

        parts = (filter, transform, aggregate, output)
        with self.index() as index:
            return query(index, resource, *parts, where=where, zone=MachineZone())

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
        """Run one SELECT over the views in docs/sql.md; *parameters* are for its placeholders.

        It ends after *limit* rows (0: no limit) or that many *seconds*. *since*, *until* and
        *project* restrict the views. It is read-only.
        """
        from turnlog.api.query import MOST_ROWS, run_sql

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
        week_starts: Weekday | None = None,
        mode: Mode = "calculate",
        trend: bool = False,
        limit: int = 0,
        no_index: bool = False,
    ) -> Ledger:
        """Return usage and its cost at API prices, every response counted once.

        There is one row for each hour, day, week, month, session, project, model, subagent, branch,
        tool or tag, or for each combination: *by* may be ``"model"``, ``"day,model"`` or ``["day",
        "model"]``. Filters are the period from *since* up to *until*, a *project*, a *session*, and
        models with *model* in their names. Days are those of *timezone*. Weeks begin on
        *week_starts*, or as config.toml says. Costs are exact, as text:
        ``Decimal(report.totals.cost_usd)``. Usage without a price is listed in ``report.skipped``.

        *mode* ``recorded`` uses the costs in the logs, ``auto`` uses them where there are any.
        *trend* adds the course of the cost to each row. A *limit* keeps the latest rows, or the
        most expensive ones; totals stay. Without an index, or with
        *no_index*, the logs are read.
        """
        from turnlog.api import costs

        question = costs.cost_question(
            self.homes, by, since, until, project, session, model, timezone, week_starts, mode
        )
        ask = partial(costs.cost, now=datetime.now(UTC), trend=trend)
        return costs.report(self.homes, question, ask, limit=limit, no_index=no_index)

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
        week_starts: Weekday | None = None,
        mode: Mode = "calculate",
        limit: int = 0,
        no_index: bool = False,
    ) -> CostComparison:
        """Compare the costs from *since* on with those of the period before, row by row."""
        from turnlog.api import costs

        question = costs.cost_question(
            self.homes, by, since, until, project, session, model, timezone, week_starts, mode
        )
        ask = partial(costs.compare_costs, now=datetime.now(UTC))
        return costs.report(self.homes, question, ask, limit=limit, no_index=no_index)

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
        week_starts: Weekday | None = None,
        mode: Mode = "calculate",
        limit: int = 0,
        no_index: bool = False,
    ) -> Explanation:
        """Return why one *row* of ``cost`` is what it is: counts times rates, and its responses.

        A row is named as it is printed or as in the logs: ``2026-07-22``, ``fable-5``. ``total``
        is the sum of all rows.
        """
        from turnlog.api import costs

        question = costs.cost_question(
            self.homes, by, since, until, project, session, model, timezone, week_starts, mode
        )
        ask = partial(costs.explain_cost, row=row)
        return costs.report(self.homes, question, ask, limit=limit, no_index=no_index)

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
        """Return the usage of each five-hour block, and the rate of the current one."""
        from turnlog.api import costs

        question = costs.cost_question(
            self.homes, "hour", since, until, project, session, model, timezone, mode=mode
        )
        ask = partial(costs.blocks, now=datetime.now(UTC))
        return costs.report(self.homes, question, ask, limit=limit, no_index=no_index)

    def budgets(
        self,
        *,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday | None = None,
        mode: Mode = "calculate",
    ) -> BudgetReport:
        """Return how much of every budget in config.toml is spent, with a forecast."""
        from turnlog.api import costs

        question = costs.cost_question(
            self.homes, "day", timezone=timezone, week_starts=week_starts, mode=mode
        )
        return costs.configured_budgets(self.homes, question)

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

        docs/guides/insights.md defines every figure. Lists have *limit* rows (0: all of them). With
        *since* None, the period has no beginning.
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

        ``health.is_well`` is the verdict, ``health.findings`` lists the problems. *strict* also
        checks each record against the rules of its type.
        """
        from turnlog.api.health.logs import check

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
        """Create a session that works in *project*, and its log.

        *layout* is ``claude``, ``dated`` or ``flat``; *model* goes into the head of a flat log. An
        append returns when the record is on disk (*durability* ``fsync``) or with the operating
        system (``flush``). A session that is not closed looks crashed.
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
        """Open a session of this store's root for appending; unarchive it if needed.

        *project* is its working directory from now on, by default the same as before.
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
        """Resume the root's last active session in *project*, or create one after *idle*."""
        from turnlog.api.sessions.lists import list_sessions

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
        """Set the title, tag or pin of a session; an empty title or tag clears it.

        A comma separates several tags. Title and tag go into the session's log, as Claude Code
        does it, pins into the journal.
        """
        session = self.session(text)
        labels = build.labels(title, tag)
        if labels:
            session.refuse_if_archived()
            with LogWriter(session.path, create=False) as log:
                log.append_many({**label, "sessionId": session.id} for label in labels)
        if pinned is not None:
            Journal.in_root(self.root).pin(session.id, pinned=pinned)
        return self._known(KeptSession(session.id, session.logs))

    def archive(self, text: str, *, remove: bool | None = None) -> Archived:
        """Compress a session and all its files, and leave it out of plain lists.

        *remove* deletes the originals after the archive was read back and compared; in a flat
        store that is the default.
        """
        return self.session(text).archive(remove=remove)

    def unarchive(self, text: str) -> Unarchived:
        """Restore an archived session to where it was."""
        return self.session(text).unarchive()

    def keep(self, text: str | None = None) -> KeepRun:
        """Update turnlog's own copies of everything, or of one session.

        Kept sessions stay when the agent deletes its files, and are found like all others.
        ``run.problems`` lists what could not be kept.
        """
        if text is not None:
            return self.session(text).keep()
        from turnlog.api.keep.copies import keep

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
        """Restore a kept session to where its agent finds it, or into the home *to*.

        A session that was kept in several projects is restored in each; the result of its last
        active copy is returned. A file that exists and differs is never overwritten: it is an
        error, and nothing is written.

        *project* is its new working directory. *generation* is the log before it was rewritten,
        *only* one part of the session. *partial* leaves out what cannot be read back. *replace*
        renames a log that lacks records of its copy, and puts the copy in its place.
        """
        from turnlog.api.keep.restore import RestoreOptions, restore_session

        wanted = RestoreOptions(
            to=to,
            project=project,
            generation=generation,
            only=only,
            partial=partial,
            replace=replace,
        )
        everywhere = self.root == turnlog_home()  # The user's homes may be gone by now.
        return restore_session(self.homes, text, wanted, everywhere=everywhere)

    def export(
        self,
        text: str,
        *,
        format: Shape = "md",  # noqa: A002
        thread: str = "whole",
        turns: int | tuple[int, int | None] | None = None,
        tools: ToolDetail = "full",
        thinking: bool = True,
        images: bool = True,
        redact: bool = True,
        anonymize: bool = False,
    ) -> str:
        """Return a session as Markdown (``md``), a self-contained page (``html``) or ``json``.

        Secrets are masked unless *redact* is false. *anonymize* replaces home directories, user
        names and host names. *thread* is ``whole``, ``current`` (since the last compaction),
        ``all`` branches, or the beginning of a record's uuid for the thread up to it. *turns* is
        one turn, counted from 1, or the first and last (None for the end). *tools* is ``none``,
        ``line`` (one line for each call) or ``full``.
        """
        from turnlog.api.export import pseudonyms_here
        from turnlog.export.conversation import ConversationOptions
        from turnlog.export.exporter import exported

        options = ConversationOptions(
            thread=thread,
            turns=(turns, turns) if isinstance(turns, int) else turns,
            tools=tools,
            thinking=thinking,
            images=images,
        )
        names = pseudonyms_here() if anonymize else None
        found = self.session(text)
        return exported(found, format, options, is_redacted=redact, pseudonyms=names)

    def delete(self, text: str) -> Deletion:
        """Move a session and all its files to the trash; doing it again changes nothing.

        Raises LogLocked if it is running, and NotFound if there never was such a session.
        ``undelete`` restores it.
        """
        from turnlog.api.keep.trash import delete

        return delete(self.homes, text)

    def undelete(self, text: str) -> KeptSession:
        """Restore a deleted session from the trash; ``latest`` is the last one deleted.

        A file that exists and differs is never overwritten. If a session was deleted more than
        once, *text* is one of ``deletion.entries``.
        """
        from turnlog.api.keep.trash import undelete

        return self.session(undelete(self.homes, text))

    def reset(self, project: str | os.PathLike[str]) -> list[Deletion]:
        """Move all sessions under this store's root that worked in *project* to the trash.

        If one of them cannot be deleted, because it is running, none is.
        """
        from turnlog.api.keep.trash import reset

        home = Home(self.root)
        return reset(home, resolve_project(project, (home,)))

    def prune(
        self,
        *,
        days: int | None = None,
        project: str | os.PathLike[str] | None = None,
        with_orphans: bool = False,
        archive_first: bool = False,
        write: bool = False,
    ) -> PruneReport:
        """Return which sessions under this store's root have expired; with *write*, trash them.

        config.toml sets the policy, which is off unless it is enabled there or *days* are given. If
        it cannot be read, nothing is deleted.
        """
        from turnlog.api.keep.trash import prune_configured

        own = (Home(self.root),)
        return prune_configured(
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
        """Return the sessions that Claude Code runs, or ran when it was killed, by id."""
        return running_sessions(self.homes)

    def crashed(self) -> list[SessionRow]:
        """List the sessions whose writer ended without closing them."""
        running = self.running()
        rows = self.sessions()
        return [row for row in rows if was_abandoned(row.path, row.sharer, running.get(row.id))]

    def examine(self, text: str) -> Recovery:
        """Return what a crash left wrong in a session; change nothing."""
        from turnlog.sessions.recover import examine

        session = self.session(text)
        return examine(session, self.running().get(session.id))

    def recover(self, text: str) -> Recovery:
        """Recover a session of this store's root after a crash; nothing is lost.

        It bridges gaps, so that an agent that resumes the session sends all of it; ``resume`` does
        not need it. Raises UnsafeRecovery if the main thread would end earlier than now.
        """
        from turnlog.sessions.recover import recover

        session = self._own(text)
        return recover(session, partial(self.resume, session.id), self.running().get(session.id))

    def undo_recovery(self, text: str, *, write: bool = True) -> UndoneRecovery:
        """Undo the last recovery of a session; without *write*, only return what that would do.

        Raises UnsafeRecovery if records appended since then depend on it.
        """
        from turnlog.sessions.recover_undo import undo_recovery

        session = self._own(text) if write else self.session(text)
        return undo_recovery(session, self.running().get(session.id), write=write)

    def follow(
        self, text: str, *, from_start: bool = False, stop: threading.Event | None = None
    ) -> Iterator[FollowedItem]:
        """Yield what is appended to a session and its subagents, live, until *stop* is set.

        ``followed.record`` is the record; if it is None, ``followed.item`` is the damage, or says
        that the log was replaced. *from_start* begins with the existing records.
        """
        from turnlog.sessions.reading.follow import follow_session

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
        """Do nothing: a store holds nothing open between calls."""

    def _known(self, session: KeptSession) -> KeptSession:
        session.root = self.root
        return session

    def _own(self, text: str) -> KeptSession:
        """Return a session that this store may write."""
        try:
            return KeptSession.find((Home(self.root),), text)
        except NotFound:
            elsewhere = self.session(text)  # Or raise an error that names similar sessions.
        raise UsageError(
            f"session {elsewhere.id} is not turnlog's to write: {elsewhere.path}",
            hint="open its home by name, as in turnlog.open(home), to write there",
        )

    def _archivable(self, writer: SessionWriter) -> SessionWriter:
        """Allow a writer to archive its session when it is closed."""
        writer.archive_with = lambda: self._own(writer.session_id).archive()
        return writer


def open_store(root: str | os.PathLike[str] | None = None) -> Store:
    """Open the sessions under the directory *root*; without one, the user's own sessions.

    Those are Claude Code's and turnlog's; new ones go to turnlog's. The root is created with its
    first session. To write into an agent's home, name it.
    """
    if root is None:
        own = Home(turnlog_home())  # Even before it contains a session.
        return Store(dict.fromkeys((*all_homes(), own)), own.path)
    if not os.fspath(root) or "://" in os.fspath(root):
        raise UsageError(f"{os.fspath(root)!r} is no directory", hint="name the one to write to")
    path = Path(root).expanduser().absolute()
    if path.is_file():
        raise UsageError(f"{path} is a file", hint="a store is a directory; read_log reads a log")
    return Store((Home(path),), path)


open = open_store  # noqa: A001 - as in turnlog.open()
