"""The API responses that reports account for, each counted once: from the index, or from the logs.

    with open_source(homes, prices) as source:
        scan = source.sums(Period())

Both sources give the same answer. The index takes a few milliseconds, since it holds sums per
quarter of an hour, which every time zone and every price keeps together. The logs are read only
where no index can be used.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from turnlog.catalog.tags import tags_by_session
from turnlog.errors import IndexUnavailable, TurnlogError, UsageError
from turnlog.formats import Home, LogFile, Problem, find_everywhere
from turnlog.formats.supported import agent_of
from turnlog.index.connection import Index, open_fresh
from turnlog.index.ids import (
    LONG_CONTEXT,
    OFFSET_BITS,
    QUARTER_US,
    UNDATED,
    instant_at,
    json_array,
    microseconds,
)
from turnlog.index.processes import Children, can_fork, processors, share_out
from turnlog.index.usage.entries import SELECT, SkippedUsage, usage_entry_of
from turnlog.index.usage.scan import LogScan
from turnlog.records.responses import Response, ResponseGroup, Responses, by_response
from turnlog.records.usage import Counters
from turnlog.records.usage_entries import UsageEntry

if TYPE_CHECKING:
    from turnlog.catalog.period import Period
    from turnlog.pricing.cost import Prices

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUARTER: Final = timedelta(microseconds=QUARTER_US)
_END: Final = 1 << 60
"""Later than every quarter of an hour."""
# For less, starting a second process takes longer than it saves.
_WORTH_SHARING_BYTES: Final = 64_000_000


class TracedResponse(Response, frozen=True, gc=False):
    """A response with its branch and its tools, which only the index knows.

    The branch is that of the record whose figures count. The tools are those that all records of
    the message in the same log call, since several records carry parts of one response.
    """

    branch: str | None = None
    tools: str | None = None
    """The names of the called tools, sorted and joined by ``+``; None if there are none."""


class UsageScan(Struct, kw_only=True):
    """Every response once, and what was left out."""

    responses: list[Response]
    skipped: list[SkippedUsage]
    logs: int
    size_bytes: int
    entries: int
    """Records with the usage of a response, duplicates included."""
    duplicates: int
    """Entries of responses that another record counts for."""
    undated: int
    """Responses without a date in any record."""
    synthetic: int
    """Messages without tokens made up by the agent program."""
    pending: int
    """Logs whose last line may be incomplete and was not counted."""
    tags: dict[str, list[str]] = field(default_factory=dict)
    """The tags of each session, if they were asked for."""
    agents: dict[str, str] = field(default_factory=dict)
    """The agent of each session, if it was asked for."""


class UsageSource(Protocol):
    """Where usage is read from. A scan may hold more than its period; reports filter it."""

    def sums(self, period: Period) -> UsageScan:
        """Return the usage in *period*, added up as far as it changes no figure of a report."""
        ...

    def responses(self, period: Period) -> UsageScan:
        """Return every response in *period*."""
        ...

    def traced(self, period: Period) -> UsageScan:
        """Return every response in *period* with its branch and its tools, and all tags."""
        ...

    def titles(self, sessions: Iterable[str]) -> dict[str, str]:
        """Return the known titles of *sessions*."""
        ...

    def agents(self) -> dict[str, str]:
        """Return the agent of each session."""
        ...


@contextmanager
def open_source(
    homes: Sequence[Home],
    prices: Prices,
    *,
    no_index: bool = False,
    is_traced: bool = False,
    open_index: Callable[..., Index] = open_fresh,
    notify: Callable[[str], None] | None = None,
) -> Iterator[UsageSource]:
    """Open the index; without one, read the logs, which cannot answer *is_traced* questions.

    If the index is unavailable, *notify* is called with the reason.
    """
    if is_traced and no_index:
        raise UsageError(
            "branches, tools and tags are known only to the index",
            hint="leave out no_index=True",
        )
    index = None
    if not no_index:
        try:
            if is_traced:
                index = open_index(homes, stage="text", fallback="made")
            else:  # Reading the logs is faster than building a temporary index.
                index = open_index(homes, stage="usage", fallback="none")
        except IndexUnavailable as error:
            if is_traced:
                raise
            if notify is not None:
                notify(f"{error.message}; reading the logs instead")
    if index is None:
        yield LogsSource(scan_usage(homes, workers=processors()))
    else:
        with index:
            yield IndexSource(index, prices)


class IndexSource(Struct, frozen=True):
    """Usage from the index; only what is needed is read."""

    index: Index
    prices: Prices

    def sums(self, period: Period) -> UsageScan:
        """Return sums; single responses only where the period cuts a quarter of an hour."""
        if not self._has_usual_tiers():
            return self.responses(period)  # The sums separate only the usual long context.
        if period.since is None and period.until is None:
            return _indexed_scan(self.index.db, list(_sums(self.index.db, UNDATED, _END)))
        since, until = microseconds(period.since), microseconds(period.until)
        first = UNDATED + 1 if since is None else -(-since // QUARTER_US)
        stop = _END if until is None else until // QUARTER_US
        if first >= stop:
            return self.responses(period)
        found: list[Response] = list(_sums(self.index.db, first, stop))
        if since is not None and since < first * QUARTER_US:
            found += _responses(self.index.db, *_between(since, first * QUARTER_US))
        if until is not None and stop * QUARTER_US < until:
            found += _responses(self.index.db, *_between(stop * QUARTER_US, until))
        return _indexed_scan(self.index.db, found)

    def of_sessions(self, sessions: Iterable[str]) -> list[Response]:
        """Return the usage of *sessions*, added up like ``sums``."""
        which = json_array(sessions)
        if self._has_usual_tiers():
            return list(_sums(self.index.db, UNDATED, _END, which))
        return list(_responses(self.index.db, f"messages.session IN ({_NAMED})", (which,)))

    def _has_usual_tiers(self) -> bool:
        """Return whether prices have no other tier than the usual long context."""
        models = self.index.db.execute(
            "SELECT name FROM names WHERE id IN (SELECT DISTINCT model FROM usage_sums)"
        )
        prices = [price for (model,) in models for price in self.prices.history(model)]
        return all(tier.above == LONG_CONTEXT for price in prices for tier in price.tiers)

    def responses(self, period: Period) -> UsageScan:
        return every_response(self.index, period)

    def traced(self, period: Period) -> UsageScan:
        scan = self.responses(period)
        logs = {path: log for log, path in self.index.db.execute("SELECT id, path FROM logs")}
        branches = dict(
            self.index.db.execute(
                "SELECT records.id, name FROM records JOIN names ON names.id = branch"
                " WHERE records.id IN (SELECT record FROM messages)"
            )
        )
        # The tools of each message of each log; a message without an id is known by its record.
        tools: dict[tuple[int, str | int], set[str]] = {}
        for record, message, tool in self.index.db.execute(
            "SELECT records.id, message, name FROM calls JOIN records ON records.id = calls.record"
            " JOIN names ON names.id = calls.tool"
        ):
            tools.setdefault((record >> OFFSET_BITS, message or record), set()).add(tool)
        traced: list[Response] = []
        for response in scan.responses:
            log = logs[response.log]
            record = log << OFFSET_BITS | response.offset
            called = "+".join(sorted(tools.get((log, response.message_id or record), ())))
            branch = branches.get(record)
            traced.append(TracedResponse(**asdict(response), branch=branch, tools=called or None))
        scan.responses = traced
        scan.tags = tags_by_session(self.index)
        return scan

    def agents(self) -> dict[str, str]:
        """Return the agent of each session that used something: that of the logs that say so."""
        query = (
            "SELECT DISTINCT names.name, logs.layout FROM messages"  # noqa: S608 - Ours.
            f" JOIN logs ON logs.id = messages.record >> {OFFSET_BITS}"
            " JOIN names ON names.id = messages.session"
        )
        return {session: agent_of(layout) for session, layout in self.index.db.execute(query)}

    def titles(self, sessions: Iterable[str]) -> dict[str, str]:
        """Return titles from the index, or from the ends of logs it has read only for usage."""
        return {session: title for session in sessions if (title := self._title(session))}

    def _title(self, session: str) -> str | None:
        query = "SELECT title FROM sessions WHERE session = ? AND title IS NOT NULL"
        known = self.index.db.execute(query, (session,)).fetchone()
        if known is not None:
            return str(known[0])
        from turnlog.sessions.metadata import read_head_tail  # noqa: PLC0415 - Rarely needed.

        query = "SELECT path FROM logs WHERE session = ? AND kind = 'session' AND gone_at IS NULL"
        for (path,) in self.index.db.execute(query, (session,)):
            with suppress(TurnlogError, OSError):
                if title := read_head_tail(path).summary.title:
                    return title
        return None


class LogsSource:
    """Usage from the logs, all of which have to be read to know which records count."""

    def __init__(self, scan: UsageScan) -> None:
        self._scan = scan

    def sums(self, _period: Period) -> UsageScan:
        return self._scan

    responses = sums

    def traced(self, _period: Period) -> UsageScan:
        raise UsageError(
            "branches, tools and tags are known only to the index", hint="use the index"
        )

    def titles(self, _sessions: Iterable[str]) -> dict[str, str]:
        return {}

    def agents(self) -> dict[str, str]:
        return self._scan.agents


# -- from the index -------------------------------------------------------------------------


def every_response(index: Index, period: Period) -> UsageScan:
    """Return every response in *period*."""
    within = _between(microseconds(period.since), microseconds(period.until))
    return _indexed_scan(index.db, list(_responses(index.db, *within)))


def _indexed_scan(db: sqlite3.Connection, responses: list[Response]) -> UsageScan:
    logs = db.execute(
        "SELECT count(*), sum(usage_offset), sum(usage_count + tail_usage_count),"
        " sum(synthetic + tail_synthetic), sum(is_pending) FROM logs"
        " WHERE usage_size_bytes >= 0 AND layout <> 'beside'"
    ).fetchone()
    skipped = db.execute(
        "SELECT path, offset, why, detail FROM skipped JOIN logs ON logs.id = log"
        " UNION ALL SELECT path, 0, 'unreadable', problem FROM logs WHERE problem IS NOT NULL"
    )
    count, size_bytes, entries, synthetic, pending = (figure or 0 for figure in logs)
    counted, dated = db.execute("SELECT count(*), count(at) FROM messages").fetchone()
    return UsageScan(
        responses=responses,
        skipped=[
            SkippedUsage(path=path, offset=offset, why=why, detail=detail)
            for path, offset, why, detail in skipped
        ],
        logs=count,
        size_bytes=size_bytes,
        entries=entries - synthetic,
        duplicates=entries - synthetic - counted,
        undated=counted - dated,
        synthetic=synthetic,
        pending=pending,
    )


class _Names(dict[int, str | None]):
    """Names by id, looked up when they are needed."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__()
        self._db = db

    def __missing__(self, number: int) -> str | None:
        row = self._db.execute("SELECT name FROM names WHERE id = ?", (number,)).fetchone()
        self[number] = None if row is None else row[0]
        return self[number]


