"""``turnlog todos``: what agents meant to do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct

from turnlog.cli.options import (
    csv_option,
    home_option,
    json_option,
    page_options,
    period_options,
    sessions_in,
    show_json,
)
from turnlog.records.dates import is_between

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.sessions.side_files.todos import Task, TodoList

_MARKS = {"completed": "[green]✓[/]", "in_progress": "[yellow]▸[/]"}


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


@click.command(
    name="todos",
    epilog="""\b
Examples:
  turnlog todos                    the lists that changed last
  turnlog todos latest             those of one session, its subagents and its tasks
  turnlog todos --orphans          those whose session or subagent has no log any more
Exit code: 0 done, 1 nothing was found or a file could not be read, 2 a mistake, 3 a failure.""",
)
@click.argument("name", metavar="[SESSION]", required=False)
@home_option
@json_option
@csv_option
@period_options
@click.option("--orphans", is_flag=True, help="Only lists whose session or subagent has no log.")
@click.option("--empty", is_flag=True, help="Also lists with nothing on them.")
@page_options
def command(
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    project: str | None,
    since: datetime | None,
    until: datetime | None,
    orphans: bool,
    empty: bool,
    limit: int,
    offset: int,
) -> int:
    """Show the todos of agents, and the tasks of a session. Nothing is changed.

    SESSION is the beginning of a session's id, or "latest". --since and --until go by when a list
    changed last; tasks have no such time, and are left out then.
    """
    from turnlog.formats import all_homes
    from turnlog.sessions.side_files.todos import all_todos, sessions_with_tasks, tasks_of

    found_homes = all_homes(homes)
    lists = [each for home in found_homes for each in all_todos(home)]
    wanted = _session_id(found_homes, name, lists) if name else None
    there = sessions_in(project, found_homes)
    lists = [
        each
        for each in lists
        if (wanted is None or each.session_id == wanted)
        and (there is None or each.session_id in there)
        and is_between(each.changed_at, since, until)
        and (each.lost or not orphans)
        and (each.todos or each.problem or empty)
    ]
    long_ago = datetime.min.replace(tzinfo=UTC)
    lists.sort(key=lambda each: each.changed_at or long_ago, reverse=True)
    tasks = [
        task
        for home in (() if orphans or since or until else found_homes)
        for session_id in ([wanted] if wanted else sessions_with_tasks(home))
        if there is None or session_id in there
        for task in tasks_of(home, session_id)
    ]
    end = offset + limit if limit else len(lists)
    document = TodosDocument(
        todos=[_row(each) for each in lists[offset:end]],
        tasks=[_task_row(task) for task in tasks],
        next=end if end < len(lists) else None,
        total=len(lists),
    )
    if as_json:
        show_json(document)
    elif as_csv:
        _show_csv(document)
    else:
        narrowed = {"project": project, "since": since, "until": until, "orphans": orphans}
        _show(document, homes, narrowed)
    found = document.todos or document.tasks
    wrong = any(row.problem for row in document.todos) or any(row.problem for row in document.tasks)
    return 1 if wrong or not found else 0


def _show_csv(document: TodosDocument) -> None:
    """Print a row for each thing to do, be it a todo or a task."""
    from turnlog.cli.terminal.output import note_truncation, show_csv_cells

    show_csv_cells(
        ("session", "agent", "changed_at", "state", "content"),
        [
            *(
                (row.session, row.agent, row.changed_at, item.state, item.content)
                for row in document.todos
                for item in row.items
            ),
            *((task.session, None, None, task.state, task.subject) for task in document.tasks),
        ],
    )
    note_truncation(document.next)


def _session_id(homes: tuple[Home, ...], name: str, lists: list[TodoList]) -> str:
    """Find the session that *name* means, also one of which only todos or tasks are left."""
    from turnlog.errors import NotFound
    from turnlog.sessions.owners import find_any_session
    from turnlog.sessions.side_files.todos import sessions_with_tasks

    try:
        return find_any_session(homes, name)[0].session_id or ""
    except NotFound:
        ids = {each.session_id for each in lists}
        ids |= {each for home in homes for each in sessions_with_tasks(home)}
        found = [each for each in ids if each.startswith(name)]
        if len(found) != 1:
            raise
        return found[0]


def _row(found: TodoList) -> TodoRow:
    from turnlog.storage.atomic_files import text_of

    return TodoRow(
        session=found.session_id,
        agent=found.agent_id,
        is_main=found.is_main,
        lost=found.lost,
        changed_at=found.changed_at,
        items=[
            TodoItem(
                content=todo.content,
                state=todo.state,
                priority=todo.priority,
                active_form=todo.active_form,
            )
            for todo in found.todos
        ],
        problem=found.problem,
        path=text_of(found.path) or "",
    )


def _task_row(task: Task) -> TaskRow:
    from turnlog.storage.atomic_files import text_of

    return TaskRow(
        session=task.session_id,
        id=task.id,
        subject=task.subject,
        description=task.description,
        state=task.state,
        active_form=task.active_form,
        blocks=list(task.blocks),
        blocked_by=list(task.blocked_by),
        problem=task.problem,
        path=text_of(task.path) or "",
    )


def _show(found: TodosDocument, homes: tuple[str, ...], asked: dict[str, Any]) -> None:
    from turnlog.cli.terminal.console import age, console, safe, short_path

    out = console()
    if not found.todos and not found.tasks:
        from turnlog.cli.terminal.empty_results import has_any, print_nothing_found

        hint = "--empty also shows lists with nothing on them"
        if not has_any(homes, "todos", "tasks"):
            asked = {}
            hint = (
                "no home here has todos/ or tasks/; turnlog query tools --tool '^Todo|^Task' lists"
                " the calls in the logs"
            )
        print_nothing_found("todos", homes, asked, hint=hint)
        return
    now = datetime.now(UTC)
    for row in found.todos:
        whose = "" if row.is_main else f" subagent {safe(row.agent)}"
        lost = f" [yellow](its {row.lost} has no log)[/]" if row.lost else ""
        out.print(
            f"[bold]{safe(row.session[:8])}[/]{whose}  [dim]{age(now, row.changed_at)}[/]{lost}"
        )
        for todo in row.items:
            out.print(f"  {_line(todo.state, todo.content)}")
        if row.problem:
            out.print(f"  [red]✗[/] {safe(row.problem)}: {short_path(row.path)}")
    shown = ""
    for task in found.tasks:
        if task.session != shown:
            out.print(f"[bold]{safe(task.session[:8])}[/] tasks")
            shown = task.session
        if task.problem:
            out.print(f"  [red]✗[/] {safe(task.problem)}: {short_path(task.path)}")
            continue
        waits = f" [dim]after {safe(', '.join(task.blocked_by))}[/]" if task.blocked_by else ""
        out.print(f"  {safe(task.id)} {_line(task.state, task.subject or '')}{waits}")
    if found.next is not None:
        left = found.total - found.next
        out.print(f"[dim]… and {left:,} more; go on with --offset {found.next}[/]")


def _line(state: str | None, text: str) -> str:
    from turnlog.cli.terminal.console import safe

    odd = "" if state in {None, "pending", *_MARKS} else f" [dim]({safe(state or '')})[/]"
    return f"{_MARKS.get(state or '', '[dim]·[/]')} {safe(text)}{odd}"
