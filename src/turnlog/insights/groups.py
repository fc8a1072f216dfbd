"""Usage by model, subagent, project, day, week and hour of the week, from the ledger.

A subagent has the kind that the call which started it named, if any. A session belongs to the
project of its usage in the ledger or, without usage, to the one it began in.

A day is active if a model responded on it. A streak is a run of active days; the current one
includes the last day of the period or the day before, since the last one may not be over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct, structs

from turnlog.costs.ledger import Figures, Ledger, ledger, sum_of
from turnlog.costs.usage import UsageScan, every_response
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS
from turnlog.insights.calls import CallFigures, Tally
from turnlog.insights.scope import NOTHING, Scope, figures_in, sessions_of
from turnlog.insights.turns import PromptRecord
from turnlog.pricing.cost import Prices
from turnlog.pricing.money import total_usd
from turnlog.records.dates import LocalTimes
from turnlog.records.responses import Response

MAIN: Final = "main"
"""The kind of responses in a session itself, not in one of its subagents."""
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS: Final = 24
_DAY: Final = timedelta(days=1)


class ModelRow(Figures, kw_only=True):
    """The usage of a model and the calls it made."""

    model: str
    cost_share: float | None
    """Its share of the total cost."""
    usd_per_message: str | None
    """Rounded to six decimals."""
    output_per_message: int | None
    calls: int
    failed: int
    failure_rate: float | None


class SubagentKindRow(Figures, kw_only=True):
    """The usage of subagents of one kind; sessions themselves have the kind main."""

    kind: str | None
    subagents: int
    cost_share: float | None


class ProjectFigures(Figures, kw_only=True):
    """The usage of a project, its sessions, prompts and calls."""

    project: str | None
    sessions: int
    prompts: int
    calls: int
    failed: int
    failure_rate: float | None
    cost_share: float | None


def models_of(book: Ledger, calls: CallFigures) -> list[ModelRow]:
    """Return the models, the most expensive first, from the ledger by model."""
    rows = []
    for row in book.rows:
        name = str(row.model)
        # The ledger has fast mode as a separate model; calls do not record the mode.
        tally = calls.by_model.get(name, Tally())
        rows.append(
            ModelRow(
                **figures_in(row),
                model=name,
                cost_share=share_of(row, book.totals),
                usd_per_message=_usd_per_message(row),
                output_per_message=round(row.output / row.messages) if row.messages else None,
                calls=tally.calls,
                failed=tally.failed,
                failure_rate=tally.failure_rate,
            )
        )
    return rows


def subagents_of(
    index: Index, scan: UsageScan, prices: Prices, asked: Scope
) -> list[SubagentKindRow]:
    """Return the kinds of subagents including main, the most expensive first."""
    authors = ResponseAuthors(index)
    if authors.has_sidechains:  # Sums do not separate them from the session itself.
        scan = every_response(index, asked.period)
    groups: dict[str | None, list[Response]] = {}
    subagents: dict[str | None, set[tuple[str | None, str | None]]] = {}
    period = asked.period
    for response in scan.responses:
        if period.holds(response):
            kind = authors.kind(response)
            groups.setdefault(kind, []).append(response)
            subagents.setdefault(kind, set()).add((response.session, authors.subagent(response)))
    books = {
        kind: ledger(structs.replace(scan, responses=group), prices, asked.by()).totals
        for kind, group in groups.items()
    }
    total = sum_of(books.values())
    rows = [
        SubagentKindRow(
            **figures_in(figures),
            kind=kind,
            subagents=0 if kind == MAIN else len(subagents[kind]),
            cost_share=share_of(figures, total),
        )
        for kind, figures in books.items()
    ]
    return sorted(rows, key=lambda row: (-Decimal(row.cost_usd), row.kind or ""))


def subagent_kinds(index: Index) -> dict[tuple[str, str], str | None]:
    """Return the kind of every subagent, by session and subagent id."""
    rows = index.db.execute(
        "SELECT session, subagent, kind FROM subagents ORDER BY kind IS NULL DESC"
    )
    return {(session, subagent): kind for session, subagent, kind in rows}


class ResponseAuthors:
    """Finds the subagent that a response belongs to, and its kind."""

    def __init__(self, index: Index) -> None:
        self._kinds = subagent_kinds(index)
        rows = index.db.execute(
            "SELECT l.path, c.record, c.subagent FROM sidechains AS c"
            " JOIN logs AS l ON l.id = c.record >> 40"
        )
        offsets = (1 << OFFSET_BITS) - 1
        self._sidechains = {(path, record & offsets): subagent for path, record, subagent in rows}

    @property
    def has_sidechains(self) -> bool:
        return bool(self._sidechains)

    def subagent(self, response: Response) -> str | None:
        """Return the subagent of *response*; None for the session itself."""
        return response.subagent or self._sidechains.get((response.log, response.offset))

    def kind(self, response: Response) -> str | None:
        """Return the kind of the subagent of *response*, or main; None if unknown."""
        subagent = self.subagent(response)
        return MAIN if subagent is None else self._kinds.get((str(response.session), subagent))


def projects_of(
    index: Index,
    scan: UsageScan,
    book: Ledger,
    asked: Scope,
    *,
    prompts: Iterable[PromptRecord],
    calls: CallFigures,
    active: set[str],
) -> list[ProjectFigures]:
    """Return the projects, the most expensive first; *book* is the ledger by project."""
    known = sessions_of(index)
    period = asked.period
    sessions: dict[str | None, set[str]] = {}
    typed: Counter[str | None] = Counter()
    tallies: dict[str | None, Tally] = {}
    for response in scan.responses:
        if response.session in active and period.holds(response):
            sessions.setdefault(response.project, set()).add(response.session)
    for prompt in prompts:
        session, project = known.get(prompt.session or 0, (None, None))
        typed[project] += 1
        if session in active:
            sessions.setdefault(project, set()).add(session)
    for number, tally in calls.by_session.items():
        tallies.setdefault(known.get(number, (None, None))[1], Tally()).join(tally)
    rows = {_text(row.project): row for row in book.rows}
    projects = []
    for project in {**rows, **sessions, **tallies}:
        tally = tallies.get(project, Tally())
        figures = rows.get(project) or NOTHING
        projects.append(
            ProjectFigures(
                **figures_in(figures),
                project=project,
                sessions=len(sessions.get(project, ())),
                prompts=typed[project],
                calls=tally.calls,
                failed=tally.failed,
                failure_rate=tally.failure_rate,
                cost_share=share_of(figures, book.totals),
            )
        )
    projects.sort(key=lambda row: (-Decimal(row.cost_usd), -row.prompts, row.project or ""))
    return projects


def share_of(row: Figures, total: Figures) -> float | None:
    """Return the row's share of the total cost; None if that is 0."""
    whole = Decimal(total.cost_usd)
    return round(float(Decimal(row.cost_usd) / whole), 4) if whole else None


