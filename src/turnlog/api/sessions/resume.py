"""How to resume a session in its agent, what prevents it, and the most recent ones to choose from.

The recent ones are sorted as in ``sessions``, but the number of steps is exact: the logs of those
that are shown are read from end to end, one record at a time.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnlog.api.sessions.kept_session import KeptSession
from turnlog.catalog.indexed_sessions import IndexedSession, list_indexed
from turnlog.catalog.sessions import SessionRow, list_sessions
from turnlog.errors import TurnlogError
from turnlog.formats import FORMATS, Format, Home, Problem, read_name
from turnlog.index.connection import Index
from turnlog.records.record import Linked, Record
from turnlog.records.session_summary import SessionSummary
from turnlog.sessions.metadata import read_head_tail
from turnlog.sessions.reading.ranges import count_steps
from turnlog.sessions.session import Session
from turnlog.sessions.state import State, agent_processes
from turnlog.storage.atomic_files import text_of
from turnlog.storage.reader import Placed, read_log

SHOWN: Final = 10


class RecentSession(Struct, frozen=True, kw_only=True):
    """A session to resume."""

    number: int
    """Its number in the list, from 1."""
    id: str
    title: str | None
    steps: int | None
    """Prompts, responses and results. Null if the log could not be read to its end."""
    last_active_at: datetime | None
    age_seconds: int | None
    project: str | None
    git_branch: str | None
    state: State
    home: str
    path: str


class RecentSessions(Struct, frozen=True, kw_only=True):
    """The most recent sessions; *next* is the offset of the next page, or null."""

    sessions: list[RecentSession]
    next: int | None
    total: int


def recent_sessions(
    homes: Iterable[Home],
    *,
    project: str | None = None,
    limit: int = SHOWN,
    offset: int = 0,
    now: datetime | None = None,
    problems: list[Problem] | None = None,
) -> RecentSessions:
    """Return the sessions of *homes* that were last active, newest first."""
    homes = tuple(homes)
    now = now or datetime.now(UTC)
    found = list_sessions(
        homes, project=project, limit=limit, offset=offset, now=now, problems=problems
    )
    rows = enumerate(found.sessions, offset + 1)
    return RecentSessions(
        sessions=[_choice(homes, number, row, now, problems) for number, row in rows],
        next=found.next,
        total=found.total,
    )


def matching_sessions(
    index: Index, words: Sequence[str] = (), *, project: str | None = None
) -> list[IndexedSession]:
    """Return the sessions that *words* may mean, the last active one first.

    *words* are the start of an id, or parts of the title or the first prompt; if no session has
    them there, words of any prompt.
    """
    listed = partial(list_indexed, index, project=project, gone=False, archived=None, detailed=0)
    found = listed(words=words).sessions
    if len(words) == 1:
        known, every = {row.id for row in found}, listed().sessions
        found = [row for row in every if row.id == words[0]] or [
            row for row in every if row.id.startswith(words[0]) or row.id in known
        ]
    if not found and words:
        said = _sessions_said(index, words, project)
        found = [row for row in listed().sessions if row.id in said]
    # A session with copies in several homes is resumed once.
    return list({row.id: row for row in reversed(found)}.values())[::-1]


def _sessions_said(index: Index, words: Sequence[str], project: str | None) -> set[str | None]:
    """Return the sessions whose prompts have all *words*, in any form."""
    from turnlog.api.search import FieldFilter, narrow, parse, search

    now = datetime.now(UTC)
    ask = partial(search, index, now=now, zone=UTC, project=project, limit=0, per_session=1)
    prompts = FieldFilter("is", "prompt")
    return set.intersection(
        *(
            {hit.session for hit in ask(narrow(parse(word, now=now, zone=UTC), prompts)).hits}
            for word in words
        )
    )


def choices_of(
    homes: Iterable[Home], rows: Sequence[SessionRow], *, now: datetime | None = None
) -> list[RecentSession]:
    """Return *rows* as sessions to choose from."""
    places, moment = tuple(homes), now or datetime.now(UTC)
    return [_choice(places, number, row, moment, None) for number, row in enumerate(rows, 1)]


def _choice(
    homes: tuple[Home, ...],
    number: int,
    row: SessionRow,
    now: datetime,
    problems: list[Problem] | None,
) -> RecentSession:
    steps: int | None
    try:
        steps = count_steps(filter(_is_its_own, _records(homes, row)))
    except (TurnlogError, OSError) as error:  # Deleted since, or not readable.
        steps = None
        if problems is not None:
            problems.append(Problem(Path(row.path), str(error)))
    active_at = row.last_active_at
    return RecentSession(
        number=number,
        id=row.id,
        title=text_of(row.title),
        steps=steps,
        last_active_at=active_at,
        age_seconds=max(0, int((now - active_at).total_seconds())) if active_at else None,
        project=text_of(row.project),
        git_branch=text_of(row.git_branch),
        state=row.state,
        home=row.home,
        path=row.path,
    )


def _is_its_own(record: Record) -> bool:
    """Return whether *record* is not of a subagent in the same log."""
    return not (isinstance(record, Linked) and record.is_sidechain)


def _records(homes: tuple[Home, ...], row: SessionRow) -> Iterator[Record]:
    """Read the records of a session's main log, or its share of several."""
    name = read_name(Path(row.path).name)
    if name is not None and name.kind == "day":
        return (item.record for item in Session.find(homes, row.id).items())
    return (item.record for item in read_log(row.path) if isinstance(item, Placed))


