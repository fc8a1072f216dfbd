"""``turnlog`` without a command: recent usage, latest sessions, what needs attention."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from msgspec import structs

from turnlog.cli.browse.sessions import session_table
from turnlog.cli.options import (
    command_line,
    configured_prices,
    open_index,
    print_notices,
    show_json,
)
from turnlog.cli.terminal.console import console, counted, day, safe, short_count, size
from turnlog.cli.terminal.empty_results import hint_for
from turnlog.errors import IndexUnavailable
from turnlog.pricing.money import shown

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.homes import Home
    from turnlog.api.insights import Attention, BareOverview, Overview
    from turnlog.pricing.cost import Prices

_NEXT: Final = (
    ("turnlog show latest", "read the latest session"),
    ("turnlog search WORDS", "search all sessions"),
    ("turnlog cost", "costs by day, project or model"),
)
_HELP: Final = ("turnlog --help", "all commands")


def show_overview(names: tuple[str, ...], *, as_json: bool, or_sample: str | None = None) -> int:
    """Show the overview, of *or_sample* if there are no sessions, and return the exit code."""
    from turnlog.api.homes import all_homes, turnlog_home

    is_first, prices = not turnlog_home().exists(), configured_prices()
    document = _overview(all_homes(names), prices)
    if not document.total and or_sample is not None:
        names, is_first = (or_sample,), False
        document = _overview_of_logs(all_homes(names), prices)  # Samples get no index.
    if as_json:
        show_json(document)
    else:
        _show(document, names, is_first=is_first)
    return 0 if document.total else 1


def _overview(homes: tuple[Home, ...], prices: Prices) -> Overview | BareOverview:
    """Return the overview from the index, or from the logs if there can be no index."""
    from turnlog.api.insights import overview
    from turnlog.records.dates import MachineZone

    try:
        with open_index(homes, fallback="read") as index:
            return overview(index, homes, prices, now=datetime.now(UTC), zone=MachineZone())
    except IndexUnavailable as error:
        print_notices([f"{error.message}; reading the logs instead"])
        return _overview_of_logs(homes, prices)


def _overview_of_logs(homes: tuple[Home, ...], prices: Prices) -> BareOverview:
    from turnlog.api.insights import bare_overview
    from turnlog.records.dates import MachineZone

    return bare_overview(homes, prices, now=datetime.now(UTC), zone=MachineZone())


def _show(document: Overview | BareOverview, homes: tuple[str, ...], *, is_first: bool) -> None:
    out = console()
    if not document.total:
        out.print("No sessions found.")
        hint = safe(f"{hint_for(homes, {})}, or start one with claude; see also turnlog --help")
        out.print(f"[dim]hint: {hint}[/]", soft_wrap=True)
        return
    attention = document.attention
    if is_first:
        _show_findings(out, document, homes)
        attention = structs.replace(attention, about_to_be_deleted=0, unkept=0)  # It is said above.
    _show_periods(out, document)
    out.print()
    out.print(session_table(out, document.sessions))
    if document.total > len(document.sessions):
        more = f"{document.total - len(document.sessions):,} more: turnlog sessions"
        out.print(f"[dim]… {more}[/]", no_wrap=True, crop=True)
    _show_attention(out, attention, homes)
    out.print()
    following = [*((command_line(command, homes), what) for command, what in _NEXT), _HELP]
    width = max(len(command) for command, _ in following)
    for command, what in following:
        out.print(f" [dim]$[/] {safe(command):<{width}}  [dim]{what}[/]", no_wrap=True, crop=True)


def _show_findings(out: Console, document: Overview | BareOverview, homes: tuple[str, ...]) -> None:
    """Print what was found on the first run, what will be deleted, and how to keep it."""
    from turnlog.api.insights import WITHIN_DAYS

    totals, attention = document.totals, document.attention
    projects = f" in {counted(totals.projects, 'project')}" if totals.projects else ""
    since = f" since {day(totals.since)}" if totals.since else ""
    found = f"{counted(totals.sessions, 'session')}{projects}{since}, {size(totals.size_bytes)}"
    out.print(f"Found {found}.", soft_wrap=True)
    if attention.cleanup_days is not None:
        due = f"{attention.about_to_be_deleted:,}" if attention.about_to_be_deleted else "none"
        out.print(
            f"Claude Code deletes sessions {attention.cleanup_days} days after their last use:"
            f" {due} within {WITHIN_DAYS} days.",
            soft_wrap=True,
        )
    out.print(
        f"Keep them for good: [bold]{safe(command_line('turnlog keep', homes))}[/]\n",
        soft_wrap=True,
    )


def _show_periods(out: Console, document: Overview | BareOverview) -> None:
    from turnlog.cli.views.cost import spark

    rows = [
        (
            row.period,
            shown(Decimal(row.cost_usd)),
            f"{short_count(row.tokens)} tokens",
            counted(row.sessions, "session"),
        )
        for row in document.periods
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    drawn = spark([Decimal(cost) for cost in document.days], max(0, out.width - sum(widths) - 11))
    for row in rows:
        period, cost, tokens, sessions = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        trend = f"  [cyan]{drawn.rstrip()}[/]" if drawn and row is rows[-1] else ""
        line = f" {period}  [bold]{cost}[/]  {tokens}  {sessions}{trend}"
        out.print(line, no_wrap=True, crop=True)
    out.print(" [dim]costs are estimates at API prices[/]", no_wrap=True, crop=True)


def _show_attention(out: Console, attention: Attention, homes: tuple[str, ...]) -> None:
    from turnlog.api.insights import WITHIN_DAYS

    lines = []
    if attention.about_to_be_deleted:
        count = counted(attention.about_to_be_deleted, "session")
        lines.append((f"{count} will be deleted within {WITHIN_DAYS} days", "turnlog keep"))
    elif attention.unkept:
        lines.append((f"{counted(attention.unkept, 'recent session')} not kept", "turnlog keep"))
    if attention.damaged:
        lines.append((f"{counted(attention.damaged, 'session')} with damage", "turnlog doctor"))
    if attention.crashed:
        lines.append((f"{counted(attention.crashed, 'session')} crashed", "turnlog recover"))
    lines = [(what, command_line(command, homes)) for what, command in lines]
    if attention.unpriced:
        models = ", ".join(attention.unpriced[:3])
        which = shlex.quote(attention.unpriced[0])
        lines.append((f"no price known for {models}", f"turnlog prices {which}"))
    if lines:
        out.print()
    width = max((len(what) for what, _ in lines), default=0)
    for what, command in lines:
        line = f" [yellow]![/] {safe(what):<{width}}  [dim]$[/] {safe(command)}"
        out.print(line, no_wrap=True, overflow="ellipsis")
