"""The server, asked by the official client: resources, the prompt, mistakes, time and company."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial
from typing import Annotated

import anyio
import pytest
from mcp.client.stdio import stdio_client
from pydantic import Field

from index.homes import own_index
from mcp import Client, MCPError, StdioServerParameters
from mcp_contexts import (
    ACTING,
    HUSHED,
    ONE,
    ORCHARD,
    ORDER,
    OUT,
    PASSWORD,
    SECRET,
    TWO,
    Log,
    asked,
    asked_on,
    desk_of,
    make_home,
)
from mcp_world import ask, hits_of, refused
from redact import planted
from turnlog.api import background_refresh
from turnlog.errors import LogError, UsageError
from turnlog.formats import find_homes
from turnlog.mcp.context import Settings
from turnlog.mcp.pages import ToolAnswer
from turnlog.mcp.server import AT_ONCE, make_server
from turnlog.mcp.tool import Tool
from turnlog.mcp.tools.session import SESSION
from turnlog.mcp.tools.sessions import SESSIONS
from turnlog.mcp.untrusted_text import NOTICE, unframed


def with_client(ctx, ask, tools=None):
    """Let *ask* talk to a server; give what it gives."""

    async def run():
        server = make_server(ctx) if tools is None else make_server(ctx, tools)
        async with Client(server) as client:
            return await ask(client)

    return anyio.run(run)


def told(ctx, name, arguments, tools=None):
    """Call a tool that fails; give what it says."""

    async def ask(client):
        return await client.call_tool(name, arguments)

    result = with_client(ctx, ask, tools)
    assert result.is_error
    return result.content[0].text


def check_clean(text, ctx):
    assert text.startswith(NOTICE)
    assert len(text.encode()) <= ctx.settings.answer_bytes
    assert not any(planted.survives(each.secret, text) for each in (SECRET, PASSWORD))
    assert not any(character in text for character in ACTING)
    assert HUSHED not in text
    assert ORDER not in text.replace(unframed(text), "")


def test_sessions_are_those_of_the_project_and_below(ctx):
    found = asked(ctx, SESSIONS)
    assert {each["id"] for each in found["sessions"]} == {ONE, TWO}
    assert found["total"] == 2
    assert [each["id"] for each in asked(ctx, SESSIONS, project="press")["sessions"]] == [TWO]


def test_sessions_come_page_by_page(wide_desk):
    pages = list(asked_on(wide_desk, SESSIONS, limit=1))
    assert sorted(each["id"] for page in pages for each in page["sessions"]) == [ONE, TWO, OUT]
    assert [page["total"] for page in pages] == [3, 3, 3]


def test_a_session_is_told_in_figures(ctx):
    found = asked(ctx, SESSION, session="1111")
    assert (found["id"], found["project"], found["prompts"]) == (ONE, ORCHARD, 2)
    bash = next(each for each in found["calls"] if each["tool"] == "Bash")
    assert (bash["calls"], bash["errors"]) == (4, 2)  # Its subagent's included.
    assert found["subagents_in_all"] == 1
    assert found["messages"] == 18
    assert any(each["path"].endswith("tree.py") and each["changes"] for each in found["files"])
    assert len(found["latest_prompts"]) == 2


def test_a_record_is_given_whole_and_without_secrets(tmp_path):
    with own_index(tmp_path / "own"):
        long = "".join(f"apple {n} " for n in range(4_000)) + SECRET.text
        # Where a piece ends, a secret must not.
        texts = [long, "x" * (1_900 - len(SECRET.text) // 2) + SECRET.text + "y" * 3_000]
        for text in texts:
            log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt(text).save()
            ctx = desk_of(find_homes((tmp_path / "home",)), answer_bytes=5_000)
            pages = list(asked_on(ctx, SESSION, session=ONE, record=log.uuid))
            said = "".join(piece["text"] for page in pages for piece in page["pieces"])
            assert "bytes left out" not in said
            assert not planted.survives(SECRET.secret, said)
            plain = text.replace(SECRET.text, "")
            assert len(said) >= len(plain)
            assert said[:1_000] == text[:1_000]


def test_a_record_of_another_session_is_not_there(ctx):
    other = f"{1:08x}-ffff-4000-8000-{1:012x}"
    text = told(ctx, "session_overview", {"session": ONE, "record": other})
    assert "no record" in text


def test_resources_are_listed_read_and_clean(ctx):
    async def ask(client):
        listed = [each.uri for each in (await client.list_resources()).resources]
        patterns = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in patterns] == ["turnlog://session/{id}"]
        sessions = (await client.read_resource("turnlog://sessions")).contents[0]
        page = (await client.read_resource(f"turnlog://session/{ONE}")).contents[0]
        return listed, sessions.text, page

    listed, sessions, page = with_client(ctx, ask)
    assert [str(each) for each in listed] == ["turnlog://sessions"]
    for text in (sessions, page.text):
        check_clean(text, ctx)
    assert json.loads(unframed(sessions))["total"] == 2
    assert page.mime_type == "text/markdown"
    said = unframed(page.text)
    assert said.startswith("# Apples")
    assert "There are seven apples." in said
    assert all(line.startswith(">") for line in said.split("\n") if "There is more" in line[:20])


def test_a_page_of_a_long_session_ends_with_what_was_said_last(tmp_path):
    with own_index(tmp_path / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="")
        for number in range(600):
            log.prompt(f"Prompt {number} " + "of many " * 20)
            log.call("Bash", "ok", command="true")
        log.answer({"type": "text", "text": "The very last word."}).save()
        ctx = desk_of(find_homes((tmp_path / "home",)))

        async def ask(client):
            return (await client.read_resource(f"turnlog://session/{ONE}")).contents[0].text

        text = with_client(ctx, ask)
    assert len(text.encode()) <= ctx.settings.answer_bytes
    assert len(text) > 15_000, "there was room for more"
    assert "earlier turns left out" in text
    assert "The very last word." in text
    assert "Prompt 599 " in text
    assert "Prompt 1 " not in text


@pytest.mark.parametrize("name", [OUT, "ffff", "nobody", "%2e%2e%2fetc", "..%2F..", "a%00b"])
def test_resources_outside_are_not_there(ctx, name):
    async def ask(client):
        with pytest.raises(MCPError) as caught:
            await client.read_resource(f"turnlog://session/{name}")
        return str(caught.value)

    said = with_client(ctx, ask)
    assert HUSHED not in said
    assert str(ctx.homes[0].path) not in said
    assert "Traceback" not in said


def test_the_prompt_gathers_what_one_needs_to_go_on(ctx):
    async def ask(client):
        (listed,) = (await client.list_prompts()).prompts
        assert (listed.name, [each.name for each in listed.arguments]) == ("continue", ["session"])
        (message,) = (await client.get_prompt("continue")).messages
        with pytest.raises(MCPError, match="no session") as caught:
            await client.get_prompt("continue", {"session": OUT})
        assert "--project all" in str(caught.value)
        (other,) = (await client.get_prompt("continue", {"session": ONE})).messages
        return message.content.text, other.content.text

    latest, one = with_client(ctx, ask)
    for text in (latest, one):
        check_clean(text, ctx)
        assert "Continue the work of the session" in text.rpartition("</recorded-data ")[2]
        assert "Count the apples." in unframed(text)
        assert "No pears." in unframed(text)
    assert "pending: apples" in unframed(one)
    assert "tree.py" in unframed(one)


def test_the_prompt_means_not_the_session_that_asks(tmp_path):
    with own_index(tmp_path / "own"):
        home = make_home(tmp_path)
        (home / "sessions").mkdir()
        running = {"pid": os.getpid(), "sessionId": ONE, "status": "busy"}
        (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(running))
        homes = find_homes((home,))
        Log(home, ONE, ORCHARD).say_everything().prompt("Later").save()

        async def ask(client):
            (message,) = (await client.get_prompt("continue")).messages
            return unframed(message.content.text)

        assert ONE in with_client(desk_of(homes), ask)
        mine = replace(desk_of(homes), parent=os.getpid())
        assert TWO in with_client(mine, ask)


def test_nothing_to_go_on_with_is_told(tmp_path):
    with own_index(tmp_path / "own"):
        (tmp_path / "home" / "projects").mkdir(parents=True)

        async def ask(client):
            with pytest.raises(MCPError, match="no sessions yet"):
                await client.get_prompt("continue")
            return json.loads(
                unframed((await client.call_tool("list_sessions", {})).content[0].text)
            )

        found = with_client(desk_of(find_homes((tmp_path / "home",))), ask)
    assert found == {"total": 0, "sessions": [], "next": None}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("list_sessions", {"limit": 0}, "limit must be at least 1, not 0"),
        ("list_sessions", {"limit": -1}, "limit must be at least 1, not -1"),
        ("list_sessions", {"limit": 10**9}, "limit must be at most 200"),
        ("list_sessions", {"limit": "many"}, "limit must be a valid integer"),
        ("list_sessions", {"limt": 3}, "did you mean limit?"),
        ("list_sessions", {"sort": "colour"}, "'active', 'started'"),
        ("list_sessions", {"project": "/etc"}, "no project '/etc' here"),
        ("list_sessions", {"project": "../orchards"}, "--project all"),
        ("list_sessions", {"project": ""}, "absolute path"),
        ("list_sessions", {"since": "soonish"}, "invalid date"),
        ("list_sessions", {"cursor": "AAAA"}, "invalid cursor"),
        ("list_sessions", {"title": "x" * 600}, "at most this long: 500"),
        ("session_overview", {}, "session is missing"),
        ("session_overview", {"session": ""}, "at least this long: 1"),
        ("session_overview", {"session": "../../etc/passwd"}, "is not a session id"),
        ("session_overview", {"session": "a\x00b"}, "is not a session id"),
        ("session_overview", {"session": OUT}, "no session"),
        ("session_overview", {"session": 5}, "session must be a valid string"),
        ("session_overview", {"session": "latest", "record": ""}, "record must be"),
        ("delete", {"session": ONE}, "unknown tool 'delete'"),
    ],
)
def test_mistakes_are_told_with_what_to_do(ctx, name, arguments, said):
    text = told(ctx, name, arguments)
    assert said in text
    assert text.startswith("error: ")
    assert "\nhint: " in text


def test_a_prefix_of_several_sessions_is_told_and_names_only_those_of_the_project(tmp_path):
    with own_index(tmp_path / "own"):
        home = tmp_path / "home"
        ids = [f"abc{n}{'0' * 4}-aaaa-4aaa-8aaa-{'0' * 12}" for n in range(3)]
        for session, project in zip(ids, (ORCHARD, ORCHARD, "/home/ada/other"), strict=True):
            Log(home, session, project).say_everything()
        ctx = desk_of(find_homes((home,)))
        text = told(ctx, "session_overview", {"session": "abc"})
        assert "2 sessions start with abc" in text
        assert ids[0] in text
        assert ids[2] not in text
        # One within the project is meant, whatever is outside.
        assert asked(ctx, SESSION, session="abc0")["id"] == ids[0]


def made_tool(function, seconds=20):
    return Tool(function, title="Made for a test", seconds=seconds)


def test_a_call_that_takes_too_long_is_stopped_and_others_go_on(ctx):
    def endless(ctx, page) -> ToolAnswer:
        """Count and count, in SQL."""
        with ctx.index() as index:
            index.db.execute(
                "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n)"
                " SELECT count(*) FROM n"
            ).fetchone()
        return ToolAnswer()

    def heedless(ctx, page) -> ToolAnswer:
        """Go on, whatever the clock says."""
        assert stopped.wait(600)
        return ToolAnswer()

    running, answered, stopped = (threading.Event() for _ in range(3))

    def patient(ctx, page) -> ToolAnswer:
        """Wait until another call was answered."""
        running.set()
        assert answered.wait(600)
        return ToolAnswer()

    async def ask(client):
        found = {}

        async def call(name):
            found[name] = await client.call_tool(name, {})
            if name == "heedless":
                stopped.set()

        async with anyio.create_task_group() as group:
            for name in ("endless", "heedless", "patient"):
                group.start_soon(call, name)
            assert await anyio.to_thread.run_sync(running.wait, 600)
            await call("list_sessions")
            answered.set()
        return found

    tools = (made_tool(endless, 2), made_tool(heedless, 2), made_tool(patient, 600), SESSIONS)
    found = with_client(ctx, ask, tools)
    assert not found["patient"].is_error
    for name in ("endless", "heedless"):
        assert found[name].is_error
        text = found[name].content[0].text
        assert text.startswith("error: no answer within 2 seconds\nhint: ")
    assert not found["list_sessions"].is_error


def test_the_owners_time_is_stricter_than_a_tools():
    from turnlog.mcp.context import ToolContext

    ctx = ToolContext(homes=(), scope=None, settings=Settings(seconds=2))
    assert ctx.for_a_call(20).deadline.seconds == 2
    assert ctx.for_a_call(1).deadline.seconds == 1


def test_many_calls_at_once_are_all_answered(ctx):
    async def ask(client):
        texts = []

        async def call(number):
            name = ("list_sessions", "session_overview")[number % 2]
            given = {"session": "latest"} if number % 2 else {"limit": 1 + number % 3}
            result = await client.call_tool(name, given)
            assert not result.is_error
            texts.append(result.content[0].text)

        async with anyio.create_task_group() as group:
            for number in range(4 * AT_ONCE):
                group.start_soon(call, number)
        return texts

    texts = with_client(ctx, ask)
    assert len(texts) == 4 * AT_ONCE
    nonces = {text[len(NOTICE) :].split()[1] for text in texts}
    assert len(nonces) == len(texts)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LogError("cannot read /home/ada/.claude/x.jsonl", path="/home/ada/.claude/x.jsonl"),
         "error: cannot read x.jsonl"),
        (LogError("bad: /srv/own/place/index.db", path="", hint="see /srv/own/place/log"),
         "error: bad: index.db\nhint: see log"),
        (UsageError(f"what is {ORDER}\x1b[31m?", hint=SECRET.text), "error: what is IGNORE"),
        (OSError(13, "Permission denied", "/home/ada/.claude"), "Permission denied"),
    ],
)  # fmt: skip
def test_errors_tell_no_places_no_secrets_and_nothing_that_acts(ctx, error, said):
    def broken(ctx, page) -> ToolAnswer:
        """Fail, and say why."""
        raise error

    text = told(ctx, "broken", {}, (made_tool(broken),))
    assert said in text
    assert "/home/ada" not in text
    assert "\x1b" not in text
    assert not planted.survives(SECRET.secret, text)


def test_a_crash_says_nothing_but_that_it_was_one(ctx, caplog):
    def crashing(ctx, page) -> ToolAnswer:
        """Do what nobody foresaw."""
        raise RuntimeError(f"{ORDER} in /home/ada/.claude: {SECRET.text}")

    text = told(ctx, "crashing", {}, (made_tool(crashing),))
    assert text.startswith("error: the call failed: RuntimeError\nhint: try again")
    assert "ada" not in text
    assert ORDER not in text
    assert "test_server.py" in caplog.text  # Its owner learns where.


def test_a_broken_index_is_told_without_its_place(tmp_path):
    with own_index(tmp_path / "own"):
        ctx = desk_of(find_homes((make_home(tmp_path),)))

        def careless(ctx, page) -> ToolAnswer:
            """Ask for what is not there."""
            with ctx.index() as index:
                index.db.execute("SELECT * FROM nothing")
            return ToolAnswer()

        text = told(ctx, "careless", {}, (made_tool(careless),))
    assert "turnlog refresh --rebuild" in text
    assert str(tmp_path) not in text


def test_long_records_are_left_unread_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("turnlog.mcp.context.LARGEST_RECORD_BYTES", 10_000)
    with own_index(tmp_path / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="")
        log.prompt("Short").prompt("long " * 10_000).save()
        ctx = desk_of(find_homes((tmp_path / "home",)))
        found = asked(ctx, SESSION, session=ONE)
        assert [each["text"] for each in found["latest_prompts"]] == ["", "Short"]
        assert "were not read" in found["notes"][0]


def test_what_is_appended_is_there_at_the_next_call(tmp_path):
    with own_index(tmp_path / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt("One").save()
        ctx = desk_of(find_homes((tmp_path / "home",)))
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 1
        log.prompt("Two").save()
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 2


def test_a_reading_that_takes_too_long_is_told_and_goes_on(tmp_path, monkeypatch):
    go = threading.Event()
    really = background_refresh.refresh

    def slow(homes):
        go.wait(20)
        return really(homes)

    with own_index(tmp_path / "own"):
        ctx = desk_of(find_homes((make_home(tmp_path),)), seconds=1)
        monkeypatch.setattr(background_refresh, "refresh", slow)
        monkeypatch.setattr(background_refresh, "LITTLE_BYTES", sys.maxsize)
        text = told(ctx, "list_sessions", {})
        assert text.startswith("error: still reading the logs\nhint: try again in a moment")
        go.set()
        assert asked(ctx, SESSIONS)["total"] == 2


def test_much_is_read_by_another_process_and_little_here(tmp_path, monkeypatch):
    started = []
    really = subprocess.Popen

    def noted(command, **more):
        started.append(command)
        return really(command, **more)

    monkeypatch.setattr(background_refresh.subprocess, "Popen", noted)
    with own_index(tmp_path / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt("One").save()
        homes = find_homes((tmp_path / "home",))
        ctx = desk_of(homes)
        assert background_refresh.new_bytes(homes) == sys.maxsize
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 1
        assert len(started) == 1
        size = log.path.stat().st_size
        log.prompt("Two").save()
        assert background_refresh.new_bytes(homes) == log.path.stat().st_size - size
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 2
        assert len(started) == 1
        log.prompt("Three " * 500_000).save()
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 3
        assert len(started) == 2
        log.lines = log.lines[:1]
        log.save()  # It shrank: it is another one now.
        assert background_refresh.new_bytes(homes) == size


def test_a_reading_that_fails_elsewhere_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("turnlog.index.fallback.MOST_BYTES", 100)
    with own_index(tmp_path / "own"):
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / "index").write_text("in the way")
        text = told(desk_of(find_homes((make_home(tmp_path),))), "list_sessions", {})
    assert text.startswith("error: the index cannot be written")
    assert "\nhint: " in text
    assert str(tmp_path) not in text


@pytest.mark.parametrize("program", ["/bin/false", "/bin/true"])
def test_a_reading_that_is_cut_off_is_told(tmp_path, monkeypatch, program):
    monkeypatch.setattr(background_refresh.sys, "executable", program)
    with own_index(tmp_path / "own"):
        text = told(desk_of(find_homes((make_home(tmp_path),))), "list_sessions", {})
    assert text == "error: reading the logs was interrupted\nhint: try again"


def command(*arguments):
    return [sys.executable, "-c", "from turnlog.cli import main; main()", "mcp", *arguments]


def test_over_stdio_nothing_but_the_protocol_is_said(tmp_path):
    home = make_home(tmp_path)
    first = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked_for = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": first},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
         "params": {"name": "list_sessions", "arguments": {}}},
    ]  # fmt: skip
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.toml").write_text('[mcp]\nscope = 5\ncolour = "red"\n')
    process = subprocess.Popen(
        command("--home", str(home), "--project", ORCHARD),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, TURNLOG_HOME=str(tmp_path / "own")),
    )
    with process:
        for each in asked_for:
            process.stdin.write(json.dumps(each).encode() + b"\n")
            process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.stdin.close()
        assert process.stdout.read() == b""
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert [each["id"] for each in answers] == [1, 2]
    document = json.loads(unframed(answers[1]["result"]["content"][0]["text"]))
    assert {each["id"] for each in document["sessions"]} == {ONE, TWO}
    # A setting that cannot be read is told, and changes nothing.
    assert "config.toml: mcp.scope: 5 is not" in said
    assert "config.toml: mcp.colour: unknown setting" in said


def test_the_official_client_starts_it_where_a_project_is(tmp_path):
    orchard = tmp_path / "orchard"
    orchard.mkdir()
    home = tmp_path / "home"
    Log(home, ONE, os.path.realpath(orchard)).say_everything()
    Log(home, OUT, str(tmp_path), word=HUSHED).say_everything()
    program, *arguments = command("--home", str(home))

    async def ask():
        parameters = StdioServerParameters(
            command=program,
            args=arguments,
            cwd=orchard,
            env={"TURNLOG_HOME": str(tmp_path / "own"), "PATH": os.environ["PATH"]},
        )
        async with Client(stdio_client(parameters, errlog=subprocess.DEVNULL)) as client:
            result = await client.call_tool("list_sessions", {})
            return json.loads(unframed(result.content[0].text))

    found = anyio.run(ask)
    assert [each["id"] for each in found["sessions"]] == [ONE]


def test_typed_arguments_reach_the_tool_and_its_place(ctx):
    seen = []

    def counting(
        ctx, page, *, step: Annotated[int, Field(description="How far.", ge=1, le=9)] = 1
    ) -> ToolAnswer:
        """Count on from where it was."""
        seen.append((page.place, step))
        return ToolAnswer(noun="numbers", rows=[{"n": page.place}], offset=page.place,
                      next=page.place + step)  # fmt: skip

    tool = made_tool(counting)
    pages = asked_on(ctx, tool, step=3)
    assert [next(pages)["numbers"][0]["n"] for _ in range(3)] == [0, 3, 6]
    assert seen == [(0, 3), (3, 3), (6, 3)]
    assert partial(asked, ctx, tool)()["numbers"] == [{"n": 0}]


def ask_as(process, ctx, query, **arguments):
    """The sessions and tools of what `search_history` finds, asked from a session of *process*."""
    ctx = replace(ctx, parent=process)
    found = ask(ctx, "search_history", query=query, **arguments)
    return [(hit["session"], hit.get("tool")) for hit in hits_of(found)]


def test_search_leaves_out_the_session_that_asks_and_its_own_calls(tmp_path):
    with own_index(tmp_path / "own"):
        home = tmp_path / "home"
        asking = Log(home, ONE, ORCHARD).prompt("where did we prune the quinces?")
        asking.call("mcp__turnlog__search_history", "nothing", query="prune quinces").save()
        earlier = Log(home, TWO, ORCHARD).prompt("please prune the quinces")
        earlier.call("mcp__turnlog__search", "nothing", query="prune quinces").save()
        (home / "sessions").mkdir()
        running = {"pid": os.getpid(), "sessionId": ONE, "cwd": ORCHARD}
        (home / "sessions" / f"{os.getpid()}.json").write_text(json.dumps(running))
        ctx = desk_of(find_homes((home,)))
        assert ask_as(os.getpid(), ctx, "prune quinces") == [(TWO[:8], None)]
        assert ask_as(os.getpid(), ctx, "prune quinces", session=ONE[:8]) == [
            (ONE[:8], None),
            (ONE[:8], "mcp__turnlog__search_history"),
        ]
        assert set(ask_as(os.getpid(), ctx, "quinces tool:mcp__turnlog__*")) == {
            (TWO[:8], "mcp__turnlog__search")
        }
        sessions = {session for session, _ in ask_as(1, ctx, "prune quinces")}
        assert sessions == {ONE[:8], TWO[:8]}


def test_an_empty_search_points_to_tool_output(tmp_path):
    with own_index(tmp_path / "own"):
        home = tmp_path / "home"
        Log(home, ONE, ORCHARD).prompt("look").call("Bash", "seven medlars", command="ls").save()
        ctx = desk_of(find_homes((home,)))
        found = ask(ctx, "search_history", query="+medlars")
        assert found["sessions"] == []
        assert any("results=true" in note for note in found["notes"])
        found = ask(ctx, "search_history", query="+medlars", results=True)
        assert len(hits_of(found)) == 1
        assert "notes" not in found
        found = ask(ctx, "search_history", query="medlars")
        assert [hit["kind"] for hit in hits_of(found)] == ["result"]
        assert found["notes"] == ["found only in tool output"]
        assert "notes" not in ask(ctx, "search_history", query="zanzibar")


def test_a_record_without_a_uuid_opens_as_search_names_it(tmp_path):
    with own_index(tmp_path / "own"):
        home = tmp_path / "home"
        for subagent in (None, "a1b2c3"):
            log = Log(home, ONE, ORCHARD, subagent=subagent)
            log.prompt("begin").prompt(f"the medlars of {subagent}")
            first, second = map(json.loads, log.lines)
            del second["uuid"]
            log.lines = [json.dumps(first), json.dumps(second)]
            log.save()
        ctx = desk_of(find_homes((home,)))
        found = ask(ctx, "search_history", query="medlars")
        assert len(hits_of(found)) == 2
        for hit in hits_of(found):
            assert hit["record"].startswith("@")
            place = {name: hit[name] for name in ("session", "record", "subagent") if name in hit}
            whole = ask(ctx, "session_overview", **place)
            assert [piece["text"] for piece in whole["pieces"]] == [
                f"the medlars of {hit.get('subagent')}"
            ]


def test_the_start_of_a_uuid_opens_a_record_unless_two_share_it(tmp_path):
    with own_index(tmp_path / "own"):
        home = tmp_path / "home"
        log = Log(home, ONE, ORCHARD, hostile="").prompt("one").prompt("two").prompt("three")
        log.lines[1] = log.lines[1].replace("00000002-", "00000001-", 1)
        log.save()
        ctx = desk_of(find_homes((home,)))
        for start in ("00000003", "00000003-1111-40"):
            (piece,) = ask(ctx, "session_overview", session=ONE, record=start)["pieces"]
            assert piece["text"] == "three"
        text = refused(ctx, "session_turns", session=ONE, record="00000001")
        assert "2 records start with 00000001" in text
        assert "use the whole uuid: 00000001-1111-" in text
        text = refused(ctx, "session_turns", session=ONE, record="abcdef01")
        assert "no record 'abcdef01'" in text
