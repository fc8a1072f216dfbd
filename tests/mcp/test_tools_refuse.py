"""What cannot be had: bad input, other projects, patterns that take for ever, halves of secrets."""

import random
import re
import string

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnlog
from mcp import Client
from mcp_world import (
    ONE,
    ORCHARD,
    OUT,
    SUBAGENT,
    TWO,
    VAULT,
    Writing,
    ask,
    ask_on,
    called,
    opened,
    refused,
)
from redact import planted
from turnlog.mcp.server import make_server
from turnlog.mcp.tools import TOOLS
from turnlog.mcp.tools import query as query_tool
from turnlog.mcp.untrusted_text import NOTICE
from turnlog.query import filters

MINE = (
    "search_history",
    "session_turns",
    "past_calls",
    "past_errors",
    "past_files",
    "past_costs",
    "query_history",
    "past_insights",
)
BASIC = {
    "search_history": {"query": "apples"},
    "session_turns": {"session": ONE},
    "query_history": {"resource": "tools"},
}
HUSHED = ("rubies", "Rubies", OUT, VAULT)
"""What only the project outside says."""


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("refuse")) as made:
        yield made


@pytest.fixture(scope="module")
def ctx(world):
    return world[1](ORCHARD)


def test_all_of_them_are_served():
    assert set(MINE) <= {tool.name for tool in TOOLS}


