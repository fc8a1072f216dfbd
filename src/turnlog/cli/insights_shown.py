"""How insights look on a terminal: the figures on top, a calendar, the hours, then tables.

Everything fits the width there is. Pictures are drawn with characters alone, so that they mean the
same without colours; a terminal too narrow for a picture gets a coarser one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from turnlog.cli.insights_tables import show_tables
from turnlog.export.html.charts import level
from turnlog.export.html.figures import count, money, part, short, time
from turnlog.insights.days import WEEKDAYS

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.insights.report import Insights

SHADES: Final = "·░▒▓█"
_COLOURS: Final = ("dim", "blue", "blue", "cyan", "bright_cyan")
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_MOST_WEEKS: Final = 54
_TABLE_WIDTH: Final = 100


def show_insights(out: Console, found: Insights, zone: tzinfo) -> None:
    """Draw the whole report."""
    _head(out, found, zone)
    _overview(out, found)
    _calendar(out, found, zone)
    _hours(out, found)
    show_tables(out, found, zone)
    from turnlog.cli.cost_shown import show_skipped

    show_skipped(out, found.skipped)
    for note in found.notes:
        from turnlog.cli.terminal import safe

        out.print(f"[dim]{safe(note)}[/]")


def show_nothing(out: Console, homes: Sequence[str], last: datetime | None, zone: tzinfo) -> None:
    """Say that nothing happened, and when something last did."""
    if last is None:
        from turnlog.cli.nothing import show_hint

        out.print("No sessions found.")
        show_hint(out, homes)
        return
    day = f"{last.astimezone(zone):%Y-%m-%d}"
    out.print("Nothing happened in this period.")
    out.print(f"[dim]hint: a model last answered on {day}; say --since {day[:7]}[/]")


def _head(out: Console, found: Insights, zone: tzinfo) -> None:
    from turnlog.cli.terminal import short_path

    until = f"{(found.until_at - timedelta(microseconds=1)).astimezone(zone):%Y-%m-%d}"
    since = f"{found.since_at.astimezone(zone):%Y-%m-%d} to " if found.since_at else "up to "
    where = f" in {short_path(found.project)}" if found.project else ""
    out.print(f"[bold]{since}{until}[/]{where}\n")


def _overview(out: Console, found: Insights) -> None:
    top, streaks = found.overview, found.streaks
    pairs = [
        ("cost", money(top.cost_usd)),
        ("tokens", short(top.tokens)),
        ("sessions", count(top.sessions)),
        ("prompts", count(top.prompts)),
        ("messages", count(top.messages)),
        ("calls", f"{count(top.calls)}, {part(top.failure_rate)} failed"),
        ("agents worked", time(top.working_ms)),
        ("a session", _average(found)),
        ("cached", f"{part(found.cache.efficiency)}, saved {money(found.cache.saved_usd)}"),
        ("most active", top.most_active_day or "—"),
        ("active days", f"{count(streaks.active_days)}, longest streak {streaks.longest_days:,}"),
        ("now", f"{streaks.current_days:,} in a row" if streaks.current_days else "no streak"),
    ]
    _grid(out, pairs)
    costs = _daily(found)
    width = min(out.width - 18, len(costs), 60)
    if width > 4 and len(costs) > 1:
        from turnlog.cli.cost_shown import spark

        out.print(f"[dim]{'cost by day':15}[/][cyan]{spark(costs, width).rstrip()}[/]")
    _weeks(out, found)


def _average(found: Insights) -> str:
    top = found.overview
    if top.average_messages is None:
        return "—"
    return f"{top.average_messages:,.0f} messages, {time(top.average_working_ms)}"


def _grid(out: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Write names and figures in two columns where there is room, else in one."""
    half = -(-len(pairs) // 2)
    left, right = pairs[:half], pairs[half:]
    widest = max(len(value) for _, value in left)
    if out.width < 15 + widest + 3 + 15 + max(len(value) for _, value in right):
        for name, value in pairs:
            out.print(f"[dim]{name:14}[/] {value}")
        return
    for number, (name, value) in enumerate(left):
        line = f"[dim]{name:14}[/] {value:{widest}}"
        if number < len(right):
            line += f"   [dim]{right[number][0]:14}[/] {right[number][1]}"
        out.print(line.rstrip())


def _daily(found: Insights) -> list[Decimal]:
    """Give what each day of the period cost, the empty ones between with them."""
    if not found.days:
        return []
    costs = {row.day: Decimal(row.cost_usd) for row in found.days}
    begin, end = (date.fromisoformat(found.days[place].day) for place in (0, -1))
    length = (end - begin).days
    if length > 366 * 3:
        return list(costs.values())
    days = ((begin + timedelta(days=n)).isoformat() for n in range(length + 1))
    return [costs.get(day, Decimal(0)) for day in days]


def _weeks(out: Console, found: Insights) -> None:
    week = found.week_against_week
    if week is None or not (week.messages or week.before_messages):
        return
    change = "new" if week.percent is None else f"{week.percent:+,.0f}%"
    colour = "yellow" if Decimal(week.difference_usd) > 0 else "green"
    out.print(
        f"[dim]{'last 7 days':14}[/] {money(week.cost_usd)}, before {money(week.before_usd)}"
        f" [{colour}]{change}[/]; {count(week.prompts)} prompts,"
        f" before {count(week.before_prompts)}"
    )


def _calendar(out: Console, found: Insights, zone: tzinfo) -> None:
    """Draw a week a column, as many of them as fit, the last on the right."""
    if not found.days:
        return
    values = {row.day: row.messages for row in found.days}
    shown_last = f"{(found.until_at - timedelta(microseconds=1)).astimezone(zone):%Y-%m-%d}"
    last = date.fromisoformat(max(shown_last, found.days[-1].day))
    first = date.fromisoformat(found.days[0].day)
    if found.since_at is not None:
        first = min(first, found.since_at.astimezone(zone).date())
    room = max(1, min(_MOST_WEEKS, out.width - 5))
    monday = last.toordinal() - last.weekday()
    weeks = min(room, max(1, (monday - first.toordinal() + 6) // 7 + 1), monday // 7)
    start = monday - 7 * (weeks - 1)
    top = max(values.values(), default=0)
    out.print("\n[bold]days[/]  [dim]messages; a week a column[/]")
    out.print(f"    [dim]{_month_names(start, weeks).rstrip()}[/]")
    for row, name in enumerate(WEEKDAYS):
        cells = []
        for week in range(weeks):
            number = start + 7 * week + row
            if not max(1, first.toordinal()) <= number <= last.toordinal():
                cells.append(" ")
            else:
                cells.append(_shade(values.get(date.fromordinal(number).isoformat(), 0), top))
        out.print(f"[dim]{name if row % 2 == 0 else '   '}[/] {''.join(cells)}".rstrip())


def _month_names(start: int, weeks: int) -> str:
    line = [" "] * (weeks + 3)
    known, free = None, 0
    for week in range(weeks):
        month = date.fromordinal(start + 7 * week + 3).month
        if month != known and week >= free and weeks - week >= 2:
            line[week : week + 3] = _MONTHS[month - 1]
            free = week + 4
        known = month
    return "".join(line)


def _hours(out: Console, found: Insights) -> None:
    """Draw the hours of the week; several hours a cell where there is no room for each."""
    if not any(map(any, found.hours.messages)):
        return
    wide = 2 if out.width >= 5 + 48 else 1
    steps = (1, 2, 3, 4, 6, 24)
    step = next((each for each in steps if 5 + 24 // each * wide <= out.width), steps[-1])
    rows = [
        [sum(row[hour : hour + step]) for hour in range(0, 24, step)]
        for row in found.hours.messages
    ]
    top = max(max(row) for row in rows)
    out.print("\n[bold]hours[/]  [dim]messages by hour of the week[/]")
    if wide == 2:
        out.print(f"    [dim]{'    '.join(f'{hour:02}' for hour in range(0, 24, 3))}[/]")
    for name, row in zip(WEEKDAYS, rows, strict=True):
        out.print(f"[dim]{name}[/] {''.join(_shade(value, top) * wide for value in row)}")


def _shade(value: float, top: float) -> str:
    step = level(value, top)
    return f"[{_COLOURS[step]}]{SHADES[step]}[/]"
