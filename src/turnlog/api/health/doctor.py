"""Diagnose problems of homes, their sessions and the index, and suggest fixes.

A check that fails is reported and does not stop the others. Only the index may be changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.api.homes import Home, all_homes, turnlog_home
from turnlog.api.index import Index
from turnlog.catalog.count import count_sessions
from turnlog.errors import TurnlogError
from turnlog.health import checks
from turnlog.health.findings import CheckContext, DoctorFinding, Example, Kind, Urgency
from turnlog.health.footprint import Footprint, OwnFile, find_footprint
from turnlog.storage.atomic_files import size_at

__all__ = [
    "CHECKS",
    "QUICK",
    "Checkup",
    "DoctorFinding",
    "Example",
    "Footprint",
    "OwnFile",
    "Urgency",
    "check_up",
    "doctor_context",
    "footprint",
]


class Check(NamedTuple):
    """A check, and its subject in a few words."""

    kind: Kind
    looks_at: str
    look: Callable[[CheckContext], list[DoctorFinding]]


CHECKS: Final = (
    Check("shortened", "logs that lost content", checks.shortened),
    Check("losses", "sessions about to be deleted", checks.going),
    Check("cleanup", "the agent's cleanup", checks.cleanup),
    Check("damage", "damage", checks.damage),
    Check("parents", "missing parents", checks.parents),
    Check("calls", "lost results", checks.calls),
    Check("reach", "what a resume reaches", checks.reach),
    Check("listed", "what agents list", checks.listed),
    Check("forks", "what forks continue", checks.forks),
    Check("crashed", "crashes", checks.crashed),
    Check("permissions", "permissions", checks.permissions),
    Check("space", "disk space", checks.space),
    Check("orphans", "orphans", checks.orphans),
    Check("todos", "todos", checks.todos),
    Check("empty", "empty files", checks.empty),
    Check("large", "very large logs", checks.large),
    Check("index", "the index", checks.index),
    Check("unreadable", "unreadable files", checks.unreadable),  # Last: the others may find more.
)
QUICK: Final[frozenset[Kind]] = frozenset(
    {"losses", "cleanup", "crashed", "permissions", "space", "orphans", "todos"}
)
"""The checks that read no logs, except for a few records."""
_ORDER: Final = list(Urgency)


class Checked(Struct, kw_only=True, frozen=True):
    """A check that was run, or failed."""

    kind: Kind
    looks_at: str
    findings: int
    problem: str | None = None
    """Why it failed."""


class Checkup(Struct, kw_only=True):
    """The result of `turnlog doctor --json`."""

    healthy: bool
    """Whether there are only notes, and no check failed."""
    findings: list[DoctorFinding]
    """The most urgent first."""
    checks: list[Checked]
    homes: list[str]
    sessions: int
    logs: int
    size_bytes: int
    """Of all logs."""
    in_use: int
    """Seemingly damaged logs that were written in the last minute; they are not reported."""
    checked_at: datetime


def check_up(context: CheckContext, kinds: Collection[Kind] | None = None) -> Checkup:
    """Run every check, or those of *kinds*."""
    everything: list[DoctorFinding] = []
    checked = []
    for check in CHECKS:
        if kinds is not None and check.kind not in kinds:
            continue
        problem, findings = None, []
        try:
            findings = check.look(context)
        except (TurnlogError, OSError, sqlite3.Error) as error:
            problem = str(error)
        everything += findings
        checked.append(
            Checked(
                kind=check.kind,
                looks_at=check.looks_at,
                findings=len(findings),
                problem=problem,
            )
        )
    everything.sort(key=lambda finding: _ORDER.index(finding.urgency))
    is_well = all(finding.urgency is Urgency.NOTE for finding in everything)
    return Checkup(
        healthy=is_well and not any(check.problem for check in checked),
        findings=everything,
        checks=checked,
        homes=[os.fspath(home) for home in context.homes],
        sessions=count_sessions(context.homes, context.index),
        logs=len(context.logs),
        size_bytes=sum(size_at(log.path) for log in context.logs)
        if kinds is not None
        else sum(seen.size_bytes for seen in context.surveyed),
        in_use=len(context.in_use) if kinds is None else 0,
        checked_at=context.now,
    )


def doctor_context(
    homes: Sequence[Home],
    *,
    open_index: Callable[[], Index],
    cap: int,
    named: Sequence[str] = (),
) -> CheckContext:
    """Return the state of *homes* to pass to ``check_up``; close its *index* afterwards.

    Without an index the logs are read instead. *named* are the homes that the caller named.
    """
    index, reason = None, ""
    if homes:
        try:
            index = open_index()
        except (TurnlogError, OSError, sqlite3.Error) as error:
            reason = str(error)
    return CheckContext(
        homes,
        own=turnlog_home(),
        now=datetime.now(UTC),
        index=index,
        no_index=reason,
        named=named,
        elsewhere=all_homes() if named else (),
        cap=cap,
    )


def footprint(homes: Sequence[Home]) -> Footprint:
    """Return what turnlog made outside the agents' homes, and its entries in their settings."""
    return find_footprint(turnlog_home(), homes)