BAD = [
    ("search_history", {}, "query is missing"),
    ("search_history", {"query": ""}, "query"),
    ("search_history", {"query": "   "}, "empty query"),
    ("search_history", {"query": 7}, "query"),
    ("search_history", {"query": "apples", "limit": 0}, "limit must be at least 1"),
    ("search_history", {"query": "apples", "limit": -1}, "limit must be at least 1"),
    ("search_history", {"query": "apples", "limit": 10**9}, "limit must be at most 200"),
    ("search_history", {"query": "apples", "since": "someday"}, "invalid date"),
    ("search_history", {"query": "apples", "session": "../../etc/passwd"}, "session id"),
    ("search_history", {"query": "apples", "project": "../../.."}, "no project"),
    ("search_history", {"query": "apples", "regex": True}, "unknown argument 'regex'"),
    ("session_turns", {}, "session is missing"),
    ("session_turns", {"session": "nobody"}, "no session"),
    ("session_turns", {"session": ["x"]}, "session"),
    ("session_turns", {"session": ONE, "turn": 99}, "no turn 99"),
    ("session_turns", {"session": ONE, "turn": -99}, "no turn -99"),
    ("session_turns", {"session": ONE, "turn": 10**9}, "turn must be at most"),
    ("session_turns", {"session": ONE, "turn": "one"}, "turn"),
    ("session_turns", {"session": ONE, "record": "zzz"}, "no record"),
    ("session_turns", {"session": ONE, "record": "@999999999999"}, "no record"),
    ("session_turns", {"session": ONE, "record": "' OR 1=1 --"}, "no record"),
    ("session_turns", {"session": ONE, "turn": 1, "record": "x"}, "cannot be combined"),
    ("session_turns", {"session": ONE, "subagent": "zzz"}, "no subagent"),
    ("session_turns", {"session": ONE, "subagent": "../x"}, "no subagent"),
    ("past_calls", {"limit": 0}, "limit"),
    ("past_calls", {"status": "fine"}, "status"),
    ("past_calls", {"tool": ","}, "no tool name given"),
    ("past_calls", {"tool": "*" * 50}, "too many *"),
    ("past_calls", {"file": "*a*" * 50}, "too many *"),
    ("past_calls", {"session": "latest\0"}, "session id"),
    ("past_calls", {"until": "2026-99-99"}, "invalid date"),
    ("past_errors", {"signature": "../x"}, "signature"),
    ("past_errors", {"signature": "ffffffffffff"}, "no error has a signature"),
    ("past_errors", {"least": 0}, "least"),
    ("past_errors", {"context": 10**9}, "context"),
    ("past_errors", {"signature": "ffff", "least": 3}, "least and signature"),
    ("past_files", {"version": 1}, "requires session and path"),
    ("past_files", {"session": ONE, "path": "tree.py", "version": 99}, "no version 99"),
    ("past_files", {"session": ONE, "path": "tree.py", "version": 0}, "version"),
    ("past_files", {"session": ONE, "path": "../../etc/passwd"}, "no file"),
    ("past_files", {"session": ONE, "since": "7d"}, "leave out"),
    ("past_costs", {"by": []}, "by"),
    ("past_costs", {"by": ["tool"]}, "by"),
    ("past_costs", {"by": "fruit"}, "by"),
    ("past_costs", {"by": ["day"] * 9}, "by"),
    ("past_costs", {"since": "2026-11-02", "until": "2026-11-01"}, "ends before it begins"),
    ("past_costs", {"model": ""}, "model"),
    ("query_history", {}, "resource is missing"),
    ("query_history", {"resource": "people"}, "resource"),
    ("query_history", {"resource": "tools", "filter": {"colour": "red"}}, "no 'colour'"),
    ("query_history", {"resource": "tools", "filter": {"role": "user"}}, "not filtered by role"),
    ("query_history", {"resource": "messages", "filter": {"role": 7}}, "does not fit"),
    ("query_history", {"resource": "messages", "filter": {"session_id": "../x"}}, "session id"),
    ("query_history", {"resource": "messages", "filter": {"session_id": "nobody"}}, "no session"),
    (
        "query_history",
        {"resource": "messages", "filter": {"content_match": "("}},
        "invalid regular expression",
    ),
    (
        "query_history",
        {"resource": "messages", "filter": {"time_range": {"start": "?"}}},
        "invalid date",
    ),
    ("query_history", {"resource": "messages", "filter": "role=user"}, "filter"),
    ("query_history", {"resource": "tools", "output": {"limit": 0}}, "out of range: 0"),
    ("query_history", {"resource": "tools", "output": {"limit": -1}}, "does not fit"),
    (
        "query_history",
        {"resource": "tools", "output": {"limit": 10**9}},
        "out of range: 1000000000",
    ),
    ("query_history", {"resource": "tools", "output": {"limit": "many"}}, "does not fit"),
    (
        "query_history",
        {"resource": "tools", "output": {"format": "tsv"}},
        "unsupported format: tsv",
    ),
    ("query_history", {"resource": "tools", "transform": {"extract": ["log"]}}, "not available"),
    ("query_history", {"resource": "tools", "transform": {"group_by": "log"}}, "not available"),
    ("query_history", {"resource": "tools", "transform": {"extract": ["x"]}}, "no field 'x'"),
    ("query_history", {"resource": "tools", "aggregate": {"function": "drop"}}, "does not fit"),
    ("query_history", {"resource": "tools; DROP TABLE names"}, "resource"),
    ("past_insights", {"sections": ["gossip"]}, "sections"),
    ("past_insights", {"sections": []}, "sections"),
    ("past_insights", {"limit": 10**9}, "limit"),
    ("past_insights", {"since": "later"}, "invalid date"),
    ("past_insights", {"since": "2026-11-02", "until": "2026-11-01"}, "ends before it begins"),
]


@pytest.mark.parametrize(("tool", "arguments", "words"), BAD, ids=str)
def test_a_mistake_is_told_with_what_to_do(ctx, tool, arguments, words):
    text = refused(ctx, tool, **arguments)
    assert words in text
    assert "Traceback" not in text
    assert len(text) < 2_500


@pytest.mark.parametrize("tool", MINE)
def test_a_cursor_of_nobody_and_one_of_another_question(ctx, tool):
    basic = BASIC.get(tool, {})
    assert "cursor" in refused(ctx, tool, **basic, cursor="AAAA")
    assert "cursor" in refused(ctx, tool, **basic, cursor="x" * 50)
    other = ask(ctx, "past_calls", limit=1)["next"]
    assert "cursor" in refused(ctx, tool, **basic, cursor=other)


