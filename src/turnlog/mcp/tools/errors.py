"""The tool ``past_errors``: what failed again and again, and what happened around it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from turnlog.api.index import Index
from turnlog.api.query import (
    ErrorContext,
    ErrorPattern,
    Nearby,
    Occurrence,
    error_context,
    error_patterns,
)
from turnlog.errors import NotFound, UsageError
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import (
    Limit,
    PageStart,
    Project,
    Since,
    Tool,
    ToolName,
    Until,
    instant_text,
    pointer,
    sparse,
    tool_pattern,
)
from turnlog.mcp.tools.session import unread_notes

_SIGNATURE: Final = 12
"""So much of a signature tells it from all others."""


def past_errors(
    ctx: ToolContext,
    page: PageStart,
    *,
    signature: Annotated[
        str | None,
        Field(
            description="Show the latest errors of this kind and the records around them: the"
            " `signature` of a row, or a prefix.",
            pattern="^[0-9A-Fa-f]{4,32}$",
            max_length=32,
        ),
    ] = None,
    tool: ToolName = None,
    project: Project = None,
    since: Since = None,
    until: Until = None,
    least: Annotated[
        int, Field(description="Minimum number of occurrences.", ge=1, le=1_000_000)
    ] = 1,
    context: Annotated[
        int,
        Field(description="With signature: records before and after.", ge=0, le=20),
    ] = 3,
    limit: Limit = 10,
) -> ToolAnswer:
    """Group past errors of tools (and of the API, as tool API) by message, most frequent first.

    With `signature`: single errors with what was done before and after, to see how they were
    solved.
    """
    if signature is not None and least > 1:
        raise UsageError("least counts kinds of errors", hint="leave it out, or signature")
    wanted: dict[str, Any] = {
        "project": ctx.project(project),
        "since": ctx.moment(since),
        "until": ctx.moment(until),
        "tool": tool_pattern(tool),
        "limit": limit,
        "offset": page.place,
    }
    with ctx.index() as index:
        if signature is not None:
            around = _context(index, signature, context, wanted)
            return ToolAnswer(
                about={"total": around.total},
                noun="occurrences",
                rows=[_occurrence(ctx, index, each) for each in around.occurrences],
                offset=page.place,
                next=around.next,
                notes=unread_notes(index),
                rest="`session_turns` with session and record shows more.",
            )
        found = error_patterns(index, minimum=least, **wanted)
        return ToolAnswer(
            about={"total": found.total},
            noun="errors",
            rows=[_pattern(index, each) for each in found.errors],
            offset=page.place,
            next=found.next,
            notes=[*found.notes, *unread_notes(index)],
            rest="`session_overview` with session and record returns the whole example.",
        )


def _context(index: Index, signature: str, window: int, wanted: dict[str, Any]) -> ErrorContext:
    try:
        return error_context(index, signature, window=window, **wanted)
    except NotFound as error:
        raise NotFound(
            error.message, hint="`past_errors` without signature lists the kinds there are"
        ) from None


def _pattern(index: Index, found: ErrorPattern) -> dict[str, Any]:
    return sparse(
        {
            "signature": found.signature[:_SIGNATURE],
            "tool": found.tool,
            "count": found.count,
            "sessions": found.sessions,
            "first_at": instant_text(found.first_at) if found.count > 1 else None,
            "last_at": instant_text(found.last_at),
            "example": found.example,
            **pointer(index, found.log, found.offset),
        }
    )


def _occurrence(ctx: ToolContext, index: Index, found: Occurrence) -> dict[str, Any]:
    failed = next((each for each in found.records if each.is_error), None)
    subagent = pointer(index, failed.log, failed.offset).get("subagent") if failed else None
    return sparse(
        {
            "session": found.session,
            "subagent": subagent,
            "project": None if found.project == ctx.scope else found.project,
            "at": instant_text(found.at),
            "tool": found.tool,
            "records": [_nearby(index, each) for each in found.records if _speaks(each)],
        }
    )


def _speaks(found: Nearby) -> bool:
    """Return whether there is anything to show of a record; of a thought there may be none."""
    return bool(found.text) or found.is_error


def _nearby(index: Index, found: Nearby) -> dict[str, Any]:
    return sparse(
        {
            "record": pointer(index, found.log, found.offset).get("record"),
            "author": found.author,
            "text": found.text,
            "is_error": found.is_error or None,
        }
    )


ERRORS = Tool(past_errors, title="Errors in past sessions")
