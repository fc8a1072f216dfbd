"""The state of a session: created, active, resumed, expired, deleted; and ended or crashed.

State is a function of files and the current time, so every process sees the same. turnlog's writers
leave three kinds of records of type ``turnlog`` in the log, which other readers ignore: the head,
``opened`` with the process that writes, and ``ended``. A session whose last one is ``opened`` is
running if that process is alive, else it crashed, unless another writer has since continued and
ended it. A process of another container or machine cannot be checked: it counts as alive until the
session has been inactive for a day. Files that an agent keeps about its own processes are used in
the same way. Recent activity alone proves neither.
"""

# No string annotations here: msgspec would have to evaluate them at every start.

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from turnlog.errors import NotFound, UsageError
from turnlog.records.codec import decode
from turnlog.records.record import Record
from turnlog.records.record_types import Marker
from turnlog.sessions.environment import Process, process, utc_now

if TYPE_CHECKING:
    from turnlog.formats import Home, Problem

IDLE: Final = timedelta(days=30)
OUT_OF_SIGHT: Final = timedelta(days=1)
"""How long a process that cannot be checked counts as alive after its last activity."""
_MARK: Final = b'"type":"turnlog"'
_LOOKED_AT_BYTES: Final = 16 * 1024 * 1024


class State(StrEnum):
    """The state of a session."""

    CREATED = "created"
    ACTIVE = "active"
    RESUMED = "resumed"
    EXPIRED = "expired"
    DELETED = "deleted"


class Recency(StrEnum):
    """How recently a session was active, independent of its state."""

    ACTIVE = "active"  # Within five minutes.
    INACTIVE = "inactive"  # Within an hour.
    STALE = "stale"


_ACTIVE: Final = timedelta(minutes=5)
_INACTIVE: Final = timedelta(hours=1)


def recency(last_active_at: datetime | None, now: datetime) -> Recency | None:
    """Return how recently a session was active; None if unknown."""
    if last_active_at is None:
        return None
    quiet = now - last_active_at
    if quiet < _ACTIVE:
        return Recency.ACTIVE
    return Recency.INACTIVE if quiet < _INACTIVE else Recency.STALE


# The allowed transitions. All others are errors.
MOVES: Final = {
    State.CREATED: {State.CREATED, State.ACTIVE, State.EXPIRED, State.DELETED},
    State.ACTIVE: {State.ACTIVE, State.RESUMED, State.EXPIRED, State.DELETED},
    State.RESUMED: {State.ACTIVE, State.RESUMED, State.EXPIRED, State.DELETED},
    State.EXPIRED: {State.RESUMED, State.DELETED},
    State.DELETED: set(),
}


class SessionState(Struct):
    """The facts that decide a session's state; call ``take`` for each record of its log."""

    records: int = 0
    """The number of records, without turnlog's own."""
    last_active_at: datetime | None = None
    opened_at: datetime | None = None
    opened: int = 0
    records_since_opened: int = 0
    writers: list[Process] = field(default_factory=list)
    """Processes that opened it and have not ended it."""
    forgiven: list[Process] = field(default_factory=list)
    """Those of them after which another writer ended the session properly."""
    goodbye_at: datetime | None = None

    def take(self, record: Record) -> None:
        """Add a record."""
        if isinstance(record, Marker):
            self._take_mark(record)
            return
        self.records += 1
        self.records_since_opened += 1
        self.goodbye_at = None
        at = record.at
        if at is not None:
            self.last_active_at = max(at, self.last_active_at or at)

    def _take_mark(self, mark: Marker) -> None:
        if mark.event == "opened":
            writer = _process_of(mark.process)
            if mark.continued and writer in self.writers:
                return  # It only moved to the next day's log.
            self.opened += 1
            self.opened_at = mark.at
            self.records_since_opened = 0
            self.goodbye_at = None
            if writer is not None:
                self.writers.append(writer)
        elif mark.event == "ended":
            writer = _process_of(mark.process)
            if writer in self.writers:
                self.writers.remove(writer)
            self.forgiven = list(self.writers)
            self.goodbye_at = mark.at

    def state(self, now: datetime, *, idle: timedelta = IDLE) -> State:
        """Return the state of the session at *now*."""
        if self.last_active_at is not None and now - self.last_active_at >= idle:
            return State.EXPIRED
        if not self.records:
            return State.CREATED
        if self.opened > 1 and not self.records_since_opened:
            return State.RESUMED
        return State.ACTIVE

    @property
    def ended_at(self) -> datetime | None:
        """When the last writer ended it; None while a process writes."""
        return None if self.is_running else self.goodbye_at

    @property
    def is_running(self) -> bool:
        """Whether a process that writes it is alive, or may be."""
        return bool(self.living)

    @property
    def living(self) -> list[Process]:
        """The writers that are alive, or may be alive where that cannot be checked."""
        signs = [at for at in (self.opened_at, self.last_active_at) if at is not None]
        may_be = bool(signs) and utc_now() - max(signs) < OUT_OF_SIGHT
        alive = ((writer, writer.is_alive) for writer in self.writers)
        return [writer for writer, lives in alive if lives or (lives is None and may_be)]

    @property
    def crashed(self) -> bool:
        """Whether a writer is gone without ending it, and no other continued."""
        silent = [writer for writer in self.writers if writer not in self.forgiven]
        return bool(silent) and not self.is_running


