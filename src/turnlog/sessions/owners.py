"""Whose an agent's log is that lies beside the sessions, as early versions put it."""

from __future__ import annotations

from pathlib import Path

from turnlog.errors import TurnlogError
from turnlog.log.reader import scan_log
from turnlog.records.codec import Envelope


def owner_in(path: Path) -> str | None:
    """Give the session that the records of a log name first; None if none does, or can be read."""
    try:
        found = (item for item in scan_log(path) if isinstance(item, Envelope))
        return next((each.session_id for each in found if each.session_id), None)
    except (TurnlogError, OSError):
        return None
