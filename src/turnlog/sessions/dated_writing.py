"""Writing a session into the logs of days: one log a project and UTC day, shared with others.

Every record gets the session's id, by which it is told apart. At midnight the session goes on in
the next day's log: what others still wrote to the old one is read first, so the thread goes on
from there. A record that bears no id of its own (a title, a summary) is given it as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

from turnlog.errors import NotFound
from turnlog.records.annotations import format_marker, session_of
from turnlog.records.record import Record
from turnlog.sessions.surroundings import Clock, utc_now
from turnlog.sessions.writing import WRITER, Records, SessionWriter
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.writer import LOCK_TIMEOUT, Durability


class DatedWriter(SessionWriter):
    """Appends to a session of the dated layout.

    *place* gives the log of a day, *earlier* are the logs that hold the session's records already.
    """

    def __init__(
        self,
        place: Callable[[date], Path],
        *,
        session_id: str,
        cwd: str | os.PathLike[str],
        earlier: Sequence[Path] = (),
        root: Path | None = None,
        durability: Durability = "fsync",
        lock_timeout: float | None = LOCK_TIMEOUT,
        clock: Clock = utc_now,
    ) -> None:
        self._place = place
        self._day = clock().date()
        today = place(self._day)
        self._earlier = [path for path in earlier if path != today]
        super().__init__(
            today,
            session_id=session_id,
            cwd=cwd,
            dialect="orchestrator",
            root=root,
            create=today not in earlier,
            durability=durability,
            lock_timeout=lock_timeout,
            clock=clock,
        )
        for path in reversed(self._earlier):
            if self._tip is not None:
                break
            self._look_through(path)

    def _append(self, records: Records) -> list[str | None]:
        """Append *records* in one write to the log of today, each behind the one before."""
        self._turn_page()
        return super()._append(records)

    def _say_goodbye(self) -> None:
        """Say goodbye in the log of today."""
        self._turn_page()
        super()._say_goodbye()

    def _head(self) -> bytes:
        return format_marker(WRITER)  # Of the log, not of the session: others share it.

    def _logs(self) -> Sequence[Path]:
        return (*self._earlier, self.path)

    def _is_mine(self, record: Record) -> bool:
        return session_of(record) == self.session_id

    def _uuids_in(self, path: Path) -> Iterator[str]:
        # Others' records have uuids of their own making: the same one there is not ours.
        try:
            for item in read_log(path):
                if isinstance(item, Placed) and item.record.uuid and self._is_mine(item.record):
                    yield item.record.uuid
        except NotFound:
            return

    def _look_through(self, path: Path) -> None:
        """Find the tip in an earlier log, however much others have written behind it."""
        self._find_tip_in(path)
        for item in read_log(path) if self._tip is None else ():
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._see(item.record)

    def _turn_page(self) -> None:
        """Go on in the log of today."""
        day = self._clock().date()
        if day == self._day:
            return
        self._append_after(self._after)
        self._create = True
        today = self._place(day)
        fresh = self._open(today)  # If this fails, the page is not turned, and may be later.
        self._log.close()
        self._earlier.append(self.path)
        self._day, self.path, self._log = day, today, fresh
        if self._opened:  # Each day's log tells by itself who writes it.
            self._opened = False
            self._opening = {"continued": True}
