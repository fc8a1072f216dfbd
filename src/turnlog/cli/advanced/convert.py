"""``turnlog convert``: a session, copied into another layout."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.formats import FORMATS, format_named

if TYPE_CHECKING:
    from turnlog.formats import LayoutName
    from turnlog.sessions.convert.convert import DialectChoice
    from turnlog.sessions.session import Session

_LAYOUTS = click.Choice([each.name for each in FORMATS])
_SHOWN = 3


class ConvertDocument(Struct, kw_only=True):
    """What `turnlog convert --json` prints."""

    id: str
    layout: str
    paths: list[str]
    converted_from: str
    """The id of the session that was copied."""
    records: int
    rewritten: int
    """Records that were told in another dialect; each keeps what it was."""
    damage: int
    """Ranges of the source that hold no record, and were left behind."""
    subagents: int


@click.command(
    name="convert",
    epilog="""\b
Examples:
  turnlog convert 5f0c --to flat --into ~/agent        for a program that reads flat stores
  turnlog convert abc1 --to claude --into ~/.claude    where Claude Code can resume it
  turnlog convert 5f0c --to dated --into ~/days --dialect native""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@click.option("--to", "layout", type=_LAYOUTS, required=True, help="The layout to copy it into.")
@click.option(
    "--into", metavar="DIR", required=True, help="The home to write it to; made if need be."
)
@click.option(
    "--from", "source", type=_LAYOUTS, help="Which one, if a home has it in several layouts."
)
@click.option(
    "--dialect",
    type=click.Choice(("keep", "native")),
    default="keep",
    show_default=True,
    help="Keep records as they are, or tell them in the dialect at home in the layout. "
    "Going to claude they are always told.",
)
@click.option(
    "--project",
    metavar="DIR",
    help="The directory it worked in.  [default: as its records say, else the current one]",
)
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    layout: LayoutName,
    into: str,
    source: LayoutName | None,
    dialect: DialectChoice,
    project: str | None,
) -> int:
    """Copy a session into another layout. The old session is not touched.

    Nothing is lost: converted back, its records are what they were, byte for byte. Subagents' logs
    go along; todos, plans and file history stay where they are.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.formats import all_homes
    from turnlog.sessions.convert.convert import convert
    from turnlog.sessions.session import Session

    session = _in_layout(Session.find(all_homes(homes), name), source)
    done = convert(session, into, layout, dialect=dialect, project=project)
    document = ConvertDocument(
        id=done.id,
        layout=done.layout,
        paths=[str(path) for path in done.paths],
        converted_from=session.id,
        records=done.records,
        rewritten=done.rewritten,
        damage=done.damage,
        subagents=done.subagents,
    )
    if as_json:
        show_json(document)
    else:
        _show(document)
    return 1 if done.damage else 0


def _in_layout(session: Session, layout: LayoutName | None) -> Session:
    from turnlog.errors import NotFound
    from turnlog.sessions.session import Session

    if layout is None:
        return session
    logs = [log for log in session.logs if log.kind == "subagent" or log.layout == layout]
    chosen = Session(session.id, logs)
    if not chosen.main_logs:
        there = ", ".join(sorted({log.layout for log in session.logs if log.kind != "subagent"}))
        raise NotFound(
            f"session {session.id} has no log in the layout {layout}", hint=f"it has one in {there}"
        )
    return chosen


def _show(document: ConvertDocument) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    subagents = f", {counted(document.subagents, 'subagent')}" if document.subagents else ""
    records = counted(document.records, "record")
    out.print(f"[green]✓[/] {safe(document.id)} with {records}{subagents}")
    for path in document.paths[:_SHOWN]:
        out.print(f"  {short_path(path)}", soft_wrap=True)
    if len(document.paths) > _SHOWN:
        out.print(f"  … and {len(document.paths) - _SHOWN:,} more days")
    if document.rewritten:
        told = counted(document.rewritten, "record")
        out.print(f"[dim]{told} told in another dialect; what they were is kept[/]")
    if document.damage:
        ranges = counted(document.damage, "damaged range")
        out.print(f"[yellow]![/] {ranges} held no record and stayed behind")
        out.print(f"[dim]hint: turnlog check {safe(document.converted_from)} shows them[/]")
    if command := format_named(document.layout).resume_command(document.id):
        out.print(f"[dim]hint: go on with: {safe(shlex.join(command))}[/]")
