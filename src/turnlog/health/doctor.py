"""How is everything? One look at the health of some homes, and what mends what is wrong.

Each check is one row of a table and one function. A check that fails is told as such and stops none
of the others. Looking changes nothing but the index, which is turnlog's own.
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
    """A check, and what it looks at in a few words."""

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
    Check("unreadable", "unreadable files", unreadable),  # Last: the others may find some.
)
_ORDER: Final = list(Urgency)


class Checked(Struct, kw_only=True, frozen=True):
    """A check that was made, or could not be made."""

    kind: Kind
    looks_at: str
    findings: int
    problem: str | None = None
    """Why it could not be made."""


class Checkup(Struct, kw_only=True):
    """What `turnlog doctor --json` prints."""

    healthy: bool
    """Nothing was found but notes, and every check could be made."""
    findings: list[DoctorFinding]
    """What asks for most first."""
    checks: list[Checked]
    homes: list[str]
    sessions: int
    logs: int
    size_bytes: int
    """Of all logs."""
    in_use: int
    """Logs that seem damaged, and were written to in the last minute: nothing is said of them."""
    checked_at: datetime


def check_up(patient: CheckContext) -> Checkup:
    """Make every check."""
    found: list[DoctorFinding] = []
    checks = []
    for check in CHECKS:
        problem, findings = None, []
        try:
            findings = check.look(patient)
        except (TurnlogError, OSError, sqlite3.Error) as error:
            problem = str(error)
        found += findings
        checks.append(
            Checked(
                kind=check.kind,
                looks_at=check.looks_at,
                findings=len(findings),
                problem=problem,
            )
        )
    found.sort(key=lambda each: _ORDER.index(each.urgency))
    is_well = all(each.urgency is Urgency.NOTE for each in found)
    return Checkup(
        healthy=is_well and not any(each.problem for each in checks),
        findings=found,
        checks=checks,
        homes=[os.fspath(home) for home in patient.homes],
        sessions=len(patient.session_ids),
        logs=len(patient.logs),
        size_bytes=sum(seen.size_bytes for seen in patient.surveyed),
        in_use=len(patient.in_use),
        checked_at=patient.now,
    )
