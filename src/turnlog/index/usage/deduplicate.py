"""Sightings become messages: one row for each API response, counted once.

Only names whose sightings changed are settled anew, under the rules of ``records.responses``. Which
of several sessions paid for a response that all of them claim depends on everything they have, so a
change in one of them settles again what it shares with others. The outcome is the one that a fold
over all logs would give.

Which records stand in another log already: what a fork or a resume carried along counts once.

A record is known by its uuid, and a copy that was given a new one by the record that it says it is.
Other programs may count their records instead: what is no UUID names a record of its log alone.
Of those that are one, one that does not say that it was carried along is the first, and rather a
session's than a subagent's, which may begin with what its caller had; of several, as where a fork
kept the uuids and took the records for its own, the one that comes first by the names of its
session, home and log. Records of one log are never one, whatever their uuids.

The outcome depends on these records alone, so it follows whatever is read or forgotten, in the same
transaction. Before there is a way to a uuid nothing is looked for; when it is made, everything is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Make the ways into all tables, unless they are there, and find what is repeated so far."""
    if not has_indexes(db):
        make_indexes(db)
        found = db.execute(
            "SELECT uuid FROM records WHERE uuid IS NOT NULL AND typeof(uuid) = 'blob'"
            " GROUP BY uuid HAVING count(*) > 1"
            " UNION SELECT r.uuid FROM carried JOIN records AS r ON r.id = carried.record"
        )
        update_repeats(db, {row[0] for row in found})


def repeats_within(db: sqlite3.Connection, low: int, high: int) -> set[bytes]:
    """Name the records in a range of ids that stand elsewhere, too, or may."""
    if not has_indexes(db):
        return set()
    within = f"r.id >= {low} AND r.id < {high} AND typeof(r.uuid) = 'blob'"
    log = low >> OFFSET_BITS
    elsewhere = f"other.id < {log << OFFSET_BITS} OR other.id >= {(log + 1) << OFFSET_BITS}"
    found = db.execute(
        f"SELECT r.uuid FROM records AS r WHERE {within} AND (EXISTS"  # noqa: S608 - Ours.
        f" (SELECT 1 FROM records AS other WHERE other.uuid = r.uuid AND ({elsewhere}))"
        " OR EXISTS (SELECT 1 FROM carried WHERE carried.record = r.id)"
        " OR EXISTS (SELECT 1 FROM carried WHERE carried.origin = r.uuid))"
    )
    return {row[0] for row in found}


def update_repeats(db: sqlite3.Connection, uuids: Iterable[bytes]) -> None:
    """Tell anew, of records with *uuids* and of all that are one with them, which is the first."""
    names = sorted(_kin(db, set(uuids)))
    if not names:
        return
    # In an order of their own, whichever was read first.
    members = sorted(_members(db, names), key=lambda each: (each.origin is not None, each.place))
    origins = {each.uuid: each.origin for each in members if each.origin not in (None, each.uuid)}
    groups: dict[bytes, list[_Member]] = {}
    for each in members:
        groups.setdefault(_root(each.uuid, origins), []).append(each)
    db.executemany("DELETE FROM repeats WHERE record = ?", ((each.record,) for each in members))
    db.executemany("INSERT INTO repeats VALUES (?, ?)", _repeats(groups.values()))


def _repeats(groups: Iterable[list[_Member]]) -> Iterator[tuple[int, int]]:
    for group in groups:
        first = group[0]
        for each in group[1:]:
            if each.log != first.log:
                yield each.record, first.record


def _kin(db: sqlite3.Connection, uuids: set[bytes]) -> set[bytes]:
    """Give *uuids*, those of the records that they say they are, and of those that say so of them.

    And so on: a fork may be forked.
    """
    found, new = set[bytes](), uuids
    while new:
        found |= new
        names = sorted(new)
        new = {
            *_asked(
                db,
                "SELECT carried.origin FROM records AS r JOIN carried ON carried.record = r.id"
                " WHERE r.uuid",
                names,
            ),
            *_asked(
                db,
                "SELECT r.uuid FROM carried JOIN records AS r ON r.id = carried.record"
                " WHERE r.uuid IS NOT NULL AND carried.origin",
                names,
            ),
        } - found
    return found


def _asked(db: sqlite3.Connection, query: str, names: Sequence[bytes]) -> Iterator[bytes]:
    for (found,) in _rows(db, query, names):
        yield found


def _members(db: sqlite3.Connection, names: Sequence[bytes]) -> Iterator[_Member]:
    query = (
        "SELECT r.id, r.uuid, carried.origin,"
        " logs.kind = 'subagent', coalesce(logs.session, ''), logs.home, logs.path"
        " FROM records AS r JOIN logs ON logs.id = r.id >> 40"
        " LEFT JOIN carried ON carried.record = r.id WHERE r.uuid"
    )
    for record, uuid, origin, is_subagent, session, home, path in _rows(db, query, names):
        yield _Member(record, uuid, origin, (is_subagent, session, home, path, record))


