"""``turnlog repair``: repair damaged logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from turnlog.cli.options import dry_run, home_option, json_option, line_cap, show_json, yes_option

if TYPE_CHECKING:
    from turnlog.api.repair import Repair

_SHOWN = 5


@click.command(
    name="repair",
    epilog="""\b
Examples:
  turnlog repair s.jsonl           show what would be repaired
  turnlog repair 5f0c --yes      repair all damaged logs of a session
The original log and the damaged bytes are kept next to the repaired log. A
subagent that is still running may continue to write to the original log.
Exit codes: 0 ok or repaired, 1 repair needed or the kept copy has more
records, 2 usage error, 3 failure.""",
)
@click.argument("name", metavar="PATH|SESSION")
@home_option
@json_option
@yes_option
def command(name: str, homes: tuple[str, ...], *, as_json: bool, yes: bool) -> int:
    """Repair damaged logs without losing a byte.

    Intact records are kept unchanged and in order; records that the agent cannot parse are
    rewritten as strict JSON. Everything else is moved to a quarantine file. Stop the agent that
    writes the log first.
    """
    from turnlog.api.homes import all_homes, logs_named
    from turnlog.api.repair import repair_document, repair_logs

    logs = list(logs_named((name,), all_homes(homes)))
    repairs = repair_logs(logs, cap=line_cap(), write=yes)
    if as_json:
        show_json(repair_document(repairs))
    else:
        for log, plan, lacking in repairs:
            _show(plan, lacking, log.session_id or name, homes)
    is_needed = any(plan.needed and not plan.written for _, plan, _ in repairs)
    if is_needed and not as_json:
        click.echo(dry_run("repair it"))
    return 1 if is_needed or any(lacking for *_, lacking in repairs) else 0


def _show(plan: Repair, lacking: int, session: str, homes: tuple[str, ...]) -> None:
    from turnlog.cli.terminal.console import console, counted, safe, short_path, size
    from turnlog.text import inert_bytes

    out = console()
    out.print(f"[bold]{short_path(plan.path)}[/]", soft_wrap=True)
    if lacking:
        from turnlog.cli.safety.restore import show_lacking

        show_lacking(out, lacking, session, homes)
    if not plan.needed:
        if not lacking:
            records = counted(plan.records, "record")
            out.print(f"  [green]✓[/] no damage: {records}, nothing to repair")
        return
    would = "" if plan.written else "would be "
    records = counted(plan.records, "record")
    out.print(f"  {records} {would}kept, {plan.salvaged:,} from damaged lines")
    if plan.quarantined:
        ranges = counted(len(plan.quarantined), "range")
        out.print(f"  {size(plan.quarantined_bytes)} in {ranges} {would}quarantined")
    for damage in plan.quarantined[:_SHOWN]:
        what = f"line {damage.line:<6,} [red]{damage.reason.value:<15}[/]"
        is_nul = damage.reason == "nul-run"
        shown = f"{damage.length:,} NUL bytes" if is_nul else inert_bytes(damage.excerpt)
        out.print(f"    {what} [dim]{safe(shown)}[/]", overflow="ellipsis", no_wrap=True)
    if len(plan.quarantined) > _SHOWN:
        out.print(f"    [dim]… and {len(plan.quarantined) - _SHOWN:,} more[/]")
    if plan.rewritten:
        records = counted(plan.rewritten, "record")
        out.print(f"  {records} {would}rewritten as JSON that the agent can parse")
    if plan.adds_newline:
        out.print(f"  newline {would}added after the last record")
    if not plan.written:
        return
    out.print("  [green]✓[/] repaired", soft_wrap=True)
    out.print(f"    original log: {short_path(plan.original or '')}", soft_wrap=True)
    if plan.quarantine:
        out.print(f"    quarantine: {short_path(plan.quarantine)}", soft_wrap=True)
