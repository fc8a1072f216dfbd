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
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from turnlog.catalog.names import no_such_tool
from turnlog.index.connection import Index
from turnlog.index.ids import instant_at
from turnlog.index.texts import TextKind, leaves, text_of_block, texts_of
from turnlog.query.fields import (
    ALIASES,
    COUNTERS,
    MESSAGES,
    PASSES,
    RECORDS,
    TOOLS,
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
    Comparison,
    QueryConditions,
    conditions_of,
    field_named,
    parse_comparison,
    parse_query,
    pattern_of,
    resource_named,
    tools_like,
)
from turnlog.records.record import (
    AnyBlock,
    Call,
    CallBlock,
    Record,
    RedactedThinkingBlock,
    Result,
    ResultBlock,
    Spoken,
    ThinkingBlock,
    UnknownBlock,
)
from turnlog.search.regex import BUDGET_SECONDS, TOOK_TOO_LONG
from turnlog.text import inert_json, utf8_safe

READ_AT_MOST: Final = 100_000
"""The most records that are read for one query."""


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
    aggregate: Aggregate | Mapping[str, Any] | Sequence[Any] | None = None,
    output: Output | Mapping[str, Any] | None = None,
    *,
    where: Sequence[str] = (),
    now: datetime | None = None,
    zone: tzinfo = UTC,
    read_at_most: int = READ_AT_MOST,
) -> QueryDocument:
    """Answer a query. Dates without a zone of their own are in *zone*.

    *where* has comparisons that all rows must meet, such as ``"status=error"``.
    """
    question = parse_query(
        {
            "resource": resource,
            "filter": filter,
            "transform": transform,
            "aggregate": aggregate,
            "output": output,
            "where": list(where),
        }
    )
    return answer(index, question, now=now, zone=zone, read_at_most=read_at_most)


def answer(
    index: Index,
    question: Query,
    *,
    now: datetime | None = None,
    zone: tzinfo = UTC,
    read_at_most: int = READ_AT_MOST,
    match_seconds: float = BUDGET_SECONDS,
) -> QueryDocument:
    """Answer a query that ``parse_query`` returned.

    A pattern that takes longer than *match_seconds* on one text is stopped, and a note says so.
    """
    resource = resource_named(question.resource)
    where = [parse_comparison(resource, each) for each in question.where]
    conditions = conditions_of(
        index.db, resource, question.filter, where=where, now=now or datetime.now(UTC), zone=zone
    )
    reader = RecordText(index, read_at_most)
    notes: list[str] = []
    tools = [each.value for each in where if each.field == "tool_name" and each.operator == "="]
    for tool in (question.filter.tool_name, *tools):
        if tool is not None and tools_like(index.db, tool, "tool_name") == "()":
            notes += filter(None, [no_such_tool(index.db, tool)])
    checks = _checks(resource, question, where)
    if checks:
        if not _match(index, resource, question, conditions, reader, checks, match_seconds):
            notes.append(TOOK_TOO_LONG)
        if reader.is_exhausted:
            notes.append(
                f"stopped after reading {read_at_most:,} records: what lies behind them was not"
                " looked into"
            )
            reader = RecordText(index, read_at_most)
    if question.output.format == "summary":
        document = _summary(index, resource, conditions, question)
    elif question.transform.group_by is not None or question.aggregates:
        document = _figures(index, resource, conditions, question)
    else:
        document = _rows(index, resource, conditions, question, reader)
        if reader.is_exhausted:
            notes.append(
                f"stopped after reading {read_at_most:,} records: the text of the others is null"
            )
    document.notes = notes
    return document


class _Check(NamedTuple):
    """A comparison with a value that is read, or a pattern that SQL cannot match."""

    field: str | None
    """None: all text of a row."""
    sql: str
    """Empty if the value is in the log only."""
    expected: Any
    """A pattern, or a text."""
    is_negated: bool = False

    def holds(self, value: Any, seconds: float) -> bool:
        """Return whether *value* is as expected; raise TimeoutError if a pattern is slow."""
        if value is None:
            return self.is_negated
        is_text = isinstance(value, str | dict | list)
        text = leaves(value) if is_text else msgspec.json.encode(value).decode()
        if isinstance(self.expected, str):
            return (text == self.expected) is not self.is_negated
        return bool(self.expected.search(text, timeout=seconds))


