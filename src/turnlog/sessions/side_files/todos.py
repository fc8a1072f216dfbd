"""Todo lists of a session's agents.

Older versions of Claude Code kept one JSON array for each agent, ``todos/SESSION-agent-AGENT.json``
(the main agent has the session's id), newer ones keep one file per task, ``tasks/SESSION/N.json``.
Both change independently of the log and outlive it. Reading never raises: a file that is not JSON,
is too large or has another shape becomes a list with a *problem*. `replace_todos` is the only
function that writes, atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import Struct

from turnlog.errors import NotALog, UsageError
from turnlog.formats import Home, Problem, find_logs, todo_file
from turnlog.formats.home_files import text_files, text_patterns, todo_owners
from turnlog.formats.ids import check_session_id, check_subagent_id, is_session_id, is_uuid
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.codec import encode
from turnlog.records.lenient_json import NotJson, loads
from turnlog.sessions.owners import owner_in
from turnlog.storage.atomic_files import Unreadable, changed_at, failure, put, read_file, text_of

LIMIT: Final = 4 * 1024 * 1024

TodoState: TypeAlias = Literal["pending", "in_progress", "completed"]
Lost: TypeAlias = Literal["session", "subagent"]


class Todo(Struct, frozen=True, kw_only=True):
    """One todo. Fields that the file lacks, or has in another shape, are None."""

    content: str
    state: str | None = None
    """pending, in_progress or completed; other values are returned as they are."""
    priority: str | None = None
    active_form: str | None = None


class TodoList(Struct, frozen=True, kw_only=True):
    """The todos of one agent, and what was wrong with their file."""

    session_id: str
    agent_id: str
    path: str
    todos: tuple[Todo, ...] = ()
    changed_at: datetime | None = None
    problem: str | None = None
    lost: Lost | None = None
    """For an orphan: whether its session or its subagent has no log."""

    @property
    def is_main(self) -> bool:
        return self.agent_id == self.session_id


class Task(Struct, frozen=True, kw_only=True):
    """One file of a session's tasks directory."""

    session_id: str
    id: str
    path: str
    subject: str | None = None
    description: str | None = None
    state: str | None = None
    active_form: str | None = None
    blocks: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    problem: str | None = None


def todos_of(
    home: Home, session_id: str, *, problems: list[Problem] | None = None
) -> tuple[TodoList, ...]:
    """Return the todos of every agent of a session, the main agent's first."""
    check_session_id(session_id)
    lists = (
        read_todos(Path(item.path), session_id, agent_id)
        for name, item in text_files(home, "todos", problems=problems)
        for owner, agent_id in todo_owners(name)
        if owner == session_id and item.kind == "file"
    )
    return tuple(sorted(lists, key=lambda each: (not each.is_main, each.agent_id)))


def all_todos(home: Home, *, problems: list[Problem] | None = None) -> tuple[TodoList, ...]:
    """Return every todo list in *home*; each says whether its log is missing."""
    problems = [] if problems is None else problems
    items = list(text_files(home, "todos", problems=problems))
    if not items:
        return ()
    mains, subagents = _logs(home, problems)
    found: list[TodoList] = []
    for name, item in items:
        named = _owner(name, mains)
        if item.kind != "file" or named is None:
            reason = item.why or "no list of todos is called that"
            problems.append(Problem(Path(item.path), reason))
            continue
        lost: Lost | None = None
        if named[0] not in mains:
            lost = "session"
        elif named[0] != named[1] and named not in subagents:
            lost = "subagent"
        found.append(read_todos(Path(item.path), *named, lost=lost))
    return tuple(found)


def read_todos(path: Path, session_id: str, agent_id: str, *, lost: Lost | None = None) -> TodoList:
    """Return one agent's todos in the file at *path*, whatever it contains."""
    todos, problem = _parse(read_file(path, limit=LIMIT))
    return TodoList(
        session_id=session_id,
        agent_id=agent_id,
        path=str(path),
        todos=todos,
        changed_at=changed_at(path),
        problem=problem,
        lost=lost,
    )


def tasks_of(
    home: Home, session_id: str, *, problems: list[Problem] | None = None
) -> tuple[Task, ...]:
    """Return the session's tasks, in the order of their numbers."""
    check_session_id(session_id)
    walk = DirectoryWalk(problems)
    tasks = (
        _task(session_id, Path(item.path))
        for pattern in text_patterns("task")
        for _, item in walk.matching(str(home.path), pattern.replace("*", session_id, 1))
        if item.kind == "file" and not item.name.startswith(".")
    )
    return tuple(sorted(tasks, key=lambda task: (len(task.id), task.id)))


