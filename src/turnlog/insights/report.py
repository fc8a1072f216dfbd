"""The report of `turnlog insights`: how the work went, and what it cost.

Costs and tokens come from the ledger, so they add up to the figures of ``turnlog cost`` for the
same period. Everything else is counted in the index; lines of edits and words of prompts are read
from the logs. docs/guides/insights.md defines each figure, and ``explanation`` lists the records
behind it.
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
from turnlog.insights import groups
from turnlog.insights.cache import Cache, cache_figures, misses_of
from turnlog.insights.calls import SequenceRow, ToolRow, calls_of
from turnlog.insights.edits import Edits, edits_of
from turnlog.insights.scope import Scope, sessions_of, with_main_log
from turnlog.insights.turns import (
    CommandRow,
    Compactions,
    PromptRecord,
    Turns,
    commands_of,
    compaction_figures,
    compactions_of,
    prompts_by_day,
    prompts_within,
    turn_figures,
    turns_among,
    typed_in,
)
from turnlog.pricing.cost import Prices
from turnlog.query.errors import ErrorPattern, error_patterns

_WEEK: Final = timedelta(days=7)


class ReportHeader(Struct, kw_only=True):
    """The figures at the top. Averages are null without sessions."""

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
    """The day with the most messages; the last of several."""
    average_messages: float | None
    """Messages per session."""
    average_prompts: float | None
    average_working_ms: int | None


class Interruptions(Struct, kw_only=True):
    """What was cut short."""

    interruptions: int
    """How often a person interrupted an agent."""
    unanswered: int
    """Calls without a result."""


class WeekAgainstWeek(UsageChange, kw_only=True):
    """The last seven days of the period, and the seven days before."""

    since_at: datetime
    until_at: datetime
    tokens: int
    before_tokens: int
    sessions: int
    before_sessions: int
    prompts: int
    before_prompts: int


class Insights(Struct, kw_only=True):
    """The result of `turnlog insights --json`. Lists are limited; totals are not."""

    since_at: datetime | None
    until_at: datetime
    project: str | None
    overview: ReportHeader
    totals: Figures
    days: list[groups.DayRow]
    hours: groups.HeatMap
    streaks: groups.Streaks
    weeks: list[groups.WeekRow]
    week_against_week: WeekAgainstWeek | None
    models: list[groups.ModelRow]
    subagents: list[groups.SubagentKindRow]
    projects: list[groups.ProjectFigures]
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
    """Return the report on a period."""
    scan = IndexSource(index, prices).sums(asked.period)
    book = ledger(scan, prices, asked.by("model"))
    totals = book.totals
    hours = ledger(scan, prices, asked.by("hour"))
    typed = typed_in(index, asked)
    calls = calls_of(index, asked)
    days = groups.days_of(hours, prompts_by_day(typed.prompts, asked))
    active_days = [row for row in days if row.messages]
    turns = turn_figures(index, turns_among(index, typed), asked)
    models = groups.models_of(book, calls)
    active = sessions_in(index, scan, asked, typed.every)
    projects = groups.projects_of(
        index,
        scan,
        ledger(scan, prices, asked.by("project")),
        asked,
        prompts=typed.prompts,
        calls=calls,
        active=active,
    )
    failed = error_patterns(
        index,
        since=asked.since,
        until=asked.until,
        project=asked.project,
        limit=asked.limit,
        mask=asked.mask,
    )
    sessions, prompts = len(active), len(typed.prompts)
    overview = ReportHeader(
        sessions=sessions,
        prompts=prompts,
        messages=totals.messages,
        tokens=tokens_of(totals),
        cost_usd=totals.cost_usd,
        calls=calls.total.calls,
        failed=calls.total.failed,
        failure_rate=calls.total.failure_rate,
        working_ms=turns.working_ms,
        projects=len(projects),
        models=len(models),
        most_active_day=max(((row.messages, row.day) for row in active_days), default=(0, None))[1],
        average_messages=round(totals.messages / sessions, 1) if sessions else None,
        average_prompts=round(prompts / sessions, 1) if sessions else None,
        average_working_ms=round(turns.working_ms / sessions) if sessions else None,
    )
    misses = misses_of(index, prices, asked)
    return Insights(
        since_at=asked.since,
        until_at=asked.end,
        project=asked.project,
        overview=overview,
        totals=totals,
        days=days,
        hours=groups.heat_of(hours),
        streaks=groups.streaks_of((row.day for row in active_days), groups.last_day(asked)),
        weeks=groups.weeks_of(days),
        week_against_week=_week_against_week(index, prices, asked, typed.every),
        models=asked.first(models),
        subagents=asked.first(groups.subagents_of(index, scan, prices, asked)),
        projects=asked.first(projects),
        tools=asked.first(calls.tools),
        sequences=asked.first(calls.sequences),
        errors=failed.errors,
        edits=edits_of(index, asked),
        cache=cache_figures(scan, misses, prices, asked, totals.cache_efficiency),
        compactions=compaction_figures(compactions_of(index, asked)),
        interruptions=Interruptions(
            interruptions=sum(mark.is_interruption for mark in typed.marks),
            unanswered=calls.total.calls - calls.total.answered,
        ),
        turns=turns,
        commands=asked.first(commands_of(typed.marks)),
        skipped=book.skipped,
        notes=failed.notes,
    )


def sessions_in(
    index: Index, scan: UsageScan, asked: Scope, every: Sequence[PromptRecord]
) -> set[str]:
    """Return the sessions with a prompt or a response within the period.

    *every* holds all prompts with their copies: a prompt that a fork copied belongs to the session
    that has the responses.
    """
    known, period = sessions_of(index), asked.period
    answered = {
        response.session
        for response in scan.responses
        if response.session and period.holds(response)
    }
    copies: dict[int, set[str]] = {}
    for prompt in every:
        if prompt.session in known:
            copies.setdefault(prompt.first, set()).add(known[prompt.session][0])
    typed = {
        known[prompt.session][0]
        for prompt in prompts_within(every, asked)
        if prompt.session in known and copies[prompt.record].isdisjoint(answered)
    }
    return (answered | typed) & with_main_log(index)


def last_active(index: Index) -> datetime | None:
    """Return the time of the last response."""
    return instant_at(index.db.execute("SELECT max(at) FROM messages").fetchone()[0])


def _week_against_week(
    index: Index, prices: Prices, asked: Scope, prompts: Sequence[PromptRecord]
) -> WeekAgainstWeek | None:
    """Compare the last seven days with the seven before, as `turnlog cost --compare` does."""
    try:
        week = structs.replace(asked, since=asked.end - _WEEK, until=asked.end)
        question, earlier = with_previous_period(week.by(), asked.now)
    except (OverflowError, UsageError):  # At the beginning of the calendar.
        return None
    before = structs.replace(week, since=earlier.period.since, until=earlier.period.until)
    source = IndexSource(index, prices)
    scans = [source.sums(question.period), source.sums(earlier.period)]
    books = [ledger(scans[0], prices, question), ledger(scans[1], prices, earlier)]
    return WeekAgainstWeek(
        **structs.asdict(compare(books[0], question, books[1], earlier).totals),
        since_at=asked.end - _WEEK,
        until_at=asked.end,
        tokens=tokens_of(books[0].totals),
        before_tokens=tokens_of(books[1].totals),
        sessions=len(sessions_in(index, scans[0], week, prompts)),
        before_sessions=len(sessions_in(index, scans[1], before, prompts)),
        prompts=len(prompts_within(prompts, week)),
        before_prompts=len(prompts_within(prompts, before)),
    )
