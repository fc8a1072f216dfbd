"""Figures about one session, from the index, however long its logs are.

    figures = session_figures(index, number)
    for record, length in newest_records(index, number, ["human"]): …

A session is identified by its number in the index, `sessions.id`; the records of its subagents
belong to it. Callers read text record by record, so a session never has to fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from msgspec import Struct

from turnlog.catalog.pages import COUNTERS, models_in, session_costs_sql
from turnlog.errors import NotFound
from turnlog.index.connection import Index
from turnlog.index.ids import (
    IS_CALL,
    OFFSET_BITS,
    SUBAGENT,
    instant_at,
    json_array,
    long_uuid,
)
from turnlog.records.tags import tags_in

_SESSION: Final = """
SELECT s.session, s.home, p.path, s.title, s.tag, s.git_branch, s.version, s.layout, s.started_at,
       s.last_active_at, s.records, s.prompts, s.subagents, s.damages, s.models
FROM sessions AS s LEFT JOIN projects AS p ON p.id = s.project WHERE s.id = ?
"""
_CALLS: Final = f"""
SELECT n.name, count(*), sum(coalesce(c.is_error, 0)), sum(c.result IS NULL)
FROM records AS r CROSS JOIN calls AS c ON c.record = r.id JOIN names AS n ON n.id = c.tool
WHERE r.session = ? AND {IS_CALL} GROUP BY c.tool ORDER BY 2 DESC, 1
"""  # noqa: S608 - Ours.
_FILES: Final = """
SELECT paths.path, sum(t.action IN ('write', 'edit')), count(*), max(r.at)
FROM records AS r CROSS JOIN touches AS t ON t.record = r.id JOIN paths ON paths.id = t.path
WHERE r.session = ? GROUP BY t.path ORDER BY 2 DESC, 3 DESC, 1 LIMIT ?
"""
_SUBAGENTS: Final = """
SELECT a.subagent, a.kind, a.description FROM subagents AS a JOIN logs AS l ON l.id = a.log
WHERE a.session = ? AND l.home = ? ORDER BY a.log, a.subagent LIMIT ?
"""
_NEWEST: Final = f"""
SELECT r.id, r.length, r.at, r.uuid, n.name FROM records AS r JOIN names AS n ON n.id = r.author
LEFT JOIN logs AS l ON l.id = r.id >> 40
WHERE r.session = ? AND n.name IN ({{}}) AND {SUBAGENT} IS NULL
ORDER BY r.at DESC, r.id DESC LIMIT ? OFFSET ?
"""  # noqa: S608 - Ours.


class ToolFigures(Struct, kw_only=True):
    """How often a session called a tool, including its subagents, with the results."""

    tool: str
    calls: int
    errors: int
    unanswered: int


class FileFigures(Struct, kw_only=True):
    """A file that calls of a session named."""

    path: str
    changes: int
    touches: int
    last_at: datetime | None


class SubagentFigures(Struct, kw_only=True):
    """A subagent of a session."""

    id: str
    kind: str | None
    description: str | None


class SessionFigures(Struct, kw_only=True):
    """A session in figures."""

    id: str
    title: str | None
    project: str | None
    tags: list[str]
    git_branch: str | None
    version: str | None
    layout: str
    started_at: datetime | None
    last_active_at: datetime | None
    records: int
    prompts: int
    damages: int
    models: dict[str, int]
    messages: int = 0
    """API responses, each counted once, its subagents' included; so are the tokens."""
    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    calls: list[ToolFigures]
    files: list[FileFigures]
    """Those that were changed most come first."""
    subagents: list[SubagentFigures]
    subagents_in_all: int


class RecordPosition(NamedTuple):
    """A record of a session, to be read back."""

    record: int
    length: int
    at: datetime | None
    uuid: str | None
    author: str


def session_figures(
    index: Index, number: int, *, files: int = 20, subagents: int = 20
) -> SessionFigures:
    """Return figures about the session with *number*, with the first few files and subagents."""
    row = index.db.execute(_SESSION, (number,)).fetchone()
    if row is None:
        raise NotFound("the session is gone from the index", hint="ask for it anew")
    session, home, project, title, tag, branch, version, layout, began, last, *counts, models = row
    records, prompts, subagents_in_all, damages = counts
    return SessionFigures(
        id=session,
        title=title,
        project=project,
        tags=tags_in(tag),
        git_branch=branch,
        version=version,
        layout=layout,
        started_at=instant_at(began),
        last_active_at=instant_at(last),
        records=records,
        prompts=prompts,
        damages=damages,
        models=models_in(models),
        calls=[
            ToolFigures(tool=tool, calls=calls, errors=errors, unanswered=unanswered)
            for tool, calls, errors, unanswered in index.db.execute(_CALLS, (number,))
        ],
        files=[
            FileFigures(path=path, changes=changes, touches=touches, last_at=instant_at(at))
            for path, changes, touches, at in index.db.execute(_FILES, (number, files))
        ],
        subagents=[
            SubagentFigures(id=subagent, kind=kind, description=description)
            for subagent, kind, description in index.db.execute(
                _SUBAGENTS, (session, home, subagents)
            )
        ],
        subagents_in_all=subagents_in_all,
        **_used(index, session, home),
    )


def newest_records(
    index: Index, number: int, authors: Sequence[str], *, limit: int = 20, offset: int = 0
) -> list[RecordPosition]:
    """List records of a session's main log that *authors* wrote, the newest first."""
    query = _NEWEST.format(", ".join("?" * len(authors)))
    rows = index.db.execute(query, (number, *authors, limit, offset))
    return [
        RecordPosition(record, length, instant_at(at), long_uuid(uuid), author)
        for record, length, at, uuid, author in rows
    ]


def placed_record(index: Index, record: int) -> RecordPosition:
    """Return the record with this id in the index; NotFound if it is gone."""
    row = index.db.execute(
        "SELECT r.id, r.length, r.at, r.uuid, n.name FROM records AS r"
        " JOIN names AS n ON n.id = r.author WHERE r.id = ?",
        (record,),
    ).fetchone()
    if row is None:
        raise NotFound("the record is gone from the index", hint="ask again")
    return RecordPosition(row[0], row[1], instant_at(row[2]), long_uuid(row[3]), row[4])


def uuids_at(index: Index, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Return the uuids of the records at these logs and offsets, if they have some."""
    wanted = set(places)
    logs: dict[str, int] = dict(index.db.execute("SELECT path, id FROM logs"))
    records = {
        logs[path] << OFFSET_BITS | offset: (path, offset)
        for path, offset in wanted
        if path in logs
    }
    rows = index.db.execute(
        "SELECT id, uuid FROM records WHERE uuid IS NOT NULL"
        " AND id IN (SELECT value FROM json_each(?))",
        (json_array(records),),
    )
    return {records[record]: long_uuid(uuid) or "" for record, uuid in rows}


def _used(index: Index, session: str, home: str) -> dict[str, int]:
    """Return what a session paid for."""
    columns = ("messages", *COUNTERS)
    which = "messages.session = (SELECT id FROM names WHERE name = ?)"
    row = index.db.execute(
        f"WITH {session_costs_sql(which)} SELECT {', '.join(columns)} FROM paid WHERE paid_in = ?",  # noqa: S608
        (session, home),
    ).fetchone()
    return {} if row is None else dict(zip(columns, row, strict=True))
