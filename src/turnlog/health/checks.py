"""Is each log whole? Damage, logs that cannot be read, empty ones, and very large ones.

Does each session hang together? Crashes, missing parents, lost results, what a resume reaches.

What `turnlog recover` would repair, the function that repairs it says. A note that a process left
of itself counts until somebody has gone on with the session and ended it well.

Is what lies beside the logs as they say? Orphans, and todos that are out of step.

Is the index whole, and in step with the logs? The commands that ask it can do without.

Will it still be there next week? The agent's own cleanup, and what is kept of it.

Is the ground firm? Who else can read it, and how much room is left on it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from turnlog.errors import TurnlogError
from turnlog.formats import LogFile, find_everywhere
from turnlog.formats.home_files import PROGRAM_FILES, home_files
from turnlog.health.findings import CheckContext, DoctorFinding, Example, Urgency, counted, finding
from turnlog.health.survey import Surveyed
from turnlog.index.connection import Index
from turnlog.index.freshness import has_leftovers, path_of_index
from turnlog.index.ids import OFFSET_BITS
from turnlog.index.refresh.line_decoder import OF_SUBAGENT
from turnlog.index.refresh.plan import has_changed, is_absent, known_logs, look
from turnlog.keep.retention.agent_cleanup import Loss, LossCount, cleanup_period, losses
from turnlog.keep.retention.expiry import find_orphans
from turnlog.keep.session_files import SessionFileIndex
from turnlog.keep.trash.trash import Trash
from turnlog.records.record import Spoken
from turnlog.sessions.owners import share_out
from turnlog.sessions.side_files.todos import TodoList, all_todos
from turnlog.sessions.state import Running, SessionState, marks_of, running_sessions
from turnlog.storage.repair import Repair

LARGE_BYTES: Final = 100_000_000
"""A log beyond this is worth a word."""
_AT_ONCE: Final = 4
"""So many names fit on a line."""


def damage(patient: CheckContext) -> list[DoctorFinding]:
    """Find logs with bytes that are no records, or with records where nobody else sees them."""
    plans = [each for each in patient.plans if each.plan.salvaged or each.plan.quarantined]
    plans.sort(key=lambda each: (-each.plan.salvaged, -len(each.plan.quarantined)))
    hidden = sum(plan.salvaged for _, plan in plans)
    examples = [_damaged(patient, log, plan) for log, plan in plans]
    logs = counted(len(plans), "log is", "logs are")
    if hidden:
        records = counted(hidden, "record is", "records are")
        message = f"{logs} damaged, and {records} hidden from other programs"
    else:
        message = f"{logs} damaged; every whole record can be read"
    return finding("damage", Urgency.ACT if hidden else Urgency.LOOK, message, examples)


def _damaged(patient: CheckContext, log: LogFile, plan: Repair) -> Example:
    said = []
    if plan.salvaged:
        said.append(f"{counted(plan.salvaged, 'record')} to free")
    others = len(plan.quarantined) - plan.torn
    if others:
        said.append(counted(others, "bad range"))
    if plan.torn:
        said.append("last line cut short")
    if log.agent_id is not None:
        said.append(f"subagent {log.agent_id}")
    # Archives are never changed; what is wrong with one is all there is to say.
    mend = ("check",) if log.compression else ("repair", "--write")
    return patient.example(log, ", ".join(said), *mend)


def shortened(patient: CheckContext) -> list[DoctorFinding]:
    """Find logs that hold less than was kept of them."""
    found = [
        (patient.shortfalls[path], seen.log)
        for seen in patient.surveyed
        if (path := os.fspath(seen.log.path)) in patient.shortfalls
    ]
    found.sort(key=lambda each: -each[0].records)
    examples = [
        patient.example(log, f"{counted(lost.records, 'record')} lost", "restore", "--replace")
        for lost, log in found
    ]
    logs = counted(len(found), "log holds", "logs hold")
    return finding("shortened", Urgency.ACT, f"{logs} less than was kept", examples)


def unreadable(patient: CheckContext) -> list[DoctorFinding]:
    """Find what looks like a log, or may hold some, and cannot be read."""
    examples = [
        patient.example(seen.log, seen.problem) for seen in patient.surveyed if seen.problem
    ]
    examples += [
        Example(path=os.fspath(problem.path), detail=problem.reason) for problem in patient.problems
    ]
    what = counted(len(examples), "file or directory", "files or directories")
    first = examples[0].path if examples else ""
    return finding(
        "unreadable",
        Urgency.LOOK,
        f"{what} among the logs cannot be read",
        examples,
        patient.shell("ls", "-ld", first),
    )


def empty(patient: CheckContext) -> list[DoctorFinding]:
    """Find session files in which nothing stands."""
    plans = {each.log.path: each.plan for each in patient.plans}
    found = [
        seen.log
        for seen in patient.surveyed
        if seen.log.kind == "session"
        and os.fspath(seen.log.path) not in patient.shortfalls
        and _is_empty(seen, plans.get(seen.log.path))
        and not patient.is_live(seen.log)
    ]
    examples = [patient.example(log, "no records", "delete") for log in found]
    message = f"{counted(len(found), 'session file is', 'session files are')} empty"
    names = [patient.name_of(log) for log in found]
    command = patient.command("delete", *names) if len(names) <= _AT_ONCE else ""
    return finding("empty", Urgency.LOOK, message, examples, command)


def _is_empty(seen: Surveyed, plan: Repair | None) -> bool:
    if plan is not None:
        return not (plan.records or plan.quarantined)
    return not seen.problem and (seen.size_bytes == 0 or seen.records == 0)


def large(patient: CheckContext) -> list[DoctorFinding]:
    """Find logs that have grown very large."""
    found = [seen for seen in patient.surveyed if seen.size_bytes > LARGE_BYTES]
    found.sort(key=lambda seen: -seen.size_bytes)
    examples = [
        patient.example(seen.log, f"{seen.size_bytes / 1e6:,.0f} MB", "compact") for seen in found
    ]
    logs = counted(len(found), "log is", "logs are")
    return finding("large", Urgency.NOTE, f"{logs} larger than 100 MB", examples)


# -- crashed --------------------------------------------------------------------------------


def crashed(patient: CheckContext) -> list[DoctorFinding]:
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


def _lives(patient: CheckContext) -> Iterator[tuple[LogFile, SessionState]]:
    """Return every session's newest main log, and the facts of its life."""
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


