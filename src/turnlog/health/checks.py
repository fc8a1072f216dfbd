"""The checks of `turnlog doctor`: logs, threads, side files, the index, cleanup, permissions, disk.

Each check is a function from a CheckContext to findings. What `turnlog recover` and `repair` would
change is computed by the functions that change it.
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
from turnlog.formats import FORMATS, Home, LogFile, find_everywhere
from turnlog.formats.format import ListMismatch
from turnlog.formats.home_files import home_files, program_names
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
"""Larger logs are reported."""
_AT_ONCE: Final = 4
"""The most sessions that one command names."""


def damage(context: CheckContext) -> list[DoctorFinding]:
    """Find damaged logs, and logs with records that other programs do not see."""
    plans = [item for item in context.plans if item.plan.salvaged or item.plan.quarantined]
    plans.sort(key=lambda item: (-item.plan.salvaged, -len(item.plan.quarantined)))
    hidden = sum(plan.salvaged for _, plan in plans)
    examples = [_damaged(context, log, plan) for log, plan in plans]
    logs = counted(len(plans), "log is", "logs are")
    if hidden:
        records = counted(hidden, "record is", "records are")
        message = f"{logs} damaged, and {records} hidden from other programs"
    else:
        message = f"{logs} damaged; every whole record can be read"
    return finding("damage", Urgency.ACT if hidden else Urgency.LOOK, message, examples)


def _damaged(context: CheckContext, log: LogFile, plan: Repair) -> Example:
    details = []
    if plan.salvaged:
        details.append(f"{counted(plan.salvaged, 'record')} to recover")
    others = len(plan.quarantined) - plan.torn
    if others:
        details.append(counted(others, "bad range"))
    if plan.torn:
        details.append("last line incomplete")
    if log.agent_id is not None:
        details.append(f"subagent {log.agent_id}")
    # Archives are never changed.
    command = ("check",) if log.compression else ("repair", "--yes")
    return context.example(log, ", ".join(details), *command)


def shortened(context: CheckContext) -> list[DoctorFinding]:
    """Find logs that hold less than their kept copies."""
    short = [
        (context.shortfalls[path], seen.log)
        for seen in context.surveyed
        if (path := os.fspath(seen.log.path)) in context.shortfalls
    ]
    short.sort(key=lambda item: -item[0].records)
    examples = [
        context.example(log, f"{counted(lost.records, 'record')} lost", "restore", "--force")
        for lost, log in short
    ]
    logs = counted(len(short), "log holds", "logs hold")
    return finding("shortened", Urgency.ACT, f"{logs} less than was kept", examples)


def unreadable(context: CheckContext) -> list[DoctorFinding]:
    """Find logs and directories that cannot be read."""
    examples = [
        context.example(seen.log, seen.problem) for seen in context.surveyed if seen.problem
    ]
    examples += [
        Example(path=os.fspath(problem.path), detail=problem.reason) for problem in context.problems
    ]
    what = counted(len(examples), "file or directory", "files or directories")
    first = examples[0].path if examples else ""
    return finding(
        "unreadable",
        Urgency.LOOK,
        f"{what} among the logs cannot be read",
        examples,
        context.shell("ls", "-ld", first),
    )


def empty(context: CheckContext) -> list[DoctorFinding]:
    """Find session files without records."""
    plans = {each.log.path: each.plan for each in context.plans}
    found = [
        seen.log
        for seen in context.surveyed
        if seen.log.kind == "session"
        and os.fspath(seen.log.path) not in context.shortfalls
        and _is_empty(seen, plans.get(seen.log.path))
        and not context.is_live(seen.log)
    ]
    examples = [context.example(log, "no records", "delete") for log in found]
    message = f"{counted(len(found), 'session file is', 'session files are')} empty"
    names = [context.name_of(log) for log in found]
    command = context.command("delete", *names) if len(names) <= _AT_ONCE else ""
    return finding("empty", Urgency.LOOK, message, examples, command)


def _is_empty(seen: Surveyed, plan: Repair | None) -> bool:
    if plan is not None:
        return not (plan.records or plan.quarantined)
    return not seen.problem and (seen.size_bytes == 0 or seen.records == 0)


def large(context: CheckContext) -> list[DoctorFinding]:
    """Find very large logs."""
    found = [seen for seen in context.surveyed if seen.size_bytes > LARGE_BYTES]
    found.sort(key=lambda seen: -seen.size_bytes)
    examples = [
        context.example(seen.log, f"{seen.size_bytes / 1e6:,.0f} MB", "compact") for seen in found
    ]
    logs = counted(len(found), "log is", "logs are")
    return finding("large", Urgency.NOTE, f"{logs} larger than 100 MB", examples)


# -- crashed --------------------------------------------------------------------------------


def crashed(context: CheckContext) -> list[DoctorFinding]:
    """Find sessions whose writer died without a clean exit."""
    examples = []
    for log, life in _lives(context):
        running = context.running.get(log.session_id or "")
        if _is_crashed(log, life, running):
            at = life.last_active_at
            detail = f"last active {at:%Y-%m-%d}" if at else "its writer died"
            examples.append(context.example(log, detail, "recover", "--yes"))
    message = f"{counted(len(examples), 'session')} crashed"
    return finding("crashed", Urgency.LOOK, message, examples)


def _lives(context: CheckContext) -> Iterator[tuple[LogFile, SessionState]]:
    """Yield the newest main log of every session, and its state."""
    by_path = {os.fspath(log.path): log for log in context.logs}
    if context.index is None:
        mains = [log for log in context.logs if log.kind == "session"]
        shared = share_out([log for log in context.logs if log.kind == "day"])
        for log in (*mains, *(logs[-1] for logs in shared.values())):
            yield log, _marks(log)
        return
    query = "SELECT session, path, last_active_at, life FROM sessions WHERE gone_at IS NULL"
    for session, path, active_at, folded in context.index.db.execute(query).fetchall():
        if path in by_path and folded is not None:
            life = _decode_life(folded)
            if active_at is not None:
                life.last_active_at = datetime.fromtimestamp(active_at / 1e6, UTC)
            yield structs.replace(by_path[path], session_id=session), life


def _is_crashed(log: LogFile, life: SessionState, running: Running | None) -> bool:
    if running is not None:
        return running.was_killed(life)
    # The index may be older than the clean exit of the writer.
    return life.crashed and _marks(log).crashed


def _marks(log: LogFile) -> SessionState:
    try:
        return marks_of(log.path, log.session_id if log.kind == "day" else None)
    except (TurnlogError, OSError):
        return SessionState()


# -- what agents list ------------------------------------------------------------------------


def listed(context: CheckContext) -> list[DoctorFinding]:
    """Find sessions that their agent does not list, and listed sessions without a log."""
    found = [
        (home, form, mismatch)
        for home in context.homes
        for form in FORMATS
        for mismatch in form.list_mismatches(
            home, [log for log in context.logs if log.home == home and log.format is form]
        )
    ]
    findings = []
    for has_log, words in (
        (True, ("session is not found", "sessions are not found")),
        (False, ("listed session has", "listed sessions have")),
    ):
        for form in FORMATS:
            examples = [
                _mismatch(context, home, each)
                for home, its, each in found
                if its is form and each.has_log is has_log
            ]
            sessions = counted(len(examples), *words)
            message = (
                f"{sessions} by {form.agent}" if has_log else f"{sessions} no log in {form.agent}"
            )
            findings += finding("listed", Urgency.LOOK, message, examples)
    return findings


def _mismatch(context: CheckContext, home: Home, each: ListMismatch) -> Example:
    command, detail = each.command or None, each.detail
    if not each.has_log:
        command, note = _restore(context, each.session_id)
        detail += note
    return Example(
        path=os.fspath(each.path),
        session=each.session_id,
        title=context.titles.get((os.fspath(home), each.session_id)),
        detail=detail,
        command=command,
    )


def _restore(context: CheckContext, session_id: str) -> tuple[str | None, str]:
    """Return the command that restores a log; None without a copy, and a note about that."""
    session = context.restorable.get(session_id)
    if session is None:
        return None, ", and no copy is kept"
    return context.command("restore", session), ""


def forks(context: CheckContext) -> list[DoctorFinding]:
    """Find sessions that begin with a part of another log that is not there any more."""
    by_id: dict[str | None, list[LogFile]] = {}
    for log in context.logs:
        by_id.setdefault(log.own_id, []).append(log)
    examples = []
    for log in context.logs:
        base = log.format.base_of(log.path)
        if base is None:
            continue
        parents = by_id.get(base.session_id, [])
        problems = [log.format.base_problem(base, parent.path) for parent in parents]
        if not all(problems):
            continue
        command, note = _restore(context, base.session_id)
        if command and problems:
            aside = context.shell("mv", str(parents[0].path), f"{parents[0].path}.changed")
            command = f"{aside} && {command}"
        detail = problems[0] or "" if problems else f"the log of {base.session_id} is missing"
        examples.append(structs.replace(context.example(log, detail + note), command=command))
    sessions = counted(len(examples), "fork lacks", "forks lack")
    return finding("forks", Urgency.ACT, f"{sessions} what came before it", examples)


# -- threads --------------------------------------------------------------------------------


def parents(context: CheckContext) -> list[DoctorFinding]:
    """Find records whose parent is missing, null in the middle of a log, or a descendant."""
    return [*_missing(context), *_severed(context), *_rings(context)]


def _missing(context: CheckContext) -> list[DoctorFinding]:
    cut = [look for look in context.looks if look.recovery.bridges]
    cut.sort(key=lambda look: look.old_reach.reached - look.old_reach.said)
    examples = [context.example(look.log, str(look.old_reach), "recover", "--yes") for look in cut]
    sessions = counted(len(cut), "session has", "sessions have")
    message = (
        f"{sessions} records whose parents are missing;"
        " Claude Code before 2.1.91 resumes only the records after them"
    )
    return finding("parents", Urgency.LOOK, message, examples)


def _severed(context: CheckContext) -> list[DoctorFinding]:
    """Find threads that start again in the middle of a log; a person may have gone back."""
    cut = [
        (look, all(link.is_prompt for link in links))
        for look in context.looks
        if (links := [link for link in look.recovery.relinked if link.reason == "null"])
    ]
    cut.sort(key=lambda item: item[0].reach.reached - item[0].reach.said)
    lost = [look for look, is_restart in cut if not is_restart]
    restarted = [look for look, is_restart in cut if is_restart]
    sessions = counted(len(lost), "session has", "sessions have")
    restarts = counted(len(restarted), "session starts", "sessions start")
    return [
        *finding(
            "parents",
            Urgency.ACT,
            f"{sessions} records without a parent mid-log; a resume sends only what follows",
            [context.example(look.log, str(look.reach), "recover", "--yes") for look in lost],
        ),
        *finding(
            "parents",
            Urgency.NOTE,
            f"{restarts} again with a prompt mid-log: a parent was lost, or a person went back",
            [context.example(look.log, str(look.reach), "recover") for look in restarted],
        ),
    ]


def _rings(context: CheckContext) -> list[DoctorFinding]:
    ringed = [
        (look, rings)
        for look in context.looks
        if (rings := sum(link.reason == "ring" for link in look.recovery.relinked))
    ]
    examples = [
        context.example(look.log, counted(rings, "cycle"), "recover", "--yes")
        for look, rings in ringed
    ]
    sessions = counted(len(ringed), "session has", "sessions have")
    message = (
        f"{sessions} records that are their own ancestors;"
        " Claude Code 2.1.91 and older resume only the records after them"
    )
    return finding("parents", Urgency.LOOK, message, examples)


def reach(context: CheckContext) -> list[DoctorFinding]:
    """Find sessions of which a resume reaches less than half although no parent is missing."""
    poor = [
        look
        for look in context.looks
        if look.reach.is_poor and not (look.recovery.bridges or look.recovery.relinked)
    ]
    poor.sort(key=lambda look: look.reach.reached - look.reach.said)
    examples = [context.example(look.log, str(look.reach), "info") for look in poor]
    message = (
        f"A resume reaches less than half of {counted(len(poor), 'session')};"
        " the rest is on other branches"
    )
    return finding("reach", Urgency.NOTE, message, examples)


def calls(context: CheckContext) -> list[DoctorFinding]:
    """Find calls whose results were lost, and calls that were interrupted."""
    looked = {os.fspath(look.log.path): look.recovery for look in context.looks}
    lost = [
        context.example(
            look.log,
            f"{counted(len(look.recovery.lost), 'result')} lost",
            "recover",
            "--yes",
        )
        for look in sorted(context.looks, key=lambda look: -len(look.recovery.lost))
        if look.recovery.lost
    ]
    waiting = []
    for seen in context.surveyed:
        known = looked.get(os.fspath(seen.log.path))
        count = len(known.interrupted) if known is not None else seen.open_calls or 0
        if count and not context.is_live(seen.log):
            waiting.append((count, seen.log))
    waiting.sort(key=lambda item: -item[0])
    total = sum(count for count, _ in waiting)
    sessions = counted(len(lost), "session has", "sessions have")
    return [
        *finding(
            "calls",
            Urgency.LOOK,
            f"{sessions} calls whose results were lost, so the agent omits them",
            lost,
        ),
        *finding(
            "calls",
            Urgency.NOTE,
            f"{counted(total, 'call was', 'calls were')} interrupted and have no result",
            [
                context.example(log, counted(count, "call"), "show", "--last", "20")
                for count, log in waiting
            ],
        ),
    ]


_decode_life = msgspec.msgpack.Decoder(SessionState).decode


_Items = list[tuple[Any, Any]]
"""The content and the state of each item of a todo list."""


def orphans(context: CheckContext) -> list[DoctorFinding]:
    """Find files of sessions that no longer exist."""
    logs = (*context.everything, *find_everywhere(context.elsewhere))
    there = {log.session_id for log in logs if log.kind == "session"}
    there |= context.running.keys() | running_sessions(context.elsewhere).keys()
    if context.index is not None:  # It knows the sessions in logs of days.
        query = "SELECT session FROM sessions WHERE path <> '' AND gone_at IS NULL"
        there |= {session for (session,) in context.index.db.execute(query)}
    known = {session for session in there if session is not None}
    found = [
        orphan
        for home in context.homes
        for orphan in find_orphans(SessionFileIndex(home), known, now=context.now)
    ]
    found.sort(key=lambda orphan: -orphan.size_bytes)
    examples = [
        Example(
            path=orphan.home,
            session=orphan.id,
            detail=f"{', '.join(orphan.kinds)}: {counted(orphan.files, 'file')}",
        )
        for orphan in found
    ]
    message = f"{counted(len(found), 'deleted session has', 'deleted sessions have')} files left"
    # A dry run, since retention may be configured to delete sessions as well. Agents' homes must
    # be named.
    homes = list(dict.fromkeys(orphan.home for orphan in found))
    command = context.command("prune", "--orphans", homes=homes)
    return finding("orphans", Urgency.LOOK, message, examples, command)


def todos(context: CheckContext) -> list[DoctorFinding]:
    """Find todo lists that differ from the last call that wrote them."""
    if context.index is None:
        return []
    examples = []
    for listed, log, written in _lists(context, context.index):
        items = [(todo.content, todo.state) for todo in listed.todos]
        is_done = all(state == "completed" for _, state in written)
        if items == written or (not items and is_done) or context.is_live(log):
            continue  # The agent clears a list when everything is done.
        owner = "" if listed.is_main else f" (subagent {listed.agent_id})"
        detail = f"{_open(items)}, in the log {_open(written)}{owner}"
        examples.append(context.example(log, detail, "todos"))
    lists = counted(len(examples), "todo list differs", "todo lists differ")
    message = f"{lists} from the last TodoWrite call"
    return finding("todos", Urgency.LOOK, message, examples)


def _lists(context: CheckContext, index: Index) -> Iterator[tuple[TodoList, LogFile, _Items]]:
    """Yield every todo list whose log exists, its log, and the items last written there."""
    last = _last_calls(index)
    for home in context.homes:
        for listed in all_todos(home):
            if listed.lost or listed.problem:
                continue
            logs = context.sessions.get((os.fspath(home), listed.session_id), [])
            wanted = None if listed.is_main else listed.agent_id
            log = next((log for log in logs if log.agent_id == wanted), None)
            items = _written(index, last.get(os.fspath(log.path))) if log is not None else None
            if log is not None and items is not None:
                yield listed, log, items


def _last_calls(index: Index) -> dict[str, tuple[int, int]]:
    """Return the record and block of the last successful TodoWrite call of each log.

    Calls of subagents in the main log do not write the list of the session.
    """
    rows = index.db.execute(
        "SELECT logs.path, max(calls.record), calls.block FROM calls"  # noqa: S608 - No user input.
        f" JOIN records ON records.id = calls.record JOIN logs ON logs.id = record >> {OFFSET_BITS}"
        " WHERE calls.tool = (SELECT id FROM names WHERE name = 'TodoWrite')"
        " AND calls.is_error = 0 AND logs.gone_at IS NULL"
        f" AND NOT (logs.kind = 'session' AND records.flags & {OF_SUBAGENT})"
        " GROUP BY logs.path"
    )
    return {path: (record, block) for path, record, block in rows}


def _written(index: Index, place: tuple[int, int] | None) -> _Items | None:
    """Return the items of a TodoWrite call; None if it is missing or has another shape."""
    record = index.record(place[0]) if place is not None else None
    if place is None or not isinstance(record, Spoken):
        return None
    call = record.blocks[place[1]] if place[1] < len(record.blocks) else None
    arguments = getattr(call, "input", None)
    todos = arguments.get("todos") if isinstance(arguments, dict) else None
    if not isinstance(todos, list) or not all(isinstance(todo, dict) for todo in todos):
        return None
    return [(todo.get("content"), todo.get("status")) for todo in todos]


def _open(items: _Items) -> str:
    left = sum(state != "completed" for _, state in items)
    return f"{left:,} of {len(items):,} open"


def index(context: CheckContext) -> list[DoctorFinding]:
    """Check that the index can be opened, is intact and up to date."""
    if not context.homes:
        return []
    path = path_of_index([str(home.path) for home in context.homes])
    if context.index is None:
        return _unusable(context, path, context.no_index or "it cannot be read")
    db = context.index.db
    try:
        reports = [row[0] for row in db.execute("PRAGMA quick_check")]
        behind = _changed(context, db)
        is_behind = behind or has_leftovers(db)
    except sqlite3.Error as error:
        return _unusable(context, path, str(error))
    # SQLite before 3.41 reports NULLs in intact tables whose key is not their first columns.
    wrong = [text for text in reports if text != "ok" and not text.startswith("NULL value in ")]
    if wrong:
        return _unusable(context, path, wrong[0])
    if not is_behind:
        return []
    detail = f"{counted(behind, 'log')} changed since" if behind else "a refresh was interrupted"
    return finding(
        "index",
        Urgency.LOOK,
        "The index is out of date",
        [Example(path=path, detail=detail)],
        context.command("refresh"),
    )


def _changed(context: CheckContext, db: sqlite3.Connection) -> int:
    """Count the logs that changed since the index read them."""
    live = {os.fspath(log.path) for log in context.everything if context.is_live(log)}
    seen, known = look(context.everything), known_logs(db)
    behind = sum(
        has_changed(log, known.get(path), usage_only=False)
        for path, log in seen.items()
        if path not in live
    )
    gone = sum(
        entry.gone_at is None and is_absent(entry, seen, usage_only=True)
        for entry in known.values()
        if not os.path.exists(entry.path)
    )
    return behind + gone


def _unusable(context: CheckContext, path: str, reason: str) -> list[DoctorFinding]:
    place = os.path.dirname(path)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    can_be_made = os.path.isdir(place) and os.access(place, os.W_OK)
    return finding(
        "index",
        Urgency.LOOK,
        "The index cannot be used; reading the logs instead takes longer",
        [Example(path=path, detail=reason)],
        context.command("refresh", "--rebuild")
        if can_be_made
        else context.shell("ls", "-ld", place),
    )


WITHIN_DAYS: Final = 7
"""How far ahead deletions are reported."""


def cleanup(context: CheckContext) -> list[DoctorFinding]:
    """Find invalid settings of the agent's cleanup."""
    periods = [period for home in context.homes if (period := cleanup_period(home))]
    examples = [
        Example(path=problem.where if os.path.isabs(problem.where) else period.home,
                detail=problem.reason)
        for period in periods
        for problem in period.problems
    ]  # fmt: skip
    days = min((period.days for period in periods if period.problems), default=0)
    message = f"The cleanup setting is invalid: sessions may be deleted after {days} days"
    return finding(
        "cleanup", Urgency.ACT, message, examples, context.command("hooks", "install", "keep")
    )


