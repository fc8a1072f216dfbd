"""A summary of a month or a year on one page, for sharing.

Unless the caller includes names, it contains no projects, paths, prompts, commands, titles,
sessions or examples, and only the names of well-known tools and models.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, tzinfo
from decimal import Decimal
from typing import Final

from turnlog.export.html.charts import (
    CHART_CSS,
    Bar,
    bars,
    count,
    counted,
    money,
    part,
    short,
    time,
)
from turnlog.export.html.insights_page import (
    Clean,
    activity,
    costs_by_day,
    messages_by_day,
    span_of,
    spending,
)
from turnlog.export.html.page import Child, Fragment, asset, element, page
from turnlog.insights.report import Insights

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_DAYS: Final = (
    "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
)  # fmt: skip
_KNOWN_TOOLS: Final = frozenset(
    {
        *("Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "ExitPlanMode", "Glob", "Grep"),
        *("KillShell", "LS", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Skill", "Task"),
        *("TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TodoRead", "TodoWrite", "ToolSearch"),
        *("WebFetch", "WebSearch", "Write"),
    }
)
_OTHER: Final = "others"
_SHOWN: Final = 6

CSS: Final = asset("summary.css")


def summary_page(
    found: Insights, name: str, zone: tzinfo, clean: Clean, *, with_names: bool = False
) -> str:
    """Return the summary of the period *name*: 2026-07, 2026, or any other text."""
    title = _title(name)
    since, until = span_of(found, zone)
    first, last = since or until, until
    body = [
        element(
            "div",
            element("div", "Coding with agents", class_="kicker"),
            element("h1", title),
            element("p", _sentence(found)),
            class_="hero",
        ),
        _numbers(found),
        _panel("Every day", _streak(found), messages_by_day(found, first, last)),
        _panel("The hours", _rhythm(found), activity(found)),
        _panel(
            "Cost",
            f"{money(found.totals.cost_usd)} in all;"
            f" the cache saved {money(found.cache.saved_usd)}.",
            spending(costs_by_day(found.days), first, last),
        )
        if found.days
        else None,
        element(
            "div",
            _panel(
                "Tools",
                f"{part(found.overview.failure_rate)} of calls failed.",
                _tools(found, clean, with_names=with_names),
            ),
            _panel(
                "Models",
                f"{part(found.cache.efficiency)} of what they read came from the cache.",
                _models(found, clean, with_names=with_names),
            ),
            class_="pair",
        ),
        _projects(found, clean) if with_names else None,
        element(
            "footer",
            "Costs are an estimate at the API's prices. Made by turnlog from local logs;"
            " nothing on this page is fetched from anywhere.",
        ),
    ]
    return page(f"{title}: coding with agents", body, css=CHART_CSS + CSS)


def _title(name: str) -> str:
    year, _, month = name.partition("-")
    return f"{_MONTHS[int(month) - 1]} {year}" if month.isdecimal() else name


def _sentence(found: Insights) -> str:
    top = found.overview
    if not top.messages and not top.prompts:
        return "Nothing happened in this period."
    return (
        f"{counted(top.prompts, 'prompt')} in {counted(top.sessions, 'session')}, answered by"
        f" {counted(top.messages, 'message')} and {counted(top.calls, 'tool call')}."
        f" Agents worked for {time(top.working_ms)}."
    )


def _numbers(found: Insights) -> Fragment:
    top, edits = found.overview, found.edits
    pairs = (
        (short(top.tokens), "tokens"),
        (_hours(top.working_ms), "agents worked"),
        (f"+{short(edits.added)}", "lines written"),
        (f"−{short(edits.removed)}", "lines removed"),  # noqa: RUF001 - A minus.
        (count(edits.files), "files edited"),
        (count(found.streaks.active_days), "active days"),
    )
    return element(
        "div",
        [element("div", element("b", figure), element("span", what)) for figure, what in pairs],
        class_="numbers",
    )


def _hours(ms: int) -> str:
    """Format a long duration in one unit."""
    return f"{ms / 3_600_000:,.0f} h" if ms >= 36_000_000 else time(ms)


def _panel(title: str, text: str, *content: Child) -> Fragment:
    return element("div", element("h2", title), element("p", text), content, class_="panel")


def _streak(found: Insights) -> str:
    streaks = found.streaks
    if not streaks.longest_days:
        return "No active day."
    text = f"The longest streak was {streaks.longest_days:,} days"
    busiest = found.overview.most_active_day
    return f"{text}; the busiest day {_day(busiest)}." if busiest else f"{text}."


def _rhythm(found: Insights) -> str:
    rows = found.hours.messages
    if not any(map(any, rows)):
        return "No hour of it."
    days = [sum(row) for row in rows]
    hours = [sum(row[hour] for row in rows) for hour in range(24)]
    hour = hours.index(max(hours))
    day = _DAYS[days.index(max(days))]
    return f"Most on {day}, and between {hour:02}:00 and {hour + 1:02}:00."


def _tools(found: Insights, clean: Clean, *, with_names: bool) -> Fragment:
    rows = (
        (clean(row.tool) if with_names or row.tool in _KNOWN_TOOLS else _OTHER, row.calls)
        for row in found.tools
    )
    return bars("Calls by tool", [Bar(name, n, count(n)) for name, n in _together(rows)], width=420)


def _models(found: Insights, clean: Clean, *, with_names: bool) -> Fragment:
    rows = (
        (
            clean(row.model.removeprefix("claude-"))
            if with_names or row.model.startswith("claude-")
            else _OTHER,
            row.messages,
        )
        for row in found.models
    )
    return bars("Messages by model", [Bar(n, c, count(c)) for n, c in _together(rows)], width=420)


def _projects(found: Insights, clean: Clean) -> Fragment:
    rows = [
        Bar(clean(row.project or "not known"), float(Decimal(row.cost_usd)), money(row.cost_usd))
        for row in found.projects[:_SHOWN]
    ]
    return _panel("Projects", "By cost.", bars("Cost by project", rows, width=780))


def _together(rows: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sum rows by name, largest first; all but a few are combined at the end."""
    found: dict[str, int] = {}
    for name, value in rows:
        found[name] = found.get(name, 0) + value
    rest = found.pop(_OTHER, 0)
    order = sorted(found.items(), key=lambda row: (-row[1], row[0]))
    rest += sum(value for _, value in order[_SHOWN:])
    return [*order[:_SHOWN], *([(_OTHER, rest)] if rest else [])]


def _day(day: str) -> str:
    at = date.fromisoformat(day)
    return f"{at.day} {_MONTHS[at.month - 1]}"
