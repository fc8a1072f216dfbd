"""``turnlog doctor``: how everything is, on one page.

The doctor's page: what asks for most first, and each finding's way out on a line of its own.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from textwrap import wrap
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.index_access import no_refresh_option
from turnlog.cli.options import csv_option, home_option, json_option, line_cap, show_json
from turnlog.cli.terminal.console import counted, one_line, safe, short_path, size
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.index import Index
    from turnlog.formats import Home
    from turnlog.health.doctor import Checkup, DoctorFinding, Example


@click.command(
    name="doctor",
    epilog="""\b
Examples:
  turnlog doctor                 how all your homes are
  turnlog doctor --all           every case, each with the command that mends it
  turnlog doctor --json          the same for scripts
Exit code: 0 all is well, 1 something asks to be done or looked at, 2 a mistake, 3 a failure.""",
)
@home_option
@json_option
@csv_option
@no_refresh_option
@click.option("--all", "everything", is_flag=True, help="List every case, not just the worst.")
def command(
    homes: tuple[str, ...], *, as_json: bool, as_csv: bool, no_refresh: bool, everything: bool
) -> int:
    """Show the health of all homes: what is damaged, unsafe or about to be lost, and the way out.

    Checks logs, threads, what lies beside them, permissions, disk space, the index and the agent's
    own cleanup. Each finding comes with the command that mends it. Nothing is changed.
    """
    from turnlog.formats import all_homes

    began = time.monotonic()
    checkup = _check_up(all_homes(homes), homes, no_refresh=no_refresh)
    if as_json:
        show_json(checkup)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv
        from turnlog.health.doctor import DoctorFinding

        show_csv(DoctorFinding, checkup.findings)
    else:
        from turnlog.cli.terminal.console import console

        out = console()
        show(out, checkup, everything=everything)
        if checkup.homes:
            took = time.monotonic() - began
            out.print(f"\n [dim]Checked in {took:.1f} s; nothing was changed.[/]")
    return 0 if checkup.healthy and checkup.homes else 1


def _check_up(homes: tuple[Home, ...], named: tuple[str, ...], *, no_refresh: bool) -> Checkup:
    from turnlog.cli.terminal.progress import progress
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.health.doctor import CheckContext, check_up

    index, why = _index(homes, no_refresh=no_refresh)
    patient = CheckContext(
        homes,
        own=turnlog_home(),
        now=datetime.now(UTC),
        index=index,
        no_index=why,
        named=named,
        elsewhere=all_homes() if named else (),
        cap=line_cap(),
    )
    try:
        with progress("Looking closer", patient.to_read_bytes) as advance:
            patient.progress = advance
            return check_up(patient)
    finally:
        if index is not None:
            index.close()


def _index(homes: tuple[Home, ...], *, no_refresh: bool) -> tuple[Index | None, str]:
    """Open the index; None, and why, if there is none to be had: the logs tell the same."""
    import sqlite3

    from turnlog.cli.index_access import open_index
    from turnlog.errors import TurnlogError

    if not homes:
        return None, ""
    try:
        return open_index(homes, no_refresh=no_refresh, fallback="none"), ""
    except (TurnlogError, OSError, sqlite3.Error) as error:
        return None, str(error)


_SHOWN: Final = 4
_WIDEST_DETAIL: Final = 46
_LONGEST_TITLE: Final = 60
_SECTIONS: Final = (
    ("act", "red", "✗", "Act now"),
    ("look", "yellow", "!", "Worth a look"),
    ("note", "blue", "·", "Good to know"),
)


def show(out: Console, checkup: Checkup, *, everything: bool = False) -> None:
    """Draw the page."""
    if not checkup.homes:
        from turnlog.cli.terminal.empty_results import show_hint

        out.print("No sessions found.")
        show_hint(out, ())  # One that is named is there.
        return
    _show_head(out, checkup)
    for urgency, colour, mark, title in _SECTIONS:
        found = [each for each in checkup.findings if each.urgency == urgency]
        if found:
            out.print(f"\n [{colour}]{mark}[/] [bold {colour}]{title}[/]")
        for each in found:
            _show_finding(out, each, everything=everything)
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


def _show_finding(out: Console, found: DoctorFinding, *, everything: bool) -> None:
    out.print()
    _show_wrapped(out, found.message, indent=3)
    shown = found.examples if everything else found.examples[:_SHOWN]
    width = min(max(len(each.detail) for each in shown), _WIDEST_DETAIL)
    for each in shown:
        if each.session is None:
            _show_place(out, each)
        else:
            title = one_line(each.title or "", _LONGEST_TITLE, out.width)
            out.print(_line(each, width, title), overflow="ellipsis", no_wrap=True)
        if everything and each.command and not found.mends_all:
            _show_command(out, each.command, indent=6)
    left = found.count - len(shown)
    if left:
        out.print(f"     [dim]… and {left:,} more[/]")
    if found.mends_all:
        _show_command(out, found.command)
    elif not everything:
        _show_command(out, found.command)
        out.print("     [dim]and so on; --all shows every case with its command[/]")


def _line(each: Example, width: int, title: str) -> str:
    titled = f"  [dim]{safe(title)}[/]" if title else ""
    # Padded before it is escaped: what is escaped has more characters than it shows.
    detail = safe(each.detail.ljust(width) if title else each.detail)
    return f"     [bold]{safe((each.session or '')[:8])}[/]  {detail}{titled}"


def _show_place(out: Console, each: Example) -> None:
    """Show a file or directory and what is wrong with it, below it if there is no room beside."""
    if len(each.path) + len(each.detail) + 7 <= out.width:
        out.print(f"     {short_path(each.path)}  [dim]{safe(each.detail)}[/]")
        return
    out.print(f"     {short_path(each.path)}", soft_wrap=True)
    _show_wrapped(out, each.detail, indent=7, style="dim")


def _show_wrapped(out: Console, text: str, indent: int, style: str = "") -> None:
    for row in wrap(inert(text), max(20, out.width - indent - 1)):
        out.print(" " * indent + safe(row), style=style)


def _show_command(out: Console, command: str, indent: int = 5) -> None:
    out.print(f"{' ' * indent}[green]$[/] [bold]{safe(command)}[/]", soft_wrap=True)


def _show_rest(out: Console, checkup: Checkup) -> None:
    """Say what was looked at and found well, and what could not be looked at."""
    failed = [each for each in checkup.checks if each.problem]
    if failed:
        out.print("\n [yellow]?[/] [bold yellow]Could not be checked[/]")
    for each in failed:
        out.print(f"   {safe(each.looks_at)}: {safe(each.problem or '')}")
    if checkup.in_use:
        logs = counted(checkup.in_use, "log that seems", "logs that seem")
        was = "was" if checkup.in_use == 1 else "were"
        out.print(
            f"\n [yellow]?[/] {logs} damaged {was} written to just now: look again in a minute"
        )
    well = [each.looks_at for each in checkup.checks if not each.findings and not each.problem]
    if not well:
        return
    all_well = "All is well" if checkup.healthy else "The rest is well"
    out.print(f"\n [green]✓[/] [bold green]{all_well}[/]")
    _show_wrapped(out, f"Nothing to report of {_listed(well)}.", indent=3, style="dim")


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
