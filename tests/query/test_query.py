"""A query gives what a plain look at the logs gives, in the order of all rows."""

import json
import re
import tempfile
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.query_trees import BEGIN, PROJECTS, SESSIONS, TOOLS, built, events, log_order, opened
from turnlog.errors import UsageError
from turnlog.query import query as querying
from turnlog.query.fields import (
    RESOURCES,
    Aggregate,
    Output,
    Query,
    QueryFilter,
    Transform,
)
from turnlog.query.filters import parse_query
from turnlog.query.query import QueryDocument, query

EVERY = {"limit": 0}
STARTS = st.sampled_from(["2026-11-01T10:01", "2026-11-01T10:03:00Z", "2026-11-01"])

common = {
    "session_id": st.sampled_from(["aa", SESSIONS[0], "cc", "zz", ""]),
    "git_branch": st.sampled_from(["main", "frost", "none such"]),
    "time_range": st.fixed_dictionaries({}, optional={"start": STARTS, "end": STARTS}),
    "has_error": st.booleans(),
    "project": st.sampled_from([*PROJECTS, "/home/ada", "/home/ada/orch"]),
    "tool_name": st.sampled_from(["Read|Edit", "^mcp__", "a", "Bash"]),
    "content_match": st.sampled_from(["frost", "^p", "two\nlines", "x|y", "$"]),
}
said = common | {
    "type": st.sampled_from(["user", "assistant", "summary"]),
    "role": st.sampled_from(["user", "assistant"]),
    "content_type": st.sampled_from(["text", "thinking", "tool_use", "tool_result"]),
}
FILTERS = {
    "entries": said,
    "messages": said,
    "tools": common | {"tool_status": st.sampled_from(["success", "error", "pending"])},
}
asked = st.sampled_from(sorted(FILTERS)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.fixed_dictionaries({}, optional=FILTERS[name]),
    )
)


def has_content(row, kind):
    if kind == "tool_use":
        return row["kind"] == "call"
    if kind == "tool_result":
        return row["kind"] in ("ok", "error")
    if kind == "thinking":
        return row["kind"] == "thinking" and bool(row["words"])
    return row["kind"] in ("prompt", "text", "api_error", "meta", "summary") and bool(row["words"])


def has_tool(tree, row, pattern):
    return any(
        re.search(pattern, call["tool"])
        for call in tree.calls
        if row is call["record"] or row is call["answer"]
    )


def instant(text):
    from datetime import UTC, datetime

    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def is_kept(tree, name, row, parts, wanted):
    """Look at one row plainly."""
    for key, value in wanted.items():
        match key:
            case "session_id":
                good = row["session_id"].startswith(value)
            case "project":
                good = row["project"] is not None and (row["project"] + "/").startswith(value + "/")
            case "time_range":
                good = all(
                    row["at"] is not None
                    and (row["at"] >= at if end == "start" else row["at"] < at)
                    for end, at in ((end, instant(text)) for end, text in value.items())
                )
            case "has_error":
                good = bool(row["is_error"]) is value
            case "tool_status":
                good = row["status"] == value
            case "tool_name" if name == "tools":
                good = re.search(value, row["tool_name"])
            case "tool_name":
                good = any(has_tool(tree, part, value) for part, _ in parts)
            case "content_type":
                good = any(has_content(part, value) for part, _ in parts)
            case "content_match":
                text = row["text"] if name == "messages" else row.get("content")
                if name == "tools":
                    text = "\n".join(row["input"].values()) + "\n" + (row["result"] or "")
                good = re.search(value, text)
            case _:
                good = row[key] == value
        if not good:
            return False
    return True


def plainly(tree, home, index, name, wanted):
    """Give the rows that a plain look finds, in the order of logs."""
    if name == "entries":
        rows = zip(tree.entries(home), tree.records, strict=True)
        rows = [(row, [(record, row)]) for row, record in rows]
    elif name == "messages":
        rows = [(row, row["parts"]) for row in tree.messages(home)]
    else:
        rows = [(row, []) for row in tree.tools(home)]
    order = log_order(index)
    found = [row for row, parts in rows if is_kept(tree, name, row, parts, wanted)]
    return sorted(found, key=lambda row: (order[row["log"]], row["offset"]))


