"""Check logs for damage and secrets; diagnose problems of homes, sessions and the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from turnlog.api.arguments import line_cap
from turnlog.api.homes import Home, Problem, all_homes, all_logs, turnlog_home
from turnlog.api.index import Index
from turnlog.errors import TurnlogError
from turnlog.health.doctor import CheckContext, Checkup, DoctorFinding, Example, check_up
from turnlog.health.logs import LESS_THAN_KEPT, Health, HealthTotals, LocatedFinding, examine
from turnlog.health.secrets import (
    EXPORTED,
    SecretRow,
    SecretsDocument,
    export_fact,
    scan_secrets,
)
from turnlog.redact import Secret
from turnlog.sessions.journal import Journal
from turnlog.sessions.owners import find_any_session

__all__ = [
    "LESS_THAN_KEPT",
    "CheckContext",
    "Checkup",
    "DoctorFinding",
    "Example",
    "Health",
    "HealthTotals",
    "LocatedFinding",
    "SecretRow",
    "SecretsDocument",
    "check",
    "check_up",
    "doctor_context",
    "examine",
    "note_exported_secrets",
    "scan_secrets",
]


def check(homes: Sequence[Home], name: str | None = None, *, strict: bool = False) -> Health:
    """Check all logs of *homes*, or those of one session; change nothing."""
    problems: list[Problem] = []
    if name is None:
        logs = all_logs(homes, problems)
    else:
        logs = list(find_any_session(homes, name, problems=problems))
    return examine(logs, problems=problems, strict=strict, cap=line_cap())


def note_exported_secrets(target: Path, secrets: dict[str, dict[str, Secret]]) -> None:
    """Note in the journal which secrets of which sessions were exported unmasked to *target*."""
    journal = Journal.in_root(turnlog_home())
    for session_id, found in secrets.items():
        journal.note(EXPORTED, session_id, **export_fact(target, found.values()))


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
