"""``turnlog retain``: which sessions have expired, and letting them go.

How what has expired is shown, and why the rest stays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.options import csv_option, json_option, project_option, show_json, write_option

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from turnlog.formats import Home
    from turnlog.keep.retention.expiry import ExpiredSession, Orphan
    from turnlog.keep.retention.retention import RetentionReport


@click.command(
    name="retain",
    epilog="""\b
Examples:
  turnlog retain                              what would go by config.toml, and why
  turnlog retain --days 90 --write            move what is older to the trash
  turnlog retain --home ~/.claude --orphans   what sessions that are gone left behind
In config.toml:
  [retention]
  enabled = true                              # off unless this says so
  days = 30                                   # without a record for so long
  grace_days = 30                             # so long it stays in the trash
  archive_first = true                        # nothing goes without a kept copy
  [retention.projects."~/src/orchard"]
  never = true                                # or days = 90
A setting that cannot be used means that nothing is deleted.
Exit code: 0 done, 1 something could not be read or moved, 2 a mistake, 3 a failure.""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Directory where an agent keeps its sessions; repeatable.  "
    "[default: turnlog's own; others only if they are named]",
)
@json_option
@csv_option
@click.option(
    "--days",
    type=int,
    metavar="N",
    help="Sessions without a record for N days expire; what a project's table says stays.",
)
@project_option
@click.option("--orphans", is_flag=True, help="Also what is left of sessions that are not there.")
@click.option(
    "--archive-first", is_flag=True, help="Keep a verified copy first; what has none stays."
)
@write_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    days: int | None,
    project: str | None,
    orphans: bool,
    archive_first: bool,
    write: bool,
) -> int:
    """Move sessions that nobody has used for long to the trash.

    Off unless config.toml turns it on, or --days is given. A session's age is that of its latest
    record, not that of its files. What runs, is locked, pinned or was touched within the hour
    stays. Kept copies stay, too; turnlog delete takes them along.
    """
    from turnlog.formats import Home, all_homes, find_homes, turnlog_home
    from turnlog.keep.retention.retention import retain_configured

    own = turnlog_home()
    mine = (Home(own),) if own.is_dir() else ()
    named = find_homes(homes) if homes else mine  # Agents' homes only if they are named.
    report = retain_configured(
        named,
        days=days,
        project=project,
        with_orphans=orphans,
        archive_first=archive_first,
        write=write,
        elsewhere=all_homes(),
        own=own,
    )
    if as_json:
        show_json(report)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv
        from turnlog.keep.retention.expiry import ExpiredSession

        show_csv(ExpiredSession, report.sessions)
    else:
        show(report, named or (Home(own),), own, with_orphans=orphans)
    return 1 if report.problems else 0


_TITLE_AT_LEAST = 16
_SHOWN = 20
_NAMED = 3


def show(report: RetentionReport, homes: Sequence[Home], own: Path, *, with_orphans: bool) -> None:
    """Say what goes or went, what stays and why."""
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    where = ", ".join(short_path(home) for home in homes)
    if not report.is_on and not with_orphans:
        out.print("Retention is off: no session expires.")
        out.print(f"[dim]hint: {_how_to_turn_on()}[/]", soft_wrap=True)
        return
    if report.is_on:
        _show_sessions(out, report, where)
    if with_orphans:
        _show_orphans(out, report, where)
    if report.empty:
        removed = "removed" if report.written else "would be removed"
        out.print(f"{counted(len(report.empty), 'empty directory', 'empty directories')} {removed}")
    for problem in report.problems:
        path = short_path(problem.path)
        out.print(f"[yellow]•[/] {path} [dim]{safe(problem.reason)}[/]", soft_wrap=True)
    _show_hint(out, report, homes, own)


def _show_sessions(out: Console, report: RetentionReport, where: str) -> None:
    from turnlog.cli.terminal.console import counted, safe, size

    rows = report.sessions
    total = size(sum(row.size_bytes for row in rows))
    allowed = {row.days for row in rows}
    long = f" without a record for {counted(min(allowed), 'day')}" if len(allowed) == 1 else ""
    if rows and report.written:
        done = f"{counted(len(rows), 'session')}{long} moved to the trash, {total}:"
        out.print(f"[green]✓[/] {done}")
    elif rows:
        out.print(f"{counted(len(rows), 'session')}{long} would go to the trash, {total}:")
    else:
        out.print(f"No session has expired in {where}.", soft_wrap=True)
    if rows:
        out.print(_sessions(rows, out.width, with_allowed=len(allowed) > 1))
    if report.spared:
        out.print(f"{counted(len(report.spared), 'session')} old enough, but spared:")
        reasons: dict[str, list[str]] = {}
        for each in report.spared:
            reasons.setdefault(each.reason, []).append(each.id[:8])
        for reason, ids in reasons.items():
            names = ", ".join(ids[:_NAMED])
            more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
            out.print(f"  {safe(reason)}: [bold]{safe(names)}[/]{more}", soft_wrap=True)
    if report.young:
        out.print(f"[dim]{counted(report.young, 'session')} not old enough[/]")


