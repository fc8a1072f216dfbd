"""What agents store outside their logs: todos, tasks, plans, typed prompts, versions of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from turnlog.api.arguments import check_session, resolve_session_id
from turnlog.api.homes import Home, Problem, row_from
from turnlog.api.sessions.lists import sessions_in
from turnlog.errors import NotFound, UsageError
from turnlog.formats.home_files import file_history
from turnlog.formats.walk import DirectoryWalk
from turnlog.records.dates import is_between
from turnlog.sessions.owners import find_any_session
from turnlog.sessions.session import Session
from turnlog.sessions.side_files.file_changes import FileTraces, shown_path, whole_path
from turnlog.sessions.side_files.file_history import (
    FileAt,
    RestoredVersion,
    SessionFiles,
    TouchedFile,
    Version,
    content_of,
    diff_of,
    restore,
    restore_all,
)
from turnlog.sessions.side_files.plans import Plan, find_plans, with_kept_versions
from turnlog.sessions.side_files.prompts import find_prompts
from turnlog.sessions.side_files.todos import (
    Task,
    TodoList,
    all_todos,
    sessions_with_tasks,
    tasks_of,
    todos_of,
)
from turnlog.storage.atomic_files import Unreadable, text_of

__all__ = [
    "DiffRow",
    "FileTraces",
    "FilesDocument",
    "PlanRow",
    "PlansDocument",
    "PromptRow",
    "PromptsDocument",
    "RestoredVersion",
    "SessionFiles",
    "TodosDocument",
    "TouchedFile",
    "TouchedFileRow",
    "Unreadable",
    "Version",
    "content_of",
    "file_bytes",
    "find_plan",
    "list_plans",
    "list_prompts",
    "list_todos",
    "open_todos",
    "session_files",
    "shown_path",
    "whole_path",
    "with_kept_files",
]


class TodoItem(Struct, kw_only=True):
    """One thing to do."""

    content: str
    state: str | None
    priority: str | None
    active_form: str | None


class TodoRow(Struct, kw_only=True):
    """The todos of one agent."""

    session: str
    agent: str
    is_main: bool
    lost: Literal["session", "subagent"] | None
    """Which log is gone, for an orphan."""
    changed_at: datetime | None
    items: list[TodoItem]
    problem: str | None
    path: str


class TaskRow(Struct, kw_only=True):
    """One task of a session."""

    session: str
    id: str
    subject: str | None
    description: str | None
    state: str | None
    active_form: str | None
    blocks: list[str]
    blocked_by: list[str]
    problem: str | None
    path: str


class TodosDocument(Struct, kw_only=True):
    """What `turnlog todos --json` prints."""

    todos: list[TodoRow]
    tasks: list[TaskRow]
    next: int | None
    """The offset of the next page of todos, or null."""
    total: int


def list_todos(
    homes: Sequence[Home],
    name: str | None = None,
    *,
    project: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    orphans: bool = False,
    empty: bool = False,
    limit: int = 0,
    offset: int = 0,
) -> TodosDocument:
    """Return todo lists, the last changed one first, and tasks; of one session if *name* is given.

    *orphans* are lists whose session or subagent has no log. Tasks have no time, so a period
    excludes them.
    """
    lists = [todos for home in homes for todos in all_todos(home)]
    wanted = _session_with_todos(homes, name, lists) if name else None
    sessions = sessions_in(project, homes)
    lists = [
        todos
        for todos in lists
        if (wanted is None or todos.session_id == wanted)
        and (sessions is None or todos.session_id in sessions)
        and is_between(todos.changed_at, since, until)
        and (todos.lost or not orphans)
        and (todos.todos or todos.problem or empty)
    ]
    never = datetime.min.replace(tzinfo=UTC)
    lists.sort(key=lambda todos: todos.changed_at or never, reverse=True)
    tasks = [
        task
        for home in (() if orphans or since or until else homes)
        for session_id in ([wanted] if wanted else sessions_with_tasks(home))
        if sessions is None or session_id in sessions
        for task in tasks_of(home, session_id)
    ]
    end = offset + limit if limit else len(lists)
    return TodosDocument(
        todos=[_todo_row(todos) for todos in lists[offset:end]],
        tasks=[_task_row(task) for task in tasks],
        next=end if end < len(lists) else None,
        total=len(lists),
    )


def open_todos(home: str, session_id: str) -> Iterator[tuple[str, str]]:
    """Yield the state and text of the unfinished todos and tasks of a session."""
    place = Home(Path(home))
    for todos in todos_of(place, session_id):
        for todo in todos.todos:
            if todo.state != "completed":
                yield todo.state or "pending", todo.content
    for task in tasks_of(place, session_id):
        if task.state not in {"completed", "deleted"} and task.subject:
            yield task.state or "pending", task.subject


def _session_with_todos(homes: Sequence[Home], name: str, lists: Iterable[TodoList]) -> str:
    """Return the id of a session, also of one that has only todos or tasks left."""
    try:
        return find_any_session(homes, name)[0].session_id or ""
    except NotFound:
        ids = {todos.session_id for todos in lists}
        ids |= {session_id for home in homes for session_id in sessions_with_tasks(home)}
        matches = [session_id for session_id in ids if session_id.startswith(name)]
        if len(matches) != 1:
            raise
        return matches[0]


def _todo_row(todos: TodoList) -> TodoRow:
    return row_from(
        TodoRow,
        todos,
        session=todos.session_id,
        agent=todos.agent_id,
        items=[row_from(TodoItem, todo) for todo in todos.todos],
        path=text_of(todos.path) or "",
    )


def _task_row(task: Task) -> TaskRow:
    return row_from(
        TaskRow,
        task,
        session=task.session_id,
        blocks=list(task.blocks),
        blocked_by=list(task.blocked_by),
        path=text_of(task.path) or "",
    )


class PlanSession(Struct, kw_only=True):
    """A session that a plan may belong to, and the evidence: path, content or slug."""

    id: str
    hint: str


class PlanVersionRow(Struct, kw_only=True):
    """A version of a plan; *text* is null in a list of plans."""

    sha256: str
    title: str | None
    at: datetime | None
    origin: str
    session: str | None
    size_bytes: int
    text: str | None


class PlanRow(Struct, kw_only=True):
    """A plan, its versions, oldest first, and its sessions; *path* is null if the file is gone."""

    name: str | None
    title: str | None
    changed_at: datetime | None
    versions: list[PlanVersionRow]
    sessions: list[PlanSession]
    problem: str | None
    path: str | None
    home: str | None


class PlansDocument(Struct, kw_only=True):
    """What `turnlog plans --json` prints."""

    plans: list[PlanRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int


def list_plans(
    homes: Sequence[Home],
    *,
    project: str | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 0,
    offset: int = 0,
) -> PlansDocument:
    """Return the plans, the last changed one first, without the text of their versions."""
    plans = _plans(homes, project, session, since, until)
    end = offset + limit if limit else len(plans)
    return PlansDocument(
        plans=[_plan_row(plan, texts=False) for plan in plans[offset:end]],
        next=end if end < len(plans) else None,
        total=len(plans),
    )


def find_plan(
    homes: Sequence[Home],
    name: str,
    at: str | None = None,
    *,
    project: str | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[PlansDocument, str | None]:
    """Return the plan whose name begins with *name*, and its current text.

    It has all its versions, or with *at* only one: "v1" is the oldest.
    """
    plan = with_kept_versions(_only(_plans(homes, project, session, since, until), name), homes)
    row = _plan_row(plan, texts=True)
    if at is not None:
        row.versions = [_version(row, at)]
    return PlansDocument(plans=[row], next=None, total=1), plan.text


def _plans(
    homes: Sequence[Home],
    project: str | None,
    session: str | None,
    since: datetime | None,
    until: datetime | None,
) -> list[Plan]:
    plans = [plan for plan in find_plans(homes) if is_between(plan.changed_at, since, until)]
    wanted = sessions_in(project, homes)
    if session is not None:
        one = find_any_session(homes, session)[0].session_id
        wanted = {one} if wanted is None else wanted & {one}
    if wanted is None:
        return plans
    return [plan for plan in plans if any(link.session_id in wanted for link in plan.sessions)]


def _only(plans: Sequence[Plan], name: str) -> Plan:
    same = [plan for plan in plans if plan.name == name]
    matches = same or [plan for plan in plans if (plan.name or plan.title or "").startswith(name)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFound(
            f"no plan's name begins with {name[:80]!r}", hint="list them", code="no-such-plan"
        )
    places = ", ".join(plan.path or plan.name or "?" for plan in matches[:5])
    raise UsageError(
        f"{name!r} begins {len(matches)} plans: {places}", hint="give more of the name"
    )


def _version(row: PlanRow, at: str) -> PlanVersionRow:
    for number, version in enumerate(row.versions, 1):
        if at == f"v{number}":
            return version
    raise NotFound(
        f"the plan has no version {at[:80]!r}",
        hint=f"use v1 to v{len(row.versions)}",
        code="no-such-plan-version",
    )


def _plan_row(plan: Plan, *, texts: bool) -> PlanRow:
    versions = [
        row_from(
            PlanVersionRow,
            version,
            origin=version.origin.value,
            session=version.session_id,
            size_bytes=len(version.text.encode()),
            text=version.text if texts else None,
        )
        for version in plan.versions
    ]
    sessions = [PlanSession(id=link.session_id, hint=link.hint.value) for link in plan.sessions]
    return row_from(PlanRow, plan, versions=versions, sessions=sessions)


class PastedRow(Struct, kw_only=True):
    """Something pasted into a prompt."""

    id: str
    kind: str | None
    text: str | None


class PromptRow(Struct, kw_only=True):
    """A prompt as it was typed."""

    text: str
    at: datetime | None
    project: str | None
    session: str | None
    pasted: list[PastedRow]
    home: str


class PromptsDocument(Struct, kw_only=True):
    """What `turnlog prompts --json` prints."""

    prompts: list[PromptRow]
    next: int | None
    """The offset of the next page, or null."""
    total: int
    damaged: int
    odd: int
    unreadable: list[str]


def list_prompts(
    homes: Sequence[Home],
    text: str | None = None,
    *,
    project: str | None = None,
    session: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 0,
    offset: int = 0,
) -> PromptsDocument:
    """Return typed prompts from the homes' history, the newest first; those that contain *text*."""
    problems: list[Problem] = []
    # The history may have prompts of sessions that nothing else is left of.
    session = resolve_session_id(session, homes, must_exist=False)
    page = find_prompts(
        homes,
        session=session,
        text=text,
        project=project,
        since=since,
        until=until,
        limit=limit or None,
        offset=offset,
        problems=problems,
    )
    if session is not None and not find_prompts(homes, session=session, limit=1).total:
        check_session(session, homes)
    end = offset + len(page.prompts)
    return PromptsDocument(
        prompts=[
            row_from(
                PromptRow,
                prompt,
                session=prompt.session_id,
                pasted=[row_from(PastedRow, paste) for paste in prompt.pasted],
            )
            for prompt in page.prompts
        ],
        next=end if page.prompts and end < page.total else None,
        total=page.total,
        damaged=page.damaged,
        odd=page.odd,
        unreadable=[problem.reason for problem in problems],
    )


