"""The real `claude` asks the server: what it is told goes into its next request, framed."""

import json
import os
import shlex
import sys

import pytest

from e2e.fake_api import blocks_of, said_since
from mcp_contexts import HUSHED, ORDER, OUT, SECRET, Log
from sampling import sampled
from turnlog.api.mcp_clients import client_settings
from turnlog.mcp.untrusted_text import NOTICE, unframed

EARLIER = "0a0a0a0a-1111-4111-8111-0a0a0a0a0a0a"


@pytest.fixture
def config(claude, tmp_path):
    """What `--mcp-config` is given: the server as it would be installed, for this Python."""
    found = client_settings(
        homes=(str(claude.home),),
        command=[sys.executable, "-m", "turnlog.cli"],
        environ={"TURNLOG_HOME": str(tmp_path / "own")},
    )
    (told,) = (each for each in found if each.where.startswith(".mcp.json"))
    path = tmp_path / "mcp.json"
    path.write_text(told.text)
    return path


def ask_for(name, arguments):
    """Give an answer for the fake API: ask for the tool once, and then be content."""

    def answer(asked):
        if not asked.get("tools"):  # It also asks for a title.
            return None
        if any(block["type"] == "tool_result" for block in said_since(asked)):
            return [{"type": "text", "text": "Now I know."}]
        return [{"type": "tool_use", "id": "toolu_mcp", "name": name, "input": arguments}]

    return answer


def results_in(api):
    """Every result of a tool that the program sent, as text."""
    for messages in api.requests:
        for message in messages:
            for block in blocks_of(message) if message["role"] == "user" else ():
                if block["type"] == "tool_result":
                    content = block["content"]
                    parts = content if isinstance(content, list) else [{"text": content}]
                    yield "".join(part.get("text", "") for part in parts)


@pytest.mark.parametrize(
    ("name", "arguments"),
    sampled(
        [
            ("search_history", {"query": "apples"}),
            ("list_sessions", {}),
            ("session_overview", {"session": EARLIER}),
        ],
        3,
    ),
)
def test_the_result_of_a_tool_is_in_the_next_request(claude, api, config, name, arguments):
    project = os.path.realpath(claude.project)
    Log(claude.home, EARLIER, project).say_everything()
    Log(claude.home, OUT, "/home/ada/elsewhere", word=HUSHED).say_everything()
    tool = f"mcp__turnlog__{name}"
    api.answer = ask_for(tool, arguments)
    done = claude(
        "-p", "What did we do?", "--mcp-config", str(config), "--strict-mcp-config",
        "--allowedTools", tool,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Now I know." in done.stdout
    (text,) = results_in(api)
    assert text.startswith(NOTICE)
    data = unframed(text)
    assert EARLIER[:8] in data
    assert ORDER in data
    assert ORDER not in text.replace(data, "")
    assert SECRET.secret not in text
    assert HUSHED not in text
    json.loads(data)


def test_the_command_that_is_printed_adds_the_server(claude):
    (told,) = (
        each
        for each in client_settings(
            homes=(str(claude.home),), command=[sys.executable, "-m", "turnlog.cli"], environ={}
        )
        if each.where == "shell"
    )
    _, *arguments = shlex.split(told.text)
    added = claude(*arguments)
    assert added.returncode == 0, added.stderr
    shown = claude("mcp", "get", "turnlog")
    assert "turnlog" in shown.stdout
    assert "-m turnlog.cli mcp --home" in shown.stdout
    assert "onnected" in shown.stdout, shown.stdout
