"""The tool ``past_calls``: tool calls with input, outcome and duration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from turnlog.api.index import SUBAGENT, Index, microseconds
from turnlog.api.query import TOOLS, QueryConditions, QueryFilter, answer_of, conditions_of
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.session_flow import call_line, status_of
from turnlog.mcp.tool import (
    FileName,
    Limit,
    OneSession,
    PageStart,
    Project,
    Since,
    Tool,
    ToolName,
    Until,
    file_glob,
    instant_text,
    record_name,
    sparse,
    tool_pattern,
)
from turnlog.mcp.tools.session import unread_notes
from turnlog.text import one_line

_COUNTED: Final = 12
_ANSWER: Final = 200
_COLUMNS: Final = (
    "r.id, r.length, r.uuid, c.block, c.result, c.call_id, tool.name, c.is_error, c.duration_us,"
    f" r.at, s.session, {SUBAGENT}, fp.path, p.path"
)
Status = Literal["ok", "error", "pending"]
_STATUSES: Final[dict[Status, Literal["success", "error", "pending"]]] = {
    "ok": "success",
    "error": "error",
    "pending": "pending",
}


def past_calls(
    ctx: ToolContext,
    page: PageStart,
    *,
    tool: ToolName = None,
    status: Annotated[
        Status | None,
        Field(description="pending: without a result."),
    ] = None,
    file: FileName = None,
    session: OneSession = None,
    project: Project = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
) -> ToolAnswer:
    """List tool calls, newest first: input, outcome, duration; with counts by tool.

    `session_turns` with a call's session and record returns its whole input and result.
    """
    with ctx.index() as index:
        conditions = conditions_of(
            index.db,
            TOOLS,
            QueryFilter(
                project=ctx.project(project),
                tool_name=tool_pattern(tool),
                tool_status=None if status is None else _STATUSES[status],
            ),
            now=ctx.now(),
            zone=ctx.zone,
        )
        if session is not None:
            which = conditions.put(ctx.session(index, session).id)
            conditions.outer.append(f"s.session = {which}")
        for at, sign in ((ctx.moment(since), ">="), (ctx.moment(until), "<")):
            if at is not None:
                conditions.outer.append(f"r.at {sign} {conditions.put(microseconds(at))}")
        if file is not None:
            globs = (f"fp.path GLOB {conditions.put(each)}" for each in file_glob(file))
            conditions.outer.append(f"({' OR '.join(globs)})")
        rows = list(_listed(index, conditions, page.place, limit + 1))
        return ToolAnswer(
            about=None if page.place else _counted(index, conditions),
            noun="calls",
            rows=_rows(ctx, index, rows[:limit]),
            offset=page.place,
            next=page.place + limit if len(rows) > limit else None,
            notes=unread_notes(index),
            rest="`session_turns` with session and record returns a call's whole input and result.",
        )


def _listed(index: Index, conditions: QueryConditions, offset: int, most: int) -> Iterator[Any]:
    values = conditions.values | {"most": most, "offset": offset}
    return index.db.execute(
        f"SELECT {_COLUMNS} FROM {conditions.source(TOOLS)}"  # noqa: S608 - Ours.
        " ORDER BY r.at DESC NULLS LAST, r.id, c.block LIMIT :most OFFSET :offset",
        values,
    )


def _counted(index: Index, conditions: QueryConditions) -> dict[str, Any]:
    """Count all matching calls, by tool and by outcome."""
    rows = index.db.execute(
        "SELECT tool.name, count(*), total(c.is_error), sum(c.is_error IS NULL)"  # noqa: S608
        f" FROM {conditions.source(TOOLS)} GROUP BY 1 ORDER BY 2 DESC, 1",
        conditions.values,
    ).fetchall()
    return sparse(
        {
            "total": sum(row[1] for row in rows),
            "failed": int(sum(row[2] for row in rows)) or None,
            "pending": sum(row[3] for row in rows) or None,
            "by_tool": {name or "?": count for name, count, *_ in rows[:_COUNTED]},
            "more_tools": len(rows) - _COUNTED if len(rows) > _COUNTED else None,
        }
    )


def _rows(ctx: ToolContext, index: Index, rows: list[Any]) -> list[dict[str, Any]]:
    """Return the rows of calls; only the first call of a project names it."""
    named: set[str | None] = {ctx.scope}
    shown = []
    for row in rows:
        shown.append(_row(index, row) | sparse({"project": None if row[-1] in named else row[-1]}))
        named.add(row[-1])
    return shown


def _row(index: Index, row: tuple[Any, ...]) -> dict[str, Any]:
    number, length, uuid, block, result, call_id, name, is_error, duration, at, *rest = row
    session, subagent, file, _ = rest
    request = call_line(index.record(number, length), block)
    answer = answer_of(index.record(result), call_id) if is_error and result else None
    return sparse(
        {
            "session": session,
            "subagent": subagent,
            "record": record_name(uuid, number),
            "at": instant_text(at),
            "tool": name,
            "status": None if is_error == 0 else status_of(is_error),
            "asked": request,
            "error": one_line(answer or "", _ANSWER),
            "elapsed_ms": None if duration is None else duration // 1000,
            "file": None if request and (file or "").endswith(request) else file,
        }
    )


CALLS = Tool(past_calls, title="Calls of tools in past sessions")
