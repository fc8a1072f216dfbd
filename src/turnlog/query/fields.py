"""The resources of a query, their fields, and its parameters.

This is the only description: validation, SQL, command-line options and the JSON Schema are all made
from it, so nothing is advertised that is then ignored.

The call is meta-cc's, in which records are entries and calls are tools. A `role` is that of the
API's messages, with tools separate: `user` has the prompts of people, and those with which one
agent calls another; `assistant` has the responses; `tool`, for records only, has the results.
Context that the agent program adds has none. A message of the assistant is one API response,
however many records it has parts in; a response in several logs has a row for each, and its
counters in the one that counts. The counters include all passes; summed by model, a further pass
belongs to the model that made it, as in costs.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, get_args

from msgspec import Meta, Struct, field

from turnlog.index.ids import IS_BESIDE, IS_CALL, IS_PROMPT, OFFSET_BITS, SUBAGENT, named

Role = Literal["user", "assistant", "tool"]
ContentType = Literal["text", "thinking", "tool_use", "tool_result"]
ToolStatus = Literal["success", "error", "pending"]
Function = Literal["count", "sum", "avg", "min", "max", "group"]
Format = Literal["json", "jsonl", "tsv", "summary"]

DEFAULT_LIMIT: Final = 100
MOST_ROWS: Final = 10**12


class TimeRange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From *start* to *end* (exclusive): a date, an instant, or a duration such as 7d."""

    start: str | None = None
    end: str | None = None


class QueryFilter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which rows; all conditions must be true."""

    type: Annotated[str | None, Meta(description="The record's type as its log spells it.")] = None
    session_id: Annotated[str | None, Meta(description="How the session's id begins.")] = None
    uuid: Annotated[str | None, Meta(description="The record's uuid.")] = None
    parent_uuid: Annotated[str | None, Meta(description="Its parent's uuid.")] = None
    git_branch: Annotated[str | None, Meta(description="The branch it was said on.")] = None
    time_range: Annotated[
        TimeRange | None, Meta(description="From start on, up to and without end.")
    ] = None
    role: Annotated[
        Role | None,
        Meta(
            description="Who says it. User has what people typed and what agents are asked by their"
            " callers; the field author tells them apart."
        ),
    ] = None
    content_type: Annotated[
        ContentType | None, Meta(description="A kind of block that it has, and that is not empty.")
    ] = None
    content_match: Annotated[
        str | None, Meta(description="A regular expression that its text contains.")
    ] = None
    tool_name: Annotated[
        str | None, Meta(description="A regular expression that a tool's name contains.")
    ] = None
    tool_status: Annotated[ToolStatus | None, Meta(description="What came of the call.")] = None
    has_error: Annotated[bool | None, Meta(description="Whether it tells of an error.")] = None
    project: Annotated[
        str | None, Meta(description="The directory its session worked in, or one above it.")
    ] = None


class Transform(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of the rows."""

    extract: Annotated[
        list[str] | None,
        Meta(
            description="The fields to give. With a dot it is a path into the record's own JSON,"
            " such as message.model or .version."
        ),
    ] = None
    group_by: Annotated[str | None, Meta(description="One row for each value of a field.")] = None


