"""Is what lies beside the logs as they say? Orphans, and todos that are out of step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from turnlog.formats import LogFile, find_everywhere
from turnlog.index.connection import Index
from turnlog.index.ids import OFFSET_BITS
from turnlog.index.refresh.line_decoder import OF_AGENT
from turnlog.keep.retention.orphans import find_orphans
from turnlog.keep.session_files import SessionFileIndex
from turnlog.questions.doctor_checks import Example, Finding, Patient, Urgency, counted, finding
from turnlog.records.record import Spoken
from turnlog.sessions.side_files.todos import TodoList, all_todos
from turnlog.sessions.state import running_sessions

_Said = list[tuple[Any, Any]]


def orphans(patient: Patient) -> list[Finding]:
    """Find what lies in the homes for sessions that are not there."""
    logs = (*patient.everything, *find_everywhere(patient.elsewhere))
    there = {log.session_id for log in logs if log.kind == "session"}
    there |= patient.running.keys() | running_sessions(patient.elsewhere).keys()
    if patient.index is not None:  # It knows whose records the logs of days hold.
        query = "SELECT session FROM sessions WHERE path <> '' AND gone_at IS NULL"
        there |= {session for (session,) in patient.index.db.execute(query)}
    known = {session for session in there if session is not None}
    found = [
        orphan
        for home in patient.homes
        for orphan in find_orphans(SessionFileIndex(home), known, now=patient.now)
    ]
    found.sort(key=lambda each: -each.size_bytes)
    examples = [
        Example(
            path=each.home,
            session=each.id,
            detail=f"{', '.join(each.kinds)}: {counted(each.files, 'file')}",
        )
        for each in found
    ]
    what = counted(len(found), "session that is gone has", "sessions that are gone have")
    message = f"{what} left files behind"
    # A dry run: where retention is turned on, it would let go of sessions as well. Agents' homes
    # have to be named.
    homes = list(dict.fromkeys(each.home for each in found))
    command = patient.command("retain", "--orphans", homes=homes)
    return finding("orphans", Urgency.LOOK, message, examples, command)


def todos(patient: Patient) -> list[Finding]:
    """Find lists of todos that are not as their agent's last call to write them left them."""
    if patient.index is None:
        return []
    examples = []
    for listed, log, said in _lists(patient, patient.index):
        there = [(todo.content, todo.state) for todo in listed.todos]
        is_done = all(state == "completed" for _, state in said)
        if there == said or (not there and is_done) or patient.is_live(log):
            continue  # A list on which all is done is cleared by the agent itself.
        whose = "" if listed.is_main else f" (agent {listed.agent_id})"
        detail = f"{_open(there)}, in the log {_open(said)}{whose}"
        examples.append(patient.example(log, detail, "todos"))
    lists = counted(len(examples), "list of todos is", "lists of todos are")
    message = f"{lists} out of step with the last TodoWrite"
    return finding("todos", Urgency.LOOK, message, examples)


def _lists(patient: Patient, index: Index) -> Iterator[tuple[TodoList, LogFile, _Said]]:
    """Give every list of todos whose log is there, and what the log says last of them."""
    last = _last_calls(index)
    for home in patient.homes:
        for listed in all_todos(home):
            if listed.lost or listed.problem:
                continue
            logs = patient.sessions.get((os.fspath(home), listed.session_id), [])
            wanted = None if listed.is_main else listed.agent_id
            log = next((log for log in logs if log.agent_id == wanted), None)
            said = _written(index, last.get(os.fspath(log.path))) if log is not None else None
            if log is not None and said is not None:
                yield listed, log, said


def _last_calls(index: Index) -> dict[str, tuple[int, int]]:
    """Give for each log the last call that wrote todos and was answered: its record and block.

    What an agent wrote in the log of the main one is not the main one's list.
    """
    rows = index.db.execute(
        "SELECT logs.path, max(calls.record), calls.block FROM calls"  # noqa: S608 - Ours.
        f" JOIN records ON records.id = calls.record JOIN logs ON logs.id = record >> {OFFSET_BITS}"
        " WHERE calls.tool = (SELECT id FROM names WHERE name = 'TodoWrite')"
        " AND calls.is_error = 0 AND logs.gone_at IS NULL"
        f" AND NOT (logs.kind = 'session' AND records.flags & {OF_AGENT})"
        " GROUP BY logs.path"
    )
    return {path: (record, block) for path, record, block in rows}


def _written(index: Index, place: tuple[int, int] | None) -> _Said | None:
    """Read back what a call to write todos says; None if it is not there, or odd."""
    record = index.record(place[0]) if place is not None else None
    if place is None or not isinstance(record, Spoken):
        return None
    call = record.blocks[place[1]] if place[1] < len(record.blocks) else None
    given = getattr(call, "input", None)
    listed = given.get("todos") if isinstance(given, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        return None
    return [(each.get("content"), each.get("status")) for each in listed]


def _open(items: _Said) -> str:
    left = sum(state != "completed" for _, state in items)
    return f"{left:,} of {len(items):,} open"