def marks_of(
    path: str | os.PathLike[str], session_id: str | None = None, *, start: int = 0
) -> SessionState:
    """Return a log's state facts from turnlog's own records; *session_id* for a shared log.

    Nothing else is decoded, so a gigabyte takes a fraction of a second; records are not counted,
    and the mtime is the last activity. Of a long log the part from *start* on may be enough.
    """
    from turnlog.records.annotations import session_of  # noqa: PLC0415
    from turnlog.storage.scan import FoundLines  # noqa: PLC0415 - The fold needs no search.

    life = SessionState()
    for _, line in FoundLines(path, _MARK, start=start):
        record = decode(line) if isinstance(line, bytes) else None
        if isinstance(record, Marker) and session_id in (None, session_of(record)):
            life.take(record)
    with suppress(OSError):  # Gone since.
        life.last_active_at = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    return life


def state_of(records: Iterable[Record]) -> SessionState:
    """Return the state facts of a session's records."""
    life = SessionState()
    for record in records:
        life.take(record)
    return life


def check_move(before: State, after: State) -> None:
    """Raise if a session cannot change from *before* to *after*."""
    if after not in MOVES[before]:
        allowed = ", ".join(sorted(MOVES[before])) or "nothing"
        raise UsageError(
            f"a session that is {before} cannot become {after}", hint=f"it can become {allowed}"
        )


class Running(Struct, frozen=True):
    """What an agent's file says about its process, and whether that is still true."""

    session_id: str
    pid: int
    status: str | None
    is_alive: bool
    path: Path
    layout: str
    """The format of the session."""
    status_at: datetime | None = None
    waiting_for: str | None = None
    cwd: str | None = None

    @property
    def doing(self) -> str:
        """What the program reports it is doing."""
        return self.status or "running"

    def was_killed(self, life: SessionState) -> bool:
        """Return whether the program is gone, and no writer has continued and ended the session.

        *life* is that of the session. The file stays until the agent itself deletes it.
        """
        if self.is_alive:
            return False
        try:
            left_at = self.path.stat().st_mtime
        except OSError:
            return False  # Deleted just now.
        return life.goodbye_at is None or life.goodbye_at.timestamp() <= left_at


def agent_processes(home: "Home", *, problems: "list[Problem] | None" = None) -> list[Running]:
    """Return the sessions of *home* that an agent runs, or ran when it was killed.

    Files and directories that cannot be read are added to *problems*.
    """
    from turnlog.formats import FORMATS  # noqa: PLC0415 - Nor does it look for programs.

    return [
        Running(
            session_id=file.session_id,
            pid=file.pid,
            status=file.status,
            is_alive=_is_the_same(file.pid, file.started),
            path=file.path,
            layout=each.name,
            status_at=file.status_at,
            waiting_for=file.waiting_for,
            cwd=file.cwd,
        )
        for each in FORMATS
        for file in each.processes(home, problems)
    ]


def running_sessions(
    homes: Iterable["Home"], *, problems: "list[Problem] | None" = None
) -> dict[str, Running]:
    """Return the agents' running or killed sessions by id; running ones take precedence."""
    found: dict[str, Running] = {}
    for home in homes:
        for each in agent_processes(home, problems=problems):
            if each.session_id not in found or each.is_alive:
                found[each.session_id] = each
    return found


def was_abandoned(
    log: str | os.PathLike[str], session_id: str | None, running: Running | None
) -> bool:
    """Return whether a session's writer is gone without ending it; *session_id* if shared.

    A writer may end the session after its records were read, and be gone when it is checked, so
    they are read once more. A log that is gone meanwhile is not abandoned.
    """
    try:
        if running is not None:
            return running.was_killed(marks_of(log, session_id))
        return all(marks_of(log, session_id).crashed for _ in range(2))
    except NotFound:
        return False


def is_being_written(session_id: str, log: Path, homes: Iterable["Home"]) -> bool:
    """Return whether a process that writes a session is alive; *log* is its last main log.

    Only the end of a long log is read: a writer that opened it earlier is missed.
    """
    from turnlog.storage.atomic_files import size_at  # noqa: PLC0415 - The fold writes nothing.

    program = running_sessions(homes).get(session_id)
    if program is not None and program.is_alive:
        return True
    start = max(0, size_at(log) - _LOOKED_AT_BYTES)
    return marks_of(log, session_id, start=start).is_running


def _is_the_same(pid: int, started: str | None) -> bool:
    """Return whether *pid* is still the process that began at *started*, as far as known."""
    living = process(pid)
    return living is not None and (not living.started or started in (None, living.started))


def _process_of(value: Any) -> Process | None:
    try:
        return msgspec.convert(value, Process)
    except (msgspec.ValidationError, ValueError, TypeError):
        return None