def _checks(resource: Resource, question: Query, where: Sequence[Comparison]) -> list[_Check]:
    """Return what SQL cannot decide, what needs no reading first."""
    checks = []
    for name, operator, value, is_indexed in where:
        if not is_indexed:
            field = resource.fields.get(name)
            expected = pattern_of(value, name) if operator == "~" else value
            checks.append(_Check(name, field.sql if field else "", expected, operator == "!="))
    checks.sort(key=lambda check: not check.sql)
    match = question.filter.content_match
    if match is not None:
        checks.append(_Check(None, "", pattern_of(match, "content_match")))
    return checks


def _match(  # noqa: PLR0917 - A step of one caller.
    index: Index,
    resource: Resource,
    question: Query,
    conditions: QueryConditions,
    reader: RecordText,
    checks: Sequence[_Check],
    match_seconds: float,
) -> bool:
    """Read what the other conditions leave, and keep the rows that pass *checks*.

    Return whether all of that was searched: a slow pattern is stopped.
    """
    is_listed = (
        question.transform.group_by is None
        and not question.aggregates
        and question.output.format != "summary"
    )
    order, enough = "r.id DESC", 0
    if is_listed:
        order = _order_of_rows(resource, question.output)
        # One more, to know whether there is a next page.
        enough = question.output.limit and question.output.offset + question.output.limit + 1
    source = conditions.source(resource)
    stored = [check.sql for check in checks if check.sql]
    select = ", ".join((resource.key, *stored, resource.hidden))
    sql = f"SELECT {select} FROM {source} ORDER BY {order}"  # noqa: S608 - Ours.
    keys = []
    is_done = True

    def passes(values: Sequence[Any], hidden: Sequence[Any]) -> bool:
        for number, check in enumerate(checks):
            if check.sql:
                value = values[number]
            elif check.field is None:
                value = _read_match(reader, resource, hidden)
            else:
                value = _read_row(reader, resource, hidden, (check.field,))[check.field]
            if not check.holds(value, match_seconds):
                return False
        return True

    for key, *row in index.db.execute(sql, conditions.values):
        try:
            is_match = passes(row[: len(stored)], row[len(stored) :])
        except TimeoutError:
            is_done = False
            break
        if reader.is_exhausted:
            break
        if is_match:
            keys.append(key)
            if len(keys) == enough:
                break
    mark = conditions.put(msgspec.json.encode(keys).decode())
    conditions.outer.append(f"{resource.key} IN (SELECT value FROM json_each({mark}))")  # noqa: S608 - Ours.
    return is_done


def _rows(
    index: Index,
    resource: Resource,
    conditions: QueryConditions,
    question: Query,
    reader: RecordText,
) -> QueryDocument:
    columns = list(dict.fromkeys(question.transform.extract or resource.shown))
    fields = {name: resource.fields.get(ALIASES.get(name, name)) for name in columns}
    stored = {name: each for name, each in fields.items() if each is not None and each.sql}
    read = [name for name in columns if name not in stored]
    hidden = len(resource.hidden.split(","))
    select = ", ".join((resource.hidden, *(each.sql for each in stored.values())))
    source, order = conditions.source(resource), _order_of_rows(resource, question.output)
    page = _page(question.output, conditions)
    if question.output.limit and resource is RECORDS:
        # The page first, then its fields: else SQLite works them out for every row it sorts.
        source += f" AND r.id IN (SELECT r.id FROM {source} ORDER BY {order} {page})"  # noqa: S608
        page = ""
    sql = f"SELECT {select} FROM {source} ORDER BY {order} {page}"  # noqa: S608 - Ours.
    rows, following = _cut(index.db.execute(sql, conditions.values).fetchall(), question.output)
    documents = []
    for row in rows:
        values = dict(zip(stored, row[hidden:], strict=True))
        values = {name: _plain(value, stored[name].kind) for name, value in values.items()}
        if read:
            values |= _read_row(reader, resource, row[:hidden], read)
        documents.append({name: values[name] for name in columns})
    return _document(resource, question, columns, documents, following)