def parents(patient: CheckContext) -> list[DoctorFinding]:
    """Find records whose parents are missing, null in mid-log, or their own descendants."""
    return [*_missing(patient), *_severed(patient), *_rings(patient)]


def _missing(patient: CheckContext) -> list[DoctorFinding]:
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


def _severed(patient: CheckContext) -> list[DoctorFinding]:
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


def _rings(patient: CheckContext) -> list[DoctorFinding]:
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


def reach(patient: CheckContext) -> list[DoctorFinding]:
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


def calls(patient: CheckContext) -> list[DoctorFinding]:
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


_Said = list[tuple[Any, Any]]


def orphans(patient: CheckContext) -> list[DoctorFinding]:
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


def todos(patient: CheckContext) -> list[DoctorFinding]:
    """Find lists of todos that are not as their agent's last call to write them left them."""
    if patient.index is None:
        return []
    examples = []
    for listed, log, said in _lists(patient, patient.index):
        there = [(todo.content, todo.state) for todo in listed.todos]
        is_done = all(state == "completed" for _, state in said)
        if there == said or (not there and is_done) or patient.is_live(log):
            continue  # A list on which all is done is cleared by the agent itself.
        whose = "" if listed.is_main else f" (subagent {listed.agent_id})"
        detail = f"{_open(there)}, in the log {_open(said)}{whose}"
        examples.append(patient.example(log, detail, "todos"))
    lists = counted(len(examples), "list of todos is", "lists of todos are")
    message = f"{lists} out of step with the last TodoWrite"
    return finding("todos", Urgency.LOOK, message, examples)


