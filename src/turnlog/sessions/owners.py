"""Find the session of a log whose path does not show it, such as some subagents' logs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import structs

from turnlog.errors import TurnlogError
from turnlog.formats import Home, LogFile, find_everywhere
from turnlog.formats.find import only_one
from turnlog.records.codec import Envelope
from turnlog.storage.reader import scan_log

MARK: Final = "turnlog"
"""The type of turnlog's own records, which do not belong to a session."""


def owner_in(path: Path) -> str | None:
    """Return the session that a log's records name first; None if there is none."""
    try:
        found = (item for item in scan_log(path) if isinstance(item, Envelope))
        return next((each.session_id for each in found if each.session_id), None)
    except (TurnlogError, OSError):
        return None


def is_subagent_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a log named like a session's is a subagent's: it begins with a sidechain.

    Lists exclude such logs. A log that cannot be read may be a session's.
    """
    try:
        for item in scan_log(path):
            if isinstance(item, Envelope) and item.type != MARK:
                return item.is_sidechain is True
    except (TurnlogError, OSError):
        pass
    return False


def find_orphaned_subagents(homes: Iterable[Home], text: str) -> list[LogFile]:
    """Return agents' logs that name a session whose id begins with *text*.

    They are all that is left of a session whose main log is gone.
    """
    found: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes):
        if log.kind == "subagent" and log.session_id is None and (owner := owner_in(log.path)):
            found.setdefault(owner, []).append(structs.replace(log, session_id=owner))
    if text in found:
        return found[text]
    chosen = only_one([each for each in found if each.startswith(text)], text)
    return found[chosen] if chosen is not None else []
