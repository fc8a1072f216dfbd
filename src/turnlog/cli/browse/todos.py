"""``turnlog todos``: the todos and tasks of agents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import page_options, period_options, report_options, show_json
from turnlog.cli.terminal.console import age, console, safe, short_path
from turnlog.cli.terminal.empty_results import has_any, print_nothing_found
from turnlog.cli.terminal.output import note_truncation, show_csv_cells, show_more

if TYPE_CHECKING:
    from turnlog.api.sessions.side_files import TodosDocument

_MARKS = {"completed": "[green]✓[/]", "in_progress": "[yellow]▸[/]"}


@click.command(
    name="todos",
    epilog="""\b
Examples:
  turnlog todos                    the lists that changed last
  turnlog todos latest             the lists and tasks of one session
  turnlog todos --all              empty lists, too
Exit codes: 0 success, 1 nothing found or unreadable files,
2 usage error, 3 failure.""",
)
@click.argument("name", metavar="[SESSION]", required=False)
@report_options
@period_options
@click.option("--all", "empty", is_flag=True, help="Also show empty lists.")
@page_options
def command(
    name: str | None, homes: tuple[str, ...], *, as_json: bool, as_csv: bool, **options: Any
) -> int:
    """List the todos of agents, and the tasks of sessions.

    SESSION is the start of a session id, or "latest". --since and --until filter by the last
    change of a list; tasks have no timestamps and are left out then. Lists whose session or
    subagent has no log are marked.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.side_files import list_todos

    document = list_todos(all_homes(homes), name, **options)
    if as_json:
        show_json(document)
    elif as_csv:
        _show_csv(document)
    else:
        _show(document, homes, options)
    problems = [row.problem for row in document.todos] + [row.problem for row in document.tasks]
    return 1 if not problems or any(problems) else 0


def _show_csv(document: TodosDocument) -> None:
    todos = (
        (row.session, row.agent, row.changed_at, item.state, item.content)
        for row in document.todos
        for item in row.items
    )
    tasks = ((task.session, None, None, task.state, task.subject) for task in document.tasks)
    show_csv_cells(("session", "agent", "changed_at", "state", "content"), [*todos, *tasks])
    note_truncation(document.next)


def _show(document: TodosDocument, homes: tuple[str, ...], filters: dict[str, Any]) -> None:
    if not document.todos and not document.tasks:
        hint = "--all also shows empty lists"
        if not has_any(homes, "todos", "tasks"):
            filters = {}
            hint = (
                "no home has todos/ or tasks/; to list the calls in the logs, run turnlog query"
                " tools 'tool~^Todo|^Task'"
            )
        print_nothing_found("todos", homes, filters, hint=hint)
        return
    out, now = console(), datetime.now(UTC)
    for row in document.todos:
        agent = "" if row.is_main else f" subagent {safe(row.agent)}"
        lost = f" [yellow](its {row.lost} has no log)[/]" if row.lost else ""
        out.print(
            f"[bold]{safe(row.session[:8])}[/]{agent}  [dim]{age(now, row.changed_at)}[/]{lost}"
        )
        for todo in row.items:
            out.print(f"  {_line(todo.state, todo.content)}")
        if row.problem:
            out.print(f"  [red]✗[/] {safe(row.problem)}: {short_path(row.path)}")
    session = ""
    for task in document.tasks:
        if task.session != session:
            session = task.session
            out.print(f"[bold]{safe(session[:8])}[/] tasks")
        if task.problem:
            out.print(f"  [red]✗[/] {safe(task.problem)}: {short_path(task.path)}")
            continue
        blocked = f" [dim]after {safe(', '.join(task.blocked_by))}[/]" if task.blocked_by else ""
        out.print(f"  {safe(task.id)} {_line(task.state, task.subject or '')}{blocked}")
    show_more(out, document)


def _line(state: str | None, text: str) -> str:
    unknown = "" if state in {None, "pending", *_MARKS} else f" [dim]({safe(state or '')})[/]"
    return f"{_MARKS.get(state or '', '[dim]·[/]')} {safe(text)}{unknown}"
