"""``turnlog`` alone: one screen of what was used and done, what needs attention, what next."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from turnlog.cli.options import command_line, print_problems, show_json

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.overview import Attention, BareOverview, Overview
    from turnlog.formats import Home
    from turnlog.pricing.cost import Prices

_NEXT: Final = (
    ("turnlog show latest", "read the latest session"),
    ("turnlog search WORDS", "find what was said, in every session"),
    ("turnlog cost", "what it cost, by day, project, model"),
)
_HELP: Final = ("turnlog --help", "everything else")


def show_overview(names: tuple[str, ...], *, as_json: bool, or_sample: str | None = None) -> int:
    """Show how things are, or how *or_sample* is if there are no sessions; give the exit code."""
    from turnlog.formats import all_homes, turnlog_home
    from turnlog.pricing.cost import configured_prices

    prices, problems = configured_prices(turnlog_home())
    print_problems(problems)
    found = _found(all_homes(names), prices)
    if not found.total and or_sample is not None:
        names = (or_sample,)
        found = _found_in_logs(all_homes(names), prices)  # No index of what is not the user's.
    if as_json:
        show_json(found)
    else:
        _show(found, names)
    return 0 if found.total else 1


def _found(homes: tuple[Home, ...], prices: Prices) -> Overview | BareOverview:
    """Ask the index; where there is none and none can be made, the logs."""
    from turnlog.api.overview import overview
    from turnlog.cli.index_access import open_index, print_notices
    from turnlog.errors import IndexUnavailable
    from turnlog.records.dates import MachineZone

    try:
        with open_index(homes, fallback="read") as index:
            return overview(index, homes, prices, now=datetime.now(UTC), zone=MachineZone())
    except IndexUnavailable as error:
        print_notices([f"{error.message}; reading the logs instead"])
        return _found_in_logs(homes, prices)


def _found_in_logs(homes: tuple[Home, ...], prices: Prices) -> BareOverview:
    from turnlog.api.overview import bare_overview
    from turnlog.records.dates import MachineZone

    return bare_overview(homes, prices, now=datetime.now(UTC), zone=MachineZone())


def _show(found: Overview | BareOverview, homes: tuple[str, ...]) -> None:
    from turnlog.cli.terminal.console import console, safe

    out = console()
    if not found.total:
        from turnlog.cli.terminal.empty_results import hint_for

        out.print("No sessions found.")
        hint = safe(f"{hint_for(homes, {})}; turnlog --help tells more")
        out.print(f"[dim]hint: {hint}[/]", soft_wrap=True)
        return
    _show_periods(out, found)
    _show_sessions(out, found)
    _show_attention(out, found.attention, homes)
    out.print()
    following = [*((command_line(command, homes), what) for command, what in _NEXT), _HELP]
    width = max(len(command) for command, _ in following)
    for command, what in following:
        out.print(f" [dim]$[/] {safe(command):<{width}}  [dim]{what}[/]", no_wrap=True, crop=True)


def _show_periods(out: Console, found: Overview | BareOverview) -> None:
    from turnlog.cli.terminal.console import counted, short_count
    from turnlog.cli.views.cost import spark
    from turnlog.pricing.money import shown

    rows = [
        (
            row.period,
            shown(Decimal(row.cost_usd)),
            f"{short_count(row.tokens)} tokens",
            counted(row.sessions, "session"),
        )
        for row in found.periods
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    drawn = spark([Decimal(cost) for cost in found.days], max(0, out.width - sum(widths) - 11))
    for row in rows:
        period, cost, tokens, sessions = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        trend = f"  [cyan]{drawn.rstrip()}[/]" if drawn and row is rows[-1] else ""
        line = f" {period}  [bold]{cost}[/]  {tokens}  {sessions}{trend}"
        out.print(line, no_wrap=True, crop=True)
    out.print(" [dim]costs are estimates at the API's prices[/]", no_wrap=True, crop=True)


def _show_sessions(out: Console, found: Overview | BareOverview) -> None:
    from turnlog.cli.browse.sessions import session_table

    out.print()
    out.print(session_table(out, found.sessions))
    if found.total > len(found.sessions):
        more = f"{found.total - len(found.sessions):,} more: turnlog sessions"
        out.print(f"[dim]… {more}[/]", no_wrap=True, crop=True)


def _show_attention(out: Console, found: Attention, homes: tuple[str, ...]) -> None:
    from turnlog.api.overview import WITHIN_DAYS
    from turnlog.cli.terminal.console import counted, safe

    lines = []
    if found.about_to_be_deleted:
        count = counted(found.about_to_be_deleted, "session")
        lines.append((f"{count} will be deleted within {WITHIN_DAYS} days", "turnlog keep"))
    elif found.unkept:
        lines.append((f"{counted(found.unkept, 'recent session')} not kept", "turnlog keep"))
    if found.damaged:
        lines.append((f"{counted(found.damaged, 'session')} with damage", "turnlog doctor"))
    if found.crashed:
        lines.append((f"{counted(found.crashed, 'session')} crashed", "turnlog recover"))
    lines = [(what, command_line(command, homes)) for what, command in lines]
    if found.unpriced:  # What models cost, no home tells.
        models = ", ".join(found.unpriced[:3])
        which = shlex.quote(found.unpriced[0])
        lines.append((f"no price known for {models}", f"turnlog prices {which}"))
    if lines:
        out.print()
    width = max((len(what) for what, _ in lines), default=0)
    for what, command in lines:
        line = f" [yellow]![/] {safe(what):<{width}}  [dim]$[/] {safe(command)}"
        out.print(line, no_wrap=True, overflow="ellipsis")
