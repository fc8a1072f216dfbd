"""``turnlog trash``: what was deleted, put back or removed for good.

How the trash is shown.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import Struct, field

from turnlog.cli.options import (
    csv_option,
    json_option,
    show_json,
    since_option,
    until_option,
    write_option,
)
from turnlog.records.dates import is_between

if TYPE_CHECKING:
    from turnlog.keep.trash.trash import Trash, TrashedSession


What = Literal["list", "restore", "empty"]


@click.command(
    name="trash",
    epilog="""\b
Examples:
  turnlog trash                     what is there, and until when
  turnlog trash restore 5f0c        put a session back where it was
  turnlog trash empty               what has been there long enough to go
  turnlog trash empty --write       remove that for good
Exit code: 0 done, 1 there is nothing, 2 a mistake, 3 a failure.""",
)
@click.argument(
    "what", type=click.Choice(["list", "restore", "empty"]), default="list", metavar="[WHAT]"
)
@click.argument("name", required=False, metavar="[SESSION]")
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Only what lay in this home; may be given several times.",
)
@json_option
@csv_option
@since_option
@until_option
@click.option("--all", "is_all", is_flag=True, help="With empty: also what came lately.")
@write_option
def command(
    what: What,
    name: str | None,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    since: datetime | None,
    until: datetime | None,
    is_all: bool,
    write: bool,
) -> int:
    """List what was deleted, put it back, or remove it for good.

    WHAT is list, restore or empty. SESSION is the beginning of a session's id, "latest" for what
    was deleted last, or the name of an entry as --json gives it. Restoring never overwrites a
    different file. Emptying, which shows first what would go, removes only what has been in the
    trash longer than the time of grace: 30 days, or [retention] grace_days in config.toml.
    """
    from turnlog.errors import NotFound
    from turnlog.formats import Problem, turnlog_home
    from turnlog.keep.trash.trash import Trash

    _check(what, name, as_csv=as_csv, is_all=is_all, write=write)
    trash, now = Trash(turnlog_home()), datetime.now(UTC)
    problems: list[Problem] = []
    found = [
        each
        for each in trash.entries(problems)
        if _is_of(each, homes) and is_between(each.entry.deleted_at, since, until)
    ]
    is_narrowed = bool(homes or since or until)
    nothing = (
        "nothing of that home or time is in the trash" if is_narrowed else "the trash is empty"
    )
    if not found and name is not None:
        raise NotFound(nothing, hint="turnlog trash shows what is there")
    if name is not None:
        from turnlog.keep.trash.delete import trashed_named

        found = trashed_named(found, name)
    if what == "restore":
        return _restore(trash, found, as_json=as_json)
    is_bare = not found
    if what == "empty":
        found = [each for each in found if is_all or each.is_due(now)]
        reasons = [(each, trash.why_unfinished(each)) for each in found]
        found = [each for each, reason in reasons if reason is None]
        problems += [Problem(trash.path / each.name, reason) for each, reason in reasons if reason]
        if write:
            _purge(trash, found)
    document = TrashDocument(
        entries=[_row(each, now) for each in found],
        written=write,
        problems=[TrashProblem(path=str(each.path), reason=each.reason) for each in problems],
    )
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(TrashRow, document.entries)
    else:
        show(document, what, now, nothing=nothing if is_bare else "")
    return 0 if found else 1


class TrashRow(Struct, kw_only=True):
    """Something deleted together."""

    name: str
    session: str
    others: list[str]
    """More sessions that went with it, since they shared its logs."""
    home: str
    title: str | None
    why: str
    deleted_at: datetime
    purge_after_at: datetime
    is_due: bool
    """Emptying the trash removes it."""
    files: int
    size_bytes: int


class TrashProblem(Struct, kw_only=True):
    """Something in the trash that cannot be read; it stays."""

    path: str
    reason: str


class TrashDocument(Struct, kw_only=True):
    """What `turnlog trash --json` prints: the entries that are there, were put back, or go."""

    entries: list[TrashRow]
    next: int | None = None
    written: bool = False
    """They were put back, or removed for good."""
    problems: list[TrashProblem] = field(default_factory=list)


def _check(what: What, name: str | None, *, as_csv: bool, is_all: bool, write: bool) -> None:
    if what == "restore" and name is None:
        raise click.UsageError("restore what? Give the beginning of a session's id")
    if what == "restore" and as_csv:
        raise click.UsageError("--csv is for what is listed; --json tells what is back")
    if what != "empty" and (is_all or write):
        raise click.UsageError("--all and --write belong to: turnlog trash empty")


def _is_of(trashed: TrashedSession, homes: tuple[str, ...]) -> bool:
    import os

    return not homes or trashed.entry.home in {os.path.realpath(each) for each in homes}


def _restore(trash: Trash, found: list[TrashedSession], *, as_json: bool) -> int:
    from turnlog.keep.trash.delete import restore_session_from_trash

    now = datetime.now(UTC)
    restore_session_from_trash(trash, found)
    document = TrashDocument(entries=[_row(each, now) for each in found], written=True)
    if as_json:
        show_json(document)
    else:
        show_restored(document)
    return 0


def _purge(trash: Trash, found: list[TrashedSession]) -> None:
    for each in found:
        trash.purge(each)
    trash.tidy()


def _row(trashed: TrashedSession, now: datetime) -> TrashRow:
    entry = trashed.entry
    return TrashRow(
        name=trashed.name,
        session=entry.session,
        others=entry.others,
        home=entry.home,
        title=entry.title,
        why=entry.why,
        deleted_at=entry.deleted_at,
        purge_after_at=entry.purge_after_at,
        is_due=trashed.is_due(now),
        files=len(entry.files),
        size_bytes=entry.size_bytes,
    )


_TITLE_AT_LEAST = 16


def show(document: TrashDocument, what: str, now: datetime, *, nothing: str = "") -> None:
    """List entries, and say what becomes of them; *nothing* if there are none at all."""
    from turnlog.cli.terminal.console import console, counted, safe, short_path, size

    out = console()
    rows = document.entries
    total = size(sum(row.size_bytes for row in rows))
    if not rows:
        told = nothing or "nothing has been in the trash long enough"
        out.print(f"{told[0].upper()}{told[1:]}.")
        if not nothing and not document.written:
            out.print("[dim]hint: turnlog trash shows what is there; --all takes that, too[/]")
    elif document.written:
        out.print(f"[green]✓[/] {counted(len(rows), 'deletion')}, {total}, removed for good")
    else:
        out.print(_table(rows, now, out.width))
        if what == "empty":
            out.print(f"{counted(len(rows), 'deletion')}, {total}, would be removed for good.")
            out.print("[dim]hint: nothing was changed; --write does it[/]")
        else:
            out.print("[dim]hint: turnlog trash restore SESSION puts one back[/]")
    for problem in document.problems:
        path = short_path(problem.path)
        out.print(
            f"[yellow]•[/] stays: {path} [dim]{safe(problem.reason)}[/]",
            soft_wrap=True,
        )


def show_restored(document: TrashDocument) -> None:
    """Say what is back, and where."""
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    for row in document.entries:
        files = counted(row.files, "file")
        where = short_path(row.home)
        out.print(f"[green]✓[/] [bold]{safe(row.session[:8])}[/] is back in {where}: {files}")


def _table(rows: list[TrashRow], now: datetime, width: int) -> Any:
    from rich.table import Table

    from turnlog.cli.terminal.console import age, at_most, day, safe, short_path, size, titled
    from turnlog.formats.home_paths import all_home_paths
    from turnlog.keep.retention.retention import ORPHANED

    usual = {os.path.realpath(each) for each in all_home_paths()}

    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    # Fixed widths but for the last column: rich would shrink them all alike, down to nothing.
    why = max(3, *(min(at_most(24 if width >= 120 else 9, width), len(row.why)) for row in rows))
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("deleted", justify="right", no_wrap=True, width=10)
    table.add_column("stays until", no_wrap=True, width=11)
    table.add_column("why", no_wrap=True, overflow="ellipsis", width=why)
    table.add_column("files", justify="right", no_wrap=True, width=5)
    table.add_column("size", justify="right", no_wrap=True, width=9)
    room = max(_TITLE_AT_LEAST, width - 8 - 10 - 11 - why - 5 - 9 - 12)
    table.add_column("what it was", no_wrap=True, overflow="ellipsis", max_width=room)
    for row in rows:
        untitled = "left by a session" if row.why == ORPHANED else "untitled"
        title = titled(row.title) if row.title else f"[dim]{untitled}[/]"
        more = f" [dim]+{len(row.others)} more[/]" if row.others else ""
        # Restoring writes there, and somebody else may have written the entry.
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
