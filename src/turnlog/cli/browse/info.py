"""``turnlog info``: the details of one session."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.cli.terminal.console import (
    age,
    console,
    counted,
    safe,
    short_path,
    show_value,
    titled,
    when,
)
from turnlog.pricing.money import shown
from turnlog.text import one_line

if TYPE_CHECKING:
    from turnlog.api.sessions.reading import BranchRow, QueuedRow, SessionDocument


@click.command(
    name="info",
    epilog="""\b
Examples:
  turnlog info latest              the most recently active session
  turnlog info 5f0c                the session whose id starts with 5f0c
  turnlog info 5f0c --json         for a script""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
def command(name: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Show a session's project, times, cost, records, branches and subagents.

    SESSION is the start of a session id, or "latest".
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.reading import describe_session

    document = describe_session(all_homes(homes), name)
    if as_json:
        show_json(document)
    else:
        _show(document)
    return 0


def _show(session: SessionDocument) -> None:
    out = console()
    out.print(f"[bold]{titled(session.title)}[/]")
    out.print(f"[dim]{safe(session.id)}[/]\n")
    span = ""
    if session.started_at and session.last_active_at:
        span = f"{when(session.started_at)} to {when(session.last_active_at)}"
    models = ", ".join(
        f"{model} ({counted(count, 'record')})" if count else model
        for model, count in session.models.items()
    )
    tree = f"{session.turns:,}"
    if len(session.branches) > 1:
        tree += f", on {counted(len(session.branches), 'branch', 'branches')}"
    if session.gaps:
        tree += f", {counted(session.gaps, 'parent')} missing and bridged"
    rows = [
        ("project", session.project or "?"),
        ("branch", session.git_branch or ""),
        ("time", span),
        ("version", session.version or ""),
        ("models", models),
        ("cost", _cost(session)),
        ("", _carried(session)),
        ("state", _state(session)),
        ("tags", ", ".join(session.tags)),
        ("records", _records(session)),
        ("turns", tree if session.records else ""),
        ("duplicates", _duplicates(session)),
        *(
            ("carried", f"{counted(count, 'record')} of session {other}")
            for other, count in session.carried.items()
        ),
        *(("queued", _queued(prompt, session)) for prompt in session.queued),
    ]
    for name, value in rows:
        if value:
            show_value(out, name, safe(value))
    if len(session.branches) > 1:
        for number, branch in enumerate(session.branches):
            show_value(out, "" if number else "branches", _branch(branch))
    for subagent in session.subagents:
        what = subagent.description or subagent.kind or ""
        how = f"matched by {subagent.found_by}" if subagent.found_by else "its call is unknown"
        show_value(out, "subagent", f"{safe(subagent.id)}  {safe(what)} [dim]({how})[/]")
    for log in session.logs:
        out.print(f" [bold]{'log':<10}[/]{short_path(log)}", soft_wrap=True)
    if len(session.branches) > 1:
        shown_id = safe(session.id[:8])
        out.print(f"[dim]hint: read a branch with turnlog show {shown_id} --thread RECORD[/]")


def _branch(row: BranchRow) -> str:
    """Return the last record of a branch, where it parts from another one, and its first prompt."""
    from turnlog.export.record_blocks import unwrap

    what = "[green]main[/]" if row.is_main else "[magenta]subagent[/]" if row.is_subagent else ""
    parting = f"parts at [bold]{safe(row.parting[:8])}[/]" if row.parting is not None else ""
    own = f"{row.own_steps:,} of its own" if parting else ""
    facts = (when(row.at), what, counted(row.steps, "step"), parting, own)
    line = f"[bold]{safe(row.tip[:8])}[/]  {', '.join(filter(None, facts))}"
    typed = " ".join(piece.text for piece in unwrap(row.first_said or ""))
    return f"{line}  [dim]{safe(one_line(typed, 60))}[/]" if typed else line


def _records(session: SessionDocument) -> str:
    if session.subagents and not session.records:
        return "main log is gone; only subagent logs are left"
    if session.is_subagent:
        return f"{session.records:,}, of a subagent only: not listed"
    return f"{session.records:,}, {session.thread_records:,} in the main thread"


def _duplicates(session: SessionDocument) -> str:
    if not session.replaced:
        return ""
    count = counted(session.replaced, "record")
    if not session.conflicts:
        return f"{count} with the same uuid and content"
    return f"{count} with the same uuid, {session.conflicts:,} with other content; the last is used"


def _queued(prompt: QueuedRow, session: SessionDocument) -> str:
    """Return a queued prompt in full: it may be recorded nowhere else."""
    typed = f"typed {when(prompt.at)}" if prompt.at else ""
    state = "not sent yet" if session.running else "never sent"
    return f"{' '.join(prompt.text.split())} ({', '.join(filter(None, (typed, state)))})"


def _cost(session: SessionDocument) -> str:
    written = session.cache_write_5m + session.cache_write_1h
    tokens = f"{session.input + written + session.cache_read:,} tokens in, {session.output:,} out"
    left_out = f"; no price for {', '.join(session.unpriced)}" if session.unpriced else ""
    cost = f"{shown(Decimal(session.cost_usd))} at API prices{left_out}"
    return f"{cost} ({counted(session.messages, 'response')}, {tokens})" if session.messages else ""


def _carried(session: SessionDocument) -> str:
    """Return the part of the cost that `turnlog cost` attributes to another session."""
    if not session.carried_messages:
        return ""
    part = f"{shown(Decimal(session.carried_usd))}, {counted(session.carried_messages, 'response')}"
    return f"including {part} from another session, counted there"


def _state(session: SessionDocument) -> str:
    ended = "crashed" if session.crashed else "ended" if session.ended_at else ""
    activity = session.running or ended
    if not activity and session.last_active_at and session.recency in ("inactive", "stale"):
        activity = f"last active {age(datetime.now(UTC), session.last_active_at)}"
    return ", ".join(filter(None, (session.state, activity, "pinned" if session.pinned else "")))
