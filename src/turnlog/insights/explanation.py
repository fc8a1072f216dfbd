"""Every figure of insights can be opened: which records are behind it, and where they stand.

A figure is named as its section of the report is, and one row of it by a colon and its name:
``tools``, ``tools:Bash``, ``days:2026-07-22``. Figures of the ledger are opened into responses,
others into the records or sessions that were counted; each row has its log and offset.

What the rows of insights may be called, whatever the period.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import inf
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from turnlog.catalog.names import NOT_KNOWN, name_variants, resolve_row, tools_called
from turnlog.catalog.period import Period
from turnlog.costs.usage import IndexSource, every_response
from turnlog.errors import UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at
from turnlog.insights.cache import REASONS, explain_misses, misses_of
from turnlog.insights.calls import explain_calls, explain_sequences
from turnlog.insights.compactions import compactions_of, explain_compactions
from turnlog.insights.days import WEEKDAYS, hour_of_week, monday_of
from turnlog.insights.edits import explain_edits
from turnlog.insights.groups import MAIN, Answerers, subagent_kinds
from turnlog.insights.prompts import (
    explain_commands,
    explain_interruptions,
    explain_prompts,
    typed_in,
)
from turnlog.insights.report import sessions_in
from turnlog.insights.scope import Evidence, Scope
from turnlog.insights.turns import explain_turns, turns_among
from turnlog.pricing.cost import Prices
from turnlog.query.errors import error_context
from turnlog.records.dates import LocalTimes
from turnlog.records.responses import Response

Names: TypeAlias = dict[str, tuple[str, ...]]
"""The name of each row, with all the ways to say it."""


def model_names(index: Index) -> Names:
    """Name the models, those in fast mode apart."""
    responses = every_response(index, Period()).responses
    return _names("model", {each.model_name for each in responses})


def project_names(index: Index) -> Names:
    """Name the projects in which sessions began, or somebody answered."""
    rows = index.db.execute("SELECT path FROM projects")
    responses = every_response(index, Period()).responses
    return _names("project", {None, *(path for (path,) in rows), *(r.project for r in responses)})


def kind_names(index: Index) -> Names:
    """Name the kinds of subagents; main is one of them."""
    return _names("kind", {None, MAIN, *subagent_kinds(index).values()})


def tool_names(index: Index) -> Names:
    """Name the tools that were called."""
    return _names("tool", tools_called(index.db))


def file_names(index: Index) -> Names:
    """Name the files that were written."""
    rows = index.db.execute(
        "SELECT path FROM paths WHERE id IN"
        " (SELECT path FROM touches WHERE action IN ('edit', 'write'))"
    )
    return _names("file", (path for (path,) in rows))


def reason_names(_index: Index) -> Names:
    """Name why the cache was missed."""
    return {reason: (reason, words) for reason, words in REASONS.items()}


def _names(unit: str, found: Iterable[str | None]) -> Names:
    return {name or NOT_KNOWN: name_variants(unit, name) for name in found}


class InsightsExplanation(Struct, kw_only=True):
    """What `turnlog insights --explain FIGURE --json` prints."""

    figure: str
    about: str
    rows: list[Evidence]
    total: int
    next: int | None


class Opened(Struct, frozen=True):
    """What opening a figure needs."""

    index: Index
    prices: Prices
    asked: Scope
    which: str | None
    """The row's name, if one is meant."""


class Figure(NamedTuple):
    """A figure: what it is, how its rows are named, and how it is opened."""

    about: str
    row: str
    """What stands behind the colon; empty if it has no rows."""
    open: Callable[[Opened], Iterable[Evidence]]
    needs_row: bool = False
    noun: str = ""
    """What its rows are."""
    names: Callable[[Index], Names] | None = None
    """All that its rows may be called, whatever the period; None if that is clear."""


def explain(
    index: Index, prices: Prices, asked: Scope, name: str, offset: int = 0
) -> InsightsExplanation:
    """List what is behind the figure called *name*, such as ``tools`` or ``tools:Bash``."""
    figure, _, which = name.partition(":")
    known = FIGURES.get(figure)
    if known is None:
        raise UsageError(f"there is no figure {figure!r}", hint=f"there are {', '.join(FIGURES)}")
    if known.needs_row and not which:
        raise UsageError(f"{figure} is opened row by row", hint=f"say {figure}:{known.row}")
    if which and not known.row:
        raise UsageError(f"{figure} has no rows of its own", hint=f"say {figure}")
    opened = Opened(index, prices, asked, which or None)
    if which and known.names is not None:
        which = resolve_row(which, known.names(index), what=known.noun)
        opened = structs.replace(opened, which=which)
    rows = list(known.open(opened))
    end = len(rows) if asked.limit is None else offset + asked.limit
    return InsightsExplanation(
        figure=f"{figure}:{which}" if which else figure,
        about=known.about,
        rows=rows[offset:end],
        total=len(rows),
        next=end if end < len(rows) else None,
    )


