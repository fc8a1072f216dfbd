"""Which sessions are there? Listed from the logs themselves, newest first.

Only the ends of each log are read, so that a list costs the same whether logs are short or long.
What can be known only from a whole log (how many records it has) is None here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from turnlog.errors import TurnlogError
from turnlog.layout import Home, LogFile, Problem, find_everywhere
from turnlog.log.tail import read_ends
from turnlog.records.summary import SessionSummary
from turnlog.sessions.life import Life, State


class SessionRow(Struct, kw_only=True, frozen=True):
    """One session in a list."""

    id: str
    project: str | None
    title: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    records: int | None
    state: State
    keeping: Literal["live"] = "live"
    home: str
    path: str
    size_bytes: int
    agents: int
    git_branch: str | None = None
    tag: str | None = None
    models: list[str] = []


class SessionList(Struct, kw_only=True):
    """What `turnlog sessions --json` prints."""

    sessions: list[SessionRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int


def list_sessions(
    homes: Iterable[Home],
    *,
    project: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    now: datetime | None = None,
    problems: list[Problem] | None = None,
) -> SessionList:
    """List the sessions of *homes*, the one that was active last first.

    *project* keeps those that worked in that directory or below it.
    """
    rows = []
    agents: dict[str, int] = {}
    mains: list[LogFile] = []
    for log in find_everywhere(homes, problems=problems):
        if log.kind == "session":
            mains.append(log)
        elif log.kind == "agent" and log.session_id is not None:
            agents[log.session_id] = agents.get(log.session_id, 0) + 1
    for log in mains:
        row = _row(log, agents, now or datetime.now(UTC), problems)
        if row is not None and (project is None or _is_in(row.project, project)):
            rows.append(row)
    rows.sort(key=lambda row: row.last_active_at or datetime.min.replace(tzinfo=UTC), reverse=True)
    end = len(rows) if limit is None else offset + limit
    following = end if end < len(rows) else None
    return SessionList(sessions=rows[offset:end], next=following, total=len(rows))


def _row(
    log: LogFile, agents: dict[str, int], now: datetime, problems: list[Problem] | None
) -> SessionRow | None:
    try:
        head, tail, whole = read_ends(log.path)
        status = os.stat(log.path)
    except (TurnlogError, OSError) as error:
        if problems is not None:
            problems.append(Problem(log.path, str(error)))
        return None
    found, life = SessionSummary(), Life()
    for placed in (*head, *tail):
        found.take(placed.record)
        life.take(placed.record)
    if found.is_sidechain:
        return None
    # Records without an instant say nothing of activity; the file's own time is the next best.
    life.last_active_at = life.last_active_at or datetime.fromtimestamp(status.st_mtime, UTC)
    return SessionRow(
        id=log.session_id or "",
        project=found.cwd,
        title=found.title,
        started_at=found.started_at,
        last_active_at=life.last_active_at,
        records=found.records if whole else None,
        state=life.state(now),
        home=os.fspath(log.home),
        path=os.fspath(log.path),
        size_bytes=status.st_size,
        agents=agents.get(log.session_id or "", 0),
        git_branch=found.git_branch,
        tag=found.tag,
        models=[model for model in found.models if not model.startswith("<")],
    )


def _is_in(cwd: str | None, project: str) -> bool:
    wanted = Path(os.path.abspath(os.path.expanduser(project)))
    return cwd is not None and (Path(cwd) == wanted or wanted in Path(cwd).parents)
