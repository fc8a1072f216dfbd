"""``turnlog verify``: read kept copies and archives back and compare them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from turnlog.api.keep.restore import (
    HomeVerifyReport,
    Parity,
    VerifyDocument,
    VerifyFinding,
    VerifyProblem,
    bytes_to_verify,
    homes_to_verify,
    verify,
)
from turnlog.cli.options import report_options
from turnlog.cli.terminal.console import (
    console,
    counted,
    progress,
    safe,
    short_path,
    show_some,
    size,
)
from turnlog.cli.terminal.output import show_data

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = 20
_SHOWN_CHANGED = 5
_SHOWN_RANGES = 3
_HINTS = {
    VerifyProblem.MISSING: "if the source file still exists, turnlog keep makes a new copy",
    VerifyProblem.ALTERED: "if the source file is intact, move the copy away and run turnlog keep;"
    " otherwise turnlog restore restores the readable part",
    VerifyProblem.STALE: "turnlog keep makes a new copy; this one stays as an earlier generation",
    VerifyProblem.EXTRA: "turnlog keep adopts copies that belong to a file",
}


@click.command(
    name="verify",
    epilog="""\b
Examples:
  turnlog verify                     verify all kept copies
  turnlog verify --home ~/.claude    verify the copies of one home
  turnlog verify --json | jq '.findings[].path'
Exit codes: 0 ok, 1 a copy is missing, altered, extra or stale, 2 usage error,
3 failure.""",
)
@report_options
def command(homes: tuple[str, ...], *, as_json: bool, as_csv: bool) -> int:
    """Read all kept copies and archives back and compare them.

    Each copy is compared with its checksum, and with its source file if that still exists. A
    source that has grown, was rewritten or was deleted is reported but is not an error. A rewrite
    with unchanged size and mtime is an error; the next turnlog keep then makes a new copy. Nothing
    else is changed.
    """
    found = homes_to_verify(homes)
    with progress("verifying", bytes_to_verify(found)) as advance:
        document = verify(found, advance=advance)
    if not show_data(document, VerifyFinding, document.findings, as_json=as_json, as_csv=as_csv):
        _show(document)
    return 1 if document.findings else 0


def _show(document: VerifyDocument) -> None:
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
        out.print(f"[yellow]not verified:[/] {short_path(problem.path)}: {safe(problem.reason)}")
    read = totals.copies + totals.generations + totals.archives
    if not read:
        out.print("No kept copies yet.")
        out.print("[dim]hint: turnlog keep copies all sessions[/]")
        return
    counts = Counter(finding.kind.value for finding in document.findings)
    wrong = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    verdict = f"[red]✗[/] {wrong}" if wrong else "[green]✓[/] all copies are intact"
    held = f"{size(totals.size_bytes)} in {size(totals.packed_bytes)} on disk"
    out.print(f"{verdict}: {counted(read, 'copy', 'copies')} read, {held}")


def _show_finding(out: Console, finding: VerifyFinding) -> None:
    number = finding.generation or 1
    generation = f" [dim]generation {number}[/]" if number > 1 else ""
    path = short_path(finding.path)
    out.print(f"[red]{finding.kind.value}[/] {path}{generation}", soft_wrap=True)
    out.print(f"    {safe(finding.detail)}", soft_wrap=True)
    lines = []
    for part in finding.ranges:
        end = "the end" if part.length is None else f"{part.offset + part.length:,}"
        lines.append(f"[dim]bytes {part.offset:,} to {end} of the file[/]")
    show_some(out, lines, _SHOWN_RANGES, indent="    ", more="ranges")


def _show_home(out: Console, home: HomeVerifyReport) -> None:
    state = "" if home.is_there else " [dim](gone)[/]"
    out.print(f"[bold]{short_path(home.home)}[/]{state}")
    counts = [f"{home.same:,} up to date"]
    if home.behind:
        counts.append(f"[yellow]{home.behind:,} behind by {size(home.behind_bytes)}[/]")
    if home.differs:
        counts.append(f"[yellow]{home.differs:,} with changed sources[/]")
    if home.gone:
        counts.append(f"{home.gone:,} with deleted sources")
    if home.generations:
        counts.append(counted(home.generations, "earlier generation"))
    if home.copies:
        out.print(f"  {counted(home.copies, 'copy', 'copies')}: {', '.join(counts)}")
    if home.archives:
        out.print(f"  {counted(home.archives, 'archive')}")
    if home.unkept:
        files = counted(home.unkept, "file")
        out.print(f"  [yellow]{files} not kept yet[/] [dim]({size(home.unkept_bytes)})[/]")
    lines = []
    for row in home.unlike:
        behind = f" by {size(row.behind_bytes)}" if row.parity is Parity.BEHIND else ""
        lines.append(f"[dim]{row.parity.value}{behind}: {safe(row.name)}[/]")
    show_some(out, lines, _SHOWN_CHANGED, indent="    ")
