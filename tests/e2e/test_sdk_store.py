"""The official SDK runs the real `claude` on turnlog's session store.

What the program writes to its own home and what the SDK mirrors to the store agree record for
record. From the store a session goes on in a fresh process with an empty home, through the SDK or
by `claude --resume` on the store's own directory; turnlog lists it, prices it and moves it.
"""

import functools
import json
import os
import subprocess
import sys

import anyio
import claude_agent_sdk as sdk
import pytest

import turnlog
from e2e.fake_api import said_since
from e2e.orchard import arrived
from turnlog import build
from turnlog.formats import project_key
from turnlog.integrations.claude_agent_sdk import (
    ExportOutcome,
    TurnlogSessionStore,
    export_sessions,
    import_sessions,
)
from turnlog.sessions.reading.subagents import SUBAGENT_TOOLS
from turnlog.sessions.reading.threads import visible
from turnlog.storage.reader import Placed, read_log

NEVER_MIRRORED = "api-request"
WALK = "Walk the orchard"
FREELY = "--dangerously-skip-permissions"

# Started anew, this knows nothing but the store's directory.
PROGRAM = """
import json, sys
import anyio
from claude_agent_sdk import ClaudeAgentOptions, query
from turnlog.integrations.claude_agent_sdk import TurnlogSessionStore

async def main(prompt, root, options):
    options = ClaudeAgentOptions(session_store=TurnlogSessionStore(root), **options)
    async for message in query(prompt=prompt, options=options):
        pass
    print(json.dumps([message.session_id, message.is_error]))

anyio.run(main, *json.loads(sys.argv[1]))
"""


