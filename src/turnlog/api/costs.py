"""What a store tells of costs: the documents that ``turnlog cost`` prints with ``--json``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from turnlog.api.arguments import Arguments, check_count, configured, number_of

if TYPE_CHECKING:
    from turnlog.catalog.resolve import When
    from turnlog.costs.blocks import BlockLedger
    from turnlog.costs.budgets import BudgetReport
    from turnlog.costs.comparison import CostComparison
    from turnlog.costs.ledger import Explanation, Ledger, Question, Unit
    from turnlog.pricing.cost import Mode
    from turnlog.records.time_zone import Weekday


class CostQuestions(Arguments):
    """Answers what was used and what it cost."""

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

        There is one row for each hour, day, week, month, session, project, model, agent, branch or
        tool, or for each combination: *by* may be ``"model"``, ``"day,model"`` or ``["day",
        "model"]``. It is about the time from *since* up to *until*, about a *project*, a *session*
        by the beginning of its id, or ``latest``, and models with *model* in their names; days are
        those of *timezone*, weeks begin on *week_starts*. Costs are exact, as text:
        ``Decimal(found.totals.cost_usd)``; what has no price is in no cost, and is listed in
        ``found.skipped``.

        *mode* ``recorded`` takes the costs that logs recorded, ``auto`` those where there are any.
        *trend* adds to each row how its cost went. A *limit* keeps the latest rows, or the dearest,
        and leaves the totals. The logs are read if the index cannot be had, or with *no_index*.
        """
        from turnlog.costs.ledger import cut_rows, ledger
        from turnlog.costs.source import open_source, usage_for
        from turnlog.costs.trends import add_trends, trends

        check_count(limit)
        prices = configured()
        asked = self._asked(
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
        with open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            scan = usage_for(source, asked)
            found = ledger(scan, prices, asked)
            cut_rows(found, asked.by, limit)
            if trend:
                add_trends(found, trends(scan, prices, asked, now=datetime.now(UTC)))
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
        from turnlog.costs.comparison import compare, with_the_one_before
        from turnlog.costs.ledger import cut_rows, ledger
        from turnlog.costs.source import open_source, usage_for

        check_count(limit)
        prices = configured()
        asked = self._asked(
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
        asked, before = with_the_one_before(asked, datetime.now(UTC))
        with open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            books = [ledger(usage_for(source, each), prices, each) for each in (asked, before)]
        found = compare(books[0], asked, books[1], before)
        cut_rows(found, asked.by, limit)
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
        from turnlog.costs.ledger import cut_rows, explain
        from turnlog.costs.source import open_source, usage_for

        check_count(limit)
        prices = configured()
        asked = self._asked(
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
        with open_source(
            self.homes, prices, no_index=no_index, is_traced=asked.is_traced
        ) as source:
            found = explain(usage_for(source, asked, is_single=True), prices, asked, row)
        cut_rows(found, (), limit)
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
        from turnlog.costs.blocks import blocks, responses_about
        from turnlog.costs.ledger import cut_rows
        from turnlog.costs.source import open_source

        check_count(limit)
        prices = configured()
        asked = self._asked(
            "hour",
            since=since,
            until=until,
            project=project,
            session=session,
            model=model,
            timezone=timezone,
            mode=mode,
        )
        with open_source(self.homes, prices, no_index=no_index) as source:
            scan = responses_about(source, asked.period)
        now = datetime.now(UTC)
        found = blocks(scan, prices, now=now, period=asked.period, mode=asked.mode)
        cut_rows(found, asked.by, limit)
        return found

    def budgets(
        self,
        *,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
    ) -> BudgetReport:
        """Return how much is spent of every budget that config.toml sets, and where it leads."""
        from turnlog.config import load_config
        from turnlog.costs.budgets import budget_report, budgets_from
        from turnlog.costs.source import open_source
        from turnlog.formats import turnlog_home
        from turnlog.storage.logger import warn_of_settings

        prices = configured()
        asked = self._asked("day", timezone=timezone, week_starts=week_starts, mode=mode)
        found, problems = budgets_from(load_config(turnlog_home()).budgets)
        warn_of_settings(problems)
        with open_source(self.homes, prices) as source:
            return budget_report(found, source, prices, asked, now=datetime.now(UTC))

    def _asked(
        self,
        by: str | Iterable[Unit],
        *,
        since: When | None = None,
        until: When | None = None,
        project: str | os.PathLike[str] | None = None,
        session: str | None = None,
        model: str | None = None,
        timezone: str | tzinfo | None = None,
        week_starts: Weekday = "monday",
        mode: Mode = "calculate",
    ) -> Question:
        from turnlog.catalog.period import Period
        from turnlog.costs.ledger import Question, units_named

        within = self._within(since, until, project, timezone)
        return Question(
            by=units_named(by),
            zone=within.zone,
            week_starts=number_of(week_starts),
            period=Period(
                since=within.since,
                until=within.until,
                project=within.project,
                model=model,
                session=self._session(session),
            ),
            mode=mode,
        )
