"""The tool ``search``: where something was said, called or answered, in every session."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from turnlog.errors import UsageError
from turnlog.index.opening import Index
from turnlog.mcp.desk import Desk
from turnlog.mcp.paging import Answer
from turnlog.mcp.pointing import pointer, sparse, told_at
from turnlog.mcp.session_tool import unread_notes
from turnlog.mcp.tool import Limit, OneSession, Page, Project, Since, Tool, Until
from turnlog.questions import search as searching
from turnlog.questions.error_patterns import one_line
from turnlog.questions.hits import Hit
from turnlog.questions.matching import conjuncts, joined
from turnlog.questions.search_language import Filter, parse, written

_WIDTH: Final = 240
_TITLE: Final = 100
_FARTHEST: Final = 10_000
"""Whoever has read so many hits should ask otherwise."""


def search(
    desk: Desk,
    page: Page,
    *,
    query: Annotated[
        str,
        Field(
            description='Words, "phrases", -refusals, begin*, a OR b, and filters: tool:Bash'
            " file:*.py is:error is:prompt type:plan role:assistant branch:main model:opus.",
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
        Field(description="Search what tools answered, too: most of the text, and mostly files."),
    ] = False,
    newest: Annotated[
        bool, Field(description="The newest hits first, not the best; all hits of a session.")
    ] = False,
    limit: Limit = 10,
) -> Answer:
    """Find what was said, called, planned or answered in past sessions; the best hits first.

    A hit is a piece of a text, the session and the record it stands in: `turns` with that record
    shows what was going on, `session` gives the record whole. Of each session the best three are
    shown; with `session` all of one.
    """
    if not query.strip():
        raise UsageError("there is nothing to look for", hint="say words, or a filter")
    if page.place > _FARTHEST:
        raise UsageError(
            f"nobody reads {_FARTHEST:,} hits", hint="narrow the search: more words, or a filter"
        )
    now = desk.now()
    with desk.index() as index:
        asked = parse(query, now=now, zone=desk.zone)
        nodes = list(conjuncts(asked.tree))
        if session is not None:
            nodes.append(Filter("session", desk.session(index, session).id))
        found = searching.search(
            index,
            written(joined(nodes)),
            now=now,
            zone=desk.zone,
            project=desk.project(project),
            since=desk.moment(since),
            until=desk.moment(until),
            with_results=results,
            newest=newest,
            limit=limit,
            offset=page.place,
            width=_WIDTH,
            mask=desk.mask,
        )
        notes = [*asked.notes, *(each.replace("--", "") for each in found.notes)]
        return Answer(
            noun="hits",
            rows=_rows(desk, index, found.hits),
            offset=page.place,
            next=found.next,
            notes=[*dict.fromkeys(notes), *unread_notes(index)],
            rest="session(session, record) gives a record whole.",
        )


def _rows(desk: Desk, index: Index, hits: list[Hit]) -> list[dict[str, Any]]:
    titled: set[str | None] = set()
    return [_row(desk, index, hit, titled) for hit in hits]


def _row(desk: Desk, index: Index, hit: Hit, titled: set[str | None]) -> dict[str, Any]:
    """Tell a hit; what is known of its session, with the first of it."""
    is_first = hit.session not in titled
    titled.add(hit.session)
    return sparse(
        {
            **pointer(index, hit.log, hit.offset),
            "session": hit.session,
            "at": told_at(hit.at),
            "kind": hit.kind,
            "tool": hit.tool,
            "is_error": hit.is_error or None,
            "text": hit.snippet,
            "title": one_line(hit.title or "", _TITLE) if is_first else None,
            "project": hit.project if is_first and hit.project != desk.scope else None,
        }
    )


SEARCH = Tool(search, title="Search past sessions")
