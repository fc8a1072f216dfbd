"""Insights as a self-contained page for oneself: with names, examples and locations.

The page has the figures of ``turnlog insights`` with charts. Secrets are masked. Every section
names the command that lists the records behind its figures.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Final, NamedTuple

from turnlog.export.html.charts import (
    CHART_CSS,
    Bar,
    ChartPoint,
    Link,
    bars,
    calendar,
    count,
    counted,
    heat_map,
    lines,
    linked,
    money,
    no_link,
    part,
    short,
    table,
    time,
)
from turnlog.export.html.page import Child, Fragment, OwnUrl, asset, element, page
from turnlog.insights.cache import REASONS
from turnlog.insights.groups import WEEKDAYS, DayRow
from turnlog.insights.report import Insights

Clean = Callable[[str], str]
"""Returns a text of a log, safe to output."""


class InsightLinks(NamedTuple):
    """Where rows and marks lead. A page without a server has no links; `turnlog web` has."""

    behind: Callable[[str, str | None], OwnUrl | None] = lambda _figure, _row: None
    """Returns the address of what is behind a figure, or behind one row of it."""
    place: Callable[[str | None, str, int], OwnUrl | None] = lambda _session, _log, _offset: None
    """Returns the address of a record: its session, log and offset."""
    period: Callable[[datetime, datetime], OwnUrl | None] = lambda _since, _until: None
    """Returns the address of the report on another period."""

    def to(self, words: str, figure: str, row: str | None = None) -> Child:
        """Return *words* as a link to what is behind a figure, if there is one."""
        return linked(self.behind(figure, row), words)


_NO_LINKS: Final = InsightLinks()

_MOST_BARS: Final = 10
_MOST_DAYS: Final = 1_100
"""Of a longer time, the last three years are drawn."""

CSS: Final = asset("insights.css")
INSIGHTS_CSS: Final = CHART_CSS + CSS


def insights_page(found: Insights, zone: tzinfo, clean: Clean) -> str:
    """Return the report as a page."""
    since, until = span_of(found, zone)
    title = f"Insights, {since} to {until}" if since else f"Insights, up to {until}"
    where = element("p", clean(found.project)) if found.project else None
    body = [element("h1", title), where, insights_sections(found, zone, clean)]
    return page(title, body, css=INSIGHTS_CSS)


def insights_sections(
    found: Insights, zone: tzinfo, clean: Clean, links: InsightLinks = _NO_LINKS
) -> Child:
    """Return everything below the title; the page needs INSIGHTS_CSS."""
    if not found.overview.prompts and not found.overview.messages:
        nothing = element("p", "Nothing happened in this period.")
        return [nothing, _footer(found, zone, clean)]
    return [
        _cards(found, links),
        _days(found, zone, links),
        _models(found, clean, links),
        _projects(found, clean, links),
        _tools(found, clean, links),
        _errors(found, clean, links),
        _edits(found, clean, links),
        _cache(found, links),
        _turns(found, clean, zone, links),
        _footer(found, zone, clean),
    ]


def span_of(found: Insights, zone: tzinfo) -> tuple[str, str]:
    """Return the first and last day of the report; the first is "" if unknown."""
    last = found.until_at - timedelta(microseconds=1)
    until = f"{last.astimezone(zone):%Y-%m-%d}"
    if found.since_at is not None:
        return f"{found.since_at.astimezone(zone):%Y-%m-%d}", until
    return (found.days[0].day if found.days else ""), until


def card(value: Child, what: str) -> Fragment:
    """Return a card with a figure and its label."""
    return element("div", element("b", value), element("span", what), class_="card")


def costs_by_day(days: Iterable[DayRow]) -> dict[str, float]:
    """Return the cost of each day."""
    return {row.day: float(row.cost_usd) for row in days}


def spending(costs: Mapping[str, float], first: str, last: str, link: Link = no_link) -> Fragment:
    """Return a chart of cost by day."""
    begin, end = date.fromisoformat(first), date.fromisoformat(last)
    begin = max(begin, end - timedelta(days=min(_MOST_DAYS, end.toordinal()) - 1))
    names = [(begin + timedelta(days=n)).isoformat() for n in range((end - begin).days + 1)]
    points = [ChartPoint(name, costs.get(name, 0)) for name in names]
    return lines("Cost over time", points, shown=_dollars, width=900, link=link)


def messages_by_day(found: Insights, first: str, last: str, link: Link = no_link) -> Fragment:
    """Return a calendar of messages."""
    messages = {row.day: row.messages for row in found.days}
    return calendar("Messages by day", messages, first, last, link=link)


def activity(found: Insights, link: Link = no_link) -> Fragment:
    """Return a heat map of the hours of the week."""
    hours = [f"{hour:02}" for hour in range(24)]
    title = "Messages by hour of the week"
    return heat_map(title, found.hours.messages, WEEKDAYS, hours, link=link)


def _dollars(value: float) -> str:
    return money(Decimal(repr(value))) if value < 1e15 else f"${value:.2g}"


def _section(title: str, figure: str, *content: Child) -> Fragment:
    hint = element("p", element("code", f"turnlog insights --explain {figure}"), class_="faint")
    return element("section", element("h2", title), content, hint)


def _cards(found: Insights, links: InsightLinks) -> Fragment:
    top = found.overview
    return element(
        "div",
        card(links.to(money(top.cost_usd), "days"), "at the API's prices"),
        card(links.to(count(top.sessions), "sessions"), "sessions"),
        card(links.to(count(top.prompts), "prompts"), "prompts"),
        card(links.to(count(top.messages), "messages"), "messages"),
        card(short(top.tokens), "tokens"),
        card(links.to(time(top.working_ms), "turns"), "agents worked"),
        card(links.to(count(top.calls), "tools"), "calls"),
        card(links.to(part(top.failure_rate), "failures"), "of them failed"),
        card(links.to(part(found.cache.efficiency), "cache"), "read from the cache"),
        card(f"{found.streaks.longest_days:,} days", "longest streak"),
        class_="cards",
    )


def _days(found: Insights, zone: tzinfo, links: InsightLinks) -> Child:
    if not found.days:
        return None
    streaks, top = found.streaks, found.overview
    since, until = span_of(found, zone)
    first, last = min(since, found.days[0].day), max(until, found.days[-1].day)
    text = counted(streaks.active_days, "active day")
    if top.most_active_day:
        text += f", the busiest {top.most_active_day}"
    if streaks.current_days:
        text += f"; {streaks.current_days:,} in a row up to now"

    def to_day(day: str) -> OwnUrl | None:
        return links.behind("days", day)

    costs = spending(costs_by_day(found.days), first, last, to_day)
    return _section("Cost over time", "days", costs), _section(
        "When",
        'hours:"Wed 14"',
        element("p", f"{text}."),
        messages_by_day(found, first, last, to_day),
        element("h3", "Hours of the week"),
        activity(found, lambda hour: links.behind("hours", hour)),
        _weeks(found, links),
    )


def _weeks(found: Insights, links: InsightLinks) -> Fragment | None:
    week = found.week_against_week
    if week is None:
        return None
    change = "" if week.percent is None else f"{week.percent:+.0f} %"
    rows = [
        ("cost", money(week.before_usd), money(week.cost_usd), change),
        ("messages", count(week.before_messages), count(week.messages), ""),
        ("tokens", short(week.before_tokens), short(week.tokens), ""),
        ("prompts", count(week.before_prompts), count(week.prompts), ""),
        ("sessions", count(week.before_sessions), count(week.sessions), ""),
    ]
    spans = (
        ("the seven days before", week.since_at - timedelta(days=7), week.since_at),
        ("the last seven days", week.since_at, week.until_at),
    )
    periods = (linked(links.period(since, until), name) for name, since, until in spans)
    heads = ("figure", *periods, "change")
    return element("div", element("h3", "Week against week"), table(heads, rows))


def _models(found: Insights, clean: Clean, links: InsightLinks) -> Fragment | None:
    if not found.models:
        return None
    rows = [
        (
            links.to(clean(row.model), "models", row.model),
            count(row.messages),
            short(row.output),
            part(row.cache_efficiency),
            part(row.failure_rate),
            "—" if row.usd_per_message is None else f"${Decimal(row.usd_per_message):.3f}",
            money(row.cost_usd),
        )
        for row in found.models
    ]
    heads = ("model", "messages", "output", "cached", "calls failed", "a message", "cost")
    subagents = [
        (
            links.to(clean(row.kind or "not known"), "subagents", row.kind or "not known"),
            count(row.subagents),
            count(row.messages),
            money(row.cost_usd),
        )
        for row in found.subagents
    ]
    return element(
        "div",
        _section("Models", "models", table(heads, rows)),
        _section(
            "Subagents", "subagents", table(("kind", "subagents", "messages", "cost"), subagents)
        ),
    )


def _projects(found: Insights, clean: Clean, links: InsightLinks) -> Fragment | None:
    if not found.projects:
        return None
    rows = [
        (
            links.to(clean(row.project or "not known"), "projects", row.project or "not known"),
            count(row.sessions),
            count(row.prompts),
            count(row.messages),
            part(row.failure_rate),
            money(row.cost_usd),
        )
        for row in found.projects
    ]
    heads = ("project", "sessions", "prompts", "messages", "calls failed", "cost")
    return _section("Projects", "projects", table(heads, rows))


def _tools(found: Insights, clean: Clean, links: InsightLinks) -> Fragment | None:
    if not found.tools:
        return None
    used = [Bar(clean(row.tool), row.calls, count(row.calls)) for row in found.tools[:_MOST_BARS]]
    by_words = {clean(row.tool): row.tool for row in found.tools}
    rows = [
        (
            links.to(clean(row.tool), "tools", row.tool),
            count(row.calls),
            links.to(count(row.failed), "failures", row.tool) if row.failed else "0",
            part(row.failure_rate),
            time(row.median_ms),
            time(row.total_ms),
        )
        for row in found.tools
    ]
    sequences = [
        (
            links.to(clean(" → ".join(row.tools)), "sequences", " -> ".join(row.tools)),
            count(row.count),
        )
        for row in found.sequences
    ]
    commands = [
        (links.to(clean(row.command), "commands", row.command), count(row.count))
        for row in found.commands
    ]
    heads = ("tool", "calls", "failed", "rate", "median", "in all")
    return element(
        "div",
        _section(
            "Tools",
            "tools",
            bars("Calls by tool", used, link=lambda name: links.behind("tools", by_words[name])),
            table(heads, rows),
        ),
        element(
            "div",
            _section("One after another", 'sequences:"Read -> Edit"',
                     table(("sequence", "times"), sequences)) if sequences else None,
            _section("Commands", "commands", table(("command", "times"), commands))
            if commands
            else None,
            class_="pair",
        ),
    )  # fmt: skip


def _errors(found: Insights, clean: Clean, links: InsightLinks) -> Fragment | None:
    if not found.errors:
        return None
    rows = [
        (
            clean(row.tool),
            element("code", clean(row.example or "(its log is gone)")),
            links.to(row.signature[:8], "errors", f"{row.signature} {row.tool}"),
            count(row.count),
            count(row.sessions),
        )
        for row in found.errors
    ]
    heads = ("tool", "how it begins", "signature", "times", "sessions")
    return _section("Errors", "errors:SIGNATURE", table(heads, rows, names=3))


def _edits(found: Insights, clean: Clean, links: InsightLinks) -> Fragment | None:
    edits = found.edits
    if not edits.edits and not edits.failed:
        return None
    text = (
        f"{counted(edits.edits, 'edit')} of {counted(edits.files, 'file')}:"
        f" {counted(edits.added, 'line')}"
        f" added, {count(edits.removed)} removed. {part(edits.first_try_rate)} of the files that"
        f" a session edited were edited once; {part(edits.failure_rate)} of edits failed."
    )
    rows = [
        (
            links.to(clean(row.file), "edits", row.file),
            count(row.edits),
            count(row.failed),
            count(row.sessions),
            f"+{row.added:,} −{row.removed:,}",  # noqa: RUF001 - A minus.
        )
        for row in edits.rows
    ]
    heads = ("file", "edits", "failed", "sessions", "lines")
    return _section("Edits", "edits", element("p", text), table(heads, rows))


def _cache(found: Insights, links: InsightLinks) -> Fragment:
    cache, compactions = found.cache, found.compactions
    text = (
        f"{part(cache.efficiency)} of what models read came from the cache, which saved"
        f" {money(cache.saved_usd)}. It was missed {count(cache.misses)} times, for"
        f" {short(cache.missed_tokens)} tokens and {money(cache.missed_usd)}."
    )
    rows = [
        (
            links.to(REASONS[row.reason], "cache", row.reason),
            count(row.misses),
            short(row.tokens),
            money(row.cost_usd),
        )
        for row in cache.reasons
    ]
    compacted = links.to(counted(compactions.compactions, "compaction"), "compactions")
    context = f" in {counted(compactions.sessions, 'session')}"
    if compactions.average_tokens is not None:
        context += f", at {short(compactions.average_tokens)} tokens on average"
    return element(
        "div",
        _section(
            "Cache",
            "cache",
            element("p", text),
            table(("why it was missed", "times", "tokens", "cost"), rows) if rows else None,
        ),
        _section("Compactions", "compactions", element("p", compacted, f"{context}.")),
    )


def _turns(found: Insights, clean: Clean, zone: tzinfo, links: InsightLinks) -> Fragment | None:
    turns, cut = found.turns, found.interruptions
    if not turns.turns:
        return None
    text = [
        links.to(counted(turns.turns, "turn"), "turns"),
        f", {time(turns.median_ms)} long in the middle. A person stopped an agent ",
        links.to(counted(cut.interruptions, "time"), "interruptions"),
        "; never answered: ",
        links.to(counted(cut.unanswered, "call"), "unanswered"),
        ".",
    ]
    rows = [
        (
            f"{row.at.astimezone(zone):%Y-%m-%d %H:%M}" if row.at else "",
            linked(links.place(row.session, row.log, row.offset), clean(row.prompt or "—")),
            (row.session or "")[:8],
            time(row.duration_ms),
        )
        for row in turns.longest
    ]
    heads = ("when", "prompt", "session", "took")
    return _section("Longest turns", "turns", element("p", text), table(heads, rows, names=3))


def _footer(found: Insights, zone: tzinfo, clean: Clean) -> Fragment:
    skipped = found.skipped
    parts = [f"{counted(skipped.repeats, 'duplicate')} ignored"] if skipped.repeats else []
    if skipped.places:
        parts.append(f"{counted(len(skipped.places), 'place')} damaged or odd")
    if skipped.undated:
        parts.append(f"{counted(skipped.undated, 'response')} without a date")
    unpriced = ", ".join(row.model for row in skipped.unpriced)
    nothing = "Nothing else was left out" if unpriced else "Nothing was left out"
    left_out = f"In all logs: {', '.join(parts)}" if parts else nothing
    return element(
        "footer",
        element("p", f"Costs are an estimate at the API's prices. {left_out}."),
        element("p", f"Without a price, and in no cost: {unpriced}.") if unpriced else None,
        # Without it, the commands would report the last 30 days.
        element(
            "p",
            "The commands on this page define a figure and list what is behind it. They need its"
            " period: ",
            element("code", _period(found, zone, clean)),
        ),
        element("p", "Made by turnlog."),
    )


def _period(found: Insights, zone: tzinfo, clean: Clean) -> str:
    """Return the command-line options for the page's period."""
    first, last = span_of(found, zone)
    after = date.fromisoformat(last) + timedelta(days=1)
    words = [*(["--since", first] if first else []), "--until", after.isoformat()]
    return shlex.join([*words, *(["--project", clean(found.project)] if found.project else [])])
