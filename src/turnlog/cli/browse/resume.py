"""``turnlog resume``: choose a session and resume it in Claude Code."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import click

from turnlog.cli.browse.sessions import project_name
from turnlog.cli.options import home_option, json_option, project_option, show_json
from turnlog.cli.terminal.console import age, console, counted, safe, titled
from turnlog.cli.terminal.empty_results import show_hint
from turnlog.errors import NotFound, UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.sessions.resume import RecentSession, RecentSessions, Resumption


@click.command(
    name="resume",
    epilog="""\b
Examples:
  turnlog resume                   choose one of the ten most recent
  turnlog resume 5f0c              print the command that resumes it
  turnlog resume 5f0c --run        resume it now, in its directory
  eval "$(turnlog resume latest)"  the same from a shell
Exit code: 0 success, 1 nothing found or cannot be resumed, 2 usage error, 3 failure.""",
)
@click.argument("name", metavar="[SESSION]", required=False)
@home_option
@json_option
@click.option("--run", is_flag=True, help="Start Claude Code instead of printing the command.")
@project_option
def command(
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    run: bool,
    project: str | None,
) -> int:
    """Resume a session in Claude Code; without SESSION, choose one of the most recent.

    Archived sessions, and sessions that only exist as kept copies, are restored first.

    SESSION is the start of a session id, or "latest".
    """
    if run and as_json:
        raise click.UsageError("--run and --json are mutually exclusive")
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.resume import ResumeDocument, bring_back, recent_sessions, resumption

    places = all_homes(homes)
    if name is None:
        recent = recent_sessions(places, project=project)
        if as_json:
            show_json(ResumeDocument(sessions=recent.sessions, next=recent.next, resumption=None))
            return 0 if recent.sessions else 1
        _show(recent, homes, project)
        chosen = _choose(recent.sessions)
        if chosen is None:
            return 0 if recent.sessions else 1
        name = chosen.id
    session, restored = bring_back(places, name)
    if restored is not None:
        click.echo(f"restored {inert(restored)}", err=True)
    plan = resumption(session)
    if as_json:
        show_json(ResumeDocument(sessions=[], next=None, resumption=plan))
        return 1 if plan.obstacles else 0
    if run:
        _run(plan)
    click.echo(plan.line)
    for obstacle in plan.obstacles:
        click.echo(f"warning: {inert(obstacle.message)}", err=True)
        click.echo(f"hint: {inert(obstacle.hint)}", err=True)
    return 1 if plan.obstacles else 0


def _run(plan: Resumption) -> NoReturn:
    """Replace this process by Claude Code, in the session's directory."""
    for obstacle in plan.obstacles:
        missing = obstacle.kind in ("directory_gone", "no_program")
        raise (NotFound if missing else UsageError)(obstacle.message, hint=obstacle.hint)
    sys.stdout.flush()
    os.chdir(plan.directory or ".")
    os.execvp(plan.command[0], plan.command)  # noqa: S606 - No shell.


def _choose(choices: list[RecentSession]) -> RecentSession | None:
    """Prompt for a number, if stdin is a terminal."""
    if not choices or not sys.stdin.isatty():
        return None
    question = f"Session [1-{choices[-1].number}, Enter to cancel]"
    while True:
        # On stderr, for eval "$(turnlog resume)".
        answer = click.prompt(question, default="", show_default=False, err=True).strip()
        chosen = next((row for row in choices if str(row.number) == answer), None)
        if chosen is not None or not answer:
            return chosen


def _console() -> Console:
    """Return a console on stderr if stdout is read by a shell."""
    if sys.stdout.isatty() or not sys.stdin.isatty():
        return console()
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False)


def _show(recent: RecentSessions, homes: tuple[str, ...], project: str | None) -> None:
    out = _console()
    if not recent.sessions:
        out.print("No sessions found.")
        show_hint(out, homes, {"project": project})
        return
    now = datetime.now(UTC)
    for row in recent.sessions:
        parts = (
            f"[dim]{safe(row.id[:8])}[/]",
            age(now, row.last_active_at),
            counted(row.steps, "step") if row.steps is not None else "unreadable",
            f"[cyan]{safe(project_name(row.project))}[/]",
            f"[dim]{safe(row.git_branch)}[/]" if row.git_branch else "",
        )
        title = f"[bold]{row.number:>3}  {titled(row.title)}[/]"
        for line in (title, "     " + " [dim]·[/] ".join(filter(None, parts))):
            out.print(line, overflow="ellipsis", no_wrap=True, soft_wrap=False)
    if recent.next is not None:
        out.print(f"[dim]     … {recent.total - recent.next:,} more: turnlog sessions[/]")
