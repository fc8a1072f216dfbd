"""Who did it and where: models, subagents, projects. All figures are the ledger's, grouped.

A subagent is of the kind that the call for it named; one that no call tells of is of no known kind.
A session is a project's if the ledger says so or, where nobody answered, if it began there.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from msgspec import structs

from turnlog.costs.ledger import Figures, Ledger, ledger, sum_of
from turnlog.costs.usage import UsageScan, every_response
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS
from turnlog.insights.calls import CallFigures, Tally
from turnlog.insights.prompts import PromptRecord
from turnlog.insights.scope import NOTHING, Scope, figures_in, sessions_of
from turnlog.pricing.cost import Prices
from turnlog.records.responses import Response

MAIN: Final = "main"
"""What answered in a session itself, and not in one of its subagents."""


class Done(NamedTuple):
    """What people typed and tools were asked, for those who count it by project, and where."""

    prompts: list[PromptRecord]
    calls: CallFigures
    sessions: set[str]


class ModelRow(Figures, kw_only=True):
    """What a model did."""

    model: str
    cost_share: float | None
    """Which part of all cost is its."""
    usd_per_message: str | None
    """Rounded to six decimals."""
    output_per_message: int | None
    calls: int
    failed: int
    failure_rate: float | None


class SubagentKindRow(Figures, kw_only=True):
    """What subagents of a kind did; the kind of the sessions themselves is main."""

    kind: str | None
    subagents: int
    cost_share: float | None


class ProjectFigures(Figures, kw_only=True):
    """What was done in a project."""

    project: str | None
    sessions: int
    prompts: int
    calls: int
    failed: int
    failure_rate: float | None
    cost_share: float | None


def models_of(book: Ledger, calls: CallFigures) -> list[ModelRow]:
    """Return the models, the dearest first, from the ledger by models."""
    found = []
    for row in book.rows:
        name = str(row.model)
        # Fast mode is a model of its own in the ledger; who called a tool does not say.
        tally = calls.by_model.get(name, Tally())
        found.append(
            ModelRow(
                **figures_in(row),
                model=name,
                cost_share=share_of(row, book.totals),
                usd_per_message=_each(row),
                output_per_message=round(row.output / row.messages) if row.messages else None,
                calls=tally.calls,
                failed=tally.failed,
                failure_rate=tally.failure_rate,
            )
        )
    return found


def subagents_of(
    index: Index, scan: UsageScan, prices: Prices, asked: Scope
) -> list[SubagentKindRow]:
    """Return the kinds of subagents, the dearest first; main is one of them."""
    who = Answerers(index)
    if who.has_sidechains:  # What is added up does not tell them from the session itself.
        scan = every_response(index, asked.period)
    groups: dict[str | None, list[Response]] = {}
    subagents: dict[str | None, set[tuple[str | None, str | None]]] = {}
    period = asked.period
    for each in scan.responses:
        if period.holds(each):
            kind = who.kind(each)
            groups.setdefault(kind, []).append(each)
            subagents.setdefault(kind, set()).add((each.session, who.subagent(each)))
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
    """Return the kind of every subagent, by its session and its own id."""
    rows = index.db.execute(
        "SELECT session, subagent, kind FROM subagents ORDER BY kind IS NULL DESC"
    )
    return {(session, subagent): kind for session, subagent, kind in rows}


class Answerers:
    """Tells which subagent gave a response, and of which kind it is."""

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
        """Return the subagent that gave *response*; None for the session itself."""
        return response.subagent or self._sidechains.get((response.log, response.offset))

    def kind(self, response: Response) -> str | None:
        """Return the kind of whoever gave *response*; None if it is not known."""
        subagent = self.subagent(response)
        return MAIN if subagent is None else self._kinds.get((str(response.session), subagent))


def projects_of(
    index: Index, scan: UsageScan, book: Ledger, asked: Scope, done: Done
) -> list[ProjectFigures]:
    """Return the projects, the dearest first; *book* is the ledger by projects."""
    known, listed = sessions_of(index), done.sessions
    period = asked.period
    sessions: dict[str | None, set[str]] = {}
    typed: dict[str | None, int] = {}
    tallies: dict[str | None, Tally] = {}
    for each in scan.responses:
        if each.session in listed and period.holds(each):
            sessions.setdefault(each.project, set()).add(each.session)
    for prompt in done.prompts:
        session, project = known.get(prompt.session or 0, (None, None))
        typed[project] = typed.get(project, 0) + 1
        if session in listed:
            sessions.setdefault(project, set()).add(session)
    for number, tally in done.calls.by_session.items():
        tallies.setdefault(known.get(number, (None, None))[1], Tally()).join(tally)
    rows = {_text(row.project): row for row in book.rows}
    found = []
    for project in {**rows, **sessions, **tallies}:
        tally = tallies.get(project, Tally())
        figures = rows.get(project) or NOTHING
        found.append(
            ProjectFigures(
                **figures_in(figures),
                project=project,
                sessions=len(sessions.get(project, ())),
                prompts=typed.get(project, 0),
                calls=tally.calls,
                failed=tally.failed,
                failure_rate=tally.failure_rate,
                cost_share=share_of(figures, book.totals),
            )
        )
    return sorted(found, key=lambda row: (-Decimal(row.cost_usd), -row.prompts, row.project or ""))


def share_of(row: Figures, total: Figures) -> float | None:
    """Return which part of all cost a row's is; None if nothing cost anything."""
    whole = Decimal(total.cost_usd)
    return round(float(Decimal(row.cost_usd) / whole), 4) if whole else None


def _each(row: Figures) -> str | None:
    if not row.messages:
        return None
    return f"{Decimal(row.cost_usd) / row.messages:.6f}"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
