"""The figures of the status line: today, the active five-hour block, and single sessions.

They come from the same ledger as `turnlog cost`, so all figures agree. An update refreshes the
usage in the index and writes the figures to a file; the status line only reads that file.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from turnlog.catalog.period import Period
from turnlog.costs.blocks import LENGTH, blocks
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.statusline_figures import FiguresFile, number_of, within
from turnlog.costs.usage import IndexSource
from turnlog.index.connection import Index, open_fresh
from turnlog.pricing.cost import Prices
from turnlog.pricing.money import shown
from turnlog.records.dates import LocalTimes, MachineZone

if TYPE_CHECKING:
    from turnlog.formats import Home

_REMEMBERED_SECONDS: Final = 86_400
_MOST_SESSIONS: Final = 32
_QUARTER: Final = timedelta(minutes=15)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def update_figures(
    homes: Sequence[Home], prices: Prices, *, session: str | None = None
) -> dict[str, Any] | None:
    """Refresh and write the figures of *homes*; return None if another process is doing it.

    The figures of *session* are included in this and every other update for a day.
    """
    file = FiguresFile([os.fspath(home) for home in homes])
    lock = file.lock()
    if lock is None:
        return None
    try:
        noted_at = time.time()
        requested = _requested(file.read(), session, noted_at)
        with open_fresh(homes, stage="usage", fallback="none") as index:
            now = datetime.now(UTC)
            figures = compute_figures(
                index, prices, sessions=requested, now=now, zone=MachineZone()
            )
        figures |= {"noted_at": noted_at, "asked": requested}
        file.write(figures)
    finally:
        os.close(lock)
    return figures


def compute_figures(
    index: Index, prices: Prices, *, sessions: Collection[str], now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the figures of the day at *now* in *zone*, of the active block, and of *sessions*."""
    source = IndexSource(index, prices)
    return {
        **_today(source, prices, now, zone),
        "block": _block(index, source, prices, now),
        "sessions": _sessions(index, source, prices, sessions, zone),
    }


def _requested(before: dict[str, Any], session: str | None, now: float) -> dict[str, float]:
    """Return the sessions requested in the last day and when, the newest first."""
    known = within(before, "asked")
    times = {} if session is None else {session: now}
    for name, at in known.items() if isinstance(known, dict) else ():
        times.setdefault(name, min(number_of(at) or 0.0, now))  # A clock may be set back.
    newest = sorted(times.items(), key=lambda request: -request[1])[:_MOST_SESSIONS]
    return {name: at for name, at in newest if now - at < _REMEMBERED_SECONDS}


def _today(source: IndexSource, prices: Prices, now: datetime, zone: tzinfo) -> dict[str, Any]:
    local = LocalTimes(zone)
    day = local.name("day", now)
    period = Period(since=local.midnight(day))
    question = Question(by=("day",), zone=zone, period=period)
    rows = ledger(source.sums(period), prices, question).rows
    costs = [row.cost_usd for row in rows if row.day == day]
    return {"day": day, "today": _money(costs[0] if costs else "0")}


def _block(
    index: Index, source: IndexSource, prices: Prices, now: datetime
) -> dict[str, Any] | None:
    period = Period(since=_after_pause(index.db, now))
    for row in blocks(source.responses(period), prices, now=now).rows:
        if row.is_active:
            times = ("start_at", "end_at", "first_at", "last_at")
            return _money(row.cost_usd) | {name: getattr(row, name).timestamp() for name in times}
    return None


def _after_pause(db: sqlite3.Connection, now: datetime) -> datetime | None:
    """Return the start of the usage since the last long pause before *now*.

    A pause of five hours always ends a block, so nothing before it needs to be read. Usage is
    stored per quarter of an hour, so the pause may be up to a quarter longer.
    """
    pause = LENGTH // _QUARTER + 1
    later: int | None = None
    query = "SELECT DISTINCT quarter FROM usage_sums WHERE quarter BETWEEN 0 AND ? ORDER BY 1 DESC"
    for (quarter,) in db.execute(query, ((now - _EPOCH) // _QUARTER,)):
        if later is not None and later - quarter >= pause:
            return _EPOCH + later * _QUARTER
        later = quarter
    return None


def _sessions(
    index: Index, source: IndexSource, prices: Prices, wanted: Collection[str], zone: tzinfo
) -> dict[str, dict[str, Any]]:
    if not wanted:
        return {}
    scan = source.sums(Period())
    scan.responses = [response for response in scan.responses if response.session in wanted]
    figures = {}
    for row in ledger(scan, prices, Question(by=("session",), zone=zone)).rows:
        session = str(row.session)
        tokens = _context_tokens(index.db, session)
        figures[session] = _money(row.cost_usd) | {"context_tokens": tokens}
    return figures


def _context_tokens(db: sqlite3.Connection, session: str) -> int | None:
    """Return the context of the last response in a session's main thread."""
    row = db.execute(
        "SELECT input + cache_write_5m + cache_write_1h + cache_read AS tokens FROM messages"
        " WHERE session = (SELECT id FROM names WHERE name = ?) AND subagent IS NULL"
        " AND NOT is_sidechain AND at IS NOT NULL AND tokens > 0 ORDER BY at DESC, id DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if row is None else int(row[0])


def _money(cost_usd: str) -> dict[str, Any]:
    return {"cost_usd": cost_usd, "shown": shown(Decimal(cost_usd))}
