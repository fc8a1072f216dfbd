"""Cost reports on a terminal: the ledger, five-hour blocks, budgets, comparisons, explanations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import click
from msgspec import UNSET

from turnlog.api.arguments import short_model, shown_name
from turnlog.cli.terminal.ascii_symbols import is_ascii
from turnlog.cli.terminal.console import (
    counted,
    safe,
    settings_file,
    short_count,
    short_path,
)
from turnlog.cli.terminal.output import show_csv_cells
from turnlog.pricing.cost import NOT_RECORDED, Mode
from turnlog.pricing.money import shown, written
from turnlog.records.dates import TIMES
from turnlog.text import inert, inert_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from turnlog.api.costs import (
        BlockLedger,
        BlockRow,
        BudgetReport,
        BudgetRow,
        ComparedRow,
        CostComparison,
        Explanation,
        Figures,
        Ledger,
        LedgerRow,
        PriceCharges,
        Question,
        SkippedDocument,
        Span,
        Unit,
        UsageChange,
    )


_BASIS: Final[dict[Mode, str]] = {
    "calculate": "Estimate at API prices",
    "recorded": "As recorded in the logs",
    "auto": "As recorded in the logs, else an estimate at API prices",
}
WIDE: Final = 100
_HEADS: Final = ("msgs", "input", "output", "c.write", "c.read", "cost")
_WIDE_HEADS: Final = ("messages", "input", "output", "cache write", "cache read", "cached", "cost")
_GAP: Final = 2
_SHORTEST_NAME: Final = 8
_LONGEST_DRAWING: Final = 40
_SHORTEST_DRAWING: Final = 8
_SHORTEST_TITLE: Final = 12
_LEVELS: Final = "▁▂▃▄▅▆▇█"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def show_ledger(
    out: Console,
    report: Ledger,
    units: Sequence[Unit],
    titles: Mapping[str, str] | None = None,
) -> None:
    """Print the rows and the total, with trends or bars and titles if they fit."""
    from rich.table import Table

    wide = out.width >= WIDE
    heads, *figures = _figure_cells((*report.rows, report.totals), wide=wide)
    widths = [max(map(len, column)) for column in zip(heads, *figures, strict=True)]
    # Figures come first, then names, then drawings: rich would shrink all alike.
    left = out.width - sum(widths) - _GAP * (len(widths) + len(units))
    rooms, names = _name_columns(report.rows, units, left)
    left -= sum(rooms)
    is_last = report.steps is not UNSET and not wide
    titled = _titles(report, titles, left) if titles and not is_last else []
    left -= max((cell.cell_len + _GAP for cell in titled), default=0)
    drawn = _drawings(report, units, left, wide=wide)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for unit, room in zip(units, rooms, strict=True):
        table.add_column(unit, no_wrap=True, overflow="ellipsis", width=room)
    for head, width in zip(heads, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, width=width)
    if drawn:
        table.add_column(drawn[0], no_wrap=True)
    if titled:
        table.add_column(titled[0], no_wrap=True)
    for number, (named, cells) in enumerate(zip(names, figures, strict=False), 1):
        table.add_row(*named, *cells, *drawn[number : number + 1], *titled[number : number + 1])
    totals = ["[bold]total[/]", *[""] * (len(units) - 1)]
    table.add_row(*totals, *(f"[bold]{cell}[/]" for cell in figures[-1]))
    out.print(table)


def show_skipped(
    out: Console,
    skipped: SkippedDocument,
    *,
    mode: Mode = "calculate",
    is_empty: bool = False,
    is_part: bool = True,
    note: str = "",
) -> None:
    """Print *note*, what the figures are based on, and what was left out of them.

    *is_part* says that the report covers a part of the logs; what was left out is of all logs.
    """
    notes: list[str] = []
    if skipped.repeats and not is_empty:
        notes.append(f"{counted(skipped.repeats, 'duplicate')} ignored")
    if skipped.places:
        notes.append(f"{counted(len(skipped.places), 'damaged or odd record')} skipped")
    if skipped.undated:
        notes.append(f"{counted(skipped.undated, 'response')} without a date")
    if skipped.pending:
        notes.append(f"{counted(skipped.pending, 'line')} still being written")
    if is_empty and not notes and not skipped.unpriced:
        return
    out.print()
    if note:
        out.print(f"[dim]{note}[/]")
    for row in skipped.unpriced:
        why = "not recorded" if row.reason == NOT_RECORDED else "no price"
        out.print(f"[yellow]{why}[/] {safe(row.model)}: {row.tokens:,} tokens not in the cost")
    basis = "" if is_empty else f"{_BASIS[mode]}. "
    where = "In all logs: " if is_part and notes else ""
    nothing = "Nothing else skipped" if skipped.unpriced else "Nothing skipped"
    out.print(f"[dim]{basis}{where}{', '.join(notes) or nothing}.[/]")


def write_lists(rows: Iterable[Sequence[str]], names: int, *, as_markdown: bool) -> None:
    """Print rows, heads first, as CSV or Markdown; the first *names* columns are text."""
    cells = [[inert(cell) for cell in row] for row in rows]
    if not as_markdown:
        show_csv_cells(cells[0], cells[1:])
        return
    heads, *others = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    rule = ["---"] * names + ["---:"] * (len(heads) - names)
    for row in (heads, rule, *others):
        click.echo(f"| {' | '.join(row)} |")


def _name_columns(
    rows: Sequence[LedgerRow | ComparedRow], units: Sequence[Unit], left: int
) -> tuple[list[int], list[list[str]]]:
    """Return the width of each column of names, and the names of each row; unknown ones are dim.

    If they do not fit, projects and models get short names. Times are never cut; other long names
    share what is *left* equally.
    """
    from rich.cells import cell_len
    from rich.markup import escape

    from turnlog.api.arguments import shown_name

    columns = [[inert(shown_name(unit, getattr(row, unit))) for row in rows] for unit in units]
    if sum(max(map(cell_len, column), default=0) for column in columns) > left:
        columns = [_short(unit, names) for unit, names in zip(units, columns, strict=True)]
    names = [list(row) for row in zip(*columns, strict=True)]
    wanted = [max(map(cell_len, column)) for column in zip(units, *names, strict=True)]
    wanted[0] = max(wanted[0], len("total"))
    rooms = [0] * len(units)
    order = sorted(range(len(units)), key=lambda place: (units[place] not in TIMES, wanted[place]))
    for number, place in enumerate(order):
        fair = max(_SHORTEST_NAME, left // (len(units) - number))
        rooms[place] = wanted[place] if units[place] in TIMES else min(wanted[place], fair)
        left -= rooms[place]
    for row, row_names in zip(rows, names, strict=True):
        for place, unit in enumerate(units):
            name, room = row_names[place], rooms[place]
            if unit == "project" and len(name) > room:
                name = f"…{name[1 - room :]}"  # Paths differ at their end.
            is_known = getattr(row, unit) is not None
            row_names[place] = escape(name) if is_known else f"[dim]{escape(name)}[/]"
    return rooms, names


def _short(unit: Unit, names: list[str]) -> list[str]:
    """Return short *names* of projects or models; the same names if two would become one."""
    from turnlog.api.homes import last_part

    shorten = {"project": last_part, "model": short_model}.get(unit)
    short = {name: shorten(name) or name for name in names} if shorten else {}
    is_clear = len(set(short.values())) == len(short)
    return [short[name] for name in names] if short and is_clear else names


def spark(costs: Sequence[Decimal], width: int) -> str:
    """Return a sparkline of *costs*, scaled to the highest; zero is blank. ASCII has none."""
    if width < 1 or is_ascii():
        return ""
    if len(costs) > width:
        edges = [number * len(costs) // width for number in range(width + 1)]
        costs = [sum(costs[begin:end], Decimal(0)) for begin, end in pairwise(edges)]
    top = max(costs, default=Decimal(0))
    if not top:
        return ""
    last = len(_LEVELS) - 1
    return "".join(_LEVELS[int(cost * last / top)] if cost else " " for cost in costs)


def bar(part: Decimal, width: int) -> str:
    """Return a bar that fills *part* of *width*; above zero it is never empty."""
    eighths = int(min(part, Decimal(1)) * width * 8)
    if part > 0:
        eighths = max(1, eighths)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _titles(report: Ledger, titles: Mapping[str, str], left: int) -> list[Text]:
    """Return the head and the cells of the title column, or nothing if it does not fit."""
    from rich.text import Text

    room = left - _GAP
    if room < _SHORTEST_TITLE:
        return []
    cells = [Text("title")]
    for row in report.rows:
        title = titles.get(row.session, "") if isinstance(row.session, str) else ""
        cells.append(Text(inert_line(title)))
    for cell in cells:
        cell.truncate(room, overflow="ellipsis")
    return cells


def _drawings(report: Ledger, units: Sequence[Unit], left: int, *, wide: bool) -> list[str]:
    """Return the head and the cells of trends or bars, or nothing if they do not fit."""
    room = min(left - _GAP, _LONGEST_DRAWING)
    if room < _SHORTEST_DRAWING:
        return []
    if (steps := report.steps) is not UNSET:
        width = min(room, len(steps))
        head = " to ".join(dict.fromkeys((*steps[:1], *steps[-1:])))
        if len(head) > max(width, _SHORTEST_DRAWING):
            head = "trend"
        return [head, *(f"[cyan]{spark(_trend(row), width)}[/]" for row in report.rows)]
    costs = [Decimal(row.cost_usd) for row in report.rows]
    top = max(costs, default=Decimal(0))
    if not wide or not top or len(units) > 1:
        return []
    return ["", *(f"[cyan]{bar(cost / top, room)}[/]" for cost in costs)]


def _trend(row: LedgerRow) -> list[Decimal]:
    return [] if row.trend is UNSET else list(map(Decimal, row.trend))


def _figure_cells(rows: Sequence[Figures], *, wide: bool) -> list[list[str]]:
    """Return the heads of the figures, and the figures of each row as text."""
    costs = [shown(Decimal(row.cost_usd)) for row in rows]
    table = [list(_WIDE_HEADS if wide else _HEADS)]
    for row, cost in zip(rows, costs, strict=True):
        cached = row.cache_write_5m + row.cache_write_1h
        counts = (row.messages, row.input, row.output, cached, row.cache_read)
        cells = [f"{count:,}" if wide else short_count(count) for count in counts]
        if wide:
            part = row.cache_efficiency
            cells.append("" if part is None else f"{part:.0%}")
        table.append([*cells, cost])
    return table


def show_blocks(out: Console, report: BlockLedger, zone: tzinfo) -> None:
    """Print the blocks by time, and the pace of the active one."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("block", no_wrap=True)
    wide = out.width >= WIDE
    heads, *figures = _figure_cells((*report.rows, report.totals), wide=wide)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for row, cells in zip(report.rows, figures, strict=False):
        begins, ends = (at.astimezone(zone) for at in (row.start_at, row.end_at))
        name = f"{begins:%Y-%m-%d %H:%M} to {ends:%H:%M}"
        table.add_row(f"[green]{name}[/]" if row.is_active else name, *cells)
    table.add_row("[bold]total[/]", *(f"[bold]{cell}[/]" for cell in figures[-1]))
    out.print(table)
    for row in report.rows:
        if row.is_active:
            _show_pace(out, row)


