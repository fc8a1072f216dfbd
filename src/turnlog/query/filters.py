"""Check a query, and translate its filter to SQL.

Anything invalid (an unknown key, a field of another resource, an invalid pattern) is a UsageError
that lists the alternatives. No part of a query is ignored.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct, structs

from turnlog.catalog import names as known_names
from turnlog.errors import UsageError
from turnlog.formats.projects import expand_path, is_within
from turnlog.index.connection import Index
from turnlog.index.ids import IS_PROMPT, microseconds, short_uuid
from turnlog.index.texts import TextKind
from turnlog.query.fields import (
    ALIASES,
    MATCHED,
    RESOURCES,
    Aggregate,
    Field,
    Output,
    Query,
    QueryFilter,
    Resource,
    TimeRange,
    Transform,
)
from turnlog.records.dates import moment
from turnlog.search.regex import BUDGET_SECONDS, SLOW_PATTERN, check_pattern, compile_pattern
from turnlog.text import utf8_safe

_SECTIONS: Final[dict[str, type[Struct]]] = {
    "filter": QueryFilter,
    "transform": Transform,
    "aggregate": Aggregate,
    "output": Output,
}
_COMPARISON: Final = re.compile(r"([\w.-]+)\s*(!=|=|~)(.*)", re.DOTALL)
_FLAGS: Final = {"true": 1, "yes": 1, "false": 0, "no": 0}
_TEXTS: Final = (
    TextKind.PROMPT, TextKind.RESPONSE, TextKind.TITLE, TextKind.SUMMARY, TextKind.CONTEXT,
    TextKind.NOTE,
)  # fmt: skip


def parse_query(question: Mapping[str, Any]) -> Query:
    """Read a query from plain JSON, or from parts of it that are structs already."""
    try:
        plain = msgspec.to_builtins(dict(question))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the query is not JSON: {error}") from None
    plain = {key: value for key, value in plain.items() if value is not None}
    _only("a query", plain, structs.fields(Query))
    for section, kind in _SECTIONS.items():
        options = plain.get(section, {})
        parts = options if isinstance(options, list) and section == "aggregate" else [options]
        for part in parts:
            if not isinstance(part, dict):
                raise UsageError(f"{section} has to be an object", hint=_takes(_names(kind)))
            _only(section, part, structs.fields(kind))
    within = plain.get("filter", {}).get("time_range")
    if isinstance(within, dict):
        _only("time_range", within, structs.fields(TimeRange))
    if "resource" not in plain:
        raise UsageError("the query names no resource", hint=_takes(_resource_names()))
    try:
        query = msgspec.convert(plain, Query)
    except msgspec.ValidationError as error:
        raise UsageError(_invalid_value(error, plain), hint=_valid_values(error)) from None
    _check(query)
    return query


def resource_named(name: str) -> Resource:
    """Find a resource by its name or its other name."""
    for each in RESOURCES:
        if name in (each.name, each.alias):
            return each
    raise UsageError(f"there is no resource {name!r}", hint=_takes(_resource_names()))


def field_named(resource: Resource, name: str, what: str, *, kinds: Iterable[str] = ()) -> Field:
    """Find a field that the index has, of one of *kinds* if any are named."""
    found = resource.fields.get(ALIASES.get(name, name))
    allowed = set(kinds) or {"text", "number", "flag", "instant"}
    if found is None or found.kind not in allowed:
        possible = [each for each, field in resource.fields.items() if field.kind in allowed]
        which = f"{resource.name} have no field {name!r}"
        if found is not None:
            which = f"{name!r} cannot be used here"
        raise UsageError(f"{what}: {which}", hint=_takes(possible, name))
    return found


Operator = Literal["=", "!=", "~"]


class Comparison(NamedTuple):
    """What a field of a row must be, must not be, or must match."""

    field: str
    operator: Operator
    value: str

    is_indexed: bool
    """Whether the index decides it; otherwise rows are read and compared."""


def parse_comparison(resource: Resource, text: str) -> Comparison:
    """Parse ``FIELD=VALUE``, ``FIELD!=VALUE`` or ``FIELD~REGEX``; raise UsageError if invalid."""
    match = _COMPARISON.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"invalid filter {text!r}",
            hint="use FIELD=VALUE, FIELD!=VALUE or FIELD~REGEX;"
            f" {_takes(comparable(resource), text)}",
        )
    typed, operator, value = match.groups()
    name = ALIASES.get(typed, typed)
    field = comparable(resource).get(name)
    if field is None and not is_path(typed):
        raise UsageError(
            f"{resource.name} have no field {typed!r}",
            hint=_takes([*comparable(resource), *ALIASES], typed),
        )
    if field is not None and field.kind == "instant":
        raise UsageError(
            f"{typed} is not a filter", hint="use a time range", code="time-not-compared"
        )
    if operator == "~":
        if name == "content_type":
            raise UsageError("content_type~ is not a filter", hint="use content_type=thinking")
        pattern_of(value, typed, check_pattern)
    elif field is not None:
        _check_value(typed, field, value)
    is_indexed = name in MATCHED or (operator != "~" and field is not None and field.kind != "read")
    return Comparison(name, cast("Operator", operator), value, is_indexed)


def comparable(resource: Resource) -> dict[str, Field]:
    """Return the fields that rows of *resource* can be compared by."""
    also = {name: each for name, each in MATCHED.items() if name in resource.filters}
    return also | resource.fields


def _check_value(name: str, field: Field, value: str) -> None:
    if field.values and value not in field.values:
        raise UsageError(f"{name} is never {value!r}", hint=_takes(field.values, value))
    if field.kind == "flag" and value.lower() not in _FLAGS:
        raise UsageError(f"{name} is never {value!r}", hint="use true or false")
    if field.kind == "number" and not _is_number(value):
        raise UsageError(f"{name}: {value!r} is not a number", hint="use a number, such as 100")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_path(name: str) -> bool:
    """Return whether a name is a path into the record's own JSON."""
    return "." in name and bool(name.strip("."))


