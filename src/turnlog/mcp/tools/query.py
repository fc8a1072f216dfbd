"""The tool ``query_history``: structured queries, with the same parameters as in meta-cc.

    query({resource: "messages", filter: {role: "user"}})

The schema is generated from the structs of ``turnlog.api.query``.
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
"""At most this many records are read for one query."""
_ROWS: Final = 20
_MOST_ROWS: Final = 200
_SHOWN: Final = 300
# The fields of rows unless a query extracts others.
_KEY_FIELDS: Final = ("uuid", "session_id", "subagent", "at")
_DEFAULT_FIELDS: Final = {
    "entries": (*_KEY_FIELDS, "type", "author", "is_error", "content"),
    "messages": (*_KEY_FIELDS, "role", "model", "output", "is_error", "text"),
    "tools": (*_KEY_FIELDS, "tool_name", "status", "duration_ms", "file", "input"),
}
_HIDDEN: Final = "log"
"""The path of a log is not shown to agents."""


def _schema(kind: type[msgspec.Struct], **instead: Any) -> dict[str, Any]:
    """Return a short JSON schema for a part of a query; *instead* replaces fields."""
    schema = msgspec.json.schema(kind)
    properties = schema["$defs"][kind.__name__]["properties"]
    described: dict[str, Any] = {}
    for name, each in properties.items():
        if name in instead:
            described[name] = instead[name]
            continue
        plain = {key: value for key, value in each.items() if key not in ("anyOf", "default")}
        for alternative in each.get("anyOf", ()):
            if alternative.get("type") != "null":
                plain |= {key: value for key, value in alternative.items() if key != "$ref"}
        if "enum" in plain:
            plain["enum"] = [value for value in plain["enum"] if value is not None]
        described[name] = plain
    return {"type": "object", "properties": described, "additionalProperties": False}


_TIMES: Final = {
    "type": "object",
    "properties": {"start": {"type": "string"}, "end": {"type": "string"}},
    "additionalProperties": False,
    "description": "From start on, before end: 7d, yesterday, 2026-11-01T18:00.",
}
_FIELDS: Final = "; ".join(
    f"{each.name}: {', '.join(name for name in each.fields if name != _HIDDEN)}"
    for each in RESOURCES
)
Part: TypeAlias = dict[str, Any] | None
_OUTPUT: Final = _schema(
    Output,
    format={"enum": ["json", "summary"], "description": "summary: only counts."},
    limit={"type": "integer", "minimum": 1, "maximum": _MOST_ROWS},
    offset={"type": "integer", "minimum": 0, "description": "Rows to skip."},
)
FilterPart: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_schema(QueryFilter, time_range=_TIMES)),
    Field(description="Which rows; all conditions must match."),
]
TransformPart: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_schema(Transform)),
    Field(description="Which fields, or groups instead of rows."),
]
AggregatePart: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_schema(Aggregate)),
    Field(description="A figure instead of rows, in total or per group."),
]
OutputPart: TypeAlias = Annotated[
    Part,
    WithJsonSchema(_OUTPUT),
    Field(description="Number and order of rows; newest first by default."),
]


def query_history(
    ctx: ToolContext,
    page: PageStart,
    *,
    resource: Annotated[
        Literal["entries", "messages", "tools", "records", "calls"],
        Field(
            description="messages: prompts and responses. tools (or calls): calls and their"
            f" outcome. entries (or records): every line. Fields of {_FIELDS}."
        ),
    ],
    filter: FilterPart = None,  # noqa: A002 - As the call is written.
    transform: TransformPart = None,
    aggregate: AggregatePart = None,
    output: OutputPart = None,
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
    query = _parsed(ctx, {"resource": resource} | parts, page)
    kind = resource_named(query.resource)
    is_default = (
        query.transform.extract is None
        and query.transform.group_by is None
        and query.aggregate is None
        and query.output.format != "summary"
    )
    if is_default:
        shown = structs.replace(query.transform, extract=list(_DEFAULT_FIELDS[kind.name]))
        query = structs.replace(query, transform=shown)
    with ctx.index() as index:
        if query.filter.session_id is not None:
            known = ctx.session(index, query.filter.session_id)
            resolved = structs.replace(query.filter, session_id=known.id)
            query = structs.replace(query, filter=resolved)
        result = _run(ctx, index, query)
        about = None
        if is_default and not page.place and query.filter.content_match is None:
            about = _total(ctx, index, query)
        return ToolAnswer(
            about=about,
            noun="rows",
            rows=[_row(each, kind, is_default=is_default) for each in result.rows],
            offset=query.output.offset,
            next=result.next,
            notes=[*result.notes, *unread_notes(index)],
            rest="`session_overview` with session and record returns a whole record.",
        )


def _parsed(ctx: ToolContext, parts: Mapping[str, Any], page: PageStart) -> Query:
    """Parse the query; limit it to the scope and the size of an answer."""
    query = parse_query(
        {name: _without_nulls(part) for name, part in parts.items() if part is not None}
    )
    form, transform = query.output, query.transform
    if form.format not in ("json", "summary"):
        raise UsageError(f"unsupported format: {form.format}", hint="use json or summary")
    if not 1 <= form.limit <= _MOST_ROWS:
        raise UsageError(
            f"output.limit is out of range: {form.limit}",
            hint=f"use 1 to {_MOST_ROWS}; continue with the cursor of the answer",
        )
    aggregated = [each.field for each in query.aggregates]
    if _HIDDEN in (*(transform.extract or ()), transform.group_by, *aggregated, form.sort_by):
        raise UsageError(
            f"the field {_HIDDEN} is not available", hint="use session_id, subagent and uuid"
        )
    return structs.replace(
        query,
        filter=structs.replace(query.filter, project=ctx.project(query.filter.project)),
        output=structs.replace(form, offset=page.place or form.offset),
    )


def _without_nulls(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: each for name, each in part.items() if each is not None}


def _run(ctx: ToolContext, index: Index, query: Query) -> QueryDocument:
    """Run the query; raise UsageError if its pattern is too slow."""
    seconds = min(BUDGET_SECONDS, ctx.deadline.left / 2)
    result = answer(
        index,
        query,
        now=ctx.now(),
        zone=ctx.zone,
        read_at_most=READ_AT_MOST,
        match_seconds=seconds,
    )
    if TOOK_TOO_LONG in result.notes:
        raise UsageError(
            f"the pattern took longer than {seconds:.0f} seconds for one text",
            hint=f"{SLOW_PATTERN}; use plain text, one session_id, or a time_range",
        )
    return result


def _total(ctx: ToolContext, index: Index, query: Query) -> dict[str, Any]:
    """Count all matching rows."""
    counting = structs.replace(
        query, transform=Transform(), output=structs.replace(query.output, format="summary")
    )
    (row,) = answer(index, counting, now=ctx.now(), zone=ctx.zone).rows
    return sparse(row)


def _row(row: dict[str, Any], kind: Resource, *, is_default: bool) -> dict[str, Any]:
    """Return a row without empty values; a default row has only the start of each text."""
    fields = sparse(row)
    if not is_default:
        return fields
    if not fields.get("is_error"):
        fields.pop("is_error", None)
    for name, value in fields.items():
        if kind.fields[name].kind == "read" and isinstance(value, str):
            fields[name] = one_line(value, _SHOWN)
    return fields


QUERY = Tool(query_history, title="Query records, messages and calls")
