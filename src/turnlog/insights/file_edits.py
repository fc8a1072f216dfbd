"""Edits of files, the latest first, with the session, the tool and the prompt behind each.

An edit is a call that wrote a file and did not fail, counted once even if a fork or a resume copied
it. The index says which calls edited a file; the lines of the listed edits, and their prompts, are
read from the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec import Struct

from turnlog.index.connection import Index
from turnlog.index.ids import IS_FIRST, SUBAGENT, instant_at, json_array, long_uuid, short_uuid
from turnlog.index.texts import TextKind
from turnlog.insights.edits import EditResults
from turnlog.query.filters import projects_in, scope_sql
from turnlog.query.turns import record_turns
from turnlog.records.meaning import command_in
from turnlog.records.session_summary import prompt_preview

_LARGEST_PROMPT_BYTES: Final = 2_000_000
_EDITS: Final = f"""
FROM touches AS f JOIN records AS r ON r.id = f.record
JOIN calls AS c ON c.record = f.record AND c.block = f.block
LEFT JOIN sessions AS s ON s.id = r.session
WHERE f.action IN ('edit', 'write') AND c.is_error = 0 AND {IS_FIRST} AND {{where}}
"""
# Only the rows of the page are joined with the rest.
_PAGE: Final = f"""
SELECT p.path, n.name, e.record, e.block, r.uuid, r.at, a.id, a.length, {SUBAGENT}, s.session,
       s.title, projects.path
FROM (SELECT f.record, f.block, f.path, c.tool, c.result, r.at
      {_EDITS} ORDER BY r.at DESC, f.record DESC, f.block DESC LIMIT :most OFFSET :offset) AS e
JOIN records AS r ON r.id = e.record JOIN paths AS p ON p.id = e.path
JOIN names AS n ON n.id = e.tool LEFT JOIN logs AS l ON l.id = e.record >> 40
LEFT JOIN records AS a ON a.id = e.result LEFT JOIN sessions AS s ON s.id = r.session
LEFT JOIN projects ON projects.id = s.project
ORDER BY e.at DESC, e.record DESC, e.block DESC
"""  # noqa: S608 - Ours.
_NAMED: Final = "(p.path = :file OR substr(p.path, -length(:file) - 1) IN (:slash, :back))"
_TOTALS: Final = f"SELECT count(*), count(DISTINCT f.path), count(DISTINCT r.session) {_EDITS}"


class FileEdit(Struct, kw_only=True):
    """A call that wrote a file."""

    path: str
    """As the call wrote it, mostly absolute."""
    tool: str
    at: datetime | None
    session: str | None
    title: str | None
    """The title of the session."""
    project: str | None
    subagent: str | None
    """The subagent that made the call; null for the main agent."""
    record: str | None
    """The uuid of the record with the call."""
    block: int
    """Which of that record's blocks is the call, counted from 0."""
    added: int | None
    removed: int | None
    """Lines; null if the log does not tell."""
    prompt: str | None = None
    """The beginning of the prompt that the edit belongs to; null if unknown or not read."""
    prompt_record: str | None = None
    """The uuid of the record with the prompt."""


class FileEdits(Struct, kw_only=True):
    """Edits of files, the latest first."""

    edits: list[FileEdit]
    next: int | None
    """The offset of the next page, or null."""
    total: int
    files: int
    """The number of files in all of them."""
    sessions: int


class EditPlace(NamedTuple):
    """The numbers of the records with a call and its result, and the id of the call."""

    record: int
    result: int
    call_id: str | None