def going(context: CheckContext) -> list[DoctorFinding]:
    """Find sessions that the agent's cleanup will delete soon."""
    found = losses(context.homes, context.now, WITHIN_DAYS)
    unkept = [_example(context, loss) for loss in found if not loss.is_kept]
    kept = [_example(context, loss) for loss in found if loss.is_kept]
    message = f"{_deleted(found, is_kept=False)}, and no copy is kept"
    done = _deleted(found, is_kept=True)
    return [
        *finding("losses", Urgency.ACT, message, unkept, context.command("keep")),
        *finding(
            "losses", Urgency.NOTE, f"{done}; turnlog keeps a copy", kept,
            context.command("keep", "status"),
        ),
    ]  # fmt: skip


def _deleted(found: Iterable[Loss], *, is_kept: bool) -> str:
    count = LossCount.of(loss for loss in found if loss.is_kept is is_kept)
    told = [counted(count.sessions, "session")] if count.sessions else []
    told += [counted(count.subagents, "subagent log")] if count.subagents else []
    return f"Claude Code deletes {' and '.join(told)} within {WITHIN_DAYS} days"


def _example(context: CheckContext, loss: Loss) -> Example:
    return Example(
        path=loss.path,
        session=loss.id if loss.kind == "session" else None,
        title=context.titles.get((loss.home, loss.id)),
        detail=_when(context.now, loss),
    )


