"""What `archive` and `unarchive` share: several sessions, one after the other, and how it went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from turnlog.api.session import KeptSession
from turnlog.cli.hints import hint_of
from turnlog.cli.terminal.console import console, counted, safe, short_path, size
from turnlog.errors import StorageFull, TurnlogError
from turnlog.formats import all_homes
from turnlog.keep.archive.archive import Archived, Unarchived
from turnlog.keep.restore.restore import Refused

T = TypeVar("T")


def each_session(
    names: Sequence[str], homes: tuple[str, ...], act: Callable[[KeptSession], T]
) -> tuple[list[T], list[Refused]]:
    """Find the sessions called *names*, all of them first, and do something to each.

    One that is refused keeps none of the others from it; of a single one the error is raised.
    """
    found_homes = all_homes(homes)
    found = [KeptSession.find(found_homes, name) for name in names]
    sessions = {session.id: session for session in found}
    done: list[T] = []
    refused: list[Refused] = []
    for session in sessions.values():
        try:
            done.append(act(session))
        except StorageFull:
            raise  # There is room for none of the others either.
        except TurnlogError as error:
            if len(sessions) == 1:
                raise
            refused.append(Refused(session=session.id, reason=error.message, hint=hint_of(error)))
    return done, refused


def show_archived(done: list[Archived], refused: list[Refused]) -> None:
    """Say what was archived, and how small it is now."""
    out = console()
    for each in done:
        verb = "was archived before" if each.was_archived else "archived"
        verb += ", originals removed" if each.removed and not each.was_archived else ""
        sign = "[dim]·[/]" if each.was_archived else "[green]✓[/]"
        what = f"{counted(each.files, 'file')}, {_sizes(each.size_bytes, each.packed_bytes)}"
        out.print(f"{sign} [bold]{safe(each.id[:8])}[/] {verb}: {what}")
    if len(done) > 1:
        sizes = _sizes(sum(e.size_bytes for e in done), sum(e.packed_bytes for e in done))
        files = counted(sum(each.files for each in done), "file")
        out.print(f"  {counted(len(done), 'session')}, {files}, {sizes}")
    _show_refused(refused)
    if any(not each.removed for each in done):
        out.print("[dim]hint: the originals are in place; --remove takes them away[/]")


def show_unarchived(done: list[Unarchived], refused: list[Refused]) -> None:
    """Say what is back, and where."""
    out = console()
    for each in done:
        name = f"[bold]{safe(each.id[:8])}[/]"
        if not each.was_archived:
            out.print(f"[dim]·[/] {name} is not archived")
        elif each.files:
            out.print(f"[green]✓[/] {name} is back: {counted(each.files, 'file')}")
        else:
            out.print(f"[green]✓[/] {name} is back in lists; its files were in place")
        out.print(f"  [dim]{short_path(each.path)}[/]", soft_wrap=True)
    _show_refused(refused)


def _show_refused(refused: list[Refused]) -> None:
    out = console()
    for each in refused:
        out.print(f"[red]✗[/] [bold]{safe(each.session[:8])}[/] {safe(each.reason)}")
        if each.hint:
            out.print(f"  [dim]hint: {safe(each.hint)}[/]")


def _sizes(size_bytes: int, packed_bytes: int) -> str:
    if not size_bytes:
        return "nothing in them"
    return f"{size(size_bytes)} → {size(packed_bytes)} ({packed_bytes / size_bytes:.0%})"