def _rows(db: sqlite3.Connection, query: str, names: Sequence[bytes]) -> Iterator[Any]:
    for some in batches(names):
        yield from db.execute(f"{query} IN ({','.join('?' * len(some))})", some)


def _root(uuid: bytes, origins: Mapping[bytes, bytes | None]) -> bytes:
    """Follow a record to the one that it says it is, and on; what leads in a circle ends there."""
    passed = {uuid}
    while (origin := origins.get(uuid)) is not None and origin not in passed:
        passed.add(origin)
        uuid = origin
    return uuid


Changed = dict[int | None, int | None]
"""When the first of what changed was said, by session."""

_FAR_US: Final = 2**63 - 1
_ALL: Final = "1"


def deduplicate_all(db: sqlite3.Connection) -> None:
    """Settle every name that is unsettled."""
    if db.execute("SELECT 1 FROM unsettled LIMIT 1").fetchone() is None:
        return
    names = Names(db)
    with transaction(db):
        which = "name IN (SELECT name FROM unsettled)" if is_any_deduplicated(db) else _ALL
        changed = _by_session(db, which)
        db.execute(f"DELETE FROM messages WHERE {which}")  # noqa: S608 - Ours.
        concerned = set(changed)
        make_indexes(db, "sightings")  # By name they stand together.
        contested = _contested(db, which)
        db.executemany(_INSERT, _told_once(db, which, contested, concerned, names))
        make_lookup_tables(
            db
        )  # At first not before: making them is faster than keeping them in order.
        concerned |= _settle_contested(db, which, contested, changed, names)
        _place(db, concerned)
        _add_up(db, concerned)
        db.execute("DELETE FROM unsettled")


def _contested(db: sqlite3.Connection, which: str) -> set[str]:
    """Return the names that several sightings tell of."""
    several = f"SELECT name FROM sightings WHERE {which} GROUP BY name HAVING count(*) > 1"  # noqa: S608
    return {row[0] for row in db.execute(several)}


def _told_once(
    db: sqlite3.Connection,
    which: str,
    contested: set[str],
    concerned: set[int | None],
    names: Names,
) -> Iterator[tuple[Any, ...]]:
    """Return the messages that one sighting tells of: nearly all, and nothing is to be settled."""
    told = f"SELECT name, log, session, cwd, model, told FROM sightings WHERE {which}"  # noqa: S608
    for row in db.execute(told):
        if row[0] not in contested:
            concerned.add(row[2])
            yield message_of_one(row, names)


def _settle_contested(
    db: sqlite3.Connection,
    which: str,
    contested: set[str],
    changed: Changed,
    names: Names,
) -> set[int | None]:
    """Settle what several sightings tell of, and what depends on the same sessions.

    Give the sessions whose messages were settled.
    """
    seen: dict[str, list[UsageEntry]] = {name: [] for name in sorted(contested)}
    logs: dict[str, int] = {}
    _load(db, "name", list(seen), seen, logs)
    again = contested.copy()
    touched: dict[int, str] = dict(
        db.execute(
            "SELECT id, name FROM names WHERE id IN"  # noqa: S608 - Ours.
            f" (SELECT session FROM sightings WHERE {which})"
        ).fetchall()
    )
    is_all = which == _ALL
    again_by_age = set(touched) if is_all or contested else _aged(db, which, changed, touched)
    rivals: set[int] = set()
    if again_by_age:  # Else it need not even be asked who shares something with whom.
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
    from turnlog.records.responses import Responses  # noqa: PLC0415 - Few are told of twice.

    folded = Responses()
    for name, found in seen.items():
        for sighting in found:
            folded.put(name, sighting)
    settled = folded.settle_by_name()
    concerned = _sessions_of(db, again)
    _delete(db, again)
    rows = [
        _row(name, response, logs, names)
        for name in sorted(again)
        for response in settled.get(name, ())
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
    """Load the sightings whose name or session is one of *keys*, and the ids of their logs."""
    for some in batches(keys):
        marks = ",".join("?" * len(some))
        for *row, log in db.execute(f"{SELECT} WHERE sightings.{by} IN ({marks})", some):
            logs[row[1]] = log
            into.setdefault(row[0], []).append(usage_entry_of(row))


def _rivals(db: sqlite3.Connection, sessions: Sequence[int]) -> set[int]:
    """Return the sessions, *sessions* included, that share a name with one of them."""
    rivals: set[int] = set()
    for some in batches(sessions):
        marks = ",".join("?" * len(some))
        found = db.execute(
            f"SELECT DISTINCT one.session, other.session FROM sightings AS one"  # noqa: S608
            f" JOIN sightings AS other ON other.name = one.name AND other.session <> one.session"
            f" WHERE one.session IN ({marks})",
            some,
        )
        for one, other in found:
            rivals.update((one, other))
    return rivals


def _all_rivals(db: sqlite3.Connection) -> set[int]:
    """Return what ``_rivals`` gives for all sessions, without a look at each of their names."""
    found = db.execute(
        "SELECT DISTINCT session FROM sightings WHERE session IS NOT NULL AND name IN"
        " (SELECT name FROM sightings GROUP BY name HAVING min(session) < max(session))"
    )
    return {row[0] for row in found}


def _by_session(db: sqlite3.Connection, which: str) -> Changed:
    found = db.execute(
        f"SELECT session, min(at) FROM messages WHERE {which} GROUP BY session"  # noqa: S608 - Ours.
    )
    return dict(found)


def _aged(
    db: sqlite3.Connection, which: str, changed: Changed, sessions: Iterable[int]
) -> set[int]:
    """Return those of *sessions* that may be older or younger among rivals than before the change.

    A session is as old as the first that it has and a rival has not (see ``Seniority``). If it has
    something of its own that did not change and came before all that did, that is not later.
    """
    now = _by_session(db, which)
    aged: set[int] = set()
    for session in sessions:
        times = [at for at in (changed.get(session), now.get(session)) if at is not None]
        own = db.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE session = ? AND at <= ?"  # noqa: S608
            f" AND NOT ({which}) AND (SELECT count(*) FROM sightings"
            " WHERE sightings.name = messages.name) = 1)",
            (session, min(times, default=_FAR_US)),
        )
        if not own.fetchone()[0]:
            aged.add(session)
    return aged