def by(rows, field, *, descending):
    known = [row for row in rows if row[field] is not None]
    return sorted(known, key=lambda row: row[field], reverse=descending) + [
        row for row in rows if row[field] is None
    ]


def only(rows, columns):
    return [{name: row[name] for name in columns} for row in rows]


SHOWN = {
    "entries": ["uuid", "parent_uuid", "type", "author", "role", "session_id", "project", "at",
                "git_branch", "subagent", "model", "message_id", "is_error", "log", "offset",
                "length", "content"],
    "messages": ["role", "at", "session_id", "project", "subagent", "model", "message_id", "uuid",
                 "is_error", "records", "input", "output", "text", "git_branch"],
    "tools": ["tool_name", "call_id", "session_id", "project", "subagent", "at", "status",
              "is_error", "file", "input", "result", "duration_ms", "uuid"],
}  # fmt: skip


@given(events, asked)
def test_filters_give_what_a_plain_look_gives(plan, what):
    name, wanted = what
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            found = query(index, name, wanted, {"extract": SHOWN[name]}, output=EVERY)
            expected = by(plainly(tree, home, index, name, wanted), "at", descending=True)
            assert found.rows == only(expected, SHOWN[name])
            assert all(note.startswith("no tool is called") for note in found.notes)


SORTED = {
    "entries": ["at", "type", "offset", "uuid", "git_branch", "length"],
    "messages": ["at", "output", "role", "records", "message_id"],
    "tools": ["at", "tool_name", "status", "duration_ms", "file"],
}
pages = st.sampled_from(sorted(SORTED)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(SORTED[name]))
)


@given(
    events,
    pages,
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 7),
    st.sampled_from([{}, {"content_match": "r"}]),
)
def test_pages_of_a_global_order_hold_everything_once(plan, what, order, limit, wanted):
    name, field = what
    columns = SHOWN[name] + ([field] if field not in SHOWN[name] else [])
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            rows, offset = [], 0
            while offset is not None:
                output = {"limit": limit, "offset": offset, "sort_by": field, "sort_order": order}
                page = query(index, name, wanted, {"extract": columns}, output=output)
                assert len(page.rows) <= limit
                assert page.next is None or (page.next == offset + limit and page.rows)
                rows, offset = rows + page.rows, page.next
            expected = plainly(tree, home, index, name, wanted)
            assert rows == only(by(expected, field, descending=order == "desc"), columns)


GROUPS = {
    "entries": (["type", "session_id", "role", "git_branch", "is_error", "at"], ["length"]),
    "messages": (["role", "session_id", "model", "project"], ["input", "output", "records"]),
    "tools": (["tool_name", "status", "file", "is_error"], ["duration_ms", "is_error"]),
}
figures = st.sampled_from(sorted(GROUPS)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.one_of(st.none(), st.sampled_from(GROUPS[name][0])),
        st.one_of(
            st.just(("count", None)),
            st.tuples(
                st.sampled_from(["count", "sum", "avg", "min", "max"]),
                st.sampled_from(GROUPS[name][1]),
            ),
            st.just(("max", "at")),
        ),
        st.fixed_dictionaries({}, optional={"has_error": st.booleans()}),
    )
)


