"""``turnlog check``: check logs for damage."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import command_line, home_arguments, line_cap, report_options
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.health.logs import Health, HealthTotals, LocatedFinding
    from turnlog.api.homes import LogFile, Problem

_SHOWN_LOGS = 8
_SHOWN_FINDINGS = 4
_WITHIN_DAYS = 7
_NOT_REPAIRED = {
    "not-utf8": "the agent reads these bytes as U+FFFD; a repair keeps them",
    "newer-format": "written by a newer turnlog; upgrade to read all of it",
    "broken-blob": "restore the blob that holds the line: turnlog restore",
    "broken-archive": "look for a kept copy of the archive: turnlog restore",
    "unreadable": "make the file readable, then check again",
}
"""Hints for findings that turnlog repair does not fix."""


@click.command(
    name="check",
    epilog="""\b
Examples:
  turnlog check                    check all logs
  turnlog check latest             check the session that was active last
  turnlog check 5f0c               check the session whose ID starts with 5f0c
  turnlog check --strict s.jsonl   check all fields and values of a file
Exit codes: 0 no damage, 1 damage or no logs found, 2 usage error, 3 failure.""",
)
@click.argument("names", nargs=-1, metavar="[PATH|SESSION]...")
@report_options
@click.option(
    "--strict", is_flag=True, help="Also check fields, values and JSON that JSON.parse rejects."
)
@click.option("--all", "everything", is_flag=True, help="List all findings, not only the first.")
@click.option("--or-sample", hidden=True, metavar="DIR", help="Check DIR if you have no logs.")
def command(
    names: tuple[str, ...],
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    strict: bool,
    everything: bool,
    or_sample: str | None,
) -> int:
    """Check logs for damage. Nothing is changed.

    PATH is a log or a directory of logs; SESSION is the beginning of a session ID, or "latest".
    """
    from turnlog.api.health.logs import LocatedFinding, examine
    from turnlog.api.homes import all_homes

    began = time.monotonic()
    problems: list[Problem] = []
    logs = _logs(names, homes, problems)
    sampled = not logs and or_sample is not None and not names
    if sampled:
        logs = _logs((), (str(or_sample),), problems)
    with _progress(logs) as advance:
        health = examine(
            logs,
            homes=None if names or sampled else all_homes(homes),
            problems=problems,
            strict=strict,
            cap=line_cap(),
            progress=advance,
        )
    if not show_data(health, LocatedFinding, health.findings, as_json=as_json, as_csv=as_csv):
        from turnlog.cli.terminal.console import console

        out = console()
        if sampled:
            homes = (str(or_sample),)
            out.print("\n [yellow]You have no sessions yet; these are the bundled samples.[/]")
        show(out, health, homes, everything=everything)
        if logs and not names and not sampled:
            _offer_keeping(out, homes)
        out.print(f"\n [dim]Checked in {time.monotonic() - began:.1f} s; nothing was changed.[/]")
    return 0 if health.is_well and health.totals.logs else 1


def show(out: Console, health: Health, homes: tuple[str, ...], *, everything: bool = False) -> None:
    """Print the result of a check."""
    if not health.totals.logs and not health.findings:
        out.print("No logs found.")
        out.print("[dim]hint: give a file, or a directory with --home[/]")
        return
    out.print()
    _show_totals(out, health.totals)
    _show_findings(out, health, everything=everything)
    _show_hints(out, health, homes)


def _logs(names: tuple[str, ...], homes: tuple[str, ...], problems: list[Problem]) -> list[LogFile]:
    from turnlog.api.homes import all_homes, all_logs, logs_named

    if names:
        return list(logs_named(names, all_homes(homes), problems))
    return all_logs(all_homes(homes), problems)


def _progress(logs: list[LogFile]) -> AbstractContextManager[Callable[[int], None]]:
    from turnlog.cli.terminal.console import progress

    total = 0
    for log in logs:
        with suppress(OSError):
            total += os.stat(log.path).st_size
    return progress(f"Checking {len(logs)} logs", total)


def _show_totals(out: Console, totals: HealthTotals) -> None:
    from turnlog.cli.terminal.console import counted, day, safe, size

    rows = [
        ("projects", f"{totals.projects:,}"),
        ("sessions", f"{totals.sessions:,}"),
        ("records", f"{totals.records:,}"),
        ("size", size(totals.size_bytes)),
    ]
    if totals.subagents:
        rows[1] = ("sessions", f"{totals.sessions:,}, and {counted(totals.subagents, 'subagent')}")
    if totals.first_at and totals.last_at:
        rows.append(("dates", f"{day(totals.first_at)} to {day(totals.last_at)}"))
    if totals.versions:
        seen = list(totals.versions)
        rows.append(
            (
                "versions",
                seen[0] if len(seen) == 1 else f"{seen[0]} to {seen[-1]} ({len(seen)} versions)",
            )
        )
    for name, value in rows:
        out.print(f" [bold]{name:<10}[/]{safe(value)}")
    out.print()
    if not totals.records:
        return
    types = list(totals.types.items())
    shown, rest = types[:6], sum(count for _, count in types[6:])
    if rest:
        shown.append((counted(len(types) - 6, "other type"), rest))
    largest = max(count for _, count in shown)
    for name, count in shown:
        bar = "█" * max(1, round(24 * count / largest))
        share = 100 * count / totals.records
        out.print(f" {safe(name[:22]):<22} [cyan]{bar:<24}[/] {count:>9,} {share:>5.1f}%")
    out.print()


def _show_findings(out: Console, health: Health, *, everything: bool) -> None:
    from turnlog.cli.terminal.console import counted, log_name

    by_path = attrgetter("path")
    troubled = [
        (path, list(found))
        for path, found in groupby(sorted(health.findings, key=by_path), key=by_path)
    ]
    serious = [(path, found) for path, found in troubled if any(map(_is_serious, found))]
    whole = health.totals.logs - health.totals.damaged_logs
    noted = len(troubled) - len(serious)
    if whole:
        notes = f" [dim]({noted:,} with notes; --all lists them)[/]" if noted else ""
        out.print(f" [green]✓[/] {counted(whole, 'log')} without damage{notes}")
    if serious:
        out.print(f" [red]✗[/] {counted(len(serious), 'log')} with findings")
    shown = troubled if everything else serious[:_SHOWN_LOGS]
    for path, found in shown:
        out.print(f"\n   [bold]{log_name(path)}[/]")
        limit = len(found) if everything else _SHOWN_FINDINGS
        for finding in found[:limit]:
            out.print(f"   {_line(finding)}", overflow="ellipsis", no_wrap=True)
        if len(found) > limit:
            out.print(f"     [dim]… and {len(found) - limit:,} more[/]")
    if len(shown) < len(serious):
        out.print(f"\n   [dim]… and {len(serious) - len(shown):,} more logs (--all)[/]")


def _show_hints(out: Console, health: Health, homes: tuple[str, ...]) -> None:
    from turnlog.api.health.logs import LESS_THAN_KEPT
    from turnlog.cli.terminal.console import safe

    codes = {finding.code for finding in health.findings}
    shortened = next((item for item in health.findings if item.code == LESS_THAN_KEPT), None)
    first = shortened or next(filter(_is_repairable, health.findings), None)
    if first is not None:
        log = next(log for log in health.logs if log.path == first.path)
        name = log.session[:8] if log.session and log.in_home else log.path
        if shortened is not None:
            words = ["turnlog", "restore", name, "--force", *home_arguments(homes)]
            out.print("\n [dim]hint: restore the kept copy with[/]")
        else:
            words = ["turnlog", "repair", name, *home_arguments(homes)]
            out.print("\n [dim]hint: preview a repair with[/]")
        out.print(f"   {safe(shlex.join(words))}", soft_wrap=True)
    for code, hint in _NOT_REPAIRED.items():
        if code in codes:
            out.print(f"\n [dim]hint: {code}: {hint}[/]")


def _is_repairable(finding: LocatedFinding) -> bool:
    if finding.code == "torn-tail":
        return True
    return finding.severity == "error" and finding.code not in _NOT_REPAIRED


def _is_serious(finding: LocatedFinding) -> bool:
    return finding.severity != "note"


def _line(finding: LocatedFinding) -> str:
    from turnlog.cli.terminal.console import safe

    colour = {"error": "red", "warning": "yellow"}.get(finding.severity, "dim")
    where = f"line {finding.line:<6,}" if finding.line else "           "
    what = finding.excerpt or finding.message
    return f"  {where} [{colour}]{safe(finding.code):<15}[/] [dim]{safe(what)}[/]"


def _offer_keeping(out: Console, names: tuple[str, ...]) -> None:
    """Print a hint if Claude Code will delete logs that are not kept."""
    from turnlog.api.keep.copies import unkept
    from turnlog.cli.terminal.console import counted, safe

    found = unkept(names, _WITHIN_DAYS)
    if found.losses:
        logs = counted(len(found.losses), "log")
        out.print(f"\n [yellow]![/] Claude Code will delete {logs} within {_WITHIN_DAYS} days;")
        out.print("   to keep copies:")
    elif found.cleanup_days is not None and not found.has_copies:
        days = found.cleanup_days
        out.print(f"\n [dim]hint: Claude Code deletes sessions after {days} days; to keep them:[/]")
    else:
        return
    out.print(f"   {safe(command_line('turnlog keep', names))}", soft_wrap=True)
