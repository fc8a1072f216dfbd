"""``turnlog fork``: go on from an earlier point, in a new session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.formats import FORMATS

if TYPE_CHECKING:
    from turnlog.formats import LayoutName


class ForkDocument(Struct, kw_only=True):
    """What `turnlog fork --json` prints."""

    id: str
    path: str
    forked_from: str
    records: int


@click.command(
    name="fork",
    epilog="""\b
Examples:
  turnlog fork latest                      a copy to try something on
  turnlog fork 5f0c --at 9b2e              as it stood at the record 9b2e…
  turnlog fork 5f0c --into ~/.claude       where Claude Code can resume it""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--at", metavar="UUID", help="The record to fork at; the newest unless given.")
@click.option(
    "--into",
    metavar="DIR",
    help="The home to write the new session to.  [default: turnlog's own]",
)
@click.option(
    "--layout",
    type=click.Choice([each.name for each in FORMATS]),
    help="How the new session is laid out.  [default: as the old one]",
)
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    at: str | None,
    into: str | None,
    layout: LayoutName | None,
) -> int:
    """Copy a session up to a record into a new one. The old session is not touched.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.api.store import open_store
    from turnlog.formats import all_homes
    from turnlog.sessions.session import Session
    from turnlog.sessions.writing.fork import fork, thread_to

    session = Session.find(all_homes(homes), name)
    thread_to(session, at)  # A mistake in --at is told before anything is made.
    store = open_store(into)
    project = session.summary.cwd or "."
    with store.create(project=project, layout=layout or session.layout) as writer:
        count = fork(session, writer, at)
    document = ForkDocument(
        id=writer.session_id, path=str(writer.path), forked_from=session.id, records=count
    )
    if as_json:
        show_json(document)
        return 0
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    out.print(f"[green]✓[/] {safe(document.id)} with {counted(count, 'record')}")
    out.print(f"  {short_path(document.path)}", soft_wrap=True)
    if into is not None and writer.dialect == "claude":
        out.print(f"[dim]hint: go on with: claude --resume {safe(document.id)}[/]")
    return 0