# -- the scope -------------------------------------------------------------------------------

OUTSIDE = [VAULT, OUT, OUT[:8], f"{VAULT}/rubies.txt", "/", "/home/ada", "..", "../orchard-vault"]


def escapes(signature, record):
    """Every way that an argument has to mean what lies outside."""
    for place in OUTSIDE:
        for tool in MINE:
            names = {"session", "project", "path", "file"} & _names(tool)
            for name in names:
                yield tool, BASIC.get(tool, {}) | {name: place}
    for text in (
        f"session:{OUT}", f"project:{VAULT}", f"apples OR project:{VAULT}", "-apples",
        f"(apples) OR (session:{OUT})", "project:vault", '"', f'" OR project:{VAULT}', "model:*",
        "type:title", "is:title", "is:error", f"file:{VAULT}/*", "rubies", "role:human",
    ):  # fmt: skip
        yield "search_history", {"query": text, "results": True, "newest": True, "limit": 200}
    for resource in ("entries", "messages", "tools", "records", "calls"):
        for wanted in (
            {"project": VAULT}, {"project": "/"}, {"project": "/home/ada"}, {"project": ".."},
            {"session_id": OUT}, {"uuid": record}, {"content_match": "rubies"},
            {"content_match": ".*"}, {"tool_name": ".*"}, {"time_range": {"start": "2026-11-02"}},
            {"project": f"{ORCHARD}/../orchard-vault"}, {"project": "~"}, {"git_branch": "HEAD"},
        ):  # fmt: skip
            yield (
                "query_history",
                {"resource": resource, "filter": wanted, "output": {"limit": 200}},
            )
        for by in ("session_id", "project", "model", "subagent"):
            yield "query_history", {"resource": resource, "transform": {"group_by": by}}
        yield (
            "query_history",
            {"resource": resource, "aggregate": {"function": "max", "field": "project"}},
        )
        yield "query_history", {"resource": resource, "output": {"sort_by": "project"}}
    yield "session_turns", {"session": ONE, "record": record}
    yield "session_turns", {"session": OUT, "record": record}
    yield "past_errors", {"signature": signature}
    for by in ("session", "project", "model", "subagent", "day"):
        yield "past_costs", {"by": [by], "limit": 200}
    yield "past_costs", {"by": ["session", "model"], "model": "rubies"}
    yield "past_files", {"path": "rubies.txt"}
    yield "past_files", {"path": "*"}
    yield "past_files", {"session": ONE, "path": f"{VAULT}/rubies.txt"}
    yield "past_calls", {"file": "*", "limit": 200}
    yield "past_calls", {"tool": "*", "status": "error", "limit": 200}
    told = ["overview", "models", "projects", "tools", "errors", "edits", "turns", "subagents"]
    yield "past_insights", {"since": "2020-01-01", "limit": 50, "sections": told}


def _names(tool):
    (found,) = (each for each in TOOLS if each.name == tool)
    return {each.name for each in found.parameters}


def test_no_argument_leads_out_of_the_project(world):
    _, ctx = world
    wide = ctx()
    (failed,) = (row for row in ask(wide, "past_errors")["errors"] if row["session"] == OUT)
    calls = list(escapes(failed["signature"], failed["record"]))
    answers = anyio.run(called, ctx(ORCHARD), calls)
    given = 0
    for (tool, arguments), (text, is_error) in zip(calls, answers, strict=True):
        said = str(arguments)
        for word in HUSHED:
            told = text
            if is_error and word in said:  # An error may repeat the question.
                told = text.replace(f"{word!r}", "").replace(f"session {OUT}", "")
                told = told if word != VAULT else ""
            if word == "rubies" and is_error:
                continue
            assert word not in told, (tool, arguments, text)
        given += not is_error
    assert given > 60, "hardly anything was answered"
    # The same calls do tell of it where that is allowed: else nothing was tried.
    heard = anyio.run(called, wide, calls)
    for tool in MINE:
        texts = [text for (name, _), (text, _) in zip(calls, heard, strict=True) if name == tool]
        assert any(word in text for text in texts for word in HUSHED), tool


