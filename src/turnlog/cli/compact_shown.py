"""How a compaction, and its undoing, look on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from turnlog.cli.terminal import console, counted, safe, short_path, size
from turnlog.keep.compaction.rules import Rule

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.keep.compaction.compact import Compaction
    from turnlog.keep.compaction.undo import CompactionUndo, UndoneLog

_SHOWN: Final = 5
_MEANING: Final = {
    Rule.DUPLICATES: "lines that stand there twice",
    Rule.STATES: "titles and modes replaced since",
    Rule.ECHOES: "progress told in an agent's log",
    Rule.BLOBS: "long results, moved to blobs",
}


def show_compaction(done: Compaction, *, write: bool) -> None:
    """Say what was, or would be, saved, rule by rule."""
    out = console()
    logs = counted(len(done.logs), "log")
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{logs}, {size(done.size_bytes)}[/]")
    _left_out(out, done)
    if not done.needed:
        out.print("  [green]✓[/] nothing to gain")
        return
    out.print(_table(done))
    share = 100 * done.saved_bytes / max(1, done.size_bytes)
    left = size(done.size_bytes - done.saved_bytes)
    saved = f"{size(done.saved_bytes)} ({share:.1f}%), {left} are left"
    if not write:
        out.print(f"  would save {saved}")
        out.print("[dim]hint: nothing was changed; --write does it[/]")
        return
    out.print(f"  [green]✓[/] saved {saved}; every view of the session is as it was")
    originals = [log.original for log in done.logs if log.original is not None]
    for path in originals[:_SHOWN]:
        out.print(f"  [dim]the log as it was: {short_path(path)}[/]", soft_wrap=True)
    if len(originals) > _SHOWN:
        out.print(f"  [dim]… and {len(originals) - _SHOWN:,} more beside the agents' logs[/]")
    them = "it" if len(originals) == 1 else "them"
    out.print(f"[dim]hint: --undo puts all back; removing {them} gains the room, and ends that[/]")


def show_undoing(done: CompactionUndo, *, write: bool) -> None:
    """Say what was, or would be, put back."""
    out = console()
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{counted(len(done.logs), 'log')}[/]")
    back = [log for log in done.logs if log.needed]
    for log in back[:_SHOWN]:
        out.print(f"  {short_path(log.path)}", soft_wrap=True)
        out.print(f"    {_back(log)}")
    if len(back) > _SHOWN:
        out.print(f"  [dim]… and {len(back) - _SHOWN:,} more logs[/]")
    for log in done.logs:
        for why in log.lost[:_SHOWN]:
            out.print(f"  [red]✗[/] {short_path(log.path)}: {safe(why)}", soft_wrap=True)
    if not back and not done.lost:
        out.print("  [green]✓[/] nothing was taken out of it")
    elif back and not write:
        out.print("[dim]hint: nothing was changed; --write does it[/]")
    _still_there(out, [path for log in done.logs if log.written for path in log.originals])
    if done.lost:
        out.print("[dim]hint: a kept copy may have the blob: turnlog restore SESSION[/]")


def _still_there(out: Console, originals: list[str]) -> None:
    """Say what was put back and lies there still: to undo removes nothing, as nothing else does."""
    for path in originals[:_SHOWN]:
        out.print(f"  [dim]still there: {short_path(path)}[/]", soft_wrap=True)
    if len(originals) > _SHOWN:
        out.print(f"  [dim]… and {len(originals) - _SHOWN:,} more[/]")
    if originals:
        it = "it" if len(originals) == 1 else "them"
        out.print(f"[dim]hint: removing {it} gains the room; the log holds all of {it} again[/]")


def _back(log: UndoneLog) -> str:
    """Say where the lines of a log come back from."""
    sources = ((log.lines, "the log as it was"), (log.blobs, "blobs"))
    parts = [f"{counted(count, 'line')} from {name}" for count, name in sources if count]
    sizes = f"{size(log.size_bytes)} become {size(log.new_size_bytes)}"
    if log.written:
        return f"[green]✓[/] {' and '.join(parts)} put back: {sizes}"
    return f"{' and '.join(parts)} would be put back: {sizes}"


def _table(done: Compaction) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2))
    table.add_column("what goes", no_wrap=True)
    for title in ("lines", "log", "in blobs"):
        table.add_column(title, justify="right", no_wrap=True)
    for rule in Rule:
        found = [each for log in done.logs for each in log.savings if each.rule is rule]
        if found:
            blobs = sum(each.blob_bytes for each in found)
            table.add_row(
                _MEANING[rule],
                f"{sum(each.lines for each in found):,}",
                f"-{size(sum(each.size_bytes for each in found))}",
                f"+{size(blobs)}" if blobs else "",
            )
    return table


def _left_out(out: Console, done: Compaction) -> None:
    for log in done.logs:
        for each in log.left_out:
            views = safe(", ".join(each.views))
            out.print(
                f"  [yellow]![/] {short_path(log.path)}: {_MEANING[each.rule]} stay, since these "
                f"would look different: {views}",
                soft_wrap=True,
            )