def _lists(patient: CheckContext, index: Index) -> Iterator[tuple[TodoList, LogFile, _Said]]:
    """Return every list of todos whose log is there, and what the log says last of them."""
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
    """Return for each log the last call that wrote todos and was answered: its record and block.

    What a subagent wrote in the log of the main one is not the main one's list.
    """
    rows = index.db.execute(
        "SELECT logs.path, max(calls.record), calls.block FROM calls"  # noqa: S608 - Ours.
        f" JOIN records ON records.id = calls.record JOIN logs ON logs.id = record >> {OFFSET_BITS}"
        " WHERE calls.tool = (SELECT id FROM names WHERE name = 'TodoWrite')"
        " AND calls.is_error = 0 AND logs.gone_at IS NULL"
        f" AND NOT (logs.kind = 'session' AND records.flags & {OF_SUBAGENT})"
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


def index(patient: CheckContext) -> list[DoctorFinding]:
    """Find out whether the index can be had, is whole, and has read all that there is."""
    if not patient.homes:
        return []
    path = path_of_index([str(home.path) for home in patient.homes])
    if patient.index is None:
        return _wrong(patient, path, patient.no_index or "it cannot be read")
    db = patient.index.db
    try:
        said = [row[0] for row in db.execute("PRAGMA quick_check")]
        behind = _changed(patient, db)
        is_behind = behind or has_leftovers(db)
    except sqlite3.Error as error:
        return _wrong(patient, path, str(error))
    # SQLite before 3.41 says this of sound tables whose key is not their first columns.
    wrong = [each for each in said if each != "ok" and not each.startswith("NULL value in ")]
    if wrong:
        return _wrong(patient, path, wrong[0])
    if not is_behind:
        return []
    detail = f"{counted(behind, 'log')} changed since" if behind else "a refresh was cut off"
    return finding(
        "index",
        Urgency.LOOK,
        "The index is out of step with the logs",
        [Example(path=path, detail=detail)],
        patient.command("refresh"),
    )


def _changed(patient: CheckContext, db: sqlite3.Connection) -> int:
    """Count the logs that the index knows otherwise than they are."""
    live = {os.fspath(log.path) for log in patient.everything if patient.is_live(log)}
    seen, known = look(patient.everything), known_logs(db)
    behind = sum(
        has_changed(each, known.get(path), usage_only=False)
        for path, each in seen.items()
        if path not in live
    )
    gone = sum(
        entry.gone_at is None and is_absent(entry, seen, usage_only=True)
        for entry in known.values()
        if not os.path.exists(entry.path)
    )
    return behind + gone


def _wrong(patient: CheckContext, path: str, reason: str) -> list[DoctorFinding]:
    place = os.path.dirname(path)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    can_be_made = os.path.isdir(place) and os.access(place, os.W_OK)
    return finding(
        "index",
        Urgency.LOOK,
        "The index cannot be used; logs are read instead, which takes longer",
        [Example(path=path, detail=reason)],
        patient.command("refresh", "--rebuild")
        if can_be_made
        else patient.shell("ls", "-ld", place),
    )


WITHIN_DAYS: Final = 7
"""How far ahead the doctor looks."""


def cleanup(patient: CheckContext) -> list[DoctorFinding]:
    """Find settings of the agent's cleanup that do not say what somebody meant."""
    periods = [period for home in patient.homes if (period := cleanup_period(home))]
    examples = [
        Example(path=problem.where if os.path.isabs(problem.where) else period.home,
                detail=problem.reason)
        for period in periods
        for problem in period.problems
    ]  # fmt: skip
    days = min((period.days for period in periods if period.problems), default=0)
    message = f"The cleanup setting cannot be relied on: sessions may go after {days} days"
    return finding("cleanup", Urgency.ACT, message, examples, patient.command("keep", "--install"))


def going(patient: CheckContext) -> list[DoctorFinding]:
    """Find sessions that the agent's cleanup is about to delete."""
    found = losses(patient.homes, patient.now, WITHIN_DAYS)
    unkept = [_example(patient, loss) for loss in found if not loss.is_kept]
    kept = [_example(patient, loss) for loss in found if loss.is_kept]
    message = f"{_deleted(found, is_kept=False)}, and no copy is kept"
    done = _deleted(found, is_kept=True)
    return [
        *finding("losses", Urgency.ACT, message, unkept, patient.command("keep")),
        *finding(
            "losses", Urgency.NOTE, f"{done}; turnlog keeps a copy", kept,
            patient.command("keep", "status"),
        ),
    ]  # fmt: skip


def _deleted(found: Iterable[Loss], *, is_kept: bool) -> str:
    count = LossCount.of(loss for loss in found if loss.is_kept is is_kept)
    told = [counted(count.sessions, "session")] if count.sessions else []
    told += [counted(count.subagents, "subagent log")] if count.subagents else []
    return f"Claude Code deletes {' and '.join(told)} within {WITHIN_DAYS} days"


def _example(patient: CheckContext, loss: Loss) -> Example:
    return Example(
        path=loss.path,
        session=loss.id if loss.kind == "session" else None,
        title=patient.titles.get((loss.home, loss.id)),
        detail=_when(patient.now, loss),
    )


def _when(now: datetime, loss: Loss) -> str:
    if loss.is_due or loss.deleted_at is None:
        return "at its next start"
    days = (loss.deleted_at - now).total_seconds() / 86_400
    return "within a day" if days < 1 else f"in {counted(int(days), 'day')}"


if sys.platform != "win32":
    import grp
    import pwd

LEAST_FREE_BYTES: Final = 1_000_000_000
"""With less than this a session may stop in the middle of a record."""

# What one may do with a file: others, and the group.
_CLASSES: Final = ((stat.S_IROTH, stat.S_IXOTH), (stat.S_IRGRP, stat.S_IXGRP))


class Exposed(Struct):
    """What of a directory others can read."""

    path: str
    files: int = 0
    directories: int = 0
    sample: str = ""
    """One of the files."""


def permissions(patient: CheckContext) -> list[DoctorFinding]:
    """Find what other people of this machine can read.

    A file counts if they can get to it: behind a directory that is closed to them all is well.
    """
    if sys.platform == "win32":
        return []
    places = [*(home.path for home in patient.homes), patient.own]
    roots = dict.fromkeys(os.path.realpath(each) for each in places)
    found = [each for root in roots if (each := exposed(root)).files or each.directories]
    found.sort(key=lambda each: -each.files)
    examples = [Example(path=each.path, detail=_words(each)) for each in found]
    files = sum(each.files for each in found)
    message = f"Other users of this machine can read {counted(files, 'file')} of yours"
    if not files:
        message = "Other users of this machine can see the names of your files"
    command = patient.shell("chmod", "-R", "go-rwx", *(each.path for each in found))
    return finding("permissions", Urgency.ACT, message, examples, command)


def exposed(root: str) -> Exposed:
    """Tell what others can read of the tree at *root*; what the agent program owns is left out."""
    found = Exposed(path=root)
    ways = [_can_pass_to(root, passing) for _, passing in _CLASSES]
    waiting = [(root, ways)]
    while waiting:
        place, ways = waiting.pop()
        status = _status(place)
        if status is None or stat.S_ISLNK(status.st_mode) or not any(ways):
            continue
        is_open = [
            way and bool(status.st_mode & reading) and not _is_own_group(status, reading)
            for way, (reading, _) in zip(ways, _CLASSES, strict=True)
        ]
        if stat.S_ISDIR(status.st_mode):
            found.directories += any(is_open)
            inner = [
                way and bool(status.st_mode & passing)
                for way, (_, passing) in zip(ways, _CLASSES, strict=True)
            ]
            waiting += ((path, inner) for path in _inside(place, is_top=place == root))
        elif any(is_open):
            found.files += 1
            found.sample = found.sample or place
    return found


def _can_pass_to(path: str, passing: int) -> bool:
    """Return whether a class of people can get as far as *path*."""
    for directory in Path(path).parents:
        status = _status(str(directory))
        if status is None or not status.st_mode & passing:
            # Who is of the group may still be let in as one of the others.
            if status is not None and passing == stat.S_IXGRP and status.st_mode & stat.S_IXOTH:
                continue
            return False
    return True


def _is_own_group(status: os.stat_result, reading: int) -> bool:
    """Return whether the group is the owner's own, as many systems give each user one."""
    if sys.platform == "win32" or reading != stat.S_IRGRP:
        return False
    try:
        return grp.getgrgid(status.st_gid).gr_name == pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return False


def _inside(directory: str, *, is_top: bool) -> Iterator[str]:
    try:
        with os.scandir(directory) as listing:
            for item in listing:
                if not (is_top and item.name in PROGRAM_FILES and item.is_dir()):
                    yield item.path
    except OSError:
        return  # Not to be read by us; whoever looks for logs there says so.


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _words(found: Exposed) -> str:
    if not found.files:
        return counted(found.directories, "directory", "directories")
    return f"{counted(found.files, 'file')}, such as {os.path.relpath(found.sample, found.path)}"


def space(patient: CheckContext) -> list[DoctorFinding]:
    """Find disks on which there is little room left."""
    size_bytes = sum(file.size_bytes for home in patient.homes for file in home_files(home))
    disks: dict[int, str] = {}
    for place in (*(os.fspath(home) for home in patient.homes), os.fspath(patient.own)):
        there = _nearest(place)
        disks.setdefault(os.stat(there).st_dev, there)
    tight = []
    for place in disks.values():
        free = shutil.disk_usage(place).free
        if free < max(LEAST_FREE_BYTES, size_bytes):
            tight.append((free, Example(path=place, detail=f"{free / 1e6:,.0f} MB free")))
    tight.sort(key=lambda each: each[0])
    is_urgent = bool(tight) and tight[0][0] < LEAST_FREE_BYTES
    message = (
        "Less than 1 GB of disk is left"
        if is_urgent
        else f"Less disk is left than the homes take up ({size_bytes / 1e6:,.0f} MB)"
    )
    return finding(
        "space",
        Urgency.ACT if is_urgent else Urgency.LOOK,
        message,
        [example for _, example in tight],
        _way_to_room(patient),
    )


def _way_to_room(patient: CheckContext) -> str:
    """Return what makes room: the trash if its time has come, else what nobody used for long."""
    if any(each.is_due(patient.now) for each in Trash(patient.own).entries()):
        return patient.command("trash", "empty", "--write")
    homes = [os.fspath(home) for home in patient.homes]
    return patient.command("retain", "--days", "90", "--archive-first", homes=homes)


def _nearest(place: str) -> str:
    """Return *place*, or the directory above it that exists."""
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place