_NAMED: Final = "SELECT names.id FROM json_each(?) AS a JOIN names ON names.name = a.value"


def _sums(
    db: sqlite3.Connection, first: int, stop: int, sessions: str | None = None
) -> Iterator[ResponseGroup]:
    """Yield the sums of the quarters from *first* to *stop* (exclusive).

    *sessions* limits them to a JSON list of ids.
    """
    query = (
        "SELECT session, quarter, project, model, speed, service_tier, inference_geo, is_long,"
        " subagent, messages, input, output, cache_write_5m, cache_write_1h, cache_read,"
        " web_searches FROM usage_sums WHERE quarter >= ? AND quarter < ?"
    )
    names = _Names(db)
    rows: Iterable[Any]
    if sessions is None:
        names.update(db.execute("SELECT id, name FROM names"))
        rows = db.execute(query, (first, stop))
    else:
        rows = db.execute(f"{query} AND session IN ({_NAMED})", (first, stop, sessions)).fetchall()
    for row in rows:
        session, quarter, project, model, speed, tier, geo, is_long, subagent, messages, *used = row
        place = names[project]
        yield ResponseGroup(
            None,
            None,
            "",
            names[session],
            subagent or None,
            bool(subagent),
            None if quarter == UNDATED else _EPOCH + quarter * _QUARTER,
            names[model],
            Counters(*used),
            names[speed],
            names[tier],
            names[geo],
            None,
            place,
            place,
            "",
            0,
            messages,
            LONG_CONTEXT + 1 if is_long else 0,
        )