def _show_orphans(out: Console, report: RetentionReport, where: str) -> None:
    from turnlog.cli.terminal.console import counted, size

    rows = report.orphans
    if not rows:
        out.print(f"[green]✓[/] No orphans in {where}.", soft_wrap=True)
        return
    total = size(sum(row.size_bytes for row in rows))
    told = counted(sum(row.files for row in rows), "file")
    whose = f"of {counted(len(rows), 'session')} that {'is' if len(rows) == 1 else 'are'} not there"
    if report.written:
        out.print(f"[green]✓[/] {told} {whose} moved to the trash, {total}:")
    else:
        out.print(f"{told} {whose} would go to the trash, {total}:")
    out.print(_orphans(rows[:_SHOWN], out.width))
    if len(rows) > _SHOWN:
        out.print(f"[dim]… and {len(rows) - _SHOWN:,} more; --json lists them all[/]")


def _show_hint(out: Console, report: RetentionReport, homes: Sequence[Home], own: Path) -> None:
    from turnlog.cli.terminal.console import short_path

    if report.sessions or report.orphans or report.empty:
        told = (
            "turnlog trash shows it" if report.written else "nothing was changed; --write does it"
        )
        out.print(f"[dim]hint: {told}[/]")
    elif [os.fspath(home) for home in homes] == [os.fspath(own)]:
        out.print(
            f"[dim]hint: this is turnlog's own home, {short_path(own)}; name an agent's with"
            " --home ~/.claude[/]",
            soft_wrap=True,
        )


def _how_to_turn_on() -> str:
    from turnlog.cli.terminal.console import settings_file

    turn_on = f"\\[retention] enabled = true in {settings_file()} turns it on"
    return f"--days 30 asks for once; {turn_on}"


def _sessions(rows: Sequence[ExpiredSession], width: int, *, with_allowed: bool) -> Any:
    from rich.table import Table

    from turnlog.cli.browse.sessions import project_name
    from turnlog.cli.terminal.console import at_most, day, safe, size, titled

    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    widest = at_most(20 if width >= 100 else 13, width)
    project = max(7, *(min(widest, len(project_name(row.project))) for row in rows))
    # Fixed widths but for the last column: rich would shrink them all alike, down to nothing.
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("last record", no_wrap=True, width=11)
    table.add_column("days", justify="right", no_wrap=True, width=5)
    if with_allowed:
        table.add_column("allowed", justify="right", no_wrap=True, width=7)
    table.add_column("size", justify="right", no_wrap=True, width=9)
    table.add_column("project", no_wrap=True, overflow="ellipsis", width=project)
    room = width - 8 - 11 - 5 - 9 - project - 10 - (9 if with_allowed else 0)
    table.add_column("what it is about", no_wrap=True, overflow="ellipsis", max_width=max(1, room))
    for row in rows:
        last = day(row.last_active_at)
        table.add_row(
            f"[bold]{safe(row.id[:8])}[/]",
            f"[dim]{last}[/]" if row.is_from_files else last,
            f"{row.age_days:,}",
            *([f"{row.days:,}"] if with_allowed else []),
            size(row.size_bytes),
            f"[cyan]{safe(project_name(row.project))}[/]",
            titled(row.title),
        )
    return table


def _orphans(rows: Sequence[Orphan], width: int) -> Any:
    from rich.table import Table

    from turnlog.cli.terminal.console import age, safe, size

    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("session", no_wrap=True, width=8)
    table.add_column("changed", justify="right", no_wrap=True, width=10)
    table.add_column("files", justify="right", no_wrap=True, width=5)
    table.add_column("size", justify="right", no_wrap=True, width=9)
    room = max(_TITLE_AT_LEAST, width - 8 - 10 - 5 - 9 - 8)
    table.add_column("what", no_wrap=True, overflow="ellipsis", max_width=room)
    now = datetime.now(UTC)
    for row in rows:
        table.add_row(
            f"[bold]{safe(row.id[:8])}[/]",
            age(now, row.changed_at),
            f"{row.files:,}",
            size(row.size_bytes),
            safe(", ".join(row.kinds)),
        )
    return table