class EditRow(Struct, kw_only=True):
    """A call that wrote a file; *record* contains its result."""

    tool: str
    record: str | None
    subagent: str | None
    at: datetime | None
    added: int | None
    removed: int | None


class DiffRow(Struct, kw_only=True):
    """The diff of two versions of a file, or of its edits if no versions were kept."""

    text: str
    added: int
    removed: int
    problem: str | None


class TouchedFileRow(Struct, kw_only=True):
    """A file that a session touched. *version* is the one at the given message."""

    path: str
    shown: str
    versions: list[Version]
    edits: list[EditRow]
    version: Version | None = None
    is_inferred: bool = False
    content: str | None = None
    diff: DiffRow | None = None


class FilesDocument(Struct, kw_only=True):
    """What `turnlog files --json` prints."""

    session: str
    project: str | None
    files: list[TouchedFileRow]
    strays: list[Version]
    """Kept versions without a record."""
    restored: list[RestoredVersion]
    odd: int
    """Snapshot records of an unknown shape."""
    next: int | None = None


def session_files(
    homes: Sequence[Home],
    name: str,
    path: str | None = None,
    *,
    at: Sequence[str] = (),
    diff: bool = False,
    into: str | None = None,
    overwrite: bool = False,
) -> FilesDocument:
    """Return the files that a session touched, or the one at *path*, with their kept versions.

    *at* is the beginning of a record's uuid, or a version such as ``v2``: add how the files were
    then; with *diff*, what changed since, or between two of them. With *into*, write the files of
    that time into a directory.
    """
    session = Session.find(homes, name)
    files = SessionFiles.of(session)
    touched = [files.find(path)] if path is not None else list(files.files.values())
    document = FilesDocument(
        session=session.id,
        project=files.project,
        files=[_file_row(file) for file in touched],
        strays=[] if path else [_printable(version) for version in files.strays],
        restored=[],
        odd=files.odd,
    )
    first = at[0] if at else None
    if into is not None and path is not None:
        document.restored = [restore(files, path, first, into, overwrite=overwrite)]
    elif into is not None:
        document.restored = list(restore_all(files, first, into, overwrite=overwrite))
    elif diff:
        _add_diffs(document, files, touched, at)
    elif first is not None:
        _add_state(document, files, touched, first, content=path is not None)
    return document