# -- the ledger's figures --------------------------------------------------------------------


def _responses(
    opened: Opened, belongs: Callable[[Response], bool] = lambda _: True
) -> list[Evidence]:
    """Describe responses of the period, the dearest first."""
    asked, prices = opened.asked, opened.prices
    period = asked.period
    found: list[tuple[Decimal, Evidence]] = []
    for each in every_response(opened.index, period).responses:
        if not period.holds(each) or not belongs(each):
            continue
        bill = prices.bill((each,))
        further = "" if each.messages else ", a further pass"
        problem = f": {bill.unpriced[0].reason}" if bill.unpriced else ""
        row = Evidence(
            at=each.at,
            session=each.session,
            project=each.project,
            what=f"{each.model_name}{further}{problem}",
            log=each.log,
            offset=each.offset,
            tokens=each.counters.total,
            cost_usd=f"{bill.total_usd:f}",
        )
        found.append((bill.total_usd, row))
    found.sort(key=lambda each: (-each[0], each[1].log, each[1].offset))
    return [row for _, row in found]


def _by_time(opened: Opened, name: Callable[[str], str], unit: str) -> list[Evidence]:
    local = LocalTimes(opened.asked.zone)
    which = opened.which

    def belongs(each: Response) -> bool:
        return each.at is not None and which in {None, name(local.name(unit, each.at))}

    return _responses(opened, belongs)


def _days(opened: Opened) -> list[Evidence]:
    return _by_time(opened, str, "day")


def _weeks(opened: Opened) -> list[Evidence]:
    return _by_time(opened, monday_of, "day")


def _hours(opened: Opened) -> list[Evidence]:
    return _by_time(opened, _name_of_hour, "hour")


def _name_of_hour(hour: str) -> str:
    weekday, clock = hour_of_week(hour)
    return f"{WEEKDAYS[weekday]} {clock:02}"


def _models(opened: Opened) -> list[Evidence]:
    return _responses(opened, lambda each: opened.which in {None, each.model_name})


def _projects(opened: Opened) -> list[Evidence]:
    return _responses(opened, lambda each: opened.which in {None, each.project or NOT_KNOWN})


def _subagents(opened: Opened) -> list[Evidence]:
    who = Answerers(opened.index)

    def belongs(each: Response) -> bool:
        return opened.which in {None, who.kind(each) or NOT_KNOWN}

    return _responses(opened, belongs)


def _cache(opened: Opened) -> list[Evidence]:
    found = misses_of(opened.index, opened.prices, opened.asked)
    return explain_misses(opened.index, found, opened.which)


# -- what the index counts -------------------------------------------------------------------


def _newest_first(rows: Iterable[Evidence]) -> list[Evidence]:
    """Put what has no order of its own in the order of time; what has no time comes last."""
    return sorted(rows, key=lambda row: row.at.timestamp() if row.at else -inf, reverse=True)


def _sessions(opened: Opened) -> Iterable[Evidence]:
    index, asked = opened.index, opened.asked
    typed = typed_in(index, asked)
    scan = IndexSource(index, opened.prices).sums(asked.period)
    active = sessions_in(index, scan, asked, typed.every)
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
    return _newest_first(explain_prompts(opened.index, typed_in(opened.index, opened.asked)))


def _commands(opened: Opened) -> Iterable[Evidence]:
    typed = typed_in(opened.index, opened.asked)
    found = list(explain_commands(opened.index, typed, opened.which))
    if not found and opened.which is not None:
        found = list(explain_commands(opened.index, typed, f"/{opened.which}"))
    return _newest_first(found)


def _interruptions(opened: Opened) -> Iterable[Evidence]:
    return _newest_first(explain_interruptions(opened.index, typed_in(opened.index, opened.asked)))


def _turns(opened: Opened) -> Iterable[Evidence]:
    turns = turns_among(opened.index, typed_in(opened.index, opened.asked))
    return explain_turns(opened.index, turns)


def _tools(opened: Opened) -> Iterable[Evidence]:
    return _calls(opened, "TRUE")


