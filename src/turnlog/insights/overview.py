"""Everything at a glance: what the last days cost, the latest sessions, what needs attention.

Days are those of the time zone that is asked for. The three periods are sums of the same days of
the same ledger, so they agree with one another and with every other report.

Everything at a glance without an index, where none can be had: told by the logs themselves.

The figures are the ledger's, from every log; the sessions are those of the bare list. What only the
whole of each log tells (damage, crashes) is not known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from turnlog.catalog.indexed_sessions import IndexedSession, list_indexed
from turnlog.catalog.pages import IS_THERE, LISTED, tokens_of
from turnlog.catalog.period import Period
from turnlog.catalog.sessions import Keepings, SessionRow, list_sessions
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource, scan_usage
from turnlog.formats import FORMATS, Home
from turnlog.index.connection import Index
from turnlog.index.ids import microseconds
from turnlog.index.processes import processors
from turnlog.keep.retention.agent_cleanup import LossCount, cleanup_period, losses
from turnlog.pricing.cost import Prices
from turnlog.records.dates import LocalTimes

if TYPE_CHECKING:
    from turnlog.catalog.sessions import SessionRow
    from turnlog.costs.usage import UsageScan


T = TypeVar("T", bound="SessionRow")

DAYS: Final = {"today": 1, "7 days": 7, "30 days": 30}
"""The periods, and how many days each has, today among them."""
WITHIN_DAYS: Final = 7
LATEST: Final = 5
_LONGEST: Final = max(DAYS.values())
_LOOKED_INTO: Final = 100
_DAY_NS: Final = 24 * 3600 * 1_000_000_000


class PeriodRow(Struct, kw_only=True):
    """What was used in the last days."""

    period: str
    days: int
    since: str
    """Its first day."""
    sessions: int
    """Those that were active in it, or still are."""
    messages: int
    tokens: int
    cost_usd: str
    """Exact, an estimate at the API's prices."""


class Attention(Struct, kw_only=True):
    """What a person should look at."""

    damaged: int | None
    """Sessions with damage in their logs; null where only an index could tell."""
    crashed: int | None
    """Of the latest sessions, those whose writer is gone without a goodbye; null likewise."""
    unpriced: list[str]
    """Models of the period that have no known price: their cost is in no figure."""
    about_to_be_deleted: int
    """Sessions that the agent's own cleanup takes within a week, and that are not kept."""
    unkept: int
    """Sessions at their source that no kept copy holds all of, among the latest."""


class Overview(Struct, kw_only=True):
    """What `turnlog --json` prints."""

    periods: list[PeriodRow]
    days: list[str]
    """The cost of each of the last 30 days, today last."""
    sessions: list[IndexedSession]
    """The latest, the one that was active last first."""
    total: int
    """How many there are in all."""
    attention: Attention


def overview(
    index: Index, homes: Sequence[Home], prices: Prices, *, now: datetime, zone: tzinfo
) -> Overview:
    """Look at everything at *now*."""

    def active(since: datetime) -> int:
        query = f"WITH {LISTED} SELECT count(*) FROM listed WHERE {IS_THERE} AND active_at >= ?"  # noqa: S608
        return int(index.db.execute(query, (microseconds(since),)).fetchone()[0])

    days = LastDays(prices, now=now, zone=zone)
    days.take(IndexSource(index, prices).sums(days.asked.period))
    # One list for what is shown and for what is looked into.
    catalog = list_indexed(index, gone=False, limit=_LOOKED_INTO, detailed=LATEST, now=now)
    recent = recently_active(catalog.sessions, now)
    return Overview(
        periods=days.periods(active),
        days=days.costs,
        sessions=catalog.sessions[:LATEST],
        total=catalog.total,
        attention=_attention(index, homes, now, recent, days.unpriced),
    )


class LastDays:
    """What was used on each of the last days."""

    def __init__(self, prices: Prices, *, now: datetime, zone: tzinfo) -> None:
        self._times, self._prices = LocalTimes(zone), prices
        today = datetime.fromisoformat(self._times.name("day", now)).date()
        self._names = [(today - timedelta(days=back)).isoformat() for back in range(_LONGEST)]
        since = self._times.midnight(self._names[-1])
        self.asked = Question(by=("day",), zone=zone, period=Period(since=since))

    def take(self, scan: UsageScan) -> None:
        """Reckon with what was used in the period that is asked for."""
        found = ledger(scan, self._prices, self.asked)
        self._rows = {row.day: row for row in found.rows if isinstance(row.day, str)}
        self.unpriced = sorted({row.model for row in found.skipped.unpriced})
        self.costs = [
            self._rows[name].cost_usd if name in self._rows else "0"
            for name in reversed(self._names)
        ]

    def periods(self, active: Callable[[datetime], int]) -> list[PeriodRow]:
        """Add the days up; *active* tells how many sessions were active since an instant."""
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
    """Return the sessions that were active in the longest period, of the latest."""
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
        unkept=sum(row.keeping == "live" for row in recent),
    )


def _lost(index: Index, home: Home, now: datetime) -> int:
    """Count the sessions that the cleanup takes within a week, by the times that the index noted.

    ``keep.cleanup`` looks at the files themselves, and at what lies beside them; this is a glance.
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


class BareOverview(Struct, kw_only=True):
    """What `turnlog --json` prints where there is no index."""

    periods: list[PeriodRow]
    days: list[str]
    """The cost of each of the last 30 days, today last."""
    sessions: list[SessionRow]
    """The latest, the one that was active last first."""
    total: int
    """How many there are in all."""
    attention: Attention


def bare_overview(
    homes: Sequence[Home], prices: Prices, *, now: datetime, zone: tzinfo
) -> BareOverview:
    """Look at everything at *now*."""
    every = list_sessions(homes, archived=None, now=now).sessions
    listed = [row for row in every if not row.archived]

    def active(since: datetime) -> int:
        return sum(row.last_active_at is not None and row.last_active_at >= since for row in every)

    days = LastDays(prices, now=now, zone=zone)
    days.take(scan_usage(homes, workers=processors()))
    lost = [loss for loss in losses(homes, now, WITHIN_DAYS) if not loss.is_kept]
    return BareOverview(
        periods=days.periods(active),
        days=days.costs,
        sessions=listed[:LATEST],
        total=len(listed),
        attention=Attention(
            damaged=None,
            crashed=None,
            unpriced=days.unpriced,
            about_to_be_deleted=LossCount.of(lost).sessions,
            unkept=sum(row.keeping == "live" for row in recently_active(listed, now)),
        ),
    )
