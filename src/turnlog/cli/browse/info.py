"""``turnlog info``: one session, in figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.sessions.session import Session
    from turnlog.sessions.state import Running


class SubagentInfo(Struct, kw_only=True):
    """A subagent of a session and the call that made it."""

    id: str
    kind: str | None
    description: str | None
    call: str | None
    found_by: str | None


class QueuedRow(Struct, kw_only=True):
    """A prompt that was typed while the agent was busy, and that it never took."""

    text: str
    at: datetime | None


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
    layout: str
    state: str
    recency: str | None
    """Active within five minutes, inactive within an hour, or stale."""
    running: str | None
    """What the program that has it open says it does, such as "busy"; null if none has."""
    crashed: bool
    ended_at: datetime | None
    pinned: bool
    git_commit: str | None
    messages: int
    """API responses, each counted once, its subagents' included."""
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    cost_usd: str
    """An estimate at the API's prices."""
    unpriced: list[str]
    carried_messages: int
    """Those of the messages that a fork or a resume carried over: `cost` has them elsewhere."""
    carried_usd: str
    records: int
    prompts: int
    turns: int
    """One for each prompt, on whichever branch it stands."""
    thread_records: int
    branches: int
    """The ways the conversation went, as `turnlog show --branches` lists them."""
    gaps: int
    replaced: int
    """Records that a later one with the same uuid stands for."""
    conflicts: int
    """Those of them that said something else."""
    carried: dict[str, int]
    """Records that name other sessions, by session."""
    queued: list[QueuedRow]
    """Prompts that wait, the oldest first; where nothing runs any more, for ever."""
    is_subagent: bool
    """Its log is a subagent's alone: no list tells of it."""
    subagents: list[SubagentInfo]
    logs: list[str]


@click.command(
    name="info",
    epilog="""\b
Examples:
  turnlog info latest              the session that was active last
  turnlog info 5f0c                the session whose id begins with 5f0c
  turnlog info 5f0c --json         for a script""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
def command(name: str, homes: tuple[str, ...], *, as_json: bool) -> int:
    """Show what is known of a session: its project, times, records, branches and subagents.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.api.store import Store
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.sessions.session import readable_session

    store = Store(all_homes(homes), turnlog_home())
    session = readable_session(store.session(name))
    document = describe(session, store.pins(), store.running().get(session.id))
    _tell_carried(document, store.homes)
    if as_json:
        show_json(document)
    else:
        _show(document)
    return 0


def describe(
    session: Session, pins: Collection[str] = (), running: Running | None = None
) -> SessionDocument:
    """Gather everything about *session*.

    *pins* are the ids of those that are pinned, *running* what its program left about itself.
    """
    from turnlog.sessions.reading.threads import branches_of
    from turnlog.sessions.state import recency

    alive = running is not None and running.is_alive
    own = "running" if session.facts.life.is_running else None
    found, tree, known, totals = session.summary, session.tree, session.metadata, session.totals
    tokens = totals.tokens
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
        layout=session.layout,
        state=known.state,
        recency=recency(found.last_active_at, datetime.now(UTC)),
        running=running.doing if running is not None and alive else own,
        crashed=known.crashed or (running is not None and not alive),
        ended_at=known.ended_at,
        pinned=session.id in pins,
        git_commit=known.git_commit,
        messages=totals.messages,
        input=tokens.input,
        output=tokens.output,
        cache_write_5m=tokens.cache_write_5m,
        cache_write_1h=tokens.cache_write_1h,
        cache_read=tokens.cache_read,
        cost_usd=f"{totals.cost_usd:f}",
        unpriced=totals.unpriced,
        carried_messages=totals.carried_messages,
        carried_usd=f"{totals.carried_usd:f}",
        records=found.records,
        prompts=found.prompts,
        turns=found.prompts,
        thread_records=len(session.whole_thread),
        branches=len(branches_of(tree)),
        gaps=len(tree.gaps),
        replaced=len(tree.replaced),
        conflicts=len(session.conflicts),
        carried=session.carried,
        queued=[QueuedRow(text=prompt.text, at=prompt.at) for prompt in session.queued],
        is_subagent=found.is_sidechain,
        subagents=[
            SubagentInfo(
                id=subagent.id,
                kind=subagent.kind,
                description=subagent.description,
                call=subagent.spawn.call_id if subagent.spawn else None,
                found_by=subagent.how.value if subagent.how else None,
            )
            for subagent in session.subagents
        ],
        logs=[str(log.path) for log in session.logs],
    )


def _tell_carried(found: SessionDocument, homes: Sequence[Home]) -> None:
    """Say what counts for another session though no record of this one says so, if that is known.

    Claude Code's own forks take for theirs what they copy.
    """
    from turnlog.api.costs import counted_elsewhere
    from turnlog.sessions.totals import usual_prices

    bill = usual_prices().bill(counted_elsewhere(homes, found.id))
    if bill.messages > found.carried_messages:
        found.carried_messages = bill.messages
        found.carried_usd = f"{bill.total_usd:f}"


