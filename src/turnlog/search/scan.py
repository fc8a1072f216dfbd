"""The logs themselves, read for what no index of words helps to find; the newest text comes first.

First the bytes are searched, for a piece of what is sought as JSON may write it. Then only the
records that have it are read, in the order of time, as soon as no log is left that could hold a
newer one. A record that says no time has that of the last one before it in its log, as in the
index. When patience runs short, what was found in the logs so far is all there is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple

from turnlog.errors import TurnlogError
from turnlog.index.connection import Index
from turnlog.index.ids import BESIDE, OFFSET_BITS, SECOND_BITS, microseconds
from turnlog.index.texts import ANSWERED, TextKind
from turnlog.records.damage import Damage
from turnlog.search.budget import TimeBudget
from turnlog.search.filters import CROWD_SECONDS, WAS_TAKEN
from turnlog.search.language import FieldFilter, Node
from turnlog.search.patterns import ScanMatch

_OFFSETS: Final = (1 << OFFSET_BITS) - 1
_SECOND_US: Final = 1_000_000
_LAST_ID: Final = (1 << 63) - 1
_TEXTS_AT_ONCE: Final = 20_000
"""Of so many texts it is asked at once which logs they stand in."""
_BEFORE: Final = """
SELECT id, at FROM records WHERE id < ? AND id >= ? AND at IS NOT NULL ORDER BY id DESC LIMIT 1
"""


class ScanScope(NamedTuple):
    """Where a scan looks: which sessions (None for all), and between which instants."""

    sessions: frozenset[int] | None = None
    since_us: int | None = None
    until_us: int | None = None
    with_results: bool = False

    @classmethod
    def between(
        cls,
        bounds: Iterable[Node],
        sessions_of: Callable[[FieldFilter], Iterable[int]],
        *,
        with_results: bool,
    ) -> ScanScope:
        """Return what all of *bounds* leave, filters by session or time as they are."""
        within = cls(with_results=with_results)
        for each in bounds:
            assert isinstance(each, FieldFilter)
            if each.at is None:
                those = frozenset(sessions_of(each))
                both = those if within.sessions is None else within.sessions & those
                within = within._replace(sessions=both)
            elif each.field == "before":
                until = microseconds(each.at)
                earlier = until if within.until_us is None else min(until, within.until_us)
                within = within._replace(until_us=earlier)
            else:
                within = within._replace(since_us=max(microseconds(each.at), within.since_us or 0))
        return within


class _ScannedLog(NamedTuple):
    id: int
    path: str
    is_whole: bool
    """Whether it is one record as a whole."""
    last_second: int
    """When the newest of its texts was said that may be meant."""


class _Candidate(NamedTuple):
    """A record that may have what is sought; the newest is the least."""

    before_us: int
    """Its time, negative."""
    before: int
    """Its id, negative."""
    length: int
    session: int | None


def scan(
    index: Index,
    needles: tuple[bytes, ...],
    accepts: Callable[[str], bool],
    within: ScanScope,
    patience: TimeBudget,
    *,
    ignores_case: bool = False,
) -> Iterator[ScanMatch]:
    """Return the texts that *accepts* takes, the newest first.

    Only lines are read that have one of *needles*, which are in small letters if it *ignores_case*.
    """
    from turnlog.storage.scan import BUFFER_BYTES  # noqa: PLC0415 - Few searches scan.

    buffer = bytearray(BUFFER_BYTES)
    listed = {
        row[0]
        for row in index.db.execute("SELECT id FROM sessions WHERE path <> '' AND gone_at IS NULL")
    }
    places: list[_Candidate] = []

    def until(second: int) -> Iterator[ScanMatch]:
        """Return what was said after *second*."""
        while places and -places[0].before_us >= (second + 1) * _SECOND_US:
            if patience.ends():
                return
            yield from _texts(index, heappop(places), accepts, within, listed)

    for log in _logs(index.db, within):
        yield from until(log.last_second)
        if patience.runs_short():
            break
        lines: Iterable[tuple[int, int]] = [(0, _OFFSETS)]
        if not log.is_whole:
            lines = _lines(log.path, needles, buffer, patience, ignores_case=ignores_case)
        for place in _places(index.db, log.id, lines, within):
            heappush(places, place)
            if patience.runs_short():
                break
    yield from until(-_LAST_ID)


def _texts(
    index: Index,
    place: _Candidate,
    accepts: Callable[[str], bool],
    within: ScanScope,
    listed: set[int],
) -> Iterator[ScanMatch]:
    record, session = -place.before, place.session
    texts = index.texts(record, place.length)
    for part in range(len(texts) - 1, -1, -1):
        kind, text = texts[part]
        if kind is TextKind.TITLE and not _is_indexed(index.db, place):
            continue  # It says again what the session is called already.
        if kind in ANSWERED and not within.with_results:
            continue
        if kind is TextKind.HISTORY and session in listed:
            continue
        if kind is TextKind.NOTE and _was_taken(index.db, record):
            continue
        if accepts(text):
            yield ScanMatch(record, part, int(kind), session)


def _was_taken(db: sqlite3.Connection, record: int) -> bool:
    asked = f"SELECT 1 FROM records AS r WHERE r.id = ? AND {WAS_TAKEN}"  # noqa: S608 - Ours.
    return db.execute(asked, (record,)).fetchone() is not None


def _is_indexed(db: sqlite3.Connection, place: _Candidate) -> bool:
    """Return whether the index has a text of a record; ids of texts are times."""
    second = max(0, -place.before_us) // _SECOND_US
    asked = "SELECT 1 FROM texts WHERE id >= ? AND id < ? AND record = ? LIMIT 1"
    ids = second << SECOND_BITS, (second + CROWD_SECONDS) << SECOND_BITS
    return db.execute(asked, (*ids, -place.before)).fetchone() is not None


def _logs(db: sqlite3.Connection, within: ScanScope) -> Iterator[_ScannedLog]:
    """Return the logs to look into, by the newest text of each that may be meant."""
    from turnlog.index.side_files import PROMPTS  # noqa: PLC0415 - Few searches scan.

    rows = db.execute(
        "SELECT id, path, layout = ? AND kind <> ? FROM logs WHERE gone_at IS NULL",
        (BESIDE, PROMPTS),
    )
    left = {row[0]: (row[1], bool(row[2])) for row in rows}
    first, behind = 0, _LAST_ID
    if within.since_us is not None:
        first = max(0, within.since_us // _SECOND_US) << SECOND_BITS
    if within.until_us is not None:
        behind = (max(0, within.until_us // _SECOND_US) + CROWD_SECONDS) << SECOND_BITS
    while left and behind > first:
        edge = db.execute(
            "SELECT id FROM texts WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?",
            (first, behind, _TEXTS_AT_ONCE - 1),
        ).fetchone()
        start = first if edge is None else edge[0]
        newest = db.execute(
            f"SELECT record >> {OFFSET_BITS}, max(id) FROM texts"  # noqa: S608 - Ours.
            " WHERE id >= ? AND id < ? GROUP BY 1 ORDER BY 2 DESC",
            (start, behind),
        )
        for log, last in newest.fetchall():
            if log in left:
                yield _ScannedLog(log, *left.pop(log), last >> SECOND_BITS)
        behind = start


def _lines(
    path: str,
    needles: tuple[bytes, ...],
    buffer: bytearray,
    patience: TimeBudget,
    *,
    ignores_case: bool,
) -> list[tuple[int, int]]:
    """Find the lines of a log that have a needle, or stand for one that has; the last first."""
    from turnlog.storage.blobs import STUB, whole_line  # noqa: PLC0415 - Few searches scan.
    from turnlog.storage.scan import FoundLines  # noqa: PLC0415

    def has_one(moved: bytes | Damage) -> bool:
        searched = b"" if isinstance(moved, Damage) else moved.lower() if ignores_case else moved
        return any(needle in searched for needle in needles)

    places: list[tuple[int, int]] = []
    try:
        with FoundLines(path, *needles, STUB, buffer=buffer, ignores_case=ignores_case) as found:
            for number, (offset, line) in enumerate(found):
                if isinstance(line, bytes):
                    whole = whole_line(path, line)
                    if whole is line or has_one(whole):
                        places.append((offset, len(line)))
                if number & 1023 == 1023 and patience.runs_short():
                    break
    except (TurnlogError, OSError):
        return []  # It vanished since, and the next refresh notices.
    return places[::-1]


def _places(
    db: sqlite3.Connection, log: int, lines: Iterable[tuple[int, int]], within: ScanScope
) -> Iterator[_Candidate]:
    """Return the records on *lines*: of each one, or those that a damaged one was salvaged to.

    The last come first, so that the time of those without one is looked up but once.
    """
    base = log << OFFSET_BITS
    dated, since_us = _LAST_ID, 0
    for offset, length in lines:
        rows = db.execute(
            "SELECT id, length, session, at FROM records WHERE id >= ? AND id <= ?"
            " ORDER BY id DESC",
            (base | offset, min(base | _OFFSETS, (base | offset) + length)),
        )
        for record, size, session, at in rows.fetchall():
            if at is None and dated > record:
                dated, before_us = db.execute(_BEFORE, (record, base)).fetchone() or (base - 1, 0)
                since_us = max(0, before_us) // _SECOND_US * _SECOND_US
            at_us = since_us if at is None else at
            if _is_within(session, at_us, within):
                yield _Candidate(-at_us, -record, size, session)


def _is_within(session: int | None, at_us: int, within: ScanScope) -> bool:
    if within.sessions is not None and session not in within.sessions:
        return False
    if within.since_us is not None and at_us < within.since_us:
        return False
    return within.until_us is None or at_us < within.until_us
