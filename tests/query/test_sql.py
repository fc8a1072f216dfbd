"""SQL over the views: readable, complete, and no way to do harm with it."""

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.homes import log, make_home, prompt, write
from turnlog.errors import UsageError
from turnlog.index.connection import open_fresh
from turnlog.index.database import index_path
from turnlog.query.sql import run_sql, schema

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
SESSION = "5f0c1111-aaaa-4aaa-8aaa-111111111111"
OTHER = "6a0c2222-bbbb-4bbb-8bbb-222222222222"
UUIDS = [f"0000000{n}-1111-4222-8333-444444444444" for n in range(10)]


def answer(uuid, parent, at, *blocks, message="m1", model="claude-opus-4-5", **more):
    usage = {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 100}
    said = {"id": message, "role": "assistant", "model": model, "content": list(blocks)}
    fields = {"type": "assistant", "uuid": uuid, "parentUuid": parent, "timestamp": at}
    return fields | {"message": said | {"usage": usage}, "requestId": f"r-{message}"} | more


def call(call_id, tool, **given):
    return {"type": "tool_use", "id": call_id, "name": tool, "input": given}


def result(uuid, parent, at, call_id, text, *, failed=False, **more):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
    fields = prompt(uuid, parent, timestamp=at)
    return fields | {"message": {"role": "user", "content": [block]}} | more


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home = make_home(tmp_path)
    here = {"cwd": "/home/ada/orchard", "gitBranch": "trees", "version": "2.1.200"}
    at = "2026-11-01T10:00:0{}.250Z".format
    task = call("c2", "Task", subagent_type="Explore", description="look", prompt="go and look")
    log(
        home,
        SESSION,
        prompt(UUIDS[0], timestamp=at(0), **here),
        answer(UUIDS[1], UUIDS[0], at(1), call("c1", "Edit", file_path="/home/ada/a.py"), **here),
        result(UUIDS[2], UUIDS[1], at(3), "c1", "no such string", failed=True, **here),
        answer(UUIDS[3], UUIDS[2], at(4), task, message="m2", **here),
        result(UUIDS[4], UUIDS[3], at(6), "c2", "ok", toolUseResult={"agentId": "a1b2c3d4"}),
        answer("not-a-uuid", UUIDS[4], at(7), {"type": "text", "text": "done"}, message="m3"),
    )
    side = {"isSidechain": True, "agentId": "a1b2c3d4"}
    said = prompt(UUIDS[5], timestamp=at(4), **side)
    said["message"]["content"] = "go and look"
    seen = {"type": "text", "text": "seen"}
    log(
        home,
        SESSION,
        said,
        answer(UUIDS[6], UUIDS[5], at(5), seen, message="m4", model="claude-haiku-4-5", **side),
        subagent="a1b2c3d4",
    )
    elsewhere = {"cwd": "/home/ada/orchard-2", "timestamp": "2026-10-01T09:00:00.000Z"}
    lines = json.dumps({"sessionId": OTHER} | prompt(UUIDS[7], **elsewhere)) + "\n{torn\n"
    write(home, f"projects/-home-ada-orchard-2/{OTHER}.jsonl", lines)
    with open_fresh((home,)) as found:
        found.homes = (home,)
        yield found


def rows(index, statement, **more):
    return run_sql(index, statement, **more).rows


def digest(index):
    return hashlib.sha256(index_path(index.homes).read_bytes()).hexdigest()


def test_sessions_have_the_mapped_names(index):
    found = rows(
        index,
        "SELECT backing_model_id, tokens_in, tokens_out, cwd, git_branch, subagents, started_at,"
        " last_active_at FROM v_sessions WHERE session = ?",
        parameters=(SESSION,),
    )
    assert found == [
        [
            "anthropic:claude-opus-4-5",
            *(40, 28, "/home/ada/orchard", "trees", 1),
            *("2026-11-01T10:00:00.250Z", "2026-11-01T10:00:07.250Z"),
        ]
    ]


def test_an_agent_names_the_record_that_asked_for_it(index):
    found = rows(
        index,
        "SELECT a.subagent, a.kind, a.spawned_by_message_id, r.offset > 0, a.tokens_out"
        " FROM v_subagents AS a JOIN v_records AS r ON r.uuid = a.spawned_by_message_id",
    )
    assert found == [["a1b2c3d4", "Explore", UUIDS[3], 1, 7]]