def _usd_per_message(row: Figures) -> str | None:
    if not row.messages:
        return None
    return f"{Decimal(row.cost_usd) / row.messages:.6f}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# -- days, weeks, hours ---------------------------------------------------------------------


class DayRow(Figures, kw_only=True):
    """The usage and the prompts of a day."""

    day: str
    prompts: int


class WeekRow(Figures, kw_only=True):
    """The usage and the prompts of a week, named by its Monday."""

    week: str
    prompts: int


class HeatMap(Struct, kw_only=True):
    """Messages and their cost by day of the week, Monday first, and hour."""

    messages: list[list[int]]
    cost_usd: list[list[str]]


class Streaks(Struct, kw_only=True):
    """Runs of days with messages, within the period."""

    active_days: int
    longest_days: int
    longest_from: str | None
    longest_to: str | None
    current_days: int


def days_of(hours: Ledger, prompts: dict[str, int]) -> list[DayRow]:
    """Return the days with usage or prompts in order, from the ledger by hour."""
    used = _grouped((str(row.hour)[:10], row) for row in hours.rows if row.hour)
    return [
        DayRow(**figures_in(used.get(day)), day=day, prompts=prompts.get(day, 0))
        for day in sorted({*used, *prompts})
    ]


def weeks_of(days: Iterable[DayRow]) -> list[WeekRow]:
    """Return the weeks with usage or prompts, in order."""
    rows = [(monday_of(row.day), row) for row in days]
    typed: Counter[str] = Counter()
    for week, row in rows:
        typed[week] += row.prompts
    return [
        WeekRow(**figures_in(figures), week=week, prompts=typed[week])
        for week, figures in sorted(_grouped(rows).items())
    ]


def heat_of(hours: Ledger) -> HeatMap:
    """Return the usage by hour of the week on the local clock, from the ledger by hour."""
    messages = [[0] * _HOURS for _ in WEEKDAYS]
    costs: list[list[list[Decimal]]] = [[[] for _ in range(_HOURS)] for _ in WEEKDAYS]
    for row in hours.rows:
        if row.hour:
            weekday, hour = hour_of_week(str(row.hour))
            messages[weekday][hour] += row.messages
            costs[weekday][hour].append(Decimal(row.cost_usd))
    return HeatMap(
        messages=messages,
        cost_usd=[[f"{total_usd(hour):f}" for hour in day] for day in costs],
    )


def streaks_of(days: Iterable[str], last: str) -> Streaks:
    """Return the runs of *days*; *last* is the last day of the period."""
    active = sorted(set(days))
    runs: list[tuple[str, str, int]] = []
    for day in active:
        if runs and _next_day(runs[-1][1]) == day:
            runs[-1] = (runs[-1][0], day, runs[-1][2] + 1)
        else:
            runs.append((day, day, 1))
    # Of two equally long runs, the later one.
    best = max(runs, key=lambda run: (run[2], run[0]), default=None)
    is_current = bool(runs) and last in {runs[-1][1], _next_day(runs[-1][1])}
    return Streaks(
        active_days=len(active),
        longest_days=best[2] if best else 0,
        longest_from=best[0] if best else None,
        longest_to=best[1] if best else None,
        current_days=runs[-1][2] if is_current else 0,
    )


def last_day(asked: Scope) -> str:
    """Return the last day of the period that has begun."""
    inside = asked.end
    if asked.until is not None and inside == asked.until:
        inside -= timedelta(microseconds=1)
    return LocalTimes(asked.zone).name("day", inside)


def hour_of_week(hour: str) -> tuple[int, int]:
    """Return weekday (Monday is 0) and hour of a name such as 2026-07-22 14:00."""
    return date.fromisoformat(hour[:10]).weekday(), int(hour[11:13])


def monday_of(day: str) -> str:
    """Return the Monday of the week of *day*."""
    at = date.fromisoformat(day)
    try:
        return (at - _DAY * at.weekday()).isoformat()
    except OverflowError:  # The first days of the calendar.
        return day


def _grouped(rows: Iterable[tuple[str, Figures]]) -> dict[str, Figures]:
    groups: dict[str, list[Figures]] = {}
    for name, row in rows:
        groups.setdefault(name, []).append(row)
    return {name: sum_of(group) for name, group in groups.items()}


def _next_day(day: str) -> str:
    try:
        return (date.fromisoformat(day) + _DAY).isoformat()
    except OverflowError:
        return ""
