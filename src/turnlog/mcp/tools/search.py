"""The tool ``search_history``: where something was said, called or answered, in every session."""

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
_FARTHEST: Final = 10_000
"""Whoever has read so many hits should ask otherwise."""


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
        raise UsageError("there is nothing to look for", hint="say words, or a filter")
    if page.place > _FARTHEST:
        raise UsageError(
            f"nobody reads {_FARTHEST:,} hits", hint="narrow the search: more words, or a filter"
        )
    now = ctx.now()
    with ctx.index() as index:
        asked = parse(query, now=now, zone=ctx.zone)
        if session is not None:
            asked = narrow(asked, FieldFilter("session", ctx.session(index, session).id))
        elif has_words(asked):
            asked = narrow(asked, *_own(ctx, asked))
        found = search(
            index,
            asked,
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
        notes = found.notes
        if not found.hits and not results:
            notes.append("nothing found; results=true searches tool output too")
        return ToolAnswer(
            noun="hits",
            rows=_rows(ctx, index, found.hits),
            offset=page.place,
            next=found.next,
            notes=[*dict.fromkeys(notes), *unread_notes(index)],
            rest="`session_overview` with session and record returns a whole record.",
        )


def _own(ctx: ToolContext, asked: SearchQuery) -> list[Node]:
    """Return what leaves out the session that asks and earlier calls of this server.

    They repeat the question, so they would be the best hits. A scan, which finds text without
    words, knows no such filters.
    """
    named = {each.field for each in filters_of(asked.tree)}
    found: list[Node] = []
    if "session" not in named:
        found += [Not(FieldFilter("session", each)) for each in sorted(ctx.asking_sessions())]
    if "tool" not in named:
        found.append(Not(FieldFilter("tool", "mcp__turnlog__*")))
    return found


def _rows(ctx: ToolContext, index: Index, hits: list[Hit]) -> list[dict[str, Any]]:
    titled: set[str | None] = set()
    return [_row(ctx, index, hit, titled) for hit in hits]


def _row(ctx: ToolContext, index: Index, hit: Hit, titled: set[str | None]) -> dict[str, Any]:
    """Tell a hit; what is known of its session, with the first of it."""
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
