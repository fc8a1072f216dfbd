"""``turnlog resume``: find a session and resume it in Claude Code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.browse.sessions import project_name
from turnlog.cli.options import home_option, json_option, open_index, project_option, show_json
from turnlog.cli.terminal.chooser import can_choose, choose
from turnlog.cli.terminal.console import age, console, counted, plain_title, safe, titled
from turnlog.cli.terminal.empty_results import show_hint
from turnlog.cli.terminal.tables import cut_right
from turnlog.errors import NotFound
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.homes import Home
    from turnlog.api.sessions.lists import SessionRow
    from turnlog.api.sessions.resume import RecentSessions

_LISTED: Final = 10
_PROJECT: Final = 16
_ID_LENGTH: Final = 36
"""Of a UUID, which cannot be meant as a word."""


@click.command(
    name="resume",
    epilog="""\b
Examples:
  turnlog resume                   choose a session
  turnlog resume flaky retry       find it by title or prompts
  turnlog resume 5f0c              the one whose id starts with 5f0c
  eval "$(turnlog resume latest)"  in a pipe, the command is printed
Exit codes: 0 success, 1 nothing found or cannot be resumed,
2 usage error, 3 failure.""",
)
@click.argument("words", metavar="[WORDS]...", nargs=-1)
@home_option
@json_option
@project_option
def command(
    words: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool, project: str | None
) -> int:
    """Resume a session in Claude Code, in the directory where it worked.

    WORDS are the start of a session id, "latest", or words of the title or of prompts. Without
    WORDS, or if several sessions match, choose one from a list. If the output is not a terminal,
    the command is printed instead.

    Archived sessions, and sessions that only exist as kept copies, are restored first.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.resume import (
        ResumeDocument,
        choices_of,
        matching_sessions,
        recent_sessions,
    )

    places = all_homes(homes)
    if not words and (as_json or not can_choose()):
        recent = recent_sessions(places, project=project)
        if as_json:
            show_json(ResumeDocument(sessions=recent.sessions, next=recent.next, resumption=None))
        else:
            _show(recent, homes, project)
        return 0 if recent.sessions else 1
    if len(words) == 1 and (words[0] == "latest" or len(words[0]) >= _ID_LENGTH):
        return _resume(places, words[0], as_json=as_json)
    with open_index(places) as index:
        rows = matching_sessions(index, words, project=project)
    if not rows:
        return _resume_unlisted(places, words, homes, project, as_json=as_json)
    chosen = 0
    if len(rows) > 1 or not words:
        if as_json:
            choices = choices_of(places, rows)
            show_json(ResumeDocument(sessions=choices, next=None, resumption=None))
            return 2
        if not can_choose():
            return _print_several(rows, words)
        number = choose(_lines(rows), "Resume")
        if number is None:
            return 0
        chosen = number
    return _resume(places, rows[chosen].id, as_json=as_json)


def _resume_unlisted(
    places: tuple[Home, ...],
    words: tuple[str, ...],
    homes: tuple[str, ...],
    project: str | None,
    *,
    as_json: bool,
) -> int:
    """Report that no listed session matches; an id may still be that of a subagent's log."""
    if not words:
        out = console()
        out.print("No sessions found.")
        show_hint(out, homes, {"project": project})
        return 1
    text = " ".join(words)
    try:
        return _resume(places, text, as_json=as_json)
    except NotFound:
        raise NotFound(
            f"no session has {text[:80]!r} in its id, title or prompts",
            hint="turnlog search WORDS searches everything; turnlog sessions lists all",
        ) from None


def _resume(places: tuple[Home, ...], name: str, *, as_json: bool) -> int:
    """Become Claude Code on a terminal, if nothing prevents it; else print the command."""
    from turnlog.api.sessions.resume import ResumeDocument, bring_back, resumption

    session, restored = bring_back(places, name)
    if restored is not None:
        click.echo(f"restored {inert(restored)}", err=True)
    plan = resumption(session)
    if as_json:
        show_json(ResumeDocument(sessions=[], next=None, resumption=plan))
        return 1 if plan.obstacles else 0
    if not plan.obstacles and sys.stdin.isatty() and sys.stdout.isatty():
        sys.stdout.flush()
        os.chdir(plan.directory or ".")
        os.execvp(plan.command[0], plan.command)  # noqa: S606 - No shell.
    for obstacle in plan.obstacles:
        click.echo(f"warning: {inert(obstacle.message)}", err=True)
        click.echo(f"hint: {inert(obstacle.hint)}", err=True)
    click.echo(plan.line)
    return 1 if plan.obstacles else 0


def _lines(rows: Sequence[SessionRow]) -> list[str]:
    """Return one line for each session: id, when, project and title."""
    from rich.cells import cell_len, set_cell_size

    now = datetime.now(UTC)
    names = [cut_right(inert(project_name(row.project)), _PROJECT) for row in rows]
    width = max(map(cell_len, names))
    return [
        f"{inert(row.id[:8])}  {age(now, row.last_active_at):>10}  {set_cell_size(name, width)}"
        f"  {plain_title(row.title)}"
        for row, name in zip(rows, names, strict=True)
    ]


def _print_several(rows: Sequence[SessionRow], words: Sequence[str]) -> int:
    """List the sessions that match, on stderr: a shell may run what is on stdout."""
    text = inert(" ".join(words))
    click.echo(f"error: {len(rows):,} sessions match {text[:80]!r}", err=True)
    for line in _lines(rows)[:_LISTED]:
        click.echo(f"  {line}", err=True)
    if len(rows) > _LISTED:
        click.echo(f"  … {len(rows) - _LISTED:,} more", err=True)
    click.echo("hint: give more words, or the start of an id", err=True)
    return 2


def _show(recent: RecentSessions, homes: tuple[str, ...], project: str | None) -> None:
    out = console()
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