def _figures(
    index: Index, resource: Resource, conditions: QueryConditions, question: Query
) -> QueryDocument:
    """Return figures of all rows, or of each group."""
    group_by = question.transform.group_by
    kinds: dict[str, str] = {}
    figures: dict[str, tuple[Resource, str]] = {}
    for aggregate in question.aggregates or [Aggregate()]:
        function, of = aggregate.function, aggregate.field
        if function == "group":
            group_by, of, function = of, None, "count"
        is_pass = function == "sum" and resource is MESSAGES and of in COUNTERS
        source = PASSES if is_pass else resource
        measured = None if of is None else field_named(source, of, function)
        name = function if of is None else f"{function}_{of}"
        figures[name] = source, f"{function}({'*' if measured is None else measured.sql})"
        is_same = measured is not None and function in ("min", "max")
        kinds[name] = measured.kind if measured is not None and is_same else "number"
    if group_by is not None:
        kinds = {group_by: field_named(resource, group_by, "group_by").kind} | kinds
    # One statement for each source, and one row for each group of theirs.
    parts = []
    for source in {id(source): source for source, _ in figures.values()}.values():
        group = "NULL" if group_by is None else field_named(source, group_by, "group_by").sql
        select = [group, *(sql if of is source else "NULL" for of, sql in figures.values())]
        grouping = "" if group_by is None else "GROUP BY 1"
        parts.append(f"SELECT {', '.join(select)} FROM {conditions.source(source)} {grouping}")  # noqa: S608
    columns = [f"f{number}" for number in range(len(figures))]
    select = [*(["g"] if group_by is not None else []), *(f"max({name})" for name in columns)]
    sql = (
        f"WITH parts(g, {', '.join(columns)}) AS ({' UNION ALL '.join(parts)})"  # noqa: S608
        f" SELECT {', '.join(select)} FROM parts GROUP BY g"
        f" ORDER BY {_order_of_groups(list(kinds), question.output)}"
        f" {_page(question.output, conditions)}"
    )
    rows, following = _cut(index.db.execute(sql, conditions.values).fetchall(), question.output)
    groups = [
        {each: _plain(value, kinds[each]) for each, value in zip(kinds, row, strict=True)}
        for row in rows
    ]
    return _document(resource, question, list(kinds), groups, following)


def _summary(
    index: Index, resource: Resource, conditions: QueryConditions, question: Query
) -> QueryDocument:
    at = resource.fields["at"].sql
    count, sessions, projects, first, last = index.db.execute(
        "SELECT count(*), count(DISTINCT s.session), count(DISTINCT s.project),"  # noqa: S608
        f" min({at}), max({at}) FROM {conditions.source(resource)}",
        conditions.values,
    ).fetchone()
    row = {
        "count": count,
        "sessions": sessions,
        "projects": projects,
        "first_at": _plain(first, "instant"),
        "last_at": _plain(last, "instant"),
    }
    return _document(resource, question, list(row), [row], None)


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


def _page(output: Output, conditions: QueryConditions) -> str:
    limit = output.limit + 1 if output.limit else -1
    return f"LIMIT {conditions.put(limit)} OFFSET {conditions.put(output.offset)}"


def _cut(rows: list[Any], output: Output) -> tuple[list[Any], int | None]:
    """Return a page; an extra row means that there is a next one."""
    if output.limit and len(rows) > output.limit:
        return rows[: output.limit], output.offset + output.limit
    return rows, None