def test_so_does_one_that_another_tool_started(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    home, at = make_home(tmp_path), "2026-11-01T10:00:00.250Z"
    told = {"agentId": "b7", "description": "look"}
    log(
        home,
        SESSION,
        prompt(UUIDS[0], timestamp=at),
        answer(UUIDS[1], UUIDS[0], at, call("c1", "mcp__crew__delegate", goal="go and look")),
        result(UUIDS[2], UUIDS[1], at, "c1", "ok", toolUseResult=told),
    )
    log(home, SESSION, prompt(UUIDS[3], isSidechain=True, agentId="b7"), subagent="b7")
    with open_fresh((home,)) as found:
        made = rows(found, "SELECT subagent, description, spawned_by_message_id FROM v_subagents")
    assert made == [["b7", "look", UUIDS[1]]]


def test_messages_count_once_and_have_tokens(index):
    found = rows(index, "SELECT message_id, tokens_in, tokens_out FROM v_messages ORDER BY 1")
    assert found == [[f"m{n}", 10, 7] for n in (1, 2, 3, 4)]
    days = rows(index, "SELECT day, model, messages, tokens_out FROM v_days ORDER BY model")
    assert days == [
        ["2026-11-01", "claude-haiku-4-5", 1, 7],
        ["2026-11-01", "claude-opus-4-5", 3, 21],
    ]


def test_calls_errors_files_and_their_texts(index):
    found = rows(index, "SELECT tool, is_error, duration_ms, path FROM v_calls ORDER BY at")
    assert found == [["Edit", 1, 2000, "/home/ada/a.py"], ["Task", 0, 2000, None]]
    found = rows(index, "SELECT kind, tool, text(log, offset) FROM v_errors")
    assert found == [["call", "Edit", "no such string"]]
    assert rows(index, "SELECT path, action FROM v_files") == [["/home/ada/a.py", "edit"]]


def test_uuids_that_are_none_stay_what_they_are(index):
    query = "SELECT uuid, parent_uuid FROM v_records WHERE author = 'assistant' ORDER BY at DESC"
    assert rows(index, query)[0] == ["not-a-uuid", UUIDS[4]]


def test_the_place_of_a_record_leads_to_it(index):
    query = "SELECT uuid, log, offset, length_bytes FROM v_records WHERE uuid IS NOT NULL"
    found = rows(index, query)
    assert len(found) == 9
    for uuid, path, offset, length in found:
        line = Path(path).read_bytes()[offset : offset + length]
        assert json.loads(line)["uuid"] == uuid


def test_prompts_are_those_that_people_typed(index):
    found = rows(index, "SELECT uuid, text(log, offset) FROM v_prompts ORDER BY at")
    assert found == [[UUIDS[7], f"this is {UUIDS[7]}"], [UUIDS[0], f"this is {UUIDS[0]}"]]


def test_damages_and_logs(index):
    found = rows(index, "SELECT d.session, l.kind FROM v_damages AS d JOIN v_logs AS l USING (log)")
    assert found == [[OTHER, "session"]]


def test_since_and_project_narrow_every_view(index):
    since = datetime(2026, 11, 1, tzinfo=UTC)
    assert rows(index, "SELECT session FROM v_sessions", since=since) == [[SESSION]]
    assert rows(index, "SELECT count(*) FROM v_prompts", since=since) == [[1]]
    assert rows(index, "SELECT count(*) FROM v_projects", since=since) == [[1]]
    for view in schema().views:
        if any(column.name == "project" for column in view.columns):
            query = f"SELECT DISTINCT project FROM {view.name}"
            # A neighbour whose name begins alike is another project.
            found = rows(index, query, project="/home/ada/orchard")
            assert found in ([["/home/ada/orchard"]], []), view.name
            assert rows(index, query, project="/home/ada/o'r\"chard") == []
    both = rows(index, "SELECT count(*) FROM v_sessions", project="/home/ada/")
    assert both == rows(index, "SELECT count(*) FROM v_sessions", project="/") == [[2]]
    later = datetime(2026, 11, 1, 10, 0, 5, tzinfo=UTC)
    assert rows(index, "SELECT sum(messages) FROM v_days", since=later) == [[2]]


def test_the_page_names_exactly_the_views_and_columns_there_are(index):
    parts = re.split(r"^### (v_\w+)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    told = {
        name: re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
    there = index.db.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
    assert {name for (name,) in there} == set(told)
    for name, columns in told.items():
        # As the index made them, and as a statement sees them.
        cursor = index.db.execute(f"SELECT * FROM {name}")
        assert [column[0] for column in cursor.description] == columns
        assert run_sql(index, f"SELECT * FROM {name}").columns == columns
        assert [column.name for column in schema(name).views[0].columns] == columns
        assert f"{schema(name).views[0].about}\n" in PAGE.read_text("utf-8")


def test_every_example_of_the_page_runs(index):
    examples = re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(examples) >= 12
    for example in examples:
        assert run_sql(index, example).columns


# -- attacks -----------------------------------------------------------------------------------

CHAIN = "WITH a0 AS (SELECT 1 AS x)" + "".join(
    f", a{n} AS (SELECT 1 AS x FROM a{n - 1}, a{n - 1} AS b)" for n in range(1, 40)
)
QUOTED = CHAIN.replace("a1 ", '"A1" /* x */ ').replace(" AS (", " AS/**/NOT MATERIALIZED (")
COUNTED = "(SELECT count(at) FROM v_errors)"
FOREVER = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "

REFUSED = [
    "DELETE FROM logs",
    "DELETE FROM v_logs",
    "UPDATE records SET at = 0",
    "INSERT INTO names (name) VALUES ('x')",
    "REPLACE INTO names VALUES (1, 'x')",
    "WITH x AS (SELECT 1) DELETE FROM logs",
    "DROP TABLE logs",
    "DROP VIEW v_logs",
    "CREATE TABLE x (y)",
    "CREATE TEMP TABLE x (y)",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE VIRTUAL TABLE temp.x USING fts5vocab(main, said, row)",
    "CREATE TRIGGER t INSTEAD OF DELETE ON v_logs BEGIN SELECT 1; END",
    "ALTER TABLE logs RENAME TO x",
    "INSERT INTO said (said) VALUES ('rebuild')",
    "ATTACH '/tmp/x.db' AS x",
    "ATTACH ':memory:' AS x",
    "DETACH main",
    "VACUUM",
    "VACUUM INTO '/tmp/turnlog-x.db'",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "BEGIN EXCLUSIVE",
    "SAVEPOINT x",
    "PRAGMA user_version = 7",
    "PRAGMA writable_schema = 1",
    "PRAGMA query_only = 0",
    "PRAGMA table_info(logs)",
    "SELECT * FROM pragma_table_info('logs')",
    "SELECT count(*) FROM pragma_database_list",
    "SELECT load_extension('x.so')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT edit('x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts5(NULL)",
    "SELECT sqlite_version()",
    "SELECT sqlite_compileoption_get(1)",
    "SELECT zeroblob(1000000000)",
    "SELECT randomblob(1000000000)",
    "SELECT hex(zeroblob(100000000))",
    "SELECT length(replace(printf('%250000d', 1), ' ', 'xxxxxxxxxx'))",
    "SELECT * FROM logs",
    "SELECT count(*) FROM logs",
    "SELECT 1 FROM logs",
    "SELECT rowid FROM records",
    "SELECT (SELECT max(id) FROM records)",
    "SELECT * FROM main.logs",
    "SELECT * FROM said",
    "SELECT * FROM said WHERE said MATCH 'x'",
    "SELECT * FROM said_data",
    "SELECT * FROM sqlite_master",
    "SELECT count(*) FROM sqlite_schema",
    "SELECT * FROM sqlite_temp_master",
    "SELECT count(*) FROM temp.sqlite_temp_schema",
    "SELECT sql FROM temp.sqlite_master",
    "SELECT * FROM dbstat",
    "SELECT count(*) FROM sqlite_dbpage",
    # A subquery by a view's name, so that what it reads seems to be read by the view.
    "WITH v_logs AS (SELECT * FROM logs) SELECT * FROM v_logs",
    "WITH v_logs AS (SELECT folded FROM logs) SELECT folded FROM v_logs",
    "SELECT folded FROM (SELECT * FROM logs) AS v_logs",
    "SELECT * FROM main.v_logs",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE logs",
    "SELECT 1 -- fine\n; DELETE FROM logs",
    "",
    "   ",
    "-- nothing but a comment",
    "/* nothing",
    ";",
    "SELECT",
    "SELECT * FROM v_nothing",
    "SELECT nothing FROM v_logs",
    "EXPLAIN DELETE FROM logs",
    "SELECT 1\0; DROP TABLE logs",
    "SELECT '" + "x" * 1_000_000 + "'",
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT " + "+".join(["1"] * 5_000),
    " UNION ALL ".join(["SELECT 1"] * 5_000),
    "SELECT " + ", ".join(["1"] * 2_001),
    "SELECT 1 LIKE '" + "%x" * 5_000 + "'",
    "SELECT " + ", ".join(["max(" + ", ".join([COUNTED] * 30) + ")"] * 90),
    CHAIN + " SELECT count(*) FROM a39",
    QUOTED + " SELECT count(*) FROM a39",
    "SELECT '\ud800'",
    "SELECT ?",
]


@pytest.mark.parametrize("statement", REFUSED, ids=lambda text: repr(text[:40]))
def test_harm_is_refused_and_nothing_changes(index, statement):
    before = digest(index)
    with pytest.raises(UsageError) as told:
        run_sql(index, statement)
    assert told.value.hint
    assert digest(index) == before
    assert not Path("/tmp/turnlog-x.db").exists()


@pytest.mark.parametrize(
    "statement",
    [
        FOREVER + "SELECT count(*) FROM c",
        FOREVER + "SELECT x FROM c WHERE x < 0",
        FOREVER + "SELECT max(hex(x)) FROM c",
        "SELECT count(*) FROM " + ", ".join(f"v_logs AS l{n}" for n in range(40)),
    ],
)
def test_what_never_ends_is_ended(index, statement):
    before = digest(index)
    with pytest.raises(UsageError, match="no answer within") as told:
        run_sql(index, statement, seconds=0.3)
    assert told.value.code == "statement-too-slow"
    assert digest(index) == before


def test_a_single_function_cannot_take_for_ever(index):
    long = "SELECT replace(printf('%290000s', 'a'), ' ', 'a') AS s"
    assert rows(index, f"SELECT instr(s, substr(s, 1, 145000) || 'b') FROM ({long})") == [[0]]
    assert rows(index, f"SELECT s LIKE '%a%a%a%a%a%a%a%b%' FROM ({long})") == [[0]]


def test_an_endless_answer_is_cut(index):
    found = run_sql(index, FOREVER + "SELECT x FROM c", limit=10)
    assert found.rows == [[n] for n in range(1, 11)]
    assert found.truncated
    assert found.notes
    wide = FOREVER + "SELECT printf('%250000d', x) FROM c"
    assert run_sql(index, wide, limit=1000).truncated
    assert not run_sql(index, "SELECT 1", limit=1).truncated


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT value FROM json_each('[1, 2]')", [[1], [2]]),
        ("SELECT count(*) FROM json_tree('{\"a\": [1]}')", [[3]]),
        ("SELECT x'00ff', 'ü', 1.5, NULL", [["00ff", "ü", 1.5, None]]),
        ("SELECT CAST(x'ff41' AS TEXT)", [["\ufffdA"]]),
        ("SELECT 1; -- the end", [[1]]),
        ("SELECT current_date = date('now'), current_timestamp >= current_date", [[1, 1]]),
        ("SELECT json_insert('{}', '$.a', 1)", [['{"a":1}']]),
        ("SELECT row_number() OVER (ORDER BY at) FROM v_calls", [[1], [2]]),
        ("WITH x AS (SELECT 1 AS n) SELECT count(*) FROM x", [[1]]),
        ("WITH x(n) AS (SELECT 1), y AS (SELECT x.n FROM x, x AS z) SELECT y.n FROM y", [[1]]),
        ("SELECT length(printf('%1000000000d', 1)) > 1000000", [[None]]),
        ("VALUES (1), (2)", [[1], [2]]),
        ("SELECT text('/etc/passwd', 0), text(1, 2), text(NULL, 'x')", [[None, None, None]]),
    ],
)
def test_what_is_harmless_works(index, statement, expected):
    assert rows(index, statement) == expected


