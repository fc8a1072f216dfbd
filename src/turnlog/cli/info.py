"""``turnlog info``: one session, in figures."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.sessions.session import Session


class AgentRow(Struct, kw_only=True):
    """An agent of a session and the call that made it."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    found_by: str | None


class SessionDocument(Struct, kw_only=True):
    """What `turnlog info --json` prints."""

    id: str
    project: str | None
    title: str | None
    tag: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    git_branch: str | None
    version: str | None
    models: dict[str, int]
    records: int
    prompts: int
    turns: int
    thread_records: int
    branchings: int
    gaps: int
    replaced: int
    agents: list[AgentRow]
    logs: list[str]


@click.command(name="info", epilog="Example: turnlog info latest")
@click.argument("name", metavar="SESSION")
@home_option
@json_option
def command(name: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Show what is known of a session: its project, times, records, branches and agents.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.layout import find_homes
    from turnlog.sessions.session import Session

    document = describe(Session.find(find_homes(homes), name))
    if as_json:
        show_json(document)
    else:
        _show(document)
    return 0


def describe(session: Session) -> SessionDocument:
    """Gather everything about *session*."""
    found, tree = session.summary, session.tree
    return SessionDocument(
        id=session.id,
        project=found.cwd,
        title=found.title,
        tag=found.tag,
        started_at=found.started_at,
        last_active_at=found.last_active_at,
        git_branch=found.git_branch,
        version=found.version,
        models=found.models,
        records=found.records,
        prompts=found.prompts,
        turns=len(session.turns),
        thread_records=len(session.whole_thread),
        branchings=len(tree.branchings),
        gaps=len(tree.gaps),
        replaced=len(tree.replaced),
        agents=[
            AgentRow(
                id=agent.id,
                kind=agent.kind,
                description=agent.description,
                call=agent.spawn.call_id if agent.spawn else None,
                found_by=agent.how.value if agent.how else None,
            )
            for agent in session.agents
        ],
        logs=[str(log.path) for log in session.logs],
    )


def _show(found: SessionDocument) -> None:
    from turnlog.cli.terminal import console, counted, safe, short_path

    out = console()
    out.print(f"[bold]{safe(found.title or 'untitled')}[/]")
    out.print(f"[dim]{safe(found.id)}[/]\n")
    span = ""
    if found.started_at and found.last_active_at:
        span = f"{found.started_at:%Y-%m-%d %H:%M} to {found.last_active_at:%Y-%m-%d %H:%M} UTC"
    models = ", ".join(f"{model} ({count:,})" for model, count in found.models.items())
    tree = f"{counted(found.turns, 'turn')}, {counted(found.branchings, 'branching')}"
    if found.gaps:
        tree += f", {counted(found.gaps, 'parent')} missing and bridged"
    rows = [
        ("project", found.project or "?"),
        ("branch", found.git_branch or ""),
        ("time", span),
        ("version", found.version or ""),
        ("models", models),
        ("tag", found.tag or ""),
        ("records", f"{found.records:,}, of which {found.thread_records:,} in the main thread"),
        ("tree", tree),
    ]
    for name, value in rows:
        if value:
            out.print(f" [bold]{name:<10}[/]{safe(value)}")
    for agent in found.agents:
        what = agent.description or agent.kind or ""
        how = f"by {agent.found_by}" if agent.found_by else "[yellow]its call is not known[/]"
        out.print(f" [bold]{'agent':<10}[/]{safe(agent.id)} {safe(what)} {how}")
    for log in found.logs:
        out.print(f" [bold]{'log':<10}[/]{short_path(log)}", soft_wrap=True)
