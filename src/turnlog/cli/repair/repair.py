"""``turnlog repair``: what can be saved, and saving it."""

from __future__ import annotations

import click
from msgspec import Struct

from turnlog.cli.options import (
    home_option,
    json_option,
    line_cap,
    logs_named,
    show_json,
    write_option,
)
from turnlog.keep.copies.shortfall import Shortfalls
from turnlog.records.damage import Reason
from turnlog.storage.repair import Repair, repair


@click.command(
    name="repair",
    epilog="""\b
Examples:
  turnlog repair s.jsonl           show what would be done
  turnlog repair 5f0c --write      do it, to all damaged logs of that session
The log as it was, and the bytes that are no records, stay beside the repaired log.
A subagent that was not stopped may go on writing to the log as it was: look there, too.
Exit code: 0 nothing to repair, or repaired; 1 a repair is needed, or a kept copy holds more;
2 a mistake; 3 a failure.""",
)
@click.argument("name", metavar="PATH|SESSION")
@home_option
@json_option
@write_option
def command(name: str, homes: tuple[str, ...], *, as_json: bool, write: bool) -> int:
    """Mend damaged logs without throwing a byte away.

    Every whole record is kept, byte for byte and in order; one that the agent's own program cannot
    read is rewritten as strict JSON. What is no record goes to a quarantine file. Stop the agent
    that writes the log first.
    """
    logs = list(logs_named((name,), homes, []))
    cap = line_cap()
    plans = [repair(log.path, write=write, cap=cap) for log in logs]
    compare = Shortfalls()
    lacking = [found.records if (found := compare.of(log, is_suspect=True)) else 0 for log in logs]
    if as_json:
        show_json(RepairDocument(repairs=list(map(_row, plans, lacking))))
    else:
        for log, plan, records in zip(logs, plans, lacking, strict=True):
            _show(plan, records, name if log.session_id is None else log.session_id, homes)
    is_needed = any(plan.needed and not plan.written for plan in plans)
    return 1 if is_needed or any(lacking) else 0


class DamageRange(Struct, kw_only=True):
    """Bytes that are no record."""

    offset: int
    length: int
    line: int
    reason: Reason


class RepairRow(Struct, kw_only=True):
    """What was, or would be, done to one log."""

    path: str
    needed: bool
    written: bool
    records: int
    salvaged: int
    rewritten: int
    """Records that the agent's program could not read, rewritten as strict JSON."""
    blank: int
    adds_newline: bool
    quarantined: list[DamageRange]
    original: str | None
    quarantine: str | None
    lacking: int
    """Records that a kept copy holds and the log does not: turnlog restore --replace."""


class RepairDocument(Struct, kw_only=True):
    """What `turnlog repair --json` prints."""

    repairs: list[RepairRow]


def _row(plan: Repair, lacking: int) -> RepairRow:
    return RepairRow(
        path=plan.path,
        needed=plan.needed,
        written=plan.written,
        records=plan.records,
        salvaged=plan.salvaged,
        rewritten=plan.rewritten,
        blank=plan.blank,
        adds_newline=plan.adds_newline,
        quarantined=[
            DamageRange(offset=d.offset, length=d.length, line=d.line, reason=d.reason)
            for d in plan.quarantined
        ],
        original=plan.original,
        quarantine=plan.quarantine,
        lacking=lacking,
    )


def _show(plan: Repair, lacking: int, session: str, homes: tuple[str, ...]) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path, size
    from turnlog.cli.views.restore import show_lacking
    from turnlog.text import inert_bytes

    out = console()
    out.print(f"[bold]{short_path(plan.path)}[/]", soft_wrap=True)
    if lacking:
        show_lacking(out, lacking, session, homes)
    if not plan.needed and lacking:
        return
    if not plan.needed:
        out.print(f"  [green]✓[/] whole: {counted(plan.records, 'record')}, nothing to repair")
        return
    verb = "kept" if plan.written else "would be kept"
    out.print(f"  {counted(plan.records, 'record')} {verb}, {plan.salvaged:,} from damaged lines")
    if plan.quarantined:
        verb = "quarantined" if plan.written else "would be quarantined"
        ranges = counted(len(plan.quarantined), "range")
        out.print(f"  {size(plan.quarantined_bytes)} in {ranges} {verb}")
    for damage in plan.quarantined[:5]:
        what = f"line {damage.line:<6,} [red]{damage.reason.value:<15}[/]"
        nuls = damage.reason == "nul-run"
        shown = f"{damage.length:,} NUL bytes" if nuls else inert_bytes(damage.excerpt)
        out.print(f"    {what} [dim]{safe(shown)}[/]", overflow="ellipsis", no_wrap=True)
    if len(plan.quarantined) > 5:
        out.print(f"    [dim]… and {len(plan.quarantined) - 5:,} more[/]")
    if plan.rewritten:
        verb = "rewritten" if plan.written else "would be rewritten"
        out.print(f"  {counted(plan.rewritten, 'record')} {verb} as JSON that the agent can read")
    if plan.adds_newline:
        out.print("  the last record gets its newline")
    if plan.written:
        was = short_path(plan.original or "")
        out.print(f"  [green]✓[/] repaired; the log as it was: {was}", soft_wrap=True)
        if plan.quarantine:
            rest = short_path(plan.quarantine)
            out.print(f"    what was no record: {rest}", soft_wrap=True)
    else:
        out.print("  [dim]hint: nothing was changed; --write does it[/]")