def _is_claimed(found: Iterable[UsageEntry], sessions: set[str]) -> bool:
    """Return whether several sessions have a response, one of *sessions* among them.

    Of others that share one with their rivals not everything is loaded, and nothing has changed.
    """
    claimants = {each.session for each in found}
    return len(claimants) > 1 and not claimants.isdisjoint(sessions)


def _sessions_of(db: sqlite3.Connection, names: Iterable[str]) -> set[int | None]:
    found: set[int | None] = set()
    for some in batches(sorted(names)):
        marks = ",".join("?" * len(some))
        query = f"SELECT DISTINCT session FROM messages WHERE name IN ({marks})"  # noqa: S608
        found.update(row[0] for row in db.execute(query, some))
    return found


def _delete(db: sqlite3.Connection, names: Iterable[str]) -> None:
    for some in batches(sorted(names)):
        marks = ",".join("?" * len(some))
        db.execute(f"DELETE FROM messages WHERE name IN ({marks})", some)  # noqa: S608 - Ours.


_QUARTERS: Final = "1, 2, 3, 4, 5, 6, 7, 8, 9"
_ADD_UP: Final = (
    f"INSERT INTO spent SELECT coalesce(session, 0), coalesce(at / {QUARTER_US}, {UNDATED}),"  # noqa: S608
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


def _place(db: sqlite3.Connection, sessions: Iterable[int | None]) -> None:
    """Give the messages of sessions that changed directories the one their session began in."""
    named = sorted(session for session in sessions if session is not None)
    for some in batches(named):
        marks = ",".join("?" * len(some))
        moved = db.execute(
            f"SELECT session FROM messages WHERE session IN ({marks})"  # noqa: S608 - Ours.
            " GROUP BY session HAVING count(DISTINCT coalesce(cwd, -1)) > 1"
            " OR count(DISTINCT coalesce(project, -1)) > 1 OR min(cwd) IS NOT min(project)",
            some,
        ).fetchall()
        for (session,) in moved:
            first = db.execute(
                "SELECT cwd FROM messages JOIN names ON names.id = messages.cwd WHERE session = ?"
                " ORDER BY is_sidechain, coalesce(at, 9e18), names.name LIMIT 1",
                (session,),
            ).fetchone()
            project = None if first is None else first[0]
            db.execute("UPDATE messages SET project = ? WHERE session = ?", (project, session))


def _add_up(db: sqlite3.Connection, sessions: set[int | None]) -> None:
    """Add the messages of *sessions* up by quarters of an hour."""
    if db.execute("SELECT 1 FROM spent LIMIT 1").fetchone() is None:
        db.execute(f"{_ADD_UP} GROUP BY {_QUARTERS}")
        return
    for session in sessions:
        db.execute("DELETE FROM spent WHERE session = ?", (session or 0,))
        db.execute(f"{_ADD_UP} WHERE session IS ? GROUP BY {_QUARTERS}", (session,))
