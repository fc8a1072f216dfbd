"""Insights on a terminal: the main figures, a calendar, the hours of the week, then tables.

Everything fits the terminal: charts get coarser, names are cut, and the last columns of a table are
dropped. Charts are readable without colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from turnlog.api.arguments import shown_name
from turnlog.api.insights import WEEKDAYS
from turnlog.cli.terminal.console import at_most, log_name, one_line, safe, short_count, short_path
from turnlog.cli.terminal.empty_results import show_hint
from turnlog.cli.views.cost import show_skipped, spark
from turnlog.export.html.charts import count, counted, level, money, part, short, time
from turnlog.pricing.money import written
from turnlog.text import inert

if TYPE_CHECKING:
    from rich.console import Console

    from turnlog.api.insights import Evidence, Insights, InsightsExplanation


def show_explanation(out: Console, report: InsightsExplanation, zone: tzinfo) -> None:
    """Print the records of a figure, each with its location."""
    out.print(f"[bold]{safe(report.figure)}[/] {report.total:,}  [dim]{safe(report.about)}[/]\n")
    for row in report.rows:
        at = "no date" if row.at is None else f"{row.at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
        figures = "  ".join(_figures(row))
        session = safe((row.session or "")[:8])
        out.print(f"{at} [cyan]{session}[/] {safe(one_line(row.what, 200, out.width))}")
        if figures:
            out.print(f"  {figures}")
        if row.log:
            out.print(f"  [dim]{log_name(row.log, 60)} at {row.offset:,}[/]", soft_wrap=True)
    if not report.rows:
        out.print("No records in this period.")
    if report.next is not None:
        rest = report.total - len(report.rows)
        out.print(f"\n[dim]… {rest:,} more; use --limit 0[/]")


def _figures(row: Evidence) -> list[str]:
    figures = []
    if isinstance(row.tokens, int):
        figures.append(f"{short_count(row.tokens)} tokens")
    if isinstance(row.cost_usd, str):
        figures.append(f"${written(Decimal(row.cost_usd))}")
    if isinstance(row.duration_ms, int):
        figures.append(time(row.duration_ms))
    if isinstance(row.added, int):
        figures.append(f"+{row.added} -{row.removed} lines")
    return figures


_SHORTEST_NAME: Final = 10
_GAP: Final = 2
_WIDEST: Final = 120
_TEXTS: Final = ("signature", "tool", "when", "session")


def show_tables(out: Console, report: Insights, zone: tzinfo) -> None:
    """Print all tables that have rows."""
    _models(out, report)
    _subagents(out, report)
    _projects(out, report)
    _tools(out, report)
    _sequences(out, report)
    _errors(out, report)
    _edits(out, report)
    _cache(out, report)
    _turns(out, report, zone)
    _commands(out, report)


def draw(
    out: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: str = "right",
    name_is_last: bool = False,
) -> None:
    """Print a table of names and figures; *cut* is the end at which names are cut."""
    from rich.cells import cell_len
    from rich.markup import escape
    from rich.table import Table

    cells = [[inert(cell) for cell in row] for row in rows]
    figures = list(range(len(heads) - 1)) if name_is_last else list(range(1, len(heads)))
    name = len(heads) - 1 if name_is_last else 0
    widths = [max(cell_len(row[place]) for row in (heads, *cells)) for place in range(len(heads))]
    while figures and _room(out, widths, figures) < min(_SHORTEST_NAME, widths[name]):
        figures.pop()
    room = max(1, min(widths[name], _room(out, widths, figures)))
    shown = sorted([*figures, name])
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for place in shown:
        if place == name:
            table.add_column(heads[place], no_wrap=True, overflow="ellipsis", width=room)
        else:
            side: Literal["left", "right"] = "left" if heads[place] in _TEXTS else "right"
            table.add_column(heads[place], justify=side, no_wrap=True, width=widths[place])
    for row in cells:
        texts = [
            _cut(row[place], room) if place == name and cut == "left" else row[place]
            for place in shown
        ]
        table.add_row(*map(escape, texts))
    out.print(table)


def _room(out: Console, widths: Sequence[int], figures: Sequence[int]) -> int:
    taken = sum(widths[place] + _GAP for place in figures)
    return min(out.width, at_most(_WIDEST, out.width)) - taken


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"…{text[1 - room :]}" if room > 1 else "…"


def _title(out: Console, name: str, note: str = "") -> None:
    out.print(f"\n[bold]{name}[/]  [dim]{note}[/]" if note else f"\n[bold]{name}[/]")


def _models(out: Console, report: Insights) -> None:
    rows = [
        (
            shown_name("model", row.model),
            money(row.cost_usd),
            part(row.cost_share),
            count(row.messages),
            short(row.output),
            part(row.cache_efficiency),
            part(row.failure_rate),
            "—" if row.usd_per_message is None else f"${Decimal(row.usd_per_message):.3f}",
        )
        for row in report.models
    ]
    if rows:
        _title(out, "models")
        heads = ("model", "cost", "share", "messages", "output", "cached", "failed", "per message")
        draw(out, heads, rows)


def _subagents(out: Console, report: Insights) -> None:
    rows = [
        (
            row.kind or "unknown",
            money(row.cost_usd),
            part(row.cost_share),
            count(row.subagents) if row.kind != "main" else "",
            count(row.messages),
        )
        for row in report.subagents
    ]
    if len(rows) > 1:
        _title(out, "subagents", "main: the sessions themselves")
        draw(out, ("kind", "cost", "share", "subagents", "messages"), rows)


def _projects(out: Console, report: Insights) -> None:
    rows = [
        (
            shown_name("project", row.project),
            money(row.cost_usd),
            part(row.cost_share),
            count(row.sessions),
            count(row.prompts),
            count(row.messages),
            part(row.failure_rate),
        )
        for row in report.projects
    ]
    if rows:
        rest = report.overview.projects - len(rows)
        _title(out, "projects", f"and {rest:,} more" if rest > 0 else "")
        heads = ("project", "cost", "share", "sessions", "prompts", "messages", "failed")
        draw(out, heads, rows, cut="left")


def _tools(out: Console, report: Insights) -> None:
    rows = [
        (
            row.tool,
            count(row.calls),
            part(row.failure_rate),
            time(row.median_ms),
            time(row.total_ms),
            time(row.longest_ms),
            count(row.unanswered),
        )
        for row in report.tools
    ]
    if rows:
        _title(out, "tools")
        heads = ("tool", "calls", "failed", "median", "total", "longest", "no result")
        draw(out, heads, rows)


def _sequences(out: Console, report: Insights) -> None:
    rows = [(" → ".join(row.tools), count(row.count)) for row in report.sequences]
    if rows:
        _title(out, "sequences", "consecutive tool calls")
        draw(out, ("tools", "times"), rows)


def _errors(out: Console, report: Insights) -> None:
    rows = [
        (
            count(row.count),
            row.tool,
            row.signature[:8],
            count(row.sessions),
            row.example or "(log is gone)",
        )
        for row in report.errors
    ]
    if rows:
        _title(out, "errors", "details: turnlog errors SIGNATURE")
        heads = ("times", "tool", "signature", "sessions", "message")
        draw(out, heads, rows, name_is_last=True)


def _edits(out: Console, report: Insights) -> None:
    edits = report.edits
    if not edits.edits and not edits.failed:
        return
    _title(out, "edits")
    out.print(
        f"{counted(edits.edits, 'edit')} of {counted(edits.files, 'file')}, +{edits.added:,}"
        f" -{edits.removed:,} lines. {part(edits.first_try_rate)} of files edited once per"
        f" session; {part(edits.failure_rate)} of edits failed."
    )
    if edits.unknown:
        out.print(f"[dim]Line counts of {count(edits.unknown)} edits are unknown.[/]")
    rows = [
        (
            row.file,
            count(row.edits),
            count(row.failed),
            f"+{row.added:,} -{row.removed:,}",
            count(row.sessions),
            count(row.most_in_a_session),
        )
        for row in edits.rows
    ]
    heads = ("file", "edits", "failed", "lines", "sessions", "max/session")
    draw(out, heads, rows, cut="left")


def _cache(out: Console, report: Insights) -> None:
    from turnlog.api.insights import REASONS

    cache, compactions, cut = report.cache, report.compactions, report.interruptions
    if cache.misses:
        _title(out, "cache misses", "tokens written again")
        rows = [
            (REASONS[row.reason], money(row.cost_usd), count(row.misses), short(row.tokens))
            for row in cache.reasons
        ]
        draw(out, ("cause", "cost", "times", "tokens"), rows)
    lines = []
    if compactions.compactions:
        size = compactions.average_tokens
        at = "" if size is None else f" at {short(size)} tokens"
        many = counted(compactions.compactions, "compaction")
        lines.append(f"{many}{at}, {count(compactions.manual)} manual")
    if cut.interruptions:
        lines.append(f"interrupted by the user {counted(cut.interruptions, 'time')}")
    if cut.unanswered:
        lines.append(f"{counted(cut.unanswered, 'call')} without a result")
    if lines:
        _title(out, "interruptions")
        for line in lines:
            out.print(line)


def _turns(out: Console, report: Insights, zone: tzinfo) -> None:
    rows = [
        (
            time(row.duration_ms),
            f"{row.at.astimezone(zone):%Y-%m-%d %H:%M}" if row.at else "",
            (row.session or "")[:8],
            row.prompt or "—",
        )
        for row in report.turns.longest
    ]
    if rows:
        _title(out, "longest turns", f"of {count(report.turns.turns)}")
        draw(out, ("duration", "when", "session", "prompt"), rows, name_is_last=True)


def _commands(out: Console, report: Insights) -> None:
    rows = [(row.command, count(row.count), count(row.sessions)) for row in report.commands]
    if rows:
        _title(out, "commands")
        draw(out, ("command", "times", "sessions"), rows)


SHADES: Final = "·░▒▓█"
_COLOURS: Final = ("dim", "blue", "blue", "cyan", "bright_cyan")
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_MOST_WEEKS: Final = 54
_TABLE_WIDTH: Final = 100


def show_insights(out: Console, report: Insights, zone: tzinfo) -> None:
    """Print the whole report."""
    _head(out, report, zone)
    _overview(out, report)
    _calendar(out, report, zone)
    _hours(out, report)
    show_tables(out, report, zone)
    show_skipped(out, report.skipped)
    for note in report.notes:
        out.print(f"[dim]{safe(note)}[/]")


def show_no_activity(
    out: Console, homes: Sequence[str], last: datetime | None, zone: tzinfo
) -> None:
    """Print that there was no activity, and when there last was."""
    if last is None:
        out.print("No sessions found.")
        show_hint(out, homes)
        return
    day = f"{last.astimezone(zone):%Y-%m-%d}"
    out.print("No activity in this period.")
    out.print(f"[dim]hint: the last response is from {day}; use --since {day[:7]}[/]")


def _head(out: Console, report: Insights, zone: tzinfo) -> None:
    until = f"{(report.until_at - timedelta(microseconds=1)).astimezone(zone):%Y-%m-%d}"
    since = f"{report.since_at.astimezone(zone):%Y-%m-%d} to " if report.since_at else "up to "
    where = f" in {short_path(report.project)}" if report.project else ""
    out.print(f"[bold]{since}{until}[/]{where}\n")


def _overview(out: Console, report: Insights) -> None:
    top, streaks = report.overview, report.streaks
    pairs = [
        ("cost", money(top.cost_usd)),
        ("tokens", short(top.tokens)),
        ("sessions", count(top.sessions)),
        ("prompts", count(top.prompts)),
        ("messages", count(top.messages)),
        ("calls", f"{count(top.calls)}, {part(top.failure_rate)} failed"),
        ("working time", time(top.working_ms)),
        ("per session", _average(report)),
        ("cached", f"{part(report.cache.efficiency)}, saved {money(report.cache.saved_usd)}"),
        ("most active", top.most_active_day or "—"),
        ("active days", f"{count(streaks.active_days)}, longest streak {streaks.longest_days:,}"),
        ("streak", counted(streaks.current_days, "day") if streaks.current_days else "none"),
    ]
    _grid(out, pairs)
    costs = _daily(report)
    width = min(out.width - 18, len(costs), 60)
    if width > 4 and len(costs) > 1:
        out.print(f"[dim]{'cost by day':15}[/][cyan]{spark(costs, width).rstrip()}[/]")
    _weeks(out, report)


def _average(report: Insights) -> str:
    top = report.overview
    if top.average_messages is None:
        return "—"
    return f"{top.average_messages:,.0f} messages, {time(top.average_working_ms)}"


def _grid(out: Console, pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and figures in two columns if they fit, else in one."""
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


