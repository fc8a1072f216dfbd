"""What did we do, how did it go, and what did it cost? One report, every figure defined.

Costs and tokens are the ledger's, grouped in many ways, so they add up to what ``turnlog cost``
says of the same period. Everything else is counted by the index, and what only a log tells (lines
of edits, words of prompts) is read back. docs/insights.md defines each figure, and
``insights_explained`` opens it: it lists the records behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field, structs

from turnlog.catalog.pages import tokens_of
from turnlog.costs.comparison import UsageChange, compare, with_previous_period
from turnlog.costs.ledger import Figures, SkippedDocument, ledger
from turnlog.costs.usage import IndexSource, UsageScan
from turnlog.errors import UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at
from turnlog.insights.cache import Cache, cache_figures, misses_of
from turnlog.insights.calls import CallFigures, SequenceRow, Tally, ToolRow, calls_of
from turnlog.insights.compactions import Compactions, compaction_figures, compactions_of
from turnlog.insights.days import (
    DayRow,
    HeatMap,
    Streaks,
    WeekRow,
    days_of,
    heat_of,
    hours_of,
    last_day,
    streaks_of,
    weeks_of,
)
from turnlog.insights.edits import Edits, edits_of
from turnlog.insights.groups import (
    Done,
    ModelRow,
    ProjectFigures,
    SubagentKindRow,
    models_of,
    projects_of,
    subagents_of,
)
from turnlog.insights.prompts import (
    CommandRow,
    PromptRecord,
    Typed,
    commands_of,
    prompts_by_day,
    prompts_within,
    typed_in,
)
from turnlog.insights.scope import Scope, sessions_of, with_main_log
from turnlog.insights.turns import Turns, turn_figures, turns_among
from turnlog.pricing.cost import Prices
from turnlog.query.errors import ErrorPattern, error_patterns

_WEEK: Final = timedelta(days=7)


class ReportHeader(Struct, kw_only=True):
    """The figures that stand at the top. Averages are null where there were no sessions."""

    sessions: int
    prompts: int
    messages: int
    tokens: int
    cost_usd: str
    calls: int
    failed: int
    failure_rate: float | None
    working_ms: int
    projects: int
    models: int
    most_active_day: str | None
    """The day with the most messages; of several the last."""
    average_messages: float | None
    """Messages of a session."""
    average_prompts: float | None
    average_working_ms: int | None


class Interruptions(Struct, kw_only=True):
    """Where something was cut short."""

    interruptions: int
    """How often a person stopped an agent."""
    unanswered: int
    """Calls whose result never came."""


class WeekAgainstWeek(UsageChange, kw_only=True):
    """The seven days up to the period's end, and the seven before them."""

    since_at: datetime
    until_at: datetime
    tokens: int
    before_tokens: int
    sessions: int
    before_sessions: int
    prompts: int
    before_prompts: int


class Insights(Struct, kw_only=True):
    """What `turnlog insights --json` prints. Lists are cut as asked; totals are of everything."""

    since_at: datetime | None
    until_at: datetime
    project: str | None
    overview: ReportHeader
    totals: Figures
    days: list[DayRow]
    hours: HeatMap
    streaks: Streaks
    weeks: list[WeekRow]
    week_against_week: WeekAgainstWeek | None
    models: list[ModelRow]
    subagents: list[SubagentKindRow]
    projects: list[ProjectFigures]
    tools: list[ToolRow]
    sequences: list[SequenceRow]
    errors: list[ErrorPattern]
    edits: Edits
    cache: Cache
    compactions: Compactions
    interruptions: Interruptions
    turns: Turns
    commands: list[CommandRow]
    skipped: SkippedDocument
    notes: list[str] = field(default_factory=list)


