"""``turnlog doctor``: diagnose problems and suggest fixes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.options import line_cap, no_refresh_option, report_options
from turnlog.cli.terminal.console import counted, one_line, safe, short_path, size
from turnlog.cli.terminal.output import show_data
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.health.doctor import Checkup, DoctorFinding, Example, Footprint
    from turnlog.api.homes import Home

_SHOWN: Final = 4
_WIDEST_DETAIL: Final = 46
_LONGEST_TITLE: Final = 60
_SECTIONS: Final = (
    ("act", "red", "✗", "Act now"),
    ("look", "yellow", "!", "Worth a look"),
    ("note", "blue", "·", "Good to know"),
)


@click.command(
    name="doctor",
    epilog="""\b
Examples:
  turnlog doctor                 check all homes
  turnlog doctor --all           list all cases and the commands that fix them
  turnlog doctor --where         list what turnlog made, to uninstall it
Exit codes: 0 no problems, 1 problems found, 2 usage error, 3 failure.""",
)
@report_options
@no_refresh_option
@click.option("--all", "everything", is_flag=True, help="List all cases, not only the worst.")
@click.option("--where", is_flag=True, help="Only list what turnlog made, and how to remove it.")
def command(
    homes: tuple[str, ...],
    *,
    as_json: bool,
    as_csv: bool,
    no_refresh: bool,
    everything: bool,
    where: bool,
) -> int:
    """Diagnose problems and suggest fixes.

    Checks logs, threads, related files, permissions, disk space, the index and the agent's cleanup
    settings. Each finding comes with the command that fixes it. Nothing is changed.
    """
    from turnlog.api.health.doctor import DoctorFinding, check_up, doctor_context
    from turnlog.api.homes import all_homes
    from turnlog.cli.options import open_index
    from turnlog.cli.terminal.console import progress

    began = time.monotonic()
    found = all_homes(homes)
    if where:
        return _show_where(found, as_json=as_json, as_csv=as_csv)
    context = doctor_context(
        found,
        open_index=lambda: open_index(found, no_refresh=no_refresh, fallback="none"),
        cap=line_cap(),
        named=homes,
    )
    with (
        nullcontext() if context.index is None else context.index,
        progress("Checking", context.to_read_bytes) as context.progress,
    ):
        checkup = check_up(context)
    if not show_data(checkup, DoctorFinding, checkup.findings, as_json=as_json, as_csv=as_csv):
        from turnlog.cli.terminal.console import console

        out = console()
        _show(out, checkup, everything=everything)
        if checkup.homes:
            took = time.monotonic() - began
            out.print(f"\n [dim]Checked in {took:.1f} s; nothing was changed.[/]")
    return 0 if checkup.healthy and checkup.homes else 1


def _show_where(homes: Sequence[Home], *, as_json: bool, as_csv: bool) -> int:
    from turnlog.api.health.doctor import OwnFile, footprint

    found = footprint(homes)
    if not show_data(found, OwnFile, found.files, as_json=as_json, as_csv=as_csv):
        from turnlog.cli.terminal.console import console

        _show_footprint(console(), found)
    return 0 if found.files else 1


def _show_footprint(out: Console, found: Footprint) -> None:
    data = [each for each in found.files if each.kind == "data"]
    others = [each for each in found.files if each.kind != "data"]
    if data:
        place = short_path(found.data_directory)
        out.print(f"\n [bold]{place}[/]  {size(found.size_bytes)}\n", soft_wrap=True)
    width = max((len(os.path.basename(each.path)) for each in data), default=0)
    for each in data:
        name = os.path.basename(each.path).ljust(width)
        head = f"   {name}  {size(each.size_bytes or 0):>9}"
        if len(head) + len(each.what) + 2 <= out.width:
            out.print(f"{safe(head)}  [dim]{safe(each.what)}[/]")
        else:
            out.print(safe(head), soft_wrap=True)
            _show_wrapped(out, each.what, indent=5, style="dim")
    if data:
        out.print()
        _show_command(out, found.remove_data, indent=3)
    for each in others:
        out.print(f"\n [bold]{short_path(each.path)}[/]", soft_wrap=True)
        _show_wrapped(out, each.what, indent=3)
        if each.remove:
            _show_command(out, each.remove, indent=3)
    if not found.files:
        out.print("turnlog has made no files and changed no settings.")
    else:
        out.print("\n [dim]Remove settings first, data last. Nothing was changed.[/]")


def _show(out: Console, checkup: Checkup, *, everything: bool) -> None:
    if not checkup.homes:
        from turnlog.cli.terminal.empty_results import show_hint

        out.print("No sessions found.")
        show_hint(out, ())
        return
    _show_head(out, checkup)
    for urgency, colour, mark, title in _SECTIONS:
        findings = [item for item in checkup.findings if item.urgency == urgency]
        if findings:
            out.print(f"\n [{colour}]{mark}[/] [bold {colour}]{title}[/]")
        for finding in findings:
            _show_finding(out, finding, everything=everything)
    _show_rest(out, checkup)


def _show_head(out: Console, checkup: Checkup) -> None:
    names = ", ".join(short_path(home) for home in checkup.homes)
    out.print(f"\n [bold]{names}[/]", soft_wrap=True)
    if not checkup.logs:
        out.print(" [dim]no sessions yet[/]")
        return
    figures = (
        counted(checkup.sessions, "session"),
        counted(checkup.logs, "log"),
        size(checkup.size_bytes),
    )
    out.print(f" [dim]{', '.join(figures)}[/]")


def _show_finding(out: Console, finding: DoctorFinding, *, everything: bool) -> None:
    out.print()
    _show_wrapped(out, finding.message, indent=3)
    shown = finding.examples if everything else finding.examples[:_SHOWN]
    width = min(max(len(example.detail) for example in shown), _WIDEST_DETAIL)
    for example in shown:
        _show_example(out, example, width)
        if everything and example.command and not finding.mends_all:
            _show_command(out, example.command, indent=6)
    left = finding.count - len(shown)
    if left:
        out.print(f"     [dim]… and {left:,} more[/]")
    if finding.mends_all or not everything:
        _show_command(out, finding.command)
    if not finding.mends_all and not everything:
        out.print("     [dim]--all lists every case with its command[/]")


def _show_example(out: Console, example: Example, width: int) -> None:
    """Print a session or a path with its detail, on one line if there is room."""
    if example.session is not None:
        title = one_line(example.title or "", _LONGEST_TITLE, out.width)
        titled = f"  [dim]{safe(title)}[/]" if title else ""
        # Padded before it is escaped: escaping adds characters that are not shown.
        detail = safe(example.detail.ljust(width) if title else example.detail)
        line = f"     [bold]{safe(example.session[:8])}[/]  {detail}{titled}"
        out.print(line, overflow="ellipsis", no_wrap=True)
    elif len(example.path) + len(example.detail) + 7 <= out.width:
        out.print(f"     {short_path(example.path)}  [dim]{safe(example.detail)}[/]")
    else:
        out.print(f"     {short_path(example.path)}", soft_wrap=True)
        _show_wrapped(out, example.detail, indent=7, style="dim")


def _show_wrapped(out: Console, text: str, indent: int, style: str = "") -> None:
    for row in wrap(inert(text), max(20, out.width - indent - 1)):
        out.print(" " * indent + safe(row), style=style)


def _show_command(out: Console, command: str, indent: int = 5) -> None:
    out.print(f"{' ' * indent}[green]$[/] [bold]{safe(command)}[/]", soft_wrap=True)


def _show_rest(out: Console, checkup: Checkup) -> None:
    """Print the checks that failed to run and those without findings."""
    failed = [check for check in checkup.checks if check.problem]
    if failed:
        out.print("\n [yellow]?[/] [bold yellow]Could not be checked[/]")
    for check in failed:
        out.print(f"   {safe(check.looks_at)}: {safe(check.problem or '')}")
    if checkup.in_use:
        logs = counted(checkup.in_use, "log looks damaged but was", "logs look damaged but were")
        out.print(f"\n [yellow]?[/] {logs} just written to: check again in a minute")
    passed = [item.looks_at for item in checkup.checks if not item.findings and not item.problem]
    if not passed:
        return
    is_all = not (checkup.findings or failed or checkup.in_use)
    title = "No problems found" if is_all else "The other checks found nothing"
    out.print(f"\n [green]✓[/] [bold green]{title}[/]")
    names = " and ".join(filter(None, (", ".join(passed[:-1]), passed[-1])))
    _show_wrapped(out, f"Checked: {names}.", indent=3, style="dim")
