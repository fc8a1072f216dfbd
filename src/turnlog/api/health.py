"""Check logs for damage and for secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnlog.api.arguments import line_cap
from turnlog.api.homes import Home, Problem, all_logs, turnlog_home
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
    "Health",
    "HealthTotals",
    "LocatedFinding",
    "SecretRow",
    "SecretsDocument",
    "check",
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
