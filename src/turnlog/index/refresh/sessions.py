"""The rows of sessions and subagents, from the state that is stored with the bookmarks.

After a refresh the rows of every session with changes are rewritten. A copy of a session in another
home is another row.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from turnlog.index.database import transaction
from turnlog.index.ids import OFFSET_BITS, Names, json_array, microseconds, named, short_uuid
from turnlog.index.refresh.line_decoder import OF_SUBAGENT
from turnlog.index.refresh.log_state import LogState, unpacked
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.reading.subagents import Traces, link_subagents
from turnlog.sessions.state import SessionState
from turnlog.text import utf8_safe


class _LogRow(Struct, frozen=True):
    id: int
    path: str
    home: str
    layout: str
    kind: str
    subagent: str | None
    size_bytes: int
    gone_at: int | None
    folded: LogState


def note_sessions(db: sqlite3.Connection) -> None:
    """Rewrite the rows of the sessions that changed."""
    if db.execute("SELECT 1 FROM pending_sessions LIMIT 1").fetchone() is None:
        return
    with transaction(db):
        sets = Names(db, "name_sets", "names")
        for (session,) in db.execute("SELECT session FROM pending_sessions ORDER BY 1").fetchall():
            logs = _logs_of(db, session)
            # Also where no log is left, so that its figures go.
            known = db.execute("SELECT home FROM sessions WHERE session = ?", (session,))
            for home in sorted({log.home for log in logs} | {row[0] for row in known}):
                _note(db, session, home, [log for log in logs if log.home == home])
                _note_names(db, session, home, sets)
        db.execute("DELETE FROM pending_sessions")
        _drop_empty(db)


def _drop_empty(db: sqlite3.Connection) -> None:
    """Delete the rows of sessions without any log."""
    db.execute(
        "DELETE FROM sessions WHERE path = '' AND NOT EXISTS"
        " (SELECT 1 FROM records WHERE records.session = sessions.id)"
    )


def _logs_of(db: sqlite3.Connection, session: str) -> list[_LogRow]:
    columns = "id, path, home, layout, kind, subagent, text_size_bytes, gone_at"
    rows = db.execute(
        f"SELECT {columns}, coalesce(tail_folded, folded) FROM logs"  # noqa: S608 - Ours.
        " WHERE (session = ?1 OR (kind = 'day' AND id IN"
        " (SELECT DISTINCT records.id >> 40 FROM records JOIN sessions"
        " ON sessions.id = records.session WHERE sessions.session = ?1)))"
        " AND kind IN ('session', 'subagent', 'day') ORDER BY path",
        (session,),
    )
    return [_LogRow(*[*row[:-1], unpacked(row[-1])]) for row in rows]


def _note(db: sqlite3.Connection, session: str, home: str, logs: Sequence[_LogRow]) -> None:
    copies = [log for log in logs if log.kind == "session"]
    mains = sorted(copies, key=lambda log: _reading_order(log, session))[:1]
    days = [log for log in logs if log.kind == "day"]
    mains = mains or sorted(days, key=lambda log: os.path.basename(log.path))
    subagents = {
        log.subagent: log for log in logs if log.kind == "subagent" and log.subagent is not None
    }
    chosen = {log.id for log in subagents.values()}  # One of several copies.
    others = [log.id for log in logs if log.kind == "subagent" and log.id not in chosen]
    db.executemany("DELETE FROM subagents WHERE log = ?", ((log,) for log in others))
    subagent_count = _note_subagents(db, session, mains, subagents)
    folds = [log.folded.sessions[session] for log in mains if session in log.folded.sessions]
    summary = _joined([fold.summary for fold in folds])
    title = summary.title
    if folds and mains[0].kind == "session":
        title = mains[0].folded.called.as_listed(summary, mains[0].size_bytes).title
    if not mains:  # The main log is lost, and only its subagents are left.
        own = [fold for log in subagents.values() for fold in log.folded.sessions.values()]
        summary.started_at = min(
            (f.summary.started_at for f in own if f.summary.started_at), default=None
        )
        summary.last_active_at = max(
            (f.summary.last_active_at for f in own if f.summary.last_active_at), default=None
        )
        summary.cwd = next((f.summary.cwd for f in own if f.summary.cwd), None)
    life = folds[-1].life if folds else SessionState()
    gone = [log.gone_at for log in mains or subagents.values()]
    row = {
        "layout": mains[-1].layout if mains else "",
        "path": mains[-1].path if mains else "",
        "size_bytes": max(0, mains[-1].size_bytes) if mains else 0,
        "project": _project(db, summary.cwd),
        "title": title,
        "first_prompt": summary.first_prompt,
        "tag": summary.tag,
        "started_at": microseconds(summary.started_at),
        "last_active_at": microseconds(summary.last_active_at),
        "records": summary.records,
        "prompts": summary.prompts,
        "subagents": subagent_count,
        "damages": _damages(db, [*mains, *subagents.values()]),
        "git_branch": summary.git_branch,
        "version": summary.version,
        "models": msgspec.json.encode(utf8_safe(summary.models)).decode(),
        "life": msgspec.msgpack.encode(life),
        "is_sidechain": summary.is_sidechain,
        "gone_at": max(filter(None, gone), default=None) if gone and all(gone) else None,
    }
    columns = ", ".join(row)
    updates = ", ".join(f"{name} = excluded.{name}" for name in row)
    db.execute(
        f"INSERT INTO sessions (session, home, {columns})"  # noqa: S608 - Ours.
        f" VALUES ({', '.join('?' * (len(row) + 2))})"
        f" ON CONFLICT (session, home) DO UPDATE SET {updates}",
        (session, home, *(utf8_safe(value) for value in row.values())),
    )


_BRANCHES: Final = (
    "SELECT name FROM names WHERE id IN (SELECT DISTINCT branch FROM records WHERE session = ?)"
)
# A call may be written twice.
_TOOLS: Final = f"""
SELECT n.name, count(
    DISTINCT CASE WHEN c.is_error THEN coalesce(c.call_id, c.record || ' ' || c.block) END
)
FROM records AS r CROSS JOIN calls AS c ON c.record = r.id JOIN names AS n ON n.id = c.tool
WHERE r.session = ? AND r.type IS NOT {named("file-history")} GROUP BY c.tool
"""  # noqa: S608 - Ours.


def _note_names(db: sqlite3.Connection, session: str, home: str, sets: Names) -> None:
    """Write which models, branches and tools a session has, and how many calls failed."""
    number, branch, models = db.execute(
        "SELECT id, git_branch, models FROM sessions WHERE session = ? AND home = ?",
        (session, home),
    ).fetchone()
    branches = {name for (name,) in db.execute(_BRANCHES, (number,))} | {branch}
    tools = dict(db.execute(_TOOLS, (number,)).fetchall())
    found = (
        [name for name in msgspec.json.decode(models) if not name.startswith("<")],
        filter(None, branches),
        tools,
    )
    ids = [sets[json_array(sorted(names))] for names in found]
    db.execute(
        "UPDATE sessions SET model_set = ?, branch_set = ?, tool_set = ?, errors = ? WHERE id = ?",
        (*ids, sum(tools.values()), number),
    )


def _reading_order(log: _LogRow, session: str) -> tuple[bool, bool, bool, int, str]:
    """Return the sort key of copies of a main log; lists and readers choose the same one."""
    fold = log.folded.sessions.get(session)
    active_at = microseconds(fold.life.last_active_at) if fold else None
    return (
        log.gone_at is not None,
        fold is not None and fold.summary.is_sidechain,
        log.path.endswith((".gz", ".zst")),
        -(active_at or 0),
        log.path,
    )


def _joined(summaries: Sequence[SessionSummary]) -> SessionSummary:
    """Merge the summaries of one session in the logs of several days, in order."""
    if not summaries:
        return SessionSummary()
    whole = msgspec.structs.replace(summaries[0], models=dict(summaries[0].models))
    for more in summaries[1:]:
        whole.records += more.records
        whole.prompts += more.prompts
        for model, count in more.models.items():
            whole.models[model] = whole.models.get(model, 0) + count
        for name in (
            "git_branch",
            "version",
            "tag",
            "custom_title",
            "ai_title",
            "last_prompt",
            "summary",
        ):
            setattr(whole, name, getattr(more, name) or getattr(whole, name))
        for name in ("cwd", "first_prompt", "first_command"):
            setattr(whole, name, getattr(whole, name) or getattr(more, name))
        times = [at for at in (whole.started_at, more.started_at) if at is not None]
        whole.started_at = min(times, default=None)
        times = [at for at in (whole.last_active_at, more.last_active_at) if at is not None]
        whole.last_active_at = max(times, default=None)
    return whole


def _note_subagents(
    db: sqlite3.Connection, session: str, mains: Sequence[_LogRow], subagents: dict[str, _LogRow]
) -> int:
    """Write the subagents of a session, and return their number."""
    main = Traces()
    places: dict[str, list[int]] = {}
    for log in mains:
        traces = log.folded.traces
        if traces.sidechains:
            places |= _sidechains_in(db, session, log)
            main.sidechains |= {
                start: chain for start, chain in traces.sidechains.items() if start in places
            }
        main.has_main = main.has_main or traces.has_main
        main.spawns |= traces.spawns
        main.answered |= traces.answered
        main.call_of_subagent |= traces.call_of_subagent
        main.progress_of_subagent |= traces.progress_of_subagent
        main.first_prompt = main.first_prompt or traces.first_prompt
    if not subagents and not main.sidechains:
        return 0
    own = {subagent: (Path(log.path), log.folded.traces) for subagent, log in subagents.items()}
    linked = link_subagents(main, own, Path(mains[-1].path) if mains else None)
    inner = {
        subagent.id: places[subagent.sidechain]
        for subagent in linked
        if subagent.sidechain is not None
    }
    db.executemany(
        "INSERT OR REPLACE INTO sidechains VALUES (?, ?)",
        (
            (record, utf8_safe(subagent))
            for subagent, records in inner.items()
            for record in records
        ),
    )
    rows = [
        (
            inner[subagent.id][0] >> OFFSET_BITS
            if subagent.id in inner
            else subagents[subagent.id].id,
            session,
            subagent.id,
            subagent.kind,
            subagent.description,
            subagent.spawn.caller if subagent.spawn else None,
            subagent.spawn.call_id if subagent.spawn else None,
            short_uuid(subagent.spawn.uuid) if subagent.spawn else None,
            subagent.how.value if subagent.how else None,
        )
        for subagent in linked
    ]
    db.executemany(
        "INSERT OR REPLACE INTO subagents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (tuple(utf8_safe(list(row))) for row in rows),
    )
    return len(rows)


def _sidechains_in(db: sqlite3.Connection, session: str, log: _LogRow) -> dict[str, list[int]]:
    """Return the records of the sidechains in a main log, by the uuid of the first."""
    start_of = {short_uuid(uuid): start for uuid, start in log.folded.traces.sidechain_of.items()}
    base = log.id << OFFSET_BITS
    found: dict[str, list[int]] = {}
    for record, uuid in db.execute(
        "SELECT r.id, r.uuid FROM records AS r JOIN sessions AS s ON s.id = r.session"
        " WHERE r.id >= ? AND r.id < ? AND r.flags & ? AND s.session = ? ORDER BY r.id",
        (base, base + (1 << OFFSET_BITS), OF_SUBAGENT, session),
    ):
        if uuid in start_of:
            found.setdefault(start_of[uuid], []).append(record)
    return found


def _damages(db: sqlite3.Connection, logs: Iterable[_LogRow]) -> int:
    count = 0
    for log in logs:
        base = log.id << OFFSET_BITS
        within: tuple[Any, ...] = (base, base + (1 << OFFSET_BITS))
        query = "SELECT count(*) FROM damages WHERE id >= ? AND id < ?"
        count += db.execute(query, within).fetchone()[0]
    return count


def _project(db: sqlite3.Connection, path: str | None) -> int | None:
    if path is None:
        return None
    path = utf8_safe(path)
    db.execute("INSERT OR IGNORE INTO projects (path) VALUES (?)", (path,))
    return int(db.execute("SELECT id FROM projects WHERE path = ?", (path,)).fetchone()[0])
