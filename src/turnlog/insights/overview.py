"""The overview that `turnlog` prints: recent costs, latest sessions, what needs attention.

The three periods are sums of the same days of one ledger, so they agree with all other reports.
Without an index, the logs are read; then damage and crashes are unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import islice
from typing import Final, TypeVar

from msgspec import Struct

from turnlog.catalog.indexed_sessions import (
    IndexedSession,
    SessionTotals,
    list_indexed,
    session_totals,
)
from turnlog.catalog.pages import IS_THERE, LISTED, tokens_of
from turnlog.catalog.period import Period
from turnlog.catalog.sessions import Keepings, SessionRow, list_sessions
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.lists import SessionCosts
from turnlog.costs.usage import IndexSource, UsageScan, scan_usage
from turnlog.formats import FORMATS, Home
from turnlog.index.connection import Index
from turnlog.index.ids import microseconds
from turnlog.index.processes import processors
from turnlog.keep.retention.agent_cleanup import LossCount, cleanup_period, losses
from turnlog.pricing.cost import Prices
from turnlog.records.dates import LocalTimes

T = TypeVar("T", bound="SessionRow")

DAYS: Final = {"today": 1, "7 days": 7, "30 days": 30}
"""The periods and their number of days, including today."""
WITHIN_DAYS: Final = 7
LATEST: Final = 5
_LONGEST: Final = max(DAYS.values())
_LOOKED_INTO: Final = 100
_DAY_NS: Final = 24 * 3600 * 1_000_000_000


class PeriodRow(Struct, kw_only=True):
    """The usage of the last days."""

    period: str
    days: int
    since: str
    """Its first day."""
    sessions: int
    """Sessions that were active in the period."""
    messages: int
    tokens: int
    cost_usd: str
    """Exact, an estimate at API prices."""


class Attention(Struct, kw_only=True):
    """What may need attention."""

    damaged: int | None
    """Sessions with damaged logs; null without an index."""
    crashed: int | None
    """Latest sessions that ended without a clean exit; null without an index."""
    unpriced: list[str]
    """Models without a known price, whose cost is missing from all figures."""
    about_to_be_deleted: int
    """Sessions without a kept copy that the agent deletes within a week."""
    cleanup_days: int | None
    """After how many days without use the agent deletes a session; null if it never does."""
    unkept: int
    """Latest sessions without a complete kept copy."""


class Overview(Struct, kw_only=True):
    """The result of `turnlog --json`."""

    periods: list[PeriodRow]
    days: list[str]
    """The cost of each of the last 30 days, today last."""
    sessions: list[IndexedSession]
    """The latest sessions, the most recently active first."""
    total: int
    """The number of all sessions, without archived ones."""
    totals: SessionTotals
    attention: Attention


def overview(
    index: Index, homes: Sequence[Home], prices: Prices, *, now: datetime, zone: tzinfo
) -> Overview:
    """Return the overview at *now*, from the index."""

    def active(since: datetime) -> int:
        query = f"WITH {LISTED} SELECT count(*) FROM listed WHERE {IS_THERE} AND active_at >= ?"  # noqa: S608
        return int(index.db.execute(query, (microseconds(since),)).fetchone()[0])

    days = LastDays(prices, now=now, zone=zone)
    days.add(IndexSource(index, prices).sums(days.asked.period))
    catalog = list_indexed(
        index,
        gone=False,
        limit=_LOOKED_INTO,
        detailed=LATEST,
        costs=SessionCosts(index, prices),
        now=now,
    )
    recent = recently_active(catalog.sessions, now)
    return Overview(
        periods=days.periods(active),
        days=days.costs,
        sessions=catalog.sessions[:LATEST],
        total=catalog.total,
        totals=session_totals(index),
        attention=_attention(index, homes, now, recent, days.unpriced),
    )


class LastDays:
    """The usage of each of the last days."""

    def __init__(self, prices: Prices, *, now: datetime, zone: tzinfo) -> None:
        self._times, self._prices = LocalTimes(zone), prices
        today = datetime.fromisoformat(self._times.name("day", now)).date()
        self._names = [(today - timedelta(days=back)).isoformat() for back in range(_LONGEST)]
        since = self._times.midnight(self._names[-1])
        self.asked = Question(by=("day",), zone=zone, period=Period(since=since))

    def add(self, scan: UsageScan) -> None:
        """Add the usage of the period."""
        report = ledger(scan, self._prices, self.asked)
        self._rows = {row.day: row for row in report.rows if isinstance(row.day, str)}
        self.unpriced = sorted({row.model for row in report.skipped.unpriced})
        self.costs = [
            self._rows[name].cost_usd if name in self._rows else "0"
            for name in reversed(self._names)
        ]

    def periods(self, active: Callable[[datetime], int]) -> list[PeriodRow]:
        """Return the periods; *active* counts the sessions active since an instant."""
        return [self._period(name, self._names[:days], active) for name, days in DAYS.items()]

    def _period(
        self, name: str, days: Sequence[str], active: Callable[[datetime], int]
    ) -> PeriodRow:
        used = [self._rows[day] for day in days if day in self._rows]
        return PeriodRow(
            period=name,
            days=len(days),
            since=days[-1],
            sessions=active(self._times.midnight(days[-1])),
            messages=sum(row.messages for row in used),
            tokens=sum(map(tokens_of, used)),
            cost_usd=f"{sum((Decimal(row.cost_usd) for row in used), Decimal(0)):f}",
        )


def recently_active(rows: Iterable[T], now: datetime) -> list[T]:
    """Return the latest sessions that were active in the longest period."""
    lately = now - timedelta(days=_LONGEST)
    latest = islice(rows, _LOOKED_INTO)
    return [row for row in latest if row.last_active_at and row.last_active_at >= lately]


def _attention(
    index: Index,
    homes: Sequence[Home],
    now: datetime,
    recent: Sequence[IndexedSession],
    unpriced: list[str],
) -> Attention:
    damaged = index.db.execute(
        f"WITH {LISTED} SELECT count(*) FROM listed WHERE {IS_THERE} AND damages > 0"  # noqa: S608
    ).fetchone()
    return Attention(
        damaged=damaged[0],
        crashed=sum(row.crashed for row in recent),
        unpriced=unpriced,
        about_to_be_deleted=sum(_lost(index, home, now) for home in homes),
        cleanup_days=_cleanup_days(homes),
        unkept=sum(row.keeping == "live" for row in recent),
    )


def _lost(index: Index, home: Home, now: datetime) -> int:
    """Count the sessions that the agent deletes within a week, by the mtimes in the index.

    This is an estimate: ``keep.retention`` examines the files and the session's other files.
    """
    period = cleanup_period(home)
    if period is None:
        return 0
    cleaned = [each.name for each in FORMATS if each.cleanup_period(home) is not None]
    until_ns = int(now.timestamp() * 1_000_000_000) + (WITHIN_DAYS - period.days) * _DAY_NS
    rows = index.db.execute(
        "SELECT DISTINCT logs.session, logs.path FROM logs JOIN sessions"
        " ON sessions.session = logs.session AND sessions.home = logs.home"
        " WHERE logs.home = ? AND kind = 'session'"
        " AND logs.layout IN (SELECT value FROM json_each(?))"
        " AND logs.gone_at IS NULL AND packed_bytes IS NULL AND text_mtime_ns <= ?"
        " AND NOT is_sidechain",
        (str(home.path), json.dumps(cleaned), until_ns),
    )
    keepings = Keepings()
    return len({session for session, path in rows if keepings.of(str(home.path), path) == "live"})


def _cleanup_days(homes: Sequence[Home]) -> int | None:
    periods = (cleanup_period(home) for home in homes)
    return min((period.days for period in periods if period is not None), default=None)


class BareOverview(Struct, kw_only=True):
    """The result of `turnlog --json` without an index."""

    periods: list[PeriodRow]
    days: list[str]
    """The cost of each of the last 30 days, today last."""
    sessions: list[SessionRow]
    """The latest sessions, the most recently active first."""
    total: int
    """The number of all sessions, without archived ones."""
    totals: SessionTotals
    attention: Attention


def bare_overview(
    homes: Sequence[Home], prices: Prices, *, now: datetime, zone: tzinfo
) -> BareOverview:
    """Return the overview at *now*, from the logs."""
    every = list_sessions(homes, archived=None, now=now).sessions
    listed = [row for row in every if not row.archived]

    def active(since: datetime) -> int:
        return sum(row.last_active_at is not None and row.last_active_at >= since for row in every)

    days = LastDays(prices, now=now, zone=zone)
    days.add(scan_usage(homes, workers=processors()))
    lost = [loss for loss in losses(homes, now, WITHIN_DAYS) if not loss.is_kept]
    return BareOverview(
        periods=days.periods(active),
        days=days.costs,
        sessions=listed[:LATEST],
        total=len(listed),
        totals=SessionTotals(
            sessions=len(every),
            projects=len({row.project for row in every if row.project is not None}),
            since=min((row.started_at for row in every if row.started_at), default=None),
            size_bytes=sum(row.size_bytes for row in every),
        ),
        attention=Attention(
            damaged=None,
            crashed=None,
            unpriced=days.unpriced,
            about_to_be_deleted=LossCount.of(lost).sessions,
            cleanup_days=_cleanup_days(homes),
            unkept=sum(row.keeping == "live" for row in recently_active(listed, now)),
        ),
    )
