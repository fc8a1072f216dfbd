"""The tool ``past_insights``: what was done in a period, how it went, what it cost; by sections."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Struct, structs
from pydantic import BeforeValidator, Field

from turnlog.api.arguments import check_period
from turnlog.api.homes import turnlog_home
from turnlog.api.index import Index
from turnlog.api.insights import Insights, Scope
from turnlog.api.insights import insights as report
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import PageStart, Project, Tool, Until, instant_text, listed, pointer, sparse
from turnlog.pricing.cost import configured_prices

Section = Literal[
    "overview", "days", "weeks", "hours", "streaks", "week_against_week", "models", "subagents",
    "projects", "tools", "sequences", "errors", "edits", "cache", "compactions", "interruptions",
    "turns", "commands",
]  # fmt: skip
_USUAL: Final = "30d"


def past_insights(
    ctx: ToolContext,
    page: PageStart,
    *,
    sections: Annotated[
        list[Section],
        BeforeValidator(listed),
        Field(
            description="Parts of the report. overview: sessions, prompts, tokens, cost, failures."
            " turns: the longest. sequences: tools called in a row. edits: files and lines.",
            min_length=1,
            max_length=18,
        ),
    ] = ["overview", "models", "tools", "errors"],  # noqa: B006 - Nobody changes it.
    project: Project = None,
    since: Annotated[
        str,
        Field(description="Start of the period: 7d, 2026-11-01.", max_length=100),
    ] = _USUAL,
    until: Until = None,
    limit: Annotated[int, Field(description="Rows per list.", ge=1, le=50)] = 5,
) -> ToolAnswer:
    """Report on a period: what was done, how it went, what it cost.

    Ask only for the sections you need. Lists are cut to their top rows.
    """
    begin, end = ctx.moment(since), ctx.moment(until)
    check_period(begin, end)
    asked = Scope(
        zone=ctx.zone,
        now=ctx.now(),
        since=begin,
        until=end,
        project=ctx.project(project),
        limit=limit,
    )
    prices, _ = configured_prices(turnlog_home())
    wanted = list(dict.fromkeys(sections))
    with ctx.index() as index:
        found = report(index, prices, asked)
        ctx.deadline.check()
        rows = [_section(index, found, name, limit) for name in wanted[page.place :]]
    return ToolAnswer(
        about={"since_at": instant_text(found.since_at), "until_at": instant_text(found.until_at)},
        noun="sections",
        rows=rows,
        offset=page.place,
        notes=found.notes,
    )


def _section(index: Index, found: Insights, name: str, limit: int) -> dict[str, Any]:
    made = _MADE.get(name)
    value = made(found) if made else getattr(found, name)
    if isinstance(value, list):
        shown = value[-limit:][::-1] if name in ("days", "weeks") else value[:limit]
        told: dict[str, Any] = {"rows": [_plain(index, each) for each in shown]}
        if len(value) > limit:
            told["of"] = len(value)
    else:
        told = {} if value is None else _plain(index, value)
        for inner, each in list(told.items()):
            if isinstance(each, list):
                told[inner] = [_plain(index, row) for row in getattr(value, inner)[:limit]]
    return {"section": name, **told}


def _hours(found: Insights) -> dict[str, Any]:
    """Return the hours with the most messages: a table of a week is mostly noughts."""
    return {
        weekday: {f"{hour:02}": count for hour, count in enumerate(row) if count}
        for weekday, row in zip(_WEEKDAYS, found.hours.messages, strict=True)
        if any(row)
    }


_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MADE: Final[dict[str, Callable[[Insights], Any]]] = {"hours": _hours}


def _plain(index: Index, value: Any) -> Any:
    """Return a row without what is null or nought; its log and offset become what tools open."""
    if not isinstance(value, Struct | dict):
        return value
    told = structs.asdict(value) if isinstance(value, Struct) else dict(value)
    if "log" in told:
        told |= pointer(index, told.pop("log"), told.pop("offset"))
    return {name: _shown(each) for name, each in sparse(told).items() if each not in (0, "0")}


def _shown(value: Any) -> Any:
    return instant_text(value) if isinstance(value, datetime) else value


INSIGHTS = Tool(past_insights, title="What was done, and how it went")
