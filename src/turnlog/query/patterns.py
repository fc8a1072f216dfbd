"""Patterns of work: sequences of tools, access to files, and activity over time.

All are counted by the index alone. A sequence is within one session's part of one log: calls that
follow each other, whatever was said in between. Longer sequences contain shorter ones, and each is
counted wherever it begins. Copies made by a fork or a resume count once. Time buckets are in the
caller's time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.index.connection import Index
from turnlog.index.ids import IS_BESIDE, IS_CALL, IS_FIRST, IS_PROMPT, instant_at
from turnlog.query.filters import scope_sql

Interval = Literal["hour", "day", "week", "month"]
Metric = Literal["calls", "errors", "error_rate", "messages", "tokens", "prompts"]
INTERVALS: Final = get_args(Interval)
METRICS: Final = get_args(Metric)

SHORTEST: Final = 2
LONGEST: Final = 5
"""How many calls a sequence has."""
_LONGEST_PATTERN: Final = 20
_MOST_BUCKETS: Final = 5_000
# No zone of today differs from another by less.
_QUANTUM_US: Final = 900 * 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Sequence(Struct, kw_only=True, frozen=True):
    """Tools that were called one after another."""

    sequence: str
    tools: list[str]
    count: int
    sessions: int
    first_at: datetime | None
    last_at: datetime | None


class Sequences(Struct, kw_only=True):
    """What `turnlog query sequences --json` prints."""

    sequences: list[Sequence]
    next: int | None


class FileAccess(Struct, kw_only=True, frozen=True):
    """What calls did with a file."""

    file: str
    reads: int
    edits: int
    writes: int
    searches: int
    total: int
    sessions: int
    first_at: datetime | None
    last_at: datetime | None


class FileAccesses(Struct, kw_only=True):
    """What `turnlog query files --json` prints."""

    files: list[FileAccess]
    next: int | None


class SeriesPoint(Struct, kw_only=True, frozen=True):
    """What happened from *at* on, until the next point's."""

    at: datetime
    value: float | int | None


class Series(Struct, kw_only=True):
    """What `turnlog query series --json` prints."""

    metric: Metric
    interval: Interval
    points: list[SeriesPoint]
    notes: list[str] = []


def tool_sequences(
    index: Index,
    *,
    min_occurrences: int = 3,
    shortest: int = SHORTEST,
    longest: int = LONGEST,
    pattern: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
    limit: int | None = 20,
    offset: int = 0,
) -> Sequences:
    """Find sequences of tools that occur often; or count one, such as ``Read -> Edit``."""
    wanted = _tools_of(pattern) if pattern is not None else None
    lengths = (
        range(shortest, longest + 1) if wanted is None else range(len(wanted), len(wanted) + 1)
    )
    if wanted is None and not SHORTEST <= shortest <= longest <= LONGEST:
        raise UsageError(
            f"invalid length of sequences: {shortest} to {longest} calls",
            hint=f"use lengths from {SHORTEST} to {LONGEST}",
        )
    where, values = scope_sql(index, since, until, project)
    names: dict[int, str] = dict(index.db.execute("SELECT id, name FROM names"))
    sequences = [
        _sequence([names.get(each, "") for each in row[:length]], row[length:])
        for length in lengths
        for row in _runs(index, length, min_occurrences, where, values)
    ]
    if wanted is not None:
        sequences = [each for each in sequences if each.tools == wanted]
    sequences.sort(key=lambda each: (-each.count, -len(each.tools), each.tools))
    end = len(sequences) if limit is None else offset + limit
    return Sequences(sequences=sequences[offset:end], next=end if end < len(sequences) else None)


def _tools_of(pattern: str) -> list[str]:
    tools = [each.strip() for each in pattern.replace("→", "->").split("->")]
    if not 1 < len(tools) <= _LONGEST_PATTERN or not all(tools):
        raise UsageError(
            f"{pattern!r} is no sequence of tools", hint="write tools and arrows: Read -> Edit"
        )
    return tools


