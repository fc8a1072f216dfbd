"""The paths of new logs, in each of the three layouts.

A path returned here is always inside its directory, because ids that could leave it are rejected,
and its name parses back to the same kind and id. Nothing is created.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from pathlib import Path

from turnlog.errors import InvalidId, UsageError
from turnlog.formats.ids import check_session_id, check_subagent_id
from turnlog.formats.log_file import LogName, day_name, read_name, session_name, subagent_name
from turnlog.formats.projects import project_hash, project_key

_NAME_MAX = 255  # What common file systems allow for one component.


def claude_log(
    home: str | os.PathLike[str],
    project_dir: str | os.PathLike[str],
    session_id: str,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the path of a session's main log: `projects/KEY/ID.jsonl`."""
    key = project_key(project_dir, environ=environ)
    return _beneath(home, "projects", key, _session_log(session_id))


def claude_subagent_log(
    home: str | os.PathLike[str],
    project_dir: str | os.PathLike[str],
    session_id: str,
    agent_id: str,
    *,
    nested: bool = True,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Return the path of a subagent's log: under its session, or next to it in early versions."""
    _session_log(session_id)
    name = subagent_name(check_subagent_id(agent_id))
    key = project_key(project_dir, environ=environ)
    between = (session_id, "subagents") if nested else ()
    return _beneath(home, "projects", key, *between, name)


def subagent_log_near(main: str | os.PathLike[str], session_id: str, agent_id: str) -> Path:
    """Return the path of a subagent's log next to its session's main log, in any layout."""
    _session_log(session_id)
    name = subagent_name(check_subagent_id(agent_id))
    return _beneath(Path(main).parent, session_id, "subagents", name)


def dated_log(
    home: str | os.PathLike[str], project_dir: str | os.PathLike[str], day: dt.date
) -> Path:
    """Return the path of a project's log for one UTC day: `projects/HASH/DATE.jsonl`."""
    return _beneath(home, "projects", project_hash(project_dir), day_name(_utc_day(day)))


def flat_directory(root: str | os.PathLike[str]) -> Path:
    """Return the directory of a root's flat sessions: the root itself if it is one."""
    path = Path(os.path.abspath(root))
    is_one = path.name == "sessions" or os.path.isfile(path / "index.json")
    return path if is_one else path / "sessions"


def flat_log(directory: str | os.PathLike[str], session_id: str) -> Path:
    """Return the path of a session's log in a flat store: `ID.jsonl`."""
    return _beneath(directory, _session_log(session_id))


def flat_meta(directory: str | os.PathLike[str], session_id: str) -> Path:
    _session_log(session_id)
    return _beneath(directory, session_id + ".meta.json")


def flat_index(directory: str | os.PathLike[str]) -> Path:
    return _beneath(directory, "index.json")


def flat_archive(directory: str | os.PathLike[str], session_id: str) -> Path:
    return _beneath(directory, "compressed", _session_log(session_id) + ".gz")


def journal_log(root: str | os.PathLike[str]) -> Path:
    """Return the path of turnlog's own journal."""
    return _beneath(root, "journal.jsonl")


def todo_file(home: str | os.PathLike[str], session_id: str, agent_id: str) -> Path:
    """Return the path of an agent's todos. The main agent's id is the session's own."""
    name = f"{check_session_id(session_id)}-agent-{check_subagent_id(agent_id)}.json"
    if len(name) > _NAME_MAX:
        raise InvalidId(
            f"the two ids make a file name of {len(name)} characters",
            hint=f"file systems allow {_NAME_MAX}; choose a shorter session or subagent id",
        )
    return _beneath(home, "todos", name)


def _session_log(session_id: str) -> str:
    """Return the log's name; reject ids that would make it parse as something else."""
    name = session_name(check_session_id(session_id))
    if read_name(name) != LogName("session", session_id, None):
        raise InvalidId(
            f"{session_id!r} cannot be the id of a new session",
            hint="dates, 'history', 'journal' and names that begin with 'agent-' mean other files",
        )
    return name


def _utc_day(day: dt.date) -> dt.date:
    # A datetime is a date too, but its own date is the wall clock's, not UTC's.
    if not isinstance(day, dt.datetime):
        return day
    if day.tzinfo is None:
        raise UsageError(
            f"{day.isoformat()} does not say which day it is in UTC",
            hint="give a date, or a datetime with a time zone",
        )
    return day.astimezone(dt.UTC).date()


def _beneath(directory: str | os.PathLike[str], *parts: str) -> Path:
    base = Path(os.path.abspath(directory))
    path = base.joinpath(*parts)
    # The checks above leave only plain components. This asserts it for all layouts.
    assert all(os.path.basename(part) == part not in {"", ".", ".."} for part in parts), parts
    assert len(path.parts) == len(base.parts) + len(parts), path
    assert path.is_relative_to(base), path
    return path
