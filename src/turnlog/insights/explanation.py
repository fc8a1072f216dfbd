"""The records behind each figure of insights.

A figure is named like its section of the report, and a row of it by a colon and the row's name:
``tools``, ``tools:Bash``, ``days:2026-07-22``. Figures of the ledger are explained by responses,
others by the records or sessions that were counted, each with its log and offset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import inf
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from turnlog.catalog.names import NOT_KNOWN, name_variants, resolve_row, tools_called
from turnlog.catalog.period import Period
from turnlog.costs.usage import IndexSource, every_response
from turnlog.errors import UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at
from turnlog.insights import calls, groups, report
from turnlog.insights.cache import REASONS, explain_misses, misses_of
from turnlog.insights.edits import explain_edits
from turnlog.insights.scope import Evidence, Scope
from turnlog.insights.turns import (
    compactions_of,
    explain_commands,
    explain_compactions,
    explain_interruptions,
    explain_prompts,
    explain_turns,
    turns_among,
    typed_in,
)
from turnlog.pricing.cost import Prices
from turnlog.query.errors import error_context
from turnlog.records.dates import LocalTimes
from turnlog.records.responses import Response

Names: TypeAlias = dict[str, tuple[str, ...]]
"""The names of rows, each with all its accepted forms."""


class InsightsExplanation(Struct, kw_only=True):
    """The result of `turnlog insights --explain FIGURE --json`."""

    figure: str
    about: str
    rows: list[Evidence]
    total: int
    next: int | None


class Opened(Struct, frozen=True):
    """What a figure is explained from."""

    index: Index
    prices: Prices
    asked: Scope
    which: str | None
    """The name of the row, if one was given."""


class Figure(NamedTuple):
    """A figure: what it is, how its rows are named, and what is behind it."""

    about: str
    row: str
    """An example of a row; empty if it has no rows."""
    open: Callable[[Opened], Iterable[Evidence]]
    needs_row: bool = False
    noun: str = ""
    """What its rows are."""
    names: Callable[[Index], Names] | None = None
    """All names of its rows, whatever the period; None if any name is accepted."""


def explain(
    index: Index, prices: Prices, asked: Scope, name: str, offset: int = 0
) -> InsightsExplanation:
    """Return what is behind the figure called *name*, such as ``tools`` or ``tools:Bash``."""
    figure, _, which = name.partition(":")
    known = FIGURES.get(figure)
    if known is None:
        raise UsageError(f"unknown figure {figure!r}", hint=f"use one of {', '.join(FIGURES)}")
    if known.needs_row and not which:
        raise UsageError(f"{figure} needs a row", hint=f"use {figure}:{known.row}")
    if which and not known.row:
        raise UsageError(f"{figure} has no rows", hint=f"use {figure}")
    if which and known.names is not None:
        which = resolve_row(which, known.names(index), what=known.noun)
    rows = list(known.open(Opened(index, prices, asked, which or None)))
    end = len(rows) if asked.limit is None else offset + asked.limit
    return InsightsExplanation(
        figure=f"{figure}:{which}" if which else figure,
        about=known.about,
        rows=rows[offset:end],
        total=len(rows),
        next=end if end < len(rows) else None,
    )


# -- names of rows ---------------------------------------------------------------------------


def _model_names(index: Index) -> Names:
    responses = every_response(index, Period()).responses
    return _names("model", {response.model_name for response in responses})


def _project_names(index: Index) -> Names:
    rows = index.db.execute("SELECT path FROM projects")
    responses = every_response(index, Period()).responses
    return _names("project", {None, *(path for (path,) in rows), *(r.project for r in responses)})


def _kind_names(index: Index) -> Names:
    return _names("kind", {None, groups.MAIN, *groups.subagent_kinds(index).values()})


def _tool_names(index: Index) -> Names:
    return _names("tool", tools_called(index.db))


def _file_names(index: Index) -> Names:
    rows = index.db.execute(
        "SELECT path FROM paths WHERE id IN"
        " (SELECT path FROM touches WHERE action IN ('edit', 'write'))"
    )
    return _names("file", (path for (path,) in rows))


def _reason_names(_index: Index) -> Names:
    return {reason: (reason, words) for reason, words in REASONS.items()}


def _names(unit: str, names: Iterable[str | None]) -> Names:
    return {name or NOT_KNOWN: name_variants(unit, name) for name in names}


# -- the ledger's figures --------------------------------------------------------------------


def _responses(
    opened: Opened, belongs: Callable[[Response], bool] = lambda _: True
) -> list[Evidence]:
    """Return the responses of the period that belong to the row, the most expensive first."""
    period = opened.asked.period
    rows: list[tuple[Decimal, Evidence]] = []
    for response in every_response(opened.index, period).responses:
        if not period.holds(response) or not belongs(response):
            continue
        bill = opened.prices.bill((response,))
        further = "" if response.messages else ", a further pass"
        problem = f": {bill.unpriced[0].reason}" if bill.unpriced else ""
        row = Evidence(
            at=response.at,
            session=response.session,
            project=response.project,
            what=f"{response.model_name}{further}{problem}",
            log=response.log,
            offset=response.offset,
            tokens=response.counters.total,
            cost_usd=f"{bill.total_usd:f}",
        )
        rows.append((bill.total_usd, row))
    rows.sort(key=lambda item: (-item[0], item[1].log, item[1].offset))
    return [row for _, row in rows]


def _by_time(unit: str, name: Callable[[str], str]) -> Callable[[Opened], list[Evidence]]:
    """Return a function that explains rows named by *name* from a day or an hour."""

    def rows(opened: Opened) -> list[Evidence]:
        local = LocalTimes(opened.asked.zone)

        def belongs(each: Response) -> bool:
            return each.at is not None and opened.which in {None, name(local.name(unit, each.at))}

        return _responses(opened, belongs)

    return rows


def _hour_name(hour: str) -> str:
    weekday, clock = groups.hour_of_week(hour)
    return f"{groups.WEEKDAYS[weekday]} {clock:02}"


def _models(opened: Opened) -> list[Evidence]:
    return _responses(opened, lambda each: opened.which in {None, each.model_name})


def _projects(opened: Opened) -> list[Evidence]:
    return _responses(opened, lambda each: opened.which in {None, each.project or NOT_KNOWN})


def _subagents(opened: Opened) -> list[Evidence]:
    authors = groups.ResponseAuthors(opened.index)
    return _responses(opened, lambda each: opened.which in {None, authors.kind(each) or NOT_KNOWN})


def _cache(opened: Opened) -> list[Evidence]:
    misses = misses_of(opened.index, opened.prices, opened.asked)
    return explain_misses(opened.index, misses, opened.which)


# -- what the index counts -------------------------------------------------------------------


def _newest_first(rows: Iterable[Evidence]) -> list[Evidence]:
    """Sort by time, undated rows last."""
    return sorted(rows, key=lambda row: row.at.timestamp() if row.at else -inf, reverse=True)


def _sessions(opened: Opened) -> Iterable[Evidence]:
    index, asked = opened.index, opened.asked
    typed = typed_in(index, asked)
    scan = IndexSource(index, opened.prices).sums(asked.period)
    active = report.sessions_in(index, scan, asked, typed.every)
    rows = index.db.execute(
        "SELECT s.session, p.path, coalesce(s.title, ''), s.path, s.last_active_at"
        " FROM sessions AS s LEFT JOIN projects AS p ON p.id = s.project"
        " ORDER BY s.last_active_at DESC, s.session, s.home"
    )
    known: dict[str, Evidence] = {}
    for session, project, title, path, at in rows:
        if session in active and session not in known:
            known[session] = Evidence(
                at=instant_at(at),
                session=session,
                project=project,
                what=title,
                log=path,
                offset=0,
            )
    return list(known.values())


def _prompts(opened: Opened) -> Iterable[Evidence]:
    index, asked = opened.index, opened.asked
    return _newest_first(explain_prompts(index, typed_in(index, asked), asked.mask))


def _commands(opened: Opened) -> Iterable[Evidence]:
    typed = typed_in(opened.index, opened.asked)
    rows = list(explain_commands(opened.index, typed, opened.which))
    if not rows and opened.which is not None:
        rows = list(explain_commands(opened.index, typed, f"/{opened.which}"))
    return _newest_first(rows)


def _interruptions(opened: Opened) -> Iterable[Evidence]:
    return _newest_first(explain_interruptions(opened.index, typed_in(opened.index, opened.asked)))


def _turns(opened: Opened) -> Iterable[Evidence]:
    turns = turns_among(opened.index, typed_in(opened.index, opened.asked))
    return explain_turns(opened.index, turns, opened.asked.mask)


def _calls(condition: str) -> Callable[[Opened], Iterable[Evidence]]:
    """Return a function that explains the calls for which an SQL condition holds."""
    return lambda opened: _newest_first(
        calls.explain_calls(opened.index, opened.asked, opened.which, condition=condition)
    )


def _sequences(opened: Opened) -> Iterable[Evidence]:
    wanted = [tool.strip() for tool in (opened.which or "").replace("→", "->").split("->")]
    if len(wanted) < 2 or not all(wanted):
        raise UsageError(
            f"invalid sequence of tools {opened.which!r}", hint='use "sequences:Read -> Edit"'
        )
    names = _tool_names(opened.index)
    wanted = [resolve_row(tool, names, what="tool") for tool in wanted]
    return _newest_first(calls.explain_sequences(opened.index, opened.asked, wanted))


def _errors(opened: Opened) -> Iterable[Evidence]:
    asked = opened.asked
    signature, _, tool = (opened.which or "").partition(" ")
    context = error_context(
        opened.index,
        signature,
        tool=f"^{re.escape(tool)}$" if tool else None,
        window=0,
        limit=None,
        since=asked.since,
        until=asked.until,
        project=asked.project,
        mask=asked.mask,
    )
    for occurrence in context.occurrences:
        for record in occurrence.records:
            yield Evidence(
                at=occurrence.at,
                session=occurrence.session,
                project=occurrence.project,
                what=f"{occurrence.tool}: {record.text}",
                log=record.log,
                offset=record.offset,
            )


def _edits(opened: Opened) -> Iterable[Evidence]:
    return _newest_first(explain_edits(opened.index, opened.asked, opened.which))


def _compactions(opened: Opened) -> Iterable[Evidence]:
    compactions = compactions_of(opened.index, opened.asked)
    return _newest_first(explain_compactions(opened.index, compactions))


FIGURES: Final[dict[str, Figure]] = {
    "sessions": Figure(
        "Sessions with a prompt or a response in the period, and with a main log.", "", _sessions
    ),
    "prompts": Figure("What people typed: text, commands, shell lines, images.", "", _prompts),
    "messages": Figure(
        "API responses, each counted once.",
        "",
        lambda opened: _responses(opened, lambda each: each.messages > 0),
    ),
    "days": Figure("Usage by day.", "2026-07-22", _by_time("day", str)),
    "weeks": Figure(
        "Usage by week, named by its Monday.", "2026-07-20", _by_time("day", groups.monday_of)
    ),
    "hours": Figure(
        "Messages by day of the week and hour of the day.", "Wed 14", _by_time("hour", _hour_name)
    ),
    "models": Figure(
        "Usage and cost by model.", "claude-opus-4-6", _models, noun="model", names=_model_names
    ),
    "subagents": Figure(
        "Usage and cost by kind of subagent.",
        "Explore",
        _subagents,
        noun="kind of subagent",
        names=_kind_names,
    ),
    "projects": Figure(
        "Usage by project.",
        "/home/ada/orchard",
        _projects,
        noun="project",
        names=_project_names,
    ),
    "tools": Figure(
        "Calls by tool, with or without a result.",
        "Bash",
        _calls("TRUE"),
        noun="tool",
        names=_tool_names,
    ),
    "failures": Figure(
        "Calls whose result is an error.",
        "Bash",
        _calls("c.is_error"),
        noun="tool",
        names=_tool_names,
    ),
    "unanswered": Figure(
        "Calls without a result.",
        "Bash",
        _calls("c.is_error IS NULL"),
        noun="tool",
        names=_tool_names,
    ),
    "sequences": Figure(
        "Two or three consecutive calls, listed where they begin.",
        '"Read -> Edit"',
        _sequences,
        needs_row=True,
    ),
    "errors": Figure(
        "Errors with the same signature, of one tool if it is named.",
        "'3f2a Bash'",
        _errors,
        needs_row=True,
    ),
    "edits": Figure(
        "Calls that wrote a file, with the lines they changed.",
        "FILE",
        _edits,
        noun="file",
        names=_file_names,
    ),
    "cache": Figure(
        "Responses that read less from the cache than they could have.",
        "pause",
        _cache,
        noun="reason",
        names=_reason_names,
    ),
    "compactions": Figure("Summaries that replaced a context.", "", _compactions),
    "interruptions": Figure("Where a person interrupted an agent.", "", _interruptions),
    "turns": Figure("Prompts with everything that followed, the longest first.", "", _turns),
    "commands": Figure("Typed commands.", "/review", _commands),
}
"""Every figure that can be explained. docs/guides/insights.md defines them."""