class Hindrance(StrEnum):
    """Why the agent cannot resume a session."""

    NO_DIRECTORY = "no_directory"  # No record has a working directory.
    DIRECTORY_GONE = "directory_gone"
    ELSEWHERE = "elsewhere"  # The log is not where the agent looks for it.
    RUNNING = "running"  # A process has it open.
    SUBAGENTS = "subagents"  # Only the log of a subagent.
    NO_PROGRAM = "no_program"  # The agent's program is not on the PATH.


class Obstacle(Struct, frozen=True, kw_only=True):
    """A reason why a session cannot be resumed, and what to do."""

    kind: Hindrance
    message: str
    hint: str


class Resumption(Struct, frozen=True, kw_only=True):
    """How to resume a session; it is possible if *obstacles* is empty."""

    id: str
    directory: str | None
    command: list[str]
    line: str
    """The command for a shell, with the directory."""
    expected: str | None
    """Where the agent will look for the log."""
    path: str
    obstacles: list[Obstacle]


class ResumeDocument(Struct, kw_only=True):
    """What `turnlog resume --json` prints: the sessions to choose from, or how to resume one."""

    sessions: list[RecentSession]
    next: int | None
    resumption: Resumption | None


def bring_back(homes: Sequence[Home], name: str) -> tuple[Session, str | None]:
    """Return a session, and the path it was restored to if it was archived or gone."""
    session = KeptSession.find(homes, name)
    is_agents = bool(session.main_logs) and session.format.agent is not None
    if is_agents and (session.is_archived or not session.is_at_home):
        return session, session.unarchive().path
    return session, None


def resumption(session: Session) -> Resumption:
    """Return how to resume *session*, and what prevents it."""
    path = session.path
    form = _agents_format(session)
    is_shared = session.format.shares_logs
    found = session.summary if is_shared else read_head_tail(path).summary
    directory = _directory(session, found.cwd)
    expected = _expected(form, session.id, directory) if directory else None
    command = form.resume_command(session.id) or []
    line = shlex.join(command)
    if directory is not None:
        line = f"cd {_quoted(directory)} && {line}"
    return Resumption(
        id=session.id,
        directory=_text(directory),
        command=command,
        line=line,
        expected=_text(expected),
        path=str(path),
        obstacles=[
            *_not_listed(session, found),
            *_obstacles(session, command, directory, expected),
        ],
    )