def test_a_session_of_another_project_is_as_unknown_as_none(world):
    _, ctx = world
    for tool in ("session_turns", "past_calls", "past_files", "past_costs", "search_history"):
        basic = {name: each for name, each in BASIC.get(tool, {}).items() if name != "session"}
        there = refused(ctx(ORCHARD), tool, **basic, session=OUT)
        nowhere = refused(ctx(ORCHARD), tool, **basic, session="dddddddd")
        assert there.replace(OUT, "…") == nowhere.replace("dddddddd", "…")


def test_what_was_skipped_elsewhere_is_not_told(tmp_path):
    def make(directory):
        from mcp_world import make_home

        home = make_home(directory)
        for log in home.glob("projects/*/*.jsonl"):
            line = b'{"type":"assistant","message":{"usage":{"input_tokens":-5},"id":7}}\n'
            log.write_bytes(log.read_bytes() + line + b'{"type":"assistant","usage":\n')
        return home

    with opened(tmp_path, make) as (_, ctx):
        wide = ask(ctx(), "past_costs")["skipped"].get("places", {})
        narrow = ask(ctx(ORCHARD), "past_costs")["skipped"].get("places", {})
        assert sum(wide.values()) > sum(narrow.values()) > 0


# -- patterns --------------------------------------------------------------------------------


def test_a_pattern_that_takes_for_ever_ends_and_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(query_tool, "BUDGET_SECONDS", 2.0)

    def make(directory):
        home = directory / "home"
        (home / "projects").mkdir(parents=True)
        with turnlog.open(home) as store, store.create(project=ORCHARD, session_id=ONE) as writer:
            writer.append(turnlog.build.user("a" * 50 + "!"))
        return home

    async def both(ctx):
        async with Client(make_server(ctx)) as client:
            await client.call_tool("past_calls", {})
            took = {}

            async def one(name, arguments):
                result = await client.call_tool(name, arguments)
                took[name] = (len(took) + 1, result)

            async with anyio.create_task_group() as group:
                wanted = {"resource": "messages", "filter": {"content_match": "^(a|a)+$"}}
                group.start_soon(one, "query_history", wanted)
                await anyio.sleep(0.3)
                group.start_soon(one, "past_calls", {})
            return took

    with opened(tmp_path, make) as (_, ctx):
        took = anyio.run(both, ctx(ORCHARD, seconds=60))
    order, result = took["query_history"]
    assert result.is_error
    assert "pattern" in result.content[0].text
    assert "hint: " in result.content[0].text
    assert order == 2, "the pattern held the server up"
    assert not took["past_calls"][1].is_error


def test_a_slow_pattern_for_tools_is_refused(tmp_path, monkeypatch):
    def make(directory):
        home = directory / "home"
        (home / "projects").mkdir(parents=True)
        with turnlog.open(home) as store, store.create(project=ORCHARD, session_id=ONE) as writer:
            call = {"type": "tool_use", "id": "t1", "name": "a" * 50 + "!", "input": {}}
            writer.append(turnlog.build.assistant([call], model="m"))
        return home

    monkeypatch.setattr(filters, "BUDGET_SECONDS", 0.2)
    with opened(tmp_path, make) as (_, ctx):
        wanted = {"resource": "tools", "filter": {"tool_name": "^(a|a)+$"}}
        assert "takes too long" in refused(ctx(ORCHARD), "query_history", **wanted)


# -- secrets at the border of what is shown --------------------------------------------------