def file_bytes(
    homes: Sequence[Home], name: str, path: str, at: str | None = None
) -> bytes | Unreadable | None:
    """Return the bytes that a file had, None if it did not exist then, or why it is unreadable."""
    files = SessionFiles.of(Session.find(homes, name))
    state = files.version_at(files.find(path), at)
    if state is None or state.version.is_absent:
        return None
    return content_of(state.version)


def with_kept_files(traces: FileTraces, home: str, session_id: str) -> SessionFiles:
    """Return the files in *traces* with the versions that were kept of them, in any layout."""
    problems: list[Problem] = []
    items = list(file_history(Home(Path(home)), session_id, DirectoryWalk(problems)))
    return SessionFiles(traces, items, problems)


def _add_diffs(
    document: FilesDocument, files: SessionFiles, touched: list[TouchedFile], at: Sequence[str]
) -> None:
    """Add to each file how it changed; leave out files that did not change."""
    rows: list[TouchedFileRow] = []
    for row, file in zip(document.files, touched, strict=True):
        old = files.version_at(file, at[0]) if at else None
        new = files.version_at(file, at[1] if len(at) > 1 else None)
        first = old.version if old else file.versions[0] if file.versions else None
        if new is not None and first is not None and (at or len(file.versions) > 1):
            diff = diff_of(first, new.version, file.shown)
            row.diff = row_from(DiffRow, diff)
        elif not at:
            # No versions to compare: show the edits one after the other.
            row.diff = DiffRow(
                text="".join(edit.patch for edit in file.edits),
                added=sum(edit.added or 0 for edit in file.edits),
                removed=sum(edit.removed or 0 for edit in file.edits),
                problem=None,
            )
        if row.diff is not None and (row.diff.text or row.diff.problem):
            rows.append(row)
    document.files = rows