def _runs(index: Index, length: int, minimum: int, where: str, values: dict[str, Any]) -> list[Any]:
    """Count the runs of *length* calls."""
    following = ", ".join(f"lead(c.tool, {n}) OVER w AS t{n}" for n in range(1, length))
    columns = ", ".join(f"t{n}" for n in range(length))
    return index.db.execute(
        f"SELECT {columns}, count(*), count(DISTINCT session), min(at), max(at) FROM"  # noqa: S608 - Ours.
        f" (SELECT c.tool AS t0, {following}, r.session, r.at FROM calls AS c"
        " JOIN records AS r ON r.id = c.record LEFT JOIN sessions AS s ON s.id = r.session"
        f" WHERE {IS_CALL} AND {where}"
        " WINDOW w AS (PARTITION BY c.record >> 40, r.session ORDER BY c.record, c.block))"
        f" WHERE t{length - 1} IS NOT NULL GROUP BY {columns} HAVING count(*) >= :minimum",
        values | {"minimum": minimum},
    ).fetchall()


def _sequence(tools: list[str], figures: Any) -> Sequence:
    count, sessions, first, last = figures
    return Sequence(
        sequence=" -> ".join(tools),
        tools=tools,
        count=count,
        sessions=sessions,
        first_at=instant_at(first),
        last_at=instant_at(last),
    )


def file_access(
    index: Index,
    file: str | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
    limit: int | None = 20,
    offset: int = 0,
) -> FileAccesses:
    """Count what was done with each file, the most used first.

    *file* is a path as the calls wrote it, or the end of one, such as ``questions/query.py``.
    """
    where, values = scope_sql(index, since, until, project)
    if file is not None:
        where += " AND (p.path = :file OR substr(p.path, -length(:file) - 1) IN (:slash, :back))"
        values |= {"file": file, "slash": f"/{file}", "back": f"\\{file}"}
    counts = ", ".join(
        f"sum(f.action = '{action}')" for action in ("read", "edit", "write", "search")
    )
    rows = index.db.execute(
        f"SELECT p.path, {counts}, count(*), count(DISTINCT r.session), min(r.at), max(r.at)"  # noqa: S608 - Ours.
        " FROM touches AS f JOIN paths AS p ON p.id = f.path JOIN records AS r ON r.id = f.record"
        f" LEFT JOIN sessions AS s ON s.id = r.session WHERE {IS_FIRST} AND {where} GROUP BY p.id"
        " ORDER BY 6 DESC, p.path LIMIT :most OFFSET :offset",
        values | {"most": -1 if limit is None else limit + 1, "offset": offset},
    ).fetchall()
    is_more = limit is not None and len(rows) > limit
    return FileAccesses(
        files=[_access(row) for row in (rows[:limit] if is_more else rows)],
        next=offset + limit if is_more and limit is not None else None,
    )


def _access(row: Any) -> FileAccess:
    file, reads, edits, writes, searches, total, sessions, first, last = row
    return FileAccess(
        file=file,
        reads=reads,
        edits=edits,
        writes=writes,
        searches=searches,
        total=total,
        sessions=sessions,
        first_at=instant_at(first),
        last_at=instant_at(last),
    )


_CALLS: Final = "calls AS c JOIN records AS r ON r.id = c.record"
_TOKENS: Final = "u.input + u.output + u.cache_write_5m + u.cache_write_1h + u.cache_read"
# What is counted, and out of how much; where from; under which condition.
_MEASURED: Final[dict[str, tuple[str, str, str]]] = {
    "calls": ("count(*), 0", _CALLS, IS_CALL),
    "errors": ("sum(coalesce(c.is_error, 0)), 0", _CALLS, IS_CALL),
    "error_rate": ("sum(c.is_error), count(c.is_error)", _CALLS, IS_CALL),
    "prompts": ("count(*), 0", "records AS r", f"{IS_PROMPT} AND {IS_FIRST} AND NOT {IS_BESIDE}"),
    "messages": (
        "sum(u.part = ''), 0",
        "messages AS u JOIN records AS r ON r.id = u.record",
        "TRUE",
    ),
    "tokens": (
        f"sum({_TOKENS}), 0",
        "messages AS u JOIN records AS r ON r.id = u.record",
        "TRUE",
    ),
}


