"""What a status line tells: today, the five-hour block that is running, and single sessions.

All of it comes from the one ledger, so no figure differs from what `turnlog cost` says. The update
refreshes what the index knows of usage and notes the figures; the line itself only reads them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from turnlog.catalog.period import Period
from turnlog.costs.blocks import LENGTH, blocks
from turnlog.costs.indexed_usage import every_response, used_in
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.statusline_figures import FiguresFile, number_of, within
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
    """Refresh, reckon and note the figures of *homes*; None if another is at it already.

    *session* is one whose figures are asked for; they are kept up to date for a day.
    """
    file = FiguresFile([os.fspath(home) for home in homes])
    lock = file.lock()
    if lock is None:
        return None
    try:
        noted_at = time.time()
        asked = _asked(file.read(), session, noted_at)
        with open_fresh(homes, stage="usage", fallback="none") as index:
            now = datetime.now(UTC)
            figures = compute_figures(index, prices, sessions=asked, now=now, zone=MachineZone())
        figures |= {"noted_at": noted_at, "asked": asked}
        file.write(figures)
    finally:
        os.close(lock)
    return figures


def compute_figures(
    index: Index, prices: Prices, *, sessions: Collection[str], now: datetime, zone: tzinfo
) -> dict[str, Any]:
    """Return the figures of *now*'s day in *zone*, of its block, and of *sessions*."""
    return {
        **_today(index, prices, now, zone),
        "block": _block(index, prices, now),
        "sessions": _sessions(index, prices, sessions, zone),
    }


def _asked(before: dict[str, Any], session: str | None, now: float) -> dict[str, float]:
    """Return which sessions were asked for lately, and when; the newest first."""
    known = within(before, "asked")
    times = {} if session is None else {session: now}
    for name, at in known.items() if isinstance(known, dict) else ():
        times.setdefault(name, min(number_of(at) or 0.0, now))  # Clocks are set back, too.
    newest = sorted(times.items(), key=lambda each: -each[1])[:_MOST_SESSIONS]
    return {name: at for name, at in newest if now - at < _REMEMBERED_SECONDS}


def _today(index: Index, prices: Prices, now: datetime, zone: tzinfo) -> dict[str, Any]:
    local = LocalTimes(zone)
    day = local.name("day", now)
    period = Period(since=local.midnight(day))
    asked = Question(by=("day",), zone=zone, period=period)
    rows = ledger(used_in(index, period, prices), prices, asked).rows
    costs = [row.cost_usd for row in rows if row.day == day]
    return {"day": day, "today": _money(costs[0] if costs else "0")}


def _block(index: Index, prices: Prices, now: datetime) -> dict[str, Any] | None:
    period = Period(since=_after_silence(index.db, now))
    for row in blocks(every_response(index, period), prices, now=now).rows:
        if row.is_active:
            times = ("start_at", "end_at", "first_at", "last_at")
            return _money(row.cost_usd) | {name: getattr(row, name).timestamp() for name in times}
    return None


def _after_silence(db: sqlite3.Connection, now: datetime) -> datetime | None:
    """Return the beginning of the last stretch before *now* that a long silence comes before.

    What follows five hours of silence begins a block whatever was before, so nothing older needs
    to be read. The silence is looked for in quarters of an hour, so it may be a little longer.
    """
    silent = LENGTH // _QUARTER + 1
    later: int | None = None
    query = "SELECT DISTINCT quarter FROM spent WHERE quarter BETWEEN 0 AND ? ORDER BY 1 DESC"
    for (quarter,) in db.execute(query, ((now - _EPOCH) // _QUARTER,)):
        if later is not None and later - quarter >= silent:
            return _EPOCH + later * _QUARTER
        later = quarter
    return None


def _sessions(
    index: Index, prices: Prices, wanted: Collection[str], zone: tzinfo
) -> dict[str, dict[str, Any]]:
    if not wanted:
        return {}
    scan = used_in(index, Period(), prices)
    scan = structs.replace(
        scan, responses=[each for each in scan.responses if each.session in wanted]
    )
    found = {}
    for row in ledger(scan, prices, Question(by=("session",), zone=zone)).rows:
        session = str(row.session)
        tokens = _context_tokens(index.db, session)
        found[session] = _money(row.cost_usd) | {"context_tokens": tokens}
    return found


def _context_tokens(db: sqlite3.Connection, session: str) -> int | None:
    """Return how much the model read for the last response of a session's main thread."""
    row = db.execute(
        "SELECT input + cache_write_5m + cache_write_1h + cache_read AS tokens FROM messages"
        " WHERE session = (SELECT id FROM names WHERE name = ?) AND subagent IS NULL"
        " AND NOT is_sidechain AND at IS NOT NULL AND tokens > 0 ORDER BY at DESC, id DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if row is None else int(row[0])


def _money(cost_usd: str) -> dict[str, Any]:
    return {"cost_usd": cost_usd, "shown": shown(Decimal(cost_usd))}
