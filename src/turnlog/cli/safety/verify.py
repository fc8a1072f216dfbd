"""``turnlog verify``: whether what is kept can be had back.

How ``turnlog verify`` shows what it found.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from turnlog.cli.advanced.refresh import UnreadFile
from turnlog.cli.options import csv_option, home_option, json_option, show_json
from turnlog.cli.terminal.console import console, counted, safe, short_path, size
from turnlog.formats import Home, all_homes
from turnlog.keep.catalog import kept_homes
from turnlog.keep.verify import (
    HomeVerifyReport,
    Parity,
    VerifyFinding,
    VerifyProblem,
    bytes_to_verify,
    verify,
)

if TYPE_CHECKING:
    from rich.console import Console


class VerifyTotals(Struct, kw_only=True):
    """All homes together."""

    copies: int
    generations: int
    archives: int
    size_bytes: int
    packed_bytes: int
    same: int
    behind: int
    behind_bytes: int
    differs: int
    gone: int
    unkept: int
    unkept_bytes: int


class VerifyDocument(Struct, kw_only=True):
    """What `turnlog verify --json` prints."""

    findings: list[VerifyFinding]
    homes: list[HomeVerifyReport]
    totals: VerifyTotals
    problems: list[UnreadFile]
    """What could not be looked at."""
    next: int | None = None


@click.command(
    name="verify",
    epilog="""\b
Examples:
  turnlog verify                     everything that is kept
  turnlog verify --home ~/.claude    what is kept of one home
  turnlog verify --json | jq '.findings[].path'
Exit code: 0 all is well, 1 something is missing, altered, extra or stale, 2 a mistake,
3 a failure.""",
)
@home_option
@json_option
@csv_option
def command(homes: tuple[str, ...], *, as_json: bool, as_csv: bool) -> int:
    """Read every kept copy and archive again, and compare.

    Each is compared with its digest, and with the file it is a copy of if that is still there.
    That a file has grown since, was rewritten or is gone is told, and is no fault. That it was
    rewritten and its size and time do not show it is one: the next turnlog keep then copies it
    anew. Nothing else is changed.
    """
    from turnlog.cli.terminal.progress import progress

    found = _homes(all_homes(homes), is_named=bool(homes))
    with progress("verifying", bytes_to_verify(found)) as advance:
        done = verify(found, advance=advance)
    names = VerifyTotals.__struct_fields__
    totals = VerifyTotals(
        **{name: sum(getattr(home, name) for home in done.homes) for name in names}
    )
    document = VerifyDocument(
        findings=done.findings,
        homes=done.homes,
        totals=totals,
        problems=[UnreadFile(path=str(each.path), reason=each.reason) for each in done.problems],
    )
    if as_json:
        show_json(document)
    elif as_csv:
        from turnlog.cli.terminal.output import show_csv

        show_csv(VerifyFinding, document.findings)
    else:
        show(document)
    return 1 if done.findings else 0


def _homes(homes: tuple[Home, ...], *, is_named: bool) -> tuple[Home, ...]:
    """Return the homes that are meant: those named, else also those that are gone but kept."""
    if is_named:
        return homes
    known = {os.path.realpath(home) for home in homes}
    more = (home for home, _ in kept_homes() if os.path.realpath(home) not in known)
    return (*homes, *(Home(Path(home)) for home in more))


_SHOWN = 20
_SHOWN_UNLIKE = 5
_SHOWN_RANGES = 3
_HINTS = {
    VerifyProblem.MISSING: "if its file is still there, turnlog keep makes it again",
    VerifyProblem.ALTERED: "if its file is whole, move the copy away and turnlog keep makes it"
    " again; else turnlog restore --partial gives what is left",
    VerifyProblem.STALE: "turnlog keep makes it anew; what it holds stays, as an earlier"
    " generation",
    VerifyProblem.EXTRA: "turnlog keep takes over what belongs to a file",
}


def show(document: VerifyDocument) -> None:
    """Show what is wrong, then how things stand."""
    out = console()
    totals = document.totals
    for finding in document.findings[:_SHOWN]:
        _show_finding(out, finding)
    if len(document.findings) > _SHOWN:
        out.print(f"[dim]… and {len(document.findings) - _SHOWN:,} more[/]")
    for kind in dict.fromkeys(finding.kind for finding in document.findings):
        out.print(f"[dim]hint: {kind.value}: {_HINTS[kind]}[/]")
    for home in document.homes:
        if home.copies or home.archives or home.generations:
            _show_home(out, home)
    for problem in document.problems[:_SHOWN]:
        out.print(f"[yellow]not looked at:[/] {short_path(problem.path)}: {safe(problem.reason)}")
    read = totals.copies + totals.generations + totals.archives
    if not read:
        out.print("Nothing is kept yet.")
        out.print("[dim]hint: turnlog keep makes copies of all sessions[/]")
        return
    counts = Counter(finding.kind.value for finding in document.findings)
    wrong = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    verdict = f"[red]✗[/] {wrong}" if wrong else "[green]✓[/] all as they were kept"
    held = f"{size(totals.size_bytes)} in {size(totals.packed_bytes)}"
    out.print(f"{verdict}: {counted(read, 'copy', 'copies')} read, {held}")


def _show_finding(out: Console, finding: VerifyFinding) -> None:
    generation = (
        f" [dim]generation {finding.generation}[/]" if (finding.generation or 1) > 1 else ""
    )
    out.print(
        f"[red]{finding.kind.value}[/] {short_path(finding.path)}{generation}", soft_wrap=True
    )
    out.print(f"    {safe(finding.detail)}", soft_wrap=True)
    for each in finding.ranges[:_SHOWN_RANGES]:
        end = "its end" if each.length is None else f"{each.offset + each.length:,}"
        out.print(f"    [dim]bytes {each.offset:,} to {end} of the file[/]")
    if len(finding.ranges) > _SHOWN_RANGES:
        out.print(f"    [dim]… and {len(finding.ranges) - _SHOWN_RANGES:,} more ranges[/]")


def _show_home(out: Console, home: HomeVerifyReport) -> None:
    state = "" if home.is_there else " [dim](gone)[/]"
    out.print(f"[bold]{short_path(home.home)}[/]{state}")
    said = [f"{home.same:,} as their files"]
    if home.behind:
        said.append(f"[yellow]{home.behind:,} behind by {size(home.behind_bytes)}[/]")
    if home.differs:
        said.append(f"[yellow]{home.differs:,} of files that changed since[/]")
    if home.gone:
        said.append(f"{home.gone:,} of files that are gone")
    if home.generations:
        said.append(counted(home.generations, "earlier generation"))
    if home.copies:
        out.print(f"  {counted(home.copies, 'copy', 'copies')}: {', '.join(said)}")
    if home.archives:
        out.print(f"  {counted(home.archives, 'archive')}")
    if home.unkept:
        files = counted(home.unkept, "file")
        out.print(f"  [yellow]{files} not kept yet[/] [dim]({size(home.unkept_bytes)})[/]")
    for row in home.unlike[:_SHOWN_UNLIKE]:
        behind = f" by {size(row.behind_bytes)}" if row.parity is Parity.BEHIND else ""
        out.print(f"    [dim]{row.parity.value}{behind}: {safe(row.name)}[/]", soft_wrap=True)
    if len(home.unlike) > _SHOWN_UNLIKE:
        out.print(f"    [dim]… and {len(home.unlike) - _SHOWN_UNLIKE:,} more[/]")
