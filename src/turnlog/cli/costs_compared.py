"""How two periods look side by side on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.costs.comparison import CostComparison, Span, UsageChange
    from turnlog.costs.ledger import Unit

_HEADS: Final = ("before", "now", "change", "")
_GAP: Final = 2
# As long as the longest of the times below it.
_COMPARED_WITH: Final = "compared with   "


def show_comparison(
    out: Console, found: CostComparison, units: Sequence[Unit], zone: tzinfo
) -> None:
    """Draw both costs of each row, the difference, and how much of the earlier one that is."""
    from rich.table import Table

    from turnlog.cli.cost_shown import rooms_for, row_names
    from turnlog.records.time_zone import TIMES

    out.print(f"now     {_period(found.period, zone)}")
    out.print(f"before  {_period(found.before, zone)}\n")
    figures = [_cells(row) for row in (*found.rows, found.totals)]
    widths = [max(map(len, column)) for column in zip(_HEADS, *figures, strict=True)]
    names: list[str] = [*units]
    has_times = any(unit in TIMES for unit in units)
    if has_times:
        names.append(_COMPARED_WITH)
    left = out.width - sum(widths) - _GAP * (len(widths) + len(names))
    if has_times:
        left -= len(_COMPARED_WITH)
    rooms = rooms_for(found.rows, units, left)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name, room in zip(names, (*rooms, len(_COMPARED_WITH)), strict=False):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=room)
    for head, width in zip(_HEADS, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, width=width)
    for row, cells in zip(found.rows, figures, strict=False):
        with_times = [f"[dim]{row.compared_with or '—'}[/]"] if has_times else []
        table.add_row(*row_names(row, units, rooms), *with_times, *_coloured(row, cells))
    totals = ["[bold]total[/]", *[""] * (len(names) - 1)]
    bold = (f"[bold]{cell}[/]" for cell in _coloured(found.totals, figures[-1]))
    table.add_row(*totals, *bold)
    out.print(table)


def _cells(row: UsageChange) -> list[str]:
    from turnlog.pricing.money import shown

    difference = Decimal(row.difference_usd)
    sign = "+" if difference > 0 else "-" if difference < 0 else ""
    percent = "" if row.percent is None else f"{row.percent:+,.0f}%"
    if row.percent is None and Decimal(row.cost_usd):
        percent = "new"
    return [
        shown(Decimal(row.before_usd)),
        shown(Decimal(row.cost_usd)),
        f"{sign}{shown(abs(difference))}",
        percent,
    ]


def _coloured(row: UsageChange, cells: Sequence[str]) -> list[str]:
    """Colour what became dearer and what became cheaper."""
    difference = Decimal(row.difference_usd)
    colour = "yellow" if difference > 0 else "green" if difference < 0 else "dim"
    return [*cells[:2], *(f"[{colour}]{cell}[/]" for cell in cells[2:])]


def _period(span: Span, zone: tzinfo) -> str:
    return f"{_instant(span.since_at, zone)} to {_instant(span.until_at, zone)}"


def _instant(at: datetime, zone: tzinfo) -> str:
    """Write a day if it is a midnight, else to the minute."""
    local = at.astimezone(zone)
    return f"{local:%Y-%m-%d}" if local.time() == local.time().min else f"{local:%Y-%m-%d %H:%M}"
