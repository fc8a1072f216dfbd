"""How much was said and used: counts of messages, and the ledger's own figures.

Tokens and costs are what `turnlog cost` tells of the same home: every response counted once over
all its logs, given to the session that first paid for it. So a fork does not pay again for what it
copied, and the figures of all sessions add up to those of the project.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo
from typing import Any, Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from turnlog.api.costs import TRACED, Ledger, Period, Question, Unit, ledger, open_source
from turnlog.errors import UsageError
from turnlog.integrations.provider.messages import count_messages, thread_of
from turnlog.integrations.provider.places import Project, find_log, sessions_in
from turnlog.sessions.session import Session
from turnlog.sessions.totals import usual_prices

_UNITS: Final = tuple(unit for unit in get_args(Unit) if unit not in TRACED)


class Counts(Struct, frozen=True, kw_only=True):
    """How much was said in a project, or in one session of it."""

    sessions: int
    messages: int
    """As many as get_session_messages gives."""
    prompts: int
    calls: int


def counts_of(project: Project, session_id: str | None = None) -> Counts:
    """Count what was said in the main threads."""
    if session_id is not None:
        sessions = [find_log(project, session_id)]
    else:
        rows = sessions_in(project, archived=None)
        sessions = [find_log(project, row.id) for row in rows]
    told = [_counts(session) for session in sessions]
    return Counts(
        sessions=len(told),
        messages=sum(each.messages for each in told),
        prompts=sum(each.prompts for each in told),
        calls=sum(each.calls for each in told),
    )


def statistics_of(
    project: Project, session_id: str | None, by: Iterable[Unit], zone: tzinfo = UTC
) -> Ledger:
    """Account for a project or one of its sessions, in groups of any kind the logs tell."""
    asked = Question(by=_units(by), zone=zone)
    if session_id is not None:
        find_log(project, session_id)
        wanted = {session_id}
    else:
        wanted = {row.id for row in sessions_in(project, archived=None)}
    prices = usual_prices()
    with open_source((project.home,), prices) as source:
        scan = source.responses(Period())
    chosen = [each for each in scan.responses if each.session in wanted]
    mine = replace(scan, responses=chosen)
    return ledger(mine, prices, asked)


def _counts(session: Session) -> Counts:
    thread = thread_of(session)
    return Counts(
        sessions=1,
        messages=count_messages(session),
        prompts=sum(node.is_prompt for node in thread),
        calls=len({call for node in thread for call in node.calls}),
    )


def _units(by: Iterable[Unit]) -> tuple[Unit, ...]:
    units: tuple[Any, ...] = (by,) if isinstance(by, str) else tuple(by)
    for unit in units:
        if unit not in _UNITS:
            raise UsageError(
                f"nothing can be grouped by {str(unit)[:40]!r}", hint=f"use {', '.join(_UNITS)}"
            )
    return units
