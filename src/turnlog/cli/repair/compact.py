"""``turnlog compact``: make the logs of a session smaller, and undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from rich.table import Table

from turnlog.api import repair
from turnlog.cli.options import dry_run, home_option, json_option, line_cap, show_json, yes_option
from turnlog.cli.terminal.console import console, counted, safe, short_path, show_some, size

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN: Final = 5
_MEANING: Final = {
    repair.Rule.DUPLICATES: "duplicate lines",
    repair.Rule.STATES: "replaced titles and modes",
    repair.Rule.ECHOES: "progress repeated in subagent logs",
    repair.Rule.BLOBS: "long results, moved to blobs",
}


@click.command(
    name="compact",
    epilog="""\b
Examples:
  turnlog compact 5f0c                show how much space can be saved
  turnlog compact 5f0c --yes          compact the session
  turnlog compact 5f0c --undo --yes   restore the original lines
Exit codes: 0 success, 1 a line cannot be restored, 2 usage error, 3 failure.""",
)
@click.argument("name", metavar="SESSION")
@home_option
@json_option
@yes_option
@click.option(
    "--blobs",
    is_flag=True,
    help="Also move long tool results to separate files, as always in turnlog's own home. turnlog "
    "reads them; Claude Code resumes such a session without them until --undo.",
)
@click.option("--undo", "is_undoing", is_flag=True, help="Undo: restore the original.")
def command(
    name: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    yes: bool,
    blobs: bool,
    is_undoing: bool,
) -> int:
    """Make the logs of a session smaller without changing what you or an agent see.

    Removes duplicate lines, titles and modes that were replaced later, and progress records that
    a subagent's own log repeats. All views of the session are compared before and after, and the
    original log is kept next to the new one. Running sessions are skipped.

    SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.api.homes import all_homes

    found, cap = all_homes(homes), line_cap()
    if is_undoing:
        undone = repair.undo_compaction(found, name, cap=cap, write=yes)
        if as_json:
            show_json(repair.undo_document(undone))
        else:
            _show_undo(undone, write=yes)
        return 1 if undone.lost else 0
    done = repair.compact_session(found, name, cap=cap, write=yes, blobs=blobs or None)
    if as_json:
        show_json(repair.compact_document(done))
    else:
        _show(done, write=yes)
    return 0


def _show(done: repair.Compaction, *, write: bool) -> None:
    out = console()
    logs = counted(len(done.logs), "log")
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{logs}, {size(done.size_bytes)}[/]")
    for log in done.logs:
        for skipped in log.left_out:
            out.print(
                f"  [yellow]![/] {short_path(log.path)}: {_MEANING[skipped.rule]} not removed;"
                f" it would change: {safe(', '.join(skipped.views))}",
                soft_wrap=True,
            )
    if not done.needed:
        out.print("  [green]✓[/] nothing to compact")
        return
    out.print(_table(done))
    share = 100 * done.saved_bytes / max(1, done.size_bytes)
    saved = f"{size(done.saved_bytes)} ({share:.1f}%)"
    left = f"new size {size(done.size_bytes - done.saved_bytes)}"
    if not write:
        out.print(f"  would save {saved}; {left}")
        out.print(dry_run("compact it"))
        return
    out.print(f"  [green]✓[/] saved {saved}; {left}; all views unchanged")
    originals = [log.original for log in done.logs if log.original is not None]
    _show_originals(out, originals)
    them = "it" if len(originals) == 1 else "them"
    out.print(f"[dim]hint: --undo restores the original; delete {them} to free the space[/]")


def _show_undo(done: repair.CompactionUndo, *, write: bool) -> None:
    out = console()
    out.print(f"[bold]{safe(done.session)}[/]  [dim]{counted(len(done.logs), 'log')}[/]")
    changed = [log for log in done.logs if log.needed]
    for log in changed[:_SHOWN]:
        sources = ((log.lines, "the original log"), (log.blobs, "blobs"))
        parts = [f"{counted(count, 'line')} from {name}" for count, name in sources if count]
        sizes = f"{size(log.size_bytes)} → {size(log.new_size_bytes)}"
        verb = "[green]✓[/] restored" if log.written else "would restore"
        out.print(f"  {short_path(log.path)}", soft_wrap=True)
        out.print(f"    {verb} {' and '.join(parts)}: {sizes}")
    if len(changed) > _SHOWN:
        out.print(f"  [dim]… and {len(changed) - _SHOWN:,} more logs[/]")
    for log in done.logs:
        for reason in log.lost[:_SHOWN]:
            out.print(f"  [red]✗[/] {short_path(log.path)}: {safe(reason)}", soft_wrap=True)
    if not changed and not done.lost:
        out.print("  [green]✓[/] not compacted: nothing to undo")
    elif changed and not write:
        out.print(dry_run("restore it"))
    originals = [path for log in done.logs if log.written for path in log.originals]
    _show_originals(out, originals)
    if originals:
        them = "it" if len(originals) == 1 else "them"
        out.print(f"[dim]hint: delete {them} to free the space; the log is complete again[/]")
    if done.lost:
        out.print("[dim]hint: a kept copy may have the blob: turnlog restore SESSION[/]")


def _show_originals(out: Console, paths: list[str]) -> None:
    show_some(
        out, [f"[dim]original log: {short_path(path)}[/]" for path in paths], _SHOWN, indent="  "
    )


def _table(done: repair.Compaction) -> Table:
    table = Table(box=None, padding=(0, 0, 0, 2))
    table.add_column("removed", no_wrap=True)
    for title in ("lines", "log", "in blobs"):
        table.add_column(title, justify="right", no_wrap=True)
    for rule in repair.Rule:
        found = [saving for log in done.logs for saving in log.savings if saving.rule is rule]
        if found:
            blobs = sum(saving.blob_bytes for saving in found)
            table.add_row(
                _MEANING[rule],
                f"{sum(saving.lines for saving in found):,}",
                f"-{size(sum(saving.size_bytes for saving in found))}",
                f"+{size(blobs)}" if blobs else "",
            )
    return table