def pattern_of(
    text: str, what: str, compiled: Callable[..., Any] = compile_pattern, **flags: re.RegexFlag
) -> Any:
    """Return *text* as a pattern; raise UsageError if it is invalid."""
    try:
        return compiled(text, **flags)
    except ValueError as error:
        raise UsageError(
            f"{what}: invalid regular expression {text!r}: {error}",
            hint=r"write a backslash before characters that are meant as they are, such as \(",
        ) from None


class QueryConditions:
    """The conditions of a query in SQL, with their parameters."""

    def __init__(self) -> None:
        self.inner: list[str] = []
        """What all records of a row have in common."""
        self.having: list[str] = []
        """What at least one record of a row is."""
        self.lacking: list[str] = []
        """What no record of a row is."""
        self.outer: list[str] = []
        """What the row itself is."""
        self.values: dict[str, Any] = {}

    def put(self, value: Any) -> str:
        """Return the placeholder for *value*."""
        name = f"v{len(self.values)}"
        self.values[name] = utf8_safe(value)  # As the index has it.
        return f":{name}"

    def source(self, resource: Resource) -> str:
        """Return what the rows are selected from."""
        inner = " AND ".join(self.inner) or "TRUE"
        grouped = resource.name == "messages"
        form = "max({})" if grouped else "({})"
        having = [form.format(each) for each in self.having]
        having += [f"{form.format(each)} IS NOT TRUE" for each in self.lacking]
        source = resource.source.format(inner=inner, having=" AND ".join(having) or "TRUE")
        return " AND ".join((source, *self.outer))


def conditions_of(
    db: sqlite3.Connection,
    resource: Resource,
    query_filter: QueryFilter,
    *,
    where: Iterable[Comparison] = (),
    now: datetime,
    zone: tzinfo,
) -> QueryConditions:
    """Turn a filter and comparisons into SQL, except what must be read."""
    conditions = QueryConditions()
    for name, value in structs.asdict(query_filter).items():
        if value is not None and name in _CONDITIONS:
            _CONDITIONS[name](conditions, db, resource, value)
    if query_filter.time_range is not None:
        column = resource.fields["at"].sql
        for bound, sign in (
            (query_filter.time_range.start, ">="),
            (query_filter.time_range.end, "<"),
        ):
            if bound is not None:
                at = microseconds(moment(bound, now=now, zone=zone))
                conditions.outer.append(f"{column} {sign} {conditions.put(at)}")
    for comparison in where:
        if comparison.is_indexed:
            _compare(conditions, db, resource, comparison)
    return conditions


def _compare(
    conditions: QueryConditions, db: sqlite3.Connection, resource: Resource, comparison: Comparison
) -> None:
    """Add the condition for a comparison that the index decides."""
    name, operator, value, _ = comparison
    part = QueryConditions()
    part.values = conditions.values
    field = comparable(resource)[name]
    if name == "tool_name":
        _tool_name(part, db, resource, value if operator == "~" else rf"^{re.escape(value)}\Z")
    elif name == "is_error":
        _has_error(part, db, resource, bool(_FLAGS[value.lower()]))
    elif name in _CONDITIONS:
        _CONDITIONS[name](part, db, resource, value)
    else:
        typed = float(value) if field.kind == "number" else value
        part.outer.append(f"{field.sql} = {part.put(typed)}")
    if operator == "!=":
        conditions.inner += [f"({each}) IS NOT TRUE" for each in part.inner]
        conditions.lacking += part.having
        conditions.outer += [f"({each}) IS NOT TRUE" for each in part.outer]
    else:
        conditions.inner += part.inner
        conditions.having += part.having
        conditions.outer += part.outer


