"""How the trash is shown."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnlog.cli.trash import TrashDocument, TrashRow

_TITLE_AT_LEAST = 16


def show(document: TrashDocument, what: str, now: datetime, *, nothing: str = "") -> None:
    """List entries, and say what becomes of them; *nothing* if there are none at all."""
    from turnlog.cli.terminal import console, counted, safe, short_path, size

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
    from turnlog.cli.terminal import console, counted, safe, short_path

    out = console()
    for row in document.entries:
        files = counted(row.files, "file")
        where = short_path(row.home)
        out.print(f"[green]✓[/] [bold]{safe(row.session[:8])}[/] is back in {where}: {files}")


def _table(rows: list[TrashRow], now: datetime, width: int) -> Any:
    from rich.table import Table

    from turnlog.cli.terminal import age, at_most, day, safe, short_path, size, titled
    from turnlog.formats.homes import all_home_paths
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