@pytest.fixture(scope="module")
def leaky(tmp_path_factory):
    """A session that says keys at every place where a text may be cut."""
    rng = random.Random(5)
    secrets = []

    def said(before):
        kind = rng.choice(["anthropic", "github", "stripe restricted", "pypi", "json web token"])
        secret = planted.SHAPES[kind](rng)
        secrets.append(secret)
        return f"{'w' * (before % 7)}{'apple ' * (before // 6)}{secret} and more {'x ' * 200}"

    def make(directory):
        home = directory / "home"
        (home / "projects").mkdir(parents=True)
        from datetime import UTC, datetime

        with turnlog.open(home) as store, store.create(project=ORCHARD, session_id=ONE) as writer:
            log = Writing(writer, datetime(2026, 11, 1, tzinfo=UTC))
            for before in range(20, 330, 11):
                log.prompt(said(before))
                log.call("Bash", {"command": said(before)}, said(before), failed=True)
                log.call("Note", {"file": said(before), "password": said(before)}, "fine")
                log.call("Edit", {"file_path": f"{ORCHARD}/{said(before)}"}, "ok")
                log.answer(said(before))
            log.add(turnlog.build.title(said(40)))
        kept = home / "file-history" / ONE
        kept.mkdir(parents=True)
        return home

    with opened(tmp_path_factory.mktemp("leaky"), make) as (_, ctx):
        yield ctx(ORCHARD), secrets


@pytest.mark.parametrize(
    ("tool", "noun", "arguments"),
    [
        ("search_history", "sessions",
         {"query": "apple*", "newest": True, "results": True, "limit": 50}),
        ("search_history", "sessions", {"query": "is:error", "results": True, "limit": 50}),
        ("session_turns", "flow", {"session": ONE}),
        ("session_turns", "steps", {"session": ONE, "turn": 20}),
        ("past_calls", "calls", {"limit": 50}),
        ("past_calls", "calls", {"status": "error", "limit": 50}),
        ("past_errors", "errors", {"limit": 50}),
        ("past_files", "files", {"limit": 50}),
        ("past_files", "files", {"session": ONE, "limit": 50}),
        ("past_files", "touched_by", {"path": "*", "limit": 50}),
        ("query_history", "rows", {"resource": "messages"}),
        ("query_history", "rows",
         {"resource": "tools", "transform": {"extract": ["input", "result"]}}),
        ("query_history", "rows",
         {"resource": "entries", "transform": {"extract": ["message.content"]}}),
        ("query_history", "rows", {"resource": "tools", "transform": {"group_by": "file"}}),
        ("past_insights", "sections", {"since": "2020-01-01", "limit": 50,
                                  "sections": ["errors", "turns", "edits"]}),
    ],
    ids=str,
)  # fmt: skip
def test_no_half_of_a_secret_is_shown(leaky, tool, noun, arguments):
    ctx, secrets = leaky
    text = str(ask_on(ctx, tool, noun, **arguments))
    assert "[redacted" in text, "nothing was there to be masked"
    survivors = [each for each in secrets if planted.survives(each, text)]
    assert not survivors, survivors[:3]


def test_around_an_error_and_in_one_record_no_secret_is_shown(leaky):
    ctx, secrets = leaky
    for row in ask(ctx, "past_errors", limit=3)["errors"]:
        around = ask_on(ctx, "past_errors", "occurrences", signature=row["signature"], limit=5)
        assert not [each for each in secrets if planted.survives(each, str(around))]


@pytest.mark.parametrize(
    "number", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 6))]
)
def test_no_secret_can_be_asked_out_letter_by_letter(leaky, number):
    ctx, secrets = leaky
    secret = secrets[number]
    for pattern in (secret[:14] + ".", secret[14:24], secret[-12:]):
        wanted = {"content_match": pattern.replace("+", ".")}
        assert not ask(ctx, "query_history", resource="messages", filter=wanted)["rows"]


def _next_letters(text):
    """Return a text of the same shape: each letter and digit is the next of its kind."""
    kinds = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
    return text.translate(
        {ord(a): b for kind in kinds for a, b in zip(kind, kind[1:] + kind[0], strict=True)}
    )


