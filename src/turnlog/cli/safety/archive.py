"""``turnlog archive`` and ``turnlog unarchive``."""

from __future__ import annotations

import click

from turnlog.api.homes import all_homes
from turnlog.api.keep.restore import Refused, archive_sessions
from turnlog.cli.hints import hint_of
from turnlog.cli.options import home_option, json_option, show_json, yes_option
from turnlog.cli.terminal.console import console, counted, safe, size


@click.command(
    name="archive",
    epilog="""\b
Examples:
  turnlog archive 5f0c                  compress a session, hide it from lists
  turnlog archive 5f0c --remove --yes   also delete the original files
  turnlog sessions --is archived        list archived sessions
  turnlog restore 5f0c                  undo
Exit codes: 0 success, 1 a session was skipped, 2 usage error, 3 failure.""",
)
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@home_option
@json_option
@click.option(
    "--remove",
    is_flag=True,
    help="Delete the original files after verifying the archive. Always on in a flat store.",
)
@yes_option
def command(
    names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool, remove: bool, yes: bool
) -> int:
    """Compress sessions and hide them from lists.

    Archived sessions still work with show, search, cost and fork; resuming one unarchives it.
    Without --remove, the original files stay in place. Running sessions cannot be archived.

    SESSION is the beginning of a session ID, or "latest".
    """
    document = archive_sessions(
        all_homes(homes), names, remove=(remove and yes) or None, hint_of=hint_of
    )
    done, refused = document.sessions, document.refused
    if as_json:
        show_json(document)
        return 1 if refused else 0
    out = console()
    for row in done:
        verb = "was already archived" if row.was_archived else "archived"
        verb += ", originals deleted" if row.removed and not row.was_archived else ""
        sign = "[dim]·[/]" if row.was_archived else "[green]✓[/]"
        what = f"{counted(row.files, 'file')}, {_sizes(row.size_bytes, row.packed_bytes)}"
        out.print(f"{sign} [bold]{safe(row.id[:8])}[/] {verb}: {what}")
    if len(done) > 1:
        sizes = _sizes(sum(row.size_bytes for row in done), sum(row.packed_bytes for row in done))
        files = counted(sum(row.files for row in done), "file")
        out.print(f"  {counted(len(done), 'session')}, {files}, {sizes}")
    _show_refused(refused)
    if any(not row.removed for row in done):
        how = "run again with --yes to delete" if remove else "--remove --yes deletes"
        out.print(f"[dim]hint: the original files are still in place; {how} them[/]")
    return 1 if refused else 0


@click.command(
    name="unarchive",
    epilog="""\b
Examples:
  turnlog unarchive 5f0c
  turnlog sessions --is archived        list archived sessions
Exit codes: 0 success, 1 a session was skipped, 2 usage error, 3 failure.""",
)
@click.argument("names", metavar="SESSION…", nargs=-1, required=True)
@home_option
@json_option
def unarchive_command(names: tuple[str, ...], homes: tuple[str, ...], *, as_json: bool) -> int:
    """Restore archived sessions to their original location, byte for byte: as turnlog restore.

    Missing files are restored and verified before an archive is deleted. Existing files are never
    overwritten, and copies in turnlog's own home stay.

    SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.cli.safety.restore import restore_named

    return restore_named(names, homes, as_json=as_json)


def _show_refused(refused: list[Refused]) -> None:
    out = console()
    for row in refused:
        out.print(f"[red]✗[/] [bold]{safe(row.session[:8])}[/] {safe(row.reason)}")
        if row.hint:
            out.print(f"  [dim]hint: {safe(row.hint)}[/]")


def _sizes(size_bytes: int, packed_bytes: int) -> str:
    if not size_bytes:
        return "empty"
    return f"{size(size_bytes)} → {size(packed_bytes)} ({packed_bytes / size_bytes:.0%})"
