"""``turnlog fork``: copy a session up to a record into a new session."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import home_option, json_option, layout_option, show_json, to_option

if TYPE_CHECKING:
    from turnlog.api.homes import LayoutName


@click.command(
    name="fork",
    epilog="""\b
Examples:
  turnlog fork latest                      copy a session to experiment with
  turnlog fork 5f0c --at 9b2e              copy it up to the record 9b2e…
  turnlog fork 5f0c --to ~/.claude         copy it for Claude Code to resume""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--at", metavar="UUID", help="Last record to copy.  [default: the newest]")
@to_option("turnlog's own")
@layout_option("the layout of the old one")
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    at: str | None,
    to: str | None,
    layout: LayoutName | None,
) -> int:
    """Copy a session up to a record into a new session. The old session is not changed.

    SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.writing import fork_session

    document, command = fork_session(all_homes(homes), name, at=at, into=to, layout=layout)
    if as_json:
        show_json(document)
        return 0
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    out.print(f"[green]✓[/] {safe(document.id)} with {counted(document.records, 'record')}")
    out.print(f"  {short_path(document.path)}", soft_wrap=True)
    if to is not None and command is not None:
        out.print(f"[dim]hint: to resume: {safe(shlex.join(command))}[/]")
    return 0
