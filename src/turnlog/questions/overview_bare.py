"""Everything at a glance without an index, where none can be had: told by the logs themselves.

The figures are the ledger's, from every log; the sessions are those of the bare list. What only the
whole of each log tells (damage, crashes) is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo

from msgspec import Struct

from turnlog.formats import Home
from turnlog.index.processes import processors
from turnlog.keep.retention.agent_cleanup import LossCount, losses
from turnlog.pricing.cost import Prices
from turnlog.questions.catalog import SessionRow, list_sessions
from turnlog.questions.overview import (
    LATEST,
    WITHIN_DAYS,
    Attention,
    LastDays,
    PeriodRow,
    lately_active,
)
from turnlog.questions.usage_scan import scan_usage


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
            unkept=sum(row.keeping == "live" for row in lately_active(listed, now)),
        ),
    )
