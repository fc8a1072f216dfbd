"""How the records behind a figure of insights look on a terminal."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.insights.explanation import InsightsExplanation
    from turnlog.insights.scope import Evidence


def show_explanation(out: Console, found: InsightsExplanation, zone: tzinfo) -> None:
    """List the records, each with its figures and its place."""
    from turnlog.cli.terminal import log_name, one_line, safe

    out.print(f"[bold]{safe(found.figure)}[/] {found.total:,}  [dim]{safe(found.about)}[/]\n")
    for row in found.rows:
        at = "no date" if row.at is None else f"{row.at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
        figures = "  ".join(_figures(row))
        session = safe((row.session or "")[:8])
        out.print(f"{at} [cyan]{session}[/] {safe(one_line(row.what, 200, out.width))}")
        if figures:
            out.print(f"  {figures}")
        if row.log:
            out.print(f"  [dim]{log_name(row.log, 60)} at {row.offset:,}[/]", soft_wrap=True)
    if not found.rows:
        out.print("Nothing is behind it in this period.")
    if found.next is not None:
        rest = found.total - len(found.rows)
        out.print(f"\n[dim]… and {rest:,} more; --limit 0 lists all[/]")


def _figures(row: Evidence) -> list[str]:
    from decimal import Decimal

    from turnlog.cli.terminal import short_count
    from turnlog.export.html.figures import time
    from turnlog.pricing.money import written

    told = []
    if isinstance(row.tokens, int):
        told.append(f"{short_count(row.tokens)} tokens")
    if isinstance(row.cost_usd, str):
        told.append(f"${written(Decimal(row.cost_usd))}")
    if isinstance(row.duration_ms, int):
        told.append(time(row.duration_ms))
    if isinstance(row.added, int):
        told.append(f"+{row.added} -{row.removed} lines")
    return told
