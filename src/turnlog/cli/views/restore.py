"""How ``turnlog restore`` shows what it did, and what it could do."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from turnlog.cli.terminal.console import age, console, counted, safe, short_path, size, titled, when
from turnlog.keep.restore.restore import Restored, RestoredFile, RestoreOutcome

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.cli.safety.restore import RestorableRow, RestoreDocument

_MARKS = {"restorable": "[yellow]↺[/]", "kept": "[green]✓[/]"}
_MISSING = "[red]✗[/]"
_SHOWN = 20
_SHOWN_FILES = 5


def show(document: RestoreDocument, to: str | None) -> None:
    """Say what became of each session."""
    out = console()
    if not (document.restored or document.refused or document.others):
        out.print("No session that is kept is meant by that.")
        out.print("[dim]hint: turnlog restore --list shows which are kept[/]")
        return
    one = len(document.restored) + len(document.refused) == 1
    telling = [
        each for each in document.restored if each.written or each.lacking or _is_broken(each)
    ]
    times = Counter(each.session for each in document.restored)
    for each in document.restored if one else telling[:_SHOWN]:
        _show_one(out, each, with_place=times[each.session] > 1)
    if not one and len(telling) > _SHOWN:
        out.print(f"  [dim]… and {len(telling) - _SHOWN:,} more[/]")
    for refused in document.refused[:_SHOWN]:
        out.print(f"[red]✗[/] {safe(refused.reason)}", soft_wrap=True)
        out.print(f"    [dim]hint: {safe(refused.hint)}[/]")
    if len(document.refused) > _SHOWN:
        out.print(f"  [dim]… and {len(document.refused) - _SHOWN:,} more[/]")
    _show_files(out, document.others)
    if not one:
        _sum_up(out, document)
    elif document.restored:
        _go_on(out, document.restored[0], to)


def show_lacking(out: Console, records: int, session: str, homes: Sequence[str] = ()) -> None:
    """Say that a log holds less than was kept, and what to do first."""
    from turnlog.cli.options import home_arguments

    line = shlex.join(["turnlog", "restore", session, "--replace", *home_arguments(tuple(homes))])
    out.print(f"  [red]✗[/] holds less than was kept: {counted(records, 'record')} lost")
    out.print(f"    [dim]hint: put the kept copy in its place: {safe(line)}[/]", soft_wrap=True)


def _is_broken(restored: Restored) -> bool:
    """Return whether nothing was written of a session, and not because all of it is there."""
    return not restored.written and any(
        file.outcome is RestoreOutcome.BROKEN for file in restored.files
    )


def _show_one(out: Console, restored: Restored, *, with_place: bool) -> None:
    counts = Counter(file.outcome for file in restored.files)
    done = {RestoreOutcome.WRITTEN, RestoreOutcome.REPLACED}
    written = [file for file in restored.files if file.outcome in done]
    if written:
        total = size(sum(file.size_bytes for file in written))
        what = f"restored: {counted(len(written), 'file')}, {total}"
        rest = counts[RestoreOutcome.THERE] + counts[RestoreOutcome.NEWER]
        what += f" [dim]({rest:,} {'was' if rest == 1 else 'were'} there)[/]" if rest else ""
    elif _is_broken(restored):
        what = "was not restored: the copies of what is not there do not read back"
    else:
        what = "is there already, and nothing had to be written"
    mark = _MISSING if _is_broken(restored) else "[green]✓[/]"
    out.print(f"{mark} [bold]{safe(restored.session)}[/] {what}")
    if with_place and restored.path is not None:
        out.print(f"    [dim]{short_path(restored.path)}[/]", soft_wrap=True)
    if restored.moved:
        where = short_path(restored.project or "")
        out.print(f"    {counted(restored.moved, 'record')} now say that it works in {where}")
    if restored.elsewhere:
        out.print(
            f"    [dim]{counted(restored.elsewhere, 'record')} made elsewhere stay as they are[/]"
        )
    for file in restored.files:
        if file.aside is not None:
            out.print(f"    the log as it was: {short_path(file.aside)}", soft_wrap=True)
            if file.carried:
                records = counted(file.carried, "record")
                out.print(f"    {records} that only it had were appended to the kept copy")
    if restored.lacking:
        show_lacking(out, restored.lacking, restored.session)
    if counts[RestoreOutcome.NEWER]:
        out.print("    [dim]a log that has grown since it was kept was left as it is[/]")
    _show_files(out, restored.files)


def _show_files(out: Console, files: list[RestoredFile]) -> None:
    """Say which files were not restored as they were kept."""
    odd = [file for file in files if file.detail is not None]
    for file in odd[:_SHOWN_FILES]:
        colour = "red" if file.outcome is RestoreOutcome.BROKEN else "yellow"
        word = "in part" if file.outcome is RestoreOutcome.WRITTEN else file.outcome.value
        out.print(f"    [{colour}]{word}:[/] {safe(file.name)} [dim]{safe(file.detail or '')}[/]")
    if len(odd) > _SHOWN_FILES:
        out.print(f"    [dim]… and {len(odd) - _SHOWN_FILES:,} more[/]")


def _sum_up(out: Console, document: RestoreDocument) -> None:
    written = sum(each.written > 0 for each in document.restored)
    broken = sum(map(_is_broken, document.restored))
    there = len(document.restored) - written - broken
    refused = len(document.refused) + broken
    others = sum(file.outcome is RestoreOutcome.WRITTEN for file in document.others)
    said = [f"{counted(written, 'session')} restored"]
    said += [f"{there:,} already there"] if there else []
    said += [f"[red]{refused:,} not restored[/]"] if refused else []
    said += [f"{counted(others, 'other file')} restored"] if others else []
    out.print(", ".join(said))


def _go_on(out: Console, restored: Restored, to: str | None) -> None:
    if restored.path is None or restored.path.endswith((".gz", ".zst")):
        return
    project = restored.project
    if project is None or os.sep + "projects" + os.sep not in restored.path:
        return
    if not os.path.isdir(project):
        out.print(f"    its directory is not here: {short_path(project)}")
        out.print("    [dim]hint: --project DIR restores it to go on in another[/]")
        return
    home = f"CLAUDE_CONFIG_DIR={shlex.quote(restored.home)} " if to is not None else ""
    line = f"cd {shlex.quote(project)} && {home}claude --resume {restored.session}"
    out.print(f"    go on with: [bold]{safe(line)}[/]", soft_wrap=True)


def show_list(rows: list[RestorableRow], *, with_parts: bool) -> None:
    """Show what can be restored."""
    out = console()
    if not rows:
        out.print("Nothing is kept yet.")
        out.print("[dim]hint: turnlog keep makes copies of all sessions[/]")
        return
    if with_parts:
        for row in rows:
            _show_parts(out, row)
        return
    from rich.table import Table

    now = datetime.now(UTC)
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    # Fixed widths but for the last column: rich would shrink them all alike, down to nothing.
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("", no_wrap=True, width=1)
    table.add_column("active", no_wrap=True, justify="right", width=10)
    table.add_column("size", no_wrap=True, justify="right", width=9)
    room = max(20, out.width - 8 - 1 - 10 - 9 - 8)
    table.add_column("what it is about", overflow="ellipsis", no_wrap=True, max_width=room)
    for row in rows:
        more = f" [dim]{len(row.generations)} generations[/]" if len(row.generations) > 1 else ""
        table.add_row(
            f"[bold]{safe(row.id[:8])}[/]",
            _MARKS.get(row.keeping, _MISSING),
            age(now, row.last_active_at),
            size(row.size_bytes),
            titled(row.title or row.project) + more,
        )
    out.print(table)
    gone = sum(row.keeping == "restorable" for row in rows)
    missing = sum(row.keeping not in _MARKS for row in rows)
    told = f"; [yellow]↺[/] {gone:,} gone from their homes" if gone else ", none gone"
    out.print(f"[dim]{counted(len(rows) - missing, 'session')} kept{told}[/]")
    if missing:
        out.print(
            f"{_MISSING} {counted(missing, 'session')} lost the copy: turnlog verify tells more"
        )
    out.print("[dim]hint: turnlog restore SESSION puts one back[/]")


def _show_parts(out: Console, row: RestorableRow) -> None:
    out.print(f"[bold]{safe(row.id)}[/] {safe(row.title or '')}")
    out.print(f"  worked in {short_path(row.project or 'a directory that it does not name')}")
    state = "gone from" if row.keeping in {"restorable", "gone"} else "also in"
    lost = "" if row.keeping in _MARKS else f"; {_MISSING} the copy of its log is missing"
    out.print(f"  {state} {short_path(row.home)}{lost}")
    for each in row.generations:
        kept = f"kept {when(each.kept_at)}" if each.kept_at else "kept"
        newest = " [dim](newest)[/]" if each.is_newest else ""
        out.print(f"  generation {each.generation}: {size(each.size_bytes)}, {kept}{newest}")
    for part in row.parts or ():
        held = "" if part.size_bytes is None else size(part.size_bytes)
        several = len(part.generations) > 1
        more = f" [dim]generations {', '.join(map(str, part.generations))}[/]" if several else ""
        out.print(f"  {held:>10}  {safe(part.name)}{more}", soft_wrap=True)
