"""Count every API response and every record once, however many logs contain it.

Usage entries become messages, one row for each response. Only names with changed entries are
deduplicated again, by the rules of ``records.responses``. Which of several sessions pays for a
response that all of them have depends on all their responses, so a change in one session affects
what it shares with others. The result is the same as for a fold over all logs.

Copies of records, made by a fork or a resume, are repeats. A record is identified by its uuid, and
a copy with a new uuid by the record that it names as its origin. Ids that are not UUIDs are unique
within a log only. Of several copies, the first is one that is not marked as a copy, then one of a
session rather than a subagent, then the first by session, home and log. Records of one log are
never repeats of each other. The result depends only on these records, so it is updated in the
transaction that adds or deletes them; the first time, when the lookup indexes are created.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from turnlog.index.database import batches, has_indexes, make_indexes, transaction
from turnlog.index.ids import (
    LONG_CONTEXT,
    OFFSET_BITS,
    QUARTER_US,
    UNDATED,
    Names,
    microseconds,
)
from turnlog.index.usage.entries import SELECT, is_any_deduplicated, message_of_one, usage_entry_of
from turnlog.records.usage_entries import UsageEntry

if TYPE_CHECKING:
    from turnlog.records.responses import Response


class _Member(Struct, frozen=True, gc=False):
    record: int
    uuid: bytes
    origin: bytes | None
    place: tuple[int, str, str, str, int]

    @property
    def log(self) -> int:
        return self.record >> OFFSET_BITS


def make_lookup_tables(db: sqlite3.Connection) -> None:
    """Create the indexes on all tables, unless they exist, and find the repeats so far."""
    if not has_indexes(db):
        make_indexes(db)
        rows = db.execute(
            "SELECT uuid FROM records WHERE uuid IS NOT NULL AND typeof(uuid) = 'blob'"
            " GROUP BY uuid HAVING count(*) > 1"
            " UNION SELECT r.uuid FROM carried JOIN records AS r ON r.id = carried.record"
        )
        update_repeats(db, {row[0] for row in rows})


def repeats_within(db: sqlite3.Connection, low: int, high: int) -> set[bytes]:
    """Return the uuids of records in a range of ids that are, or may be, in other logs, too."""
    if not has_indexes(db):
        return set()
    within = f"r.id >= {low} AND r.id < {high} AND typeof(r.uuid) = 'blob'"
    log = low >> OFFSET_BITS
    elsewhere = f"other.id < {log << OFFSET_BITS} OR other.id >= {(log + 1) << OFFSET_BITS}"
    rows = db.execute(
        f"SELECT r.uuid FROM records AS r WHERE {within} AND (EXISTS"  # noqa: S608 - Ours.
        f" (SELECT 1 FROM records AS other WHERE other.uuid = r.uuid AND ({elsewhere}))"
        " OR EXISTS (SELECT 1 FROM carried WHERE carried.record = r.id)"
        " OR EXISTS (SELECT 1 FROM carried WHERE carried.origin = r.uuid))"
    )
    return {row[0] for row in rows}


def update_repeats(db: sqlite3.Connection, uuids: Iterable[bytes]) -> None:
    """Find the first of the records with *uuids*, and of all that are copies of the same."""
    names = sorted(_related(db, set(uuids)))
    if not names:
        return
    # The order must not depend on which log was read first.
    members = sorted(_members(db, names), key=lambda one: (one.origin is not None, one.place))
    origins = {one.uuid: one.origin for one in members if one.origin not in (None, one.uuid)}
    groups: dict[bytes, list[_Member]] = {}
    for member in members:
        groups.setdefault(_root(member.uuid, origins), []).append(member)
    db.executemany("DELETE FROM repeats WHERE record = ?", ((one.record,) for one in members))
    db.executemany(
        "INSERT INTO repeats VALUES (?, ?)",
        (
            (member.record, group[0].record)
            for group in groups.values()
            for member in group[1:]
            if member.log != group[0].log
        ),
    )


def _related(db: sqlite3.Connection, uuids: set[bytes]) -> set[bytes]:
    """Return *uuids*, those of their origins and of their copies, and so on: forks are forked."""
    found, new = set[bytes](), uuids
    while new:
        found |= new
        names = sorted(new)
        origins = _rows(
            db,
            "SELECT carried.origin FROM records AS r JOIN carried ON carried.record = r.id"
            " WHERE r.uuid",
            names,
        )
        copies = _rows(
            db,
            "SELECT r.uuid FROM carried JOIN records AS r ON r.id = carried.record"
            " WHERE r.uuid IS NOT NULL AND carried.origin",
            names,
        )
        new = {row[0] for row in chain(origins, copies)} - found
    return found


def _members(db: sqlite3.Connection, names: Sequence[bytes]) -> Iterator[_Member]:
    query = (
        "SELECT r.id, r.uuid, carried.origin,"
        " logs.kind = 'subagent', coalesce(logs.session, ''), logs.home, logs.path"
        " FROM records AS r JOIN logs ON logs.id = r.id >> 40"
        " LEFT JOIN carried ON carried.record = r.id WHERE r.uuid"
    )
    for record, uuid, origin, is_subagent, session, home, path in _rows(db, query, names):
        yield _Member(record, uuid, origin, (is_subagent, session, home, path, record))


def _rows(db: sqlite3.Connection, query: str, keys: Sequence[Any]) -> Iterator[Any]:
    """Run *query*, which ends with a column, for the rows in which it is one of *keys*."""
    for batch in batches(keys):
        yield from db.execute(f"{query} IN ({','.join('?' * len(batch))})", batch)


def _root(uuid: bytes, origins: Mapping[bytes, bytes | None]) -> bytes:
    """Return the origin of a record, its origin and so on; a circle ends where it began."""
    passed = {uuid}
    while (origin := origins.get(uuid)) is not None and origin not in passed:
        passed.add(origin)
        uuid = origin
    return uuid


Changed = dict[int | None, int | None]
"""The time of the first message that changed, by session."""

_FAR_US: Final = 2**63 - 1
_ALL: Final = "1"


def deduplicate_all(db: sqlite3.Connection) -> None:
    """Make the messages of all names with changed entries."""
    if db.execute("SELECT 1 FROM pending_usage LIMIT 1").fetchone() is None:
        return
    names = Names(db)
    with transaction(db):
        which = "name IN (SELECT name FROM pending_usage)" if is_any_deduplicated(db) else _ALL
        changed = _by_session(db, which)
        db.execute(f"DELETE FROM messages WHERE {which}")  # noqa: S608 - Ours.
        concerned = set(changed)
        make_indexes(db, "usage_entries")
        several = f"SELECT name FROM usage_entries WHERE {which} GROUP BY name HAVING count(*) > 1"  # noqa: S608
        contested = {row[0] for row in db.execute(several)}
        db.executemany(_INSERT, _single(db, which, contested, concerned, names))
        make_lookup_tables(db)  # Creating indexes is faster than updating them.
        concerned |= _resolve_contested(db, which, contested, changed, names)
        _set_projects(db, concerned)
        _sum_up(db, concerned)
        db.execute("DELETE FROM pending_usage")


def _single(
    db: sqlite3.Connection,
    which: str,
    contested: set[str],
    concerned: set[int | None],
    names: Names,
) -> Iterator[tuple[Any, ...]]:
    """Yield the messages that have one entry only, which are nearly all."""
    query = f"SELECT name, log, session, cwd, model, packed FROM usage_entries WHERE {which}"  # noqa: S608
    for row in db.execute(query):
        if row[0] not in contested:
            concerned.add(row[2])
            yield message_of_one(row, names)


def _resolve_contested(
    db: sqlite3.Connection,
    which: str,
    contested: set[str],
    changed: Changed,
    names: Names,
) -> set[int | None]:
    """Make the messages that have several entries, and those that depend on the same sessions.

    Return the sessions of these messages.
    """
    seen: dict[str, list[UsageEntry]] = {name: [] for name in sorted(contested)}
    logs: dict[str, int] = {}
    _load(db, "name", list(seen), seen, logs)
    again = contested.copy()
    touched: dict[int, str] = dict(
        db.execute(
            "SELECT id, name FROM names WHERE id IN"  # noqa: S608 - Ours.
            f" (SELECT session FROM usage_entries WHERE {which})"
        ).fetchall()
    )
    is_all = which == _ALL
    again_by_age = set(touched) if is_all or contested else _aged(db, which, changed, touched)
    rivals: set[int] = set()
    if again_by_age:
        rivals = _all_rivals(db) if is_all else _rivals(db, sorted(touched))
    if not again_by_age.isdisjoint(rivals):
        others: dict[str, list[UsageEntry]] = {}
        _load(db, "session", sorted(rivals), others, logs)
        missing = [name for name in others if name not in seen]
        whole: dict[str, list[UsageEntry]] = {name: [] for name in missing}
        _load(db, "name", missing, whole, logs)
        seen |= whole
        sessions = set(touched.values())
        again |= {name for name, found in whole.items() if _is_claimed(found, sessions)}
    if not seen:
        return set()
    from turnlog.records.responses import Responses  # noqa: PLC0415 - Few have several entries.

    folded = Responses()
    for name, found in seen.items():
        for entry in found:
            folded.put(name, entry)
    responses = folded.settle_by_name()
    concerned = _sessions_of(db, again)
    db.executemany("DELETE FROM messages WHERE name = ?", ((name,) for name in again))
    rows = [
        _row(name, response, logs, names)
        for name in sorted(again)
        for response in responses.get(name, ())
    ]
    db.executemany(_INSERT, rows)
    return concerned | {row[4] for row in rows}


def _load(
    db: sqlite3.Connection,
    by: str,
    keys: Sequence[str | int],
    into: dict[str, list[UsageEntry]],
    logs: dict[str, int],
) -> None:
    """Load the entries whose name or session is one of *keys*, and the ids of their logs."""
    for *row, log in _rows(db, f"{SELECT} WHERE usage_entries.{by}", keys):
        logs[row[1]] = log
        into.setdefault(row[0], []).append(usage_entry_of(row))


def _rivals(db: sqlite3.Connection, sessions: Sequence[int]) -> set[int]:
    """Return the sessions that share a name with one of *sessions*, and those of *sessions*."""
    pairs = _rows(
        db,
        "SELECT DISTINCT one.session, other.session FROM usage_entries AS one"
        " JOIN usage_entries AS other ON other.name = one.name AND other.session <> one.session"
        " WHERE one.session",
        sessions,
    )
    return {session for pair in pairs for session in pair}


def _all_rivals(db: sqlite3.Connection) -> set[int]:
    """Return what ``_rivals`` returns for all sessions, in one query."""
    rows = db.execute(
        "SELECT DISTINCT session FROM usage_entries WHERE session IS NOT NULL AND name IN"
        " (SELECT name FROM usage_entries GROUP BY name HAVING min(session) < max(session))"
    )
    return {row[0] for row in rows}


def _by_session(db: sqlite3.Connection, which: str) -> Changed:
    query = f"SELECT session, min(at) FROM messages WHERE {which} GROUP BY session"  # noqa: S608
    return dict(db.execute(query))


def _aged(
    db: sqlite3.Connection, which: str, changed: Changed, sessions: Iterable[int]
) -> set[int]:
    """Return those of *sessions* whose age among rivals may have changed.

    A session is as old as its first response that a rival does not have (see ``Seniority``). It
    stays the same if the session has one of its own that did not change and is older than all
    changes.
    """
    now = _by_session(db, which)
    aged: set[int] = set()
    for session in sessions:
        times = [at for at in (changed.get(session), now.get(session)) if at is not None]
        own = db.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE session = ? AND at <= ?"  # noqa: S608
            f" AND NOT ({which}) AND (SELECT count(*) FROM usage_entries"
            " WHERE usage_entries.name = messages.name) = 1)",
            (session, min(times, default=_FAR_US)),
        )
        if not own.fetchone()[0]:
            aged.add(session)
    return aged


def _is_claimed(entries: Iterable[UsageEntry], sessions: set[str]) -> bool:
    """Return whether several sessions have a response, including one of *sessions*.

    Responses of other sessions did not change, and are not loaded completely.
    """
    claimants = {entry.session for entry in entries}
    return len(claimants) > 1 and not claimants.isdisjoint(sessions)


def _sessions_of(db: sqlite3.Connection, names: Iterable[str]) -> set[int | None]:
    rows = _rows(db, "SELECT DISTINCT session FROM messages WHERE name", sorted(names))
    return {row[0] for row in rows}


_QUARTERS: Final = "1, 2, 3, 4, 5, 6, 7, 8, 9"
_SUM_UP: Final = (
    f"INSERT INTO usage_sums SELECT coalesce(session, 0), coalesce(at / {QUARTER_US}, {UNDATED}),"  # noqa: S608
    " coalesce(project, 0), coalesce(model, 0), coalesce(speed, 0), coalesce(service_tier, 0),"
    " coalesce(inference_geo, 0),"
    f" input + cache_write_5m + cache_write_1h + cache_read > {LONG_CONTEXT},"
    " coalesce(subagent, ''),"
    " sum(part = ''), sum(input), sum(output), sum(cache_write_5m), sum(cache_write_1h),"
    " sum(cache_read), sum(web_searches) FROM messages"
)
_INSERT: Final = (
    "INSERT INTO messages (name, message_id, request_id, part, session, subagent, is_sidechain, at,"
    " model, speed, service_tier, inference_geo, input, output, cache_write_5m, cache_write_1h,"
    " cache_read, web_searches, others, recorded_usd, cwd, project, record)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _row(name: str, response: Response, logs: dict[str, int], names: Names) -> tuple[Any, ...]:
    used = response.counters
    cwd = names[response.cwd]
    return (
        name,
        response.message_id,
        response.request_id,
        response.part,
        names[response.session],
        response.subagent,
        response.is_sidechain,
        microseconds(response.at),
        names[response.model],
        names[response.speed],
        names[response.service_tier],
        names[response.inference_geo],
        used.input,
        used.output,
        used.cache_write_5m,
        used.cache_write_1h,
        used.cache_read,
        used.web_searches,
        msgspec.json.encode(used.others).decode() if used.others else None,
        None if response.recorded_usd is None else str(response.recorded_usd),
        cwd,
        cwd,
        logs[response.log] << OFFSET_BITS | response.offset,
    )


def _set_projects(db: sqlite3.Connection, sessions: Iterable[int | None]) -> None:
    """Set the project of messages to the directory in which their session began."""
    named = sorted(session for session in sessions if session is not None)
    for batch in batches(named):
        marks = ",".join("?" * len(batch))
        moved = db.execute(
            f"SELECT session FROM messages WHERE session IN ({marks})"  # noqa: S608 - Ours.
            " GROUP BY session HAVING count(DISTINCT coalesce(cwd, -1)) > 1"
            " OR count(DISTINCT coalesce(project, -1)) > 1 OR min(cwd) IS NOT min(project)",
            batch,
        ).fetchall()
        for (session,) in moved:
            first = db.execute(
                "SELECT cwd FROM messages JOIN names ON names.id = messages.cwd WHERE session = ?"
                " ORDER BY is_sidechain, coalesce(at, 9e18), names.name LIMIT 1",
                (session,),
            ).fetchone()
            project = None if first is None else first[0]
            db.execute("UPDATE messages SET project = ? WHERE session = ?", (project, session))


def _sum_up(db: sqlite3.Connection, sessions: set[int | None]) -> None:
    """Sum the messages of *sessions* by quarters of an hour."""
    if db.execute("SELECT 1 FROM usage_sums LIMIT 1").fetchone() is None:
        db.execute(f"{_SUM_UP} GROUP BY {_QUARTERS}")
        return
    for session in sessions:
        db.execute("DELETE FROM usage_sums WHERE session = ?", (session or 0,))
        db.execute(f"{_SUM_UP} WHERE session IS ? GROUP BY {_QUARTERS}", (session,))
