"""Sessions in logs that they share: one log a project and UTC day, records told apart by their id.

A session is then the records that bear its id, over one or more days, in the order of the days and
of their logs. Records that bear none (the layout's first writers had no ids) make a session of
their own for each day, called HASH/DATE after the place of its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from turnlog.errors import TurnlogError
from turnlog.formats import Home, LogFile, Problem, find_session, read_name
from turnlog.formats.walk import UnreadablePlace
from turnlog.records.annotations import session_of
from turnlog.records.record import Record
from turnlog.records.record_types import Format
from turnlog.sessions.head_tail import last_heard
from turnlog.storage.reader import Placed, read_log


class DatedRecord(NamedTuple):
    """A record of a day's log and the session it belongs to."""

    session_id: str
    placed: Placed


def find_any_session(
    homes: Iterable[Home], text: str, *, problems: list[Problem] | None = None
) -> tuple[LogFile, ...]:
    """Return the logs of the session whose id begins with *text*, in whatever layout it lies."""
    return find_session(homes, text, problems=problems, share_out=share_out, heard=last_heard)


def read_day(log: LogFile) -> Iterator[DatedRecord]:
    """Read a day's log; the heads that turnlog gave it belong to nobody."""
    nameless = anonymous_id(log)
    for item in read_log(log.path):
        if isinstance(item, Placed) and not heads_a_log(item.record):
            yield DatedRecord(session_of(item.record) or nameless, item)


def share_out(
    days: Iterable[LogFile], problems: list[Problem] | None = None
) -> dict[str, list[LogFile]]:
    """Return which sessions there are in *days*, and for each its share of each log, by day.

    The sessions come in the order in which they were last heard of.
    """
    found: dict[str, list[LogFile]] = {}
    for log in sorted(days, key=day_of):
        heard: dict[str, None] = {}
        try:
            for said in read_day(log):
                heard.pop(said.session_id, None)
                heard[said.session_id] = None
        except (TurnlogError, OSError) as error:
            if problems is not None:  # Which sessions it holds is not known.
                problems.append(UnreadablePlace(log.path, str(error)))
        for session_id in heard:
            logs = found.pop(session_id, [])
            if not logs or not is_other_project(logs[0], log):
                logs.append(structs.replace(log, session_id=session_id))
            found[session_id] = logs
    return found


def day_of(log: LogFile) -> str:
    """Return the day of a day's log, as its name says it."""
    name = read_name(log.path.name)
    return name.id if name is not None else ""


def anonymous_id(log: LogFile) -> str:
    """Name the session of a day's log that its records without an id make."""
    return f"{log.project_key or log.path.parent.name}/{day_of(log)}"


def is_other_project(known: LogFile, log: LogFile) -> bool:
    """Return whether two days' logs are of different homes or projects.

    A copy of a session elsewhere is the same session once more, not more of it.
    """
    return (known.home, known.project_key) != (log.home, log.project_key)


def heads_a_log(record: Record) -> bool:
    """Return whether *record* is the head of a log that several sessions share: it is nobody's."""
    return isinstance(record, Format) and record.session_id is None and record.event is None