def _when(now: datetime, loss: Loss) -> str:
    if loss.is_due or loss.deleted_at is None:
        return "at the next start"
    days = (loss.deleted_at - now).total_seconds() / 86_400
    return "within a day" if days < 1 else f"in {counted(int(days), 'day')}"


if sys.platform != "win32":
    import grp
    import pwd

LEAST_FREE_BYTES: Final = 1_000_000_000
"""With less, a session may stop in the middle of a record."""

# The permissions to read and to enter, for others and for the group.
_CLASSES: Final = ((stat.S_IROTH, stat.S_IXOTH), (stat.S_IRGRP, stat.S_IXGRP))


class Exposed(Struct):
    """What other users can read in a directory."""

    path: str
    files: int = 0
    directories: int = 0
    sample: str = ""
    """One of the files."""


def permissions(context: CheckContext) -> list[DoctorFinding]:
    """Find files that other users of this machine can read.

    A file counts only if they can enter all directories above it.
    """
    if sys.platform == "win32":
        return []
    places = [*(home.path for home in context.homes), context.own]
    roots = dict.fromkeys(map(os.path.realpath, places))
    found = [tree for tree in map(exposed, roots) if tree.files or tree.directories]
    found.sort(key=lambda tree: -tree.files)
    examples = [Example(path=tree.path, detail=_words(tree)) for tree in found]
    files = sum(tree.files for tree in found)
    message = f"Other users of this machine can read {counted(files, 'file')}"
    if not files:
        message = "Other users of this machine can see the names of your files"
    command = context.shell("chmod", "-R", "go-rwx", *(tree.path for tree in found))
    return finding("permissions", Urgency.ACT, message, examples, command)


