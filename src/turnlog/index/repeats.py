"""Which records stand in another log already: what a fork or a resume carried along counts once.

A record is known by its uuid, and a copy that was given a new one by the record that it says it is.
Other programs may count their records instead: what is no UUID names a record of its log alone.
Of those that are one, one that does not say that it was carried along is the first, and rather a
session's than an agent's, which may begin with what its caller had; of several, as where a fork
kept the uuids and took the records for its own, the one that comes first by the names of its
session, home and log. Records of one log are never one, whatever their uuids.

The outcome depends on these records alone, so it follows whatever is read or forgotten, in the same
transaction. Before there is a way to a uuid nothing is looked for; when it is made, everything is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from turnlog.index.database import batches, has_indexes, make_indexes
from turnlog.index.ids import OFFSET_BITS


class _Member(Struct, frozen=True, gc=False):
    record: int
    uuid: bytes
    origin: bytes | None
    place: tuple[int, str, str, str, int]

    @property
    def log(self) -> int:
        return self.record >> OFFSET_BITS


def make_ways(db: sqlite3.Connection) -> None:
    """Make the ways into all tables, unless they are there, and find what is repeated so far."""
    if not has_indexes(db):
        make_indexes(db)
        found = db.execute(
            "SELECT uuid FROM records WHERE uuid IS NOT NULL AND typeof(uuid) = 'blob'"
            " GROUP BY uuid HAVING count(*) > 1"
            " UNION SELECT r.uuid FROM carried JOIN records AS r ON r.id = carried.record"
        )
        settle_repeats(db, {row[0] for row in found})


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


def settle_repeats(db: sqlite3.Connection, uuids: Iterable[bytes]) -> None:
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
        " logs.kind = 'agent', coalesce(logs.session, ''), logs.home, logs.path"
        " FROM records AS r JOIN logs ON logs.id = r.id >> 40"
        " LEFT JOIN carried ON carried.record = r.id WHERE r.uuid"
    )
    for record, uuid, origin, is_agents, session, home, path in _rows(db, query, names):
        yield _Member(record, uuid, origin, (is_agents, session, home, path, record))


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