def _show_pace(out: Console, row: BlockRow) -> None:
    left = row.left_min or 0
    rate = shown(Decimal(row.usd_per_hour or 0))
    ahead = shown(Decimal(row.projected_usd or 0))
    out.print(
        f"\n[green]●[/] {left // 60} h {left % 60:02} min left, {rate} per hour, "
        f"{row.tokens_per_min or 0:,} tokens per minute: {ahead} by the end"
    )


_COLOURS: Final = {"ok": "green", "near": "yellow", "exceeded": "red"}
_BAR: Final = 10


def show_budgets(out: Console, report: BudgetReport) -> None:
    """Print each budget with a bar, and its projection."""
    from rich.table import Table

    wide = out.width >= WIDE
    width = 2 * _BAR if wide else _BAR
    pace = "projected at period end" if wide else "projected"
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("budget", no_wrap=True)
    table.add_column("", no_wrap=True, width=width)
    table.add_column("", no_wrap=True, justify="right")
    table.add_column("spent", no_wrap=True, justify="right")
    table.add_column(pace, no_wrap=True, justify="right")
    table.add_column("", overflow="fold")
    for row in report.budgets:
        table.add_row(*_cells(row, width))
    out.print(table)


def show_no_budget(out: Console) -> None:
    """Print how to set a budget."""
    out.print("No budget is set.")
    out.print(
        f"[dim]hint: set monthly = 300 under \\[budgets] in {settings_file()};"
        " see turnlog cost --help[/]",
        soft_wrap=True,
    )


