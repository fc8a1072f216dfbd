"""What was used, told by the index: the same answer as ``usage_scan`` gives, in a few milliseconds.

Reports need no single responses: the index has them added up by quarters of an hour, which no time
zone and no price parts. Where a period begins or ends within a quarter, where a price has a border
that the sums do not know, or where single responses are asked for, those are read.

Responses with what only their records tell: the branch they were made on, the tools they called.

A response's branch is that of the record its figures are from. Its tools are those that the
records of its message call, in the same log: several records carry parts of one response, and
which of them has the figures says nothing about which has the call.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import asdict

from turnlog.costs.scanned_usage import UsageScan
from turnlog.index.ids import (
    LONG_CONTEXT,
    OFFSET_BITS,
    QUARTER_US,
    UNDATED,
    instant_at,
    microseconds,
)
from turnlog.index.usage.entries import SELECT, usage_entry_of
from turnlog.index.usage.scan import SkippedUsage
from turnlog.records.responses import Response, ResponseGroup, by_response
from turnlog.records.usage import Counters

if TYPE_CHECKING:
    import sqlite3

    from turnlog.catalog.period import Period
    from turnlog.costs.scanned_usage import UsageScan
    from turnlog.formats import Home
    from turnlog.index.connection import Index
    from turnlog.pricing.cost import Prices
    from turnlog.records.usage_entries import UsageEntry


def used_in(index: Index, period: Period, prices: Prices) -> UsageScan:
    """Return what was used in *period*, added up as far as *prices* allow."""
    if _has_other_borders(index.db, prices):
        return every_response(index, period)
    db = index.db
    since, until = microseconds(period.since), microseconds(period.until)
    if since is None and until is None:
        return _scan(db, list(_sums(db, None, None)))
    first = UNDATED + 1 if since is None else -(-since // QUARTER_US)
    stop = 1 << 60 if until is None else until // QUARTER_US
    if first >= stop:
        return every_response(index, period)
    found: list[Response] = list(_sums(db, first, stop))
    if since is not None and since < first * QUARTER_US:
        found += _responses(db, since, first * QUARTER_US)
    if until is not None and stop * QUARTER_US < until:
        found += _responses(db, stop * QUARTER_US, until)
    return _scan(db, found)


def every_response(index: Index, period: Period) -> UsageScan:
    """Return every response of *period*, one by one."""
    since, until = microseconds(period.since), microseconds(period.until)
    return _scan(index.db, list(_responses(index.db, since, until)))


def counted_elsewhere(homes: Sequence[Home], session: str) -> list[Response]:
    """Return the responses in the logs of *session* that count for another one, as far as is known.

    The logs of the session alone do not show them: a fork may have copied them as its own. The
    index is used as it is, whatever its age, and never made for this.
    """
    from turnlog.index.database import open_for_reading  # noqa: PLC0415 - Reports have it open.

    try:
        db = open_for_reading(homes)
        if db is None:
            return []
        with closing(db):
            found = list(_responses_which(db, _CARRIED, (session, session)))
            places = _places_in(db, session) if found else set()
    except sqlite3.Error:
        return []  # The next refresh will see to it.
    return [each for each in found if (each.log, each.offset) in places]


_LOGS: Final = "FROM logs WHERE session = ? AND kind <> 'day'"
_CARRIED: Final = (
    f"messages.name IN (SELECT name FROM sightings WHERE log IN (SELECT id {_LOGS}))"  # noqa: S608
    " AND messages.session IN (SELECT id FROM names WHERE name <> ?)"
)


def _places_in(db: sqlite3.Connection, session: str) -> set[tuple[str, int]]:
    """Return all places of the responses in the logs of *session* that may count for another one.

    Sessions may share a message's id without sharing a response.
    """
    logs = {path for (path,) in db.execute(f"SELECT path {_LOGS}", (session,))}
    messages: dict[str, list[UsageEntry]] = {}
    names = f"SELECT name FROM messages WHERE {_CARRIED}"  # noqa: S608 - Ours.
    for row in db.execute(f"{SELECT} WHERE sightings.name IN ({names})", (session, session)):
        messages.setdefault(row[0], []).append(usage_entry_of(row[:6]))
    return {
        (each.log, each.offset)
        for found in messages.values()
        for response in by_response(found)
        if any(each.log in logs for each in response)
        for each in response
    }


def _scan(db: sqlite3.Connection, responses: Sequence[Response]) -> UsageScan:
    told = db.execute(
        "SELECT count(*), sum(usage_offset), sum(told + tail_told),"
        " sum(synthetic + tail_synthetic), sum(is_pending) FROM logs"
        " WHERE usage_size_bytes >= 0 AND layout <> 'beside'"
    ).fetchone()
    logs, size_bytes, sightings, synthetic, pending = (each or 0 for each in told)
    return UsageScan(
        responses=list(responses),
        skipped=list(_skipped(db)),
        logs=logs,
        size_bytes=size_bytes,
        sightings=sightings - synthetic,
        synthetic=synthetic,
        pending=pending,
        counted=db.execute("SELECT count(*) FROM messages").fetchone()[0],
        without_date=db.execute("SELECT count(*) FROM messages WHERE at IS NULL").fetchone()[0],
    )


def _skipped(db: sqlite3.Connection) -> Iterator[SkippedUsage]:
    rows = db.execute(
        "SELECT path, offset, why, detail FROM skipped JOIN logs ON logs.id = log"
        " UNION ALL SELECT path, 0, 'unreadable', problem FROM logs WHERE problem IS NOT NULL"
    )
    for path, offset, why, detail in rows:
        yield SkippedUsage(path=path, offset=offset, why=why, detail=detail)


def _sums(db: sqlite3.Connection, first: int | None, stop: int | None) -> Iterator[ResponseGroup]:
    """Return what the index has added up, of the quarters from *first* to *stop*."""
    within = "" if first is None else "WHERE quarter >= ? AND quarter < ?"
    names = _names(db)
    for row in db.execute(
        "SELECT session, quarter, project, model, speed, service_tier, inference_geo, is_long,"  # noqa: S608
        " subagent, messages, input, output, cache_write_5m, cache_write_1h, cache_read,"
        f" web_searches FROM spent {within}",
        () if first is None else (first, stop),
    ):
        session, quarter, project, model, speed, tier, geo, is_long, subagent, messages, *used = row
        place = names.get(project)
        yield ResponseGroup(
            None,
            None,
            "",
            names.get(session),
            subagent or None,
            bool(subagent),
            None if quarter == UNDATED else instant_at(quarter * QUARTER_US),
            names.get(model),
            Counters(*used),
            names.get(speed),
            names.get(tier),
            names.get(geo),
            None,
            place,
            place,
            "",
            0,
            messages,
            LONG_CONTEXT + 1 if is_long else 0,
        )


def _responses(db: sqlite3.Connection, since: int | None, until: int | None) -> Iterator[Response]:
    """Give single responses; with a border in time only those that have a date."""
    within, given = "TRUE", []
    if since is not None:
        within, given = "messages.at >= ?", [since]
    if until is not None:
        within, given = f"{within} AND messages.at < ?", [*given, until]
    return _responses_which(db, within, given)


def _responses_which(
    db: sqlite3.Connection, which: str, given: Sequence[Any]
) -> Iterator[Response]:
    """Return the responses that *which*, a condition of ours, holds for."""
    names = _names(db)
    paths = dict(db.execute("SELECT id, path FROM logs"))
    offsets = (1 << OFFSET_BITS) - 1
    for row in db.execute(
        "SELECT message_id, request_id, part, session, subagent, is_sidechain, at, model, input,"  # noqa: S608
        " output, cache_write_5m, cache_write_1h, cache_read, web_searches, others, speed,"
        " service_tier, inference_geo, recorded_usd, cwd, project, record FROM messages"
        f" WHERE {which} ORDER BY id",
        given,
    ):
        yield Response(
            row[0],
            row[1],
            row[2],
            names.get(row[3]),
            row[4],
            bool(row[5]),
            instant_at(row[6]),
            names.get(row[7]),
            _counters(row[8:15]),
            names.get(row[15]),
            names.get(row[16]),
            names.get(row[17]),
            None if row[18] is None else Decimal(row[18]),
            names.get(row[19]),
            names.get(row[20]),
            paths[row[21] >> OFFSET_BITS],
            row[21] & offsets,
        )


def _has_other_borders(db: sqlite3.Connection, prices: Prices) -> bool:
    """Return whether a model has a price for long contexts that begin elsewhere."""
    models = db.execute("SELECT name FROM names WHERE id IN (SELECT DISTINCT model FROM spent)")
    return any(
        tier.above != LONG_CONTEXT
        for (model,) in models
        for price in prices.history(model)
        for tier in price.tiers
    )


def _names(db: sqlite3.Connection) -> dict[int, str]:
    return dict(db.execute("SELECT id, name FROM names"))


def _counters(row: Sequence[Any]) -> Counters:
    counters = Counters(*row[:6])
    if row[6]:
        counters.others = msgspec.json.decode(row[6])
    return counters


class TracedResponse(Response, frozen=True, gc=False):
    """A response, and what the index knows of its records."""

    branch: str | None = None
    tools: str | None = None
    """The different tools that it called, sorted and joined by ``+``; None if it called none."""


def every_traced(index: Index, period: Period) -> UsageScan:
    """Return every response of *period*, one by one, with its branch and its tools."""
    scan = every_response(index, period)
    db = index.db
    logs = {path: log for log, path in db.execute("SELECT id, path FROM logs")}
    branches = dict(
        db.execute(
            "SELECT records.id, name FROM records JOIN names ON names.id = branch"
            " WHERE records.id IN (SELECT record FROM messages)"
        )
    )
    tools = _tools(db)
    traced: list[Response] = []
    for each in scan.responses:
        log = logs[each.log]
        record = log << OFFSET_BITS | each.offset
        called = tools.get((log, each.message_id or record))
        named = "+".join(sorted(called)) if called else None
        traced.append(TracedResponse(**asdict(each), branch=branches.get(record), tools=named))
    scan.responses = traced
    return scan


def _tools(db: sqlite3.Connection) -> dict[tuple[int, str | int], set[str]]:
    """Give the tools that each message of each log calls; a nameless one is known by its record."""
    found: dict[tuple[int, str | int], set[str]] = {}
    for record, message, tool in db.execute(
        "SELECT records.id, message, name FROM calls JOIN records ON records.id = calls.record"
        " JOIN names ON names.id = calls.tool"
    ):
        found.setdefault((record >> OFFSET_BITS, message or record), set()).add(tool)
    return found