def _add_state(
    document: FilesDocument,
    files: SessionFiles,
    touched: list[TouchedFile],
    at: str,
    *,
    content: bool,
) -> None:
    """Add to each file the version it had, and with *content* what it contained."""
    states: dict[str, FileAt] = {}
    if content:
        found = files.version_at(touched[0], at)
        states = {touched[0].path: found} if found else {}
    else:
        states = {state.file.path: state for state in files.at(at)}
    document.files = [row for row in document.files if row.path in states]
    for row in document.files:
        state = states[row.path]
        row.version = _printable(state.version)
        row.is_inferred = state.is_inferred
        if content and not state.version.is_absent:
            data = content_of(state.version)
            if isinstance(data, bytes):
                row.content = data.decode("utf-8", "replace")
            else:
                row.version = replace(row.version, problem=data.reason)


def _file_row(file: TouchedFile) -> TouchedFileRow:
    return TouchedFileRow(
        path=file.path,
        shown=file.shown,
        versions=[_printable(version) for version in file.versions],
        edits=[
            row_from(EditRow, edit, record=edit.uuid, subagent=edit.agent_id) for edit in file.edits
        ],
    )


def _printable(version: Version) -> Version:
    """Return *version* with a name and path that JSON can hold."""
    return replace(version, name=text_of(version.name), path=text_of(version.path))
