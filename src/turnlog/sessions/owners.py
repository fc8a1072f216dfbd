"""Whose an agent's log is that lies beside the sessions, as early versions put it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from turnlog.errors import TurnlogError
from turnlog.layout import Home, LogFile, find_everywhere
from turnlog.layout.find import only_one
from turnlog.log.reader import scan_log
from turnlog.records.codec import Envelope


def owner_in(path: Path) -> str | None:
    """Give the session that the records of a log name first; None if none does, or can be read."""
    try:
        found = (item for item in scan_log(path) if isinstance(item, Envelope))
        return next((each.session_id for each in found if each.session_id), None)
    except (TurnlogError, OSError):
        return None


def find_agents_left(homes: Iterable[Home], text: str) -> list[LogFile]:
    """Give the logs of agents that name a session whose id begins with *text*.

    That is all there is of a session whose main log is gone.
    """
    found: dict[str, list[LogFile]] = {}
    for log in find_everywhere(homes):
        if log.kind == "agent" and log.session_id is None and (owner := owner_in(log.path)):
            found.setdefault(owner, []).append(structs.replace(log, session_id=owner))
    if text in found:
        return found[text]
    chosen = only_one([each for each in found if each.startswith(text)], text)
    return found[chosen] if chosen is not None else []
