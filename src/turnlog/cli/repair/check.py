"""``turnlog check``: whether the logs are whole."""

from __future__ import annotations

import os
import shlex
import time
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import click

from turnlog.cli.options import (
    csv_option,
    home_arguments,
    home_option,
    json_option,
    line_cap,
    logs_named,
    show_json,
)

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.formats import LogFile, Problem
    from turnlog.health.logs import Health, HealthTotals, LocatedFinding

_SHOWN_LOGS = 8
_SHOWN_FINDINGS = 4
# What a repair leaves as it is, and why.
_LEFT = {
    "not-utf8": "the agent reads these bytes as U+FFFD; a repair keeps them as they are",
    "newer-format": "a newer turnlog wrote this; upgrade to read all of it",
    "broken-blob": "restore the blob that the line was moved to: turnlog restore --list",
    "broken-archive": "look for a kept copy of the archive: turnlog restore --list",
    "unreadable": "make the file readable, then check again",
}


@click.command(
    name="check",
    epilog="""\b
Examples:
  turnlog check                    all your logs
  turnlog check latest             the session that was active last
  turnlog check 5f0c               the session whose id begins with 5f0c
  turnlog check --strict s.jsonl   one file, held to the rules of every record type
Exit code: 0 all is well, 1 something was found, 2 a mistake in the call, 3 a failure.""",
)
@click.argument("names", nargs=-1, metavar="[PATH|SESSION]...")
@home_option
@json_option
@csv_option
@click.option(
    "--strict", is_flag=True, help="Also check fields and values, and what JSON.parse refuses."
)
@click.option("--all", "everything", is_flag=True, help="List every finding, not just the first.")
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
    """Check logs for damage and print how they are. Nothing is changed.

    PATH is a log or a directory of logs; SESSION is the beginning of a session's id, or "latest".
    """
    from turnlog.health.logs import examine

    began = time.monotonic()
    problems: list[Problem] = []
    logs = _logs(names, homes, problems)
    sampled = not logs and or_sample is not None and not names
    if sampled:
        logs = _logs((), (str(or_sample),), problems)
    with _progress(logs) as advance:
        health = examine(logs, problems=problems, strict=strict, cap=line_cap(), progress=advance)
    if as_json:
        show_json(health)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv
        from turnlog.health.logs import LocatedFinding

        show_csv(LocatedFinding, health.findings)
    else:
        from turnlog.cli.terminal.console import console

        out = console()
        if sampled:
            homes = (str(or_sample),)
            out.print("\n [yellow]You have no sessions yet; these are the bundled samples.[/]")
        show(out, health, homes, everything=everything)
        if logs and not names and not sampled:
            from turnlog.cli.views.keep import offer_keeping

            offer_keeping(out, homes)
        out.print(f"\n [dim]Checked in {time.monotonic() - began:.1f} s; nothing was changed.[/]")
    return 0 if health.is_well and health.totals.logs else 1


def show(out: Console, health: Health, homes: tuple[str, ...], *, everything: bool = False) -> None:
    """Draw the health of some logs."""
    if not health.totals.logs and not health.findings:
        out.print("No logs found.")
        out.print("[dim]hint: name a file, or a directory with --home[/]")
        return
    out.print()
    _show_totals(out, health.totals)
    _show_findings(out, health, everything=everything)
    _show_way_out(out, health, homes)


def _logs(names: tuple[str, ...], homes: tuple[str, ...], problems: list[Problem]) -> list[LogFile]:
    from turnlog.formats import all_homes, find_everywhere

    if names:
        return list(logs_named(names, homes, problems))
    return list(find_everywhere(all_homes(homes), problems=problems))


def _progress(logs: list[LogFile]):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from turnlog.cli.terminal.progress import progress

    total = 0
    for log in logs:
        try:
            total += os.stat(log.path).st_size
        except OSError:
            continue
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
        rows.append(("from", f"{day(totals.first_at)} to {day(totals.last_at)}"))
    if totals.versions:
        seen = list(totals.versions)
        span = seen[0] if len(seen) == 1 else f"{seen[0]} to {seen[-1]} ({len(seen)} seen)"
        rows.append(("versions", span))
    for name, value in rows:
        out.print(f" [bold]{name:<10}[/]{safe(value)}")
    out.print()
    _show_types(out, totals)


def _show_types(out: Console, totals: HealthTotals) -> None:
    """Draw which types the records are of: the first few, and the rest together."""
    from turnlog.cli.terminal.console import counted, safe

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
        notes = f" [dim]({noted:,} with notes; --all shows them)[/]" if noted else ""
        out.print(f" [green]✓[/] {counted(whole, 'log is', 'logs are')} whole{notes}")
    if serious:
        out.print(f" [red]✗[/] {counted(len(serious), 'log has', 'logs have')} findings")
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


def _show_way_out(out: Console, health: Health, homes: tuple[str, ...]) -> None:
    """Say what can be done about the findings, and which of them a repair leaves."""
    from turnlog.cli.terminal.console import safe
    from turnlog.health.logs import LESS_THAN_KEPT

    codes = {finding.code for finding in health.findings}
    shortened = next((each for each in health.findings if each.code == LESS_THAN_KEPT), None)
    first = shortened or next(filter(_is_repairable, health.findings), None)
    if first is not None:
        log = next(log for log in health.logs if log.path == first.path)
        name = log.session[:8] if log.session and log.in_home else log.path
        if shortened is not None:
            words = ["turnlog", "restore", name, "--replace", *home_arguments(homes)]
            out.print("\n [dim]hint: put the kept copy in its place with[/]")
        else:
            words = ["turnlog", "repair", name, *home_arguments(homes)]
            out.print("\n [dim]hint: see what can be saved with[/]")
        out.print(f"   {safe(shlex.join(words))}", soft_wrap=True)
    for code, hint in _LEFT.items():
        if code in codes:
            out.print(f"\n [dim]hint: {code}: {hint}[/]")


def _is_repairable(finding: LocatedFinding) -> bool:
    if finding.code == "torn-tail":
        return True
    return finding.severity == "error" and finding.code not in ("unreadable", *_LEFT)


def _is_serious(finding: LocatedFinding) -> bool:
    return finding.severity != "note"


def _line(finding: LocatedFinding) -> str:
    from turnlog.cli.terminal.console import safe

    colour = {"error": "red", "warning": "yellow"}.get(finding.severity, "dim")
    where = f"line {finding.line:<6,}" if finding.line else "           "
    what = finding.excerpt or finding.message
    return f"  {where} [{colour}]{safe(finding.code):<15}[/] [dim]{safe(what)}[/]"
