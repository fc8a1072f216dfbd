"""The live view: which sessions run, and what each of them is doing.

``Live.ask`` refreshes the index and reads titles, costs, the active block and today's cost from it;
it may take a while. ``Live.look`` reads process files and what was appended to the logs, and is
fast. Both may be called from any thread, in any order.

Costs and tokens come from the ledger, contexts from the status line's figures.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field, structs

from turnlog.catalog.pages import COUNTERS, IS_THERE, LISTED, models_in, tokens_of
from turnlog.catalog.period import Period
from turnlog.catalog.sessions import Keeping, Keepings
from turnlog.costs.blocks import BlockRow, active_block
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.statusline import compute_figures
from turnlog.costs.statusline_figures import window_of
from turnlog.costs.usage import IndexSource
from turnlog.errors import TurnlogError
from turnlog.formats import Home, format_named, read_name, subagent_logs_near
from turnlog.formats.projects import is_within
from turnlog.formats.supported import shared_layouts
from turnlog.index.connection import Index, open_fresh
from turnlog.index.ids import instant_at, microseconds
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
from turnlog.pricing.cost import Prices
from turnlog.sessions.metadata import read_head_tail
from turnlog.sessions.state import SessionState, State

RECENT: Final = timedelta(days=1)
"""Sessions active within this time are shown even if they do not run."""
_LIVELY_SECONDS: Final = 120
"""A log written this recently counts as running, even without a known process."""
_SUBAGENTS_SECONDS: Final = 600
_MOST_SESSIONS: Final = 60


class LiveSession(Struct, kw_only=True):
    """A session and its activity."""

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
    """The process that runs it, if known."""
    is_running: bool
    doing: Doing
    since_at: datetime | None
    """When it started doing that."""
    waiting_for: str | None
    """What it is waiting for, if the program says so."""
    prompt: str | None
    """The last prompt."""
    calls: list[LiveCall]
    """The running tool calls, including those of subagents."""
    subagents: int
    """The number of working subagents."""
    model: str | None
    messages: int = 0
    """API responses, each counted once. Messages, tokens and cost include subagents."""
    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    cost_usd: str = "0"
    context_tokens: int | None = None
    """The context of the last response in the main thread."""
    context_window: int | None = None

    @property
    def tokens(self) -> int:
        """All tokens."""
        return tokens_of(self)

    @property
    def context_percent(self) -> float | None:
        """How much of the context window is used."""
        if self.context_tokens is None or not self.context_window:
            return None
        return 100 * self.context_tokens / self.context_window


class LiveDay(Struct, kw_only=True):
    """Today's cost so far."""

    day: str
    cost_usd: str


class LiveDocument(Struct, kw_only=True):
    """The result of `turnlog top --json`."""

    at: datetime
    sessions: list[LiveSession]
    """Waiting sessions first, then working ones, then the rest by time."""
    next: None = None
    today: LiveDay | None = None
    block: BlockRow | None = None
    """The active five-hour block."""

    @property
    def running(self) -> int:
        """The number of running sessions."""
        return sum(session.is_running for session in self.sessions)

    @property
    def waiting(self) -> int:
        """The number of sessions waiting for a person."""
        return sum(session.doing is Doing.WAITING for session in self.sessions)


class _Row(Struct, kw_only=True):
    """A session in the index, or from its log if it is not indexed yet."""

    id: str
    home: str
    path: str
    layout: str = "claude"
    project: str | None = None
    title: str | None = None
    started_at: datetime | None = None
    last_active_at: datetime | None = None
    records: int | None = None
    git_branch: str | None = None
    model: str | None = None
    life: SessionState = field(default_factory=SessionState)
    keeping: Keeping = "live"
    sums: dict[str, Any] = field(default_factory=dict)


class _IndexAnswer(Struct):
    """The last answer of the index."""

    rows: dict[str, _Row] = field(default_factory=dict)
    today: LiveDay | None = None
    block: BlockRow | None = None


