"""``turnlog delete``: move sessions to the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import dry_run, home_option, json_option, show_json, yes_option

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.keep.trash import Deletion


@click.command(
    name="delete",
    epilog="""\b
Examples:
  turnlog delete 5f0c                  show what would be deleted
  turnlog delete 5f0c --yes            move a session to the trash
  turnlog restore 5f0c                 undo
  turnlog trash                        list the trash
Running sessions cannot be deleted. Deleting a session twice is not an error.""",
)
@click.argument("names", metavar="SESSION...", nargs=-1, required=True)
@home_option
@json_option
@yes_option
def command(names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool, yes: bool) -> int:
    """Move sessions to the trash, with subagents, todos, file history and kept copies.

    Deleted sessions can be restored for at least 30 days, and until the trash is emptied. Plans and
    the prompt history are shared between sessions and are not deleted.

    SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.api.homes import all_homes
    from turnlog.api.keep.trash import DeleteDocument, delete
    from turnlog.cli.terminal.console import console

    found = all_homes(homes)
    document = DeleteDocument(sessions=[])
    try:
        for name in names:
            document.sessions.append(delete(found, name, write=yes))
    finally:  # After an error, still report the sessions deleted before it.
        if as_json:
            show_json(document)
        else:
            out = console()
            for deletion in document.sessions:
                _show(out, deletion)
            pending = [each for each in document.sessions if each.state is None]
            if pending:
                them = "it" if len(pending) == 1 else "them"
                out.print(dry_run(f"move {them} to the trash"))
    return 0


def _show(out: Console, deletion: Deletion) -> None:
    from turnlog.cli.terminal.console import counted, day, one_line, safe, short_path, size

    name = f"[bold]{safe(deletion.id[:8])}[/]"
    title = f": {safe(one_line(deletion.title, 36, out.width))}" if deletion.title else ""
    if deletion.was_deleted:
        out.print(f"[green]✓[/] {name} was already deleted{title}", soft_wrap=True)
        if not deletion.entries:
            out.print("  [dim]it is no longer in the trash[/]")
            return
    else:
        files = f"{counted(deletion.files, 'file')}, {size(deletion.size_bytes)}"
        done = "[green]✓[/] {} moved" if deletion.state else "[yellow]•[/] {} would be moved"
        line = f"{done.format(name)} to the trash{title} [dim]({files})[/]"
        out.print(line, soft_wrap=True)
    for left in deletion.left:
        path = short_path(left.path)
        out.print(f"  [yellow]•[/] not deleted: {path} [dim]{safe(left.reason)}[/]", soft_wrap=True)
    if deletion.purge_after_at is not None:
        until = day(deletion.purge_after_at)
        undo = f"turnlog restore {safe(deletion.id[:8])}"
        out.print(
            f"  [dim]hint: to undo: {undo} (until at least {until})[/]",
            soft_wrap=True,
        )
