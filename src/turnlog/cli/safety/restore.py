"""``turnlog restore``: restore sessions from kept copies, archives and the trash."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.api.keep import restore
from turnlog.cli import options
from turnlog.cli.hints import hint_of
from turnlog.cli.terminal.console import (
    age,
    console,
    counted,
    progress,
    safe,
    short_path,
    show_some,
    size,
    titled,
    when,
)
from turnlog.cli.terminal.output import fixed_table, show_data
from turnlog.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_KEPT = {"restorable", "kept"}
_SOURCES = {"copies": "kept copy", "archive": "archive", "trash": "trash"}
_MISSING = "[red]✗[/]"
_SHOWN = 20
_SHOWN_FILES = 5


@click.command(
    name="restore",
    epilog="""\b
Examples:
  turnlog restore                  list what can be restored, and from where
  turnlog restore 5f0c             restore a session, for Claude to resume
  turnlog restore 5f0c --for .     restore it into this directory
  turnlog restore --all            restore all kept sessions that are missing
  turnlog restore --all --project ~/old/app --for ~/new/app
  turnlog restore --all --since 30d --to ~/spare/.claude
  turnlog restore --session 5f0c   list its generations and files
  turnlog restore 5f0c --generation 1 --to ~/then
  turnlog restore 5f0c --force     replace a log that lost records