def _cells(row: BudgetRow, width: int) -> list[str]:
    colour = _COLOURS[row.state]
    limit, used = Decimal(row.limit_usd), Decimal(row.used_usd)
    filled = bar(used / limit if limit else Decimal(1 if used else 0), width)
    percent = ""
    if row.percent is not None:  # Not 100% while something is left.
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
    notes = []
    if row.state == "exceeded":
        notes.append("[red]exceeded[/]")
    elif row.state == "near":
        notes.append("[yellow]nearly spent[/]")
    if row.project is not None:
        notes.append(f"[dim]{short_path(row.project)}[/]")
    if row.end_at is None:
        notes.append("[dim]no active block[/]")
    return " ".join(notes)


_COMPARISON_HEADS: Final = ("before", "now", "change", "")
# As wide as the longest time below it.
_COMPARED_WITH: Final = "compared with   "


def show_comparison(
    out: Console, report: CostComparison, units: Sequence[Unit], zone: tzinfo
) -> None:
    """Print both costs of each row, and the change in dollars and percent."""
    from rich.table import Table

    out.print(f"now     {_period(report.period, zone)}")
    out.print(f"before  {_period(report.before, zone)}\n")
    figures = [_comparison_cells(row) for row in (*report.rows, report.totals)]
    widths = [max(map(len, column)) for column in zip(_COMPARISON_HEADS, *figures, strict=True)]
    names: list[str] = [*units]
    has_times = any(unit in TIMES for unit in units)
    if has_times:
        names.append(_COMPARED_WITH)
    left = out.width - sum(widths) - _GAP * (len(widths) + len(names))
    if has_times:
        left -= len(_COMPARED_WITH)
    rooms, cells_of_names = _name_columns(report.rows, units, left)
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name, room in zip(names, (*rooms, len(_COMPARED_WITH)), strict=False):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=room)
    for head, width in zip(_COMPARISON_HEADS, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, width=width)
    for row, named, cells in zip(report.rows, cells_of_names, figures, strict=False):
        with_times = [f"[dim]{row.compared_with or '—'}[/]"] if has_times else []
        table.add_row(*named, *with_times, *_coloured(row, cells))
    totals = ["[bold]total[/]", *[""] * (len(names) - 1)]
    bold = (f"[bold]{cell}[/]" for cell in _coloured(report.totals, figures[-1]))
    table.add_row(*totals, *bold)
    out.print(table)


