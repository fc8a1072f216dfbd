"""Log files: what their names and paths say.

Every name turnlog gives a log parses back to the same kind and id. Originals kept by a repair,
unfinished files and the two reserved names are never taken for logs.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from turnlog.formats.ids import is_session_id, is_subagent_id

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog.formats.homes import Home


LayoutName: TypeAlias = Literal["claude", "dated", "flat"]


class LogFile(Struct, frozen=True):
    """A log and what its path says about it.

    *session_id* is None where only records know it: for a subagent's log next to the sessions, and
    for a day's log, which several sessions share. *project_key* is the name of the directory under
    projects/ (a hash in the dated layout).
    """

    path: Path
    home: Home
    layout: LayoutName
    kind: LogKind
    session_id: str | None
    agent_id: str | None
    project_key: str | None
    compression: Compression | None
    is_kept: bool = False
    """The source is gone: *path* is that of turnlog's copy."""


LogKind: TypeAlias = Literal["session", "subagent", "day"]
Compression: TypeAlias = Literal["gz", "zst"]

AGENT_PREFIX = "agent-"
LOG_SUFFIX = ".jsonl"

RESERVED = frozenset({"history", "journal"})
"""Ids that no log may have: history.jsonl holds a home's prompts, journal.jsonl events of a
workflow or of turnlog itself.
"""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ENDINGS: tuple[tuple[str, Compression | None], ...] = (
    (LOG_SUFFIX, None),
    (LOG_SUFFIX + ".gz", "gz"),
    (LOG_SUFFIX + ".zst", "zst"),
)


class LogName(Struct, frozen=True):
    """The parts of a log's name. *id* is a session's id, a subagent's id or a day."""

    kind: LogKind
    id: str
    compression: Compression | None


def read_name(name: str) -> LogName | None:
    """Parse a file's name (no directory); None if it is not a log's."""
    parted = _part(name)
    if parted is None:
        return None
    stem, compression = parted
    if stem.lower() in RESERVED:
        return None
    if stem.startswith(AGENT_PREFIX):
        agent_id = stem.removeprefix(AGENT_PREFIX)
        return LogName("subagent", agent_id, compression) if is_subagent_id(agent_id) else None
    if _is_day(stem):
        return LogName("day", stem, compression)
    return LogName("session", stem, compression) if is_session_id(stem) else None


def looks_like_log(name: str) -> bool:
    """Return whether a user may expect the file called *name* to be read as a log.

    Wider than `read_name`: names that look like a log's but cannot be are reported, while hidden
    files, reserved names and renamed originals are ignored silently.
    """
    parted = _part(name)
    if parted is None:
        return False
    stem = parted[0]
    hidden = not stem or stem.startswith(".")
    return not hidden and stem.lower() not in RESERVED and LOG_SUFFIX + "." not in stem + "."


def session_name(session_id: str) -> str:
    return session_id + LOG_SUFFIX


def subagent_name(agent_id: str) -> str:
    return AGENT_PREFIX + agent_id + LOG_SUFFIX


def day_name(day: dt.date) -> str:
    return day.isoformat() + LOG_SUFFIX


def _part(name: str) -> tuple[str, Compression | None] | None:
    for ending, compression in _ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending), compression
    return None


def _is_day(stem: str) -> bool:
    if _DAY.fullmatch(stem) is None:
        return False
    try:
        dt.date.fromisoformat(stem)
    except ValueError:
        return False  # 2025-02-30 is not a day, but a valid session id.
    return True