Exit codes: 0 success, 1 nothing found or not everything restored,
2 usage error, 3 failure.""",
)
@click.argument("names", nargs=-1, metavar="[SESSION]...")
@options.report_options
@click.option("--all", "everything", is_flag=True, help="Restore everything that was kept.")
@options.session_option
@options.period_options
@options.for_option
@options.to_option("the original")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    metavar="N",
    help="Restore the log as it was before a rewrite; --session lists the generations.",
)
@click.option("--only", metavar="NAME", help="Restore one file, named as by --session.")
@options.force_option
def command(
    names: tuple[str, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    everything: bool,
    session: str | None,
    project: str | None,
    since: datetime | None,
    until: datetime | None,
    **how: Any,
) -> int:
    """Restore sessions from kept copies, archives or the trash.

    SESSION is the beginning of a session ID, or "latest" for the last one that is missing. Without
    it, what can be restored is listed. Existing files that differ are never overwritten: the
    session is then not restored at all. Unreadable copies are skipped and reported. --since and
    --until select by the latest record.

    With --force, a log that lacks records of its kept copy is renamed to NAME.replaced-TIME and
    the copy takes its place. Records that were appended after the loss are added to it.
    """
    is_narrowed = any(each is not None for each in (project, since, until))
    _check_options(names, session, everything=everything, is_narrowed=is_narrowed, **how)
    if not names and not everything:
        if session is not None:
            document = restore.list_parts(restore.find_named((session,), homes))
        else:
            document = restore.list_restorable(homes, project=project, since=since, until=until)
        rows = document.sessions
        if not show_data(document, restore.RestorableRow, rows, as_json=as_json, as_csv=as_csv):
            _show_list(rows, with_parts=session is not None, is_narrowed=is_narrowed)
        return 0 if rows else 1
    if as_csv:
        raise UsageError("--csv only works with the list", hint="use --json")
    if names:
        selection = restore.find_named(names, homes)
    else:
        selection = restore.find_kept(homes, project=project, since=since, until=until)
    is_rest_wanted = everything and not is_narrowed
    return _restore(selection, everything=is_rest_wanted, as_json=as_json, **how)


def restore_named(names: Sequence[str], homes: Sequence[str], *, as_json: bool) -> int:
    """Restore sessions from wherever they are, print the result and return the exit code."""
    return _restore(restore.find_named(names, homes), as_json=as_json)


def _restore(
    selection: restore.RestoreSelection,
    *,
    as_json: bool,
    everything: bool = False,
    to: str | None = None,
    target: str | None = None,
    force: bool = False,
    generation: int | None = None,
    only: str | None = None,
) -> int:
    wanted = restore.RestoreOptions(
        to=to, project=target, generation=generation, only=only, partial=True, replace=force
    )
    with progress("restoring", 2 * selection.size_bytes) as advance:
        document = restore.restore_sessions(
            selection, wanted, everything=everything, advance=advance, hint_of=hint_of
        )
    if as_json:
        options.show_json(document)
    else:
        _show(document, to)
    files = [file for row in document.restored for file in row.files] + document.others
    is_partial = any(
        file.outcome in {restore.RestoreOutcome.LEFT, restore.RestoreOutcome.BROKEN}
        or file.detail is not None
        for file in files
    )
    is_done = document.restored or document.unarchived or document.undeleted or document.others
    is_lacking = any(row.lacking for row in document.restored)
    return 0 if is_done and not document.refused and not is_partial and not is_lacking else 1


def _check_options(
    names: tuple[str, ...],
    session: str | None,
    *,
    everything: bool,
    is_narrowed: bool,
    **how: Any,
) -> None:
    if names and (everything or is_narrowed or session):
        raise UsageError(
            "SESSION cannot be combined with --all, --session, --project, --since or --until",
            hint="name sessions or use options, not both",
        )
    if session and (everything or is_narrowed):
        raise UsageError(
            "--session only lists one session", hint=f"to restore it: turnlog restore {session}"
        )
    given = [name for name, value in how.items() if value]
    if given and not (names or everything):
        raise UsageError(
            "no session given", hint="name a session, or use --all; turnlog restore lists them"
        )
    if how["force"] and how["target"] is not None:
        raise UsageError("--force and --for cannot be combined", hint="leave out one of them")
    if (how["generation"] is not None or how["only"] is not None) and len(names) != 1:
        raise UsageError(
            "--generation and --only need exactly one session", hint="name the session"
        )


def _show(document: restore.RestoreDocument, to: str | None) -> None:
    out = console()
    kept = [*document.restored, *document.refused, *document.others]
    if not (kept or document.unarchived or document.undeleted):
        out.print("No kept session matches.")
        out.print("[dim]hint: turnlog restore lists what can be restored[/]")
        return
    for unarchived in document.unarchived:
        what = f"{counted(unarchived.files, 'file')} restored"
        what = f": {what}" if unarchived.files else "; its files were in place"
        out.print(f"[green]✓[/] [bold]{safe(unarchived.id[:8])}[/] unarchived{what}")
        out.print(f"    [dim]{short_path(unarchived.path)}[/]", soft_wrap=True)
    for row in document.undeleted:
        what = f"restored from the trash: {counted(row.files, 'file')}, {size(row.size_bytes)}"
        out.print(f"[green]✓[/] [bold]{safe(row.session[:8])}[/] {what}")
        out.print(f"    [dim]{short_path(row.home)}[/]", soft_wrap=True)
    if not kept:
        return
    is_single = len(document.restored) + len(document.refused) == 1
    changed = [
        row
        for row in document.restored
        if is_single or row.written or row.lacking or _is_broken(row)
    ]
    times = Counter(row.session for row in document.restored)
    for restored in changed[:_SHOWN]:
        _show_session(out, restored, with_path=times[restored.session] > 1)
    if len(changed) > _SHOWN:
        out.print(f"  [dim]… and {len(changed) - _SHOWN:,} more[/]")
    for refused in document.refused[:_SHOWN]:
        out.print(f"[red]✗[/] {safe(refused.reason)}", soft_wrap=True)
        out.print(f"    [dim]hint: {safe(refused.hint)}[/]")
    if len(document.refused) > _SHOWN:
        out.print(f"  [dim]… and {len(document.refused) - _SHOWN:,} more[/]")
    _show_files(out, document.others)
    if not is_single:
        _show_totals(out, document)
    elif document.restored:
        _show_resume_command(out, document.restored[0], to)


def show_lacking(out: Console, records: int, session: str, homes: Sequence[str] = ()) -> None:
    """Print that a log has fewer records than its kept copy, and how to restore them."""
    line = shlex.join(["turnlog", "restore", session, "--force", *options.home_arguments(homes)])
    out.print(f"  [red]✗[/] has less than was kept: {counted(records, 'record')} missing")
    out.print(f"    [dim]hint: to restore the copy: {safe(line)}[/]", soft_wrap=True)


def _is_broken(row: restore.Restored) -> bool:
    """Return True if no file was written because copies are unreadable."""
    return not row.written and any(
        file.outcome is restore.RestoreOutcome.BROKEN for file in row.files
    )


def _show_session(out: Console, row: restore.Restored, *, with_path: bool) -> None:
    counts = Counter(file.outcome for file in row.files)
    done = {restore.RestoreOutcome.WRITTEN, restore.RestoreOutcome.REPLACED}
    written = [file for file in row.files if file.outcome in done]
    if written:
        total = size(sum(file.size_bytes for file in written))
        what = f"restored: {counted(len(written), 'file')}, {total}"
        rest = counts[restore.RestoreOutcome.THERE] + counts[restore.RestoreOutcome.NEWER]
        what += f" [dim]({rest:,} already there)[/]" if rest else ""
    elif _is_broken(row):
        what = "not restored: the copies of its missing files are unreadable"
    else:
        what = "is already there; nothing was written"
    mark = _MISSING if _is_broken(row) else "[green]✓[/]"
    out.print(f"{mark} [bold]{safe(row.session[:8])}[/] {what}")
    if with_path and row.path is not None:
        out.print(f"    [dim]{short_path(row.path)}[/]", soft_wrap=True)
    if row.moved:
        where = short_path(row.project or "")
        out.print(f"    working directory of {counted(row.moved, 'record')} changed to {where}")
    if row.elsewhere:
        records = counted(row.elsewhere, "record")
        out.print(f"    [dim]{records} from other directories unchanged[/]")
    for file in row.files:
        if file.aside is not None:
            out.print(f"    original log: {short_path(file.aside)}", soft_wrap=True)
            if file.carried:
                records = counted(file.carried, "newer record")
                out.print(f"    {records} of it appended to the kept copy")
    if row.lacking:
        show_lacking(out, row.lacking, row.session)
    if counts[restore.RestoreOutcome.NEWER]:
        out.print("    [dim]a log with newer records than its copy was not changed[/]")
    _show_files(out, row.files)


def _show_files(out: Console, files: list[restore.RestoredFile]) -> None:
    """Print the files that were not restored in full."""
    lines = []
    for file in files:
        if file.detail is not None:
            colour = "red" if file.outcome is restore.RestoreOutcome.BROKEN else "yellow"
            word = (
                "partial" if file.outcome is restore.RestoreOutcome.WRITTEN else file.outcome.value
            )
            lines.append(f"[{colour}]{word}:[/] {safe(file.name)} [dim]{safe(file.detail)}[/]")
    show_some(out, lines, _SHOWN_FILES, indent="    ")


def _show_totals(out: Console, document: restore.RestoreDocument) -> None:
    written = sum(row.written > 0 for row in document.restored)
    broken = sum(map(_is_broken, document.restored))
    there = len(document.restored) - written - broken
    failed = len(document.refused) + broken
    others = sum(file.outcome is restore.RestoreOutcome.WRITTEN for file in document.others)
    parts = [f"{counted(written, 'session')} restored"]
    parts += [f"{there:,} already there"] if there else []
    parts += [f"[red]{failed:,} not restored[/]"] if failed else []
    parts += [f"{counted(others, 'other file')} restored"] if others else []
    out.print(", ".join(parts))


def _show_resume_command(out: Console, row: restore.Restored, to: str | None) -> None:
    project, command = row.project, restore.resume_command(row, with_home=to is not None)
    if project is None or command is None:
        return
    if not os.path.isdir(project):
        out.print(f"    its project directory does not exist: {short_path(project)}")
        out.print("    [dim]hint: --for DIR restores it into another directory[/]")
        return
    line = f"cd {shlex.quote(project)} && {command}"
    out.print(f"    to resume: [bold]{safe(line)}[/]", soft_wrap=True)


def _show_list(rows: list[restore.RestorableRow], *, with_parts: bool, is_narrowed: bool) -> None:
    out = console()
    if not rows:
        out.print("Nothing to restore matches." if is_narrowed else "Nothing to restore.")
        out.print("[dim]hint: turnlog keep copies all sessions[/]")
        return
    if with_parts:
        for row in rows:
            _show_parts(out, row)
        return
    # What is in place comes last, and needs no line of its own.
    missing = [row for row in rows if row.is_missing]
    broken = sum(row.source == "copies" and row.keeping not in _KEPT for row in rows)
    if missing:
        out.print(_table(missing, out.width))
    if in_place := len(rows) - len(missing):
        out.print(f"[green]✓[/] {counted(in_place, 'kept session')} in place")
    if broken:
        copies = counted(broken, "session without its copy", "sessions without their copies")
        out.print(f"{_MISSING} {copies}: turnlog verify shows details")
    if missing:
        out.print("[dim]hint: turnlog restore SESSION restores a session[/]")


def _table(rows: list[restore.RestorableRow], width: int) -> Table:
    now = datetime.now(UTC)
    widths = {"session": 8, "from": 9, "active": 10, "size": 9}
    table = fixed_table(widths, "title", width, right=("active", "size"), least=20)
    for row in rows:
        more = f" [dim]{len(row.generations)} generations[/]" if len(row.generations) > 1 else ""
        is_broken = row.source == "copies" and row.keeping not in _KEPT
        table.add_row(
            f"[bold]{safe(row.id[:8])}[/]",
            _MISSING if is_broken else _SOURCES[row.source],
            age(now, row.last_active_at),
            size(row.size_bytes),
            titled(row.title or row.project) + more,
        )
    return table


def _show_parts(out: Console, row: restore.RestorableRow) -> None:
    out.print(f"[bold]{safe(row.id)}[/] {safe(row.title or '')}")
    out.print(f"  project {short_path(row.project or 'unknown')}")
    state = "deleted from" if row.keeping in {"restorable", "gone"} else "also in"
    lost = "" if row.keeping in _KEPT else f"; {_MISSING} the copy of its log is missing"
    out.print(f"  {state} {short_path(row.home)}{lost}")
    for generation in row.generations:
        kept = f"kept {when(generation.kept_at)}" if generation.kept_at else "kept"
        latest = " [dim](latest)[/]" if generation.is_newest else ""
        held = size(generation.size_bytes)
        out.print(f"  generation {generation.generation}: {held}, {kept}{latest}")
    for part in row.parts or ():
        held = "" if part.size_bytes is None else size(part.size_bytes)
        several = len(part.generations) > 1
        more = f" [dim]generations {', '.join(map(str, part.generations))}[/]" if several else ""
        out.print(f"  {held:>10}  {safe(part.name)}{more}", soft_wrap=True)