def insights(index: Index, prices: Prices, asked: Scope) -> Insights:
    """Look at everything that happened in a period."""
    scan = IndexSource(index, prices).sums(asked.period)
    book = ledger(scan, prices, asked.by("model"))
    totals = book.totals
    hours = hours_of(scan, prices, asked)
    typed = typed_in(index, asked)
    calls = calls_of(index, asked)
    days = days_of(hours, prompts_by_day(typed.prompts, asked))
    turns = turn_figures(index, turns_among(index, typed), asked)
    models = models_of(book, calls)
    by_project = ledger(scan, prices, asked.by("project"))
    sessions = sessions_in(index, scan, asked, typed.every)
    projects = projects_of(index, scan, by_project, asked, Done(typed.prompts, calls, sessions))
    failed = error_patterns(
        index,
        since=asked.since,
        until=asked.until,
        project=asked.project,
        limit=asked.limit,
        mask=asked.mask,
    )
    misses = misses_of(index, prices, asked)
    overview = _overview(totals, len(sessions), typed, calls.total, turns)
    overview.models = len(models)
    overview.projects = len(projects)
    overview.most_active_day = _most_active(days)
    return Insights(
        since_at=asked.since,
        until_at=asked.end,
        project=asked.project,
        overview=overview,
        totals=totals,
        days=days,
        hours=heat_of(hours),
        streaks=streaks_of((row.day for row in days if row.messages), last_day(asked)),
        weeks=weeks_of(days),
        week_against_week=_week_against_week(index, prices, asked, typed.every),
        models=asked.first(models),
        subagents=asked.first(subagents_of(index, scan, prices, asked)),
        projects=asked.first(projects),
        tools=asked.first(calls.tools),
        sequences=asked.first(calls.sequences),
        errors=failed.errors,
        edits=edits_of(index, asked),
        cache=cache_figures(scan, misses, prices, asked, totals.cache_efficiency),
        compactions=compaction_figures(compactions_of(index, asked)),
        interruptions=_interruptions(typed, calls),
        turns=turns,
        commands=asked.first(commands_of(typed.marks)),
        skipped=book.skipped,
        notes=failed.notes,
    )


def sessions_in(
    index: Index, scan: UsageScan, asked: Scope, every: Sequence[PromptRecord]
) -> set[str]:
    """Name the sessions in which, within the period, somebody prompted or a model answered.

    *every* prompt that there is, wherever it stands: one that a fork carried along was typed in the
    session that was answered.
    """
    known, period = sessions_of(index), asked.period
    answered = {each.session for each in scan.responses if each.session and period.holds(each)}
    standing: dict[int, set[str]] = {}
    for each in every:
        if each.session in known:
            standing.setdefault(each.first, set()).add(known[each.session][0])
    typed = {
        known[each.session][0]
        for each in prompts_within(every, asked)
        if each.session in known and standing[each.record].isdisjoint(answered)
    }
    return (answered | typed) & with_main_log(index)


def last_active(index: Index) -> datetime | None:
    """Return when a model last answered at all."""
    return instant_at(index.db.execute("SELECT max(at) FROM messages").fetchone()[0])


def _overview(
    totals: Figures, sessions: int, typed: Typed, calls: Tally, turns: Turns
) -> ReportHeader:
    prompts = len(typed.prompts)
    return ReportHeader(
        sessions=sessions,
        prompts=prompts,
        messages=totals.messages,
        tokens=tokens_of(totals),
        cost_usd=totals.cost_usd,
        calls=calls.calls,
        failed=calls.failed,
        failure_rate=calls.failure_rate,
        working_ms=turns.working_ms,
        projects=0,
        models=0,
        most_active_day=None,
        average_messages=round(totals.messages / sessions, 1) if sessions else None,
        average_prompts=round(prompts / sessions, 1) if sessions else None,
        average_working_ms=round(turns.working_ms / sessions) if sessions else None,
    )


def _most_active(days: list[DayRow]) -> str | None:
    active = [row for row in days if row.messages]
    return max(active, key=lambda row: (row.messages, row.day)).day if active else None


def _interruptions(typed: Typed, calls: CallFigures) -> Interruptions:
    return Interruptions(
        interruptions=sum(mark.is_interruption for mark in typed.marks),
        unanswered=calls.total.calls - calls.total.answered,
    )


def _week_against_week(
    index: Index, prices: Prices, asked: Scope, prompts: Sequence[PromptRecord]
) -> WeekAgainstWeek | None:
    """Compare the seven days up to the end with the seven before, by the ledger's own rules."""
    try:
        week = structs.replace(asked, since=asked.end - _WEEK, until=asked.end)
        question, earlier = with_previous_period(week.by(), asked.now)
    except (OverflowError, UsageError):  # At the very beginning of the calendar.
        return None
    before = structs.replace(week, since=earlier.period.since, until=earlier.period.until)
    scans = [IndexSource(index, prices).sums(each.period) for each in (question, earlier)]
    books = [ledger(scans[0], prices, question), ledger(scans[1], prices, earlier)]
    typed = [prompts_within(prompts, each) for each in (week, before)]
    active = [
        len(sessions_in(index, scan, each, prompts))
        for scan, each in zip(scans, (week, before), strict=True)
    ]
    return WeekAgainstWeek(
        **structs.asdict(compare(books[0], question, books[1], earlier).totals),
        since_at=asked.end - _WEEK,
        until_at=asked.end,
        tokens=tokens_of(books[0].totals),
        before_tokens=tokens_of(books[1].totals),
        sessions=active[0],
        before_sessions=active[1],
        prompts=len(typed[0]),
        before_prompts=len(typed[1]),
    )
