"""What is running, and what each session is doing now.

Two things are put together. What the index and the ledger know (titles, costs, the block, today) is
asked for with ``ask``, which refreshes the index first and may take its time. What is going on this
moment (which programs live, what they say, the ends of the logs) is gathered with ``look``, which
reads only what was appended since. Either may be called from any thread, and before the other.

Costs and tokens are the ledger's, contexts the status line's, the block that of `cost blocks`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, structs

from turnlog.catalog.pages import tokens_of
from turnlog.catalog.sessions import Keeping
from turnlog.costs.blocks import BlockRow, active_block
from turnlog.costs.statusline import compute_figures
from turnlog.costs.statusline_figures import window_of
from turnlog.costs.usage import IndexSource
from turnlog.errors import TurnlogError
from turnlog.formats import Home, claude_log, read_name, subagent_logs_near
from turnlog.formats.projects import is_within
from turnlog.formats.supported import SHARED_LAYOUTS
from turnlog.index.connection import open_fresh
from turnlog.index.refresh.refresh import Progress
from turnlog.live.activity import (
    ASKING,
    Activity,
    Doing,
    LiveCall,
    LogEnd,
    Program,
    programs,
)
from turnlog.live.rows import Row, known_rows, sums_of
from turnlog.pricing.cost import Prices
from turnlog.sessions.metadata import read_head_tail
from turnlog.sessions.state import SessionState, State

RECENT: Final = timedelta(days=1)
"""Sessions that were active in this time are shown, running or not."""
_LIVELY_SECONDS: Final = 120
"""A log that was written so lately counts as running, whoever writes it."""
_SUBAGENTS_SECONDS: Final = 600


class LiveSession(Struct, kw_only=True):
    """One session, and what it is doing."""

    id: str
    project: str | None
    title: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    records: int | None
    state: State
    keeping: Keeping
    home: str
    layout: str
    path: str
    git_branch: str | None
    pid: int | None
    """Of the program that runs it, if that says so."""
    is_running: bool
    doing: Doing
    since_at: datetime | None
    """When it began to do that."""
    waiting_for: str | None
    """What a person is asked for, if the program says it."""
    prompt: str | None
    """The last one."""
    calls: list[LiveCall]
    """The tools that are at work, its subagents' included."""
    subagents: int
    """How many of its subagents are at work."""
    model: str | None
    messages: int = 0
    """API responses, each counted once, its subagents' included; so are tokens and cost."""
    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    cost_usd: str = "0"
    context_tokens: int | None = None
    """What the model read for the last response of the main thread."""
    context_window: int | None = None

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return tokens_of(self)

    @property
    def context_percent(self) -> float | None:
        """How full the model's context is."""
        if self.context_tokens is None or not self.context_window:
            return None
        return 100 * self.context_tokens / self.context_window


class LiveDay(Struct, kw_only=True):
    """What today cost so far."""

    day: str
    cost_usd: str


class LiveDocument(Struct, kw_only=True):
    """What `turnlog top --json` prints."""

    at: datetime
    sessions: list[LiveSession]
    """Those that wait for a person first, then those at work, then the rest by time."""
    next: None = None
    today: LiveDay | None = None
    block: BlockRow | None = None
    """The five-hour block that lasts now."""

    @property
    def running(self) -> int:
        """How many run."""
        return sum(each.is_running for each in self.sessions)

    @property
    def waiting(self) -> int:
        """How many wait for a person."""
        return sum(each.doing is Doing.WAITING for each in self.sessions)


class _IndexAnswer(Struct):
    """What the index said last."""

    rows: dict[str, Row] = field(default_factory=dict)
    today: LiveDay | None = None
    block: BlockRow | None = None