def sessions_with_tasks(home: Home, *, problems: list[Problem] | None = None) -> tuple[str, ...]:
    """Return the ids of the sessions that have a tasks directory in *home*."""
    walk = DirectoryWalk(problems)
    return tuple(
        item.name
        for pattern in text_patterns("task")
        for _, item in walk.matching(str(home.path), pattern.rpartition("/")[0])
        if item.kind == "directory" and is_session_id(item.name)
    )


def replace_todos(
    home: Home, session_id: str, agent_id: str, items: Iterable[Todo | Mapping[str, Any]]
) -> Path:
    """Replace an agent's todos atomically; the main agent's id is the session's own.

    Mappings keep their additional keys. A kill leaves the old list or the new one.
    """
    path = todo_file(home, check_session_id(session_id), check_subagent_id(agent_id))
    lines = [encode(_wire(item)) for item in items]
    if path.is_symlink():
        hint = "symbolic links are not followed when writing; remove it or write to its target"
        raise NotALog(f"{path} is a symbolic link", path=path, hint=hint)
    try:
        put(home.path, path.parts[-2:], [b"[", b",".join(lines), b"]"], overwrite=True)
    except OSError as error:
        raise failure(error, path) from None
    return path


def _parse(data: bytes | Unreadable) -> tuple[tuple[Todo, ...], str | None]:
    if isinstance(data, Unreadable):
        return (), data.reason
    if not data.strip():
        return (), "empty"
    try:
        value = loads(data)
    except NotJson:
        return (), "not JSON"
    if not isinstance(value, list):
        return (), "not an array"
    todos = tuple(todo for todo in map(_todo, value) if todo is not None)
    odd = len(value) - len(todos)
    return todos, f"{odd:,} of {len(value):,} are not todos" if odd else None


def _todo(value: Any) -> Todo | None:
    content = text_of(value.get("content")) if isinstance(value, dict) else None
    if content is None:
        return None
    return Todo(
        content=content,
        state=text_of(value.get("status")),
        priority=text_of(value.get("priority")),
        active_form=text_of(value.get("activeForm")),
    )


def _task(session_id: str, path: Path) -> Task:
    data = read_file(path, limit=LIMIT)
    problem, value = None, None
    if isinstance(data, Unreadable):
        problem = data.reason
    else:
        try:
            value = loads(data)
        except NotJson:
            problem = "not JSON"
    if problem is None and not isinstance(value, dict):
        problem = "not an object"
    fields = value if isinstance(value, dict) else {}
    return Task(
        session_id=session_id,
        id=text_of(fields.get("id")) or path.stem,
        path=str(path),
        subject=text_of(fields.get("subject")),
        description=text_of(fields.get("description")),
        state=text_of(fields.get("status")),
        active_form=text_of(fields.get("activeForm")),
        blocks=_ids(fields.get("blocks")),
        blocked_by=_ids(fields.get("blockedBy")),
        problem=problem,
    )


def _ids(value: Any) -> tuple[str, ...]:
    texts = map(text_of, value) if isinstance(value, list) else ()
    return tuple(text for text in texts if text is not None)


def _owner(name: str, sessions: set[str]) -> tuple[str, str] | None:
    """Return the session and agent of a list; if the name is ambiguous, use the known logs."""
    pairs = todo_owners(name)
    surest = [pair for pair in pairs if pair[0] in sessions] or [
        pair for pair in pairs if is_uuid(pair[0]) or pair[0] == pair[1]
    ]
    return next(iter(surest or pairs[-1:]), None)


def _logs(home: Home, problems: list[Problem] | None) -> tuple[set[str], set[tuple[str, str]]]:
    """Return the sessions that have a main log, and the subagents that have a log."""
    mains: set[str] = set()
    subagents: set[tuple[str, str]] = set()
    for log in find_logs(home, problems=problems):
        if log.kind == "session" and log.session_id is not None:
            mains.add(log.session_id)
        elif log.kind == "subagent" and log.agent_id is not None:
            owner = log.session_id or owner_in(log.path)
            if owner is not None:
                subagents.add((owner, log.agent_id))
    return mains, subagents


def _wire(item: Todo | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, Todo):
        fields = {
            "content": item.content,
            "status": item.state,
            "priority": item.priority,
            "activeForm": item.active_form,
        }
        found = {key: value for key, value in fields.items() if value is not None}
    else:
        found = dict(item)
    if not isinstance(found.get("content"), str):
        raise UsageError("a todo needs a content", hint="give each a 'content' and a 'status'")
    if found.get("status", "pending") not in get_args(TodoState):
        raise UsageError(
            f"{found['status']!r} is nothing a todo can be",
            hint=f"use one of {', '.join(get_args(TodoState))}",
        )
    return found
