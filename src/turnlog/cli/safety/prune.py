"""``turnlog prune``: move inactive sessions to the trash."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import (
    command_line,
    csv_option,
    dry_run,
    json_option,
    project_option,
    yes_option,
)
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from turnlog.api.homes import Home
    from turnlog.api.keep.trash import ExpiredSession, Orphan, PruneReport

_SHOWN = 20
_NAMED = 3


@click.command(
    name="prune",
    epilog="""\b
Examples:
  turnlog prune --home ~/.claude --days 90         show what would be deleted
  turnlog prune --home ~/.claude --days 90 --yes   move it to the trash
  turnlog prune --home ~/.claude --orphans         show orphaned files
In config.toml:
  [retention]
  enabled = true                  # default: false
  days = 30                       # days since the last record
  grace_days = 30                 # days in the trash before it can be purged
  archive_first = true            # delete only what has a kept copy
  [retention.projects."~/src/orchard"]
  never = true                    # or days = 90
If a setting is invalid, nothing is deleted.
Exit codes: 0 success, 1 a file could not be read or moved, 2 usage error,
3 failure.""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Agent's home; repeatable.  [default: turnlog's own home only]",
)
@json_option
@csv_option
@click.option(
    "--days",
    type=int,
    metavar="N",
    help="Delete sessions without a record for N days; settings of a project take precedence.",
)
@project_option
@click.option(
    "--orphans", is_flag=True, help="Include files left behind by sessions that no longer exist."
)
@click.option("--archive-first", is_flag=True, help="Delete only what has a verified kept copy.")
@yes_option
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    days: int | None,
    project: str | None,
    orphans: bool,
    archive_first: bool,
    yes: bool,
) -> int:
    """Move inactive sessions to the trash.

    Off unless enabled in config.toml or called with --days. The age of a session is the age of its
    latest record, not of its files. Sessions that are running, locked, pinned or changed within the
    last hour are skipped. Kept copies stay; turnlog delete removes them as well.
    """
    from turnlog.api.homes import Home, all_homes, turnlog_home
    from turnlog.api.keep.trash import ExpiredSession, homes_to_prune, prune_configured

    own = turnlog_home()
    named = homes_to_prune(homes)
    report = prune_configured(
        named,
        days=days,
        project=project,
        with_orphans=orphans,
        archive_first=archive_first,
        write=yes,
        elsewhere=all_homes(),
        own=own,
    )
    if not show_data(report, ExpiredSession, report.sessions, as_json=as_json, as_csv=as_csv):
        if report.is_on or orphans:
            _show(report, named or (Home(own),), own, with_orphans=orphans)
        else:
            _show_off(homes)
    return 1 if report.problems else 0


def _show_off(names: tuple[str, ...]) -> None:
    """Print that retention is off, and two ways to use it."""
    from turnlog.cli.terminal.console import console, safe, settings_file

    out = console()
    out.print("Retention is off: sessions never expire.")
    command = "turnlog prune --days 30"
    once = command_line(command, names) if names else f"{command} --home ~/.claude"
    out.print(f"[dim]hint: {safe(once)} shows what would be deleted[/]", soft_wrap=True)
    setting = f"\\[retention] enabled = true in {settings_file()}"
    out.print(f"[dim]hint: to turn it on, set {setting}[/]", soft_wrap=True)


def _show(report: PruneReport, homes: Sequence[Home], own: Path, *, with_orphans: bool) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path

    out = console()
    where = ", ".join(short_path(home) for home in homes)
    if report.is_on:
        _show_sessions(out, report, where)
    if with_orphans:
        _show_orphans(out, report, where)
    if report.empty:
        removed = "deleted" if report.written else "would be deleted"
        out.print(f"{counted(len(report.empty), 'empty directory', 'empty directories')} {removed}")
    for problem in report.problems:
        path = short_path(problem.path)
        out.print(f"[yellow]•[/] {path} [dim]{safe(problem.reason)}[/]", soft_wrap=True)
    if report.sessions or report.orphans or report.empty:
        if report.written:
            out.print("[dim]hint: turnlog trash lists them[/]")
        else:
            out.print(dry_run("move them to the trash"))
    elif [os.fspath(home) for home in homes] == [os.fspath(own)]:
        out.print(
            f"[dim]hint: this is turnlog's own home, {short_path(own)}; name an agent's with"
            " --home ~/.claude[/]",
            soft_wrap=True,
        )