def time_series(
    index: Index,
    interval: Interval = "day",
    metric: Metric = "calls",
    *,
    zone: tzinfo = UTC,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
) -> Series:
    """Return how much happened in each hour, day or week; a week begins on Monday.

    Errors are calls that failed; their rate is the part they are of the calls that were answered,
    and null where there were none. Prompts are those of humans and of agents that call agents.
    """
    for name, possible in ((interval, INTERVALS), (metric, METRICS)):
        if name not in possible:
            raise UsageError(
                f"there is no {name!r} to count", hint=f"there are {', '.join(possible)}"
            )
    counted, source, condition = _MEASURED[metric]
    at = "u.at" if source.startswith("messages") else "r.at"
    where, values = scope_sql(index, since, until, project, at=at)
    rows = index.db.execute(
        f"SELECT {at} / :quantum - ({at} % :quantum < 0), {counted} FROM {source}"  # noqa: S608
        f" LEFT JOIN sessions AS s ON s.id = r.session"
        f" WHERE {at} IS NOT NULL AND {condition} AND {where} GROUP BY 1",
        values | {"quantum": _QUANTUM_US},
    )
    counts: dict[datetime, tuple[int, int]] = {}
    for quantum, part, whole in rows:
        begins = _bucket(_EPOCH + timedelta(microseconds=quantum * _QUANTUM_US), interval, zone)
        before = counts.get(begins, (0, 0))
        counts[begins] = (before[0] + (part or 0), before[1] + (whole or 0))
    notes: list[str] = []
    points = [
        SeriesPoint(at=begins.astimezone(UTC), value=_value(metric, *counts.get(begins, (0, 0))))
        for begins in _filled(sorted(counts), interval, zone, notes)
    ]
    return Series(metric=metric, interval=interval, points=points, notes=notes)


def _value(metric: Metric, part: int, whole: int) -> float | int | None:
    if metric != "error_rate":
        return part
    return part / whole if whole else None


def _bucket(at: datetime, interval: Interval, zone: tzinfo) -> datetime:
    """Return the instant at which the bucket of *at* begins; aware, in UTC."""
    try:
        here = at.astimezone(zone)
        if interval == "hour":
            # By the clock's minutes, not by its hour: where clocks are set back, there are two.
            past = timedelta(minutes=here.minute, seconds=here.second)
            return (at.astimezone(UTC) - past).replace(microsecond=0)
        day = here.date()
        if interval == "week":
            day -= timedelta(days=day.weekday())
        if interval == "month":
            day = day.replace(day=1)
        return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
    except OverflowError:  # The first and the last day there are have no other zone.
        return at


def _filled(
    starts: list[datetime], interval: Interval, zone: tzinfo, notes: list[str]
) -> list[datetime]:
    """Return the buckets with the empty ones between them, unless those are too many."""
    step = {
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(weeks=1),
        "month": timedelta(days=30),
    }
    if not starts:
        return []
    if (starts[-1] - starts[0]) / step[interval] > _MOST_BUCKETS:
        notes.append(f"the empty {interval}s between are left out: there are too many")
        return starts
    buckets = set(starts)
    at = starts[0]
    while at < starts[-1]:
        buckets.add(at)
        # Half a step more reaches into the next bucket, also where clocks are changed.
        at = max(_bucket(at + step[interval] * 1.5, interval, zone), at + timedelta(minutes=15))
    return sorted(buckets)