def _failures(opened: Opened) -> Iterable[Evidence]:
    return _calls(opened, "c.is_error")


def _unanswered(opened: Opened) -> Iterable[Evidence]:
    return _calls(opened, "c.is_error IS NULL")


def _calls(opened: Opened, which: str) -> Iterable[Evidence]:
    return _newest_first(explain_calls(opened.index, opened.asked, opened.which, which=which))


def _sequences(opened: Opened) -> Iterable[Evidence]:
    wanted = [each.strip() for each in (opened.which or "").replace("→", "->").split("->")]
    if len(wanted) < 2 or not all(wanted):
        raise UsageError(
            f"{opened.which!r} is no sequence of tools", hint='say "sequences:Read -> Edit"'
        )
    names = tool_names(opened.index)
    wanted = [resolve_row(each, names, what="tool") for each in wanted]
    return _newest_first(explain_sequences(opened.index, opened.asked, wanted))


def _errors(opened: Opened) -> Iterable[Evidence]:
    asked = opened.asked
    signature, _, tool = (opened.which or "").partition(" ")
    found = error_context(
        opened.index,
        signature,
        tool=f"^{re.escape(tool)}$" if tool else None,
        window=0,
        limit=None,
        since=asked.since,
        until=asked.until,
        project=asked.project,
    )
    for each in found.occurrences:
        for record in each.records:
            yield Evidence(
                at=each.at,
                session=each.session,
                project=each.project,
                what=f"{each.tool}: {record.text}",
                log=record.log,
                offset=record.offset,
            )


def _edits(opened: Opened) -> Iterable[Evidence]:
    return _newest_first(explain_edits(opened.index, opened.asked, opened.which))


def _compactions(opened: Opened) -> Iterable[Evidence]:
    found = compactions_of(opened.index, opened.asked)
    return _newest_first(explain_compactions(opened.index, found))


FIGURES: Final[dict[str, Figure]] = {
    "sessions": Figure(
        "Sessions in which, within the period, somebody prompted or a model answered;"
        " those that have lost their main log, or never had one, are none.",
        "",
        _sessions,
    ),
    "prompts": Figure(
        "What people typed: text, commands, lines for the shell, images.", "", _prompts
    ),
    "messages": Figure(
        "API responses, each counted once, as the ledger counts.",
        "",
        lambda opened: _responses(opened, lambda each: each.messages > 0),
    ),
    "days": Figure("What was used on each day of the time zone.", "2026-07-22", _days),
    "weeks": Figure("What was used in each week, named by its Monday.", "2026-07-20", _weeks),
    "hours": Figure("Messages by day of the week and hour of the day.", "Wed 14", _hours),
    "models": Figure(
        "What each model used and cost.",
        "claude-opus-4-6",
        _models,
        noun="model",
        names=model_names,
    ),
    "subagents": Figure(
        "What subagents of each kind used and cost.",
        "Explore",
        _subagents,
        noun="kind of subagent",
        names=kind_names,
    ),
    "projects": Figure(
        "What was used in each project.",
        "/home/ada/orchard",
        _projects,
        noun="project",
        names=project_names,
    ),
    "tools": Figure(
        "Calls of each tool, answered or not.", "Bash", _tools, noun="tool", names=tool_names
    ),
    "failures": Figure(
        "Calls whose result says that they failed.",
        "Bash",
        _failures,
        noun="tool",
        names=tool_names,
    ),
    "unanswered": Figure(
        "Calls whose result never came.", "Bash", _unanswered, noun="tool", names=tool_names
    ),
    "sequences": Figure(
        "Two or three calls that follow one another, counted where they begin.",
        '"Read -> Edit"',
        _sequences,
        needs_row=True,
    ),
    "errors": Figure(
        "Errors that begin alike; of one tool, if it is named too.",
        "'3f2a Bash'",
        _errors,
        needs_row=True,
    ),
    "edits": Figure(
        "Calls that wrote a file, with the lines they changed.",
        "FILE",
        _edits,
        noun="file",
        names=file_names,
    ),
    "cache": Figure(
        "Responses that could have read more from the cache than they did.",
        "pause",
        _cache,
        noun="reason",
        names=reason_names,
    ),
    "compactions": Figure("Summaries that took the place of a context.", "", _compactions),
    "interruptions": Figure("Where a person stopped an agent.", "", _interruptions),
    "turns": Figure("Prompts and all that followed, the longest first.", "", _turns),
    "commands": Figure("Commands that were typed.", "/review", _commands),
}
"""Every figure that can be opened. docs/insights.md defines them in the same words."""
