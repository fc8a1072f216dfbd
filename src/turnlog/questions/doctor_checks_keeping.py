"""Will it still be there next week? The agent's own cleanup, and what is kept of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from turnlog.keep.retention.agent_cleanup import (
    DEFAULT_DAYS,
    Loss,
    LossCount,
    is_cleaned,
    losses,
    period_of,
)
from turnlog.questions.doctor_checks import Example, Finding, Patient, Urgency, counted, finding

WITHIN_DAYS: Final = 7
"""How far ahead the doctor looks."""


def cleanup(patient: Patient) -> list[Finding]:
    """Find settings of the agent's cleanup that do not say what somebody meant."""
    periods = [period_of(home) for home in patient.homes if is_cleaned(home)]
    examples = [
        Example(path=problem.where if os.path.isabs(problem.where) else period.home,
                detail=problem.reason)
        for period in periods
        for problem in period.problems
    ]  # fmt: skip
    days = min((period.days for period in periods if period.problems), default=DEFAULT_DAYS)
    message = f"The cleanup setting cannot be relied on: sessions may go after {days} days"
    return finding("cleanup", Urgency.ACT, message, examples, patient.command("keep", "--install"))


def going(patient: Patient) -> list[Finding]:
    """Find sessions that the agent's cleanup is about to delete."""
    found = losses(patient.homes, patient.now, WITHIN_DAYS)
    unkept = [_example(patient, loss) for loss in found if not loss.is_kept]
    kept = [_example(patient, loss) for loss in found if loss.is_kept]
    message = f"{_deleted(found, is_kept=False)}, and no copy is kept"
    done = _deleted(found, is_kept=True)
    return [
        *finding("losses", Urgency.ACT, message, unkept, patient.command("keep")),
        *finding(
            "losses", Urgency.NOTE, f"{done}; turnlog keeps a copy", kept,
            patient.command("keep", "status"),
        ),
    ]  # fmt: skip


def _deleted(found: Iterable[Loss], *, is_kept: bool) -> str:
    count = LossCount.of(loss for loss in found if loss.is_kept is is_kept)
    told = [counted(count.sessions, "session")] if count.sessions else []
    told += [counted(count.agents, "agent log")] if count.agents else []
    return f"Claude Code deletes {' and '.join(told)} within {WITHIN_DAYS} days"


def _example(patient: Patient, loss: Loss) -> Example:
    return Example(
        path=loss.path,
        session=loss.id if loss.kind == "session" else None,
        title=patient.titles.get((loss.home, loss.id)),
        detail=_when(patient.now, loss),
    )


def _when(now: datetime, loss: Loss) -> str:
    if loss.is_due or loss.deleted_at is None:
        return "at its next start"
    days = (loss.deleted_at - now).total_seconds() / 86_400
    return "within a day" if days < 1 else f"in {counted(int(days), 'day')}"