class Aggregate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One figure of all rows, or of each group."""

    function: Annotated[
        Function, Meta(description="Group is a count for each value of the field.")
    ] = "count"
    field: Annotated[str | None, Meta(description="What is added up or compared.")] = None


class Output(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many rows to return, and in which order."""

    format: Annotated[
        Format, Meta(description="Summary counts what was found instead of giving it.")
    ] = "json"
    limit: Annotated[int, Meta(ge=0, le=MOST_ROWS, description="How many rows; 0 gives all.")] = (
        DEFAULT_LIMIT
    )
    offset: Annotated[int, Meta(ge=0, le=MOST_ROWS, description="How many to leave out first.")] = 0
    sort_by: Annotated[
        str | None, Meta(description="A field; without it, the newest or the largest is first.")
    ] = None
    sort_order: Annotated[
        Literal["asc", "desc"] | None, Meta(description="What is not known comes last in both.")
    ] = None


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question: `{"resource": "messages", "filter": {"role": "user"}}`."""

    resource: str
    filter: QueryFilter = field(default_factory=QueryFilter)
    transform: Transform = field(default_factory=Transform)
    aggregate: Aggregate | list[Aggregate] | None = None
    output: Output = field(default_factory=Output)
    where: list[str] = field(default_factory=list)
    """Comparisons that all rows meet: ``status=error``, ``model!=opus``, ``tool~^mcp``."""

    @property
    def aggregates(self) -> list[Aggregate]:
        """The figures to return instead of rows; empty for rows."""
        if isinstance(self.aggregate, list):
            return self.aggregate
        return [] if self.aggregate is None else [self.aggregate]


class Field(NamedTuple):
    """A field of a resource; one that is read is only in the log, not in the index."""

    sql: str
    about: str
    kind: Literal["text", "number", "flag", "instant", "read"] = "text"
    values: tuple[str, ...] = ()
    """All values, if there are few."""


class Resource(NamedTuple):
    """Something that has rows."""

    name: str
    alias: str | None
    about: str
    source: str
    """What the rows are selected from; `{inner}` and `{having}` are conditions on their records."""
    key: str
    hidden: str
    """What reading a row back needs."""
    fields: dict[str, Field]
    shown: tuple[str, ...]
    """The default fields."""
    filters: tuple[str, ...]


def _long(column: str) -> str:
    """Write a uuid, which the index has as 16 bytes, the usual way."""
    text = f"lower(hex({column}))"
    cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    parts = "||'-'||".join(f"substr({text},{start},{length})" for start, length in cuts)
    return f"CASE typeof({column}) WHEN 'blob' THEN {parts} ELSE {column} END"


_GIST: Final = Field("", "What it says and which tools it asks; else what it thinks.", "read")
_OFFSET: Final = (1 << OFFSET_BITS) - 1
COUNTERS: Final = (
    "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches",
)  # fmt: skip
# All of them outer joins on a key: SQLite leaves out those that a query does not use.
_JOINS: Final = (
    " LEFT JOIN names AS t ON t.id = r.type"
    " LEFT JOIN names AS a ON a.id = r.author"
    " LEFT JOIN names AS b ON b.id = r.branch"
    " LEFT JOIN names AS m ON m.id = r.model"
    " LEFT JOIN sessions AS s ON s.id = r.session"
    " LEFT JOIN projects AS p ON p.id = s.project"
    " LEFT JOIN logs AS l ON l.id = r.id >> 40"
)
_PLACE: Final = {
    "session_id": Field("s.session", "Its session."),
    "project": Field("p.path", "The directory its session worked in."),
    "git_branch": Field("b.name", "The branch."),
    "subagent": Field(SUBAGENT, "The subagent that wrote it; null for the main one."),
    "log": Field("l.path", "The log it stands in."),
    "offset": Field(f"r.id & {_OFFSET}", "Where in the log.", "number"),
}
_SAID: Final = {
    "uuid": Field(_long("r.uuid"), "Its uuid."),
    "parent_uuid": Field(_long("r.parent"), "Its parent's."),
    "type": Field("t.name", "Its type."),
    "author": Field(
        "a.name",
        "Who says it: human, assistant, tool, subagent, caller, program.",
        values=("human", "assistant", "tool", "subagent", "caller", "program"),
    ),
    "model": Field("m.name", "The model that answered."),
    "message_id": Field("r.message", "The response that it is a part of."),
}

RECORDS: Final = Resource(
    name="entries",
    alias="records",
    about="Every record of every log.",
    source=f"records AS r{_JOINS} WHERE NOT {IS_BESIDE} AND {{inner}} AND {{having}}",
    key="r.id",
    hidden="r.id, r.length",
    fields=_SAID
    | {
        "role": Field(
            f"CASE WHEN {IS_PROMPT} THEN 'user' WHEN a.name = 'tool' THEN 'tool'"
            " WHEN t.name = 'assistant' THEN 'assistant' END",
            "user, assistant, tool or null.",
            values=("user", "assistant", "tool"),
        ),
        "at": Field("r.at", "When it happened.", "instant"),
        "is_error": Field("r.flags & 1", "Whether it tells of an error.", "flag"),
        "length": Field("r.length", "How many bytes it has.", "number"),
        "content": Field("", "All of its text.", "read"),
        "gist": _GIST,
    }
    | _PLACE,
    shown=(
        "uuid", "parent_uuid", "type", "author", "role", "session_id", "project", "git_branch",
        "at", "subagent", "model", "message_id", "is_error", "log", "offset", "length",
    ),
    filters=(
        "type", "session_id", "uuid", "parent_uuid", "git_branch", "time_range", "role",
        "content_type", "content_match", "tool_name", "has_error", "project",
    ),
)  # fmt: skip

# One row for each prompt and for each response: what records of one log and message id say.
_MESSAGES: Final = (
    "(SELECT min(r.id) AS first, max(r.id) AS last, count(DISTINCT r.id) AS records,"  # noqa: S608
    " min(r.at) AS at, max(r.flags & 1) AS is_error,"
    " max(CASE u.part WHEN '' THEN u.model END) AS model,"
    " max(u.message_id) AS message_id, "
    + ", ".join(f"sum(u.{name}) AS {name}" for name in COUNTERS)
    + " FROM records AS r LEFT JOIN messages AS u ON u.record = r.id"
    f" WHERE (r.type = {named('assistant')} OR {IS_PROMPT} OR u.id IS NOT NULL)"
    f" AND NOT {IS_BESIDE} AND {{inner}}"
    " GROUP BY r.id >> 40, r.session, coalesce(r.message, r.id) HAVING {having})"
)

_FIRST_RECORDS: Final = f"{_MESSAGES} AS g JOIN records AS r ON r.id = g.first"
# The response of a subagent may be only in a progress record, which names no model.
_MODEL: Final = "coalesce(r.model, g.model)"

MESSAGES: Final = Resource(
    name="messages",
    alias=None,
    about="Prompts and API responses, one row each.",
    source=f"{_FIRST_RECORDS}{_JOINS.replace('r.model', _MODEL)} WHERE TRUE",
    key="r.id",
    hidden="r.id, r.length, g.last, r.message, r.session",
    fields=_SAID
    | {
        "role": Field(
            f"CASE WHEN {IS_PROMPT} THEN 'user' ELSE 'assistant' END",
            "Who says it.",
            values=("user", "assistant"),
        ),
        "at": Field("g.at", "When it began.", "instant"),
        "is_error": Field("g.is_error", "Whether it tells of an error.", "flag"),
        "message_id": Field("coalesce(r.message, g.message_id)", "The response's id."),
        "records": Field("g.records", "How many records carry it.", "number"),
        "text": Field("", "What a person would read of it.", "read"),
        "gist": _GIST,
    }
    | {name: Field(f"g.{name}", "A counter of its usage.", "number") for name in COUNTERS}
    | _PLACE,
    shown=(
        "role", "at", "session_id", "project", "subagent", "model", "message_id", "uuid",
        "is_error", "records", *COUNTERS, "text",
    ),
    filters=(
        "type", "session_id", "uuid", "parent_uuid", "git_branch", "time_range", "role",
        "content_type", "content_match", "tool_name", "has_error", "project",
    ),
)  # fmt: skip

# The same for sums: one row for each pass of a response, with what it used and the model of it.
_PASSES: Final = (
    " LEFT JOIN messages AS u ON u.message_id = g.message_id"
    " AND u.record BETWEEN g.first AND g.last"
)
PASSES: Final = MESSAGES._replace(
    source=f"{_FIRST_RECORDS}{_PASSES}{_JOINS.replace('r.model', f'coalesce(u.model, {_MODEL})')}"
    " WHERE TRUE",
    fields=MESSAGES.fields
    | {
        name: MESSAGES.fields[name]._replace(sql=f"coalesce(u.{name}, g.{name})")
        for name in COUNTERS
    },
)

TOOLS: Final = Resource(
    name="tools",
    alias="calls",
    about="Every call of a tool, with its outcome.",
    source="calls AS c JOIN records AS r ON r.id = c.record"
    " LEFT JOIN names AS tool ON tool.id = c.tool"
    " LEFT JOIN touches AS f ON f.record = c.record AND f.block = c.block"
    f" LEFT JOIN paths AS fp ON fp.id = f.path{_JOINS}"
    f" WHERE {IS_CALL} AND {{inner}} AND {{having}}",
    key="r.id || ':' || c.block",
    hidden="r.id, r.length, c.block, c.result, c.call_id",
    fields={
        "tool_name": Field("tool.name", "The tool."),
        "call_id": Field("c.call_id", "The call's id."),
        "at": Field("r.at", "When it was asked.", "instant"),
        "status": Field(
            "CASE c.is_error WHEN 0 THEN 'success' WHEN 1 THEN 'error' ELSE 'pending' END",
            "success, error or pending.",
            values=("success", "error", "pending"),
        ),
        "is_error": Field("c.is_error", "Null while there is no answer.", "flag"),
        "duration_ms": Field("c.duration_us / 1000.0", "How long the answer took.", "number"),
        "file": Field("fp.path", "The file that it names."),
        "action": Field(
            "f.action",
            "What it does with the file: read, write, edit, search.",
            values=("read", "write", "edit", "search"),
        ),
        "uuid": _SAID["uuid"],
        "parent_uuid": _SAID["parent_uuid"],
        "model": _SAID["model"],
        "message_id": _SAID["message_id"],
        "input": Field("", "What it was given.", "read"),
        "result": Field("", "What it answered.", "read"),
    }
    | _PLACE,
    shown=(
        "tool_name", "call_id", "session_id", "project", "subagent", "at", "status", "is_error",
        "duration_ms", "file", "log", "offset",
    ),
    filters=(
        "session_id", "uuid", "parent_uuid", "git_branch", "time_range", "content_match",
        "tool_name", "tool_status", "has_error", "project",
    ),
)  # fmt: skip

RESOURCES: Final = (RECORDS, MESSAGES, TOOLS)
ALIASES: Final = {
    "timestamp": "at",
    "tool": "tool_name",
    "session": "session_id",
    "branch": "git_branch",
    "parent": "parent_uuid",
}
"""Other names of fields."""
MATCHED: Final = {
    "tool_name": Field("", "A tool that it calls, or whose result it has."),
    "content_type": Field(
        "", "A kind of block that it has and that is not empty.", values=get_args(ContentType)
    ),
}
"""What rows can be compared by even if it is not one of their fields."""
