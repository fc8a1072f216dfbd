"""Find the session that a log, or a record in a shared log, belongs to.

A day's log, one per project and UTC day, holds the records of several sessions. A session consists
of the records with its id, over one or more days, in order. Records without an id (early writers
had none) form a session per day, called HASH/DATE after its log. The path of some subagents' logs
does not name their session either; their records do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import structs

from turnlog.errors import AmbiguousSession, TurnlogError
from turnlog.formats import Home, LogFile, Problem, find_everywhere, find_session, read_name
from turnlog.formats.find import only_one
from turnlog.formats.walk import UnreadablePlace
from turnlog.records.annotations import session_of
from turnlog.records.codec import Envelope
from turnlog.records.record import Record
from turnlog.records.record_types import Marker
from turnlog.sessions.metadata import last_activity, read_head_tail
from turnlog.storage.reader import Placed, read_log, scan_log

if TYPE_CHECKING:
    from turnlog.errors import SessionChoice


class DatedRecord(NamedTuple):
    """A record of a day's log and its session."""

    session_id: str
    placed: Placed


def find_any_session(
    homes: Iterable[Home],
    text: str,
    *,
    problems: list[Problem] | None = None,
    unnamed: list[LogFile] | None = None,
) -> tuple[LogFile, ...]:
    """Return the logs of the session whose id begins with *text*, in any layout.

    Logs that do not name their session are added to *unnamed*. Raises AmbiguousSession, with
    the choices, if there are several.
    """
    homes = tuple(homes)
    try:
        return find_session(
            homes,
            text,
            problems=problems,
            share_out=share_out,
            active_at=last_activity,
            unnamed=unnamed,
        )
    except AmbiguousSession as error:
        error.choices = tuple(_choices(homes, text))
        raise


def _choices(homes: Iterable[Home], text: str) -> list[SessionChoice]:
    """Return the sessions whose ids begin with *text*, the most recently active first."""
    logs: dict[str, LogFile] = {}
    days: list[LogFile] = []
    for log in find_everywhere(homes):
        if log.kind == "day":
            days.append(log)
        elif log.kind == "session" and (log.session_id or "").startswith(text):
            logs.setdefault(log.session_id or "", log)
    for session_id, shares in share_out(days).items() if days else ():
        if session_id.startswith(text):
            logs.setdefault(session_id, shares[-1])
    found = [_choice(session_id, log) for session_id, log in logs.items()]
    return sorted(found, key=lambda each: each[1].timestamp() if each[1] else 0, reverse=True)


def _choice(session_id: str, log: LogFile) -> SessionChoice:
    try:
        summary = read_head_tail(log.path).summary
    except (TurnlogError, OSError):
        return session_id, None, None, None
    if log.kind == "day":  # It has other sessions' titles.
        return session_id, summary.last_active_at, summary.cwd, None
    return session_id, summary.last_active_at, summary.cwd, summary.title


def read_day(log: LogFile) -> Iterator[DatedRecord]:
    """Read a day's log; turnlog's heads in it belong to no session."""
    nameless = anonymous_id(log)
    for item in read_log(log.path):
        if isinstance(item, Placed) and not heads_a_log(item.record):
            yield DatedRecord(session_of(item.record) or nameless, item)


def share_out(
    days: Iterable[LogFile], problems: list[Problem] | None = None
) -> dict[str, list[LogFile]]:
    """Return the sessions in *days*, and for each its share of each log, by day.

    The sessions are ordered by their last activity.
    """
    found: dict[str, list[LogFile]] = {}
    for log in sorted(days, key=day_of):
        by_activity: dict[str, None] = {}
        try:
            for dated in read_day(log):
                by_activity.pop(dated.session_id, None)
                by_activity[dated.session_id] = None
        except (TurnlogError, OSError) as error:
            if problems is not None:  # Its sessions are unknown.
                problems.append(UnreadablePlace(log.path, str(error)))
        for session_id in by_activity:
            logs = found.pop(session_id, [])
            if not logs or not is_other_project(logs[0], log):
                logs.append(structs.replace(log, session_id=session_id))
            found[session_id] = logs
    return found


def day_of(log: LogFile) -> str:
    """Return the day in the name of a day's log."""
    name = read_name(log.path.name)
    return name.id if name is not None else ""


def anonymous_id(log: LogFile) -> str:
    """Return the id of the session formed by a day's records without an id."""
    return f"{log.project_key or log.path.parent.name}/{day_of(log)}"


def is_other_project(known: LogFile, log: LogFile) -> bool:
    """Return whether two days' logs are of different homes or projects.

    A copy of a session elsewhere is a duplicate, not a continuation.
    """
    return (known.home, known.project_key) != (log.home, log.project_key)


def heads_a_log(record: Record) -> bool:
    """Return whether *record* is the head of a shared log, which belongs to no session."""
    return isinstance(record, Marker) and record.session_id is None and record.event is None


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
