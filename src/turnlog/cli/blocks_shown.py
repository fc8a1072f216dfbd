"""How five-hour blocks look on a terminal."""

from __future__ import annotations

from datetime import tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.costs.blocks import BlockLedger, BlockRow


def show_blocks(out: Console, found: BlockLedger, zone: tzinfo) -> None:
    """Draw the blocks, in the order of time; the active one tells its pace."""
    from rich.table import Table

    from turnlog.cli.cost_shown import WIDE, cells_of, heads_for

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("block", no_wrap=True)
    wide = out.width >= WIDE
    for head in heads_for(wide=wide):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found.rows:
        begins, ends = (at.astimezone(zone) for at in (row.start_at, row.end_at))
        name = f"{begins:%Y-%m-%d %H:%M} to {ends:%H:%M}"
        table.add_row(f"[green]{name}[/]" if row.is_active else name, *cells_of(row, wide=wide))
    totals = cells_of(found.totals, wide=wide)
    table.add_row("[bold]total[/]", *(f"[bold]{cell}[/]" for cell in totals))
    out.print(table)
    for row in found.rows:
        if row.is_active:
            _show_pace(out, row)


def _show_pace(out: Console, row: BlockRow) -> None:
    from turnlog.pricing.money import shown

    left = row.left_min or 0
    rate = shown(Decimal(row.usd_per_hour or 0))
    ahead = shown(Decimal(row.projected_usd or 0))
    out.print(
        f"\n[green]●[/] {left // 60} h {left % 60:02} min left, {rate} an hour, "
        f"{row.tokens_per_min or 0:,} tokens a minute: {ahead} at its end"
    )
