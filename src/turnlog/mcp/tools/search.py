"""The tool ``search_history``: full-text search in all sessions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final

from msgspec import structs
from pydantic import Field

from turnlog.api.search import (
    FieldFilter,
    Node,
    Not,
    SearchQuery,
    filters_of,
    has_words,
    narrow,
    parse,
    search,
    soft_words,
)
from turnlog.errors import UsageError
from turnlog.mcp.context import ToolContext
from turnlog.mcp.found_sessions import WIDTHS, FoundSessions, Widths, json_bytes
from turnlog.mcp.pages import ToolAnswer, room_for
from turnlog.mcp.tool import Limit, OneSession, PageStart, Project, Since, Tool, Until, sparse
from turnlog.mcp.tools.session import unread_notes

_MAX_OFFSET: Final = 10_000
# At 3.2 bytes per token, ten hits take at most 1,500 tokens.
_FRAME_BYTES: Final = 500
_HIT_BYTES: Final = 430
_LEAST_BYTES: Final = 3_000
_READ_ON: Final = (
    "Read on: `session_turns` with session and record returns the turn from that record on,"
    " `session_overview` with both the whole record."
)


def search_history(
    ctx: ToolContext,
    page: PageStart,
    *,
    query: Annotated[
        str,
        Field(
            description='Question or words; +required, "phrase", -excluded, prefix*, a OR b,'
            " filters: tool:Bash file:*.py is:error is:prompt type:plan role:assistant branch:main"
            " model:opus",
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
    """Search past sessions: prompts, answers, tool calls, plans. Best sessions first.

    Ask as you would a colleague ("how did we fix the flaky retry?"): a hit need not have all words;
    only +word, "phrase" and -word are strict. A hit has its record, the passage, the `prompt` of
    its turn and `files` changed in it; both are on the first hit of a turn only. `session_turns`
    with session and record reads on. At most three hits per session unless `session` is given. The
    session that asks, and earlier calls of these tools, are left out unless `session` or `tool:`
    names them.
    """
    if not query.strip():
        raise UsageError("empty query", hint="pass words or a filter")
    if page.place > _MAX_OFFSET:
        raise UsageError(
            f"offset too large: more than {_MAX_OFFSET:,} hits",
            hint="narrow the search with more words or a filter",
        )
    now = ctx.now()
    directory = ctx.project(project)
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
            project=directory,
            since=ctx.moment(since),
            until=ctx.moment(until),
            with_results=results,
            newest=newest,
            limit=limit,
            offset=page.place,
            width=WIDTHS[0].text,
            mask=ctx.mask,
        )
        notes = result.notes
        # For words that may be missing, tool output was searched already.
        if not result.hits and not results and not soft_words(parsed.tree):
            notes.append("nothing found; results=true searches tool output too")
        found = FoundSessions(ctx, index, result.hits, directory)
        answer = ToolAnswer(
            about=sparse({"project": found.project}),
            noun="sessions",
            offset=page.place,
            next=result.next,
            notes=[*dict.fromkeys(notes), *unread_notes(index)],
            read_on=_READ_ON,
            most_bytes=max(_LEAST_BYTES, _FRAME_BYTES + _HIT_BYTES * limit),
        )
        room = room_for(answer, ctx.settings.answer_bytes)
        room -= json_bytes([answer.about, answer.notes])
        return _shorter(found, _steps(len(found)), room, answer)


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


def _steps(count: int) -> Iterator[tuple[int, Widths]]:
    """Yield how many hits to show and how long, from most to least."""
    for widths in WIDTHS:
        yield count, widths
    while count > 1:
        count = count * 3 // 4
        yield count, WIDTHS[-1]


def _shorter(
    found: FoundSessions, steps: Iterator[tuple[int, Widths]], room: int, answer: ToolAnswer
) -> ToolAnswer:
    """Return *answer* with the rows of the first of *steps* that fit into *room* bytes.

    What is masked or escaped later may still be longer; then the next step is tried. The last step
    is used whether it fits or not: it has only one hit.
    """
    for count, widths in steps:
        rows = found.rows(count, widths)
        following = answer.next if count == len(found) else answer.offset + count
        shorten = partial(_shorter, found, steps, room)
        answer = structs.replace(answer, rows=rows, next=following, shorten=shorten)
        if sum(json_bytes(row) + 2 for row in rows) <= room:
            return answer
    return structs.replace(answer, shorten=None)


SEARCH = Tool(search_history, title="Search past sessions")
