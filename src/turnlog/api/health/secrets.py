"""Find secrets in logs, and note which ones were exported."""

from __future__ import annotations

from pathlib import Path

from turnlog.api.homes import turnlog_home
from turnlog.health.secrets import (
    EXPORTED,
    SecretRow,
    SecretsDocument,
    export_fact,
    scan_secrets,
)
from turnlog.redact import Secret
from turnlog.sessions.journal import Journal

__all__ = ["SecretRow", "SecretsDocument", "note_exported_secrets", "scan_secrets"]


def note_exported_secrets(target: Path, secrets: dict[str, dict[str, Secret]]) -> None:
    """Note in the journal which secrets of which sessions were exported unmasked to *target*."""
    journal = Journal.in_root(turnlog_home())
    for session_id, found in secrets.items():
        journal.note(EXPORTED, session_id, **export_fact(target, found.values()))