# The last secret is in the title.
@pytest.mark.parametrize("number", [-1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 3))])
@pytest.mark.parametrize("newest", [False, True])
def test_no_search_tells_how_a_secret_begins(leaky, newest, number):
    ctx, secrets = leaky
    secret = secrets[number]

    def hits(query):
        asked = {"query": query, "newest": newest, "results": True, "limit": 50}
        return ask_on(ctx, "search_history", "sessions", **asked)

    apples = hits("apple")
    assert apples
    assert ask(ctx, "list_sessions", title="apple")["sessions"]
    *_, word = re.findall("[A-Za-z0-9]{8,}", secret)
    assert not ask(ctx, "list_sessions", title=word[:6])["sessions"]
    # A right guess finds what a wrong one finds: the end of the secret, which is shown.
    wrong = _next_letters(word[:-4]) + word[-4:]
    assert hits(word) == hits(wrong)
    assert hits(f"apple {word}") == hits(f"apple {wrong}")
    for asked in (f"{word[:6]}*", f"+{word}", f'"{secret}"', f"plum OR {word[:6]}*"):
        assert not hits(asked), asked
        assert not hits(f"apple {asked}") or "OR" in asked, asked
    # Nor does what is missing show it.
    for asked in (f"apple -{word[:6]}*", f"apple (pear OR -{word[:6]}*)"):
        assert hits(asked) == apples, asked


def test_no_schema_speaks_of_where_logs_lie(schemas):
    for tool in MINE:
        assert ", log" not in str(schemas[tool])


# -- anything that a schema allows -----------------------------------------------------------

WORDS = st.sampled_from([
    "apples", ONE, TWO, OUT, SUBAGENT, ORCHARD, "press", "..", "latest", "Bash", "*", "", "7d",
    "2026-11-01", "tree.py", "\0", "\ud800", "é" * 300, "day", "@0", "0" * 12, "' OR 1=1 --",
])  # fmt: skip


def of_schema(schema):
    """Values of about the shape that a schema tells, right and wrong."""
    ways = schema.get("anyOf", [schema])
    found = []
    for each in ways:
        kind = each.get("type")
        if "enum" in each:
            found.append(st.sampled_from(each["enum"]))
        elif kind == "object":
            inner = {name: of_schema(part) for name, part in each.get("properties", {}).items()}
            found.append(st.fixed_dictionaries({}, optional=inner))
        elif kind == "array":
            found.append(st.lists(of_schema(each.get("items", {})), max_size=3))
        elif kind == "integer":
            found.append(st.integers(-2, 30) | st.sampled_from([10**9, -(10**9)]))
        elif kind == "boolean":
            found.append(st.booleans())
        elif kind == "null":
            found.append(st.none())
        else:
            found.append(WORDS)
    return st.one_of(found)


@pytest.fixture(scope="module")
def schemas(ctx):
    async def listed():
        async with Client(make_server(ctx)) as client:
            return {each.name: each.input_schema for each in (await client.list_tools()).tools}

    return anyio.run(listed)


@pytest.mark.parametrize("tool", MINE)
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_whatever_is_asked_is_answered_or_refused_in_words(ctx, schemas, tool, data):
    schema = schemas[tool]
    needed = set(schema.get("required", []))
    parts = {name: of_schema(each) for name, each in schema["properties"].items()}
    some = st.fixed_dictionaries(
        {name: each for name, each in parts.items() if name in needed},
        optional={name: each for name, each in parts.items() if name not in needed},
    )
    calls = [(tool, arguments) for arguments in data.draw(st.lists(some, min_size=6, max_size=6))]
    for text, is_error in anyio.run(called, ctx, calls):
        if is_error:
            assert text.startswith("error: ")
            assert "\nhint: " in text, text
        else:
            assert text.startswith(NOTICE)
        assert len(text.encode()) <= ctx.settings.answer_bytes
        if not is_error:
            assert not any(word in text for word in HUSHED)
