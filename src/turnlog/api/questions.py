"""What can be asked of the sessions of some homes, each question in one call.

A store answers by these. Times, projects and sessions may be said as on the command line, options
have its names, and answers are the documents that it prints with ``--json``. What is asked for is
imported then: whoever only writes pays for none of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from turnlog.api.arguments import check_count, configured
from turnlog.api.costs import CostQuestions
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from turnlog.catalog.indexed_sessions import IndexedSession, SessionSort
    from turnlog.catalog.resolve import When
    from turnlog.health.logs import Health
    from turnlog.index.connection import Index
    from turnlog.index.refresh.result import RefreshResult
    from turnlog.insights.report import Insights
    from turnlog.query.query import QueryDocument
    from turnlog.query.sql import Parameters, SqlDocument
    from turnlog.search.search import SearchDocument

_ALL: Final = 1_000_000


class Questions(CostQuestions):
    """Answers questions about the sessions of some *homes*; no file of theirs is changed."""

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
        with_agents: bool = False,
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
        last; or *sort* by started, title, records, prompts, tokens, agents, duration or size.
        """
        from turnlog.catalog.indexed_sessions import list_indexed

        within = self._within(since, until, project)
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
                has_agents=with_agents or None,
                archived=archived,
                gone=gone,
                sort=sort,
                reverse=reverse,
                limit=limit or None,
                offset=offset,
            ).sessions

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
        from turnlog.search.search import search
        from turnlog.search.snippets import WIDTH

        within = self._within(since, until, project)
        with self.index() as index:
            return search(
                index,
                text,
                now=datetime.now(UTC),
                zone=within.zone,
                since=within.since,
                until=within.until,
                project=within.project,
                session=self._session(session),
                with_results=with_results,
                newest=newest,
                exact=exact,
                regex=regex,
                limit=limit or _ALL,
                offset=offset,
                context=context,
                per_session=per_session,
                width=WIDTH if width is None else width,
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
        from turnlog.query.query import query
        from turnlog.records.time_zone import MachineZone

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
        from turnlog.query.sql import MOST_ROWS, run_sql

        within = self._within(since, until, project)
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
        from turnlog.insights.report import insights
        from turnlog.insights.scope import Scope

        check_count(limit)
        within = self._within(since, until, project, timezone)
        asked = Scope(**within._asdict(), now=datetime.now(UTC), limit=limit or None)
        if asked.since is not None and asked.until is not None and asked.since >= asked.until:
            raise UsageError("the period ends before it begins", hint="since is before until")
        prices = configured()
        with self.index() as index:
            return insights(index, prices, asked)

    def check(self, text: str | None = None, *, strict: bool = False) -> Health:
        """Check all logs, or those of the session whose id begins with *text*; change nothing.

        ``found.is_well`` says it in a word, ``found.findings`` what is wrong and where. *strict*
        also holds each record to the rules of its type.
        """
        from turnlog.config import load_config
        from turnlog.formats import Problem, find_everywhere, turnlog_home
        from turnlog.health.logs import examine
        from turnlog.sessions.dated import find_any_session
        from turnlog.storage.lines import LINE_CAP
        from turnlog.storage.logger import warn_of_settings

        problems: list[Problem] = []
        if text is None:
            logs = list(find_everywhere(self.homes, problems=problems))
        else:
            logs = list(find_any_session(self.homes, text, problems=problems))
        config = load_config(turnlog_home())
        warn_of_settings(config.problems)
        cap = config.line_cap_bytes or LINE_CAP
        return examine(logs, problems=problems, strict=strict, cap=cap)