def _directory(session: Session, first: str | None) -> str | None:
    """Return the working directory that the path of the log is derived from.

    That is where Claude Code was started; the agent may change the directory before its first
    record.
    """
    log = session.main_logs[-1]
    if first is None or log.format.is_filed_under(log, first):
        return first
    seen = {first}
    for item in session.items():
        cwd = item.record.cwd if isinstance(item.record, Linked) else None
        if cwd is not None and cwd not in seen:
            if log.format.is_filed_under(log, cwd):
                return cwd
            seen.add(cwd)
    return first


def _quoted(directory: str) -> str:
    """Quote a path for a shell, with escapes for control characters."""
    if directory.startswith("-"):
        directory = f"./{directory}"
    if directory.isprintable():
        return shlex.quote(directory)
    parts = []
    for character in directory:
        if character.isprintable():
            parts.append(f"\\{character}" if character in "\\'" else character)
        else:
            parts += (f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    return f"$'{''.join(parts)}'"


def _agents_format(session: Session) -> Format:
    """Return the format to resume in: the session's, or the first agent's, if it has no agent."""
    return next(each for each in (session.format, *FORMATS) if each.agent is not None)


def _expected(form: Format, session_id: str, directory: str) -> str | None:
    """Return where the agent, started in *directory*, looks for the session's log."""
    try:
        return str(form.new_log(form.own_home() or "", directory, session_id))
    except ValueError:  # An id that the agent would reject, or an impossible path.
        return None


def _not_listed(session: Session, found: SessionSummary) -> list[Obstacle]:
    if not found.is_sidechain:
        return []
    return [
        Obstacle(
            kind=Hindrance.SUBAGENTS,
            message=f"{session.id[:8]} is a subagent's log, not a session to resume",
            hint="turnlog resume lists the sessions to choose from",
        )
    ]


def _obstacles(
    session: Session, command: list[str], directory: str | None, expected: str | None
) -> list[Obstacle]:
    found: list[Obstacle] = []
    short = session.id if len(session.id) < 9 else session.id[:8]
    if directory is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_DIRECTORY,
                message=f"no record of session {short} says in which directory it worked",
                hint=f"go to the directory yourself, then: {shlex.join(command)}",
            )
        )
    elif not os.path.isdir(directory):
        found.append(
            Obstacle(
                kind=Hindrance.DIRECTORY_GONE,
                message=f"the directory it worked in is gone: {_text(directory)}",
                hint="make it again, or clone the project there, and try once more",
            )
        )
    form = _agents_format(session)
    if not form.is_found_at(session.path, Path(expected) if expected else None):
        found.append(
            Obstacle(
                kind=Hindrance.ELSEWHERE,
                message=f"{form.agent} will not find it: its log is {session.path}",
                hint=f"a copy that it finds: {shlex.join(_copying(session))}",
            )
        )
    found += _running(session)
    if shutil.which(command[0]) is None:
        found.append(
            Obstacle(
                kind=Hindrance.NO_PROGRAM,
                message=f"{command[0]} is not on the PATH",
                hint=f"install {form.agent}, or add its directory to the PATH",
            )
        )
    return found


def _copying(session: Session) -> list[str]:
    """Return the command that copies the session to where its agent looks."""
    log, form = session.main_logs[-1], _agents_format(session)
    how = ["fork"] if log.format is form else ["convert", "--layout", form.name]
    into = ["--to", form.own_home() or ""]
    return ["turnlog", *how, session.id, "--home", os.fspath(log.home), *into]


def _running(session: Session) -> list[Obstacle]:
    home = session.main_logs[-1].home
    return [
        Obstacle(
            kind=Hindrance.RUNNING,
            message=f"process {each.pid} has it open",
            hint="end that first: two programs in one session make two branches of it",
        )
        for each in agent_processes(home)
        if each.session_id == session.id and each.is_alive
    ]


def _text(value: str | None) -> str | None:
    """Return text that JSON can hold; directories may be any bytes."""
    return value if value is None else value.encode("utf-8", "replace").decode()
