"""``turnlog convert``: copy a session into another layout."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from turnlog.api.homes import format_named
from turnlog.cli.options import (
    for_option,
    home_option,
    json_option,
    layout_option,
    show_json,
    to_option,
)

if TYPE_CHECKING:
    from turnlog.api.homes import LayoutName
    from turnlog.api.sessions.writing import ConvertDocument, DialectChoice

_SHOWN = 3


@click.command(
    name="convert",
    epilog="""\b
Examples:
  turnlog convert abc1 --layout claude --to ~/.claude   for Claude to resume
  turnlog convert 5f0c --layout flat --to ~/agent
  turnlog convert 5f0c --layout dated --to ~/days --dialect native""",
)
@click.argument("name", metavar="PATH|SESSION")
@home_option
@json_option
@layout_option()
@to_option()
@click.option(
    "--dialect",
    type=click.Choice(("keep", "native")),
    default="keep",
    show_default=True,
    help="Keep records unchanged, or translate them to the layout's own dialect. "
    "Always native with --layout claude.",
)
@for_option
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    layout: LayoutName,
    to: str,
    dialect: DialectChoice,
    target: str | None,
) -> int:
    """Copy a session into another layout. The old session is not changed.

    Lossless: converting back gives the same records, byte for byte. Includes the logs of subagents,
    but not todos, plans and file history.

    SESSION is the beginning of a session ID, or "latest". PATH is a log, for a session that its
    home has in several layouts.
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.sessions.writing import convert_session

    document = convert_session(all_homes(homes), name, layout, to, dialect=dialect, project=target)
    if as_json:
        show_json(document)
    else:
        _show(document)
    return 1 if document.damage else 0


def _show(document: ConvertDocument) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path, show_some

    out = console()
    subagents = f", {counted(document.subagents, 'subagent')}" if document.subagents else ""
    records = counted(document.records, "record")
    out.print(f"[green]✓[/] {safe(document.id)} with {records}{subagents}")
    show_some(out, [short_path(path) for path in document.paths], _SHOWN, indent="  ")
    if document.rewritten:
        records = counted(document.rewritten, "record")
        out.print(f"[dim]{records} translated; the originals are kept inside[/]")
    if document.damage:
        ranges = counted(document.damage, "damaged range")
        out.print(f"[yellow]![/] {ranges} not copied")
        out.print(f"[dim]hint: turnlog check {safe(document.converted_from)} shows them[/]")
    if resume := format_named(document.layout).resume_command(document.id):
        out.print(f"[dim]hint: to resume: {safe(shlex.join(resume))}[/]")
