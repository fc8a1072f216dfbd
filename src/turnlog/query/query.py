"""Query records, messages and calls: filter, extract, group, count, sort.

    query(index, "messages", {"role": "user"})
    query(index, **{"resource": "tools", "transform": {"group_by": "tool_name"}})

``fields`` describes the resources. The index answers; text is read from the logs only if a query
returns or matches it, and only for a bounded number of records: a note says where reading stopped.
Rows of all logs are sorted together, and equal rows keep the order of their logs.

meta-cc's `join` is left out: the row of a call has its result, and every row its session and
project.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from turnlog.catalog.names import no_such_tool
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at
from turnlog.query.fields import (
    ALIASES,
    COUNTERS,
    MESSAGES,
    PASSES,
    RECORDS,
    Aggregate,
    Field,
    Format,
    Output,
    Query,
    QueryFilter,
    Resource,
    Transform,
)
from turnlog.query.filters import (
    QueryConditions,
    conditions_of,
    field_named,
    parse_query,
    pattern_of,
    resource_named,
    tools_like,
)
from turnlog.query.record_text import READ_AT_MOST, RecordText, read_match, read_row
from turnlog.search.regex import BUDGET_SECONDS, TOOK_TOO_LONG
from turnlog.text import inert_json, utf8_safe


class QueryDocument(Struct, kw_only=True):
    """What `turnlog query --json` prints."""

    resource: str
    columns: list[str]
    rows: list[dict[str, Any]]
    next: int | None
    """The offset of the next page, or null."""
    format: Format = "json"
    notes: list[str] = field(default_factory=list)
    """Notes on the answer, such as that reading stopped."""

    def lines(self) -> str:
        """Return the rows in their format: JSON, a JSON object a line, or tab-separated values."""
        if self.format == "tsv":
            return _tsv(self.columns, self.rows)
        if self.format == "jsonl":
            return "".join(_json(row).decode() + "\n" for row in self.rows)
        return msgspec.json.format(_json(self.rows)).decode() + "\n"


def query(  # noqa: PLR0917 - As the call is written.
    index: Index,
    resource: str,
    filter: QueryFilter | Mapping[str, Any] | None = None,  # noqa: A002
    transform: Transform | Mapping[str, Any] | None = None,
    aggregate: Aggregate | Mapping[str, Any] | None = None,
    output: Output | Mapping[str, Any] | None = None,
    *,
    now: datetime | None = None,
    zone: tzinfo = UTC,
    read_at_most: int = READ_AT_MOST,
) -> QueryDocument:
    """Answer a query. Dates without a zone of their own are in *zone*."""
    asked = parse_query(
        {
            "resource": resource,
            "filter": filter,
            "transform": transform,
            "aggregate": aggregate,
            "output": output,
        }
    )
    return answer(index, asked, now=now, zone=zone, read_at_most=read_at_most)


def answer(
    index: Index,
    asked: Query,
    *,
    now: datetime | None = None,
    zone: tzinfo = UTC,
    read_at_most: int = READ_AT_MOST,
    match_seconds: float = BUDGET_SECONDS,
) -> QueryDocument:
    """Answer a query that ``parse_query`` returned.

    A pattern that takes longer than *match_seconds* on one text is stopped, and a note says so.
    """
    resource = resource_named(asked.resource)
    found = conditions_of(index.db, resource, asked.filter, now=now or datetime.now(UTC), zone=zone)
    reader = RecordText(index, read_at_most)
    notes: list[str] = []
    tool = asked.filter.tool_name
    if tool is not None and tools_like(index.db, tool, "tool_name") == "()":
        notes += filter(None, [no_such_tool(index.db, tool)])
    if asked.filter.content_match is not None:
        if not _match(index, resource, asked, found, reader, match_seconds):
            notes.append(TOOK_TOO_LONG)
        if reader.is_spent:
            notes.append(
                f"stopped after reading {read_at_most:,} records: what lies behind them was not"
                " looked into"
            )
            reader = RecordText(index, read_at_most)
    if asked.output.format == "summary":
        answered = _summary(index, resource, found, asked)
    elif asked.transform.group_by is not None or asked.aggregate is not None:
        answered = _figures(index, resource, found, asked)
    else:
        answered = _rows(index, resource, found, asked, reader)
        if reader.is_spent:
            notes.append(
                f"stopped after reading {read_at_most:,} records: the text of the others is null"
            )
    answered.notes = notes
    return answered


def _match(  # noqa: PLR0917 - A step of one caller.
    index: Index,
    resource: Resource,
    asked: Query,
    found: QueryConditions,
    reader: RecordText,
    match_seconds: float,
) -> bool:
    """Read what the other conditions leave, and keep what the pattern is found in.

    Return whether all of that was searched: a slow pattern is stopped.
    """
    pattern = pattern_of(asked.filter.content_match or "", "content_match")
    is_listed = (
        asked.transform.group_by is None
        and asked.aggregate is None
        and asked.output.format != "summary"
    )
    order, enough = "r.id DESC", 0
    if is_listed:
        order = _order_of_rows(resource, asked.output)
        # One more, to know whether there is a next page.
        enough = asked.output.limit and asked.output.offset + asked.output.limit + 1
    sql = f"SELECT {resource.key}, {resource.hidden} FROM {found.source(resource)} ORDER BY {order}"  # noqa: S608 - From our own table.
    keys = []
    is_done = True
    for key, *hidden in index.db.execute(sql, found.values):
        text = read_match(reader, resource, hidden)
        if reader.is_spent:
            break
        try:
            is_found = pattern.search(text, timeout=match_seconds)
        except TimeoutError:
            is_done = False
            break
        if is_found:
            keys.append(key)
            if len(keys) == enough:
                break
    mark = found.put(msgspec.json.encode(keys).decode())
    found.outer.append(f"{resource.key} IN (SELECT value FROM json_each({mark}))")  # noqa: S608 - Ours.
    return is_done


def _rows(
    index: Index, resource: Resource, found: QueryConditions, asked: Query, reader: RecordText
) -> QueryDocument:
    columns = list(dict.fromkeys(asked.transform.extract or resource.shown))
    fields = {name: resource.fields.get(ALIASES.get(name, name)) for name in columns}
    stored = {name: each for name, each in fields.items() if each is not None and each.sql}
    read = [name for name in columns if name not in stored]
    hidden = len(resource.hidden.split(","))
    select = ", ".join((resource.hidden, *(each.sql for each in stored.values())))
    source, order = found.source(resource), _order_of_rows(resource, asked.output)
    page = _page(asked.output, found)
    if asked.output.limit and resource is RECORDS:
        # The page first, then its fields: else SQLite works them out for every row it sorts.
        source += f" AND r.id IN (SELECT r.id FROM {source} ORDER BY {order} {page})"  # noqa: S608
        page = ""
    sql = f"SELECT {select} FROM {source} ORDER BY {order} {page}"  # noqa: S608 - Ours.
    rows, following = _cut(index.db.execute(sql, found.values).fetchall(), asked.output)
    given = []
    for row in rows:
        values = dict(zip(stored, row[hidden:], strict=True))
        values = {name: _plain(value, stored[name].kind) for name, value in values.items()}
        if read:
            values |= read_row(reader, resource, row[:hidden], read)
        given.append({name: values[name] for name in columns})
    return _document(resource, asked, columns, given, following)


def _figures(
    index: Index, resource: Resource, found: QueryConditions, asked: Query
) -> QueryDocument:
    """Return a figure of all rows, or one for each group."""
    aggregate = asked.aggregate or Aggregate()
    group_by, of = asked.transform.group_by, aggregate.field
    function = aggregate.function
    if function == "group":
        group_by, of, function = of, None, "count"
    if function == "sum" and resource is MESSAGES and of in COUNTERS:
        resource = PASSES
    measured = None if of is None else field_named(resource, of, function)
    name = function if of is None else f"{function}_{of}"
    figure = f"{function}({'*' if measured is None else measured.sql})"
    kind = measured.kind if measured is not None and function in ("min", "max") else "number"
    kinds: dict[str, str] = {name: kind}
    select, grouping = figure, ""
    if group_by is not None:
        grouped = field_named(resource, group_by, "group_by")
        kinds = {group_by: grouped.kind} | kinds
        select, grouping = f"{grouped.sql}, {figure}", "GROUP BY 1"
    order = _order_of_groups(list(kinds), asked.output)
    sql = (
        f"SELECT {select} FROM {found.source(resource)} {grouping}"  # noqa: S608 - Ours.
        f" ORDER BY {order} {_page(asked.output, found)}"
    )
    rows, following = _cut(index.db.execute(sql, found.values).fetchall(), asked.output)
    given = [
        {each: _plain(value, kinds[each]) for each, value in zip(kinds, row, strict=True)}
        for row in rows
    ]
    return _document(resource, asked, list(kinds), given, following)


def _summary(
    index: Index, resource: Resource, found: QueryConditions, asked: Query
) -> QueryDocument:
    at = resource.fields["at"].sql
    count, sessions, projects, first, last = index.db.execute(
        "SELECT count(*), count(DISTINCT s.session), count(DISTINCT s.project),"  # noqa: S608
        f" min({at}), max({at}) FROM {found.source(resource)}",
        found.values,
    ).fetchone()
    row = {
        "count": count,
        "sessions": sessions,
        "projects": projects,
        "first_at": _plain(first, "instant"),
        "last_at": _plain(last, "instant"),
    }
    return _document(resource, asked, list(row), [row], None)


def _order_of_rows(resource: Resource, output: Output) -> str:
    by = output.sort_by
    column = field_named(resource, by or "at", "sort_by").sql
    order = output.sort_order or ("desc" if by is None else "asc")
    within = ", c.block" if resource.name == "tools" else ""
    return f"({column}) {order} NULLS LAST, r.id{within}"


def _order_of_groups(columns: Sequence[str], output: Output) -> str:
    by = output.sort_by
    order = output.sort_order or ("desc" if by is None else "asc")
    if by is not None and by not in columns:
        shown = {name: Field("", "", "text") for name in columns}
        field_named(Resource("groups", None, "", "", "", "", shown, (), ()), by, "sort_by")
    place = columns.index(by) + 1 if by is not None else len(columns)
    return f"{place} {order} NULLS LAST, 1"


def _page(output: Output, found: QueryConditions) -> str:
    limit = output.limit + 1 if output.limit else -1
    return f"LIMIT {found.put(limit)} OFFSET {found.put(output.offset)}"


def _cut(rows: list[Any], output: Output) -> tuple[list[Any], int | None]:
    """Return a page; an extra row means that there is a next one."""
    if output.limit and len(rows) > output.limit:
        return rows[: output.limit], output.offset + output.limit
    return rows, None


def _document(
    resource: Resource,
    asked: Query,
    columns: list[str],
    rows: list[dict[str, Any]],
    following: int | None,
) -> QueryDocument:
    return QueryDocument(
        resource=resource.name,
        columns=columns,
        rows=rows,
        next=following,
        format=asked.output.format,
    )


def _plain(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "instant":
        return instant_at(value)
    return bool(value) if kind == "flag" else value


def _tsv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Write a line for each row; what would break one is written as in JSON."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE,
                        quotechar=None)  # fmt: skip
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return out.getvalue()


_BREAKS: Final = re.compile(r"[\\\x00-\x1f\x7f\u0085\u2028\u2029]")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else _json(value).decode().strip('"')
    return _BREAKS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    known = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    return known.get(found[0]) or f"\\u{ord(found[0]):04x}"


def _json(value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # A lone surrogate in a log has no UTF-8 form.
        data = msgspec.json.encode(utf8_safe(msgspec.to_builtins(value)))
    return inert_json(data)