def figure(function, field, rows):
    if field is None:
        return len(rows)
    values = [row[field] for row in rows if row[field] is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    return {"sum": sum, "min": min, "max": max, "avg": lambda v: pytest.approx(sum(v) / len(v))}[
        function
    ](values)


@given(events, figures, st.sampled_from([{}, {"content_match": "r|p"}]))
def test_groups_and_figures_are_those_of_a_plain_look(plan, what, matched):
    name, group_by, (function, field), wanted = what
    wanted = wanted | matched
    with tempfile.TemporaryDirectory() as tmp:
        tree, home = built(Path(tmp), plan)
        with opened(home) as index:
            aggregate = {"function": function, "field": field}
            found = query(index, name, wanted, {"group_by": group_by}, aggregate, EVERY)
            rows = plainly(tree, home, index, name, wanted)
    column = function if field is None else f"{function}_{field}"
    if group_by is None:
        assert found.rows == [{column: figure(function, field, rows)}]
        return
    groups = {}
    for row in rows:
        groups.setdefault(row[group_by], []).append(row)
    assert found.columns == [group_by, column]
    assert {row[group_by]: row[column] for row in found.rows} == {
        value: figure(function, field, some) for value, some in groups.items()
    }
    assert len(found.rows) == len(groups)


@settings(max_examples=25)
@given(events, st.lists(st.floats(0, 1), max_size=3), st.sampled_from(sorted(SHOWN)))
def test_a_refresh_in_pieces_changes_no_answer(plan, shares, name):
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        tree, home = built(Path(one), plan)
        pieces = Path(two) / "home"
        (pieces / "projects").mkdir(parents=True)
        for _ in tree.write(pieces, (*sorted(shares), 1.0)):
            with opened(pieces) as index:
                order = log_order(index)
                rows = query(index, name, None, {"extract": SHOWN[name]}, output=EVERY).rows
                counted = query(index, name, output={"format": "summary"}).rows
        columns = [each for each in SHOWN[name] if each != "log"]
        with opened(home) as index:
            expected = plainly(tree, home, index, name, {})
            assert counted == query(index, name, output={"format": "summary"}).rows
        # The logs came in another order, perhaps, and so stand rows of one instant.
        expected.sort(key=lambda row: order[row["log"].replace(str(home), str(pieces))])
        expected = only(by(expected, "at", descending=True), columns)
        assert only(rows, columns) == expected


PLAN = [
    (0, "prompt", 0, "main", "Read", "frost", 0),
    (0, "thinking", 1, "main", "Read", "hm", 0),
    (0, "call", 1, "main", "Read", "", 0),
    (0, "ok", 2, "main", "Read", "graft the pears", 0),
    (0, "text", 2, "main", "Read", "done", 0),
    (1, "prompt", 1, "frost", "Bash", "frost again", 1),
    (1, "call", 2, "frost", "Bash", "ls", 1),
    (1, "error", 3, "frost", "Bash", "no such barn", 1),
    (1, "call", 4, None, "mcp__barn__open", "", 2),
    (2, "summary", None, None, "Edit", "what it was about", 0),
    (2, "api_error", 4, None, "Edit", "overloaded", 0),
    (3, "prompt", 3, None, "Edit", "look into it", 0),
    (3, "text", None, None, "Edit", "I did", 1),
    (3, "call", 4, None, "Edit", "", 1),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return built(tmp_path_factory.mktemp("query"), PLAN)


@pytest.fixture(scope="module")
def index(tree):
    with opened(tree[1]) as index:
        yield index


def test_the_call_of_the_document_works_as_written(index):
    asked = {"resource": "messages", "filter": {"role": "user"}}
    found = query(index, **asked)
    assert [row["text"] for row in found.rows] == ["look into it", "frost again", "frost"]
    assert {row["role"] for row in found.rows} == {"user"}
    again = query(index, "messages", QueryFilter(role="user"))
    assert msgspec.json.encode(found) == msgspec.json.encode(again)
    assert msgspec.json.decode(msgspec.json.encode(found), type=QueryDocument)


@pytest.mark.parametrize(("name", "alias"), [("entries", "records"), ("tools", "calls")])
def test_both_names_of_a_resource_mean_the_same(index, name, alias):
    assert query(index, name) == query(index, alias)


# For every filter of every resource: a value that must change the outcome.
TELLING = {
    "type": "assistant",
    "session_id": "aabb",
    "uuid": "00000000-0000-4000-8000-00000000000a",
    "parent_uuid": {"tools": "00000001-0000-4000-8000-00000000000a"},
    "git_branch": "main",
    "time_range": {"start": "2026-11-01T10:02"},
    "role": "user",
    "content_type": "thinking",
    "content_match": "frost|ls",
    "tool_name": "Bash",
    "tool_status": "pending",
    "has_error": True,
    "project": "/home/ada/orchard/cellar",
}
CASES = [(each.name, name) for each in RESOURCES for name in each.filters]


@pytest.mark.parametrize(("resource", "name"), CASES)
def test_every_advertised_filter_changes_the_outcome(index, resource, name):
    value = TELLING[name]
    if name in ("uuid", "parent_uuid"):
        stored = query(index, resource, output=EVERY, transform={"extract": [name]}).rows
        value = next(row[name] for row in stored if row[name] is not None)
    found = query(index, resource, {name: value}, output=EVERY)
    everything = query(index, resource, output=EVERY)
    assert 0 < len(found.rows) < len(everything.rows)


def test_every_filter_there_is_belongs_to_a_resource_and_a_test():
    names = {field.name for field in msgspec.structs.fields(QueryFilter)}
    assert names == {name for each in RESOURCES for name in each.filters} == set(TELLING)


@pytest.mark.parametrize("resource", [each.name for each in RESOURCES])
@pytest.mark.parametrize(
    "section",
    [
        {"transform": {"extract": ["at"]}},
        {"transform": {"group_by": "session_id"}},
        {"aggregate": {"function": "count"}},
        {"aggregate": {"function": "count", "field": "file"}},
        {"aggregate": {"function": "max", "field": "at"}},
        {"aggregate": {"function": "min", "field": "at"}},
        {"aggregate": {"function": "sum", "field": "is_error"}},
        {"aggregate": {"function": "avg", "field": "is_error"}},
        {"aggregate": {"function": "group", "field": "project"}},
        {"output": {"limit": 1}},
        {"output": {"offset": 1}},
        {"output": {"sort_by": "session_id"}},
        {"output": {"sort_order": "asc"}},
        {"output": {"format": "jsonl"}},
        {"output": {"format": "tsv"}},
        {"output": {"format": "summary"}},
    ],
    ids=json.dumps,
)
def test_every_other_parameter_changes_the_outcome(index, resource, section):
    if section.get("aggregate", {}).get("field") == "file" and resource != "tools":
        with pytest.raises(UsageError, match="'file'"):
            query(index, resource, **section)
        return
    found = query(index, resource, **section)
    plain = query(index, resource)
    assert (found.columns, found.rows, found.lines()) != (plain.columns, plain.rows, plain.lines())


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.name)
def test_every_advertised_field_can_be_had_and_used(index, resource):
    for name, field in resource.fields.items():
        found = query(index, resource.name, None, {"extract": [name]}, output=EVERY)
        assert found.columns == [name]
        values = [row[name] for row in found.rows]
        assert any(value is not None for value in values), name
        if field.kind == "read":
            for section in ({"output": {"sort_by": name}}, {"transform": {"group_by": name}}):
                with pytest.raises(UsageError, match="cannot be used here"):
                    query(index, resource.name, **section)
            continue
        grouped = query(index, resource.name, None, {"group_by": name}, output=EVERY)
        assert sum(row["count"] for row in grouped.rows) == len(values)
        assert query(index, resource.name, None, None, {"function": "max", "field": name}).rows == [
            {f"max_{name}": max(value for value in values if value is not None)}
        ]


@pytest.mark.parametrize(
    ("asked", "told", "hint"),
    [
        ({"resource": "entrys"}, "no resource 'entrys'", "entries, records, messages"),
        ({}, "no resource", "entries"),
        ({"resource": "tools", "filters": {}}, "no 'filters'", "did you mean 'filter'"),
        ({"resource": "tools", "filter": {"tool": "x"}}, "no 'tool'", "tool_name"),
        ({"resource": "tools", "filter": {"role": "user"}}, "not filtered by role", "tool_status"),
        ({"resource": "entries", "filter": {"tool_status": "error"}}, "not filtered", "tool_name"),
        ({"resource": "tools", "filter": {"tool_status": "ok"}}, "'ok'", "success"),
        ({"resource": "tools", "filter": {"has_error": "yes"}}, "has_error", "bool"),
        ({"resource": "tools", "filter": "x"}, "an object", "tool_name"),
        (
            {"resource": "tools", "filter": {"tool_name": "("}},
            "invalid regular expression",
            "backslash",
        ),
        ({"resource": "entries", "filter": {"content_match": "["}}, "content_match", "backslash"),
        ({"resource": "messages", "filter": {"role": "tool"}}, "role 'tool'", "user, assistant"),
        ({"resource": "tools", "filter": {"time_range": {"from": "x"}}}, "'from'", "start, end"),
        ({"resource": "tools", "transform": {"extract": ["nme"]}}, "'nme'", "tool_name"),
        ({"resource": "tools", "transform": {"extract": []}}, "names no field", "tool_name"),
        ({"resource": "tools", "transform": {"extract": ["."]}}, "no field", "tool_name"),
        ({"resource": "tools", "transform": {"group_by": "nope"}}, "'nope'", "tool_name"),
        ({"resource": "tools", "aggregate": {"function": "median"}}, "median", "count, group"),
        ({"resource": "tools", "aggregate": {"function": "sum"}}, "needs a field", "duration_ms"),
        (
            {"resource": "tools", "aggregate": {"function": "sum", "field": "at"}},
            "cannot be used",
            "duration_ms",
        ),
        ({"resource": "tools", "output": {"limit": -1}}, "-1", ">= 0"),
        ({"resource": "tools", "output": {"limit": 10**30}}, "limit", ""),
        ({"resource": "tools", "output": {"format": "xml"}}, "'xml'", "tsv"),
        ({"resource": "tools", "output": {"sort_order": "up"}}, "'up'", "asc"),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_mistake_is_told_with_the_possibilities(asked, told, hint):
    with pytest.raises(UsageError) as error:
        parse_query(asked)
    assert told in error.value.message
    assert hint in error.value.hint


@pytest.mark.parametrize(
    "section",
    [
        {"output": {"sort_by": "nope"}},
        {"output": {"sort_by": "at"}, "transform": {"group_by": "type"}},
        {"filter": {"time_range": {"start": "the day of the frost"}}},
        {"transform": {"extract": ["at"], "group_by": "type"}},
        {"output": {"format": "summary"}, "transform": {"group_by": "type"}},
        {"transform": {"group_by": "type"}, "aggregate": {"function": "group", "field": "type"}},
    ],
    ids=json.dumps,
)
def test_what_does_not_go_together_is_refused(index, section):
    with pytest.raises(UsageError):
        query(index, "entries", **section)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)
NAMES = sorted(
    {field.name for kind in (QueryFilter, Transform, Aggregate, Output, Query)
     for field in msgspec.structs.fields(kind)}
)  # fmt: skip
WORDS = st.sampled_from(["entries", "tools", "messages", "count", "at", "user", "json", "[", "7d"])


@given(
    st.dictionaries(
        st.sampled_from(["resource", "filter", "transform", "aggregate", "output", "x"]),
        st.one_of(WORDS, JSON, st.dictionaries(st.sampled_from(NAMES), st.one_of(WORDS, JSON))),
    )
)
def test_any_json_is_answered_or_a_usage_error(index, asked):
    try:
        parsed = parse_query(asked)
        found = query(index, **asked)
    except UsageError:
        return
    assert isinstance(parsed, Query)
    assert msgspec.json.decode(msgspec.json.encode(found), type=QueryDocument)


def test_text_that_no_encoding_holds_finds_nothing_and_breaks_nothing(index):
    for name in ("session_id", "uuid", "git_branch", "type", "project"):
        assert query(index, "entries", {name: "\udc80"}).rows == []
    assert query(index, "entries", {"content_match": "\udc80"}).rows == []
    assert query(index, "entries", {"session_id": "a' OR 1=1 --"}).rows == []


def test_dates_are_in_the_zone_that_is_given(index):
    within = {"time_range": {"start": "2026-11-01T12:03", "end": "2026-11-01T12:04"}}
    here = query(index, "entries", within, zone=ZoneInfo("Africa/Johannesburg"))
    assert [row["at"].minute for row in here.rows] == [3, 3]
    assert query(index, "entries", within).rows == []
    ago = {"time_range": {"start": "5min", "end": "2min"}}
    later = BEGIN.replace(minute=6)
    assert {row["at"].minute for row in query(index, "entries", ago, now=later).rows} == {1, 2, 3}


def test_a_path_leads_into_the_records_own_json(index):
    wanted = [".version", "message.content.0.type", "message.nothing.0", "message.content.99"]
    found = query(index, "tools", {"tool_name": "Bash"}, {"extract": wanted})
    assert found.rows == [dict(zip(wanted, ["2.1.200", "tool_use", None, None], strict=True))]


def test_reading_is_bounded_and_says_so(index):
    found = query(index, "entries", {"content_match": ""}, read_at_most=3)
    assert len(found.rows) == 3
    assert found.notes == [
        "stopped after reading 3 records: what lies behind them was not looked into"
    ]
    found = query(index, "messages", None, {"extract": ["text"]}, read_at_most=2)
    assert "the text of the others is null" in found.notes[0]
    assert [row["text"] for row in found.rows].count(None) >= 5
    assert query(index, "entries", read_at_most=0).notes == []


def test_a_bounded_list_reads_no_more_than_it_needs(index):
    page = query(index, "entries", {"content_match": ""}, output={"limit": 2}, read_at_most=3)
    assert (len(page.rows), page.next, page.notes) == (2, 2, [])


@pytest.mark.slow
def test_a_pattern_that_takes_years_is_stopped_and_what_was_found_is_given(tmp_path, monkeypatch):
    monkeypatch.setattr(querying, "BUDGET_SECONDS", 0.2)
    said = ["lantern 1", "x" * 50, "lantern 2"]
    plan = [(0, "prompt", step, None, "Read", text, 0) for step, text in enumerate(said)]
    _, home = built(tmp_path, plan)
    with opened(home) as index:
        found = query(
            index, "entries", {"content_match": r"(x|x)+y|lantern"}, {"extract": ["content"]}
        )
    assert [row["content"] for row in found.rows] == ["lantern 2"]
    assert [note for note in found.notes if "the pattern took too long" in note]


def test_a_response_that_two_logs_repeat_counts_once(tmp_path):
    plan = [(0, "prompt", 0, None, "Read", "a", 0), (0, "text", 1, None, "Read", "b", 0)]
    _, home = built(tmp_path, plan)
    (source,) = (home / "projects").rglob("*.jsonl")
    copied = source.read_bytes().replace(SESSIONS[0].encode(), SESSIONS[2].encode())
    source.with_name(f"{SESSIONS[2]}.jsonl").write_bytes(copied)
    with opened(home) as index:
        rows = query(index, "messages", {"role": "assistant"}).rows
        assert sorted(row["session_id"] for row in rows) == [SESSIONS[0], SESSIONS[2]]
        total = query(index, "messages", aggregate={"function": "sum", "field": "output"})
        assert total.rows == [{"sum_output": 3}]


def test_a_response_that_only_a_sign_of_life_tells_of_is_a_message(tmp_path):
    _, home = built(tmp_path, [(0, "prompt", 0, None, "Read", "a", 0)])
    (log,) = (home / "projects").rglob("*.jsonl")
    usage = {"input_tokens": 5, "output_tokens": 405}
    inner = {"role": "assistant", "id": "msg_x", "model": "claude-opus-4-6", "usage": usage}
    said = {"type": "assistant", "message": inner | {"content": []}, "requestId": "req_x"}
    said["timestamp"] = "2026-11-01T10:05:00.000Z"
    data = {"type": "agent_progress", "agentId": "a9", "message": said}
    progress = {"type": "progress", "uuid": "p-1", "data": data, "sessionId": SESSIONS[0]}
    progress |= {"toolUseID": "t", "parentToolUseID": "p", "timestamp": said["timestamp"]}
    log.write_bytes(log.read_bytes() + json.dumps(progress).encode() + b"\n")
    with opened(home) as index:
        (row,) = query(index, "messages", {"role": "assistant"}).rows
    assert (row["model"], row["message_id"], row["output"]) == ("claude-opus-4-6", "msg_x", 405)


def test_a_log_that_is_gone_leaves_rows_without_text(tmp_path):
    _, home = built(tmp_path, PLAN[:2])
    with opened(home) as index:
        next((home / "projects").rglob("*.jsonl")).unlink()
        rows = query(index, "entries", None, {"extract": ["type", "content", ".version"]}).rows
        assert [row["content"] for row in rows] == [None, None]
        assert query(index, "entries", {"content_match": "f"}).rows == []


@given(st.lists(st.sampled_from(["a\tb", "two\nlines", "back\\slash", "", "nul\0", "\u2028"])))
@settings(max_examples=20)
def test_tsv_has_one_line_a_row_and_loses_nothing(texts):
    document = QueryDocument(
        resource="entries",
        columns=["n", "text"],
        rows=[{"n": n, "text": text} for n, text in enumerate(texts)],
        next=None,
        format="tsv",
    )
    lines = document.lines().splitlines()
    assert lines[0] == "n\ttext"
    read = [line.split("\t") for line in lines[1:]]
    assert [json.loads(f'"{cell}"') for _, cell in read] == texts


def test_jsonl_has_one_object_a_line(index):
    found = query(index, "tools", output={"format": "jsonl"})
    read = [json.loads(line) for line in found.lines().splitlines()]
    assert [row["tool_name"] for row in read] == [row["tool_name"] for row in found.rows]
    assert {row["tool_name"] for row in read} <= set(TOOLS)