def _comparison_cells(row: UsageChange) -> list[str]:
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
    """Colour increases and decreases."""
    difference = Decimal(row.difference_usd)
    colour = "yellow" if difference > 0 else "green" if difference < 0 else "dim"
    return [*cells[:2], *(f"[{colour}]{cell}[/]" for cell in cells[2:])]


def _period(span: Span, zone: tzinfo) -> str:
    return f"{_instant(span.since_at, zone)} to {_instant(span.until_at, zone)}"


def _instant(at: datetime, zone: tzinfo) -> str:
    """Return the date of a midnight, else the time to the minute."""
    local = at.astimezone(zone)
    return f"{local:%Y-%m-%d}" if local.time() == local.time().min else f"{local:%Y-%m-%d %H:%M}"


_KINDS: Final = {
    "input": "input",
    "output": "output",
    "cache_write_5m": "cache write, 5 min",
    "cache_write_1h": "cache write, 1 h",
    "cache_read": "cache read",
    "web_searches": "web searches",
}
_PER: Final = {1_000_000: "M", 1_000: "k"}


def show_explanation(out: Console, report: Explanation, question: Question, left: int) -> None:
    """Print counts times rates, which add up to the cost, and the most expensive responses."""
    total = Decimal(report.totals.cost_usd)
    count = counted(report.totals.messages, "response")
    names_time = report.row != "total" and any(unit in TIMES for unit in question.by)
    span = "" if names_time else _asked_period(question)
    name = report.row.replace(",", ", ") if len(question.by) > 1 else report.row
    out.print(f"[bold]{safe(name)}[/]{span}: {shown(total)} for {count}\n")
    _show_charges(out, report)
    out.print(f"\n{'Responses' if not left else 'Most expensive responses'}:")
    for row in report.rows:
        at = f"{row.at.astimezone(question.zone):%Y-%m-%d %H:%M:%S}" if row.at else "no date"
        cost = f"${written(Decimal(row.cost_usd))}" if row.unpriced is None else row.unpriced
        session = f"[dim]{safe(row.session[:8])}[/]" if row.session else ""
        out.print(f"{at} {session} [cyan]{safe(short_model(row.model))}[/] {safe(cost)}")
    more = f"… {left:,} more with --limit 0; " if left else ""
    out.print(f"[dim]{more}--json adds the log and offset of each[/]")


