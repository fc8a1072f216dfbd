"""The costs that lists of sessions and projects show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Final, Literal

import msgspec

from turnlog.catalog.pages import PICO
from turnlog.catalog.period import Period
from turnlog.costs.ledger import Question, ledger
from turnlog.costs.usage import IndexSource
from turnlog.index.connection import Index
from turnlog.index.ids import LONG_CONTEXT, QUARTER_US, UNDATED, json_array, microseconds
from turnlog.pricing.cost import Prices, PriceTerms, RunningBill
from turnlog.records.responses import UNKNOWN

_PER_PICO: Final = 10**6
_LAST: Final = 1 << 60


def costs_by(
    unit: Literal["session", "project"], index: Index, prices: Prices, period: Period | None = None
) -> dict[str, str]:
    """Return the cost of each session id or project path, as `turnlog cost` reports it."""
    asked = Question(by=(unit,), zone=UTC, period=period or Period())
    report = ledger(IndexSource(index, prices).sums(asked.period), prices, asked)
    return {
        name: row.cost_usd for row in report.rows if isinstance(name := getattr(row, unit), str)
    }


class SessionCosts:
    """The costs of sessions, for lists: exact for those on a page, and in SQL for all of them."""

    def __init__(self, index: Index, prices: Prices) -> None:
        self._index, self._prices = index, prices

    def of(self, sessions: Iterable[str]) -> dict[str, str]:
        """Return the cost of each of *sessions* that used something, by id."""
        bills: defaultdict[str | None, RunningBill] = defaultdict(lambda: RunningBill(self._prices))
        for response in IndexSource(self._index, self._prices).of_sessions(sessions):
            bills[response.session].take(response)
        return {session: f"{bill.now().total_usd:f}" for session, bill in bills.items() if session}

    def picodollars(self) -> dict[str, int]:
        """Return the cost of every session that used something, by id.

        SQLite adds up what was used at the price of its day, which is ten times as fast as bills.
        """
        spans = list(self._spans())
        if None in spans:
            costs = costs_by("session", self._index, self._prices)
            return {session: int(Decimal(cost) * PICO) for session, cost in costs.items()}
        return dict(self._index.db.execute(_ADDED, (json_array(spans),)))

    def _spans(self) -> Iterator[tuple[int, ...] | None]:
        """Yield the rates of each model, under some terms, between quarters of an hour.

        None, if a price depends on the hour or on how long the context of each request was.
        """
        for *ids, is_long in self._index.db.execute(
            "SELECT DISTINCT model, speed, service_tier, inference_geo, is_long FROM usage_sums"
        ).fetchall():
            model, *terms = (self._name(each) for each in ids)
            for first, stop, at in self._times(model or UNKNOWN):
                price = self._prices.quote(model or UNKNOWN, at, PriceTerms(*terms)).price
                if price is None:
                    continue
                if price.is_by_hour or any(tier.above != LONG_CONTEXT for tier in price.tiers):
                    yield None
                    return
                rates = price.rates_for(LONG_CONTEXT + 1 if is_long else 0)
                per_pico = (round(rate / _PER_PICO) for rate in msgspec.structs.astuple(rates))
                yield (*ids, is_long, first, stop, *per_pico)

    def _times(self, model: str) -> Iterator[tuple[int, int, datetime | None]]:
        """Yield the spans of time in which the price of *model* does not change.

        Each has the first quarter, the last one (exclusive), and an instant in it.
        """
        names = {model, *(each.like for each in self._prices.overrides if each.like)}
        days: set[date] = set()
        for price in (price for name in names for price in self._prices.history(name)):
            days |= {day for day in (price.since, price.until) if day is not None}
        for override in self._prices.overrides:
            days |= {day for day in (override.since, override.until) if day is not None}
        starts = [datetime.combine(day, time.min, UTC) for day in sorted(days)]
        quarters = [microseconds(at) // QUARTER_US for at in starts]
        yield UNDATED, UNDATED + 1, None
        yield from zip(
            [UNDATED + 1, *quarters],
            [*quarters, _LAST],
            [datetime(1, 1, 2, tzinfo=UTC), *starts],
            strict=True,
        )

    def _name(self, number: int) -> str | None:
        row = self._index.db.execute("SELECT name FROM names WHERE id = ?", (number,)).fetchone()
        return None if row is None else str(row[0])


def _part(number: int) -> str:
    return f"json_extract(value, '$[{number}]')"


_COUNTERS: Final = (
    "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches",
)  # fmt: skip
_KEYS: Final = ("model", "speed", "service_tier", "inference_geo", "is_long")
_COST: Final = " + ".join(f"u.{each} * spans.of_{each}" for each in _COUNTERS)
_ADDED: Final = f"""
WITH spans AS MATERIALIZED (
    SELECT {", ".join(f"{_part(n)} AS {each}" for n, each in enumerate((*_KEYS, "first", "stop")))},
        {", ".join(f"{_part(n)} AS of_{each}" for n, each in enumerate(_COUNTERS, len(_KEYS) + 2))}
    FROM json_each(?)
), added AS (
    SELECT u.session, sum({_COST}) AS pico FROM usage_sums AS u CROSS JOIN spans
    ON {" AND ".join(f"spans.{each} = u.{each}" for each in _KEYS)}
        AND u.quarter >= spans.first AND u.quarter < spans.stop
    GROUP BY u.session
)
SELECT names.name AS session, pico FROM added CROSS JOIN names ON names.id = added.session
"""  # noqa: S608 - Ours.
