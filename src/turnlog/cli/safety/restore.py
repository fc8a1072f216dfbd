"""``turnlog restore``: restore sessions from kept copies."""

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

_MARKS = {"restorable": "[yellow]↺[/]", "kept": "[green]✓[/]"}
_MISSING = "[red]✗[/]"
_SHOWN = 20
_SHOWN_FILES = 5


@click.command(
    name="restore",
    epilog="""\b
Examples:
  turnlog restore --list               list the sessions that can be restored
  turnlog restore 5f0c                 restore a session, for Claude to resume
  turnlog restore 5f0c --project .     restore it into this directory
  turnlog restore --all                restore everything that was deleted
  turnlog restore --since 30d --to ~/spare/.claude
  turnlog restore --from ~/old/app --project ~/new/app
  turnlog restore 5f0c --list          list its generations and files
  turnlog restore 5f0c --generation 1 --to ~/then
  turnlog restore 5f0c --replace       replace a log that lost records
Exit codes: 0 success, 1 nothing found or not everything restored,
2 usage error, 3 failure.""",
)
@click.argument("names", nargs=-1, metavar="[SESSION]...")
@options.report_options
@click.option("--all", "everything", is_flag=True, help="Restore everything that was kept.")
@click.option("--from", "worked_in", metavar="DIR", help="Sessions that worked in DIR or below it.")
@options.since_option
@options.until_option
@click.option(
    "--project",
    metavar="DIR",
    help="Move the sessions to DIR: changes their directory under projects/ and the working "
    "directory in their records.",
)
@click.option("--to", metavar="HOME", help="Restore into this home.  [default: the original]")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    help="Restore the log as it was before a rewrite; --list shows the generations.",
)
@click.option("--only", metavar="NAME", help="Restore one file, named as by --list SESSION.")
@click.option(
    "--replace",
    is_flag=True,
    help="Replace logs that have fewer records than their kept copy; the old log is renamed.",
)
@click.option("--partial", is_flag=True, help="Skip unreadable copies instead of failing.")
@click.option("--list", "is_list", is_flag=True, help="List what can be restored.")
def command(
    names: tuple[str, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    is_list: bool,
    everything: bool,
    worked_in: str | None,
    since: datetime | None,
    until: datetime | None,
    **how: Any,
) -> int:
    """Restore kept sessions to where their agent finds them.

    SESSION is the beginning of a session ID, or "latest". Existing files that differ are never
    overwritten: the session is then not restored at all. Archived sessions can be restored, too.
    --since and --until select by the latest record.

    With --replace, a log that lacks records of its kept copy is renamed to NAME.replaced-TIME and
    the copy takes its place. Records that were appended after the loss are added to it.
    """
    is_narrowed = any(each is not None for each in (worked_in, since, until))
    _check_options(names, everything=everything, is_narrowed=is_narrowed, is_list=is_list, **how)
    if as_csv and not is_list:
        raise UsageError("--csv only works with --list", hint="use --json")
    selection = restore.find_kept(names, homes, worked_in=worked_in, since=since, until=until)
    if is_list:
        return _list(selection, as_json=as_json, as_csv=as_csv)
    size_bytes = sum(session.size_bytes for session in selection.sessions)
    with progress("restoring", 2 * size_bytes) as advance:
        document = restore.restore_kept(
            selection,
            restore.RestoreOptions(**how),
            everything=everything,
            advance=advance,
            hint_of=hint_of,
        )
    if as_json:
        options.show_json(document)
    else:
        _show(document, how["to"])
    files = [file for row in document.restored for file in row.files] + document.others
    is_partial = any(
        file.outcome in {restore.RestoreOutcome.LEFT, restore.RestoreOutcome.BROKEN}
        or file.detail is not None
        for file in files
    )
    is_done = bool(document.restored or document.others) and not document.refused
    is_lacking = any(row.lacking for row in document.restored)
    return 0 if is_done and not is_partial and not is_lacking else 1


def _check_options(
    names: tuple[str, ...],
    *,
    everything: bool,
    is_narrowed: bool,
    is_list: bool,
    generation: int | None,
    only: str | None,
    project: str | None,
    replace: bool,
    **_how: Any,
) -> None:
    if names and (everything or is_narrowed):
        raise UsageError(
            "SESSION cannot be combined with --all, --from, --since or --until",
            hint="name sessions or use options, not both",
        )
    if everything and is_narrowed:
        raise UsageError(
            "--all cannot be combined with --from, --since or --until", hint="drop --all"
        )
    if not (names or everything or is_narrowed or is_list):
        raise UsageError(
            "no session given", hint="name a session or use --all; --list shows what is kept"
        )
    if replace and project is not None:
        raise UsageError("--replace and --project cannot be combined", hint="drop one of them")
    if (generation is not None or only is not None) and len(names) != 1 and not is_list:
        raise UsageError(
            "--generation and --only need exactly one session", hint="name the session"
        )


def _list(selection: restore.KeptSelection, *, as_json: bool, as_csv: bool) -> int:
    document = restore.list_restorable(selection)
    if not show_data(
        document, restore.RestorableRow, document.sessions, as_json=as_json, as_csv=as_csv
    ):
        _show_list(document.sessions, with_parts=bool(selection.names))
    return 0 if document.sessions else 1


def _show(document: restore.RestoreDocument, to: str | None) -> None:
    out = console()
    if not (document.restored or document.refused or document.others):
        out.print("No kept session matches.")
        out.print("[dim]hint: turnlog restore --list lists kept sessions[/]")
        return
    is_single = len(document.restored) + len(document.refused) == 1
    changed = [
        row
        for row in document.restored
        if is_single or row.written or row.lacking or _is_broken(row)
    ]
    times = Counter(row.session for row in document.restored)
    for row in changed[:_SHOWN]:
        _show_session(out, row, with_path=times[row.session] > 1)
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
    line = shlex.join(["turnlog", "restore", session, "--replace", *options.home_arguments(homes)])
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
    out.print(f"{mark} [bold]{safe(row.session)}[/] {what}")
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
        out.print("    [dim]hint: --project DIR restores it into another directory[/]")
        return
    line = f"cd {shlex.quote(project)} && {command}"
    out.print(f"    to resume: [bold]{safe(line)}[/]", soft_wrap=True)


def _show_list(rows: list[restore.RestorableRow], *, with_parts: bool) -> None:
    out = console()
    if not rows:
        out.print("No kept copies yet.")
        out.print("[dim]hint: turnlog keep copies all sessions[/]")
        return
    if with_parts:
        for row in rows:
            _show_parts(out, row)
        return
    now = datetime.now(UTC)
    widths = {"session": 8, "": 1, "active": 10, "size": 9}
    table = fixed_table(widths, "title", out.width, right=("active", "size"), least=20)
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
    deleted = f"[yellow]↺[/] {gone:,}" if gone else "0"
    out.print(
        f"[dim]{counted(len(rows) - missing, 'session')} kept, {deleted} deleted at the source[/]"
    )
    if missing:
        copies = counted(missing, "session without its copy", "sessions without their copies")
        out.print(f"{_MISSING} {copies}: turnlog verify shows details")
    out.print("[dim]hint: turnlog restore SESSION restores a session[/]")


def _show_parts(out: Console, row: restore.RestorableRow) -> None:
    out.print(f"[bold]{safe(row.id)}[/] {safe(row.title or '')}")
    out.print(f"  project {short_path(row.project or 'unknown')}")
    state = "deleted from" if row.keeping in {"restorable", "gone"} else "also in"
    lost = "" if row.keeping in _MARKS else f"; {_MISSING} the copy of its log is missing"
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
