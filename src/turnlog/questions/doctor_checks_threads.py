"""Does each session hang together? Crashes, missing parents, lost results, what a resume reaches.

What `turnlog recover` would repair, the function that repairs it says. A note that a process left
of itself counts until somebody has gone on with the session and ended it well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
from msgspec import structs

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile
from turnlog.questions.doctor_checks import Finding, Patient, Urgency, counted, finding
from turnlog.sessions.dated import share_out
from turnlog.sessions.state import Running, SessionState, marks_of

# -- crashed --------------------------------------------------------------------------------


def crashed(patient: Patient) -> list[Finding]:
    """Find sessions whose writer is gone without a goodbye."""
    examples = []
    for log, life in _lives(patient):
        running = patient.running.get(log.session_id or "")
        if _is_crashed(log, life, running):
            at = life.last_active_at
            detail = f"last active {at:%Y-%m-%d}" if at else "its writer died"
            examples.append(patient.example(log, detail, "recover", "--write"))
    message = f"{counted(len(examples), 'session')} crashed"
    return finding("crashed", Urgency.LOOK, message, examples)


def _lives(patient: Patient) -> Iterator[tuple[LogFile, SessionState]]:
    """Give every session's newest main log, and the facts of its life."""
    by_path = {os.fspath(log.path): log for log in patient.logs}
    if patient.index is None:
        mains = [log for log in patient.logs if log.kind == "session"]
        shared = share_out([log for log in patient.logs if log.kind == "day"])
        for log in (*mains, *(logs[-1] for logs in shared.values())):
            yield log, _marks(log)
        return
    query = "SELECT session, path, last_active_at, life FROM sessions WHERE gone_at IS NULL"
    for session, path, active_at, folded in patient.index.db.execute(query).fetchall():
        if path in by_path and folded is not None:
            life = _decode_life(folded)
            if active_at is not None:
                life.last_active_at = datetime.fromtimestamp(active_at / 1e6, UTC)
            yield structs.replace(by_path[path], session_id=session), life


def _is_crashed(log: LogFile, life: SessionState, running: Running | None) -> bool:
    if running is not None:
        return running.was_killed(life)
    # What the index knows may be older than a writer's goodbye.
    return life.crashed and _marks(log).crashed


def _marks(log: LogFile) -> SessionState:
    try:
        return marks_of(log.path, log.session_id if log.kind == "day" else None)
    except (TurnlogError, OSError):
        return SessionState()


# -- threads --------------------------------------------------------------------------------


def parents(patient: Patient) -> list[Finding]:
    """Find records whose parents are missing, null in mid-log, or their own descendants."""
    return [*_missing(patient), *_severed(patient), *_rings(patient)]


def _missing(patient: Patient) -> list[Finding]:
    cut = [look for look in patient.looks if look.recovery.bridges]
    cut.sort(key=lambda look: look.old_reach.reached - look.old_reach.said)
    examples = [
        patient.example(look.log, str(look.old_reach), "recover", "--write") for look in cut
    ]
    sessions = counted(len(cut), "session has", "sessions have")
    message = (
        f"{sessions} records whose parents are missing;"
        " Claude Code before 2.1.91 resumes only what comes after them"
    )
    return finding("parents", Urgency.LOOK, message, examples)


def _severed(patient: Patient) -> list[Finding]:
    """Find threads that start again in mid-log; a person may have gone back to the start."""
    cut = [
        (look, all(link.is_prompt for link in links))
        for look in patient.looks
        if (links := [link for link in look.recovery.relinked if link.reason == "null"])
    ]
    cut.sort(key=lambda each: each[0].reach.reached - each[0].reach.said)
    lost = [look for look, is_restart in cut if not is_restart]
    restarted = [look for look, is_restart in cut if is_restart]
    sessions = counted(len(lost), "session has", "sessions have")
    restarts = counted(len(restarted), "session starts", "sessions start")
    return [
        *finding(
            "parents",
            Urgency.ACT,
            f"{sessions} records without a parent in mid-log; a resume sends only what follows",
            [patient.example(look.log, str(look.reach), "recover", "--write") for look in lost],
        ),
        *finding(
            "parents",
            Urgency.NOTE,
            f"{restarts} again with a prompt in mid-log: a parent was lost, or somebody went back",
            [patient.example(look.log, str(look.reach), "recover") for look in restarted],
        ),
    ]


def _rings(patient: Patient) -> list[Finding]:
    ringed = [
        (look, rings)
        for look in patient.looks
        if (rings := sum(link.reason == "ring" for link in look.recovery.relinked))
    ]
    examples = [
        patient.example(look.log, counted(rings, "ring"), "recover", "--write")
        for look, rings in ringed
    ]
    sessions = counted(len(ringed), "session has", "sessions have")
    message = (
        f"{sessions} records that are their own ancestors;"
        " Claude Code 2.1.91 and older resume only what comes after them"
    )
    return finding("parents", Urgency.LOOK, message, examples)


def reach(patient: Patient) -> list[Finding]:
    """Find sessions of which a resume reaches less than half, though every parent is there."""
    poor = [
        look
        for look in patient.looks
        if look.reach.is_poor and not (look.recovery.bridges or look.recovery.relinked)
    ]
    poor.sort(key=lambda look: look.reach.reached - look.reach.said)
    examples = [patient.example(look.log, str(look.reach), "show", "--branches") for look in poor]
    message = (
        f"A resume reaches less than half of {counted(len(poor), 'session')};"
        " the rest is on other branches"
    )
    return finding("reach", Urgency.NOTE, message, examples)


def calls(patient: Patient) -> list[Finding]:
    """Find calls whose results were lost, and count those that were interrupted."""
    looked = {os.fspath(look.log.path): look.recovery for look in patient.looks}
    lost = [
        patient.example(
            look.log,
            f"{counted(len(look.recovery.lost), 'result')} lost",
            "recover",
            "--write",
        )
        for look in sorted(patient.looks, key=lambda look: -len(look.recovery.lost))
        if look.recovery.lost
    ]
    waiting = []
    for seen in patient.surveyed:
        known = looked.get(os.fspath(seen.log.path))
        count = len(known.interrupted) if known is not None else seen.open_calls or 0
        if count and not patient.is_live(seen.log):
            waiting.append((count, seen.log))
    waiting.sort(key=lambda each: -each[0])
    total = sum(count for count, _ in waiting)
    sessions = counted(len(lost), "session has", "sessions have")
    return [
        *finding(
            "calls",
            Urgency.LOOK,
            f"{sessions} calls whose results were lost, so the agent leaves them out",
            lost,
        ),
        *finding(
            "calls",
            Urgency.NOTE,
            f"{counted(total, 'call was', 'calls were')} interrupted: no result ever came",
            [
                patient.example(log, counted(count, "call"), "show", "--last", "20")
                for count, log in waiting
            ],
        ),
    ]


_decode_life = msgspec.msgpack.Decoder(SessionState).decode
