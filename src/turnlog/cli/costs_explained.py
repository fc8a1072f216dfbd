"""How the responses behind a figure look on a terminal."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.costs.ledger import Explanation

_SHOWN: Final = 50


def show_explanation(out: Console, found: Explanation, zone: tzinfo) -> None:
    """List the responses, the dearest first, each with the place of its record."""
    from turnlog.cli.terminal import counted, log_name, safe, short_count
    from turnlog.pricing.money import shown, written

    count = counted(found.totals.messages, "response")
    out.print(f"[bold]{safe(found.row)}[/] {shown(Decimal(found.totals.cost_usd))} for {count}\n")
    for row in found.rows[:_SHOWN]:
        at = f"{row.at.astimezone(zone):%Y-%m-%d %H:%M:%S}" if row.at else "no date"
        cached = row.cache_write_5m + row.cache_write_1h
        counts = map(short_count, (row.input, cached, row.cache_read, row.output))
        tokens = "{} in, {} written, {} read, {} out".format(*counts)
        cost = f"${written(Decimal(row.cost_usd))}" if row.unpriced is None else row.unpriced
        out.print(f"{at} [cyan]{safe(row.model)}[/] {safe(cost)}")
        out.print(f"  {tokens}")
        out.print(f"  [dim]{log_name(row.log, 60)} at {row.offset:,}[/]", soft_wrap=True)
    if len(found.rows) > _SHOWN:
        out.print(f"\n[dim]… and {len(found.rows) - _SHOWN:,} more; --json lists all[/]")
