"""The tool ``search_history``: full-text search in all sessions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from turnlog.api.index import Index
from turnlog.api.search import (
    FieldFilter,
    Hit,
    Node,
    Not,
    SearchQuery,
    filters_of,
    has_words,
    narrow,
    parse,
    search,
)
from turnlog.errors import UsageError
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import (
    Limit,
    OneSession,
    PageStart,
    Project,
    Since,
    Tool,
    Until,
    instant_text,
    pointer,
    sparse,
)
from turnlog.mcp.tools.session import unread_notes
from turnlog.text import one_line

_WIDTH: Final = 240
_TITLE: Final = 100
_MAX_OFFSET: Final = 10_000


def search_history(
    ctx: ToolContext,
    page: PageStart,
    *,
    query: Annotated[
        str,
        Field(
            description='Words, "phrases", -excluded, prefix*, a OR b, filters: tool:Bash'
            " file:*.py is:error is:prompt type:plan role:assistant branch:main model:opus",
            min_length=1,
            max_length=1000,
        ),
    ],
    session: OneSession = None,
    project: Project = None,
    since: Since = None,
    until: Until = None,
    results: Annotated[
        bool,
        Field(description="Search tool output too."),
    ] = False,
    newest: Annotated[bool, Field(description="Newest first, not best first.")] = False,
    limit: Limit = 10,
) -> ToolAnswer:
    """Search past sessions: prompts, answers, tool calls, plans. Best hits first.

    A hit has a snippet, its session and its record: `session_turns` with these shows the context,
    `session_overview` the whole record. At most three hits per session unless `session` is given.
    The session that asks, and earlier calls of these tools, are left out unless `session` or
    `tool:` names them.
    """
    if not query.strip():
        raise UsageError("empty query", hint="pass words or a filter")
    if page.place > _MAX_OFFSET:
        raise UsageError(
            f"offset too large: more than {_MAX_OFFSET:,} hits",
            hint="narrow the search with more words or a filter",
        )
    now = ctx.now()
    with ctx.index() as index:
        parsed = parse(query, now=now, zone=ctx.zone)
        if session is not None:
            parsed = narrow(parsed, FieldFilter("session", ctx.session(index, session).id))
        elif has_words(parsed):
            parsed = narrow(parsed, *_without_own(ctx, parsed))
        result = search(
            index,
            parsed,
            now=now,
            zone=ctx.zone,
            project=ctx.project(project),
            since=ctx.moment(since),
            until=ctx.moment(until),
            with_results=results,
            newest=newest,
            limit=limit,
            offset=page.place,
            width=_WIDTH,
            mask=ctx.mask,
        )
        notes = result.notes
        if not result.hits and not results:
            notes.append("nothing found; results=true searches tool output too")
        return ToolAnswer(
            noun="hits",
            rows=_rows(ctx, index, result.hits),
            offset=page.place,
            next=result.next,
            notes=[*dict.fromkeys(notes), *unread_notes(index)],
            rest="`session_overview` with session and record returns a whole record.",
        )


def _without_own(ctx: ToolContext, parsed: SearchQuery) -> list[Node]:
    """Return filters that exclude the asking session and earlier calls of this server.

    They repeat the question, so they would be the best hits. A scan, which finds text without
    words, does not support these filters.
    """
    named = {entry.field for entry in filters_of(parsed.tree)}
    filters: list[Node] = []
    if "session" not in named:
        filters += [Not(FieldFilter("session", entry)) for entry in sorted(ctx.asking_sessions())]
    if "tool" not in named:
        filters.append(Not(FieldFilter("tool", "mcp__turnlog__*")))
    return filters


def _rows(ctx: ToolContext, index: Index, hits: list[Hit]) -> list[dict[str, Any]]:
    titled: set[str | None] = set()
    return [_row(ctx, index, hit, titled) for hit in hits]


def _row(ctx: ToolContext, index: Index, hit: Hit, titled: set[str | None]) -> dict[str, Any]:
    """Return the row of a hit; the first hit of a session has its title and project."""
    is_first = hit.session not in titled
    titled.add(hit.session)
    return sparse(
        {
            **pointer(index, hit.log, hit.offset),
            "session": hit.session,
            "at": instant_text(hit.at),
            "kind": hit.kind,
            "tool": hit.tool,
            "is_error": hit.is_error or None,
            "text": hit.snippet,
            "title": one_line(hit.title or "", _TITLE) if is_first else None,
            "project": hit.project if is_first and hit.project != ctx.scope else None,
        }
    )


SEARCH = Tool(search_history, title="Search past sessions")
