"""The tool ``past_insights``: a report on a period, in sections."""

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
_DEFAULT_SINCE: Final = "30d"


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
    ] = ["overview", "models", "tools", "errors"],  # noqa: B006 - Never modified.
    project: Project = None,
    since: Annotated[
        str,
        Field(description="Start of the period: 7d, 2026-11-01.", max_length=100),
    ] = _DEFAULT_SINCE,
    until: Until = None,
    limit: Annotated[int, Field(description="Rows per list.", ge=1, le=50)] = 5,
) -> ToolAnswer:
    """Report on a period: what was done, how it went, what it cost.

    Ask only for the sections you need. Lists are cut to their top rows.
    """
    begin, end = ctx.moment(since), ctx.moment(until)
    check_period(begin, end)
    scope = Scope(
        zone=ctx.zone,
        now=ctx.now(),
        since=begin,
        until=end,
        project=ctx.project(project),
        limit=limit,
    )
    prices, _ = configured_prices(turnlog_home())
    names = list(dict.fromkeys(sections))
    with ctx.index() as index:
        result = report(index, prices, scope)
        ctx.deadline.check()
        rows = [_section(index, result, name, limit) for name in names[page.place :]]
    return ToolAnswer(
        about={
            "since_at": instant_text(result.since_at),
            "until_at": instant_text(result.until_at),
        },
        noun="sections",
        rows=rows,
        offset=page.place,
        notes=result.notes,
    )


def _section(index: Index, result: Insights, name: str, limit: int) -> dict[str, Any]:
    convert = _CONVERTED.get(name)
    value = convert(result) if convert else getattr(result, name)
    if isinstance(value, list):
        shown = value[-limit:][::-1] if name in ("days", "weeks") else value[:limit]
        fields: dict[str, Any] = {"rows": [_plain(index, each) for each in shown]}
        if len(value) > limit:
            fields["of"] = len(value)
    else:
        fields = {} if value is None else _plain(index, value)
        for key, each in list(fields.items()):
            if isinstance(each, list):
                fields[key] = [_plain(index, row) for row in getattr(value, key)[:limit]]
    return {"section": name, **fields}


def _hours(result: Insights) -> dict[str, Any]:
    """Return the hours that have messages, by weekday."""
    return {
        weekday: {f"{hour:02}": count for hour, count in enumerate(row) if count}
        for weekday, row in zip(_WEEKDAYS, result.hours.messages, strict=True)
        if any(row)
    }


_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CONVERTED: Final[dict[str, Callable[[Insights], Any]]] = {"hours": _hours}


def _plain(index: Index, value: Any) -> Any:
    """Return a row without nulls and zeros; its log and offset become session and record."""
    if not isinstance(value, Struct | dict):
        return value
    fields = structs.asdict(value) if isinstance(value, Struct) else dict(value)
    if "log" in fields:
        fields |= pointer(index, fields.pop("log"), fields.pop("offset"))
    return {name: _shown(each) for name, each in sparse(fields).items() if each not in (0, "0")}


def _shown(value: Any) -> Any:
    return instant_text(value) if isinstance(value, datetime) else value


INSIGHTS = Tool(past_insights, title="What was done, and how it went")