def _asked_period(question: Question) -> str:
    since, until = question.period.since, question.period.until
    words = [f"since {_instant(since, question.zone)}"] if since else []
    words += [f"before {_instant(until, question.zone)}"] if until else []
    return f" {', '.join(words)}" if words else ""


def _show_charges(out: Console, report: Explanation) -> None:
    """Print count x rate = cost for each price, exactly, and the sum of all."""
    from rich.table import Table

    total = Decimal(report.totals.cost_usd)
    costs = [Decimal(charge.cost_usd) for price in report.prices for charge in price.charges]
    places = max(map(_decimals, (*costs, total)))
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("", overflow="fold")
    for head in ("tokens", "rate", "cost"):
        table.add_column(head, justify="right", no_wrap=True)
    for price in report.prices:
        name = ", ".join((shown_name("model", price.model), *price.terms))
        cost = f"${Decimal(price.cost_usd):,.{places}f}" if len(report.prices) > 1 else ""
        if price.unpriced is not None:
            name, cost = f"{name}: {price.unpriced}", ""
        elif not price.charges:
            name = f"{name}: recorded in the logs"
        table.add_row(f"[cyan]{safe(name)}[/]", "", "", cost)
        for charge in price.charges:
            rate = Decimal(charge.rate_usd)
            table.add_row(
                f"  {_KINDS[charge.kind]}",
                f"{charge.count:,}",
                f"x ${rate:,.{_decimals(rate)}f}/{_PER[charge.per]}",
                f"= ${Decimal(charge.cost_usd):,.{places}f}",
            )
    table.add_row("[bold]total[/]", "", "", f"[bold]${total:,.{places}f}[/]")
    out.print(table)
    for line in dict.fromkeys(_price_line(each, report) for each in report.prices):
        if line:
            out.print(f"[dim]{safe(line)}[/]")


def _decimals(amount: Decimal) -> int:
    """Return how many decimals show *amount* exactly; at least two."""
    exponent = amount.as_tuple().exponent
    return max(2, -exponent if isinstance(exponent, int) else 0)


def _price_line(price: PriceCharges, report: Explanation) -> str:
    """Return where a price comes from, and when it holds."""
    if not price.charges:
        return ""
    sources = {
        "genai-prices": f"genai-prices {report.genai_prices}",
        "turnlog": "turnlog's own table",
        "override": "config.toml",
    }
    dates = [f"since {price.since}"] if price.since else []
    dates += [f"until {price.until}"] if price.until else []
    model = shown_name("model", price.model)
    valid = " ".join(dates) or "at any date"
    return f"Price of {model}: {sources[price.source or '']}, valid {valid}."
