"""When a session was last active, where it worked, what it is called: as its own records say.

Files' times say little: copying, repairing and touching change them. So the latest instant that any
record bears counts, and a file's time only where no record bears one. What is told of a session
that may go is told from all its records, not from the ends of its logs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from turnlog.layout import LogFile
from turnlog.log.reader import Placed, read_log
from turnlog.log.tail import read_ends
from turnlog.records.record import Record
from turnlog.records.summary import SessionSummary
from turnlog.sessions.dated import read_day


class Activity(Struct, kw_only=True):
    """What a session's logs say of it."""

    last_active_at: datetime | None = None
    """None if neither a record nor a file has a time."""
    is_from_files: bool = False
    """No record bears an instant: it is the time of the file that was written last."""
    project: str | None = None
    title: str | None = None


def glance_at(session_id: str, logs: Sequence[LogFile]) -> Activity:
    """Tell what the ends of a session's logs say; of days' logs, which it shares, all of them."""
    return _folded(session_id, logs, _ends)


def activity_of(session_id: str, logs: Sequence[LogFile]) -> Activity:
    """Tell what all records of a session say, those of its agents included."""
    return _folded(session_id, logs, _whole)


def _folded(
    session_id: str, logs: Sequence[LogFile], read: Callable[[LogFile], Iterable[Record]]
) -> Activity:
    fold = _Fold()
    for log in logs:
        if log.kind == "day":
            fold.take_all(said.placed.record for said in read_day(log) if said[0] == session_id)
        else:
            fold.take_all(read(log), is_main=log.kind == "session")
    return fold.activity(logs)


def _ends(log: LogFile) -> Iterator[Record]:
    ends = read_ends(log.path)
    yield from ends.head
    yield from ends.tail


def _whole(log: LogFile) -> Iterator[Record]:
    return (item.record for item in read_log(log.path) if isinstance(item, Placed))


class _Fold:
    def __init__(self) -> None:
        self.summary = SessionSummary()
        self.last_at: datetime | None = None

    def take_all(self, records: Iterable[Record], *, is_main: bool = True) -> None:
        for record in records:
            if is_main:
                self.summary.take(record)
            if record.at is not None:
                self.last_at = max(record.at, self.last_at or record.at)

    def activity(self, logs: Iterable[LogFile]) -> Activity:
        return Activity(
            last_active_at=self.last_at or _changed_at(logs),
            is_from_files=self.last_at is None,
            project=self.summary.cwd,
            title=self.summary.title,
        )


def _changed_at(logs: Iterable[LogFile]) -> datetime | None:
    """Tell when the one of *logs* was written that was written last."""
    times = []
    for log in logs:
        try:
            times.append(datetime.fromtimestamp(os.stat(log.path).st_mtime, UTC))
        except (OSError, ValueError, OverflowError):
            return None  # One that cannot be asked may be the youngest.
    return max(times, default=None)