class Live:
    """The sessions of *homes*, or of *project*, that run or were active within *recent*."""

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
        """Notices of the last refresh of the index."""
        self._asked = _IndexAnswer()
        self._programs: dict[str, Program] = {}
        self._bare: dict[str, _Row] = {}
        self._ends: dict[Path, LogEnd] = {}
        self._lock = threading.Lock()

    def ask(self, *, progress: Progress | None = None) -> None:
        """Refresh the index, and store what it and the ledger know."""
        with open_fresh(self.homes, progress=progress) as index:
            now = datetime.now(UTC)
            rows = _known_rows(index, now - self._recent, programs(self.homes))
            figures = compute_figures(
                index, self._prices, sessions=list(rows), now=now, zone=self._zone
            )
            for session, sums in _sums_of(index, self._prices, rows, self._zone).items():
                context = figures["sessions"].get(session, {}).get("context_tokens")
                rows[session].sums = sums | {"context_tokens": context}
            block, _ = active_block(IndexSource(index, self._prices), self._prices, now=now)
            self.notices = index.refreshed.notices if index.refreshed else []
            today = LiveDay(day=figures["day"], cost_usd=figures["today"]["cost_usd"])
        self._asked = _IndexAnswer(rows, today, block)

    def has_moved(self) -> bool:
        """Return whether a program started, ended or changed its status since the last look."""
        return programs(self.homes) != self._programs

    def look(self) -> LiveDocument:
        """Return the current state; only what was appended is read."""
        with self._lock:
            now, known = datetime.now(UTC), self._asked
            running = self._programs = programs(self.homes)
            rows = dict(known.rows)
            for session_id, program in running.items():
                if session_id not in rows and program.running.is_alive:
                    rows[session_id] = self._bare_row(session_id, program)
            sessions = [self._session(row, running.get(row.id), now) for row in rows.values()]
            looked = {Path(row.path) for row in rows.values()}
            for path in [path for path in self._ends if path not in looked]:
                if now.timestamp() - self._ends[path].changed_at > _SUBAGENTS_SECONDS:
                    del self._ends[path]
        wanted = [session for session in sessions if self._is_wanted(session, now)]
        return LiveDocument(
            at=now, sessions=sorted(wanted, key=urgency), today=known.today, block=known.block
        )

    def _is_wanted(self, session: LiveSession, now: datetime) -> bool:
        if self._project is not None and not is_within(session.project, self._project):
            return False
        last = session.last_active_at
        return session.is_running or (last is not None and now - last <= self._recent)

    def _session(self, row: _Row, program: Program | None, now: datetime) -> LiveSession:
        path = Path(row.path)
        end = self._end(path, session=shared_by(row.id, row.layout))
        activity = end.look()
        is_running = _is_running(row.life, program, end)
        doing, since_at = _doing(row.life, program, activity, is_running=is_running)
        calls = list(activity.calls.values())
        subagents = (
            self._subagents(path, row.id, now) if doing.is_at_work or doing is Doing.WAITING else []
        )
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
        """Return the activities of the working subagents of a session."""
        working = []
        try:
            for path in subagent_logs_near(main, session_id):
                if now.timestamp() - os.stat(path).st_mtime <= _SUBAGENTS_SECONDS:
                    name = read_name(path.name)
                    activity = self._end(path, subagent=name.id if name else path.stem).look()
                    if activity.doing is not Doing.IDLE:
                        working.append(activity)
        except (OSError, TurnlogError):  # A log was deleted, or the id is invalid.
            pass
        return working

    def _bare_row(self, session_id: str, program: Program) -> _Row:
        """Return a session that is not indexed yet, from the ends of its log."""
        if session_id in self._bare:
            return self._bare[session_id]
        row = _Row(id=session_id, home=str(program.home.path), path="", project=program.cwd)
        try:
            form = format_named(program.running.layout)
            row.path = str(form.new_log(program.home, program.cwd or "/", session_id))
            summary = read_head_tail(row.path).summary
        except (OSError, ValueError, TurnlogError):
            return row  # Nothing has been written yet.
        row.title, row.git_branch = summary.title, summary.git_branch
        row.started_at, row.last_active_at = summary.started_at, summary.last_active_at
        self._bare[session_id] = row
        return row


def shared_by(session_id: str, layout: str) -> str | None:
    """Return the session to filter a log by, or None if the log has only one session.

    A session without an id is named by its log, and owns all records without a session.
    """
    return session_id if layout in shared_layouts() and "/" not in session_id else None


