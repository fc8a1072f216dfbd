"""The most recent sessions to resume, with what helps to tell them apart.

They are sorted as in ``sessions``, but the number of steps is exact: the logs of those that are
shown are read from end to end, one record at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.catalog.sessions import SessionRow, list_sessions
from turnlog.errors import TurnlogError
from turnlog.formats import Home, Problem, read_name
from turnlog.records.record import Linked, Record
from turnlog.sessions.reading.ranges import count_steps
from turnlog.sessions.session import Session
from turnlog.sessions.state import State
from turnlog.storage.atomic_files import text_of
from turnlog.storage.reader import Placed, read_log

SHOWN: Final = 10


class RecentSession(Struct, frozen=True, kw_only=True):
    """A session to resume."""

    number: int
    """Its number in the list, from 1."""
    id: str
    title: str | None
    steps: int | None
    """Prompts, responses and results. Null if the log could not be read to its end."""
    last_active_at: datetime | None
    age_seconds: int | None
    project: str | None
    git_branch: str | None
    state: State
    home: str
    path: str


class RecentSessions(Struct, frozen=True, kw_only=True):
    """The most recent sessions; *next* is the offset of the next page, or null."""

    sessions: list[RecentSession]
    next: int | None
    total: int


def recent_sessions(
    homes: Iterable[Home],
    *,
    project: str | None = None,
    limit: int = SHOWN,
    offset: int = 0,
    now: datetime | None = None,
    problems: list[Problem] | None = None,
) -> RecentSessions:
    """Return the sessions of *homes* that were last active, newest first."""
    homes = tuple(homes)
    now = now or datetime.now(UTC)
    found = list_sessions(
        homes, project=project, limit=limit, offset=offset, now=now, problems=problems
    )
    rows = enumerate(found.sessions, offset + 1)
    return RecentSessions(
        sessions=[_choice(homes, number, row, now, problems) for number, row in rows],
        next=found.next,
        total=found.total,
    )


def _choice(
    homes: tuple[Home, ...],
    number: int,
    row: SessionRow,
    now: datetime,
    problems: list[Problem] | None,
) -> RecentSession:
    steps: int | None
    try:
        steps = count_steps(filter(_is_its_own, _records(homes, row)))
    except (TurnlogError, OSError) as error:  # Deleted since, or not readable.
        steps = None
        if problems is not None:
            problems.append(Problem(Path(row.path), str(error)))
    active_at = row.last_active_at
    return RecentSession(
        number=number,
        id=row.id,
        title=text_of(row.title),
        steps=steps,
        last_active_at=active_at,
        age_seconds=max(0, int((now - active_at).total_seconds())) if active_at else None,
        project=text_of(row.project),
        git_branch=text_of(row.git_branch),
        state=row.state,
        home=row.home,
        path=row.path,
    )


def _is_its_own(record: Record) -> bool:
    """Return whether *record* is not of a subagent in the same log."""
    return not (isinstance(record, Linked) and record.is_sidechain)


def _records(homes: tuple[Home, ...], row: SessionRow) -> Iterator[Record]:
    """Read the records of a session's main log, or its share of several."""
    name = read_name(Path(row.path).name)
    if name is not None and name.kind == "day":
        return (item.record for item in Session.find(homes, row.id).items())
    return (item.record for item in read_log(row.path) if isinstance(item, Placed))
