"""``turnlog cost``: what was used, and what it cost."""

from __future__ import annotations

import csv
import re
import sys
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import click

from turnlog.cli.options import home_option, json_option, show_json, tell_problems
from turnlog.inert import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.layout import Home
    from turnlog.prices.cost import Mode, Prices
    from turnlog.questions.ledger import (
        Explanation,
        Figures,
        Ledger,
        LedgerRow,
        Period,
        SkippedDocument,
        Unit,
    )
    from turnlog.questions.usage_scan import UsageScan

REPORTS: Final[dict[str, tuple[Unit, ...]]] = {
    "hourly": ("hour",),
    "daily": ("day",),
    "weekly": ("week",),
    "monthly": ("month",),
    "session": ("session",),
    "project": ("project",),
    "model": ("model",),
    "agent": ("session", "agent"),
}
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LAST: Final = re.compile(r"(\d{1,5})\s*(h|d|w)")
_WIDE: Final = 100


@click.command(
    name="cost",
    epilog="""\b
Examples:
  turnlog cost                          day by day
  turnlog cost monthly --last 90d
  turnlog cost model --since 2026-01-01
  turnlog cost blocks --last 1d         five-hour blocks, the active one with its pace
  turnlog cost --explain 2026-07-22     the responses behind a day's figures
  turnlog cost --by day,model --csv     any combination, for a spreadsheet
  turnlog cost project --last 7d --json""",
)
@click.argument("report", type=click.Choice((*REPORTS, "blocks")), default="daily")
@home_option
@json_option
@click.option("--by", metavar="UNITS", help="Group by these instead, such as day,model.")
@click.option("--since", metavar="WHEN", help="From this day or time on.")
@click.option("--until", metavar="WHEN", help="Up to, and without, this day or time.")
@click.option("--last", metavar="TIME", help="Only the last 12h, 7d or 4w.")
@click.option("--project", metavar="DIR", help="Only sessions that began in DIR or below it.")
@click.option("--model", metavar="NAME", help="Only models whose name has this in it.")
@click.option("--session", metavar="ID", help="Only sessions whose id begins with this.")
@click.option("--timezone", metavar="ZONE", help="Whose days they are.  [default: this machine's]")
@click.option(
    "--week-starts",
    type=click.Choice(_DAYS),
    default="monday",
    show_default=True,
    help="The first day of a week.",
)
@click.option(
    "--mode",
    type=click.Choice(("auto", "calculate", "recorded")),
    default="calculate",
    show_default=True,
    help="Reckon costs, take those that logs recorded, or those where there are any.",
)
@click.option("--explain", "row", metavar="ROW", help="List the responses behind a row's figures.")
@click.option("--no-index", is_flag=True, help="Read the logs themselves, all of them.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a Markdown table.")
def command(
    report: str,
    homes: tuple[str, ...],
    *,
    as_json: bool,
    by: str | None,
    since: str | None,
    until: str | None,
    last: str | None,
    project: str | None,
    model: str | None,
    session: str | None,
    timezone: str | None,
    week_starts: str,
    mode: Mode,
    row: str | None,
    no_index: bool,
    as_csv: bool,
    as_markdown: bool,
) -> int:
    """Show what was used and what it cost at the API's prices, every response counted once.

    Days are those of this machine's time zone unless another is named.
    """
    import os

    from turnlog.layout import all_homes, turnlog_home
    from turnlog.prices.configured import configured_prices
    from turnlog.questions.ledger import Period, Question, explain, ledger

    zone = _zone(timezone)
    if report == "blocks" and (by or row or as_csv or as_markdown):
        raise click.UsageError("blocks are shown as a table or with --json, and grouped by nothing")
    units = _units(by) if by is not None else REPORTS.get(report, ())
    period = Period(
        since=_moment(since, zone, "--since") or _ago(last),
        until=_moment(until, zone, "--until"),
        project=os.path.abspath(os.path.expanduser(project)) if project else None,
        model=model,
        session=session,
    )
    prices, problems = configured_prices(turnlog_home())
    tell_problems(problems)
    is_sum = report != "blocks" and row is None and mode == "calculate"
    scan = _usage(all_homes(homes), period, prices, is_sum=is_sum, no_index=no_index)
    if report == "blocks":
        return _blocks(scan, prices, period, mode, zone, as_json=as_json)
    asked = Question(
        by=units,
        zone=zone,
        week_starts=_DAYS.index(week_starts),
        period=period,
        mode=mode,
    )
    if row is not None:
        return _explain(explain(scan, prices, asked, row), as_json=as_json)
    found = ledger(scan, prices, asked)
    if as_json:
        show_json(found)
    elif as_csv or as_markdown:
        _write(found, units, as_markdown=as_markdown)
    else:
        _show(found, units)
    return 0 if found.rows else 1


def _usage(
    homes: tuple[Home, ...], period: Period, prices: Prices, *, is_sum: bool, no_index: bool
) -> UsageScan:
    """Ask the index what was used; without one, the logs. The answer is the same."""
    import os

    from turnlog.errors import IndexUnavailable

    if not no_index:
        from turnlog.cli.indexed import open_index
        from turnlog.questions.spending import every_response, spent

        try:
            with open_index(homes, stage="usage") as index:
                return spent(index, period, prices) if is_sum else every_response(index, period)
        except IndexUnavailable as error:
            click.echo(f"notice: {inert(error.message)}; read the logs instead", err=True)
    from turnlog.questions.usage_scan import scan_usage

    return scan_usage(homes, workers=os.cpu_count() or 1)