def projects_in(db: sqlite3.Connection, project: str) -> str:
    """Return SQL for the ids of the projects in a directory or below it."""
    wanted = expand_path(project)
    ids = [
        str(number)
        for number, path in db.execute("SELECT id, path FROM projects")
        if is_within(path, wanted)
    ]
    return f"({','.join(ids)})"


def scope_sql(
    index: Index,
    since: datetime | None,
    until: datetime | None,
    project: str | None,
    *,
    at: str = "r.at",
) -> tuple[str, dict[str, Any]]:
    """Return a condition on records r and sessions s, and its parameters."""
    where, values = "TRUE", dict[str, Any]()
    for name, bound, sign in (("since", since, ">="), ("until", until, "<")):
        if bound is not None:
            where += f" AND {at} {sign} :{name}"
            values[name] = microseconds(bound)
    if project is not None:
        where += f" AND s.project IN {projects_in(index.db, project)}"
    return where, values


def tools_like(db: sqlite3.Connection, pattern: str, what: str) -> str:
    """Return, as SQL, the ids of the tools whose name contains a pattern.

    Capitals make no difference where no name contains it as it is written.
    """
    tools = known_names.tools_called(db)
    if known_names.is_name(pattern):  # Then `regex` need not be imported.
        matches = [name for name in tools if pattern in name]
        matches = matches or [name for name in tools if pattern.casefold() in name.casefold()]
    else:
        matches = _matching(tools, pattern, what) or _matching(tools, pattern, what, re.IGNORECASE)
    return f"({','.join(str(tools[name]) for name in matches)})"


def _matching(
    names: Iterable[str], pattern: str, what: str, flags: re.RegexFlag = re.NOFLAG
) -> list[str]:
    search = pattern_of(pattern, what, flags=flags).search
    try:
        return [name for name in names if search(name, timeout=BUDGET_SECONDS)]
    except TimeoutError:
        raise UsageError(f"{what}: {pattern!r} takes too long", hint=SLOW_PATTERN) from None


