"""How budgets look on a terminal: a line each, with a bar."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.costs.budgets import BudgetReport, BudgetRow

_COLOURS: Final = {"ok": "green", "near": "yellow", "exceeded": "red"}
_BAR: Final = 10
_WIDE: Final = 100


def show_budgets(out: Console, found: BudgetReport) -> None:
    """Draw a line for each budget: how full it is, and where this pace leads."""
    from rich.table import Table

    wide = out.width >= _WIDE
    width = 2 * _BAR if wide else _BAR
    pace = "at this pace by its end" if wide else "at this pace"
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("budget", no_wrap=True)
    table.add_column("", no_wrap=True, width=width)
    table.add_column("", no_wrap=True, justify="right")
    table.add_column("spent", no_wrap=True, justify="right")
    table.add_column(pace, no_wrap=True, justify="right")
    table.add_column("", overflow="fold")
    for row in found.budgets:
        table.add_row(*_cells(row, width))
    out.print(table)


def show_no_budget(out: Console) -> None:
    """Say that there is none, and how to set one."""
    from turnlog.cli.terminal import settings_file

    out.print("No budget is set.")
    out.print(
        f"[dim]hint: say monthly = 300 under \\[budgets] in {settings_file()};"
        " turnlog cost --help shows what else[/]",
        soft_wrap=True,
    )


def _cells(row: BudgetRow, width: int) -> list[str]:
    from turnlog.cli.cost_shown import bar
    from turnlog.pricing.money import shown

    colour = _COLOURS[row.state]
    limit, used = Decimal(row.limit_usd), Decimal(row.used_usd)
    filled = bar(used / limit if limit else Decimal(1 if used else 0), width)
    percent = ""
    if row.percent is not None:  # Not all of it as long as something is left.
        percent = f"{99 if 99 < row.percent < 100 else row.percent:,.0f}%"
    pace = ""
    if row.projected_usd is not None:
        ahead = Decimal(row.projected_usd)
        is_over = row.state != "exceeded" and ahead > limit
        pace = f"[yellow]{shown(ahead)}[/]" if is_over else shown(ahead)
    return [
        row.budget,
        f"[{colour}]{filled}[/][dim]{'░' * (width - len(filled))}[/]",
        f"[{colour}]{percent}[/]",
        f"{shown(used)} of {shown(limit)}",
        pace,
        _note(row),
    ]


def _note(row: BudgetRow) -> str:
    from turnlog.cli.terminal import short_path

    notes = []
    if row.state == "exceeded":
        notes.append("[red]exceeded[/]")
    elif row.state == "near":
        notes.append("[yellow]nearly spent[/]")
    if row.project is not None:
        notes.append(f"[dim]{short_path(row.project)}[/]")
    if row.end_at is None:
        notes.append("[dim]no block lasts now[/]")
    return " ".join(notes)