def test_text_reads_only_what_the_index_knows(index, tmp_path):
    stranger = tmp_path / "stranger.jsonl"
    stranger.write_text(json.dumps(prompt(UUIDS[0])) + "\n")
    assert rows(index, "SELECT text(?, 0)", parameters=(str(stranger),)) == [[None]]
    known = rows(index, "SELECT log FROM v_logs LIMIT 1")[0][0]
    places = (-1, 1 << 40, 1 << 62, 5)
    assert rows(index, "SELECT text(?1, ?2), text(?1, ?3), text(?1, ?4), text(?1, ?5)",
                parameters=(known, *places)) == [[None] * 4]  # fmt: skip


def test_bad_bounds_are_mistakes(index):
    for bounds in ({"limit": 0}, {"limit": -1}, {"seconds": 0}, {"seconds": float("nan")}):
        with pytest.raises(UsageError):
            run_sql(index, "SELECT 1", **bounds)
    with pytest.raises(UsageError):
        run_sql(index, "SELECT ?", parameters=(1 << 70,))
    with pytest.raises(UsageError):
        schema("v_nothing")


_words = st.sampled_from(
    [
        "SELECT",
        "FROM",
        "WHERE",
        "(",
        ")",
        ",",
        ";",
        "*",
        "'",
        '"',
        "--",
        "/*",
        "*/",
        "UNION",
        "ALL",
        "WITH",
        "AS",
        "RECURSIVE",
        "x",
        "v_logs",
        "logs",
        "text",
        "DELETE",
        "PRAGMA",
        "ATTACH",
        "sqlite_master",
        "json_each",
        "1",
        "=",
        "log",
        "offset",
        ".",
        "[",
        "]",
        "`",
        "EXPLAIN",
        "ORDER",
        "BY",
    ]
)