def walker(asked):
    """Make three calls in one response: two commands, and an agent that runs a third."""
    said = said_since(asked)
    words = " ".join(block["text"] for block in said if block["type"] == "text")
    if any(block["type"] == "tool_result" for block in said):
        return None
    if "Count the figs" in words:
        return [bash("toolu_figs", "echo nine")]
    if WALK not in words:
        return None
    told = {
        "description": "Count",
        "prompt": "Count the figs",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    (agent,) = SUBAGENT_TOOLS & {tool["name"] for tool in asked["tools"]}
    return [
        build.text("I walk."),
        bash("toolu_apples", "echo forty-two"),
        bash("toolu_plums", "echo seven"),
        build.call(agent, told, call_id="toolu_agent"),
    ]


def bash(call_id, command):
    return build.call("Bash", {"command": command, "description": "Look"}, call_id=call_id)


class Asking:
    """Asks through the SDK, with a store, on one of the two event loops."""

    def __init__(self, claude, api, root, backend):
        self.claude, self.api, self.backend = claude, api, backend
        self.store = TurnlogSessionStore(root)
        self.key = project_key(claude.project, environ={})
        api.answer = walker

    def __call__(self, prompt, *, claude=None, store=None, **options):
        """Ask; give the session's id and the messages of the last request."""
        claude = claude or self.claude
        store = store or self.store
        options = sdk.ClaudeAgentOptions(session_store=store, **options_of(claude), **options)

        async def asked():
            return [each async for each in sdk.query(prompt=prompt, options=options)]

        messages = self.run(asked)
        assert not [each for each in messages if isinstance(each, sdk.MirrorErrorMessage)]
        assert not messages[-1].is_error, messages[-1]
        return messages[-1].session_id, self.api.requests[-1]

    def run(self, function, *arguments, **options):
        return anyio.run(functools.partial(function, *arguments, **options), backend=self.backend)

    def held(self, session_id, **more):
        return self.run(
            self.store.load, {"project_key": self.key, "session_id": session_id, **more}
        )


def options_of(claude):
    return {
        "cwd": str(claude.project),
        "env": claude.environ,
        "permission_mode": "bypassPermissions",
    }


@pytest.fixture(params=["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
def ask(request, claude, api, tmp_path):
    return Asking(claude, api, tmp_path / "root", request.param)


def records_at(path):
    with read_log(path) as reader:
        items = list(reader)
    assert all(isinstance(item, Placed) for item in items)
    return [item.record.fields for item in items]


def mirrored(records):
    return [each for each in records if not each["type"].startswith(NEVER_MIRRORED)]


def without_metadata(entries):
    return [entry for entry in entries if entry["type"] != "agent_metadata"]


def prompts(messages):
    said = arrived(messages)
    return [words for role, kind, words in said if (role, kind) == ("user", "text")]


@pytest.mark.slow
def test_disk_and_store_agree_record_for_record(ask):
    session_id, sent = ask(WALK)
    kinds = [kind for _, kind, _ in arrived(sent)]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 3
    main = ask.claude.home / "projects" / ask.key / f"{session_id}.jsonl"
    on_disk = records_at(main)
    assert mirrored(on_disk) == ask.held(session_id)
    assert len(on_disk) > len(mirrored(on_disk))

    listed = {"project_key": ask.key, "session_id": session_id}
    (subpath,) = ask.run(ask.store.list_subkeys, listed)
    log = main.with_suffix("") / f"{subpath}.jsonl"
    entries = ask.held(session_id, subpath=subpath)
    assert mirrored(records_at(log)) == without_metadata(entries)
    meta = json.loads(log.with_suffix(".meta.json").read_bytes())
    (*_, told) = [entry for entry in entries if entry["type"] == "agent_metadata"]
    assert told == meta | {"type": "agent_metadata"}

    # What comes later is appended, and never rewritten.
    before = ask.held(session_id)
    ask("And pears?", resume=session_id)
    assert ask.held(session_id)[: len(before)] == before


def test_a_fresh_process_with_an_empty_home_goes_on(ask, tmp_path):
    """It is the same history, word for word, that a resume from the untouched home sends."""
    session_id, _ = ask(WALK)
    empty = ask.claude.at(tmp_path / "empty")
    given = ["And pears?", str(ask.store.root), {"resume": session_id, **options_of(empty)}]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(given)],
        env=os.environ | {"TURNLOG_HOME": str(tmp_path / "turnlog")},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [session_id, False]
    from_store = ask.api.requests[-1]
    assert not list((tmp_path / "empty").rglob("*.jsonl"))

    resumed = ask.claude("--resume", session_id, "-p", "And pears?", FREELY)
    assert resumed.returncode == 0, resumed.stderr
    assert arrived(from_store) == arrived(ask.api.requests[-1])
    assert prompts(from_store) == [WALK, "And pears?"]

    _, sent = ask("And quinces?", resume=session_id, claude=ask.claude.at(tmp_path / "other"))
    assert prompts(sent) == [WALK, "And pears?", "And quinces?"]


@pytest.mark.slow
def test_fork_and_continue(ask):
    first, _ = ask(WALK)
    before = ask.held(first)
    forked, sent = ask("And pears?", resume=first, fork_session=True)
    assert forked != first
    assert prompts(sent) == [WALK, "And pears?"]
    # The fork's records bear the uuids of those they were copied from: both sessions have them.
    uuids = {entry["uuid"] for entry in before if entry["type"] in {"user", "assistant"}}
    assert uuids <= {entry.get("uuid") for entry in ask.held(forked)}
    assert [each for each in ask.held(first) if each in before] == before

    again, sent = ask("And quinces?", continue_conversation=True)
    assert again == forked
    assert prompts(sent) == [WALK, "And pears?", "And quinces?"]
    fresh, sent = ask("Hello")
    assert fresh not in {first, forked}
    assert prompts(sent) == ["Hello"]
    listed = ask.run(ask.store.list_sessions, ask.key)
    assert [each["session_id"] for each in listed] == [fresh, forked, first]


@pytest.mark.slow
def test_claude_resumes_from_the_stores_own_directory_and_the_sdk_after_it(ask, tmp_path):
    session_id, _ = ask(WALK)
    root = ask.store.root
    before = ask.held(session_id)
    done = ask.claude.at(root)("--resume", session_id, "-p", "And pears?", FREELY)
    assert done.returncode == 0, done.stderr
    sent = ask.api.requests[-1]
    assert prompts(sent) == [WALK, "And pears?"]
    kinds = [kind for _, kind, _ in arrived(sent)]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 3
    after = ask.held(session_id)
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert after == records_at(root / "projects" / ask.key / f"{session_id}.jsonl")

    empty = ask.claude.at(tmp_path / "empty")
    _, sent = ask("And quinces?", resume=session_id, claude=empty)
    assert prompts(sent) == [WALK, "And pears?", "And quinces?"]
    session = turnlog.open(root).session(session_id)
    assert not session.tree.gaps
    words = [record.text for _, record in session.records(session.thread) if record.type == "user"]
    assert [each for each in words if each in prompts(sent)] == prompts(sent)


@pytest.mark.slow
def test_the_sdk_and_turnlog_tell_the_same_of_a_session(ask, tmp_path):
    session_id, _ = ask(WALK)
    directory = str(ask.claude.project)
    (listed,) = ask.run(sdk.list_sessions_from_store, ask.store, directory=directory)
    assert (listed.session_id, listed.summary) == (session_id, WALK)
    messages = ask.run(
        sdk.get_session_messages_from_store, ask.store, session_id, directory=directory
    )
    session = turnlog.open(ask.store.root).session(session_id)
    assert [each.uuid for each in messages] == [node.uuid for node in visible(session.thread)]
    (agent_id,) = ask.run(sdk.list_subagents_from_store, ask.store, session_id, directory=directory)
    (agent,) = session.subagents
    assert (agent.id, agent.spawn.call_id) == (agent_id, "toolu_agent")

    told = turnlog_json(ask, tmp_path, "sessions")
    assert [each["id"] for each in told["sessions"]] == [session_id]
    assert told["sessions"][0]["title"] == WALK
    costs = turnlog_json(ask, tmp_path, "cost", "session")
    # Two responses of the session and two of its agent, each of them counted once.
    assert costs["totals"]["messages"] == 4
    assert (costs["totals"]["input"], costs["totals"]["output"]) == (4 * 7, 4 * 3)


def turnlog_json(ask, tmp_path, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "turnlog.cli", *arguments, "--json", "--home", str(ask.store.root)],
        env=os.environ | {"TURNLOG_HOME": str(tmp_path / "turnlog")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_home_that_lagged_behind_the_store_is_brought_up_to_it(ask, tmp_path):
    """After a resume from the store the new turns are in the store alone."""
    session_id, _ = ask(WALK)
    ask("And pears?", resume=session_id)
    done = ask.run(export_sessions, ask.store, ask.claude.home, project_key=ask.key)
    assert {file.outcome for file in done.files} == {ExportOutcome.THERE, ExportOutcome.EXTENDED}
    resumed = ask.claude("--resume", session_id, "-p", "And quinces?", FREELY)
    assert resumed.returncode == 0, resumed.stderr
    assert prompts(ask.api.requests[-1]) == [WALK, "And pears?", "And quinces?"]

    # And the store catches up with the home.
    ask.run(import_sessions, ask.claude.home, ask.store)
    empty = ask.claude.at(tmp_path / "empty")
    _, sent = ask("And figs?", resume=session_id, claude=empty)
    assert prompts(sent) == [WALK, "And pears?", "And quinces?", "And figs?"]


@pytest.mark.slow
def test_a_session_moves_to_a_new_machine_and_on_from_there(ask, tmp_path):
    """Imported into a store of the SDK's own, exported to a new home, resumed by name."""
    done = ask.claude("-p", WALK, FREELY)
    assert done.returncode == 0, done.stderr
    (main,) = (ask.claude.home / "projects" / ask.key).glob("*.jsonl")
    session_id = main.stem
    store = sdk.InMemorySessionStore()
    assert ask.run(import_sessions, ask.claude.home, store).sessions == [session_id]
    new = ask.claude.at(tmp_path / "new")
    ask.run(export_sessions, store, new.home, project_key=ask.key)
    resumed = new("--resume", session_id, "-p", "And pears?", FREELY)
    assert resumed.returncode == 0, resumed.stderr
    from_new = ask.api.requests[-1]
    ask.claude("--resume", session_id, "-p", "And pears?", FREELY)
    assert arrived(from_new) == arrived(ask.api.requests[-1])
    assert prompts(from_new) == [WALK, "And pears?"]
    _, sent = ask("And quinces?", resume=session_id, store=store)
    assert prompts(sent) == [WALK, "And quinces?"]
