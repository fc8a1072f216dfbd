"""The turns that records belong to: the prompt of each, and the files changed in it.

    record_turns(index, [(log, offset), …])

A turn is a prompt and all records of the same thread up to the next prompt. All records are looked
up together, in two queries, since a search asks for every hit of a page.
"""

# ruff: noqa: S608 - Only our own names are written into SQL.

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS, SUBAGENT, instant_at, long_uuid, named

_SIDECHAIN: Final = "(SELECT subagent FROM sidechains WHERE record = {}.id)"
# The plus keeps SQLite from using the index of sessions: reading on in the log is faster.
_PROMPT_OF_THREAD: Final = f"""
    b.type = {named("user")}
    AND (b.author = {named("human")}
         OR (b.author = {named("caller")} AND {SUBAGENT} IS NOT NULL))
    AND +b.session IS r.session
    AND {_SIDECHAIN.format("b")} IS {_SIDECHAIN.format("r")}
"""
# The limit keeps SQLite from merging both queries, which would look for each prompt twice.
_TURNS: Final = f"""
SELECT w.*, p.at, p.length FROM (
SELECT a.key, r.id, r.uuid, r.session, {SUBAGENT}, {_SIDECHAIN.format("r")},
       (SELECT b.id FROM records AS b
        WHERE b.id <= r.id AND b.id >= l.id << 40 AND {_PROMPT_OF_THREAD}
        ORDER BY b.id DESC LIMIT 1) AS prompt,
       (SELECT b.id FROM records AS b
        WHERE b.id > r.id AND b.id < (l.id + 1) << 40 AND {_PROMPT_OF_THREAD}
        ORDER BY b.id LIMIT 1)
FROM json_each(?) AS a
CROSS JOIN logs AS l ON l.path = json_extract(a.value, '$[0]') AND l.layout <> 'beside'
CROSS JOIN records AS r ON r.id = l.id << 40 | json_extract(a.value, '$[1]')
LIMIT -1) AS w LEFT JOIN records AS p ON p.id = w.prompt
"""
# A failed call changed nothing, and a note on kept versions of files is not a call.
_FILES: Final = f"""
SELECT a.key, t.record, p.path
FROM json_each(?) AS a
CROSS JOIN touches AS t
    ON t.record >= json_extract(a.value, '$[0]') AND t.record < json_extract(a.value, '$[1]')
CROSS JOIN records AS r ON r.id = t.record
JOIN paths AS p ON p.id = t.path
LEFT JOIN calls AS c ON c.record = t.record AND c.block = t.block
WHERE t.action IN ('write', 'edit') AND c.is_error IS NOT 1
    AND r.type IS NOT {named("file-history")}
    AND r.session IS json_extract(a.value, '$[2]')
    AND {_SIDECHAIN.format("r")} IS json_extract(a.value, '$[3]')
"""


class RecordTurn(Struct, kw_only=True):
    """A record, and the turn that it belongs to."""

    record: int
    """Its number in the index."""
    uuid: str | None
    session: int | None
    """The number of its session."""
    subagent: str | None
    prompt: int | None
    """The number of the record that starts the turn; None before the first prompt."""
    prompt_at: datetime | None
    prompt_bytes: int | None
    """The length of that record."""
    files: list[str]
    """Paths that were written or edited in the turn, nearest first."""


class _Extent(NamedTuple):
    """The records of a turn: from *start* up to *end* (exclusive), of one thread."""

    start: int
    end: int
    session: int | None
    sidechain: str | None


def record_turns(
    index: Index, places: Sequence[tuple[str, int]], *, most_files: int = 3
) -> list[RecordTurn | None]:
    """Return the turns of the records at *places*: their logs and offsets.

    A place without a record, or in a side file, gives None.
    """
    turns: list[RecordTurn | None] = [None] * len(places)
    extents: dict[_Extent, list[RecordTurn]] = {}
    for row in index.db.execute(_TURNS, (json.dumps(places),)):
        place, record, uuid, session, subagent, sidechain, start, end, at, length = row
        log = record >> OFFSET_BITS
        turns[place] = turn = RecordTurn(
            record=record,
            uuid=long_uuid(uuid),
            session=session,
            subagent=subagent,
            prompt=start,
            prompt_at=instant_at(at),
            prompt_bytes=length,
            files=[],
        )
        extent = _Extent(
            log << OFFSET_BITS if start is None else start,
            (log + 1) << OFFSET_BITS if end is None else end,
            session,
            sidechain,
        )
        extents.setdefault(extent, []).append(turn)
    touched: dict[int, list[tuple[int, str]]] = {}
    for key, record, path in index.db.execute(_FILES, (json.dumps(list(extents)),)):
        touched.setdefault(key, []).append((record, path))
    for key, together in enumerate(extents.values()):
        for turn in together:
            turn.files = _nearest(touched.get(key, []), turn.record)[:most_files]
    return turns


def _nearest(touched: list[tuple[int, str]], record: int) -> list[str]:
    """Return the paths without duplicates, those touched nearest to *record* first."""
    by_distance = sorted((abs(at - record), path) for at, path in touched)
    return list(dict.fromkeys(path for _, path in by_distance))