def _daily(report: Insights) -> list[Decimal]:
    """Return the cost of each day, including days without any."""
    if not report.days:
        return []
    costs = {row.day: Decimal(row.cost_usd) for row in report.days}
    begin, end = (date.fromisoformat(report.days[place].day) for place in (0, -1))
    length = (end - begin).days
    if length > 366 * 3:
        return list(costs.values())
    days = ((begin + timedelta(days=n)).isoformat() for n in range(length + 1))
    return [costs.get(day, Decimal(0)) for day in days]


def _weeks(out: Console, report: Insights) -> None:
    week = report.week_against_week
    if week is None or not (week.messages or week.before_messages):
        return
    change = "new" if week.percent is None else f"{week.percent:+,.0f}%"
    colour = "yellow" if Decimal(week.difference_usd) > 0 else "green"
    out.print(
        f"[dim]{'last 7 days':14}[/] {money(week.cost_usd)}, previously {money(week.before_usd)}"
        f" [{colour}]{change}[/]; {count(week.prompts)} prompts,"
        f" previously {count(week.before_prompts)}"
    )


def _calendar(out: Console, report: Insights, zone: tzinfo) -> None:
    """Print the last weeks that fit, one column each."""
    if not report.days:
        return
    values = {row.day: row.messages for row in report.days}
    shown_last = f"{(report.until_at - timedelta(microseconds=1)).astimezone(zone):%Y-%m-%d}"
    last = date.fromisoformat(max(shown_last, report.days[-1].day))
    first = date.fromisoformat(report.days[0].day)
    if report.since_at is not None:
        first = min(first, report.since_at.astimezone(zone).date())
    room = max(1, min(_MOST_WEEKS, out.width - 5))
    monday = last.toordinal() - last.weekday()
    weeks = min(room, max(1, (monday - first.toordinal() + 6) // 7 + 1), monday // 7)
    start = monday - 7 * (weeks - 1)
    top = max(values.values(), default=0)
    out.print("\n[bold]days[/]  [dim]messages per day, one column per week[/]")
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


def _hours(out: Console, report: Insights) -> None:
    """Print the hours of the week; on narrow terminals several hours share a cell."""
    if not any(map(any, report.hours.messages)):
        return
    wide = 2 if out.width >= 5 + 48 else 1
    steps = (1, 2, 3, 4, 6, 24)
    step = next((step for step in steps if 5 + 24 // step * wide <= out.width), steps[-1])
    rows = [
        [sum(row[hour : hour + step]) for hour in range(0, 24, step)]
        for row in report.hours.messages
    ]
    top = max(max(row) for row in rows)
    out.print("\n[bold]hours[/]  [dim]messages per hour of the week[/]")
    if wide == 2:
        out.print(f"    [dim]{'    '.join(f'{hour:02}' for hour in range(0, 24, 3))}[/]")
    for name, row in zip(WEEKDAYS, rows, strict=True):
        out.print(f"[dim]{name}[/] {''.join(_shade(value, top) * wide for value in row)}")


def _shade(value: float, top: float) -> str:
    step = level(value, top)
    return f"[{_COLOURS[step]}]{SHADES[step]}[/]"