def list_edits(
    index: Index,
    *,
    file: str | None = None,
    words: Sequence[str] = (),
    projects: Sequence[str] | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    prompts: bool = False,
    mask: Callable[[str], str] = str,
    limit: int = 50,
    offset: int = 0,
) -> FileEdits:
    """Return edits of files, the latest first.

    *file* is a path as the calls wrote it, or the end of one. *projects* are directories; those
    below them count, too. Each of *words* must be in the path,
    in capitals or not. With *prompts*, the beginning of each edit's prompt is read, too; it goes
    through *mask* before it is cut.
    """
    where, values = scope_sql(index, since, until, None)
    if projects is not None:
        inside = (f"s.project IN {projects_in(index.db, each)}" for each in projects)
        where += f" AND ({' OR '.join(inside) or 'FALSE'})"
    if session is not None:
        where += " AND s.session = :session"
        values["session"] = session
    paths, named = _paths(file, words)
    if paths:
        where += f" AND f.path IN (SELECT id FROM paths AS p WHERE {paths})"  # noqa: S608 - Ours.
    values |= named
    totals = index.db.execute(_TOTALS.format(where=where), values).fetchone()
    rows = index.db.execute(
        _PAGE.format(where=where), values | {"most": limit + 1, "offset": offset}
    ).fetchall()
    edits = _edits(index, rows[:limit])
    if prompts:
        _add_prompts(index, edits, [row[2] for row in rows], mask)
    return FileEdits(
        edits=edits,
        next=offset + limit if len(rows) > limit else None,
        total=totals[0],
        files=totals[1],
        sessions=totals[2],
    )


def find_edit(index: Index, session: str, record: str, block: int) -> EditPlace | None:
    """Return where an edit and its result are; None if the index does not have them."""
    row = index.db.execute(
        "SELECT c.record, c.result, c.call_id FROM records AS r JOIN calls AS c ON c.record = r.id"
        " JOIN sessions AS s ON s.id = r.session"
        " WHERE r.uuid = ? AND s.session = ? AND c.block = ? AND c.result IS NOT NULL",
        (short_uuid(record), session, block),
    ).fetchone()
    return None if row is None else EditPlace(*row)


def _paths(file: str | None, words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a condition on paths p, empty if there is none, and its parameters."""
    conditions, values = [], {}
    if file is not None:
        conditions.append(_NAMED)
        values = {"file": file, "slash": f"/{file}", "back": f"\\{file}"}
    for number, word in enumerate(words):
        conditions.append(f"instr(lower(p.path), lower(:word{number}))")
        values[f"word{number}"] = word
    return " AND ".join(conditions), values


def _edits(index: Index, rows: list[Any]) -> list[FileEdit]:
    found = []
    with EditResults(index) as results:
        for path, tool, _, block, uuid, at, result, length, subagent, *about in rows:
            session, title, project = about
            lines = None if result is None else results.lines(result, length)
            found.append(
                FileEdit(
                    path=path,
                    tool=tool,
                    at=instant_at(at),
                    session=session,
                    title=title,
                    project=project,
                    subagent=subagent,
                    record=long_uuid(uuid),
                    block=block,
                    added=lines[0] if lines else None,
                    removed=lines[1] if lines else None,
                )
            )
    return found


def _add_prompts(
    index: Index, edits: list[FileEdit], records: list[int], mask: Callable[[str], str]
) -> None:
    turns = record_turns(index, [index.place(record) for record in records[: len(edits)]])
    wanted = {turn.prompt: turn.prompt_bytes or 0 for turn in turns if turn and turn.prompt}
    uuids = dict(
        index.db.execute(
            "SELECT id, uuid FROM records WHERE id IN (SELECT value FROM json_each(?))",
            (json_array(wanted),),
        )
    )
    texts = {
        prompt: _prompt(index, prompt, size, mask)
        for prompt, size in wanted.items()
        if size <= _LARGEST_PROMPT_BYTES
    }
    for edit, turn in zip(edits, turns, strict=True):
        if turn is not None and turn.prompt is not None:
            edit.prompt = texts.get(turn.prompt)
            edit.prompt_record = long_uuid(uuids.get(turn.prompt))


def _prompt(index: Index, record: int, length: int, mask: Callable[[str], str]) -> str | None:
    texts = [each.text for each in index.texts(record, length) if each.kind is TextKind.PROMPT]
    text = mask("\n".join(texts))
    return prompt_preview(text) or command_in(text)
