"""The tool ``query_history``: any question about records, messages and calls, as meta-cc asks it.

    query({resource: "messages", filter: {role: "user"}})

What may be asked is described once, in ``questions.query_fields``; the schema is made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import structs
from pydantic import Field, WithJsonSchema

from turnlog.api.index import Index
from turnlog.api.query import (
    BUDGET_SECONDS,
    RESOURCES,
    SLOW_PATTERN,
    TOOK_TOO_LONG,
    Aggregate,
    Output,
    Query,
    QueryDocument,
    QueryFilter,
    Resource,
    Transform,
    answer,
    parse_query,
    resource_named,
)
from turnlog.errors import UsageError
from turnlog.mcp.context import ToolContext
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.tool import PageStart, Tool, sparse
from turnlog.mcp.tools.session import unread_notes
from turnlog.text import one_line

READ_AT_MOST: Final = 5_000
"""So many records are read for one query."""
_ROWS: Final = 20
_MOST_ROWS: Final = 200
_SHOWN: Final = 300
# What is given if nothing else is asked for: enough to choose by, and to open.
_OPENED: Final = ("uuid", "session_id", "subagent", "at")
_LOOK: Final = {
    "entries": (*_OPENED, "type", "author", "is_error", "content"),
    "messages": (*_OPENED, "role", "model", "output", "is_error", "text"),
    "tools": (*_OPENED, "tool_name", "status", "duration_ms", "file", "input"),
}
_NEVER: Final = "log"
"""Where logs lie is nobody's business but the owner's."""


def _described(kind: type[msgspec.Struct], **instead: Any) -> dict[str, Any]:
    """Describe a part of a query for agents: names, what each may be, and nothing twice."""
    schema = msgspec.json.schema(kind)
    found = schema["$defs"][kind.__name__]["properties"]
    told: dict[str, Any] = {}
    for name, each in found.items():
        if name in instead:
            told[name] = instead[name]
            continue
        plain = {key: value for key, value in each.items() if key not in ("anyOf", "default")}
        for way in each.get("anyOf", ()):
            if way.get("type") != "null":
                plain |= {key: value for key, value in way.items() if key != "$ref"}
        if "enum" in plain:
            plain["enum"] = [value for value in plain["enum"] if value is not None]
        told[name] = plain
    return {"type": "object", "properties": told, "additionalProperties": False}


_TIMES: Final = {
    "type": "object",
    "properties": {"start": {"type": "string"}, "end": {"type": "string"}},
    "additionalProperties": False,
    "description": "From start on, before end: 7d, yesterday, 2026-11-01T18:00.",
}
_FIELDS: Final = "; ".join(
    f"{each.name}: {', '.join(name for name in each.fields if name != _NEVER)}"
    for each in RESOURCES
)
Part: TypeAlias = dict[str, Any] | None
_OUTPUT: Final = _described(
    Output,
    format={"enum": ["json", "summary"], "description": "summary: count what was found."},
    limit={"type": "integer", "minimum": 1, "maximum": _MOST_ROWS},
    offset={"type": "integer", "minimum": 0, "description": "Left out first."},
)
Wanted: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_described(QueryFilter, time_range=_TIMES)),
    Field(description="Which rows; all conditions hold."),
]
Transformed: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_described(Transform)),
    Field(description="Which fields, or groups instead of rows."),
]
Aggregated: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_described(Aggregate)),
    Field(description="A figure instead of rows, of all of them or of each group."),
]
Given: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_OUTPUT),
    Field(description="How many rows, and in which order; the newest first, unless told."),
]


def query_history(
    ctx: ToolContext,
    page: PageStart,
    *,
    resource: Annotated[
        Literal["entries", "messages", "tools", "records", "calls"],
        Field(
            description="messages: prompts and responses. tools (or calls): calls with what came"
            f" of them. entries (or records): every line. Fields of {_FIELDS}."
        ),
    ],
    filter: Wanted = None,  # noqa: A002 - As the call is written.
    transform: Transformed = None,
    aggregate: Aggregated = None,
    output: Given = None,
) -> ToolAnswer:
    """Query records, messages and calls: filter, extract fields, group, count, sort.

    Without transform and aggregate: the total, and rows with the start of their text. A row's
    `session_id` and `uuid` are the session and record of `session_turns`.
    """
    parts = {
        "filter": filter,
        "transform": transform,
        "aggregate": aggregate,
        "output": {"limit": _ROWS} | (output or {}),
    }
    asked = _parsed(ctx, {"resource": resource} | parts, page)
    kind = resource_named(asked.resource)
    is_look = (
        asked.transform.extract is None
        and asked.transform.group_by is None
        and asked.aggregate is None
        and asked.output.format != "summary"
    )
    if is_look:
        shown = structs.replace(asked.transform, extract=list(_LOOK[kind.name]))
        asked = structs.replace(asked, transform=shown)
    with ctx.index() as index:
        if asked.filter.session_id is not None:
            known = ctx.session(index, asked.filter.session_id)
            named = structs.replace(asked.filter, session_id=known.id)
            asked = structs.replace(asked, filter=named)
        found = _answered(ctx, index, asked)
        about = None
        if is_look and not page.place and asked.filter.content_match is None:
            about = _summed_up(ctx, index, asked)
        return ToolAnswer(
            about=about,
            noun="rows",
            rows=[_row(each, kind, is_look=is_look) for each in found.rows],
            offset=asked.output.offset,
            next=found.next,
            notes=[*found.notes, *unread_notes(index)],
            rest="`session_overview` with session and record returns a whole record.",
        )


def _parsed(ctx: ToolContext, given: Mapping[str, Any], page: PageStart) -> Query:
    """Read the query, within the scope and the bounds of an answer."""
    asked = parse_query(
        {name: _without_nulls(part) for name, part in given.items() if part is not None}
    )
    form, named = asked.output, asked.transform
    if form.format not in ("json", "summary"):
        raise UsageError(f"{form.format} is for files", hint="say json or summary as the format")
    if not 1 <= form.limit <= _MOST_ROWS:
        raise UsageError(
            f"output.limit is {form.limit}",
            hint=f"say 1 to {_MOST_ROWS}; the cursor of an answer goes on behind it",
        )
    of = asked.aggregate.field if asked.aggregate else None
    if _NEVER in (*(named.extract or ()), named.group_by, of, form.sort_by):
        raise UsageError(
            f"{_NEVER} is not told here", hint="session_id, subagent and uuid say where a record is"
        )
    return structs.replace(
        asked,
        filter=structs.replace(asked.filter, project=ctx.project(asked.filter.project)),
        output=structs.replace(form, offset=page.place or form.offset),
    )


def _without_nulls(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: each for name, each in part.items() if each is not None}


def _answered(ctx: ToolContext, index: Index, asked: Query) -> QueryDocument:
    """Answer the query, or say that its pattern is too slow."""
    seconds = min(BUDGET_SECONDS, ctx.deadline.left / 2)
    found = answer(
        index,
        asked,
        now=ctx.now(),
        zone=ctx.zone,
        read_at_most=READ_AT_MOST,
        match_seconds=seconds,
    )
    if TOOK_TOO_LONG in found.notes:
        raise UsageError(
            f"the pattern took longer than {seconds:.0f} seconds for one text",
            hint=f"{SLOW_PATTERN}; say a plain piece of text, one session_id, or a time_range",
        )
    return found


def _summed_up(ctx: ToolContext, index: Index, asked: Query) -> dict[str, Any]:
    """Count all that was found."""
    counted = structs.replace(
        asked, transform=Transform(), output=structs.replace(asked.output, format="summary")
    )
    (row,) = answer(index, counted, now=ctx.now(), zone=ctx.zone).rows
    return sparse(row)


def _row(row: dict[str, Any], kind: Resource, *, is_look: bool) -> dict[str, Any]:
    """Leave out what says nothing; of a first look, all but the beginnings of texts."""
    given = sparse(row)
    if not is_look:
        return given
    if not given.get("is_error"):
        given.pop("is_error", None)
    for name, each in given.items():
        if kind.fields[name].kind == "read" and isinstance(each, str):
            given[name] = one_line(each, _SHOWN)
    return given


QUERY = Tool(query_history, title="Query records, messages and calls")