def _type(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    conditions.outer.append(f"t.name = {conditions.put(value)}")


def _session(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    mark = conditions.put(value)
    conditions.inner.append(
        f"r.session IN (SELECT id FROM sessions WHERE substr(session, 1, length({mark})) = {mark})"  # noqa: S608 - Ours.
    )


def _project(conditions: QueryConditions, db: Any, _resource: Resource, value: str) -> None:
    inside = projects_in(db, value)
    conditions.inner.append(f"r.session IN (SELECT id FROM sessions WHERE project IN {inside})")  # noqa: S608


def _uuid(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    conditions.having.append(f"r.uuid IS {conditions.put(short_uuid(value))}")


def _parent(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    conditions.having.append(f"r.parent IS {conditions.put(short_uuid(value))}")


def _branch(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    conditions.outer.append(f"b.name = {conditions.put(value)}")


def _role(conditions: QueryConditions, _db: Any, resource: Resource, value: str) -> None:
    if resource.name == "messages":  # Before they are put together, which takes time.
        conditions.inner.append(f"{IS_PROMPT} IS {'TRUE' if value == 'user' else 'NOT TRUE'}")
        return
    conditions.outer.append(f"{resource.fields['role'].sql} = {conditions.put(value)}")


def _content_type(conditions: QueryConditions, _db: Any, _resource: Resource, value: str) -> None:
    if value == "tool_use":
        condition = "r.id IN (SELECT record FROM calls WHERE call_id IS NOT NULL)"
    elif value == "tool_result":
        condition = "r.author IS (SELECT id FROM names WHERE name = 'tool')"
    else:
        kinds = (TextKind.THINKING,) if value == "thinking" else _TEXTS
        inside = ",".join(str(int(kind)) for kind in kinds)
        condition = f"r.id IN (SELECT record FROM texts WHERE kind IN ({inside}))"  # noqa: S608 - Ours.
    conditions.having.append(condition)


def _tool_name(conditions: QueryConditions, db: Any, resource: Resource, value: str) -> None:
    inside = tools_like(db, value, "tool_name")
    if resource.name == "tools":
        conditions.outer.append(f"c.tool IN {inside}")
        return
    conditions.having.append(
        f"(r.id IN (SELECT record FROM calls WHERE tool IN {inside})"  # noqa: S608 - Ours.
        f" OR r.id IN (SELECT result FROM calls WHERE tool IN {inside} AND result IS NOT NULL))"
    )


def _tool_status(conditions: QueryConditions, _db: Any, resource: Resource, value: str) -> None:
    conditions.outer.append(f"{resource.fields['status'].sql} = {conditions.put(value)}")


def _has_error(conditions: QueryConditions, _db: Any, resource: Resource, value: bool) -> None:  # noqa: FBT001 - One of many conditions.
    conditions.outer.append(f"coalesce({resource.fields['is_error'].sql}, 0) = {int(value)}")


_CONDITIONS: Final[dict[str, Callable[[QueryConditions, Any, Resource, Any], None]]] = {
    "type": _type,
    "session_id": _session,
    "project": _project,
    "uuid": _uuid,
    "parent_uuid": _parent,
    "git_branch": _branch,
    "role": _role,
    "content_type": _content_type,
    "tool_name": _tool_name,
    "tool_status": _tool_status,
    "has_error": _has_error,
}


def _check(query: Query) -> None:
    """Refuse what the resource does not have, and what does not go together."""
    resource = resource_named(query.resource)
    for name, value in structs.asdict(query.filter).items():
        if value is not None and name not in resource.filters:
            raise UsageError(
                f"{resource.name} are not filtered by {name}", hint=_takes(resource.filters)
            )
    role = query.filter.role
    if role is not None and role not in (roles := resource.fields["role"].values):
        raise UsageError(f"no {resource.name} have the role {role!r}", hint=_takes(roles))
    for text in query.where:
        parse_comparison(resource, text)
    for name in ("content_match", "tool_name"):
        text = getattr(query.filter, name)
        if text is not None:
            pattern_of(text, name, check_pattern)
    extract = query.transform.extract
    if extract is not None:
        _check_extract(resource, extract)
    group_by = query.transform.group_by
    if group_by is not None:
        field_named(resource, group_by, "group_by")
    for aggregate in query.aggregates:
        _check_aggregate(resource, aggregate, group_by)
    is_grouped = group_by is not None or bool(query.aggregates)
    if is_grouped and extract is not None:
        raise UsageError(
            "groups and figures have no fields to extract", hint="leave out extract, or the rest"
        )
    if query.output.format == "summary" and (is_grouped or extract is not None):
        raise UsageError(
            "a summary is made of all that was found", hint="leave out extract, group_by, aggregate"
        )


def _check_extract(resource: Resource, extract: list[str]) -> None:
    if not extract:
        raise UsageError("extract names no field", hint=_takes(resource.fields))
    for name in extract:
        if ALIASES.get(name, name) not in resource.fields and not is_path(name):
            raise UsageError(
                f"extract: {resource.name} have no field {name!r}",
                hint=f"{_takes(resource.fields, name)}; a path into the record has a dot:"
                f" .{name.strip('.')}",
            )


def _check_aggregate(resource: Resource, aggregate: Aggregate, group_by: str | None) -> None:
    function, name = aggregate.function, aggregate.field
    if function == "group" and group_by is not None:
        raise UsageError("group and group_by are the same", hint="say count with group_by")
    if name is None:
        if function != "count":
            raise UsageError(f"{function} needs a field", hint=_takes(_fields(resource, function)))
        return
    field_named(resource, name, function, kinds=_KINDS_OF.get(function, ()))


_KINDS_OF: Final = {"sum": ("number", "flag"), "avg": ("number", "flag")}


def _fields(resource: Resource, function: str) -> list[str]:
    kinds = _KINDS_OF.get(function, ("text", "number", "flag", "instant"))
    return [name for name, field in resource.fields.items() if field.kind in kinds]


def _only(what: str, options: Mapping[str, Any], known: Iterable[structs.FieldInfo]) -> None:
    names = [each.name for each in known]
    for key in options:
        if key not in names:
            raise UsageError(f"{what} has no {key!r}", hint=_takes(names, str(key)))


def _takes(names: Iterable[str], typed: str = "") -> str:
    possible = list(names)
    there_are = f"there are {', '.join(possible)}"
    close = difflib.get_close_matches(typed, possible, 1) if typed else []
    return f"did you mean {close[0]!r}? {there_are}" if close else there_are


def _names(kind: type[Struct]) -> list[str]:
    return [each.name for each in structs.fields(kind)]


def _resource_names() -> list[str]:
    return [name for each in RESOURCES for name in (each.name, each.alias) if name]


def _invalid_value(error: msgspec.ValidationError, plain: Any) -> str:
    """Return a message that names the invalid value."""
    place = str(error).rpartition("`$.")[2].rstrip("`")
    value: Any = plain
    for part in place.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return f"{place or 'the query'}: {value!r} does not fit"


def _valid_values(error: msgspec.ValidationError) -> str:
    place = str(error).rpartition("`$.")[2].rstrip("`").split(".")
    kind = _SECTIONS.get(place[0])
    if kind is not None and len(place) == 2:
        schema = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"].get(place[1], {})
        for each in (schema, *schema.get("anyOf", ())):
            if "enum" in each:
                return _takes(str(value) for value in each["enum"] if value is not None)
    return str(error).rpartition(" - at ")[0]