class Live:
    """The sessions of *homes* that run, or were active in *recent*; in *project* only, if named."""

    def __init__(
        self,
        homes: Sequence[Home],
        prices: Prices,
        *,
        zone: tzinfo,
        recent: timedelta = RECENT,
        project: str | None = None,
    ) -> None:
        self.homes = tuple(homes)
        self._prices, self._zone = prices, zone
        self._recent, self._project = recent, project
        self.notices: list[str] = []
        """What whoever looks should know of the index that was asked."""
        self._asked = _IndexAnswer()
        self._programs: dict[str, Program] = {}
        self._bare: dict[str, Row] = {}
        self._ends: dict[Path, LogEnd] = {}
        self._lock = threading.Lock()

    def ask(self, *, progress: Progress | None = None) -> None:
        """Refresh the index, and note what it and the ledger know."""
        with open_fresh(self.homes, progress=progress) as index:
            now = datetime.now(UTC)
            rows = known_rows(index, now - self._recent, programs(self.homes))
            figures = compute_figures(
                index, self._prices, sessions=list(rows), now=now, zone=self._zone
            )
            for session, sums in sums_of(index, self._prices, rows, self._zone).items():
                context = figures["sessions"].get(session, {}).get("context_tokens")
                rows[session].sums = sums | {"context_tokens": context}
            block, _ = active_block(IndexSource(index, self._prices), self._prices, now=now)
            self.notices = index.refreshed.notices if index.refreshed else []
            today = LiveDay(day=figures["day"], cost_usd=figures["today"]["cost_usd"])
        self._asked = _IndexAnswer(rows, today, block)

    def has_moved(self) -> bool:
        """Return whether a program began, ended or says something else since the last look."""
        return programs(self.homes) != self._programs

    def look(self) -> LiveDocument:
        """Return what is going on now; nothing is read but what was appended."""
        with self._lock:
            now, known = datetime.now(UTC), self._asked
            running = self._programs = programs(self.homes)
            rows = dict(known.rows)
            for session_id, program in running.items():
                if session_id not in rows and program.running.is_alive:
                    rows[session_id] = self._bare_row(session_id, program)
            sessions = [self._session(row, running.get(row.id), now) for row in rows.values()]
            looked = {Path(row.path) for row in rows.values()}
            for path in [each for each in self._ends if each not in looked]:
                if now.timestamp() - self._ends[path].changed_at > _SUBAGENTS_SECONDS:
                    del self._ends[path]
        wanted = [each for each in sessions if self._is_wanted(each, now)]
        return LiveDocument(
            at=now, sessions=sorted(wanted, key=urgency), today=known.today, block=known.block
        )

    def _is_wanted(self, session: LiveSession, now: datetime) -> bool:
        if self._project is not None and not is_within(session.project, self._project):
            return False
        last = session.last_active_at
        return session.is_running or (last is not None and now - last <= self._recent)

    def _session(self, row: Row, program: Program | None, now: datetime) -> LiveSession:
        path = Path(row.path)
        end = self._end(path, session=shared_by(row.id, row.layout))
        activity = end.look()
        is_running = _is_running(row.life, program, end)
        doing, since_at = _doing(row.life, program, activity, is_running=is_running)
        calls = list(activity.calls.values())
        subagents = self._subagents(path, row.id, now) if doing.is_at_work or _asks(doing) else []
        last = max((at for at in (row.last_active_at, activity.last_at) if at), default=None)
        model = activity.model or row.model
        session = LiveSession(
            **_facts(row, last, now),
            pid=program.running.pid if program and program.running.is_alive else None,
            is_running=is_running,
            doing=doing,
            since_at=since_at,
            waiting_for=_waiting_for(doing, program, calls),
            prompt=activity.prompt,
            calls=[*calls, *(call for each in subagents for call in each.calls.values())],
            subagents=len(subagents),
            model=model,
            **row.sums,
        )
        if not is_running or doing is Doing.IDLE:
            session.calls = []
        if session.context_tokens is not None:
            session.context_window = window_of(model, session.context_tokens)
        return session

    def _end(self, path: Path, **more: Any) -> LogEnd:
        if path not in self._ends:
            self._ends[path] = LogEnd(path, **more)
        return self._ends[path]

    def _subagents(self, main: Path, session_id: str, now: datetime) -> list[Activity]:
        """Return what the subagents of a session are doing that are at work."""
        found = []
        try:
            for path in subagent_logs_near(main, session_id):
                if now.timestamp() - os.stat(path).st_mtime <= _SUBAGENTS_SECONDS:
                    name = read_name(path.name)
                    activity = self._end(path, subagent=name.id if name else path.stem).look()
                    if activity.doing is not Doing.IDLE:
                        found.append(activity)
        except (OSError, TurnlogError):  # One vanished, or the id is nobody's.
            pass
        return found

    def _bare_row(self, session_id: str, program: Program) -> Row:
        """Return what the ends of the log say of a session that is not indexed yet."""
        if session_id in self._bare:
            return self._bare[session_id]
        row = Row(id=session_id, home=str(program.home.path), path="", project=program.cwd)
        try:
            row.path = str(claude_log(program.home.path, program.cwd or "/", session_id))
            told = read_head_tail(row.path).summary
        except (OSError, ValueError, TurnlogError):
            return row  # Nothing is written yet.
        row.title, row.git_branch = told.title, told.git_branch
        row.started_at, row.last_active_at = told.started_at, told.last_active_at
        self._bare[session_id] = row
        return row