def _show(found: SessionDocument) -> None:
    from turnlog.cli.terminal.console import (
        console,
        counted,
        safe,
        short_path,
        show_value,
        titled,
        when,
    )

    out = console()
    out.print(f"[bold]{titled(found.title)}[/]")
    out.print(f"[dim]{safe(found.id)}[/]\n")
    span = ""
    if found.started_at and found.last_active_at:
        span = f"{when(found.started_at)} to {when(found.last_active_at)}"
    models = ", ".join(
        f"{model} ({counted(count, 'record')})" for model, count in found.models.items()
    )
    tree = f"{found.turns:,}"
    if found.branches > 1:
        tree += f", on {counted(found.branches, 'branch', 'branches')}"
    if found.gaps:
        tree += f", {counted(found.gaps, 'parent')} missing and bridged"
    rows = [
        ("project", found.project or "?"),
        ("branch", found.git_branch or ""),
        ("time", span),
        ("version", found.version or ""),
        ("models", models),
        ("cost", _cost(found)),
        ("", _carried(found)),
        ("state", _state(found)),
        ("tag", found.tag or ""),
        ("records", _records(found)),
        ("turns", tree if found.records else ""),
        ("repeated", _repeated(found)),
        *(
            ("carried", f"{counted(count, 'record')} of session {other}")
            for other, count in found.carried.items()
        ),
        *(("queued", _queued(prompt, found)) for prompt in found.queued),
    ]
    for name, value in rows:
        if value:
            show_value(out, name, safe(value))
    for subagent in found.subagents:
        what = subagent.description or subagent.kind or ""
        how = f"known by its {subagent.found_by}" if subagent.found_by else "its call is not known"
        show_value(out, "subagent", f"{safe(subagent.id)}  {safe(what)} [dim]({how})[/]")
    for log in found.logs:
        out.print(f" [bold]{'log':<10}[/]{short_path(log)}", soft_wrap=True)


def _records(found: SessionDocument) -> str:
    if found.subagents and not found.records:
        return "its main log is gone; only its subagents' are left"
    if found.is_subagent:
        return f"{found.records:,}, of a subagent alone: no list tells of it"
    return f"{found.records:,}, of which {found.thread_records:,} in the main thread"


def _repeated(found: SessionDocument) -> str:
    """Return how many records stand there twice, and whether they say the same."""
    from turnlog.cli.terminal.console import counted

    if not found.replaced:
        return ""
    told = f"{counted(found.replaced, 'record')} stood there before under the same uuid"
    if not found.conflicts:
        return f"{told}, the same"
    return f"{told}, {found.conflicts:,} with other content; the last counts"


def _queued(prompt: QueuedRow, found: SessionDocument) -> str:
    """Say what waits, or waited in vain; all of it: it may stand nowhere else."""
    from turnlog.cli.terminal.console import when

    typed = f"typed {when(prompt.at)}" if prompt.at else ""
    told = "not taken yet" if found.running else "never taken"
    return f"{' '.join(prompt.text.split())} ({', '.join(filter(None, (typed, told)))})"


def _cost(found: SessionDocument) -> str:
    """Say what the session cost, and what the figure leaves out."""
    from decimal import Decimal

    from turnlog.cli.terminal.console import counted
    from turnlog.pricing.money import shown

    written = found.cache_write_5m + found.cache_write_1h
    tokens = f"{found.input + written + found.cache_read:,} tokens in, {found.output:,} out"
    left_out = f"; no price for {', '.join(found.unpriced)}" if found.unpriced else ""
    told = f"{shown(Decimal(found.cost_usd))} at API prices{left_out}"
    return f"{told} ({counted(found.messages, 'response')}, {tokens})" if found.messages else ""


def _carried(found: SessionDocument) -> str:
    """Return which part of the figures `cost` has for another session."""
    from decimal import Decimal

    from turnlog.cli.terminal.console import counted
    from turnlog.pricing.money import shown

    if not found.carried_messages:
        return ""
    part = f"{shown(Decimal(found.carried_usd))}, {counted(found.carried_messages, 'response')},"
    return f"of which {part} were made in another session and count there"


def _state(found: SessionDocument) -> str:
    from turnlog.cli.terminal.console import age

    ended = "crashed" if found.crashed else "ended" if found.ended_at else ""
    beside = found.running or ended
    if not beside and found.last_active_at and found.recency in ("inactive", "stale"):
        beside = f"last heard of {age(datetime.now(UTC), found.last_active_at)}"
    return ", ".join(filter(None, (found.state, beside, "pinned" if found.pinned else "")))