@given(statement=st.lists(_words, max_size=12).map(" ".join) | st.text(max_size=40))
def test_any_text_gives_rows_or_a_usage_error(statement):
    # A made index without logs: views are empty, which is no matter here.
    try:
        found = run_sql(_empty(), statement, seconds=1)
    except UsageError as told:
        found = told
    assert getattr(found, "hint", "") or found.columns


def _empty():
    from turnlog.formats import Home
    from turnlog.index.connection import Index

    if not hasattr(_empty, "index"):
        homes = (Home(Path("/nowhere")),)
        _empty.index = open_fresh(homes)
    assert isinstance(_empty.index, Index)
    assert isinstance(_empty.index.db, sqlite3.Connection)
    return _empty.index


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000000) "
GREEDY = {
    "one value": "SELECT json_group_array(printf('%0400d', i)) FROM n",
    "one object": "SELECT json_group_object(i, printf('%0400d', i)) FROM n",
    "a sort": "SELECT printf('%0400d', 0 - i) FROM n ORDER BY 1",
    "a sort of a cross join": "SELECT a.i, b.i FROM n a, n b ORDER BY b.i || printf('%0400d', a.i)",
    "groups": "SELECT count(*) FROM n GROUP BY printf('%0400d', i) HAVING count(*) > 1",
    "a set": "SELECT count(DISTINCT printf('%0400d', i)) FROM n",
    "a window": "SELECT count(*) OVER (), x FROM (SELECT printf('%0400d', i) x FROM n)",
    "a union": "SELECT printf('%0400d', i) FROM n UNION SELECT 'x' ORDER BY 1",
}
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))
from turnlog.query import sql
sql.MOST_MEMORY_BYTES = 30_000_000
from turnlog.cli.app import run
code = run(["sql", *sys.argv[1:]])
print(open("/proc/self/status").read().partition("VmHWM:")[2])
sys.exit(code)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="peak memory is measured on Linux")
@pytest.mark.parametrize("name", GREEDY)
def test_a_statement_that_takes_too_much_memory_is_stopped(index, name, tmp_path):
    home = index.homes[0].path
    done = subprocess.run(
        [sys.executable, "-c", CHILD, ENDLESS + GREEDY[name], "--home", home, "--timeout", "60"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: the statement needs more than 30 MB of memory\n"
        "hint: group, sort or collect fewer rows: narrow them with WHERE at >= '2026-11-01'\n"
    )
    assert int(done.stdout.split()[0]) < 150_000  # In kB, Python and turnlog included.


def test_the_memory_of_the_process_before_a_statement_is_not_counted(index, monkeypatch):
    monkeypatch.setattr("turnlog.query.sql.MOST_MEMORY_BYTES", 1_000_000)
    held = bytearray(50_000_000)
    rows = run_sql(index, "SELECT count(*) FROM v_records").rows
    assert rows[0][0] > 0
    assert len(held) == 50_000_000
