"""The tool ``list_sessions``: a list of sessions, the last active first."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import Field

from turnlog.api.arguments import configured_prices
from turnlog.api.sessions.lists import IndexedSession, SessionCosts, SessionSort, list_indexed
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import Limit, PageStart, Project, Since, Tool, Until


class SessionLine(Struct, kw_only=True, omit_defaults=True):
    """A session in a list."""

    id: str
    title: str | None
    project: str | None
    started_at: datetime | None
    last_active_at: datetime | None
    prompts: int
    records: int | None
    tokens: int
    models: list[str]
    tools: dict[str, int] = {}
    branches: list[str] = []
    subagents: int = 0
    tags: list[str] = []
    pinned: bool = False
    cost_usd: str | None = None
    state: str
    running: str | None = None
    keeping: str = "live"
    archived: bool = False
    damages: int = 0
    crashed: bool = False


class SessionsFound(Struct, kw_only=True):
    """Figures of all matching sessions."""

    total: int


def list_sessions(
    ctx: ToolContext,
    page: PageStart,
    *,
    project: Project = None,
    title: Annotated[str | None, Field(description="Text in the title.", max_length=500)] = None,
    since: Since = None,
    until: Until = None,
    model: Annotated[
        str | None, Field(description="Part of a model's name.", max_length=200)
    ] = None,
    branch: Annotated[str | None, Field(description="Git branch.", max_length=500)] = None,
    tool: Annotated[
        str | None,
        Field(description="A tool that was called, such as Bash.", max_length=200),
    ] = None,
    tag: Annotated[str | None, Field(description="Tag.", max_length=500)] = (None),
    archived: Annotated[
        Literal["no", "only", "also"], Field(description="Include archived sessions.")
    ] = "no",
    sort: Annotated[SessionSort, Field(description="Sort order.")] = "active",
    reverse: Annotated[bool, Field(description="Reverse the order.")] = False,
    limit: Limit = 10,
) -> ToolAnswer:
    """List past sessions: id, title, times, prompts, tokens, cost, models, tools. Latest first.

    Start here to see what was worked on.
    """
    with ctx.index() as index:
        result = list_indexed(
            index,
            project=ctx.project(project),
            text_in_title=title,
            since=ctx.moment(since),
            until=ctx.moment(until),
            model=model,
            branch=branch,
            tool=tool,
            tag=tag,
            gone=False,  # No other tool could read it.
            archived={"no": False, "only": True, "also": None}[archived],
            sort=sort,
            reverse=reverse,
            limit=limit,
            offset=page.place,
            costs=SessionCosts(index, configured_prices()),
            now=ctx.now(),
        )
    return ToolAnswer(
        about=SessionsFound(total=result.total),
        noun="sessions",
        rows=[_line(row) for row in result.sessions],
        offset=page.place,
        next=result.next,
    )


def _line(row: IndexedSession) -> SessionLine:
    fields = {name: getattr(row, name) for name in SessionLine.__struct_fields__}
    return SessionLine(**fields)


SESSIONS = Tool(list_sessions, title="List past sessions")