def _blocks(
    scan: UsageScan, prices: Prices, period: Period, mode: Mode, zone: tzinfo, *, as_json: bool
) -> int:
    from turnlog.questions.blocks import blocks

    found = blocks(scan, prices, now=datetime.now(UTC), period=period, mode=mode)
    if as_json:
        show_json(found)
    else:
        from turnlog.cli.blocks_shown import show_blocks
        from turnlog.cli.terminal import console

        out = console()
        show_blocks(out, found, zone)
        show_skipped(out, found.skipped)
    return 0 if found.rows else 1


def _explain(found: Explanation, *, as_json: bool) -> int:
    if as_json:
        show_json(found)
    else:
        from turnlog.cli.costs_explained import show_explanation
        from turnlog.cli.terminal import console

        show_explanation(console(), found)
    return 0


def _units(text: str) -> tuple[Unit, ...]:
    from turnlog.questions.ledger import UNITS

    asked = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    unknown = [each for each in asked if each not in UNITS]
    if unknown or not asked:
        raise click.UsageError(f"--by takes {', '.join(UNITS)}, not {text!r}")
    return tuple(unit for each in asked for unit in UNITS if unit == each)


def _zone(name: str | None) -> tzinfo:
    from zoneinfo import ZoneInfo

    if name is None:
        return datetime.now().astimezone().tzinfo or UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise click.UsageError(
            f"--timezone takes a name such as UTC or Europe/Berlin, not {name!r}"
        ) from None


def _moment(text: str | None, zone: tzinfo, option: str) -> datetime | None:
    """Read a day or a time; without a time zone of its own it is one of *zone*."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.UsageError(
            f"{option} takes 2026-01-31 or 2026-01-31T18:00, not {text!r}"
        ) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone)


def _ago(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = _LAST.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"--last takes 12h, 7d or 4w, not {text!r}")
    unit = {"h": "hours", "d": "days", "w": "weeks"}[found[2]]
    return datetime.now(UTC) - timedelta(**{unit: int(found[1])})


def _write(found: Ledger, units: tuple[Unit, ...], *, as_markdown: bool) -> None:
    from turnlog.inert import inert
    from turnlog.questions.ledger import rows_as_lists

    rows = [[inert(cell) for cell in row] for row in rows_as_lists(found, units)]
    if not as_markdown:
        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
        return
    heads, *others = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    rule = ["---"] * len(units) + ["---:"] * (len(heads) - len(units))
    for row in (heads, rule, *others):
        click.echo(f"| {' | '.join(row)} |")


def _show(found: Ledger, units: tuple[Unit, ...]) -> None:
    from rich.table import Table

    from turnlog.cli.terminal import console

    out = console()
    if not found.rows:
        out.print("No responses found.")
        out.print("[dim]hint: a longer period, or another --home[/]")
        return
    wide = out.width >= _WIDE
    heads = ("messages", "input", "output", "cache write", "cache read", "cost")
    if not wide:
        heads = ("msgs", "input", "output", "c.write", "c.read", "cost")
    figures = [_cells(row, wide=wide) for row in (*found.rows, found.totals)]
    widths = [max(map(len, column)) for column in zip(heads, *figures, strict=True)]
    # What the figures leave is for the names: rich would shrink all alike.
    room = (out.width - sum(widths) - 2 * len(widths)) // len(units) - 2
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for unit in units:
        table.add_column(unit, no_wrap=True, overflow="ellipsis", max_width=max(8, room))
    for head, width in zip(heads, widths, strict=True):
        table.add_column(head, justify="right", no_wrap=True, width=width)
    for row, cells in zip(found.rows, figures, strict=False):
        table.add_row(*_names(row, units, max(8, room)), *cells)
    totals = ["[bold]total[/]", *[""] * (len(units) - 1)]
    table.add_row(*totals, *(f"[bold]{cell}[/]" for cell in figures[-1]))
    out.print(table)
    show_skipped(out, found.skipped)


def _names(row: LedgerRow, units: tuple[Unit, ...], room: int) -> list[str]:
    from turnlog.cli.terminal import safe, short_path

    cells = []
    for unit in units:
        name = getattr(row, unit)
        if name is None:
            cells.append("[dim]main[/]" if unit == "agent" else "[dim]not known[/]")
        elif unit == "project":
            path = short_path(name)  # Paths are alike at their beginning.
            cells.append(path if len(path) <= room else f"…{path[1 - room :]}")
        else:
            cells.append(safe(name[:8] if unit == "session" else name.removeprefix("claude-")))
    return cells


def _cells(row: Figures, *, wide: bool) -> list[str]:
    from turnlog.cli.terminal import short_count
    from turnlog.prices.money import shown

    written = row.cache_write_5m + row.cache_write_1h
    counts = (row.messages, row.input, row.output, written, row.cache_read)
    return [
        *(f"{each:,}" if wide else short_count(each) for each in counts),
        shown(Decimal(row.cost_usd)),
    ]


def show_skipped(out: Console, skipped: SkippedDocument) -> None:
    """Say what is in no figure, or that nothing is."""
    from turnlog.cli.terminal import counted, safe

    told = []
    if skipped.repeats:
        told.append(f"{counted(skipped.repeats, 'repeat')} folded")
    if skipped.places:
        told.append(f"{counted(len(skipped.places), 'place')} damaged or odd")
    if skipped.undated:
        told.append(f"{counted(skipped.undated, 'response')} without a date")
    if skipped.pending:
        told.append(f"{counted(skipped.pending, 'line')} still being written")
    out.print()
    for row in skipped.unpriced:
        out.print(f"[yellow]no price[/] {safe(row.model)}: {row.tokens:,} tokens in no cost")
    out.print(
        f"[dim]An estimate at the API's prices. {', '.join(told) or 'Nothing was left out'}.[/]"
    )