def _between(since: int | None, until: int | None) -> tuple[str, list[int]]:
    """Return the condition for messages in a range; undated ones are in none."""
    condition, values = "TRUE", []
    if since is not None:
        condition, values = "messages.at >= ?", [since]
    if until is not None:
        condition, values = f"{condition} AND messages.at < ?", [*values, until]
    return condition, values


def _responses(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> Iterator[Response]:
    names = dict(db.execute("SELECT id, name FROM names"))
    paths = dict(db.execute("SELECT id, path FROM logs"))
    offsets = (1 << OFFSET_BITS) - 1
    for row in db.execute(
        "SELECT message_id, request_id, part, session, subagent, is_sidechain, at, model, input,"  # noqa: S608
        " output, cache_write_5m, cache_write_1h, cache_read, web_searches, others, speed,"
        " service_tier, inference_geo, recorded_usd, cwd, project, record FROM messages"
        f" WHERE {condition} ORDER BY id",
        values,
    ):
        counters = Counters(*row[8:14])
        if row[14]:
            counters.others = msgspec.json.decode(row[14])
        yield Response(
            row[0],
            row[1],
            row[2],
            names.get(row[3]),
            row[4],
            bool(row[5]),
            instant_at(row[6]),
            names.get(row[7]),
            counters,
            names.get(row[15]),
            names.get(row[16]),
            names.get(row[17]),
            None if row[18] is None else Decimal(row[18]),
            names.get(row[19]),
            names.get(row[20]),
            paths[row[21] >> OFFSET_BITS],
            row[21] & offsets,
        )


_LOGS: Final = "FROM logs WHERE session = ? AND kind <> 'day'"
_CARRIED: Final = (
    f"messages.name IN (SELECT name FROM usage_entries WHERE log IN (SELECT id {_LOGS}))"  # noqa: S608
    " AND messages.session IN (SELECT id FROM names WHERE name <> ?)"
)


def counted_elsewhere(homes: Sequence[Home], session: str) -> list[Response]:
    """Return the responses in the logs of *session* that count for another session.

    A fork may have copied them as its own, which its logs alone do not show. The index is used as
    it is, without a refresh; if there is none, nothing is returned.
    """
    from turnlog.index.database import open_for_reading  # noqa: PLC0415 - Not for reports.

    try:
        db = open_for_reading(homes)
        if db is None:
            return []
        with closing(db):
            found = list(_responses(db, _CARRIED, (session, session)))
            places = _places_in(db, session) if found else set()
    except sqlite3.Error:
        return []  # The next refresh repairs the index.
    return [response for response in found if (response.log, response.offset) in places]


def _places_in(db: sqlite3.Connection, session: str) -> set[tuple[str, int]]:
    """Return the records of all responses that the logs of *session* share with other sessions.

    Two sessions may share a message id without sharing a response.
    """
    logs = {path for (path,) in db.execute(f"SELECT path {_LOGS}", (session,))}
    messages: dict[str, list[UsageEntry]] = {}
    names = f"SELECT name FROM messages WHERE {_CARRIED}"  # noqa: S608 - No user input.
    for row in db.execute(f"{SELECT} WHERE usage_entries.name IN ({names})", (session, session)):
        messages.setdefault(row[0], []).append(usage_entry_of(row[:6]))
    return {
        (entry.log, entry.offset)
        for entries in messages.values()
        for response in by_response(entries)
        if any(entry.log in logs for entry in response)
        for entry in response
    }


# -- from the logs --------------------------------------------------------------------------


def scan_usage(
    homes: Iterable[Home], *, workers: int = 1, problems: list[Problem] | None = None
) -> UsageScan:
    """Read the usage of all sessions of *homes*, in up to *workers* processes.

    Directories that cannot be listed are added to *problems*.
    """
    return scan_logs(find_everywhere(homes, problems=problems), workers=workers)


def scan_logs(logs: Iterable[LogFile], *, workers: int = 1) -> UsageScan:
    """Read the usage in *logs*; a response in several of them counts once."""
    logs = list(logs)
    mine, theirs = logs, []
    if workers > 1 and sum(map(_size_bytes, mine)) >= _WORTH_SHARING_BYTES and can_fork():
        mine, *theirs = share_out(mine, workers, _size_bytes)
    with Children(_scan_share, theirs) as children:
        scan, folded = _scan(mine)
        for share, message in children.messages():
            theirs.remove(share)
            _add(message, scan, folded)
    for share in theirs:  # Its child was killed or could not be started.
        for message in _scan_share(share):
            _add(message, scan, folded)
    responses = folded.drain()
    layouts = {os.fspath(log.path): log.layout for log in logs}
    entries = scan.count - folded.synthetic
    return UsageScan(
        responses=responses,
        skipped=scan.skipped,
        logs=scan.logs,
        size_bytes=scan.size_bytes,
        entries=entries,
        duplicates=entries - len(responses),
        undated=sum(response.at is None for response in responses),
        synthetic=folded.synthetic,
        pending=scan.pending,
        agents={each.session: agent_of(layouts[each.log]) for each in responses if each.session},
    )


class _Share(Struct, array_like=True):
    """The result of another process for its share of the logs."""

    entries: list[UsageEntry]
    skipped: list[SkippedUsage]
    logs: int
    size_bytes: int
    usage_count: int
    synthetic: int
    pending: int


def _scan(logs: Iterable[LogFile]) -> tuple[LogScan, Responses]:
    scan, folded = LogScan(), Responses()
    for log in logs:
        for entry in scan.entries(log):
            folded.take(entry)
    return scan, folded


def _scan_share(logs: Iterable[LogFile]) -> Iterator[bytes]:
    """Scan *logs* in a child process; yield one message with the result."""
    scan, folded = _scan(logs)
    share = _Share(
        folded.held(),
        scan.skipped,
        scan.logs,
        scan.size_bytes,
        scan.count,
        folded.synthetic,
        scan.pending,
    )
    yield msgspec.msgpack.encode(share)


def _add(message: bytes, scan: LogScan, folded: Responses) -> None:
    """Add the result of a child process."""
    share = msgspec.msgpack.decode(message, type=_Share)
    for entry in share.entries:
        folded.take(entry)
    scan.skipped += share.skipped
    scan.logs += share.logs
    scan.size_bytes += share.size_bytes
    scan.count += share.usage_count
    scan.pending += share.pending
    folded.synthetic += share.synthetic


def _size_bytes(log: LogFile) -> int:
    try:
        return os.stat(log.path).st_size
    except OSError:
        return 0  # Reading it will report the error.
