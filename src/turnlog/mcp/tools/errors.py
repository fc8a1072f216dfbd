"""The tool ``past_errors``: errors grouped by message, and the records around each."""

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
"""Characters of a signature in a row; enough to be unique."""


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
        raise UsageError("least and signature cannot be combined", hint="leave out one of them")
    options: dict[str, Any] = {
        "project": ctx.project(project),
        "since": ctx.moment(since),
        "until": ctx.moment(until),
        "tool": tool_pattern(tool),
        "limit": limit,
        "offset": page.place,
    }
    with ctx.index() as index:
        if signature is not None:
            detail = _context(index, signature, context, options)
            return ToolAnswer(
                about={"total": detail.total},
                noun="occurrences",
                rows=[_occurrence(ctx, index, each) for each in detail.occurrences],
                offset=page.place,
                next=detail.next,
                notes=unread_notes(index),
                rest="`session_turns` with session and record shows more.",
            )
        patterns = error_patterns(index, minimum=least, **options)
        return ToolAnswer(
            about={"total": patterns.total},
            noun="errors",
            rows=[_pattern(index, each) for each in patterns.errors],
            offset=page.place,
            next=patterns.next,
            notes=[*patterns.notes, *unread_notes(index)],
            rest="`session_overview` with session and record returns the whole example.",
        )


def _context(index: Index, signature: str, window: int, options: dict[str, Any]) -> ErrorContext:
    try:
        return error_context(index, signature, window=window, **options)
    except NotFound as error:
        raise NotFound(error.message, hint="`past_errors` without signature lists them") from None


def _pattern(index: Index, pattern: ErrorPattern) -> dict[str, Any]:
    return sparse(
        {
            "signature": pattern.signature[:_SIGNATURE],
            "tool": pattern.tool,
            "count": pattern.count,
            "sessions": pattern.sessions,
            "first_at": instant_text(pattern.first_at) if pattern.count > 1 else None,
            "last_at": instant_text(pattern.last_at),
            "example": pattern.example,
            **pointer(index, pattern.log, pattern.offset),
        }
    )


def _occurrence(ctx: ToolContext, index: Index, occurrence: Occurrence) -> dict[str, Any]:
    failed = next((each for each in occurrence.records if each.is_error), None)
    subagent = pointer(index, failed.log, failed.offset).get("subagent") if failed else None
    return sparse(
        {
            "session": occurrence.session,
            "subagent": subagent,
            "project": None if occurrence.project == ctx.scope else occurrence.project,
            "at": instant_text(occurrence.at),
            "tool": occurrence.tool,
            "records": [_nearby(index, each) for each in occurrence.records if _has_content(each)],
        }
    )


def _has_content(record: Nearby) -> bool:
    """Return whether a record has anything to show; thinking may be empty."""
    return bool(record.text) or record.is_error


def _nearby(index: Index, record: Nearby) -> dict[str, Any]:
    return sparse(
        {
            "record": pointer(index, record.log, record.offset).get("record"),
            "author": record.author,
            "text": record.text,
            "is_error": record.is_error or None,
        }
    )


ERRORS = Tool(past_errors, title="Errors in past sessions")
