"""Log files: what their names and paths say.

Every name turnlog gives a log parses back to the same kind and id, and is a single component of a
path. Originals kept by a repair, unfinished files and the two reserved names are not logs.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from turnlog.errors import InvalidId
from turnlog.formats import FOLDERS
from turnlog.formats.ids import (
    check_session_id,
    check_subagent_id,
    is_session_id,
    is_subagent_id,
)

if TYPE_CHECKING:
    from turnlog.formats.format import Format
    from turnlog.formats.homes import Home


# A schema lists the names; a type checker accepts any, so that a format is added in one place.
if TYPE_CHECKING:
    LayoutName: TypeAlias = str
else:
    LayoutName = Literal[tuple(FOLDERS)]


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

    @property
    def own_id(self) -> str | None:
        """The id of what the log is of: the subagent's, or the session's."""
        return self.agent_id or self.session_id

    @property
    def format(self) -> Format:
        from turnlog.formats.supported import format_named  # noqa: PLC0415 - It imports this.

        return format_named(self.layout)


LogKind: TypeAlias = Literal["session", "subagent", "day"]
Compression: TypeAlias = Literal["gz", "zst"]

AGENT_PREFIX = "agent-"
LOG_SUFFIX = ".jsonl"
META = ".meta.json"
"""The suffix of metadata next to a log."""

RESERVED = frozenset({"history", "journal", "session_index"})
"""Ids that no log may have: history.jsonl holds a home's prompts, session_index.jsonl the names of
its sessions, journal.jsonl events of a workflow or of turnlog itself.
"""

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ENDINGS: tuple[tuple[str, Compression | None], ...] = (
    (LOG_SUFFIX, None),
    (LOG_SUFFIX + ".gz", "gz"),
    (LOG_SUFFIX + ".zst", "zst"),
)


class LogName(Struct, frozen=True):
    """The parts of a log's name. *id* is a session's id, a subagent's id or a day.

    *session_id* is the session of a subagent, if neither its directory nor its records name it.
    """

    kind: LogKind
    id: str
    compression: Compression | None
    session_id: str | None = None


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


def new_session_name(session_id: str) -> str:
    """Return the name of a new session's log; reject ids that would make it another file's."""
    name = session_name(check_session_id(session_id))
    if read_name(name) != LogName("session", session_id, None):
        raise InvalidId(
            f"{session_id!r} cannot be the id of a new session",
            hint="dates, 'history', 'journal' and names that begin with 'agent-' mean other files",
        )
    return name


def subagent_name(agent_id: str) -> str:
    return AGENT_PREFIX + check_subagent_id(agent_id) + LOG_SUFFIX


def day_name(day: dt.date) -> str:
    return day.isoformat() + LOG_SUFFIX


def subagent_log_near(main: str | os.PathLike[str], session_id: str, agent_id: str) -> Path:
    """Return the path of a subagent's log next to its session's main log, in any layout."""
    new_session_name(session_id)
    return path_beneath(Path(main).parent, session_id, "subagents", subagent_name(agent_id))


def subagent_meta(log: Path) -> Path:
    """Return the path of the metadata next to a subagent's log."""
    return log.with_name(log.name.partition(".")[0] + META)


def path_beneath(directory: str | os.PathLike[str], *parts: str) -> Path:
    """Return the path of *parts* in *directory*; ids in them have been checked."""
    base = Path(os.path.abspath(directory))
    path = base.joinpath(*parts)
    assert all(os.path.basename(part) == part not in {"", ".", ".."} for part in parts), parts
    assert len(path.parts) == len(base.parts) + len(parts), path
    assert path.is_relative_to(base), path
    return path


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