def shared_by(session_id: str, layout: str) -> str | None:
    """Return whose records count in a session's log: those of its own, where others' stand too.

    A session without an id is named by its log, and has what no other one has.
    """
    return session_id if layout in SHARED_LAYOUTS and "/" not in session_id else None


def urgency(session: LiveSession) -> tuple[Any, ...]:
    """Give what sorts sessions: who waits for a person first, then who is at work, then by time."""
    ranks = (
        session.doing is Doing.WAITING,
        session.is_running and session.doing.is_at_work,
        session.is_running,
    )
    last = session.last_active_at or datetime.min.replace(tzinfo=UTC)
    started = session.started_at or last
    # Those at work keep their places: whoever says something does not jump up.
    at = started if session.is_running else last
    return (*(not rank for rank in ranks), -(at - _EPOCH).total_seconds(), session.id)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _is_running(life: SessionState, program: Program | None, end: LogEnd) -> bool:
    if program is not None:
        return program.running.is_alive or life.is_running
    if life.writers or life.goodbye_at is not None:
        return life.is_running
    is_lively = time.time() - end.changed_at <= _LIVELY_SECONDS
    return is_lively and end.activity.doing.is_at_work


def _doing(
    life: SessionState, program: Program | None, activity: Activity, *, is_running: bool
) -> tuple[Doing, datetime | None]:
    """Return what a session is doing, and since when."""
    if not is_running:
        if life.crashed or (program is not None and program.running.was_killed(life)):
            return Doing.CRASHED, activity.last_at
        ended = life.goodbye_at is not None
        return (Doing.ENDED if ended else Doing.QUIET), life.goodbye_at or activity.last_at
    if program is None or not program.running.is_alive:
        return activity.doing, activity.since_at
    said = program.doing
    if said is not None:
        return said, program.status_at or activity.since_at
    if program.running.status == "busy" and not activity.doing.is_at_work:
        # The log is a moment behind the program.
        return (Doing.CALLING if activity.calls else Doing.THINKING), program.status_at
    return activity.doing, activity.since_at


def _asks(doing: Doing) -> bool:
    return doing is Doing.WAITING


def _waiting_for(doing: Doing, program: Program | None, calls: list[LiveCall]) -> str | None:
    if doing is not Doing.WAITING:
        return None
    if program is not None and program.waiting_for:
        return program.waiting_for
    return "an answer" if any(call.tool in ASKING for call in calls) else None


def _facts(row: Row, last: datetime | None, now: datetime) -> dict[str, Any]:
    names = ("id", "project", "title", "started_at", "records", "keeping", "home", "layout", "path")
    life = structs.replace(row.life, last_active_at=last)
    found = {name: getattr(row, name) for name in names}
    return found | {
        "git_branch": row.git_branch,
        "last_active_at": last,
        "state": life.state(now),
    }
