"""``turnlog trash``: list, restore and purge deleted sessions."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from turnlog.cli import options
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from rich.table import Table

    from turnlog.api.keep.trash import TrashDocument, TrashRow

Action = Literal["list", "restore", "empty"]


@click.command(
    name="trash",
    epilog="""\b
Examples:
  turnlog trash                     list deleted sessions
  turnlog trash restore 5f0c        restore a session, as turnlog restore does
  turnlog trash empty               show what would be deleted permanently
  turnlog trash empty --yes         delete it
Exit codes: 0 success, 1 nothing found, 2 usage error, 3 failure.""",
)
@click.argument(
    "action", type=click.Choice(["list", "restore", "empty"]), default="list", metavar="[ACTION]"
)
@click.argument("name", required=False, metavar="[SESSION]")
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Only sessions deleted from this home; repeatable.",
)
@options.json_option
@options.csv_option
@options.since_option
@options.until_option
@click.option(
    "--all", "is_all", is_flag=True, help="With empty: include sessions in the grace period."
)
@options.yes_option
def command(
    action: Action,
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    since: datetime | None,
    until: datetime | None,
    is_all: bool,
    yes: bool,
) -> int:
    """List deleted sessions, restore them, or delete them permanently.

    ACTION is list, restore or empty. SESSION is the beginning of a session ID, "latest" for the
    session deleted last, or an entry name from --json. Restoring never overwrites a different file.
    Emptying deletes only sessions whose grace period is over: 30 days, or grace_days under
    [retention] in config.toml.
    """
    from turnlog.api.keep.trash import TrashRow, find_trashed

    _check_options(action, name, as_csv=as_csv, is_all=is_all, yes=yes)
    selection = find_trashed(homes, name=name, since=since, until=until)
    nothing = ""
    if not selection.entries:
        is_filtered = bool(homes or since or until)
        nothing = "Nothing in the trash matches." if is_filtered else "The trash is empty."
    if action == "restore":
        from turnlog.cli.safety.restore import restore_named

        # The latest is the one that was deleted last; the trash has it first.
        chosen = selection.entries[0].name if name == "latest" else str(name)
        return restore_named((chosen,), homes, as_json=as_json)
    if action == "empty":
        document = selection.empty(everything=is_all, write=yes)
    else:
        document = selection.document()
    if not show_data(document, TrashRow, document.entries, as_json=as_json, as_csv=as_csv):
        _show(document, action, nothing)
    return 0 if document.entries else 1


def _check_options(
    action: Action, name: str | None, *, as_csv: bool, is_all: bool, yes: bool
) -> None:
    if action == "restore" and name is None:
        raise click.UsageError("restore needs a session: turnlog trash restore SESSION")
    if action == "restore" and as_csv:
        raise click.UsageError("restore does not support --csv; use --json")
    if action != "empty" and (is_all or yes):
        raise click.UsageError("--all and --yes only work with: turnlog trash empty")


def _show(document: TrashDocument, action: Action, nothing: str) -> None:
    """Print the entries and the result; *nothing* says why there are no entries at all."""
    from turnlog.cli.terminal.console import console, counted, safe, short_path, size

    out = console()
    rows = document.entries
    total = f"{counted(len(rows), 'entry', 'entries')}, {size(sum(row.size_bytes for row in rows))}"
    if nothing:
        out.print(nothing)
    elif not rows:
        out.print("Nothing to delete: every session is still in its grace period.")
        if not document.written:
            out.print("[dim]hint: turnlog trash lists them; --all includes them[/]")
    elif document.written:
        out.print(f"[green]✓[/] {total}, deleted permanently")
    else:
        out.print(_table(rows, out.width))
        if action == "empty":
            out.print(f"{total}, would be deleted permanently.")
            out.print(options.dry_run("delete them"))
        else:
            out.print("[dim]hint: turnlog restore SESSION restores a session[/]")
    for problem in document.problems:
        path, reason = short_path(problem.path), safe(problem.reason)
        out.print(f"[yellow]•[/] skipped: {path} [dim]{reason}[/]", soft_wrap=True)


def _table(rows: list[TrashRow], width: int) -> Table:
    from turnlog.api.homes import all_homes
    from turnlog.api.keep.trash import ORPHANED
    from turnlog.cli.terminal.console import age, at_most, day, safe, short_path, size, titled
    from turnlog.cli.terminal.output import fixed_table

    now = datetime.now(UTC)
    usual = {os.path.realpath(home) for home in all_homes()}
    reason = max(6, *(min(at_most(24 if width >= 120 else 9, width), len(row.why)) for row in rows))
    widths = {"session": 8, "deleted": 10, "purge after": 11, "reason": reason, "files": 5}
    table = fixed_table({**widths, "size": 9}, "title", width, right=("deleted", "files", "size"))
    for row in rows:
        untitled = "left by a session" if row.why == ORPHANED else "untitled"
        title = titled(row.title) if row.title else f"[dim]{untitled}[/]"
        more = f" [dim]+{len(row.others)} more[/]" if row.others else ""
        # Restoring writes there, and someone else may have written the entry.
        more += "" if row.home in usual else f" [yellow]from {short_path(row.home)}[/]"
        until = day(row.purge_after_at)
        table.add_row(
            f"[bold]{safe(row.session[:8])}[/]",
            age(now, row.deleted_at),
            f"[yellow]{until}[/]" if row.is_due else until,
            safe(row.why),
            f"{row.files:,}",
            size(row.size_bytes),
            title + more,
        )
    return table