def urgency(session: LiveSession) -> tuple[Any, ...]:
    """Return a sort key: waiting sessions first, then working ones, then by time."""
    ranks = (
        session.doing is Doing.WAITING,
        session.is_running and session.doing.is_at_work,
        session.is_running,
    )
    last = session.last_active_at or datetime.min.replace(tzinfo=UTC)
    started = session.started_at or last
    # Running sessions keep their places, so that rows do not jump.
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
    """Return what a session is doing and since when."""
    if not is_running:
        if life.crashed or (program is not None and program.running.was_killed(life)):
            return Doing.CRASHED, activity.last_at
        ended = life.goodbye_at is not None
        return (Doing.ENDED if ended else Doing.QUIET), life.goodbye_at or activity.last_at
    if program is None or not program.running.is_alive:
        return activity.doing, activity.since_at
    reported = program.doing
    if reported is not None:
        return reported, program.status_at or activity.since_at
    if program.running.status == "busy" and not activity.doing.is_at_work:
        # The log is a moment behind the program.
        return (Doing.CALLING if activity.calls else Doing.THINKING), program.status_at
    return activity.doing, activity.since_at


def _waiting_for(doing: Doing, program: Program | None, calls: list[LiveCall]) -> str | None:
    if doing is not Doing.WAITING:
        return None
    if program is not None and program.waiting_for:
        return program.waiting_for
    return "an answer" if any(call.tool in ASKING for call in calls) else None


def _facts(row: _Row, last: datetime | None, now: datetime) -> dict[str, Any]:
    names = ("id", "project", "title", "started_at", "records", "keeping", "home", "layout", "path")
    life = structs.replace(row.life, last_active_at=last)
    return {name: getattr(row, name) for name in names} | {
        "git_branch": row.git_branch,
        "last_active_at": last,
        "state": life.state(now),
    }


# -- from the index -------------------------------------------------------------------------

_ROWS: Final = (
    f"WITH {LISTED} SELECT session, home, path, layout, place, title, started_at, active_at,"  # noqa: S608
    f" records, git_branch, models, life FROM listed WHERE {IS_THERE}"
    " AND (active_at >= ? OR session IN (SELECT value FROM json_each(?)))"
    " ORDER BY active_at DESC LIMIT ?"
)
_decode_life = msgspec.msgpack.Decoder(SessionState).decode


def _known_rows(index: Index, since: datetime, running: dict[str, Program]) -> dict[str, _Row]:
    """Return the sessions active since then, and those that run."""
    ids = json.dumps(list(running))
    keepings = Keepings()
    rows: dict[str, _Row] = {}
    for row in index.db.execute(_ROWS, (microseconds(since), ids, _MOST_SESSIONS + len(running))):
        (
            session,
            home,
            path,
            layout,
            place,
            title,
            started,
            active,
            records,
            branch,
            models,
            life,
        ) = row
        if session in rows and not _is_home_of(home, running.get(session)):
            continue  # A copy in another home that was active earlier.
        rows[session] = _Row(
            id=session,
            home=home,
            path=path,
            layout=layout,
            project=place,
            title=title,
            started_at=instant_at(started),
            last_active_at=instant_at(active),
            records=records,
            git_branch=branch,
            model=next(iter(models_in(models)), None),
            life=_decode_life(life) if life else SessionState(),
            keeping=keepings.of(home, path),
        )
    return rows


def _is_home_of(home: str, program: Program | None) -> bool:
    return program is not None and os.path.realpath(program.home.path) == os.path.realpath(home)


def _sums_of(
    index: Index, prices: Prices, sessions: Iterable[str], zone: tzinfo
) -> dict[str, dict[str, Any]]:
    """Return the usage and cost of *sessions* from the ledger."""
    wanted = set(sessions)
    scan = IndexSource(index, prices).sums(Period())
    scan.responses = [response for response in scan.responses if response.session in wanted]
    rows = ledger(scan, prices, Question(by=("session",), zone=zone)).rows
    names = ("messages", "cost_usd", *COUNTERS)
    return {str(row.session): {name: getattr(row, name) for name in names} for row in rows}
