"""`turnlog doctor`: run all checks on some homes, and suggest fixes.

A check that fails is reported and does not stop the others. Only the index may be changed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.health.checks import (
    calls,
    cleanup,
    crashed,
    damage,
    empty,
    going,
    index,
    large,
    orphans,
    parents,
    permissions,
    reach,
    shortened,
    space,
    todos,
    unreadable,
)
from turnlog.health.findings import CheckContext, DoctorFinding, Example, Kind, Urgency

__all__ = [
    "CHECKS",
    "Check",
    "CheckContext",
    "Checked",
    "Checkup",
    "DoctorFinding",
    "Example",
    "Urgency",
    "check_up",
]  # fmt: skip


class Check(NamedTuple):
    """A check, and its subject in a few words."""

    kind: Kind
    looks_at: str
    look: Callable[[CheckContext], list[DoctorFinding]]


CHECKS: Final = (
    Check("shortened", "logs that lost content", shortened),
    Check("losses", "sessions about to be deleted", going),
    Check("cleanup", "the agent's cleanup", cleanup),
    Check("damage", "damage", damage),
    Check("parents", "missing parents", parents),
    Check("calls", "lost results", calls),
    Check("reach", "what a resume reaches", reach),
    Check("crashed", "crashes", crashed),
    Check("permissions", "permissions", permissions),
    Check("space", "disk space", space),
    Check("orphans", "orphans", orphans),
    Check("todos", "todos", todos),
    Check("empty", "empty files", empty),
    Check("large", "very large logs", large),
    Check("index", "the index", index),
    Check("unreadable", "unreadable files", unreadable),  # Last: the others may find more.
)
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


def check_up(context: CheckContext) -> Checkup:
    """Run every check."""
    everything: list[DoctorFinding] = []
    checks = []
    for check in CHECKS:
        problem, findings = None, []
        try:
            findings = check.look(context)
        except (TurnlogError, OSError, sqlite3.Error) as error:
            problem = str(error)
        everything += findings
        checks.append(
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
        healthy=is_well and not any(check.problem for check in checks),
        findings=everything,
        checks=checks,
        homes=[os.fspath(home) for home in context.homes],
        sessions=len(context.session_ids),
        logs=len(context.logs),
        size_bytes=sum(seen.size_bytes for seen in context.surveyed),
        in_use=len(context.in_use),
        checked_at=context.now,
    )
