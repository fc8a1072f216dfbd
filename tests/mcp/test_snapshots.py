"""What the server says, word for word: what it offers, and the answers of each tool.

The answers are in snapshots/, one file for each tool, for people to read. After a change on
purpose: TURNLOG_UPDATE_SNAPSHOTS=1 pytest tests/mcp/test_snapshots.py, and read the difference.
"""

import json
import re
import sys
from pathlib import Path

import anyio
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

from cli.screens import FIXED_CLOCK, FROST, HARVEST, STORM, Home
from mcp import Client, MCPError
from snapshots import check, stable

SNAPSHOTS = Path(__file__).parent / "snapshots"
NEXT = "NEXT"
"""Stands for the cursor that the answer before gave."""
EDITED = "/home/ada/orchard/src/orchard/schedule.py"
PROJECT = "/home/ada/orchard"
SECTIONS = [
    "overview", "days", "weeks", "hours", "streaks", "week_against_week", "models", "subagents",
    "projects", "tools", "sequences", "errors", "edits", "cache", "compactions", "interruptions",
    "turns", "commands",
]  # fmt: skip
# What is asked of each tool: as little as possible, with filters, page by page, by mistake.
CALLS = {
    "search_history": [
        {"query": "frost"},
        {"query": "tool:Bash", "project": PROJECT, "since": "30d", "newest": True},
        {"query": "ENOSPC", "results": True},
        {"query": "the", "limit": 1},
        {"query": "the", "limit": 1, "cursor": NEXT},
        {"query": "zanzibar"},
        {"query": "since:someday"},
        {"query": "frost", "limit": 0},
        {},
    ],
    "list_sessions": [
        {},
        {"project": PROJECT, "since": "2026-10-20", "sort": "tokens"},
        {"tool": "Bash", "archived": "also", "limit": 1},
        {"tool": "Bash", "archived": "also", "limit": 1, "cursor": NEXT},
        {"title": "zanzibar"},
        {"project": "orchard"},
        {"sort": "colour"},
        {"cursor": "no cursor"},
    ],
    "session_overview": [
        {"session": FROST},
        {"session": "latest"},
        {"session": STORM[:4]},
        {"session": FROST, "subagent": "a3f09c1"},
        {"session": FROST, "record": "9c2a2dc0-9978-48f0-a77b-5be58839cef1"},
        {"session": FROST, "record": "no-such-record"},
        {"session": "no-such-session"},
        {"sesion": FROST},
    ],
    "session_turns": [
        {"session": FROST},
        {"session": FROST, "turn": 2},
        {"session": HARVEST, "newest": True, "limit": 1},
        {"session": HARVEST, "newest": True, "limit": 1, "cursor": NEXT},
        {"session": FROST, "subagent": "a3f09c1", "limit": 1},
        {"session": FROST, "turn": 99},
    ],
    "past_calls": [
        {},
        {"tool": "Bash", "status": "error"},
        {"file": "schedule.py", "session": FROST},
        {"project": PROJECT, "limit": 2},
        {"project": PROJECT, "limit": 2, "cursor": NEXT},
        {"status": "broken"},
    ],
    "past_errors": [
        {},
        {"tool": "WebSearch", "since": "2026-01-01"},
        {"signature": "0cbb1b15b354", "context": 1},
        {"signature": "no-such-signature"},
    ],
    "past_files": [
        {},
        {"session": FROST},
        {"session": FROST, "path": "schedule.py"},
        {"session": FROST, "path": "schedule.py", "version": 1},
        {"session": FROST, "path": "schedule.py", "version": 7},
        {"project": PROJECT, "limit": 1},
        {"project": PROJECT, "limit": 1, "cursor": NEXT},
        {"path": "schedule.py", "version": 1},
    ],
    "past_costs": [
        {},
        {"by": ["project", "model"], "since": "2026-10-01", "until": "2026-11-01"},
        {"by": ["session"], "session": FROST},
        {"by": ["model"], "limit": 1},
        {"by": ["model"], "limit": 1, "cursor": NEXT},
        {"by": ["colour"]},
    ],
    "query_history": [
        {"resource": "messages", "filter": {"role": "user"}, "output": {"limit": 2}},
        {
            "resource": "messages",
            "filter": {"role": "user"},
            "output": {"limit": 2},
            "cursor": NEXT,
        },
        {"resource": "tools", "transform": {"group_by": "tool_name"}},
        {"resource": "tools", "filter": {"tool_name": "Bash"}, "output": {"format": "summary"}},
        {"resource": "entries", "transform": {"extract": ["type", "at"]}, "output": {"limit": 3}},
        {"resource": "messages", "aggregate": {"function": "sum", "field": "output"}},
        {"resource": "messages", "filter": {"colour": "red"}},
        {"resource": "songs"},
    ],
    "past_insights": [
        {},
        {"sections": SECTIONS, "since": "2025-07-01", "limit": 2},
        {"sections": ["cache", "subagents"], "project": PROJECT, "until": "2026-11-01"},
        {"sections": ["weather"]},
        {"since": "today", "until": "yesterday"},
    ],
}
RESOURCES = [
    "turnlog://sessions",
    f"turnlog://session/{FROST}",
    "turnlog://session/0b29",
    "turnlog://session/no-such-session",
]
PROMPTS = [{}, {"session": HARVEST}, {"session": "no-such-session"}]
# Asked of a server that tells of one project.
SCOPED = [
    ("list_sessions", {}),
    ("session_overview", {"session": STORM}),
    ("past_calls", {"project": "/home/ada/lighthouse"}),
]
FILES = {*CALLS, "offered", "resources", "prompt", "scoped"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Everything that is compared, by the name of its file."""
    home = Home(tmp_path_factory.mktemp("mcp") / "ada")
    keep_versions(home.claude)
    found = anyio.run(asked_everything, home)
    return {name: stable(text, home.path) for name, text in found.items()}


def keep_versions(claude):
    """Keep a version of a file that FROST edited, as Claude Code does."""
    (log,) = claude.glob(f"projects/*/{FROST}.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    message = next(each["uuid"] for each in records if each["type"] == "user")
    at = "2026-10-19T08:20:00.000Z"
    kept = {EDITED: {"backupFileName": "abc@v1", "version": 1, "backupTime": at}}
    record = {
        "type": "file-history-snapshot",
        "messageId": message,
        "snapshot": {"messageId": message, "trackedFileBackups": kept, "timestamp": at},
        "isSnapshotUpdate": False,
    }
    with log.open("a") as lines:
        lines.write(json.dumps(record) + "\n")
    version = claude / "file-history" / FROST / "abc@v1"
    version.parent.mkdir(parents=True)
    version.write_text("def sunrise():\n    return NOON\n")


def server(home, *options):
    """Start the real server in *home*; return a client of it."""
    script = FIXED_CLOCK + "from turnlog.cli import main; main()"
    return Client(
        stdio_client(
            StdioServerParameters(
                command=sys.executable,
                args=["-c", script, "mcp", *options],
                env=home.environ(),
                cwd=home.path,
            )
        )
    )


async def asked_everything(home):
    async with server(home, "--project", "all") as client:
        found = {"offered": await offered(client)}
        for name, calls in CALLS.items():
            found[name] = await called(client, [(name, each) for each in calls])
        found["resources"] = "\n".join([await resource(client, each) for each in RESOURCES])
        found["prompt"] = "\n".join([await prompt(client, each) for each in PROMPTS])
    async with server(home, "--project", PROJECT) as client:
        tools = [each.name for each in (await client.list_tools()).tools]
        told = f"{client.instructions}\n\n{chr(10).join(tools)}\n\n"
        found["scoped"] = told + await called(client, SCOPED)
    return found


async def offered(client):
    """Return what the server says of itself, before anything is asked."""
    lists = {
        "tools": (await client.list_tools()).tools,
        "resources": (await client.list_resources()).resources,
        "templates": (await client.list_resource_templates()).resource_templates,
        "prompts": (await client.list_prompts()).prompts,
    }
    told = {
        name: [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in many]
        for name, many in lists.items()
    }
    return f"{client.instructions}\n\n{json.dumps(told, ensure_ascii=False, indent=1)}\n"


async def called(client, calls):
    parts, cursor = [], None
    for name, arguments in calls:
        given = arguments | ({"cursor": cursor} if arguments.get("cursor") == NEXT else {})
        result = await client.call_tool(name, given)
        (content,) = result.content
        assert result.structured_content is None
        error = "--- an error\n" if result.is_error else ""
        parts.append(part(f"{name} {json.dumps(arguments)}", content.text, error))
        cursor = next_cursor(content.text)
    return "\n".join(parts)


def next_cursor(text):
    found = re.search(r'"next": "([^"]+)"', text)
    return found and found[1]


async def resource(client, uri):
    try:
        (content,) = (await client.read_resource(uri)).contents
    except MCPError as error:
        return part(uri, str(error), f"--- error {error.code}\n")
    return part(uri, content.text, f"--- {content.mime_type}\n")


async def prompt(client, arguments):
    asked = f"continue {json.dumps(arguments)}"
    try:
        (message,) = (await client.get_prompt("continue", arguments)).messages
    except MCPError as error:
        return part(asked, str(error), f"--- error {error.code}\n")
    return part(asked, message.content.text, f"--- of the {message.role}\n")


def part(asked, text, rest):
    return f"=== {asked}\n{text}\n{rest}"


@pytest.mark.parametrize("name", sorted(FILES))
def test_the_server_answers_what_it_answered(name, answers):
    check(SNAPSHOTS / f"{name}.txt", answers[name])


def test_everything_offered_is_asked(answers):
    told = json.loads(answers["offered"].partition("\n\n")[2])
    assert [each["name"] for each in told["tools"]] == list(CALLS)
    assert [each["name"] for each in told["prompts"]] == ["continue"]
    assert len(told["resources"] + told["templates"]) == 2
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == FILES
