"""``turnlog delete``: sessions, moved to the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from turnlog.cli.options import home_option, json_option, show_json
from turnlog.keep.trash.delete import Deletion

if TYPE_CHECKING:
    from rich.console import Console

_TITLE: Final = 36


@click.command(
    name="delete",
    epilog="""\b
Examples:
  turnlog delete 5f0c                  to the trash, with all that belongs to it
  turnlog trash restore 5f0c           and back
  turnlog trash                        what is there, and until when
A session that is running is not deleted. Deleting one twice is fine.""",
)
@click.argument("names", metavar="SESSION...", nargs=-1, required=True)
@home_option
@json_option
def command(names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool) -> int:
    """Move sessions to the trash: logs, subagents, todos, file history, kept copies, all of it.

    Nothing is lost: the trash keeps them for 30 days, and longer until it is emptied. Plans and the
    history of prompts are shared between sessions and stay.

    SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.api.store import Store
    from turnlog.formats import all_homes, turnlog_home

    store = Store(all_homes(homes), turnlog_home())
    document = DeleteDocument(sessions=[])
    try:
        for name in names:
            document.sessions.append(store.delete(name))
    finally:  # What was deleted before a mistake is told as well.
        if as_json:
            show_json(document)
        else:
            _show(document.sessions)
    return 0


class DeleteDocument(Struct, kw_only=True):
    """What `turnlog delete --json` prints."""

    sessions: list[Deletion]


def _show(deletions: list[Deletion]) -> None:
    from turnlog.cli.terminal.console import console

    out = console()
    for each in deletions:
        _show_one(out, each)


def _show_one(out: Console, deletion: Deletion) -> None:
    from turnlog.cli.terminal.console import counted, day, one_line, safe, short_path, size

    name = f"[bold]{safe(deletion.id[:8])}[/]"
    title = f": {safe(one_line(deletion.title, _TITLE, out.width))}" if deletion.title else ""
    if deletion.was_deleted:
        out.print(f"[green]✓[/] {name} was deleted before{title}", soft_wrap=True)
        if not deletion.entries:
            out.print("  [dim]the trash has been emptied of it since[/]")
            return
    else:
        told = f"{counted(deletion.files, 'file')}, {size(deletion.size_bytes)}"
        out.print(f"[green]✓[/] {name} is in the trash{title} [dim]({told})[/]", soft_wrap=True)
    for left in deletion.left:
        path = short_path(left.path)
        out.print(f"  [yellow]•[/] left alone: {path} [dim]{safe(left.reason)}[/]", soft_wrap=True)
    if deletion.purge_after_at is not None:
        until = day(deletion.purge_after_at)
        undo = f"turnlog trash restore {safe(deletion.id[:8])}"
        out.print(f"  [dim]hint: {undo} puts it back, until {until} at least[/]", soft_wrap=True)