def exposed(root: str) -> Exposed:
    """Return what others can read below *root*, except the agent's own program files."""
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
    """Return whether a class of users can reach *path*."""
    for directory in Path(path).parents:
        status = _status(str(directory))
        if status is None or not status.st_mode & passing:
            # Members of the group may still enter as others.
            if status is not None and passing == stat.S_IXGRP and status.st_mode & stat.S_IXOTH:
                continue
            return False
    return True


def _is_own_group(status: os.stat_result, reading: int) -> bool:
    """Return whether the group is the owner's private group."""
    if sys.platform == "win32" or reading != stat.S_IRGRP:
        return False
    try:
        return grp.getgrgid(status.st_gid).gr_name == pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return False


def _inside(directory: str, *, is_top: bool) -> Iterator[str]:
    left_out = program_names() if is_top else set()
    try:
        with os.scandir(directory) as listing:
            for item in listing:
                if not (item.name in left_out and item.is_dir()):
                    yield item.path
    except OSError:
        return  # Reported as unreadable by the search for logs.


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _words(found: Exposed) -> str:
    if not found.files:
        return counted(found.directories, "directory", "directories")
    return f"{counted(found.files, 'file')}, such as {os.path.relpath(found.sample, found.path)}"


def space(context: CheckContext) -> list[DoctorFinding]:
    """Find disks with little free space."""
    size_bytes = sum(file.size_bytes for home in context.homes for file in home_files(home))
    disks: dict[int, str] = {}
    for place in (*(os.fspath(home) for home in context.homes), os.fspath(context.own)):
        there = _nearest(place)
        disks.setdefault(os.stat(there).st_dev, there)
    tight = []
    for place in disks.values():
        free = shutil.disk_usage(place).free
        if free < max(LEAST_FREE_BYTES, size_bytes):
            tight.append((free, Example(path=place, detail=f"{free / 1e6:,.0f} MB free")))
    tight.sort(key=lambda item: item[0])
    is_urgent = bool(tight) and tight[0][0] < LEAST_FREE_BYTES
    message = (
        "Less than 1 GB of disk space is free"
        if is_urgent
        else f"Free disk space is less than the size of the homes ({size_bytes / 1e6:,.0f} MB)"
    )
    return finding(
        "space",
        Urgency.ACT if is_urgent else Urgency.LOOK,
        message,
        [example for _, example in tight],
        _space_command(context),
    )


def _space_command(context: CheckContext) -> str:
    """Return the command that frees space: empty the trash if due, or archive old sessions."""
    if any(entry.is_due(context.now) for entry in Trash(context.own).entries()):
        return context.command("trash", "empty", "--yes")
    homes = [os.fspath(home) for home in context.homes]
    return context.command("prune", "--days", "90", "--archive-first", homes=homes)


def _nearest(place: str) -> str:
    """Return *place* or its nearest existing parent."""
    while not os.path.exists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place