def _show_sessions(out: Console, report: PruneReport, where: str) -> None:
    from turnlog.cli.terminal.console import counted, safe, size

    rows = report.sessions
    total = size(sum(row.size_bytes for row in rows))
    limits = {row.days for row in rows}
    inactive = f" inactive for {counted(min(limits), 'day')}" if len(limits) == 1 else ""
    if rows and report.written:
        done = f"{counted(len(rows), 'session')}{inactive} moved to the trash, {total}:"
        out.print(f"[green]✓[/] {done}")
    elif rows:
        would = "would be moved to the trash"
        out.print(f"{counted(len(rows), 'session')}{inactive} {would}, {total}:")
    else:
        out.print(f"No session has expired in {where}.", soft_wrap=True)
    if rows:
        out.print(_session_table(rows, out.width, with_limit=len(limits) > 1))
    if report.spared:
        out.print(f"{counted(len(report.spared), 'expired session')} skipped:")
        reasons: dict[str, list[str]] = {}
        for spared in report.spared:
            reasons.setdefault(spared.reason, []).append(spared.id[:8])
        for reason, ids in reasons.items():
            names = ", ".join(ids[:_NAMED])
            more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
            out.print(f"  {safe(reason)}: [bold]{safe(names)}[/]{more}", soft_wrap=True)
    if report.young:
        out.print(f"[dim]{counted(report.young, 'session')} not expired[/]")


def _show_orphans(out: Console, report: PruneReport, where: str) -> None:
    from turnlog.cli.terminal.console import counted, size

    rows = report.orphans
    if not rows:
        out.print(f"[green]✓[/] No orphaned files in {where}.", soft_wrap=True)
        return
    files = counted(sum(row.files for row in rows), "orphaned file")
    sessions = counted(len(rows), "deleted session")
    total = size(sum(row.size_bytes for row in rows))
    if report.written:
        out.print(f"[green]✓[/] {files} of {sessions} moved to the trash, {total}:")
    else:
        out.print(f"{files} of {sessions} would be moved to the trash, {total}:")
    out.print(_orphan_table(rows[:_SHOWN], out.width))
    if len(rows) > _SHOWN:
        out.print(f"[dim]… and {len(rows) - _SHOWN:,} more; --json lists all[/]")


def _session_table(rows: Sequence[ExpiredSession], width: int, *, with_limit: bool) -> Table:
    from turnlog.cli.browse.sessions import project_name
    from turnlog.cli.terminal.console import at_most, day, safe, size, titled
    from turnlog.cli.terminal.output import fixed_table

    widest = at_most(20 if width >= 100 else 13, width)
    project = max(7, *(min(widest, len(project_name(row.project))) for row in rows))
    widths = {"session": 8, "last record": 11, "days": 5} | ({"limit": 7} if with_limit else {})
    table = fixed_table(
        {**widths, "size": 9, "project": project},
        "title",
        width,
        right=("days", "limit", "size"),
        least=1,
    )
    for row in rows:
        last = day(row.last_active_at)
        table.add_row(
            f"[bold]{safe(row.id[:8])}[/]",
            f"[dim]{last}[/]" if row.is_from_files else last,
            f"{row.age_days:,}",
            *([f"{row.days:,}"] if with_limit else []),
            size(row.size_bytes),
            f"[cyan]{safe(project_name(row.project))}[/]",
            titled(row.title),
        )
    return table


def _orphan_table(rows: Sequence[Orphan], width: int) -> Table:
    from turnlog.cli.terminal.console import age, safe, size
    from turnlog.cli.terminal.output import fixed_table

    widths = {"session": 8, "changed": 10, "files": 5, "size": 9}
    table = fixed_table(widths, "kind", width, right=("changed", "files", "size"))
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