def _document(
    resource: Resource,
    question: Query,
    columns: list[str],
    rows: list[dict[str, Any]],
    following: int | None,
) -> QueryDocument:
    return QueryDocument(
        resource=resource.name,
        columns=columns,
        rows=rows,
        next=following,
        format=question.output.format,
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


def _escaped(match: re.Match[str]) -> str:
    known = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
    return known.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _json(value: Any) -> bytes:
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:  # A lone surrogate in a log has no UTF-8 form.
        data = msgspec.json.encode(utf8_safe(msgspec.to_builtins(value)))
    return inert_json(data)


class RecordText:
    """Reads records, up to a limit."""

    def __init__(self, index: Index, at_most: int = READ_AT_MOST) -> None:
        self._index = index
        self._left = at_most
        self.is_exhausted = False

    def record(self, number: int, length: int | None = None) -> Record | None:
        """Read a record; None if it is gone, or the limit was reached."""
        if self._left <= 0:
            self.is_exhausted = True
            return None
        self._left -= 1
        return self._index.record(number, length)

    def parts(self, first: int, last: int, message: str | None, session: Any) -> list[Record]:
        """Read the records of a log with the parts of one message."""
        if first == last:
            record = self.record(first)
            return [] if record is None else [record]
        rows = self._index.db.execute(
            "SELECT id, length FROM records WHERE id BETWEEN ? AND ? AND message = ?"
            " AND session IS ? ORDER BY id",
            (first, last, message, session),
        ).fetchall()
        return [each for row in rows if (each := self.record(*row)) is not None]


def input_of(record: Record | None, block: int) -> Any:
    """Return the input of the call in *block*, or None."""
    if isinstance(record, Call):
        return record.input
    blocks = record.blocks if isinstance(record, Spoken) else ()
    call = blocks[block] if block < len(blocks) else None
    return call.input if isinstance(call, CallBlock) else None


def answer_of(record: Record | None, call_id: str | None) -> str | None:
    """Return the text of a call's result in *record*, or None."""
    if isinstance(record, Result):
        return record.text or leaves(record.content)
    for block in record.blocks if isinstance(record, Spoken) else ():
        if isinstance(block, ResultBlock) and block.tool_use_id == call_id:
            return block.text
    return None


def content_of(record: Record | None) -> str | None:
    """Return all the text of a record."""
    return None if record is None else "\n".join(each.text for each in texts_of(record))


def gist_of(records: Sequence[Record]) -> str | None:
    """Return the text and the calls of some records, or else their thinking."""
    if not records:
        return None
    said: list[str] = []
    thought: list[str] = []
    for record in records:
        for block in record.blocks if isinstance(record, Spoken) else ():
            _, text = text_of_block(block, TextKind.RESPONSE)
            if isinstance(block, ThinkingBlock | RedactedThinkingBlock):
                thought.append(text or "(thinking)")
            elif isinstance(block, CallBlock):
                said.append(f"{block.name}: {text}" if text else block.name)
            else:
                said.append(text or f"({_type_of(block)})")
        if not isinstance(record, Spoken):
            said.append(content_of(record) or "")
    return "\n".join(filter(None, said)) or "\n".join(dict.fromkeys(thought))


def _type_of(block: AnyBlock) -> str:
    return block.type if isinstance(block, UnknownBlock) else str(block.__struct_config__.tag)


def _value_at(record: Record | None, path: str) -> Any:
    """Return the value at a path such as message.content.0.type in a record's own JSON."""
    value: Any = None if record is None else record.fields
    for part in path.strip(".").split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    return value


def _read_row(
    reader: RecordText, resource: Resource, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    """Read the fields and paths of one row that are only in its log."""
    return _ROW_READERS[resource.name](reader, hidden, wanted)


def _read_match(reader: RecordText, resource: Resource, hidden: Sequence[Any]) -> str:
    """Return the text of a row that `content_match` searches."""
    if resource is TOOLS:
        values = _read_row(reader, resource, hidden, ("input", "result"))
        return f"{leaves(values['input'])}\n{values['result'] or ''}"
    name = "text" if resource is MESSAGES else "content"
    return _read_row(reader, resource, hidden, (name,))[name] or ""


def _read_record(
    reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    record = reader.record(*hidden)
    whole = {
        "content": lambda: content_of(record),
        "gist": lambda: gist_of([record] if record is not None else []),
    }
    return {name: whole[name]() if name in whole else _value_at(record, name) for name in wanted}


def _read_message(
    reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]
) -> dict[str, Any]:
    first, _, last, message, session = hidden
    records = reader.parts(first, last, message, session)
    head = records[0] if records else None
    whole = {"text": lambda: _text_of(records), "gist": lambda: gist_of(records)}
    return {name: whole[name]() if name in whole else _value_at(head, name) for name in wanted}


def _text_of(records: Sequence[Record]) -> str | None:
    texts = (each.text for each in records if isinstance(each, Spoken))
    return "\n".join(filter(None, texts)) if records else None


def _read_call(reader: RecordText, hidden: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
    number, length, block, result, call_id = hidden
    record = reader.record(number, length) if set(wanted) - {"result"} else None
    values: dict[str, Any] = {}
    for name in wanted:
        if name == "input":
            values[name] = input_of(record, block)
        elif name == "result":
            values[name] = None if result is None else answer_of(reader.record(result), call_id)
        else:
            values[name] = _value_at(record, name)
    return values


_ROW_READERS: Final = {
    RECORDS.name: _read_record,
    MESSAGES.name: _read_message,
    TOOLS.name: _read_call,
}
