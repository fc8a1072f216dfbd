"""Open a session for writing in its layout.

Dated layout: one log per project and UTC day, shared with other sessions, so every record gets the
session's id. At midnight the session continues in the next day's log, after reading what others
still wrote to the old one.

Flat layout: a log that begins with ``system_init``, and two caches, ``ID.meta.json`` and the
registry ``index.json``. They are written on create and close, when a title or tag is set, and at
the first append after five seconds, under the log's lock, so that the last write has seen the most.
They can always be rebuilt from the logs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from turnlog.errors import NotFound, UsageError
from turnlog.formats import LayoutName, format_named
from turnlog.formats.flat.meta import MetaFold
from turnlog.formats.flat.registry import update_registry, write_meta
from turnlog.formats.projects import expand_path
from turnlog.records.annotations import format_marker, session_of
from turnlog.records.codec import encode
from turnlog.records.record import Record
from turnlog.sessions.environment import Clock, utc_now
from turnlog.sessions.session import Session
from turnlog.sessions.writing.writer import WRITER, Records, SessionWriter
from turnlog.storage.reader import Placed, read_log
from turnlog.storage.writer import LOCK_TIMEOUT, Durability, News


class DatedWriter(SessionWriter):
    """Appends to a session of the dated layout.

    *place* returns the log of a day, *earlier* are the logs that hold the session's records
    already.
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
        """Append *records* in one write to today's log, each following the one before."""
        self._move_to_today()
        return super()._append(records)

    def _mark_end(self) -> None:
        """Record the end in today's log."""
        self._move_to_today()
        super()._mark_end()

    def _head(self) -> bytes:
        return format_marker(WRITER)  # Of the log, not of the session: others share it.

    def _logs(self) -> Sequence[Path]:
        return (*self._earlier, self.path)

    def _is_mine(self, record: Record) -> bool:
        return session_of(record) == self.session_id

    def _uuids_in(self, path: Path) -> Iterator[str]:
        # Other sessions choose their own uuids: an equal one there is not ours.
        try:
            for item in read_log(path):
                if isinstance(item, Placed) and item.record.uuid and self._is_mine(item.record):
                    yield item.record.uuid
        except NotFound:
            return

    def _look_through(self, path: Path) -> None:
        """Return the tip in an earlier log, however much others have appended after it."""
        self._find_tip_in(path)
        for item in read_log(path) if self._tip is None else ():
            if isinstance(item, Placed) and self._is_mine(item.record):
                self._see(item.record)

    def _move_to_today(self) -> None:
        """Continue in today's log."""
        day = self._clock().date()
        if day == self._day:
            return
        self._append_after(self._after)
        self._create = True
        today = self._place(day)
        fresh = self._open(today)  # If this fails, the next append tries again.
        self._log.close()
        self._earlier.append(self.path)
        self._day, self.path, self._log = day, today, fresh
        if self._opened:  # Each day's log records its own writers.
            self._opened = False
            self._opening = {"continued": True}


AUTOSAVE_S: Final = 5.0


class FlatWriter(SessionWriter):
    """Appends to a session of the flat layout; *model* goes into the head of a new log."""

    def __init__(
        self,
        path: Path,
        *,
        session_id: str,
        cwd: str | os.PathLike[str],
        root: Path | None = None,
        create: bool = True,
        model: str | None = None,
        durability: Durability = "fsync",
        lock_timeout: float | None = LOCK_TIMEOUT,
        clock: Clock = utc_now,
    ) -> None:
        self._model = model
        super().__init__(
            path,
            session_id=session_id,
            cwd=cwd,
            dialect="flat",
            root=root,
            create=create,
            durability=durability,
            lock_timeout=lock_timeout,
            clock=clock,
        )
        self._save()

    def _append(self, records: Records) -> list[str | None]:
        """Append *records* in one write; sometimes update the caches."""
        uuids = super()._append(records)
        if time.monotonic() - self._saved >= AUTOSAVE_S:
            self._save()
        return uuids

    def _label(self, records: Records) -> None:
        super()._label(records)
        self._save()

    def _head(self) -> bytes:
        return encode(system_init(self._clock(), self.cwd, self._model)) + b"\n" + super()._head()

    def _leave(self) -> None:
        try:
            self._save()
        finally:
            super()._leave()

    def _save(self) -> None:
        """Write both caches from the log's current state."""
        self._folded(MetaFold)
        self._append_after(self._save_after)
        self._saved = time.monotonic()

    def _save_after(self, news: News) -> tuple[dict[str, Any], ...]:
        self._take_news(news)
        fold = self._folds.get(MetaFold)
        if isinstance(fold, MetaFold):  # Otherwise the log was just replaced: next time.
            meta = fold.meta(self.session_id)
            write_meta(self.path.parent, meta)
            update_registry(self.path.parent, meta)
        return ()


def system_init(at: datetime, cwd: str, model: str | None) -> dict[str, Any]:
    """Return the first record of a flat log."""
    init = {"type": "system_init", "timestamp": round(at.timestamp() * 1000), "cwd": cwd}
    return init | ({"model": model} if model else {})


def open_writer(
    root: Path,
    layout: LayoutName,
    session_id: str,
    cwd: str | os.PathLike[str],
    durability: Durability,
    *,
    session: Session | None = None,
    model: str | None = None,
) -> SessionWriter:
    """Open a writer: of *session*, at its place, or of a new one under *root*.

    Until its first append a writer leaves no trace, and the session may be archived or deleted. So
    an existing log is never created again: a new one would hide its records.
    """
    try:
        cwd = expand_path(os.fspath(cwd))
    except FileNotFoundError:
        raise UsageError(
            "the working directory is gone", hint="name the project that the session works in"
        ) from None
    form = format_named(layout)
    if form.shares_logs:
        return DatedWriter(
            partial(form.day_log, root, cwd),
            session_id=session_id,
            cwd=cwd,
            earlier=session.paths if session else (),
            root=root,
            durability=durability,
        )
    path = session.path if session else form.new_log(root, cwd, session_id)
    if form.has_registry:
        return FlatWriter(
            path,
            session_id=session_id,
            cwd=cwd,
            root=root,
            create=session is None,
            durability=durability,
            model=model,
        )
    return SessionWriter(
        path,
        session_id=session_id,
        cwd=cwd,
        dialect=form.dialect,
        root=root,
        create=session is None,
        durability=durability,
    )
